"""A thousand scenes from nothing: our statistics are CLEVR-XAI's, and our masks are those of the literal version."""

from __future__ import annotations

import os
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from heatproof.clevr import open_dataset
from heatproof.clevr.files import Dataset
from heatproof.clevr.ground_truth import make_masks
from heatproof.clevr.stats import describe
from reference.clevr_ground_truth import mask_of_question

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def thousand(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    pytest.importorskip("heatproof.clevr.rendering")
    pytest.importorskip("heatproof.clevr.questions")
    folder = tmp_path_factory.mktemp("thousand")
    for words in (
        ["render", "w", "--num-images", "1000", "--scenes-only"],
        ["ask", "w", "--set", "simple"],
        ["ask", "w", "--set", "complex"],
    ):
        subprocess.run(
            [sys.executable, "-c", "from heatproof.cli import main; main()", "clevr", *words],
            check=True,
            cwd=folder,
            env=os.environ | {"NO_COLOR": "1"},
        )
    return open_dataset(folder / "w")


def test_statistics_are_those_of_clevr_xai(thousand):
    """Reference: the published counts, and where there are none 1,000 scenes of the original generator's questions."""
    figures = describe(thousand)["sets"]
    assert 3.96 <= figures["simple"]["per_scene"]["mean"] <= 3.99
    assert figures["complex"]["per_scene"]["counts"] == {"10": 1000}
    simple, complex_ = (figures[name]["ground_truth"] for name in ("simple", "complex"))
    assert all(row["share"] == 1 for row in simple["kinds"].values())
    assert 0.890 <= complex_["kinds"]["unique"]["share"] <= 0.908
    assert 0.996 <= complex_["kinds"]["union"]["share"] <= 0.999
    assert complex_["kinds"]["union"]["share"] == complex_["kinds"]["unique_first_nonempty"]["share"]
    assert complex_["kinds"]["all_objects"]["share"] == 1
    assert simple["not_nested"] == complex_["not_nested"] == complex_["union_without_first_nonempty"] == 0
    assert complex_["first_nonempty_equals_unique"] == pytest.approx(0.62, abs=0.03)
    means = {"unique": 1.77, "unique_first_nonempty": 2.47, "union": 4.71, "all_objects": 6.42}
    for kind, mean in means.items():
        assert complex_["kinds"][kind]["objects"]["mean"] == pytest.approx(mean, abs=0.25), kind
    types = {"query": 36.0, "count": 23.6, "exist": 13.5, "compare attribute": 17.9, "compare integer": 9.0}
    for asked, percent in types.items():
        assert 100 * figures["complex"]["types"][asked]["share"] == pytest.approx(percent, abs=1), asked
    assert figures["complex"]["program_nodes"]["mean"] == pytest.approx(11.1, abs=0.3)
    assert figures["complex"]["words"]["mean"] == pytest.approx(18.4, abs=1)
    for asked, answers in figures["simple"]["answers"].items():
        for answer, row in answers.items():
            assert row["share"] == pytest.approx(1 / len(answers), rel=0.2), (asked, answer)
    for asked in ("exist", "equal_size", "equal_color", "equal_material", "equal_shape", "less_than", "greater_than"):
        assert figures["complex"]["answers"][asked]["true"]["share"] == pytest.approx(0.5, abs=0.06), asked


def test_no_question_has_a_smaller_mask_where_it_must_be_larger(thousand, tmp_path):
    """Kinds nest pixel by pixel; only questions without a `unique` node lack that mask."""
    make_masks(thousand, out=tmp_path)
    kinds = [thousand.masks("complex", kind, tmp_path) for kind in ("unique", "unique_first_nonempty", "union")]
    kinds.append(thousand.masks("complex", "all_objects", tmp_path))
    for smaller, larger in pairwise(kinds):
        assert not (smaller.rows & ~larger.rows).any()
    singled = [any(node["type"] == "unique" for node in q.program) for q in thousand.questions("complex")]
    np.testing.assert_array_equal(kinds[0].available, singled)


def test_simple_masks_in_the_release_layout_are_the_literal_ones(thousand, tmp_path):
    """Reference: tests/reference, from the flat-coloured mask pictures, all simple questions."""
    paths = make_masks(thousand, kinds=["single_object"], layout="release", out=tmp_path)
    folder: Path = paths["simple", "single_object"]
    questions = thousand.questions("simple")
    assert {path.name for path in folder.glob("*.npy")} == {f"{question.index}.npy" for question in questions}
    for question in questions:
        picture = thousand.folder / "masks" / question.scene["image_filename"]
        literal = mask_of_question(question.record, question.scene, picture, "single_object", 128, 128)
        stored = np.load(folder / f"{question.index}.npy")
        assert stored.dtype == np.bool_
        np.testing.assert_array_equal(stored, literal, err_msg=f"question {question.index}")
