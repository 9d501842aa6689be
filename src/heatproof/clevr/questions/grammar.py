"""CLEVR's questions, built from parts: 4 simple programs and 90 complex ones in nine families.

Families, order and programs are those of CLEVR, with its slips (marked where they stand), so that questions are
comparable; the wordings come from `phrases`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import get_args

from heatproof.clevr.questions import phrases
from heatproof.clevr.questions.functions import FUNCTIONS
from heatproof.clevr.questions.phrases import Phrase
from heatproof.clevr.questions.templates import Node, Template, check
from heatproof.clevr.questions.world import ATTRIBUTES
from heatproof.clevr.words import QuestionSet

QUESTION_SETS: tuple[QuestionSet, ...] = get_args(QuestionSet)

COMPARISONS = ("equal_integer", "less_than", "greater_than")


class Draft:
    """A template in the making: gives nodes and parameters their numbers as they come."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self.parameters: dict[str, str] = {}
        self.blank: set[str] = set()
        self.different: set[tuple[int, int]] = set()
        self._nouns = 0
        self._relations = 0

    def add(self, function: str, *inputs: int, side: tuple[str, ...] = ()) -> int:
        self.nodes.append(Node(function, inputs, side))
        self.parameters.update(zip(side, FUNCTIONS[function].side, strict=True))
        return len(self.nodes) - 1

    def noun(self, function: str, at: int) -> Phrase:
        """A filter of the set that node `at` gives."""
        return self._noun(function, at, "", None)

    def beside(self, function: str, anchor: Phrase) -> Phrase:
        """A filter of what stands in some relation to the anchor."""
        return self._noun(function, anchor.node, self.relation(), anchor)

    def _noun(self, function: str, at: int, relation: str, anchor: Phrase | None) -> Phrase:
        self._nouns += 1
        number = "" if self._nouns == 1 else str(self._nouns)
        phrase = Phrase(len(self.nodes), number, relation, anchor)
        side = tuple(phrase.parameter(attribute) for attribute in ATTRIBUTES)
        self.add(function, at, side=(relation, *side) if anchor else side)
        return phrase

    def relation(self) -> str:
        self._relations += 1
        return "<R>" if self._relations == 1 else f"<R{self._relations}>"

    def things(self, hops: int, ending: str) -> Phrase:
        """Things of the scene, found over some relations from one that is unique; `ending` as of composites."""
        start = self.add("scene")
        if hops == 0:
            return self.noun("filter" + ending, start)
        phrase = self.noun("filter_unique", start)
        for _ in range(hops - 1):
            phrase = self.beside("relate_filter_unique", phrase)
        return self.beside("relate_filter" + ending, phrase)

    def thing(self, hops: int = 0) -> Phrase:
        return self.things(hops, "_unique")

    def keep_open(self, attribute: str, *nouns: Phrase) -> None:
        """The nouns must not name the attribute."""
        self.blank.update(noun.parameter(attribute) for noun in nouns)

    def differ(self, a: int, b: int) -> None:
        """The outputs of two nodes must differ."""
        self.different.add((min(a, b), max(a, b)))


Drafted = tuple[Draft, tuple[str, ...]]
"""A draft and the patterns that word it."""


def number(hops: int) -> Drafted:
    draft = Draft()
    return draft, phrases.asking_number(draft.things(hops, "_count"))


def existence(hops: int) -> Drafted:
    draft = Draft()
    return draft, phrases.asking_existence(draft.things(hops, "_exist"))


def value(attribute: str, hops: int) -> Drafted:
    draft = Draft()
    thing = draft.thing(hops)
    draft.add(f"query_{attribute}", thing.node)
    draft.keep_open(attribute, thing)
    return draft, phrases.asking_value_of(attribute, thing.one)


def hop_family(hops: int, attributes: Iterable[str]) -> Iterator[Drafted]:
    """zero_hop to three_hop."""
    yield number(hops)
    yield existence(hops)
    for attribute in attributes:
        yield value(attribute, hops)


def compared_numbers(comparison: str, hops: tuple[int, int]) -> Drafted:
    draft = Draft()
    these, those = (draft.things(count, "_count") for count in hops)
    draft.add(comparison, these.node, those.node)
    if hops == (0, 0):
        # A slip of CLEVR's: it compares the numbers, not the objects, so that 'equal_integer' is never true.
        draft.differ(these.node, those.node)
    elif these.anchor and those.anchor:
        draft.differ(these.anchor.node, those.anchor.node)
    return draft, phrases.comparing_numbers(comparison, these.many, those.many)


def compare_integer() -> Iterator[Drafted]:
    for hops in ((0, 0), (1, 0), (1, 1)):
        for comparison in COMPARISONS:
            yield compared_numbers(comparison, hops)


def compared_values(attribute: str, hops: tuple[int, int]) -> Drafted:
    draft = Draft()
    query, equal = f"query_{attribute}", f"equal_{attribute}"
    this = draft.thing(hops[0])
    if hops == (0, 0) and attribute in ("size", "color"):  # CLEVR asks both values at the end here
        that = draft.thing(hops[1])
        one, other = draft.add(query, this.node), draft.add(query, that.node)
    else:
        one = draft.add(query, this.node)
        that = draft.thing(hops[1])
        other = draft.add(query, that.node)
    draft.add(equal, one, other)
    draft.differ(this.node, that.node)
    if hops == (1, 0) and attribute == "size":
        assert this.anchor is not None
        draft.keep_open(attribute, this, this.anchor)  # a slip of CLEVR's: meant is that, not the anchor
    else:
        draft.keep_open(attribute, this, that)
    return draft, phrases.comparing_values(attribute, this, that)


def comparison() -> Iterator[Drafted]:
    for attribute in ATTRIBUTES:
        yield compared_values(attribute, (0, 0))
    for attribute in ATTRIBUTES:
        for hops in ((1, 0), (0, 1), (1, 1)):
            yield compared_values(attribute, hops)


def others(attribute: str, ending: str) -> Drafted:
    """Anything that agrees with a thing in an attribute: does it exist, or how many are there?"""
    draft = Draft()
    this = draft.thing()
    draft.keep_open(attribute, this)
    draft.add(ending, draft.add(f"same_{attribute}", this.node))
    ask = {"exist": phrases.asking_others, "count": phrases.asking_number_of_others}[ending]
    return draft, ask(attribute, this)


def such_others(attribute: str, ending: str) -> Drafted:
    """The same with a noun for what agrees."""
    draft = Draft()
    this = draft.thing()
    others = draft.noun(f"filter_{ending}", draft.add(f"same_{attribute}", this.node))
    draft.keep_open(attribute, this, others)
    ask = {"exist": phrases.asking_such_others, "count": phrases.asking_number_of_such_others}[ending]
    return draft, ask(attribute, this, others)


def value_of_other(asked: str, attribute: str) -> Drafted:
    draft = Draft()
    this = draft.thing()
    other = draft.noun("filter_unique", draft.add(f"same_{attribute}", this.node))
    draft.add(f"query_{asked}", other.node)
    draft.keep_open(attribute, this, other)
    draft.keep_open(asked, other)
    return draft, phrases.asking_value_of_other(asked, attribute, this, other)


def same_relate() -> Iterator[Drafted]:
    for shape in (others, such_others):
        for ending in ("exist", "count"):
            for attribute in ATTRIBUTES:
                yield shape(attribute, ending)
    for attribute in ATTRIBUTES:
        for asked in ATTRIBUTES:
            if asked != attribute:
                yield value_of_other(asked, attribute)


def placed_twice(asked: str) -> Drafted:
    """Things at two places at once: how many, or what is the value of the one that there is?"""
    draft = Draft()
    places = []
    for _ in range(2):
        anchor, relation = draft.thing(), draft.relation()
        places.append(Phrase(draft.add("relate", anchor.node, side=(relation,)), "", relation, anchor))
    first, second = places
    place = phrases.at_both(first, second)
    meeting = draft.add("intersect", first.node, second.node)
    if asked == "count":
        things = draft.noun("filter_count", meeting)
        return draft, phrases.questions(f"{how} {things.nouns} are {place}" for how in phrases.HOW_MANY)
    draft.differ(first.node, second.node)
    thing = draft.noun("filter_unique", meeting)
    draft.keep_open(asked, thing)
    draft.add(f"query_{asked}", thing.node)
    return draft, phrases.asking_value_of(asked, f"{thing.noun} that is {place}")


def single_and() -> Iterator[Drafted]:
    for asked in ("count", *ATTRIBUTES):
        yield placed_twice(asked)


def either(hops: tuple[int, int]) -> Drafted:
    draft = Draft()
    these, those = (draft.things(count, "") for count in hops)
    if hops == (0, 0):
        draft.differ(these.node, those.node)
    draft.add("count", draft.add("union", these.node, those.node))
    return draft, phrases.asking_number_of_either(phrases.ANYTHING, these, those)


def either_with(attribute: str) -> Drafted:
    """Things of two kinds that must have a value of `attribute` besides."""
    draft = Draft()
    if attribute == "shape":  # CLEVR looks at the scene twice before it filters
        scenes = [draft.add("scene"), draft.add("scene")]
        these, those = (draft.noun("filter", scene) for scene in scenes)
    else:
        these, those = draft.things(0, ""), draft.things(0, "")
    parameter = Phrase(-1, "3").parameter(attribute)
    united = draft.add("union", these.node, those.node)
    draft.add("count", draft.add(f"filter_{attribute}", united, side=(parameter,)))
    draft.differ(these.node, those.node)
    draft.keep_open(attribute, these, those)
    things = [parameter] if attribute == "shape" else [f"{parameter} {thing}" for thing in phrases.ANYTHING]
    return draft, phrases.asking_number_of_either(things, these, those)


def single_or() -> Iterator[Drafted]:
    yield either((0, 0))
    yield either_with("size")
    yield either_with("color")
    yield either((1, 1))
    yield either_with("material")
    yield either_with("shape")
    yield either((1, 0))
    yield either((0, 1))


def unique_query() -> Iterator[Drafted]:
    """The simple set: one thing, one value."""
    for attribute in ("shape", "material", "color", "size"):
        yield value(attribute, 0)


def families(question_set: QuestionSet) -> dict[str, Iterator[Drafted]]:
    """The families of a set, in CLEVR's order."""
    if question_set == "simple":
        return {"unique_query": unique_query()}
    return {
        "compare_integer": compare_integer(),
        "comparison": comparison(),
        "one_hop": hop_family(1, ATTRIBUTES),
        "same_relate": same_relate(),
        "single_and": single_and(),
        "single_or": single_or(),
        "three_hop": hop_family(3, ("size", "shape", "color", "material")),
        "two_hop": hop_family(2, ATTRIBUTES),
        "zero_hop": hop_family(0, ("shape", "material", "color", "size")),
    }


def templates(question_set: QuestionSet) -> list[Template]:
    """Our own templates of a set."""
    return list(
        chain.from_iterable(
            (
                check(
                    Template(
                        family,
                        index,
                        texts,
                        tuple(draft.nodes),
                        draft.parameters,
                        frozenset(draft.blank),
                        frozenset(draft.different),
                    ),
                    f"{family}[{index}]",
                )
                for index, (draft, texts) in enumerate(drafted)
            )
            for family, drafted in families(question_set).items()
        )
    )
