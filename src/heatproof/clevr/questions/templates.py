"""Templates: programs with blanks, the rules for filling them, and patterns that word the result."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field

from heatproof.clevr.questions.functions import DOMAINS, FUNCTIONS, Value
from heatproof.errors import HeatproofError, unknown_name


@dataclass(frozen=True)
class Node:
    """One step of a template: a function, composites included, and the names of the parameters it is given."""

    function: str
    inputs: tuple[int, ...] = ()
    side: tuple[str, ...] = ()

    @property
    def related(self) -> bool:
        """A composite that starts with a relation."""
        return self.function.startswith("relate_filter")

    @property
    def composite(self) -> bool:
        return FUNCTIONS[self.function].run is None

    @property
    def ending(self) -> str:
        """What a composite ends with: unique, count, exist, or nothing."""
        return self.function.removeprefix("relate_").removeprefix("filter").removeprefix("_")


@dataclass(frozen=True)
class Template:
    """A question with blanks.

    `blank`: parameters that must stay open, such as the colour where the colour is asked.
    `different`: pairs of nodes whose outputs must differ.
    """

    family: str
    index: int
    texts: tuple[str, ...]
    nodes: tuple[Node, ...]
    parameters: dict[str, str] = field(hash=False)
    """name -> type, in the order in which the program sets them"""
    blank: frozenset[str] = frozenset()
    different: frozenset[tuple[int, int]] = frozenset()

    @property
    def name(self) -> str:
        return f"{self.family}[{self.index}]"

    @property
    def answers(self) -> tuple[Value, ...]:
        """Every value of the type that the last node gives."""
        return DOMAINS[FUNCTIONS[self.nodes[-1].function].output]

    @property
    def possible_answers(self) -> frozenset[Value]:
        """Without the answers that the template's own constraints rule out in every scene.

        The one such template of CLEVR asks whether two numbers are equal and demands that they differ.
        """
        last = self.nodes[-1]
        if last.function.startswith("equal_") and tuple(sorted(last.inputs)) in self.different:
            return frozenset({False})
        return frozenset(self.answers)

    @property
    def may_be_degenerate(self) -> bool:
        """Whether a question could hold a relation that its answer does not need: checked when it is complete."""
        return any(node.function == "relate" for node in self.nodes)


def digest(templates: Sequence[Template]) -> str:
    """A short fingerprint of templates, wordings included."""
    text = "\n".join(
        repr((t.name, t.texts, t.nodes, sorted(t.parameters.items()), sorted(t.blank), sorted(t.different)))
        for t in templates
    )
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def check(template: Template, name: str) -> Template:
    """The template, if it can be executed; `name` says in errors where it comes from."""
    outputs: list[str] = []
    for place, node in enumerate(template.nodes):
        where = f"{name}, node {place}"
        if node.function not in FUNCTIONS:
            problem = unknown_name("function", node.function, FUNCTIONS)
            raise HeatproofError(f"{where}: {problem}")
        function = FUNCTIONS[node.function]
        if not all(0 <= i < place for i in node.inputs):
            raise HeatproofError(f"{where}: inputs are {list(node.inputs)}; they must be earlier nodes.")
        taken = tuple(outputs[i] for i in node.inputs)
        if taken != function.inputs:
            raise HeatproofError(
                f"{where}: {node.function} takes ({', '.join(function.inputs)}), its inputs give ({', '.join(taken)})."
            )
        missing = [side for side in node.side if side not in template.parameters]
        if missing:
            raise HeatproofError(f"{where}: parameter {missing[0]} is not listed in 'params'.")
        given = tuple(template.parameters[side] for side in node.side)
        if given != function.side:
            raise HeatproofError(
                f"{where}: {node.function} needs side inputs of types ({', '.join(function.side)}), "
                f"got ({', '.join(given)})."
            )
        outputs.append(function.output)
    if not outputs or outputs[-1] not in DOMAINS:
        raise HeatproofError(f"{name}: the last node gives {outputs[-1:]}, which is not an answer.")
    _check_parameters(template, name)
    for pair in template.different:
        if not all(0 <= i < len(outputs) for i in pair):
            raise HeatproofError(f"{name}: an OUT_NEQ constraint names nodes {list(pair)}; there are {len(outputs)}.")
    if not template.texts:
        raise HeatproofError(f"{name}: 'text' must hold at least one pattern.")
    return template


def _check_parameters(template: Template, name: str) -> None:
    set_by = {side: node for node in template.nodes for side in node.side}
    for parameter in template.parameters:
        times = sum(node.side.count(parameter) for node in template.nodes)
        if times != 1:
            raise HeatproofError(f"{name}: parameter {parameter} must be set by one node, not by {times}.")
    for parameter in sorted(template.blank):
        if parameter not in template.parameters:
            raise HeatproofError(f"{name}: a NULL constraint names {parameter}, which is not in 'params'.")
        if template.parameters[parameter] == "Relation" or not set_by[parameter].composite:
            raise HeatproofError(
                f"{name}: a NULL constraint names {parameter}, which {set_by[parameter].function} always sets."
            )
