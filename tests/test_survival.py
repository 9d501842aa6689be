"""What a run folder goes through: damage, two owners, a lost run.json, a folder that vanishes, a full disk."""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import polars as pl
import polars.selectors as cs
import pytest
import torch
from chaos.mounts import read_only

import heatproof
from heatproof.errors import HeatproofError
from heatproof.locks import held
from heatproof.report.sections import read_sections, write_section
from heatproof.story import Paragraph, Plate, Section
from heatproof.workspace import sweep, write_whole
from tiny_datasets import flip

TESTS = Path(__file__).parent
pytestmark = pytest.mark.usefixtures("toy")
EXPLAINERS = ("gradient", "random")


def run_toy(folder: Path, explainers=EXPLAINERS, **options) -> heatproof.Run:
    return heatproof.run("toy", explainers=list(explainers), target="logit", out=folder, **options)


def numbers(run: heatproof.Run) -> list[object]:
    """All that is the same in two runs: scores of cases and their means, without what was measured."""
    rows = run.scores().filter(~pl.col("metric").is_in(["seconds", "memory"])).drop("machine", strict=False)
    table = run.leaderboard().drop(cs.contains("seconds", "memory"))
    return [rows.sort("explainer", "case", "metric").rows(), table.sort("explainer", "metric").rows()]


@pytest.fixture(scope="module")
def made(toy, tmp_path_factory) -> heatproof.Run:
    run = run_toy(tmp_path_factory.mktemp("made") / "run", keep_heatmaps=True)
    name = run.manifest["explainers"][0]["folder"]
    place = run.files.path("sections", name)
    place.mkdir(parents=True)
    (place / "drawn.svg").write_text("<svg xmlns='http://www.w3.org/2000/svg'/>")
    plate = Plate("Drawn", "some", [("a circle", "drawn.svg"), ("not made", "none.svg")])
    write_section(run.files, name, Section("Words", (Paragraph("some"), plate)))
    return run


@pytest.fixture
def folder(made, tmp_path) -> Path:
    return shutil.copytree(made.folder, tmp_path / "run")


def read_all(folder: Path) -> list[object]:
    """Whatever tables and pages read."""
    run = heatproof.load_run(folder)
    files = run.files
    arrays = [files.heatmaps(entry["folder"], "net") for entry in run.manifest["explainers"]]
    plain = [sorted((case, heat.tolist()) for case, heat in found.items()) for found in arrays]
    kept = {name: array.tolist() for name, array in files.examples().items()}
    shown = files.example_scores()
    assert shown is not None
    told = [run.verdict.plain(), run.statistics().rows(), read_sections(files), run.failures(), run.manifest["story"]]
    return [*numbers(run), plain, kept, shown.filter(~pl.col("metric").is_in(["seconds", "memory"])).rows(), *told]


# Damage

READ = (
    "run.json", "parts.jsonl", "summary.parquet", "verdict.json", "leaderboard.csv", "statistics.csv",
    "heatmaps/examples.npz", "heatmaps/examples.parquet", "scores/*/*.parquet", "heatmaps/*/*.npz",
    "sections/*/section.json", "sections/*/drawn.svg",
)  # fmt: skip


@pytest.mark.parametrize("how", ["flipped", "cut", "emptied", "removed"])
@pytest.mark.parametrize("pattern", READ)
def test_what_is_damaged_is_named_or_says_the_same(pattern, how, made, folder):
    path = sorted(folder.glob(pattern))[0]
    size = path.stat().st_size
    if how == "flipped":
        flip(path, [size // 2])
    elif how == "removed":
        path.unlink()
    else:
        os.truncate(path, size // 2 if how == "cut" else 0)
    name = folder.name if how == "removed" and pattern == "run.json" else path.name
    with pytest.raises(HeatproofError, match=rf"{name}|has no line in parts\.jsonl"):
        read_all(folder)
    again = run_toy(folder, keep_heatmaps=True)
    assert numbers(again) == numbers(made)
    assert len(again.verdict.contests) == len(made.verdict.contests) > 0
    if "section" in pattern:
        assert f"{path.parent.name} was damaged and is removed" in again.manifest["said"][0]
        assert not path.parent.exists()
    read_all(folder)


def test_a_section_holds_what_it_held_last(made, folder):
    """Files that are gone when a section is written again are not missed."""
    name = made.manifest["explainers"][0]["folder"]
    run = heatproof.load_run(folder)
    run.files.path("sections", name, "drawn.svg").unlink()
    write_section(run.files, name, Section("Words", (Paragraph("others"),)))
    assert read_sections(heatproof.load_run(folder).files)[0]["blocks"][0]["text"] == "others"


def test_a_lost_failure_is_missed_and_tried_again(toy, tmp_path):
    """A table without it would not say that something failed."""

    def cursed(model: torch.nn.Module, inputs: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        raise RuntimeError("not today")

    run = run_toy(tmp_path / "r", explainers=["gradient", cursed])
    failed = sorted(tmp_path.glob("r/failures/*/*.json"))
    assert len(run.failures()) == len(failed) > 0
    failed[0].unlink()
    with pytest.raises(HeatproofError, match=f"{failed[0].name} is missing"):
        heatproof.load_run(tmp_path / "r").failures()
    assert len(run_toy(tmp_path / "r", explainers=["gradient", cursed]).failures()) == len(failed)


def test_what_was_made_by_others_is_missed_too(folder):
    """A part of an explainer that is not computed now: the table must not be made without it."""
    part = sorted((folder / "scores").glob("random*/*.parquet"))[0]
    part.unlink()
    with pytest.raises(HeatproofError, match=rf"{part.name} cannot be read"):
        run_toy(folder, explainers=["gradient"])


def test_all_heatmaps_can_be_asked_for_later(tmp_path):
    run_toy(tmp_path / "r")
    later = run_toy(tmp_path / "r", keep_heatmaps=True)
    (entry, _) = later.manifest["explainers"]
    assert len(later.files.heatmaps(entry["folder"], "net")) == 20
    written = {path: path.stat().st_mtime_ns for path in later.folder.glob("heatmaps/*/*.npz")}
    run_toy(tmp_path / "r", keep_heatmaps=True)
    assert {path: path.stat().st_mtime_ns for path in later.folder.glob("heatmaps/*/*.npz")} == written


# run.json


@pytest.mark.parametrize("content", [None, b"", b"{", b"[" * 100_000, b"\xff\xfe", b"{}", b'{"sha256": 1}'])
def test_a_lost_run_json_is_made_anew(content, made, folder):
    """With the parts that are there: nothing is computed again."""
    (folder / "run.json").unlink()
    if content is not None:
        (folder / "run.json").write_bytes(content)
    parts = {path: path.stat().st_mtime_ns for path in folder.glob("scores/*/*.parquet")}
    with pytest.raises(HeatproofError, match=r"run\.json"):
        heatproof.load_run(folder)
    again = run_toy(folder, keep_heatmaps=True)
    assert "run.json was lost or damaged, and is made anew" in again.manifest["said"][0]
    assert numbers(again) == numbers(made)
    assert {path: path.stat().st_mtime_ns for path in folder.glob("scores/*/*.parquet")} == parts


def test_a_lost_run_json_of_another_run_is_refused_and_can_be_redone(folder):
    (folder / "run.json").write_text("{")
    with pytest.raises(HeatproofError, match=r"lost or damaged.*--no-resume"):
        run_toy(folder, seed=4)
    assert run_toy(folder, seed=4, resume=False).manifest["configuration"]["seed"] == 4


# What killed processes leave


def gone() -> int:
    """The number of a process that is no more."""
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        pass
    return process.pid


@pytest.mark.parametrize("name", ["..writable.{}.part", ".run.json.{}.part", ".lock"])
def test_a_run_that_was_killed_at_once_can_be_begun_again(name, tmp_path):
    (tmp_path / "r").mkdir()
    (tmp_path / "r" / name.format(gone())).write_text("half of")
    run_toy(tmp_path / "r", explainers=["random"])
    assert not [path for path in (tmp_path / "r").iterdir() if path.name.startswith(".")]


def test_temporary_files_of_the_dead_are_swept_and_of_the_living_kept(tmp_path):
    (tmp_path / "below").mkdir()
    dead = tmp_path / "below" / f".a.npz.{gone()}.part"
    living = tmp_path / "below" / f".a.npz.{os.getpid()}.part"
    folder = tmp_path / f".masks.{gone()}.part"
    for path in (dead, living, folder / "1.npy", tmp_path / ".part"):
        write_whole(path, Path.touch)
    sweep(tmp_path)
    assert not dead.exists()
    assert not folder.exists()
    assert living.exists()
    assert (tmp_path / ".part").exists()


# Two owners


def test_a_folder_has_one_owner(tmp_path):
    """The second says who holds it; a dead owner holds nothing."""
    out = tmp_path / "r"
    holds = (
        "import sys, time; sys.argv[1:] = ['run', 'x']; from heatproof.locks import held; from pathlib import Path\n"
    )
    holds += f"with held(Path({str(out)!r})):\n    print('holds', flush=True)\n    time.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", holds], stdout=subprocess.PIPE) as owner:
        assert owner.stdout is not None
        assert owner.stdout.readline() == b"holds\n"
        with pytest.raises(HeatproofError, match=rf"r is in use: process {owner.pid} on .* since \d{{4}}-.*run x"):
            run_toy(out)
        assert [path.name for path in out.iterdir()] == [".lock"]
        owner.send_signal(signal.SIGKILL)
    run = run_toy(out, explainers=["random"])
    assert run.leaderboard().height
    assert not (out / ".lock").exists()


def test_a_lock_is_let_go_of_and_not_taken_twice(tmp_path):
    with held(tmp_path):
        for _ in range(2):
            with pytest.raises(HeatproofError, match=f"process {os.getpid()}"), held(tmp_path):
                pass
    with held(tmp_path):
        assert json.loads((tmp_path / ".lock").read_text())["process"] == os.getpid()
    assert not list(tmp_path.iterdir())


def test_a_folder_that_was_made_for_nothing_is_gone(tmp_path):
    """What was there before stays, and so does what anything was written into."""
    (tmp_path / "old").mkdir()
    for name, written in (("old", False), ("new", False), ("deep/new", False), ("used", True)):
        with held(tmp_path / name):
            if written:
                (tmp_path / name / "file").touch()
    assert [(tmp_path / name).is_dir() for name in ("old", "new", "deep/new", "used")] == [True, False, False, True]
    with pytest.raises(HeatproofError, match="does not exist"):
        heatproof.evaluate(tmp_path / "nothing.npy", benchmark="svea", out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


# A folder that changes under way


def test_a_folder_that_vanishes_ends_the_run_with_a_sentence(tmp_path):
    out = tmp_path / "r"
    calls = []

    def removing(model, inputs, target):
        calls.append(1)
        if len(calls) == 2:
            out.rename(tmp_path / "moved")
        return inputs

    with pytest.raises(HeatproofError, match=r"run\.json is gone while the run writes to it"):
        run_toy(out, explainers=[removing], engine="local")
    assert not out.exists()
    assert len(list((tmp_path / "moved").glob("scores/*/*.parquet"))) == 1, "what was computed is there"


def test_a_folder_that_becomes_read_only_ends_the_run_with_a_sentence(tmp_path):
    """Root writes wherever file modes forbid it, but not below a mount that is read-only."""
    out, calls, closing = tmp_path / "r", [], ExitStack()

    def closes(model, inputs, target):
        calls.append(1)
        if len(calls) == 2:
            if os.getuid():
                for folder in (out, *out.rglob("*/")):
                    folder.chmod(0o555)
                    closing.callback(folder.chmod, 0o755)
            elif not closing.enter_context(read_only(out)):
                pytest.skip("may not mount")
        return inputs

    with closing, pytest.raises(HeatproofError, match=r"cannot write .*(Read-only|Permission).* Choose a folder"):
        run_toy(out, explainers=[closes], engine="local")
    assert len(list(out.glob("scores/*/*.parquet"))) == 1, "what was computed is there"
    assert not run_toy(out, explainers=[closes], engine="local").failures()


def test_parts_that_vanish_are_missed(tmp_path):
    """The table of what is left would be wrong."""
    out = tmp_path / "r"
    calls = []

    def removing(model, inputs, target):
        calls.append(1)
        if len(calls) == 3:
            shutil.rmtree(out / "scores")
        return inputs

    with pytest.raises(HeatproofError, match=r"2 of 3 parts have vanished from .*run again"):
        run_toy(out, explainers=[removing], engine="local")
    assert run_toy(out, explainers=[removing], engine="local").leaderboard().height


SMALL_DISK = """
import resource, sys
sys.path.insert(0, {tests!r})
resource.setrlimit(resource.RLIMIT_FSIZE, ({most}, {most}))
from heatproof.cli import main
sys.argv = ["heatproof", "run", {tests!r} + "/toy_benchmark.py:Toy", "--target", "logit", "--out", {out!r}, *{more!r}]
main()
"""


def run_limited(out: Path, most: int, *more: str) -> subprocess.CompletedProcess[str]:
    code = SMALL_DISK.format(tests=str(TESTS), most=most, out=str(out), more=more)
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)


@pytest.mark.parametrize("most", [0, 20_000])
def test_where_nothing_more_can_be_written_the_run_says_so_and_goes_on_later(most, tmp_path):
    """A limit on the size of files stands for a full disk: the system refuses to write more."""
    out = tmp_path / "r"
    done = run_limited(out, most)
    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr
    assert "cannot write" in done.stderr
    assert not list(out.rglob("*.part"))
    stored = {path: path.stat().st_mtime_ns for path in out.glob("scores/*/*.parquet")}
    again = run_limited(out, resource.RLIM_INFINITY)
    assert again.returncode == 0, again.stderr
    assert {path: path.stat().st_mtime_ns for path in stored} == stored
    assert heatproof.load_run(out).leaderboard().height
