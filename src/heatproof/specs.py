"""Words of the form `name:key=value,key=value`, and lists of them."""

from __future__ import annotations

import ast
import re
from typing import Any

from heatproof.errors import HeatproofError


def split_at_commas(text: str) -> list[str]:
    """The pieces between commas that stand in no brackets."""
    return re.split(r",(?![^(\[]*[)\]])", text)


def read_literal(text: str) -> Any:
    """A number, truth value, None or tuple as Python writes it; anything else is itself."""
    try:
        return ast.literal_eval(text)
    except (SyntaxError, ValueError):
        return text


def split_specs(text: str) -> list[str]:
    """Cut a comma-separated list; `name=value` pieces belong to the one before them."""
    specs: list[str] = []
    for piece in (piece.strip() for piece in split_at_commas(text)):
        if specs and "=" in piece and ":" not in piece.split("=")[0]:
            specs[-1] += "," + piece
        elif piece:
            specs.append(piece)
    return specs


def split_parameters(spec: str) -> tuple[str, dict[str, str]]:
    """`name:a=1,b=2` as the name and its assignments; the name may itself hold a colon (`file.py:Name`)."""
    name, colon, tail = spec.rpartition(":")
    if not colon or "=" not in tail:
        return spec, {}
    assignments: dict[str, str] = {}
    for piece in split_at_commas(tail):
        key, equals, value = piece.partition("=")
        if not equals or not key.strip():
            raise HeatproofError(f"cannot read {piece!r} in {spec!r}; write parameters as name:key=value,key=value.")
        assignments[key.strip()] = value.strip()
    return name, assignments
