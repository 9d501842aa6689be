"""Every command in the documents is typed, page by page, in a folder with what a reader brings; or it says why not.

What is typed is what stands there, made smaller: fewer cases, fewer scenes, fewer epochs, three methods where none are
named. Commands that cannot run here have their reason below, and a reason that nothing needs any more fails.
"""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fences import blocks
from heatproof.cli.app import app
from stand_ins import bring_all
from test_documents import ROOT, commands_of

PAGES = [
    ROOT / "README.md",
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "docs" / "explainers").glob("*.md")),
]
"""All but the tutorials, which tests/test_notebooks.py runs from their first to their last line."""

WHY_NOT = {
    r"\bHEATMAPS\b|\bRUN\b": "a form, with words for what the reader has",
    r"^heatproof fetch ": "it downloads",
    r"relation-network\b.*CLEVR_v1.0|--dataset CLEVR-XAI|clevr-xai --preset paper": "it takes data that do not ship",
    r"--weights relation-network": "it takes weights that are downloaded",
    r"--device |--precision ": "it asks for a GPU; tests/devices of each room run on a pretended one",
    r"--address auto": "it takes a cluster; tests/executors runs Ray on one machine",
    r"--dataset (mame|mit67)|alexnet|resnet18|squeezenet|mobilenet": "it takes pictures and weights of others",
    r"val2017|VOCdevkit|trimaps .*--model": "pictures and masks of others; tests/benchmarks runs each format in small",
    r"--model (timm|torchvision|hf):": "networks of other libraries; tests/models runs them in small",
    r"--templates question_generation": "it takes CLEVR's own templates, which do not ship",
    r"^heatproof train (vqa|scene-logic|focus-classifier|focus-vit) ?": "minutes of training",
    r"^heatproof focus (objects|planted-bias)": "minutes of rendering or training; tests/focus does it in small",
    r"--until-settled": "it explains until it is sure; tests/engine stops it early",
    r"quantus:|captum:": "it takes other libraries' minutes; tests/metrics and tests/explainers run them in small",
}
"""What is not typed, by a pattern, and why."""

OTHERS = {
    r"^make ": "each target is a job of its own; tests/test_makefile.py and tests/test_documents.py know them all",
    r"^python -m (benchmarks|chaos)": "measurements of minutes to hours",
    r"^(ray start|kubectl) ": "they take a cluster",
    r"^pip install ": "the packages of an environment; tests/test_documents.py holds the list to pyproject.toml",
    r"^mlcroissant ": "tests/clevr runs it on a data set of ours",
    r"^(DATA=|cat >|label,index|n\d{8},\d+|END$|export OMP_NUM_THREADS)": "words of the shell",
}
"""Lines that are no commands of ours, by a pattern, and why nothing types them."""

SMALLER = [
    (r"--num-images \d+", "--num-images 2"),
    (r"--samples \d+", "--samples 4"),
    (r"--epochs \d+", "--epochs 1"),
    (r"--per-class \d+", "--per-class 2"),
    (r"--jobs \d+", "--jobs 1"),
    (r"worlds 79 ", "worlds 3 "),
    (r"--grid 3", "--grid 2"),
    (r"--(target|partner) \"[^\"]*\"", ""),
    (r" --names names.csv", ""),
    (r"^(heatproof run svea(?!.*--signals).*)", r"\1 --limit 60"),
    (r"^(heatproof run (focus|clevr-xai|masks).*)", r"\1 --limit 8"),
    (r"^(heatproof run clevr-removal.*)", r"\1 --scenes 1"),
    (r"^(heatproof run focus .*--images.*)", r"\1 --per-class 2"),
    (r"^(heatproof run (?!.*--explainers)(?!.*--dry-run).*)", r"\1 --explainers grad_cam,random"),
    (r"^(heatproof (run|clevr render|clevr remove) (?!.*--(jobs|engine)).*)", r"\1 --jobs 1"),
    (r"^(heatproof run (?!.*--dry-run).*)", r"\1 --no-resume"),
    (r"^(heatproof train signals.*)", r"\1 --steps 5"),
    (
        r"my_net.py:build(?= .*--signals|.*$)(?<=signals FILE.npz --model my_net.py:build)",
        "my_net.py:build_for_signals",
    ),
    (r"^(heatproof focus mosaics --out.*)", r"\1 --per-class 2"),
    (r"^(heatproof clevr effects.*)", r"\1 --limit 1"),
    (r"--candidates 20", "--candidates 3"),
]
"""What is made smaller, in this order."""


def reason(line: str) -> str | None:
    return next((pattern for pattern in WHY_NOT if re.search(pattern, line)), None)


def smaller(line: str) -> str:
    line = re.sub(r"\s+#.*$", "", line)
    for pattern, replacement in SMALLER:
        line = re.sub(pattern, replacement, line)
    return line


def typed(page: Path) -> list[str]:
    """The commands of a page that can be typed here."""
    return [line for line in commands_of(page) if not reason(line)]


def scripts(page: Path) -> list[str]:
    """Python that needs what a reader brings, with `py` behind its fence; what has `python` runs anywhere."""
    return [block for kind, block in blocks(page.read_text(encoding="utf-8")) if kind == "py"]


def test_every_reason_is_needed():
    lines = [line for page in PAGES for line in commands_of(page)]
    assert len(lines) > 100
    used = {reason(line) for line in lines}
    assert set(WHY_NOT) - used == set()
    assert sum(len(typed(page)) for page in PAGES) > 60


def test_every_other_line_says_why_it_is_not_typed():
    lines = [
        line
        for page in PAGES
        for kind, block in blocks(page.read_text(encoding="utf-8"))
        for line in block.replace("\\\n", " ").splitlines()
        if not kind and line.strip() and not line.startswith("heatproof ")
    ]
    found = [next((pattern for pattern in OTHERS if re.search(pattern, line)), line) for line in lines]
    assert set(found) == set(OTHERS)


@pytest.fixture(scope="module")
def brought(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("brought")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        bring_all(place)
    return place


@pytest.mark.slow
@pytest.mark.parametrize("page", [page for page in PAGES if typed(page) or scripts(page)], ids=lambda page: page.stem)
def test_commands_do_what_they_say(page, brought, tmp_path, monkeypatch):
    place = tmp_path / "here"
    shutil.copytree(brought, place)
    monkeypatch.chdir(place)
    for line in typed(page):
        words = shlex.split(smaller(line))[1:]
        if words[:2] == ["clevr", "render"]:
            shutil.rmtree(words[2], ignore_errors=True)  # what was brought under that name
        done = CliRunner().invoke(app, words)
        assert done.exit_code == 0, f"{line}\n{smaller(line)}\n{done.output}\n{done.exception!r}"
    for script in scripts(page):
        exec(compile(script, page.name, "exec"), {})
