"""No score of CLEVR-XAI can be won without looking at the question: floors on the shipped scenes, metric by metric.

References: theory (a map that ignores the question has selectivity 0, a uniform one what is stated), and counting.
"""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from heatproof.benchmarks.clevr_xai import rows
from heatproof.benchmarks.clevr_xai.company import NOBODY, Company, differ, find_company, paired
from heatproof.benchmarks.clevr_xai.further import EVERYTHING
from heatproof.benchmarks.floors import baseline_maps
from heatproof.clevr import open_dataset
from heatproof.clevr.ground_truth import KINDS
from heatproof.clevr.shipped import shipped_dataset
from heatproof.metrics import metrics
from heatproof.metrics.mask_scores import SIGNED

SIZE = (128, 128)
PER_PICTURE = 4
MAPS = ("constant", "random", "centre", "edges", "own", "other")
POOLED = [name for name in rows.METRICS if name not in SIGNED]
"""Without the confusion matrix of signed maps, which no table shows: recall is 1 for a map without a minus."""
SELECTIVE = [name for name in rows.METRICS if "selectivity" in name]


class Scored:
    """Maps that know nothing of a network, scored on four questions about each shipped picture."""

    def __init__(self, name: str) -> None:
        data = open_dataset(shipped_dataset())
        everything = data.questions(name)
        self.questions = rows.spread(everything, PER_PICTURE * len(data.scenes))
        self.kinds = rows.ground_truths(data, name, SIZE)
        index = [question.index for question in self.questions]
        self.company: Company = find_company(data, name, self.kinds, SIZE, 0, index)
        masks = {kind: data.masks(name, kind).batch(index) for kind in self.kinds}
        pictures = np.stack([np.asarray(q.picture()).transpose(2, 0, 1) / 255 for q in self.questions])
        first = self.kinds[0]
        drawn = {kind: baseline_maps(kind, [str(i) for i in index], SIZE, pictures, None) for kind in MAPS[:4]}
        drawn["own"] = masks[first][:, None].astype(float)
        drawn["other"] = self.company.masks(name, first, index)[:, None].astype(float)
        facts = rows.question_facts(self.questions)
        poolings = ["pos_l2_norm_sq", "max_norm"]
        self.rows = {
            kind: rows.score_table(name, facts, maps, masks, poolings, self.company).filter(
                pl.col("pooling") == pl.col("metric").replace_strict(rows.SHOWN_POOLINGS)
            )
            for kind, maps in drawn.items()
        }

    def of(self, maps: str, metric: str) -> dict[str, pl.DataFrame]:
        """The rows that have a truth, by kind."""
        own = self.rows[maps].filter(pl.col("uniform").is_not_null(), metric=metric)
        return {str(kind): group for (kind,), group in own.group_by("ground_truth", maintain_order=True)}


@pytest.fixture(scope="module", params=["simple", "complex"])
def scored(request) -> Scored:
    return Scored(request.param)


def half_interval(values: pl.Series) -> float:
    """Of the mean; three standard errors, since many means are looked at."""
    return 3 * float(values.std()) / np.sqrt(len(values)) + 1e-12


@pytest.mark.parametrize("metric", POOLED)
def test_uniform_and_random_maps_stay_at_the_stated_floor(scored, metric):
    """Every metric of the table: a uniform map gets what its rows say, exactly, and a random one no more on average."""
    assert metrics[metric].uniform in ("mask_share", "scene")
    better = 1 if metrics[metric].higher_is_better else -1
    found = scored.of("constant", metric)
    assert found
    for rows_of_kind in found.values():
        assert rows_of_kind["value"].to_list() == pytest.approx(rows_of_kind["uniform"].to_list(), abs=1e-12)
    for rows_of_kind in scored.of("random", metric).values():
        above = better * (rows_of_kind["value"] - rows_of_kind["uniform"])
        assert above.mean() <= half_interval(above)


@pytest.mark.parametrize("metric", [name for name in POOLED if name != "off_objects"])
def test_the_true_map_of_another_question_wins_nothing(scored, metric):
    """It may find objects, but of those that the own question is about, fewer than the own map; selectivity falls."""
    kind = scored.kinds[0]
    own, other = (scored.of(maps, metric)[kind] for maps in ("own", "other"))
    both = own.join(other, on="case").filter(~pl.col("value").is_nan() & ~pl.col("value_right").is_nan())
    assert (both["value"] - both["value_right"]).mean() > 0.5
    if metric in SELECTIVE:
        assert both["value_right"].mean() < -0.5


@pytest.mark.parametrize("metric", SELECTIVE)
@pytest.mark.parametrize("maps", ["constant", "centre", "edges"])
def test_what_ignores_the_question_has_no_selectivity(scored, maps, metric):
    for rows_of_kind in scored.of(maps, metric).values():
        values = rows_of_kind["value"].drop_nans()
        assert abs(values.mean()) <= half_interval(values)


def test_a_uniform_map_finds_as_many_objects_as_chance(scored):
    """By counting: n of N objects decide."""
    for kind, rows_of_kind in scored.of("constant", "object_top_n_mean").items():
        chance = rows_of_kind["truth_objects"] / rows_of_kind["objects"]
        assert rows_of_kind["value"].to_list() == pytest.approx(chance.to_list())
        assert kind != EVERYTHING


def test_the_other_question_is_about_the_same_picture_and_has_another_truth(scored):
    company, name = scored.company, scored.questions[0].set
    known = {question.index: question for question in company.data.questions(name)}
    for kind in scored.kinds:
        rule = KINDS[name][kind]
        for index, other in company.others[kind].items():
            one, two = known[index], known[other]
            assert one.record["image_filename"] == two.record["image_filename"]
            objects = len(one.scene["objects"])
            assert differ(rule(one.program, objects), rule(two.program, objects))
    assert not company.others[EVERYTHING]


def test_pairs_are_drawn_by_the_seed_and_mutual_where_they_can_be():
    """By hand: of 1, 2 and 3 any two are a pair and one is left over; 4 is within 1; 5 has what 1 has."""
    truths = {1: frozenset({0, 1}), 2: frozenset({2}), 3: frozenset({3}), 4: frozenset({0}), 5: frozenset({0, 1})}
    seen = set()
    for seed in range(20):
        pairs = paired(truths, seed)
        assert set(pairs) == set(truths)
        assert all(differ(truths[one], truths[other]) for one, other in pairs.items())
        assert sum(pairs[other] == one for one, other in pairs.items()) in (2, 4)
        assert pairs == paired(truths, seed)
        seen.add(tuple(sorted(pairs.items())))
    assert len(seen) > 1
    assert paired({1: frozenset({0}), 2: frozenset({0, 1})}, 0) == {}


def test_a_question_without_company_has_no_other(scored):
    company = scored.company
    without = Company(company.data, SIZE, {kind: {} for kind in scored.kinds}, company.truths, company.files)
    index = [scored.questions[0].index]
    assert without.any_other(index) == [NOBODY]
    assert not without.masks(scored.questions[0].set, scored.kinds[0], index).any()
