"""Scores of relevance on objects against their effects: literal versions, SciPy, and what theory knows."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy.stats import kendalltau, spearmanr

from heatproof.benchmarks.clevr_removal import rows
from heatproof.benchmarks.clevr_removal.painted import ObjectBatch, ObjectSize, TrueEffects
from heatproof.errors import HeatproofError
from heatproof.metrics import effects as on_effects
from heatproof.pooling import poolings
from heatproof.seeds import CaseRandom
from reference import metrics as reference

CASES, OBJECTS, SPACE = 12, 6, (9, 11)
TRUTHS = ("logit", "logit_abs", "probability", "probability_abs")


@pytest.fixture(scope="module")
def batch() -> ObjectBatch:
    """Cases of two to six objects; the last of the first case is not seen."""
    rng = np.random.default_rng(0)
    counts = [OBJECTS, *rng.integers(2, OBJECTS + 1, CASES - 1)]
    regions = np.stack([rng.integers(-3, count + 1, SPACE).clip(0) for count in counts])
    for case, count in enumerate(counts):
        regions[case].flat[:count] = np.arange(1, count + 1)
    truths = {name: np.full((CASES, OBJECTS), np.nan) for name in TRUTHS}
    for case, count in enumerate(counts):
        effects = rng.normal(size=count) * rng.choice([0.01, 1.0], count)
        effects[0] = 3.0
        for name in TRUTHS:
            truths[name][case, :count] = np.abs(effects) if name.endswith("_abs") else effects
    regions[0][regions[0] == counts[0]] = 0
    for name in TRUTHS:
        truths[name][1] = np.nan  # nothing matters in this one
    return ObjectBatch(
        torch.zeros(CASES, 3, *SPACE),
        torch.zeros(CASES).long(),
        tuple(map(str, range(CASES))),
        regions=torch.as_tensor(regions),
        truths={name: torch.as_tensor(truth) for name, truth in truths.items()},
    )


def literal(heatmap, regions, effects) -> dict[str, float]:
    """All scores of one case as the formulas read."""
    found: dict[str, float] = {}
    pixels = list(zip(heatmap.ravel().tolist(), regions.ravel().tolist(), strict=True))
    total = math.fsum(value for value, _ in pixels)
    on = {k: [value for value, number in pixels if number == k] for k in range(len(effects) + 1)}
    seen = [k for k in range(1, len(effects) + 1) if on[k] and not math.isnan(effects[k - 1])]
    truth = [float(effects[k - 1]) for k in seen]
    sums = [math.fsum(on[k]) for k in seen]
    for over, values in (("sum", sums), ("mean", [math.fsum(on[k]) / len(on[k]) for k in seen])):
        found[f"effect_kendall_{over}"] = kendalltau(values, truth).statistic
        found[f"effect_spearman_{over}"] = spearmanr(values, truth).statistic
        best = [k for k, value in zip(seen, values, strict=True) if value == max(values)]
        most = [k for k, value in zip(seen, truth, strict=True) if value == max(truth)]
        found[f"effect_top1_{over}"] = sum(k in most for k in best) / len(best)
    sizes = [abs(value) for value in truth]
    found["effect_mass"] = math.fsum(
        min(mass / total, size / math.fsum(sizes)) for mass, size in zip(sums, sizes, strict=True)
    )
    idle = [mass for mass, size in zip(sums, sizes, strict=True) if size < 0.05 * max(sizes)]
    found["idle_share"] = math.fsum(idle) / math.fsum(value for k in on if k > 0 for value in on[k])
    found["no_object_share"] = math.fsum(on[0]) / total
    return found


@pytest.mark.parametrize("pooling", [*poolings, rows.SIGNED])
def test_scores_equal_the_literal_ones(batch, pooling):
    relevance = torch.randn(CASES, 3, *SPACE, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    table = rows.score_table(batch, relevance, list(poolings))
    by = {(r["case"], r["metric"], r["ground_truth"], r["pooling"]): r for r in table.iter_rows(named=True)}
    for case in (0, *range(2, CASES)):
        heatmap = np.zeros(SPACE)
        for place in np.ndindex(*SPACE):
            channels = relevance[(case, slice(None), *place)].tolist()
            heatmap[place] = sum(channels) if pooling == rows.SIGNED else reference.pooled(channels, pooling)
        for truth in TRUTHS:
            wanted = literal(heatmap, batch.regions[case].numpy(), batch.truths[truth][case].numpy())
            for metric, value in wanted.items():
                if metric == "no_object_share":
                    key = (str(case), metric, "", pooling)
                else:
                    key = (str(case), metric, truth, pooling)
                if key in by:
                    assert by[key]["value"] == pytest.approx(value, abs=1e-12), key
                else:
                    assert pooling == rows.SIGNED or not truth.endswith("_abs")


def test_a_case_in_which_nothing_matters_has_no_truth(batch):
    """Its scores are undefined for every map alike, and count for nobody."""
    table = rows.score_table(batch, torch.rand(CASES, 1, *SPACE).double(), ["sum_pos"])
    silent = table.filter((table["case"] == "1") & (table["ground_truth"] != ""))
    assert silent["value"].is_nan().all()
    assert silent["uniform"].is_null().all()


def score(batch, explainer) -> dict[tuple[str, str, str], list[float]]:
    relevance = explainer(torch.nn.Identity(), batch, CaseRandom(0, "x"))
    table = rows.score_table(batch, relevance, list(poolings))
    table = table.filter(table["case"] != "1")
    keys = ["metric", "ground_truth", "pooling"]
    return {tuple(key): part["value"].to_list() for key, part in table.group_by(keys)}


@pytest.fixture(scope="module")
def seen_batch(batch) -> ObjectBatch:
    """All but the case with an object that is not seen: nobody can paint what has no place."""
    return batch[1:]


@pytest.mark.parametrize("truth", TRUTHS)
@pytest.mark.parametrize("over", ["sum", "mean"])
def test_the_ceiling_scores_exactly_one(seen_batch, truth, over):
    found = score(seen_batch, TrueEffects(truth=truth, over=over))
    for pooling in poolings:
        for name in ("effect_kendall", "effect_spearman", "effect_top1"):
            assert set(found[f"{name}_{over}", truth, pooling]) == {1.0}
        assert set(found["no_object_share", "", pooling]) == {0.0}
        if over == "sum" and truth.endswith("_abs") and not pooling.endswith("_sq"):
            assert found["effect_mass", truth, pooling] == pytest.approx([1.0] * (CASES - 2), abs=1e-12)


def test_a_map_that_is_the_same_everywhere_orders_nothing_and_wins_nothing(seen_batch):
    table = rows.score_table(seen_batch, torch.ones(CASES - 1, 1, *SPACE), ["sum_pos"])
    known = table.filter(table["case"] != "1")
    density = known.filter(known["metric"].str.ends_with("_mean"))
    assert density["value"].is_nan().all()
    assert set(density.filter(density["metric"] != "effect_top1_mean")["uniform"]) == {0.0}
    rest = known.filter(~known["metric"].str.ends_with("_mean"))
    defined = rest.filter(rest["value"].is_not_nan())
    assert len(defined) > 0.9 * len(rest)  # equal areas order nothing either
    assert defined["value"].to_list() == defined["uniform"].to_list()
    ceiling = score(seen_batch, TrueEffects(over="sum"))
    for metric in ("effect_kendall_sum", "effect_spearman_sum", "effect_top1_sum", "effect_mass"):
        uniform = rest.filter((rest["metric"] == metric) & (rest["ground_truth"] == "logit_abs"))["uniform"].mean()
        assert uniform < np.mean(ceiling[metric, "logit_abs", "sum_pos"]) - 0.3


def test_maps_without_any_relevance_are_undefined_but_count(batch):
    table = rows.score_table(batch, torch.zeros(CASES, 1, *SPACE), ["sum_pos"])
    known = table.filter(table["case"] != "1")
    assert known["value"].is_nan().all()
    assert known["uniform"].is_not_null().all()
    broken = rows.score_table(batch, torch.full((CASES, 1, *SPACE), torch.nan), ["l1_norm"])
    assert broken["value"].is_nan().all()


def test_random_maps_correlate_with_nothing_by_density():
    """Theory: the expected rank correlation of independent orders is 0; 4 standard errors over 400 cases."""
    rng = np.random.default_rng(3)
    relevance, effects = rng.random((400, 6)), rng.normal(size=(400, 6))
    for name in (on_effects.effect_kendall, on_effects.effect_spearman):
        values = name(relevance, effects)
        assert abs(values.mean()) < 4 * values.std() / 20
    hits = on_effects.effect_top1(relevance, effects)
    assert abs(hits.mean() - 1 / 6) < 4 * hits.std() / 20


def test_object_size_orders_objects_by_their_areas(seen_batch):
    """Reference: counted positions; the same order by sum and by density."""
    relevance = ObjectSize()(torch.nn.Identity(), seen_batch, CaseRandom(0, "x"))
    for case in range(len(seen_batch)):
        region = seen_batch.regions[case]
        for number in region.unique():
            share = (region == number).sum().item() / region.numel() if number else 0.0
            assert relevance[case, 0][region == number].unique().item() == pytest.approx(share)


def test_painted_maps_need_objects(picture_net):
    with pytest.raises(HeatproofError, match="only clevr-removal and svea-removal know"):
        TrueEffects()(picture_net.model, picture_net.batch, CaseRandom(0, "x"))
    with pytest.raises(HeatproofError, match="only clevr-removal and svea-removal know"):
        ObjectSize()(picture_net.model, picture_net.batch, CaseRandom(0, "x"))


def test_effects_of_a_name_that_is_not_there(seen_batch):
    with pytest.raises(HeatproofError, match="no effects 'loglit'; there are: logit"):
        TrueEffects(truth="loglit")(torch.nn.Identity(), seen_batch, CaseRandom(0, "x"))
