"""The functions that programs are made of, and how a program is executed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from heatproof.clevr.questions.world import ATTRIBUTES, RELATIONS, World

Value = int | bool | str
"""A set of objects (bits), an object (its index), a number, a truth value or an attribute's value."""

DOMAINS: dict[str, tuple[Value, ...]] = {
    "Integer": tuple(range(11)),
    "Bool": (True, False),
    "Relation": RELATIONS,
    **{attribute.capitalize(): values for attribute, values in ATTRIBUTES.items()},
}
"""Type -> its values. A type without domain (ObjectSet, Object) answers no question."""

SIDES = tuple(attribute.capitalize() for attribute in ATTRIBUTES)
"""What a noun phrase leaves open: Size, Color, Material, Shape."""


@dataclass(frozen=True)
class Function:
    """Types of what it takes from other nodes (`inputs`) and from the question (`side`), and of what it gives.

    Without `run` it is a composite: templates use it, programs hold what it expands to.
    """

    inputs: tuple[str, ...]
    output: str
    side: tuple[str, ...] = ()
    run: Callable[..., Value | None] | None = None


def _catalogue() -> dict[str, Function]:
    functions = {
        "scene": Function((), "ObjectSet", (), lambda world: world.everything),
        "unique": Function(
            ("ObjectSet",),
            "Object",
            (),
            lambda world, objects: objects.bit_length() - 1 if objects.bit_count() == 1 else None,
        ),
        "relate": Function(
            ("Object",), "ObjectSet", ("Relation",), lambda world, thing, relation: world.related[relation][thing]
        ),
        "union": Function(("ObjectSet", "ObjectSet"), "ObjectSet", (), lambda world, a, b: a | b),
        "intersect": Function(("ObjectSet", "ObjectSet"), "ObjectSet", (), lambda world, a, b: a & b),
        "count": Function(("ObjectSet",), "Integer", (), lambda world, objects: objects.bit_count()),
        "exist": Function(("ObjectSet",), "Bool", (), lambda world, objects: objects != 0),
        "equal_integer": Function(("Integer", "Integer"), "Bool", (), lambda world, a, b: a == b),
        "less_than": Function(("Integer", "Integer"), "Bool", (), lambda world, a, b: a < b),
        "greater_than": Function(("Integer", "Integer"), "Bool", (), lambda world, a, b: a > b),
        "equal_object": Function(("Object", "Object"), "Bool", (), lambda world, a, b: a == b),
    }
    for attribute in ATTRIBUTES:
        functions |= _attribute_functions(attribute)
    for suffix, output in {"": "ObjectSet", "_unique": "Object", "_count": "Integer", "_exist": "Bool"}.items():
        functions["filter" + suffix] = Function(("ObjectSet",), output, SIDES)
        functions["relate_filter" + suffix] = Function(("Object",), output, ("Relation", *SIDES))
    return functions


def _attribute_functions(attribute: str) -> dict[str, Function]:
    kind = attribute.capitalize()
    return {
        f"filter_{attribute}": Function(
            ("ObjectSet",), "ObjectSet", (kind,), lambda world, objects, value: objects & world.having[value]
        ),
        f"same_{attribute}": Function(("Object",), "ObjectSet", (), lambda world, thing: world.same[attribute][thing]),
        f"query_{attribute}": Function(("Object",), kind, (), lambda world, thing: world.values[attribute][thing]),
        f"equal_{attribute}": Function((kind, kind), "Bool", (), lambda world, a, b: a == b),
    }


FUNCTIONS = _catalogue()


@dataclass(frozen=True)
class Call:
    """One node of a program; `inputs` are indices of earlier nodes."""

    function: str
    inputs: tuple[int, ...] = ()
    values: tuple[str, ...] = ()


Program = tuple[Call, ...]


def execute(world: World, program: Sequence[Call], known: Sequence[Value] = ()) -> list[Value | None]:
    """The output of every node; None where it is invalid (`unique` of other than one object, and what follows).

    `known`: outputs of the first nodes, which are then not executed.
    """
    outputs: list[Any] = list(known)
    for call in program[len(outputs) :]:
        inputs = [outputs[i] for i in call.inputs]
        run = FUNCTIONS[call.function].run
        assert run is not None, f"{call.function} is a composite"
        outputs.append(None if None in inputs else run(world, *inputs, *call.values))
    return outputs


def is_degenerate(world: World, program: Program, outputs: Sequence[Value]) -> bool:
    """Whether some relation of the program can be dropped (replaced by the whole scene) without changing the answer."""
    return any(
        execute(world, program, (*outputs[:place], world.everything))[-1] == outputs[-1]
        for place, call in enumerate(program)
        if call.function == "relate"
    )
