"""The words: noun phrases, relation phrases and the frames that make questions of them.

A pattern holds parameters in angle brackets and optional parts in square ones; `wording` makes a sentence of it. The
frames are such as networks trained on CLEVR understand: "What is the number of red cubes?" has only words that the
public Relation Network knows, and still it answers none of these.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from heatproof.clevr.questions.wording import NOUN

HOW_MANY = ("how many", "what number of")
ANYTHING = ("thing", "object")


@dataclass(frozen=True)
class Phrase:
    """The objects that a node of the program stands for, in words: a noun, and where they are, seen from an anchor."""

    node: int
    number: str
    """What the names of its parameters end with: nothing for the first noun of a question, then 2, 3, 4."""
    relation: str = ""
    anchor: Phrase | None = None

    def parameter(self, attribute: str) -> str:
        """The parameter of its noun that holds an attribute."""
        place = ("size", "color", "material", "shape").index(attribute)
        return NOUN[place].replace(">", f"{self.number}>")

    @property
    def noun(self) -> str:
        return " ".join(name.replace(">", f"{self.number}>") for name in NOUN)

    @property
    def nouns(self) -> str:
        return self.noun + "s"

    @property
    def place(self) -> str:
        return f"{self.relation} the {self.anchor.one}" if self.anchor else ""

    @property
    def one(self) -> str:
        return f"{self.noun} [that is] {self.place}" if self.anchor else self.noun

    @property
    def many(self) -> str:
        return f"{self.nouns} [that are] {self.place}" if self.anchor else self.nouns


def questions(sentences: Iterable[str]) -> tuple[str, ...]:
    """With a capital letter and a question mark."""
    return tuple(f"{text[0].upper()}{text[1:]}?" for text in sentences)


def same(attribute: str, optional: bool = True) -> str:
    """What follows 'is' where attributes are compared: things are the same size, but made of the same material."""
    made_of = ("[made of] " if optional else "made of ") if attribute == "material" else ""
    return f"{made_of}the same {attribute}"


def asking_value(attribute: str, definite: str, indefinite: str) -> tuple[str, ...]:
    """What is the attribute of this object? It is named as known (`definite`) or introduced first (`indefinite`)."""
    introduced = f"there is {indefinite}; "
    sentences = [
        f"what {attribute} is {definite}",
        f"what is the {attribute} of {definite}",
        f"{introduced}what {attribute} is it",
        f"{introduced}what is its {attribute}",
    ]
    if attribute == "material":
        sentences += [f"{definite} is made of what"]
        sentences += [f"{introduced}{what} is it made of" for what in ("what", "what material")]
    else:
        sentences += [f"{definite} {has} what {attribute}" for has in ("is", "has")]
    if attribute == "size":
        sentences += [f"how big is {definite}", f"{introduced}how big is it"]
    return questions(sentences)


def asking_value_of(attribute: str, one: str) -> tuple[str, ...]:
    """The same of an object that its place singles out."""
    made_of = [f"what is the {one} made of"] if attribute == "material" else []
    return asking_value(attribute, f"the {one}", f"a {one}") + questions(made_of)


def asking_number(things: Phrase) -> tuple[str, ...]:
    """How many such things are there, or are there at that place?"""
    if things.anchor is None:
        return questions(f"{how_many} {things.nouns} are there" for how_many in HOW_MANY)
    introduced = f"there is a {things.anchor.one}; "
    return questions(
        [
            *(f"{how_many} {things.nouns} are {things.place}" for how_many in HOW_MANY),
            *(f"{introduced}{how_many} {things.nouns} are {things.relation} it" for how_many in HOW_MANY),
        ]
    )


def asking_existence(things: Phrase) -> tuple[str, ...]:
    """Is there such a thing?"""
    sentences = [f"are there any {things.many}", f"is there a {things.one}"]
    if things.anchor is None:
        sentences += [f"are any {things.nouns} visible", f"is any {things.noun} visible"]
    else:
        introduced = f"there is a {things.anchor.one}; "
        sentences += [
            f"{introduced}are there any {things.nouns} [that are] {things.relation} it",
            f"{introduced}is there a {things.noun} [that is] {things.relation} it",
        ]
    return questions(sentences)


def comparing_numbers(comparison: str, these: str, those: str) -> tuple[str, ...]:
    """Are there as many, fewer or more of these than of those? The key is the function that decides."""
    if comparison == "equal_integer":
        sentences = [
            *(f"are there {as_many} number of {these} and {those}" for as_many in ("an equal", "the same")),
            f"is the number of {these} the same as the number of {those}",
        ]
    else:
        fewer, less = {"less_than": ("fewer", "less"), "greater_than": ("more", "greater")}[comparison]
        sentences = [
            f"are there {fewer} {these} than {those}",
            f"is the number of {these} {less} than the number of {those}",
        ]
    return questions(sentences)


def comparing_values(attribute: str, this: Phrase, that: Phrase) -> tuple[str, ...]:
    """Do two objects agree in an attribute?"""
    sentences = [
        f"do the {this.one} and the {that.one} have the same {attribute}",
        f"does the {this.one} have the same {attribute} as the {that.one}",
        f"is the {attribute} of the {this.one} the same as the {that.one}",
    ]
    if attribute == "material":
        sentences += [
            f"are the {this.one} and the {that.one} made of the same material",
            f"is the {this.one} made of the same material as the {that.one}",
        ]
    elif this.anchor is None and that.anchor is None:
        sentences += [
            f"is the {this.one} the same {attribute} as the {that.one}",
            f"are the {this.one} and the {that.one} the same {attribute}",
            f"are the {this.one} and the {that.one} of the same {attribute}",
        ]
    else:
        introduced = f"there is a {this.one}; "
        sentences += [
            f"{introduced}does it have the same {attribute} as the {that.one}",
            f"{introduced}is it the same {attribute} as the {that.one}",
            f"{introduced}is its {attribute} the same as the {that.one}",
        ]
    return questions(sentences)


def asking_others(attribute: str, this: Phrase) -> tuple[str, ...]:
    """Does anything else agree with this object in an attribute?"""
    like_this = f"as the {this.one}"
    singular, plural = ("is there anything else", "is there any other thing"), "are there any other things"
    return questions(
        [f"{any_} that has the same {attribute} {like_this}" for any_ in singular]
        + [f"{any_} that is {same(attribute)} {like_this}" for any_ in singular]
        + [f"{plural} that have the same {attribute} {like_this}", f"{plural} that are {same(attribute)} {like_this}"]
    )


def asking_number_of_others(attribute: str, this: Phrase) -> tuple[str, ...]:
    """How many other things agree with this object in an attribute?"""
    return questions(
        f"{how_many} other {thing}s are {agree} as the {this.one}"
        for how_many in HOW_MANY
        for thing in ANYTHING
        for agree in (same(attribute), f"there of the same {attribute}")
    )


def asking_such_others(attribute: str, this: Phrase, others: Phrase) -> tuple[str, ...]:
    """Is there another such thing that agrees with this object in an attribute?"""
    of_same = same(attribute, optional=False) if attribute == "material" else f"of the same {attribute}"
    like_this = f"as the {this.one}"
    return questions(
        [
            f"are there any other {others.nouns} that have the same {attribute} {like_this}",
            f"are there any other {others.nouns} {of_same} {like_this}",
            f"is there another {others.noun} that has the same {attribute} {like_this}",
            f"is there another {others.noun} {of_same} {like_this}",
        ]
    )


def asking_number_of_such_others(attribute: str, this: Phrase, others: Phrase) -> tuple[str, ...]:
    """How many other such things agree with this object in an attribute?"""
    return questions(
        f"{how_many} other {others.nouns} {agree} as the {this.one}"
        for how_many in HOW_MANY
        for agree in (f"have the same {attribute}", f"are {same(attribute)}", f"are there of the same {attribute}")
    )


def asking_value_of_other(asked: str, attribute: str, this: Phrase, other: Phrase) -> tuple[str, ...]:
    """What is the `asked` of the one other such thing that agrees with this object in an attribute?"""
    one = f"{other.noun} that is {same(attribute)} as the {this.one}"
    return asking_value(asked, f"the other {one}", f"another {one}")


def at_both(first: Phrase, second: Phrase) -> str:
    """A place that is given by two relations, the second one named first."""
    return f"[both] {second.place} and {first.place}"


def asking_number_of_either(things: Iterable[str], these: Phrase, those: Phrase) -> tuple[str, ...]:
    """How many things are of one kind or of the other?"""
    return questions(
        f"{how_many} {thing}s are [either] {these.many} or {those.many}" for how_many in HOW_MANY for thing in things
    )
