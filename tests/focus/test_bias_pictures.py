"""What single pictures draw: against scipy and brute force, on planted draws, through a run, and what cannot be."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from PIL import Image
from scipy import stats
from torch import nn

import heatproof
from heatproof.benchmarks.focus import Focus
from heatproof.errors import HeatproofError
from heatproof.experiments.bias import write_bias
from heatproof.experiments.planted_photos import marked, validate
from heatproof.mosaics.facts import picture_facts
from heatproof.mosaics.mosaics import MosaicSettings, draw_mosaics
from heatproof.mosaics.pictures import Pictures
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


def test_the_marked_pictures_of_a_run_are_named_and_shown(biased_run):
    found = write_bias(biased_run.folder)
    assert found.drawn is not None
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
