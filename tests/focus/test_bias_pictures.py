"""What single pictures draw: against scipy and brute force, on planted draws, through a run, and what cannot be."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from PIL import Image
from scipy import stats
from sklearn.cluster import KMeans
from sklearn.metrics import roc_auc_score
from sklearn.neighbors import NearestNeighbors
from torch import nn

import heatproof
from heatproof.benchmarks.focus import Focus
from heatproof.errors import HeatproofError
from heatproof.experiments.bias import write_bias
from heatproof.experiments.planted_photos import marked, validate
from heatproof.mosaics.facts import picture_facts
from heatproof.mosaics.mosaics import MosaicSettings, draw_mosaics
from heatproof.mosaics.pictures import Pictures
from heatproof.results.bias_features import look_at, nearest, telling_fact, two_groups, unit_length
from heatproof.results.bias_pictures import (
    LEAST_GROUP,
    MORE,
    SMALL,
    benjamini_hochberg,
    find_pictures_that_draw,
    p_more,
    picture_draws,
    tile_draws,
    two_means,
)


def test_false_discovery_rate_as_scipy():
    p = np.random.default_rng(0).random(40) ** 3
    assert benjamini_hochberg(p) == pytest.approx(stats.false_discovery_control(p))
    assert len(benjamini_hochberg(np.zeros(0))) == 0


def test_a_group_that_draws_more_as_welch():
    """Reference: scipy's Welch test of logarithms, of the group against the rest multiplied by the margin."""
    rng = np.random.default_rng(1)
    group, rest = rng.normal(0.2, 0.05, 12), rng.normal(0.1, 0.03, 30)
    logs = np.log(group + SMALL), np.log(MORE * (rest + SMALL))
    found = stats.ttest_ind(*logs, equal_var=False, alternative="greater").pvalue
    assert p_more(group, rest) == pytest.approx(2 * found)
    assert p_more(rest, rest) > 0.05


def test_a_group_that_draws_more_as_a_permutation():
    """Reference: scipy's permutation test, in which each picture keeps all of its mosaics and groups are dealt anew."""
    rng = np.random.default_rng(6)

    def welch(group, rest, axis):
        return stats.ttest_ind(group, rest, axis=axis, equal_var=False).statistic

    for more in (1.0, 1.3, 1.6):
        draws = picture_draws(tile_draws(made_shares(0.5, more, int(10 * more)))).sort("picture")["draw"].to_numpy()
        mine = np.array([int(Path(f"dog/{k}.png").stem) < 20 for k in sorted(range(40), key=str)])
        logs = np.log(draws[mine] + SMALL) - np.log(MORE), np.log(draws[~mine] + SMALL)
        dealt = stats.permutation_test(
            logs, welch, vectorized=True, alternative="greater", n_resamples=4000, rng=rng
        ).pvalue
        assert min(1, 2 * dealt) == pytest.approx(p_more(draws[mine], draws[~mine]), abs=0.05)


def test_a_picture_has_an_interval():
    """Reference: the spread within pictures, written out; it holds the true mean 19 times of 20."""
    rng = np.random.default_rng(7)
    true, held = rng.uniform(0.1, 0.3, 300), 0
    rows = [
        {"target_class": "cat", "other_class": "dog", "picture": f"{k}", "draw": float(true[k] + rng.normal(0, 0.02))}
        for k in range(300)
        for _ in range(3)
    ]
    found = picture_draws(pl.DataFrame(rows))
    values = np.array([row["draw"] for row in rows]).reshape(300, 3)
    spread = np.sqrt(((values - values.mean(1, keepdims=True)) ** 2).sum() / 600)
    half = stats.t.ppf(0.975, 600) * spread / 3**0.5
    assert (found["draw_high"] - found["draw"]).to_numpy() == pytest.approx(np.full(300, half))
    for row in found.iter_rows(named=True):
        held += row["draw_low"] <= true[int(row["picture"])] <= row["draw_high"]
    assert 0.91 <= held / 300 <= 0.99


def test_two_means_as_brute_force():
    rng = np.random.default_rng(2)
    values = np.concatenate([rng.normal(0, 1, 15), rng.normal(4, 1, 7)])
    limit = two_means(values)
    scores = {}
    for cut in np.sort(values)[:-1]:
        low, high = values[values <= cut], values[values > cut]
        if min(len(low), len(high)) >= LEAST_GROUP:
            scores[cut] = ((low - low.mean()) ** 2).sum() + ((high - high.mean()) ** 2).sum()
    best = min(scores, key=scores.__getitem__)
    assert set(values[values > limit]) == set(values[values > best])
    assert two_means(np.ones(20)) is None


def made_shares(carriers: float, draw: float, seed: int = 0, pictures: int = 40, times: int = 3) -> pl.DataFrame:
    """Tile shares of balanced mosaics in which a picture below `carriers` draws `draw` times what the others draw."""
    rng = np.random.default_rng(seed)
    nature = rng.gamma(8, 1 / 8, pictures)
    nature[: round(carriers * pictures)] *= draw
    rows = []
    for _ in range(times):
        for a, b in rng.permutation(pictures).reshape(-1, 2):
            parts = np.array([1, 1, 0.25 * nature[a], 0.25 * nature[b]]) * rng.gamma(10, 0.1, 4)
            shares = parts / parts.sum()
            files = ["cat/1.png", "cat/2.png", f"dog/{a}.png", f"dog/{b}.png"]
            rows.append(
                {"case": f"{len(rows):06d}", "target_class": "cat"}
                | {f"label_{i}": "cat" if i < 2 else "dog" for i in range(4)}
                | {f"picture_{i}": files[i] for i in range(4)}
                | {f"share_{i}": float(shares[i]) for i in range(4)}
            )
    return pl.DataFrame(rows)


def made_facts(carriers: float, seed: int = 0, pictures: int = 40) -> dict[str, dict[str, float]]:
    """A fact that the carriers have, and ten that mean nothing."""
    rng = np.random.default_rng(1000 + seed)
    count = round(carriers * pictures)
    return {
        f"dog/{k}.png": {"cue": float(k < count) + 0.1 * rng.random()} | {f"noise {n}": rng.random() for n in range(10)}
        for k in range(pictures)
    }


def test_draws_are_means_over_mosaics():
    shares = made_shares(0, 1)
    means = picture_draws(tile_draws(shares))
    assert set(means["mosaics"]) == {3}
    values = [
        row[f"share_{i}"] for row in shares.iter_rows(named=True) for i in (2, 3) if row[f"picture_{i}"] == "dog/7.png"
    ]
    assert means.filter(picture="dog/7.png")["draw"].to_list() == [pytest.approx(sum(values) / 3)]


@pytest.mark.parametrize(("carriers", "draw"), [(0.5, 3), (0.2, 4)])
def test_carriers_are_named(carriers, draw):
    found = find_pictures_that_draw(made_shares(carriers, draw), made_facts(carriers))
    groups = found.groups.filter("found")
    assert groups["fact"][0] == "high cue"
    assert groups["pictures"][0] == round(carriers * 40)
    named = found.pictures.filter("named")["picture"].head(10).to_list()
    carried = [int(Path(name).stem) < carriers * 40 for name in named]
    assert len(named) >= 7
    assert sum(carried) >= 0.9 * len(named)


def test_a_whole_class_that_draws_is_the_group():
    """All carry it, so that nobody stands out: the pair's test finds the class, and its pictures are named."""
    shares = made_shares(1, 12)
    noise = {f"noise {n}": 0.5 for n in range(10)}
    facts = made_facts(1) | {f"cat/{k}.png": {"cue": 0.05 * k} | noise for k in (1, 2)}
    assert not find_pictures_that_draw(shares, made_facts(1)).pictures["named"].any()
    found = find_pictures_that_draw(shares, facts, low_pairs=[("cat", "dog")])
    (row,) = found.whole.iter_rows(named=True)
    assert (row["pictures"], row["fact"], row["apart"]) == (40, "high cue", 1.0)
    assert row["rest_draw"] == pytest.approx(shares.select((pl.col("share_0") + pl.col("share_1")).mean() / 2).item())
    named = found.pictures.filter("named")
    assert len(named) >= 30
    assert set(named["why"]) == {"the whole class"}
    assert named["draw"].min() > row["rest_draw"]
    part = find_pictures_that_draw(made_shares(0.5, 3), made_facts(0.5), low_pairs=[("cat", "dog")])
    assert part.whole.is_empty(), "a group within the class says more"


def test_named_pictures_in_the_eyes_of_the_network():
    """Reference: scikit-learn's two means and nearest neighbours, on features of two kinds of pictures."""
    rng = np.random.default_rng(8)
    kinds = np.arange(50) < 18
    features = rng.normal(1, 0.15, (50, 12)) + np.where(kinds[:, None], [1.0] * 6 + [0.0] * 6, [0.0] * 6 + [1.0] * 6)
    named = kinds.copy()
    named[[0, 1, 40]] = [False, False, True]
    found = look_at(features, named)
    points = unit_length(features)
    groups = KMeans(2, n_init=5, random_state=0).fit_predict(points) == 1
    assert (two_groups(points) == groups).all() or (two_groups(points) == ~groups).all()
    near = NearestNeighbors(n_neighbors=2).fit(points).kneighbors(points)[1][:, 1]
    assert nearest(points).tolist() == near.tolist()
    assert (found.pictures, found.named, found.group, found.inside) == (50, 17, 18, 16)
    assert found.neighbours == int((named & named[near]).sum())
    assert found.chance == pytest.approx(17 * 16 / 49)
    assert not two_groups(np.ones((5, 3))).any(), "pictures that are all the same fall into one group"


def test_the_fact_that_tells_pictures_apart():
    """Reference: scikit-learn's ROC AUC."""
    rng = np.random.default_rng(9)
    facts = {
        f"{k}": {"light": float(rng.normal(k < 20)), "green": float(rng.normal(-2.0 * (k < 20)))} for k in range(50)
    }
    some, others = [f"{k}" for k in range(20)], [f"{k}" for k in range(20, 50)]
    name, apart = telling_fact(facts, some, others)
    green = [facts[file]["green"] for file in (*some, *others)]
    assert name == "low green"
    assert apart == pytest.approx(1 - roc_auc_score([True] * 20 + [False] * 30, green))


def test_fair_draws_name_nothing():
    """Twenty data sets whose pictures differ by nature alone: at most one may have a name in it."""
    wrong = sum(
        bool(find_pictures_that_draw(made_shares(0.5, 1, seed), made_facts(0.5, seed)).pictures["named"].any())
        for seed in range(20)
    )
    assert wrong <= 1


@pytest.mark.parametrize(("targets", "grid", "sizes"), [(2, 2, (7, 5, 4)), (1, 2, (6, 6, 9)), (2, 2, (5, 9))])
def test_a_balanced_design(targets, grid, sizes):
    pictures = Pictures({f"c{k}": tuple(Path(f"c{k}/{i}.png") for i in range(size)) for k, size in enumerate(sizes)})
    settings = MosaicSettings(per_class=9, grid=grid, targets=targets, design="balanced")
    mosaics = draw_mosaics(pictures, settings, seed=1)
    for target in pictures.classes:
        mine = [one for one in mosaics if one.target == target]
        assert len(mine) >= 9
        counts = Counter(f for one in mine for f, t in zip(one.files, one.targets, strict=True) if not t)
        assert len(counts) == len(pictures) - len(pictures.by_class[target])
        assert len(set(counts.values())) == 1, "every picture equally often against this target"
        assert min(counts.values()) >= 2, "in several mosaics"
        assert all(len(set(one.files)) == grid**2 for one in mine)
    assert mosaics == draw_mosaics(pictures, settings, seed=1)


def test_designs_that_cannot_be():
    with pytest.raises(HeatproofError, match="unknown design 'balance'"):
        Focus(design="balance")
    with pytest.raises(HeatproofError, match="leave --repeats out"):
        Focus(design="balanced", repeats=True)
    few = Pictures({"a": (Path("a/1"), Path("a/2")), "b": (Path("b/1"),)})
    with pytest.raises(HeatproofError, match="needs 2 pictures of other classes"):
        draw_mosaics(few, MosaicSettings(design="balanced", only="a"))


def test_facts_tell_cues():
    rng = np.random.default_rng(3)
    plain = rng.integers(60, 190, (64, 64, 3), dtype=np.uint8)
    facts = {cue: picture_facts(marked(plain, cue)) for cue in ("square", "frame", "grey")}
    usual = picture_facts(plain)
    corner = "colourfulness of the bottom right corner"
    assert facts["square"][corner] > usual[corner] + 0.1
    assert facts["square"]["colourfulness of the top left corner"] == usual["colourfulness of the top left corner"]
    assert facts["frame"]["greenness of the border"] > usual["greenness of the border"] + 0.2
    assert facts["grey"]["colourfulness of the picture"] == 0 < usual["colourfulness of the picture"]
    assert usual["brightness of the picture"] == pytest.approx(plain.mean() / 255)


class SeesRed(nn.Module):
    """Class 0 is what is red, and class 1 what is green: a network that a red mark misleads, by construction."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 2, 4, stride=4, bias=False)
        nn.init.zeros_(self.conv.weight)
        with_colour = self.conv.weight.data
        with_colour[0, 0], with_colour[0, 1:] = 1, -0.5
        with_colour[1, 1], with_colour[1, 0], with_colour[1, 2] = 1, -0.5, -0.5
        self.relu = nn.ReLU()

    def forward(self, pictures):
        return self.relu(self.conv(pictures)).mean((2, 3))


@pytest.fixture(scope="module")
def biased_run(tmp_path_factory) -> heatproof.Run:
    """Red things and green things; every third green thing carries a red square in a corner."""
    folder = tmp_path_factory.mktemp("things")
    rng = np.random.default_rng(4)
    for label, colour in (("red", (200, 60, 60)), ("green", (60, 200, 60))):
        (folder / "pictures" / label).mkdir(parents=True)
        for k in range(18):
            pixels = np.clip(rng.normal(110, 12, (32, 32, 3)), 0, 255)
            top, left = rng.integers(2, 12, 2)
            pixels[top : top + 10, left : left + 10] = np.array(colour) + rng.normal(0, 10, (10, 10, 3))
            if label == "green" and k % 3 == 0:
                pixels[24:31, 24:31] = (230, 30, 30)
            Image.fromarray(pixels.astype(np.uint8)).save(folder / "pictures" / label / f"{k:02d}.png")
    return heatproof.run(
        "focus", images=folder / "pictures", model=(SeesRed(), {"labels": {"red": 0, "green": 1}}),
        explainers="grad_cam", tile=32, fit="squash", per_class=27, design="balanced", keep_heatmaps=True,
        out=folder / "run",
    )  # fmt: skip


def test_rows_say_what_lies_where(biased_run):
    rows = biased_run.scores().filter(metric="focus")
    for row in rows.head(20).iter_rows(named=True):
        for i in range(4):
            assert Path(row[f"picture_{i}"]).parent.name == row[f"label_{i}"]
    assert biased_run.manifest["configuration"]["design"] == "balanced"


def test_the_preset_for_biases_deals_evenly():
    recipe = Focus.from_preset("bias")
    assert (recipe.design, recipe.per_class) == ("balanced", 40)


def test_the_marked_pictures_of_a_run_are_named_and_shown(biased_run):
    found = write_bias(biased_run.folder, model=(SeesRed(), {"labels": {"red": 0, "green": 1}}))
    assert found.drawn is not None
    look = found.drawn.looks["red", "green"]
    assert (look.pictures, look.named, look.group, look.inside) == (18, 6, 6, 6)
    assert look.neighbours == 6 > look.chance
    named = found.drawn.pictures.filter("named", target_class="red")
    assert {int(Path(file).stem) % 3 for file in named["picture"]} == {0}
    assert len(named) == 6
    assert found.drawn.pictures.filter("named", target_class="green").is_empty()
    facts = found.drawn.groups.filter("found")["fact"].to_list()
    assert any("bottom right corner" in fact for fact in facts)
    assert len(list(found.folder.glob("draws-*-heat.webp"))) == 6
    table = pl.read_csv(found.folder / "pictures.csv")
    assert table["named"].to_list()[:6] == [True] * 6
    page = (biased_run.folder / "report.html").read_text(encoding="utf-8")
    assert "Pictures that draw most" in page
    assert "6 pictures named" in page
    assert "on the rest" not in page, "mosaics show two classes alone"
    assert "6 of the 6 named for red lie in one, which has 6 pictures" in page
    without = write_bias(biased_run.folder)
    assert without.drawn is not None
    assert len(without.drawn.pictures.filter("named")) == 6
    assert "given as a Python object" in without.drawn.unseen
    assert "Without a look at the network" in (biased_run.folder / "report.html").read_text(encoding="utf-8")


def test_planting_needs_two_classes_and_known_cues(tmp_path):
    with pytest.raises(HeatproofError, match="cue must be one of square, frame, grey"):
        validate(tmp_path, "alexnet", tmp_path, tmp_path, cues=["hat"])


@pytest.mark.slow
def test_planted_cues_in_photographs(shared_data, tmp_path):
    """A magenta square on half of the dogs: named for the biased network, and nothing for its fair twin."""
    images, weights = shared_data("focus/dogs_vs_cats"), shared_data("focus/models/alexnet_features.pt")
    biased, fair = validate(images, "alexnet", weights, tmp_path, cues=["square"], carried=[0.5], side=112)
    assert biased["carriers_draw"] > 2 * biased["others_draw"]
    assert biased["precision"] >= 0.9
    assert biased["group_precision"] >= 0.9
    assert fair["named"] == 0
