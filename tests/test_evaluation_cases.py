"""Heatmaps made elsewhere are looked at as those of a run are. Reference: the data sets and the heatmaps themselves."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from scipy import ndimage

import heatproof
from heatproof import mnist1d
from heatproof.api import evaluate
from heatproof.benchmarks.focus import Focus
from heatproof.clevr import open_dataset
from heatproof.clevr.ground_truth import make_masks
from heatproof.mosaics.mosaics import assemble, read_mosaics, write_mosaics
from tiny_datasets import write_world


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = write_world(tmp_path_factory.mktemp("world") / "world", scenes=4, per_image=3)
    make_masks(open_dataset(folder), (32, 32))
    return folder


def noise(names: list[str], shape: tuple[int, ...], folder: Path) -> dict[str, np.ndarray]:
    """A heatmap for each name, as files."""
    folder.mkdir()
    maps = {name: np.random.default_rng(place).normal(size=shape) for place, name in enumerate(names)}
    for name, heat in maps.items():
        np.save(folder / f"{name}.npy", heat)
    return maps


def assert_kept(run: heatproof.Run, maps: dict[str, np.ndarray], names: dict[str, str]) -> None:
    """The examples' heatmaps are there with their channels added up, and the page shows them."""
    entry, *baselines = run.manifest["explainers"]
    for baseline in baselines:
        assert set(run.files.heatmaps(baseline["folder"], "elsewhere")) == set(run.story.examples)
    kept = run.files.heatmaps(entry["folder"], "elsewhere")
    assert set(kept) == set(run.story.examples)
    for case, heat in kept.items():
        whole = maps[names[case]]
        assert heat[0] == pytest.approx(whole if whole.ndim == heat.ndim - 1 else whole.sum(0), rel=1e-5)
    page = (run.folder / "report.html").read_text(encoding="utf-8")
    assert 'class="cases"' in page
    for title in run.story.examples.values():
        assert title in page


FLOORS = ("random", "centre", "constant", "edges")


def sobel_length(picture: np.ndarray) -> np.ndarray:
    """Reference: SciPy's Sobel filter, borders repeated."""
    return np.hypot(*(ndimage.sobel(picture.astype(np.float64), axis, mode="nearest") for axis in (0, 1)))


def test_questions_with_their_pictures(world, tmp_path):
    maps = noise([str(index) for index in range(12)], (3, 32, 32), tmp_path / "mine")
    run = evaluate(tmp_path / "mine", dataset=world, out=tmp_path / "r")
    assert_kept(run, maps, {case: str(int(case.rpartition("-")[2])) for case in run.story.examples})
    arrays = run.files.examples()
    families = {entry["explainer"]: entry["family"] for entry in run.manifest["explainers"]}
    assert families == {"mine": "other", "oracle": "ceiling"} | dict.fromkeys(FLOORS, "floor")
    edges = run.files.heatmaps("edges", "elsewhere")
    for case, picture in zip(arrays["ids"].tolist(), arrays["inputs"], strict=True):
        assert edges[case][0] == pytest.approx(sobel_length(picture.mean(0)), abs=1e-5)
    questions = {f"simple-{question.index:06d}": question for question in open_dataset(world).questions("simple")}
    for place, case in enumerate(arrays["ids"].tolist()):
        question = questions[case]
        assert arrays["mask.single_object"][place].tolist() == question.mask("single_object").tolist()
        assert arrays["inputs"][place].transpose(1, 2, 0).mean() == pytest.approx(
            question.picture().mean() / 255, abs=0.02
        )
        assert run.story.examples[case].startswith(question.text)


def test_a_data_set_without_pictures_is_scored_and_shows_none(world, tmp_path):
    bare = tmp_path / "bare"
    shutil.copytree(world, bare)
    for path in (bare / "images").rglob("*.png"):
        path.unlink()
    noise([str(index) for index in range(12)], (3, 32, 32), tmp_path / "mine")
    run = evaluate(tmp_path / "mine", dataset=bare, out=tmp_path / "r")
    assert 'class="cases"' not in (run.folder / "report.html").read_text(encoding="utf-8")


def test_mosaics_with_their_tiles(tmp_path):
    recipe = Focus(per_class=1)
    mosaics = write_mosaics(recipe.draw(0)[0], tmp_path / "mosaics", *recipe.shape())
    drawn = {mosaic.name: mosaic for mosaic in read_mosaics(mosaics)}
    maps = noise(list(drawn), (20, 20), tmp_path / "mine")
    run = evaluate(tmp_path / "mine", benchmark="focus", mosaics=mosaics, out=tmp_path / "r")
    assert_kept(run, maps, {case: case for case in run.story.examples})
    arrays = run.files.examples()
    for place, case in enumerate(arrays["ids"].tolist()):
        tiles = np.kron(np.reshape(drawn[case].targets, (2, 2)), np.ones((10, 10)))
        assert (arrays["mask.target_quadrants"][place] == tiles).all()
        whole = assemble(drawn[case], 10, "squash") / 255
        assert arrays["inputs"][place].transpose(1, 2, 0) == pytest.approx(whole, abs=0.01)


def test_signals_with_their_regions(tmp_path):
    train, test = mnist1d.published()
    np.savez(tmp_path / "mine.npz", train=np.abs(train.x), test=np.abs(test.x))
    run = evaluate(tmp_path / "mine.npz", benchmark="svea", out=tmp_path / "r")
    places = {case: int(case.rpartition("-")[2]) for case in run.story.examples}
    assert len(places) == 100
    assert_kept(run, {case: np.abs(test.x[place]) for case, place in places.items()}, {case: case for case in places})
    arrays = run.files.examples()
    assert arrays["inputs"][:, 0] == pytest.approx(test.x[list(places.values())])
    starts = {mark.case: mark.start for mark in run.story.marks if mark.explainer == "mine"}
    for case, place in places.items():
        assert starts[case] == min(max(np.abs(test.x[place]).argmax() - 6, 0), 28)
        assert run.story.examples[case] == f"digit {test.y[place]}"
