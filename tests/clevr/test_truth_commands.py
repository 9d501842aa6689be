"""`heatproof clevr ground-truth` and `stats` as people meet them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from heatproof.clevr import open_dataset
from heatproof.clevr.ground_truth import mask_of_question
from heatproof.clevr.panels import base_picture, under_mask
from tiny_datasets import write_world


def heatproof(*words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", "from heatproof.cli import main; main()", "clevr", *words],
        capture_output=True,
        text=True,
        cwd=cwd,
        env=os.environ | {"COLUMNS": "160", "NO_COLOR": "1"},
    )


@pytest.fixture
def world(tmp_path: Path) -> Path:
    return write_world(tmp_path / "w")


def test_from_masks_to_statistics(world):
    made = heatproof("ground-truth", "w", cwd=world.parent)
    assert made.returncode == 0, made.stderr
    assert "simple_single_object.npy: 20 of 20 simple questions have a mask" in made.stdout
    assert len(list((world / "ground_truth").iterdir())) == 12
    shown = heatproof("stats", "w", "--check", cwd=world.parent)
    assert shown.returncode == 0, shown.stderr
    assert "99.79%" in shown.stdout  # CLEVR-XAI's own share
    assert "questions whose kinds do not include each other: 0" in shown.stdout
    told = json.loads(heatproof("stats", "w", "--json", cwd=world.parent).stdout)
    assert told["sets"]["simple"]["ground_truth"]["kinds"]["single_object"]["available"] == 20
    again = heatproof("ground-truth", "w", "--size", "64x64", cwd=world.parent)
    assert again.returncode == 2
    assert "height 128 there, 64 now" in again.stderr
    assert "--out" in again.stderr
    assert heatproof("ground-truth", "w", "--size", "64x64", "--out", "small", cwd=world.parent).returncode == 0


@pytest.mark.parametrize("pictures", [True, False], ids=["pictures", "scenes only"])
def test_a_question_is_drawn(world, pictures):
    """Where the mask is, the picture is as it is; elsewhere it is faded."""
    if not pictures:
        shutil.rmtree(world / "images")
    result = heatproof("show", "w", "3", "--set", "complex", "--size", "72x48", "--out", "q.png", cwd=world.parent)
    assert result.returncode == 0, result.stderr
    assert "q.png: What about these" in result.stdout
    with Image.open(world.parent / "q.png") as drawn:
        assert drawn.width == 3 * 310 + 10  # two rows: the picture and four kinds
    question = open_dataset(world).questions("complex")[3]
    picture, mask = base_picture(question), mask_of_question(question, "union", (48, 72))
    shown = under_mask(picture, mask)
    np.testing.assert_array_equal(shown[mask], picture[mask])
    assert (shown[~mask] >= 216).all()


def test_release_layout(world):
    made = heatproof("ground-truth", "w", "--layout", "release", "--kinds", "single_object, union", cwd=world.parent)
    assert made.returncode == 0, made.stderr
    assert (world / "ground_truth_simple_questions_single_object" / "0.npy").is_file()
    assert len(list(world.glob("ground_truth*"))) == 2


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["ground-truth", "w", "--kinds", "onion"], "unknown kind of ground truth 'onion'. Did you mean 'union'"),
        (["ground-truth", "w", "--kinds", ","], "no kind of ground truth is named"),
        (["ground-truth", "w", "--size", "128"], "size must be WIDTHxHEIGHT"),
        (["show", "w", "500"], "w has no simple question 500; it has 20"),
        (["show", "w", "0", "--set", "simpel"], "Did you mean 'simple'"),
        (["show", "w", "0", "--out", "q.svg"], "'q.svg' must end in .png"),
        (["ground-truth", "nowhere"], "nowhere does not exist"),
        (["stats", "."], "Did you mean w?"),
        (["ground-truth", "w", "--out", "/dev/null/x"], "cannot write /dev/null/x"),
        (["ground-truth", "w", "--layout", "release", "--out", "/dev/null/x"], "cannot write /dev/null/x"),
    ],
)
def test_bad_arguments_are_named(world, words, said):
    result = heatproof(*words, cwd=world.parent)
    assert result.returncode == 2
    assert "Traceback" not in result.stderr
    assert said in result.stderr


def test_damage_is_named_and_nothing_is_written(world):
    (world / "images" / "CLEVR_new_000001.png").unlink()
    questions = world / "CLEVR-XAI_simple_questions.json"
    questions.write_bytes(questions.read_bytes()[:500])
    before = set(world.rglob("*"))
    for command in ("ground-truth", "stats"):
        result = heatproof(command, "w", cwd=world.parent)
        assert result.returncode == 2
        assert "Traceback" not in result.stderr
        assert "w is damaged or incomplete, 2 problems:" in result.stderr
        assert "images/CLEVR_new_000001.png: missing" in result.stderr
        assert "CLEVR-XAI_simple_questions.json: truncated JSON" in result.stderr
    assert set(world.rglob("*")) == before


def test_help_imports_nothing_heavy(tmp_path):
    script = (
        "import sys\nfrom heatproof.cli import main\nsys.argv[1:] = ['clevr', 'ground-truth', '--help']\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "loaded = {'torch', 'numpy', 'polars', 'PIL', 'numba'} & set(sys.modules)\nassert not loaded, loaded\n"
    )
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    assert "unique_first_nonempty" in result.stdout
