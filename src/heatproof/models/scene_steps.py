"""Programs of questions as numbers, the form in which the scene-logic network takes them.

A step has a kind, the steps whose results it takes, and up to four numbers; all filters of one noun are one step.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from heatproof.clevr.questions.functions import DOMAINS, FUNCTIONS, Program
from heatproof.clevr.questions.parsing import parse
from heatproof.clevr.questions.world import ATTRIBUTES, RELATIONS
from heatproof.errors import HeatproofError
from heatproof.models.scene_eye import VALUES

KINDS = ("scene", "filter", "unique", "relate", "same", "union", "intersect", "exist", "count", "query", "compare")
"""What a step does. Comparisons of values and of numbers are one kind."""
COMPARISONS = ("equal", "less_than", "greater_than")
NAMES = tuple(ATTRIBUTES)
UNNAMED = len(VALUES)
"""Stands for the value of an attribute that a noun leaves open."""
MOST_STEPS = 16
"""CLEVR's longest questions have 13."""
NUMBERS = len(NAMES)
WIDTH = 3 + NUMBERS
"""Numbers of a step: its kind, two inputs, and what else it is given."""
ANSWER_TYPES = (*NAMES, "number", "yes_no")
ANSWERS = {
    **ATTRIBUTES,
    "number": tuple(str(number) for number in DOMAINS["Integer"]),
    "yes_no": ("yes", "no"),
}
"""What each type of question can be answered with, in the order in which its last step says so."""


class Step(NamedTuple):
    """kind; the steps that it takes; for a filter the values, for others an attribute, a relation or a comparison."""

    kind: str
    inputs: tuple[int, ...] = ()
    numbers: tuple[int, ...] = ()


def steps_of(program: Program) -> list[Step]:
    """The steps of a program."""
    steps: list[Step] = []
    places: list[int] = []
    for call in program:
        inputs = tuple(places[place] for place in call.inputs)
        step = step_of(call.function, inputs, call.values)
        before = steps[inputs[0]] if inputs else None
        if step.kind == "filter" and before is not None and before.kind == "filter" and inputs[0] == len(steps) - 1:
            named = tuple(new if new != UNNAMED else old for new, old in zip(step.numbers, before.numbers, strict=True))
            steps[-1] = Step("filter", before.inputs, named)
        else:
            steps.append(step)
        places.append(len(steps) - 1)
    return steps


def step_of(function: str, inputs: tuple[int, ...], values: tuple[str, ...]) -> Step:
    """One function as a step."""
    kind, _, rest = function.partition("_")
    if kind == "filter":
        return Step(kind, inputs, tuple(VALUES[values[0]] if name == rest else UNNAMED for name in NAMES))
    if kind in ("same", "query"):
        return Step(kind, inputs, (NAMES.index(rest),))
    if kind == "relate":
        return Step(kind, inputs, (RELATIONS.index(values[0]),))
    if FUNCTIONS[function].output == "Bool" and kind != "exist":
        return Step("compare", inputs, (COMPARISONS.index(function if function in COMPARISONS else kind),))
    return Step(kind, inputs)


def as_numbers(steps: Sequence[Step]) -> Tensor:
    """Steps as a row of numbers (1, 112), zeros behind."""
    if len(steps) > MOST_STEPS:
        raise HeatproofError(f"a question of {len(steps)} steps is too long; there is room for {MOST_STEPS}.")
    rows = torch.zeros(MOST_STEPS, WIDTH, dtype=torch.long)
    for place, step in enumerate(steps):
        rows[place, 0] = 1 + KINDS.index(step.kind)
        rows[place, 1 : 1 + len(step.inputs)] = torch.tensor(step.inputs, dtype=torch.long)
        rows[place, 3 : 3 + len(step.numbers)] = torch.tensor(step.numbers, dtype=torch.long)
    return rows.view(1, -1)


INPUTS = {"scene": 0, "union": 2, "intersect": 2, "compare": 2}
"""How many other steps a kind takes; if it is not here, one."""
GIVEN = {"filter": NUMBERS, "relate": 1, "same": 1, "query": 1, "compare": 1}
"""How many numbers a kind is given; if it is not here, none."""


def from_numbers(rows: Tensor) -> list[list[Step]]:
    """The steps of each row (B, 112)."""
    if rows.ndim != 2 or rows.shape[1] != MOST_STEPS * WIDTH:
        raise HeatproofError(
            f"questions must be (cases, {MOST_STEPS * WIDTH}) numbers, as heatproof.models.scene_steps.encode gives"
            f" them; got {tuple(rows.shape)}."
        )
    return [[one_step(row) for row in steps if row[0]] for steps in rows.view(-1, MOST_STEPS, WIDTH).tolist()]


def one_step(row: Sequence[int]) -> Step:
    kind = KINDS[row[0] - 1]
    return Step(kind, tuple(row[1 : 1 + INPUTS.get(kind, 1)]), tuple(row[3 : 3 + GIVEN.get(kind, 0)]))


def answer_type(steps: Sequence[Step]) -> int:
    """The place in ANSWER_TYPES of what a question asks for."""
    last = steps[-1]
    if last.kind == "query":
        return last.numbers[0]
    return ANSWER_TYPES.index("number" if last.kind == "count" else "yes_no")


def encode(question: str) -> Tensor:
    """The words of a question as the network takes them (1, 112); a sentence that cannot be parsed is an error."""
    return as_numbers(steps_of(parse(question)))
