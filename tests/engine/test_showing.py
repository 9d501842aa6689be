"""Which cases are shown: named, right or wrong, best or worst; references are the rows of runs."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

import heatproof
from heatproof.benchmarks import Benchmark, benchmarks
from heatproof.cli.app import app
from heatproof.cli.benchmark_options import with_options
from heatproof.engine.showing import is_right
from heatproof.engine.wanted import Wanted
from heatproof.errors import HeatproofError
from heatproof.loading import load_object
from heatproof.metrics import metrics

SVG = "{http://www.w3.org/2000/svg}"
TOY = str(Path(__file__).parents[1] / "toy_benchmark.py") + ":Toy"


@pytest.fixture(scope="module")
def toy() -> Iterator[type[Benchmark]]:
    """The toy from its file; what it registers is gone for other tests."""
    before = set(sys.modules)
    with pytest.MonkeyPatch.context() as patch:
        for registry in (benchmarks, metrics):
            patch.setattr(registry, "_entries", dict(registry.items()))
        yield load_object(TOY)
    for name in set(sys.modules) - before:
        if "toy_benchmark" in name:
            del sys.modules[name]


def written(path: Path, kind: str) -> list[str]:
    return [e.text or "" for e in ElementTree.parse(path).iter(f"{SVG}text") if e.get("class") == kind]


def cases(path: Path) -> list[str]:
    """The names of the cases in a picture, from top to bottom."""
    return [re.split("[:,]", title)[0] for title in written(path, "title")]


def test_named_cases_come_in_their_order(tmp_path: Path) -> None:
    """Each once, whatever chunk they are in."""
    names = ["test-0011", "train-0700", "test-0002", "test-0011"]
    path = heatproof.show("svea", names, explainers="gradient", out=tmp_path / "a.svg")
    assert cases(path) == names[:3]
    assert written(path, "soft") == ["svea"]


def test_best_and_worst_are_those_of_a_run(tmp_path: Path) -> None:
    """SVEA's first metric, the ROE test, is of all signals together: then it is Drop, better where it is lower.

    Reference: the rows of a run over the same signals.
    """
    run = heatproof.run("svea", explainers="gradient", target="logit", limit=60, out=tmp_path / "run")
    ranked = run.scores().filter(metric="drop").sort("value", maintain_order=True)
    for pick, rows in (("best", ranked), ("worst", ranked.sort("value", descending=True, maintain_order=True))):
        said: list[str] = []
        path = heatproof.show(
            "svea", pick=pick, count=3, explainers="gradient,random", limit=60, out=tmp_path / "a.svg", say=said.append
        )
        assert cases(path) == rows["case"].to_list()[:3]
        values = [f"Drop {100 * value:.1f} %" for value in rows["value"].to_list()[:3]]
        assert [title.rpartition(", ")[2] for title in written(path, "title")] == values
        assert said == [f"svea: the {pick} 3 of 12 candidates, evenly from 12 cases, by Drop of gradient"]


def test_a_score_that_is_made_at_the_end_is_made_for_candidates(tmp_path: Path) -> None:
    """Focus under the paper's pooling, which is another for smoothgrad. Reference: the rows of a run."""
    spec = "smoothgrad:samples=2,sigma=0.2"
    run = heatproof.run("focus", explainers=spec, limit=6, out=tmp_path / "run")
    rows = run.scores().filter(metric="focus", pooling="max_norm").sort("value", descending=True)
    path = heatproof.show("focus", pick="best", count=2, explainers=spec, limit=6, out=tmp_path / "a.svg")
    assert cases(path) == rows["case"].to_list()[:2]
    assert written(path, "title")[0].endswith(f", Focus {100 * rows['value'][0]:.1f} %")


def test_right_and_wrong_are_what_the_model_says(tmp_path: Path) -> None:
    """Reference: the facts in a run's rows. A wrong case tells what the model said."""
    run = heatproof.run("svea", explainers="random", limit=500, out=tmp_path / "run")
    facts = run.scores().filter(metric="drop").unique("case").sort("case")
    for pick in ("right", "wrong"):
        path = heatproof.show("svea", pick=pick, count=5, explainers="random", limit=500, out=tmp_path / "a.svg")
        rows = facts.filter(correct=pick == "right").head(5)
        assert cases(path) == rows["case"].to_list()
        titles = written(path, "title")
        said = [
            f": digit {label} (wrong; the model says {predicted})"
            for label, predicted in zip(rows["label"], rows["predicted"], strict=True)
        ]
        assert [mark in title for mark, title in zip(said, titles, strict=True)] == [pick == "wrong"] * 5


def test_candidates_are_so_many_and_spread_evenly(tmp_path: Path, toy: type[Benchmark]) -> None:
    """Only these are explained to find the best, and those that are drawn once more."""
    calls: list[int] = []
    told: list[tuple[str, float, float]] = []

    def counting(model, inputs, target):
        calls.append(len(inputs))
        return inputs

    heatproof.show(
        toy(signals=19),
        pick="best",
        count=2,
        candidates=4,
        explainers=[counting],
        out=tmp_path / "a.svg",
        progress=lambda *what: told.append(what),
    )
    assert sum(calls) == 4 + 2
    assert ("scoring candidates", 4, 4) in told
    assert ("explaining", 2, 2) in told
    # All are candidates where there are no more; the mean position of |signal| is the score.
    path = heatproof.show(toy(signals=19), pick="best", count=1, explainers=[counting], out=tmp_path / "b.svg")
    signals = torch.rand(19, 1, 30, generator=torch.Generator().manual_seed(0))[:, 0].double()
    lateness = (signals * torch.linspace(0, 1, 30).double()).sum(1) / signals.sum(1)
    assert cases(path) == [str(int(lateness.argmax()))]
    assert written(path, "soft") == ["toy: the best of 19 candidates, evenly from 19 cases, by Lateness of counting"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"case": "test-9999"}, "svea has no case 'test-9999'; its cases are called like"),
        ({"case": ["test-0001", "tset-0007"]}, "svea has no case 'tset-0007'; its cases are called like test-0007"),
        ({"case": "test-0001", "pick": "best"}, "either the cases or pick, not both: test-0001 or best"),
        ({}, "say which case to draw, or pick right, wrong, best, worst"),
        ({"pick": "bset"}, "unknown pick 'bset'. Did you mean 'best'"),
        ({"case": "test-0001", "count": 2}, "count says how many cases to pick"),
        ({"pick": "best", "count": 0}, "count must be a whole number of at least 1, got 0"),
        ({"pick": "best", "candidates": 0}, "candidates must be a whole number of at least 1, got 0"),
        ({"case": "test-0001", "out": "a.jpg"}, "cannot tell the format of 'a.jpg'"),
    ],
)
def test_bad_arguments_are_named(arguments, words, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(HeatproofError, match=re.escape(words)):
        heatproof.show("svea", **arguments, explainers="random", limit=100)
    assert not list(tmp_path.iterdir())


def test_a_benchmark_without_right_and_wrong_says_so(tmp_path: Path, toy: type[Benchmark]) -> None:
    with pytest.raises(HeatproofError, match="toy does not say which cases its model gets right; name the cases, or"):
        heatproof.show(toy(), pick="right", out=tmp_path / "a.svg")
    with pytest.raises(HeatproofError, match=r"gets none of the \d+ cases of clevr-xai wrong.*show clevr-xai --help"):
        heatproof.show("clevr-xai", pick="wrong", limit=5, explainers="random", out=tmp_path / "a.svg")


@pytest.mark.parametrize("pick", ["right", "wrong"])
def test_a_mosaic_is_right_if_the_model_names_its_target(tmp_path: Path, pick: str) -> None:
    """Reference: the mosaics and the classifier themselves, asked one by one."""
    focus = benchmarks["focus"](per_class=2)
    opened = focus.open(3)
    expected = []
    for chunk in opened.chunks():
        batch = opened.load(chunk)
        with torch.no_grad():
            named = opened.model(chunk.model)(batch.inputs).argmax(1) == batch.target
        expected += [case for case, found in zip(batch.ids, named.tolist(), strict=True) if found is (pick == "right")]
    assert expected
    path = heatproof.show(focus, pick=pick, count=2, explainers=["random"], seed=3, out=tmp_path / "a.svg")
    assert cases(path) == expected[:2]
    assert ("(wrong)" in path.read_text()) is (pick == "wrong")


def test_whether_a_case_is_right_may_be_any_kind_of_yes_and_no() -> None:
    facts = {"correct": [True, np.bool_(False), 1, None]}
    batch = heatproof.Batch(torch.zeros(4, 1, 5), torch.zeros(4).long(), tuple("abcd"), facts=facts)
    assert [is_right(batch, i) for i in range(4)] == [True, False, True, None]
    assert is_right(heatproof.Batch(torch.zeros(1, 1, 5), torch.zeros(1).long(), ("a",)), 0) is None


def test_what_cannot_be_drawn_is_refused_before_it_is_explained(tmp_path: Path, toy: type[Benchmark]) -> None:
    class OpenedVolumes(sys.modules[toy.__module__].OpenedToy):  # type: ignore[misc]
        def load(self, chunk):
            batch = super().load(chunk)
            return replace(batch, inputs=batch.inputs.reshape(-1, 1, 2, 3, 5))

    class Volumes(toy):  # type: ignore[valid-type, misc]
        def open(self, seed, progress=None):
            opened = super().open(seed)
            return OpenedVolumes(**{name: getattr(opened, name) for name in opened.__dataclass_fields__})

    def never(model, inputs, target):
        raise AssertionError("explained")

    with pytest.raises(HeatproofError, match="not of 3 space dimensions"):
        heatproof.show(Volumes(), "3", explainers=[never], out=tmp_path / "a.svg")


def test_explainers_that_need_a_mask_are_refused_before_any_work(tmp_path: Path, toy: type[Benchmark]) -> None:
    with pytest.raises(HeatproofError, match="oracle"):
        heatproof.show(toy(), "3", explainers="oracle", out=tmp_path / "a.svg")


def test_the_command(tmp_path: Path, toy: type[Benchmark]) -> None:
    """Cases or pick, every format, a benchmark from a file, and what is wrong by the names of the options."""
    runner = CliRunner()

    def call(*words: str) -> str:
        result = runner.invoke(app, ["show", *words], env={"COLUMNS": "200", "NO_COLOR": "1"}, catch_exceptions=False)
        assert result.exit_code == 0, result.output
        return result.output

    for ending, start in (("svg", b"<svg"), ("pdf", b"%PDF"), ("png", b"\x89PNG")):
        out = tmp_path / f"a.{ending}"
        shown = call(
            "svea", "--limit", "50", "--cases", "test-0001, test-0003", "--explainers", "lrp", "--out", str(out)
        )
        assert shown.splitlines()[-1] == f"picture: {out}"
        assert out.read_bytes().startswith(start)
    words = ["--pick", "worst", "--count", "2", "--candidates", "3", "--quiet", "--out", str(tmp_path / "b.svg")]
    assert "toy: the worst 2 of 3 candidates, evenly from 20 cases, by Lateness of gradient" in call(TOY, *words)
    assert "--dataset" in call("clevr-xai", "--help")
    assert "--images" in call("focus", "--help")
    for wrong, message in (
        (["--case", "test-0001", "--cases", "test-0002"], "give either --case or --cases, not both"),
        (["--pick", "bset"], "bset"),
        (["--count", "3"], "say which case to draw, or take --layers"),
    ):
        result = runner.invoke(app, ["show", "svea", *wrong], env={"COLUMNS": "200", "NO_COLOR": "1"})
        assert result.exit_code == 2
        assert message in result.output
    with pytest.raises(HeatproofError, match="not both"):
        runner.invoke(app, ["show", "svea", "--cases", "test-0001", "--pick", "best"], catch_exceptions=False)


def test_an_option_of_a_benchmark_may_not_be_one_of_the_command(toy: type[Benchmark]) -> None:
    def command(options: dict, signals: int = 3) -> None: ...

    with pytest.raises(HeatproofError, match="Toy has a field 'signals', which is an option of the command already"):
        with_options(command, toy)


def test_wanted_counts_whole_numbers() -> None:
    with pytest.raises(HeatproofError, match="count must be a whole number"):
        Wanted(pick="best", count=True)
