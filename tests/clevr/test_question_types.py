"""CLEVR's five kinds of questions, by the words of CLEVR's own paper, for programs in both formats."""

from __future__ import annotations

import pytest

from heatproof.clevr.question_types import TYPES, attribute, last_operation, question_type

ASKED = [
    ("query_color", "query", "color"),
    ("query_size", "query", "size"),
    ("count", "count", ""),
    ("exist", "exist", ""),
    ("equal_shape", "compare attribute", "shape"),
    ("equal_material", "compare attribute", "material"),
    ("equal_integer", "compare integer", ""),
    ("less_than", "compare integer", ""),
    ("greater_than", "compare integer", ""),
]


@pytest.mark.parametrize("key", ["type", "function"])
@pytest.mark.parametrize(("operation", "kind", "about"), ASKED)
def test_by_the_last_node(key, operation, kind, about):
    program = [{key: "scene"}, {key: "filter_shape"}, {key: operation}]
    assert (last_operation(program), question_type(program), attribute(program)) == (operation, kind, about)
    assert kind in TYPES


def test_without_a_program():
    assert (last_operation([]), question_type([]), attribute([])) == ("", "", "")


def test_the_last_node_of_half_a_program_names_no_attribute():
    assert attribute([{"type": "scene"}, {"type": "filter_color"}]) == ""
