"""`heatproof focus bias`: what it writes, where its pictures come from, and what it refuses."""

from __future__ import annotations

import json
import re
import shutil
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import torch
from PIL import Image

import heatproof
from heatproof.clevr.objects import CLASSES, shipped_pictures
from heatproof.cli import main
from heatproof.errors import HeatproofError
from heatproof.experiments.bias import SHOWN_MOSAICS, write_bias
from heatproof.experiments.worst import OTHER, REST, TARGET, framed, labelled
from heatproof.mosaics.mosaics import Mosaic
from heatproof.run_folder import RunFolder
from heatproof.seals import sealed
from run_files import forget, write_manifest

LOOSE = {"below": 0.85, "level": 0.2}
"""So loose that pairs are found in a model without bias."""


OPTIONS = {"target": "both", "per_class": 12}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(tmp_path_factory.mktemp("home"))


@pytest.fixture(autouse=True)
def same_workspace(home: str, own_workspace: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """One cache folder for all tests here, because unpacking the shipped pictures takes a while."""
    monkeypatch.setenv("HEATPROOF_HOME", home)


@pytest.fixture(scope="module")
def kept(home: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run on the shipped pictures and classifier, with all heatmaps."""
    out = tmp_path_factory.mktemp("run") / "r"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HEATPROOF_HOME", home)
        heatproof.run("focus", explainers="grad_cam,random", keep_heatmaps=True, out=out, **OPTIONS)
    return out


@pytest.fixture
def folder(kept: Path, tmp_path: Path) -> Path:
    """The same without heatmaps."""
    copy = Path(shutil.copytree(kept, tmp_path / "r"))
    for explainer in ("grad_cam", "random"):
        forget(copy, f"heatmaps/{explainer}")
    return copy


def command(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *words: str) -> tuple[int, str, str]:
    """Exit code, standard output and standard error of `heatproof focus bias ...`."""
    monkeypatch.setattr(sys, "argv", ["heatproof", "focus", "bias", *words])
    with pytest.raises(SystemExit) as end:
        main()
    shown = capsys.readouterr()
    return end.value.code or 0, shown.out, shown.err


def test_what_is_written(folder, capsys, monkeypatch):
    code, out, _ = command(capsys, monkeypatch, str(folder), "--explainer", "grad_cam@logit", "--below", "0.85")
    place = folder / "sections" / "grad_cam@logit"
    pairs = pl.read_csv(place / "pairs.csv")
    assert code == 0
    assert len(pairs) == 30  # of six classes
    parts = pairs["focus"] + pairs["other_part"] + pairs["remaining_part"]
    assert parts.to_list() == pytest.approx([1] * 30)
    found = pairs.filter("found")
    tested = pairs["p"].count()
    assert tested == (pairs["n"] >= 5).sum()
    assert f"{len(found)} of {tested} pairs have a share significantly below 0.85" in out
    assert f"{30 - tested} more have too few mosaics and were not tested" in out
    assert f"{len(found)} of {tested} tested pairs found:" in (folder / "report.html").read_text()
    assert len(found) >= 1
    for row in found.iter_rows(named=True):
        assert f"{row['target_class']} is seen in {row['other_class']}: share {row['share']:.2f}" in out
    classes = pl.read_csv(place / "classes.csv")
    assert classes["n"].to_list() == [12] * 6
    focus = heatproof.load_run(folder).scores().filter(metric="focus", pooling="sum_pos", target="logit")
    means = focus.filter(explainer="grad_cam").group_by("target_class").agg(pl.col("value").mean())
    assert classes.sort("target_class")["focus"].to_list() == pytest.approx(
        means.sort("target_class")["value"].to_list()
    )
    assert (place / "matrix.svg").read_text().count("<rect") == 1 + 30
    assert "What the model confuses" in (folder / "report.html").read_text()


def test_the_lowest_pair_has_a_page_and_pictures(folder, capsys, monkeypatch):
    """Reference: the scores of the run, gone through one by one. The test finds nothing, and yet there is a page."""
    code, out, _ = command(capsys, monkeypatch, str(folder), "--explainer", "grad_cam@logit", "--count", "3")
    assert code == 0
    scores = heatproof.load_run(folder).scores()
    focus = scores.filter(metric="focus", pooling="sum_pos", target="logit", explainer="grad_cam")
    means = {label: focus.filter(target_class=label)["value"].mean() for label in set(focus["target_class"])}
    target = min(means, key=means.get)
    beside: dict[str, dict[str, float]] = {}
    for row in focus.filter(target_class=target).iter_rows(named=True):
        for label in {row[f"label_{i}"] for i in range(4)} - {target}:
            beside.setdefault(label, {})[row["case"]] = row["value"]
    partner = min(beside, key=lambda label: np.mean([*beside[label].values()]))
    cases = sorted(beside[partner], key=beside[partner].get)[:3]
    place = folder / "sections" / "grad_cam@logit" / f"{target}-beside-{partner}"
    assert f"shown: {len(cases)} mosaics of {target} beside {partner}" in out
    assert re.search(r"0 of \d+ pairs have a share significantly below 0.5; \d+ more have too few mosaics", out)
    assert "would have been found four times of five" in out
    assert f"for an expert {place / 'pair.html'}" in out
    mosaics = pl.read_csv(place / "mosaics.csv", schema_overrides={"case": pl.String})
    assert mosaics["case"].to_list() == cases
    named = [
        f"{number:02d}-{case}-{kind}.jpg" for number, case in enumerate(cases, 1) for kind in ("heatmap", "mosaic")
    ]
    assert sorted(path.name for path in place.glob("*.jpg")) == named
    assert Image.open(place / named[0]).size == (384, 384)  # tiles of 64 pixels are too small to write on
    page = (place / "pair.html").read_text()
    assert page.count("data:image/jpeg") == 2 * len(cases)
    assert "For you to judge." in page
    assert "What the test cannot say" in page
    report = (folder / "report.html").read_text()
    assert f"Lowest Focus: {target} beside {partner}" in report
    assert report.count("data:image/jpeg") == 2 * len(cases)


def test_nothing_tested_is_not_nothing_found(tmp_path, capsys, monkeypatch):
    """Two mosaics of each class: no pair has the five that a test takes, and nobody may read that as good news."""
    heatproof.run("focus", explainers=["grad_cam"], target="logit", per_class=2, out=tmp_path / "few")
    code, out, _ = command(capsys, monkeypatch, str(tmp_path / "few"), "--explainer", "grad_cam@logit")
    assert code == 0
    count = len(pl.read_csv(tmp_path / "few" / "sections" / "grad_cam@logit" / "pairs.csv"))
    assert f"test: none of {count} pairs has mosaics enough for a test, so nothing was tested" in out
    assert "no bias could have been seen, of whatever size" in out
    assert re.search(r"A test takes 5 of a pair, that is about \d+ of each class", out)
    assert re.search(r"a share of 40 %, four times of five, takes (some|at worst) [\d,]+ of each pair", out)
    assert "significantly" not in out
    page = (tmp_path / "few" / "report.html").read_text()
    assert "Nothing found." not in page
    assert re.search(r'class="[^"]*bad[^"]*"[^>]*>\s*<(b|strong)>Nothing tested\.', page)


def test_a_pair_that_is_asked_for(folder):
    asked = {"target": "metal_cube", "partner": "rubber_cube"}
    names = {"metal_cube": "cube of metal", "rubber_sphere": "ball"}
    first = heatproof.focus.bias(heatproof.load_run(folder), "grad_cam@logit", **asked)
    assert (first.target, first.partner) == ("metal_cube", "rubber_cube")
    assert first.mosaics["focus"].is_sorted()
    assert len(first.mosaics) <= 8
    second = heatproof.focus.bias(folder, "grad_cam@logit", **asked, names=names, count=1)
    assert second.target == "cube of metal"
    assert second.mosaics["case"].to_list() == first.mosaics["case"].to_list()[:1]
    assert second.classes["focus"].to_list() == first.classes["focus"].to_list()
    assert "ball" in second.pairs["target_class"]
    assert first.page.is_file(), "pages of other pairs stay"
    assert "As asked: cube of metal beside rubber_cube" in (folder / "report.html").read_text()


def test_classes_are_named_on_the_pictures():
    """Colours of the corners: what is written on them is for people."""
    mosaic = Mosaic("m", (Path(),) * 4, ("x", "y", "a very long name indeed of a class", "x"), "x")
    image = np.asarray(labelled(np.zeros((64, 64, 3)), mosaic, "y"))
    assert image.shape == (320, 320, 3)
    corners = [image[y, x] / 255 for y, x in ((1, 1), (1, 161), (161, 1), (161, 161))]
    for corner, colour in zip(corners, (TARGET, OTHER, REST, TARGET), strict=True):
        assert corner == pytest.approx(colour, abs=0.01)
    assert (image > 250).all(-1).any()
    assert image[60:155].max() == 0


def test_heatmaps_made_again_are_those_of_the_run(folder, kept, tmp_path):
    """Reference: the heatmaps that the run itself kept. Mosaics explained one at a time may differ in the last bit."""
    places = [folder, Path(shutil.copytree(kept, tmp_path / "kept"))]
    mine, theirs = (write_bias(place, "grad_cam@logit", **LOOSE).folder for place in places)
    names = sorted(path.name for path in theirs.glob("*.webp"))
    assert len(names) == 2 * len(pl.read_csv(theirs / "worst.csv")) >= 2 * SHOWN_MOSAICS
    for name in names:
        ours, kept_ones = (np.asarray(Image.open(place / name), dtype=int) for place in (mine, theirs))
        assert ours.shape == (128, 128, 3)
        assert abs(ours - kept_ones).mean() < 0.5


def test_stricter_limits_leave_no_old_pictures(folder):
    write_bias(folder, "grad_cam@logit", **LOOSE)
    found = write_bias(folder, "grad_cam@logit")
    assert not found.pairs["found"].any()
    assert not list(found.folder.glob("*.webp"))
    assert "Nothing found." in (folder / "report.html").read_text()


def test_pictures_that_cannot_be_made_are_named_and_the_pairs_kept(folder, capsys, monkeypatch):
    manifest = json.loads((folder / "run.json").read_text())
    words = (str(folder), "--explainer", "grad_cam@logit", "--below", "0.85")

    def change(**changes: object) -> tuple[int, str, str]:
        changed = {name: manifest[name] | change for name, change in changes.items() if isinstance(change, dict)}
        write_manifest(folder, manifest | changes | changed)
        return command(capsys, monkeypatch, *words)

    for changes, reason in (
        ({"models": {"object_classifier": "another"}}, "has changed since the run: models: {'object_classifier': 'ano"),
        ({"cases": "others"}, "the pictures have changed since the run"),
        ({"options": {"mosaics": "gone.csv"}}, "gone.csv cannot be read"),
    ):
        code, out, errors = change(**changes)
        assert code == 0
        assert "is seen in" in out
        assert "without pictures: " in errors
        assert reason in errors
        assert "Without pictures: " in (folder / "report.html").read_text()
        assert "for an expert" not in out
    assert not list((folder / "sections").rglob("*.webp")) + list((folder / "sections").rglob("*.jpg"))


def test_a_model_that_was_an_object(tmp_path):
    """It cannot be loaded again: pairs without pictures; with all heatmaps kept, pictures too."""
    torch.manual_seed(0)
    layers = (torch.nn.Conv2d(3, 6, 3, 2), torch.nn.ReLU(), torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten())
    options = {"images": shipped_pictures(), "model": torch.nn.Sequential(*layers), "per_class": 12, "tile": 16}
    for keep in (False, True):
        run = heatproof.run("focus", explainers="gradient", keep_heatmaps=keep, out=tmp_path / str(keep), **options)
        found = write_bias(run.folder, "gradient", below=0.9)
        assert found.pairs["found"].any()
        assert bool(list(found.folder.glob("*.webp"))) is keep
        assert (found.page is not None) is keep
        assert found.without_pictures is None if keep else "Python object" in found.without_pictures


def test_a_run_that_is_redone_loses_its_findings(folder):
    write_bias(folder, "random")
    page = folder / "report.html"
    heatproof.run("focus", explainers="random", out=folder, **OPTIONS)
    assert "What the model confuses" in page.read_text()
    heatproof.run("focus", explainers="random", out=folder, resume=False, **OPTIONS)
    assert "What the model confuses" not in page.read_text()


def test_heatmaps_that_do_not_follow_the_class_are_cautioned(tmp_path, capsys, monkeypatch):
    """Edges know nothing of the model: whatever they name is conspicuous, not confused."""
    heatproof.run("focus", explainers="edges,oracle", per_class=20, tile=32, out=tmp_path / "r")
    code, out, errors = command(capsys, monkeypatch, str(tmp_path / "r"), "--explainer", "edges", "--below", "0.6")
    assert code == 0
    assert "is seen in" in out
    assert "caution: over all classes, Focus of edges is not above chance" in errors
    assert "Caution:" in (tmp_path / "r" / "report.html").read_text()
    (sheet,) = (tmp_path / "r" / "sections").glob("edges/*/pair.html")
    assert "Caution:" in sheet.read_text()
    assert write_bias(tmp_path / "r", "oracle").follows_class


def test_names_are_text_on_the_page(folder):
    path = write_bias(folder, "grad_cam@logit", **LOOSE).folder / "section.json"
    text = path.read_text().replace("rubber_cube", "<i>rubber</i>_cube")
    content = {name: value for name, value in json.loads(text).items() if name != "sha256"}
    RunFolder(folder).store(path, sealed(content))
    page = heatproof.load_run(folder).report().read_text()
    assert "<i>rubber</i>" not in page
    assert "&lt;i&gt;rubber&lt;/i&gt;_cube" in page


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--explainer", "lrp"], "has no scores of lrp; it has: grad_cam, grad_cam, random"),
        (
            ["--explainer", "grad_cam"],
            "has several of grad_cam; name one of them: grad_cam@probability, grad_cam@logit",
        ),
        (["--explainer", "random", "--below", "1.5"], "below must lie between 0 and 1, got 1.5"),
        (["--explainer", "random", "--level", "0"], "level must lie between 0 and 1, got 0"),
        (["--explainer", "random", "--count", "0"], "count must be a whole number of at least 1, got 0"),
        (["--explainer", "random", "--target", "metal_cub"], "unknown class for target 'metal_cub'. Did you mean"),
        (["--explainer", "random", "--partner", "cat"], "unknown class for partner 'cat'. Known: metal_cube,"),
        (
            ["--explainer", "random", "--target", "metal_cube", "--partner", "metal_cube"],
            "target and partner are both metal_cube; a partner is another class",
        ),
        (["--explainer", "random", "--names", "gone.csv"], "gone.csv cannot be read"),
    ],
)
def test_bad_options(folder, capsys, monkeypatch, words, message):
    code, _, errors = command(capsys, monkeypatch, str(folder), *words)
    assert code == 2
    assert message in errors
    assert not (folder / "sections").exists()


def test_a_pair_without_mosaics(tmp_path, capsys, monkeypatch):
    """Of a mosaic per target, each shows two or three of the six classes."""
    run = heatproof.run("focus", explainers="oracle", per_class=1, out=tmp_path / "r")
    labels = set(run.scores().filter(target_class="metal_cube").select("^label_.*$").row(0))
    other = min(set(CLASSES) - labels)
    words = ("--explainer", "oracle", "--target", "metal_cube", "--partner", other)
    code, _, errors = command(capsys, monkeypatch, str(run.folder), *words)
    assert code == 2
    shown = ", ".join(sorted(labels - {"metal_cube"}))
    assert f"no mosaic of target metal_cube shows {other} and has positive relevance" in errors
    assert f"beside it are shown: {shown}." in errors


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ({"metal_cube": "box", "rubber_cube": "box"}, "names: 'box' is the name of two classes"),
        ({"metal_cube": ""}, "names: a class has an empty name"),
        ({"metal_cube": "rubber_cube"}, "names: 'rubber_cube' is another class already"),
    ],
)
def test_names_that_would_mix_classes_up(folder, names, message):
    with pytest.raises(HeatproofError, match=message):
        write_bias(folder, "random", names=names)


def test_runs_that_cannot_be_asked(folder, tmp_path, capsys, monkeypatch):
    def refused(place: Path, message: str) -> None:
        code, _, errors = command(capsys, monkeypatch, str(place), "--explainer", "random")
        assert code == 2
        assert message in errors

    refused(tmp_path / "nowhere", "holds no run")
    other = heatproof.run("svea", explainers="random", limit=500, out=tmp_path / "svea").folder
    refused(other, "is a run of svea, not of focus")
    forget(folder, "scores/random")
    refused(folder, "has no scores of random yet")
    (folder / "leaderboard.csv").unlink()
    refused(folder, "the run was interrupted. Run it again to go on.")


def test_frames_lie_around_target_and_other():
    mosaic = Mosaic("m", (Path(),) * 4, ("x", "y", "z", "x"), "x")
    image = framed(torch.zeros(64, 64, 3).numpy(), mosaic, "z")
    corners = [tuple(image[y, x].tolist()) for y, x in ((0, 0), (0, 63), (63, 0), (63, 63))]
    assert corners == [pytest.approx(TARGET), (0, 0, 0), pytest.approx(OTHER), pytest.approx(TARGET)]
    assert image[1:31, 1:31].max() == 0
