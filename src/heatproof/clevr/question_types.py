"""What a question asks for, as the last node of its program tells."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

TYPES = ("query", "count", "exist", "compare attribute", "compare integer")
"""CLEVR's five kinds of questions."""

ATTRIBUTES = ("color", "material", "shape", "size")

ANSWER_TYPES = ("yes or no", "number", *ATTRIBUTES)

FAMILIES = (
    "zero_hop", "one_hop", "two_hop", "three_hop", "single_and", "single_or", "same_relate", "comparison",
    "compare_integer",
)  # fmt: skip
"""CLEVR's files of templates."""


def last_operation(program: Sequence[Mapping[str, Any]]) -> str:
    """The type of the node that gives the answer, which CLEVR v1.0 calls its function; empty without a program."""
    return str(program[-1].get("type") or program[-1].get("function") or "") if program else ""


def question_type(program: Sequence[Mapping[str, Any]]) -> str:
    """One of TYPES; empty without a program."""
    operation = last_operation(program)
    if operation in ("equal_integer", "less_than", "greater_than"):
        return "compare integer"
    return {"query": "query", "equal": "compare attribute"}.get(operation.partition("_")[0], operation)


def attribute(program: Sequence[Mapping[str, Any]]) -> str:
    """The attribute that a query or a comparison of attributes is about; empty for other questions."""
    start, _, word = last_operation(program).partition("_")
    return word if start in ("query", "equal") and word in ATTRIBUTES else ""


def answer_type(program: Sequence[Mapping[str, Any]]) -> str:
    """One of ANSWER_TYPES; empty without a program."""
    kind = question_type(program)
    return {"query": attribute(program), "count": "number", "": ""}.get(kind, "yes or no")
