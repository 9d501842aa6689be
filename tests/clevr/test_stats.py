"""The statistics of a data set, against counts made by hand and by literal loops."""

from __future__ import annotations

import json

import numpy as np
import pytest

from heatproof.clevr import open_dataset
from heatproof.clevr.ground_truth import make_masks
from heatproof.clevr.stats import describe
from reference.clevr_ground_truth import chosen_objects
from tiny_datasets import edit_json, write_clevr, write_world


def test_counts_and_availability(tmp_path):
    """Reference: the literal rules, counted question by question."""
    dataset = open_dataset(write_world(tmp_path / "w", scenes=12, seed=4, per_image=10))
    figures = describe(dataset)
    assert figures["scenes"] == 12
    assert sum(figures["objects_per_scene"]["counts"].values()) == 12
    about = figures["sets"]["complex"]
    questions = dataset.questions("complex")
    assert about["questions"] == len(questions) == 120
    assert about["per_scene"]["counts"] == {"10": 12}
    for kind, row in about["ground_truth"]["kinds"].items():
        sizes = [len(chosen_objects(q.program, len(q.scene["objects"]), kind)) for q in questions]
        assert row["available"] == sum(size > 0 for size in sizes)
        assert row["available"] + row["unavailable"] == 120
        assert row["share"] == pytest.approx(row["available"] / 120)
        assert row["objects"]["mean"] == pytest.approx(np.mean(sizes))
        assert row["pixels"] is None
    assert 0 < about["ground_truth"]["kinds"]["unique"]["unavailable"] < 120
    assert about["ground_truth"]["not_nested"] == 0
    assert about["ground_truth"]["union_without_first_nonempty"] == 0
    same = sum(
        chosen_objects(q.program, 10, "unique") == chosen_objects(q.program, 10, "unique_first_nonempty")
        for q in questions
    )
    assert about["ground_truth"]["first_nonempty_equals_unique"] == pytest.approx(same / 120)
    given = {}
    for question in questions:
        key = (question.program[-1]["type"], str(question.answer).lower())
        given[key] = given.get(key, 0) + 1
    told = {(asked, said): row["count"] for asked, rows in about["answers"].items() for said, row in rows.items()}
    assert told == given
    assert json.loads(json.dumps(figures)) == figures


@pytest.mark.parametrize("layout", ["packed", "release"])
def test_mask_sizes(tmp_path, layout):
    dataset = open_dataset(write_world(tmp_path / "w"))
    make_masks(dataset, layout=layout)
    for name, about in describe(dataset)["sets"].items():
        for kind, row in about["ground_truth"]["kinds"].items():
            sizes = [int(question.mask(kind).sum()) for question in dataset.questions(name)]
            there = [size for size in sizes if size]
            assert row["pixels"] == {
                "mean": pytest.approx(np.mean(there)),
                "min": min(there),
                "median": pytest.approx(np.median(there)),
                "max": max(there),
                "above_1000": sum(size > 1000 for size in there),
            }


def test_kinds_that_do_not_nest_are_counted(tmp_path):
    """A `unique` whose object is in no set before it cannot come from a right program."""
    world = write_world(tmp_path / "w")

    def spoil(content):
        for question in content["questions"][:2]:
            question["program"] = [
                {"type": "scene", "inputs": [], "value_inputs": [], "_output": [0, 1, 2]},
                {"type": "filter_size", "inputs": [0], "value_inputs": ["small"], "_output": [1]},
                {"type": "unique", "inputs": [1], "value_inputs": [], "_output": 2},
                {"type": "query_color", "inputs": [2], "value_inputs": [], "_output": "red"},
            ]

    edit_json(world / "CLEVR-XAI_complex_questions.json", spoil)
    assert describe(open_dataset(world))["sets"]["complex"]["ground_truth"]["not_nested"] == 2


def test_clevr_v1_is_described_without_masks(tmp_path):
    figures = describe(open_dataset(write_clevr(tmp_path)))
    assert set(figures["sets"]) == {"train", "val", "test"}
    assert figures["sets"]["val"]["types"] == {"query": {"count": 20, "share": 1.0}}
    assert "types" not in figures["sets"]["test"]
    assert all("ground_truth" not in about for about in figures["sets"].values())


def test_questions_in_the_format_of_clevr_are_described_without_masks(tmp_path):
    world = write_world(tmp_path / "w")

    def strip(content):
        for question in content["questions"]:
            for node in question["program"]:
                node["function"] = node.pop("type")
                del node["_output"]

    edit_json(world / "CLEVR-XAI_simple_questions.json", strip)
    about = describe(open_dataset(world))["sets"]
    assert about["simple"]["types"] == {"query": {"count": 20, "share": 1.0}}
    assert "ground_truth" not in about["simple"]
    assert "ground_truth" in about["complex"]
