"""Filling the blanks of a template in one scene.

Depth first over the template's nodes, options in random order, as in CLEVR's generator; two things differ. A state
from which nothing can be reached is remembered by what the rest of the search can see of it, so no dead end is entered
twice; and the work is bounded. The first keeps the odds: each option that leads to a question is as likely as before.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from heatproof.clevr.questions.functions import DOMAINS, FUNCTIONS, Call, Program, Value, execute, is_degenerate
from heatproof.clevr.questions.templates import Node, Template
from heatproof.clevr.questions.world import ATTRIBUTES, RELATIONS, Description, World

BUDGET = 20_000
"""Options that one search may try."""

ROUNDS = 4
"""Searches of one template in one scene: some options are drawn at random, so a second look can find more."""

TRIVIAL_SHARE = 0.1
"""Share of relations that single out nothing more than the noun alone does, among those that are offered."""


class Choice(NamedTuple):
    """How a node's blanks are filled: a composite's relation and description, or the value of a plain function."""

    relation: str | None = None
    description: Description = (None, None, None, None)
    value: str | None = None

    @property
    def values(self) -> tuple[str, ...]:
        """What a plain function is given besides its inputs."""
        return () if self.value is None else (self.value,)


Option = tuple[Choice, int]
"""A choice and the set of objects that it gives."""


@dataclass(frozen=True)
class Found:
    """A question in a scene, without its words."""

    program: Program
    outputs: tuple[Value, ...]
    parameters: dict[str, str]
    """name -> value; '' where a blank was left open, 'thing' for a shape"""

    @property
    def answer(self) -> Value:
        return self.outputs[-1]


@dataclass(frozen=True)
class Step:
    """What the search must know of a node, worked out once per template."""

    node: Node
    open: tuple[int, ...]
    """places of a description that must stay None"""
    unlike: tuple[int, ...]
    """earlier nodes whose output must differ from this one's"""
    visible: tuple[int, ...]
    """earlier nodes whose output this node or a later one depends on"""


@lru_cache(maxsize=1024)
def plan(template: Template) -> tuple[Step, ...]:
    """The steps of a template."""
    nodes = template.nodes
    steps = []
    for place, node in enumerate(nodes):
        side = node.side[1:] if node.related else node.side
        needed = {i for later in nodes[place:] for i in later.inputs}
        needed |= {i for pair in template.different if pair[1] >= place for i in pair}
        if template.may_be_degenerate:  # then relations are looked at again when the question is complete
            needed |= {i for i, earlier in enumerate(nodes) if earlier.function != "scene"}
        steps.append(
            Step(
                node,
                tuple(i for i, name in enumerate(side) if name in template.blank) if node.composite else (),
                tuple(i for i, j in template.different if j == place),
                tuple(sorted(i for i in needed if i < place)),
            )
        )
    return tuple(steps)


class Options:
    """What composites can choose from in one scene; kept, because ten templates ask for the same."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._filters: dict[tuple[int, str, tuple[int, ...]], tuple[list[Option], int]] = {}
        self._relations: dict[tuple[int, str, tuple[int, ...]], tuple[list[Option], list[Option], int]] = {}

    def filters(self, objects: int, ending: str, open_: tuple[int, ...]) -> tuple[list[Option], int]:
        """Descriptions that fit something in the scene, with what they fit among `objects`; and how many random
        descriptions to offer besides, so that there are questions about what is not there."""
        key = (objects, ending, open_)
        if key not in self._filters:
            found = [(Choice(None, words), fits & objects) for words, fits in self.world.descriptions.items()]
            if ending == "":
                found = [option for option in found if any(option[0].description)]
            singles = [option for option in found if option[1].bit_count() == 1]
            if ending == "unique":
                found, extra = singles, 0
            else:
                extra = len(found) if ending == "exist" else len(singles)
            self._filters[key] = _keep_open(found, open_), extra
        return self._filters[key]

    def relations(self, thing: int, ending: str, open_: tuple[int, ...]) -> tuple[list[Option], list[Option], int]:
        """Relations to `thing` with descriptions: those that matter, trivial ones, how many of these to offer."""
        key = (thing, ending, open_)
        if key not in self._relations:
            telling: list[Option] = []
            trivial: list[Option] = []
            for relation in RELATIONS:
                related = self.world.related[relation][thing]
                for words, fits in self.world.descriptions.items():
                    objects = related & fits
                    if (objects.bit_count() == 1) if ending == "unique" else (objects or ending in ("count", "exist")):
                        (trivial if objects == fits else telling).append((Choice(relation, words), objects))
            offered = round(len(telling) * TRIVIAL_SHARE / (1 - TRIVIAL_SHARE))
            self._relations[key] = _keep_open(telling, open_), trivial, min(offered, len(trivial))
        return self._relations[key]


def _keep_open(options: list[Option], open_: tuple[int, ...]) -> list[Option]:
    return [option for option in options if not any(option[0].description[place] for place in open_)]


def in_random_order(options: Sequence[Option], rng: random.Random) -> Iterator[Option]:
    """Each option once; shuffles only as far as it is asked, because the first few usually do."""
    left = list(options)
    while left:
        place = int(rng.random() * len(left))
        left[place], left[-1] = left[-1], left[place]
        yield left.pop()


class OutOfBudgetError(Exception):
    """The search tried as many options as it may."""


class Search:
    """One search for an instance of `template` in `options.world` whose answer is one of `allowed`."""

    def __init__(
        self, template: Template, options: Options, allowed: frozenset[Value], rng: random.Random, budget: int = BUDGET
    ) -> None:
        self.template, self.options, self.world = template, options, options.world
        self.allowed, self.rng, self.budget = allowed, rng, budget
        self.steps = plan(template)
        self.values: list[Value] = []
        self.choices: list[Choice] = []
        self.dead: set[tuple[Value, ...]] = set()

    def run(self) -> Found | None:
        """The first question found; None if there is none among the options drawn. Raises OutOfBudgetError."""
        return self._from(0)

    def _from(self, place: int) -> Found | None:
        if place == len(self.steps):
            return self._complete()
        step = self.steps[place]
        state = (place, *(self.values[i] for i in step.visible))
        if state in self.dead:
            return None
        for choice, value in self._children(step):
            self.budget -= 1
            if self.budget < 0:
                raise OutOfBudgetError
            if any(self.values[i] == value for i in step.unlike):
                continue
            self.values.append(value)
            self.choices.append(choice)
            found = self._from(place + 1)
            if found:
                return found
            self.values.pop()
            self.choices.pop()
        self.dead.add(state)
        return None

    def _children(self, step: Step) -> Iterator[tuple[Choice, Value]]:
        node, ending = step.node, step.node.ending
        inputs = [self.values[i] for i in node.inputs]
        if node.composite:
            offered = self._related(int(inputs[0]), step) if node.related else self._filtered(int(inputs[0]), step)
            for choice, objects in offered:
                yield choice, _finish(ending, objects)
            return
        function = FUNCTIONS[node.function]
        assert function.run is not None
        choices = [Choice()]
        if function.side:
            choices = [Choice(value=str(value)) for value in DOMAINS[function.side[0]]]
            self.rng.shuffle(choices)
        for choice in choices:
            value = function.run(self.world, *inputs, *choice.values)
            if value is not None:
                yield choice, value

    def _filtered(self, objects: int, step: Step) -> Iterator[Option]:
        fitting, extra = self.options.filters(objects, step.node.ending, step.open)
        nothing: Option = (Choice(), -1)
        for option in in_random_order([*fitting, *[nothing] * extra], self.rng):
            if option is not nothing:
                yield option
                continue
            size, color, material, shape = (self.rng.choice((*values, None)) for values in ATTRIBUTES.values())
            words = (size, color, material, shape)
            if not any(words[place] for place in step.open):
                yield Choice(None, words), _fitting(self.world, objects, words)

    def _related(self, thing: int, step: Step) -> Iterator[Option]:
        telling, trivial, offered = self.options.relations(thing, step.node.ending, step.open)
        drawn = _keep_open(self.rng.sample(trivial, offered), step.open)
        return in_random_order([*telling, *drawn], self.rng)

    def _complete(self) -> Found | None:
        if self.values[-1] not in self.allowed:
            return None
        program, parameters = assemble(self.template, self.choices)
        outputs = tuple(output for output in execute(self.world, program) if output is not None)
        assert len(outputs) == len(program), "the search fills no blank with what makes a node invalid"
        found = Found(program, outputs, parameters)
        if self.template.may_be_degenerate and is_degenerate(self.world, found.program, found.outputs):
            return None
        return found


def _finish(ending: str, objects: int) -> Value:
    if ending == "unique":
        return objects.bit_length() - 1
    if ending == "count":
        return objects.bit_count()
    return objects != 0 if ending == "exist" else objects


def _fitting(world: World, objects: int, words: Description) -> int:
    for word in words:
        if word is not None:
            objects &= world.having[word]
    return objects


def assemble(template: Template, choices: Sequence[Choice]) -> tuple[Program, dict[str, str]]:
    """The program that a template becomes with these choices, and the values of its parameters."""
    calls: list[Call] = []
    parameters: dict[str, str] = {}
    ends: list[int] = []  # template node -> program node

    def add(function: str, *inputs: int, values: tuple[str, ...] = ()) -> int:
        calls.append(Call(function, inputs, values))
        return len(calls) - 1

    for node, choice in zip(template.nodes, choices, strict=True):
        inputs = [ends[i] for i in node.inputs]
        if not node.composite:
            parameters.update(zip(node.side, choice.values, strict=True))
            ends.append(add(node.function, *inputs, values=choice.values))
            continue
        (last,) = inputs
        names = list(node.side)
        if choice.relation is not None:
            last = add("relate", last, values=(choice.relation,))
            parameters[names.pop(0)] = choice.relation
        for name, attribute, word in zip(names, ATTRIBUTES, choice.description, strict=True):
            if word is not None:
                last = add(f"filter_{attribute}", last, values=(word,))
            parameters[name] = word if word is not None else "thing" if attribute == "shape" else ""
        ends.append(add(node.ending, last) if node.ending else last)
    return tuple(calls), parameters
