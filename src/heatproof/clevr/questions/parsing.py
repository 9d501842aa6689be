"""From the words of a question back to its program: exact for both sets of CLEVR-XAI, in our wordings and in CLEVR's.

A sentence is rewritten until it is one of 15 frames. Nouns ("big red metal cubes") become N0, N1, ..., relations ("on
the left side of") R0, R1, ..., and places ("R0 the N1") P0, P1, ...; then nouns take in their places ("N0 that is P0"
is a noun again), inner ones first. What each of them stands for is a part of the program, kept beside the sentence.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from heatproof.clevr.questions.functions import Call, Program
from heatproof.clevr.questions.grammar import QUESTION_SETS, templates
from heatproof.clevr.questions.phrases import ANYTHING
from heatproof.clevr.questions.wording import SYNONYMS
from heatproof.clevr.questions.world import ATTRIBUTES, RELATIONS
from heatproof.errors import HeatproofError, unknown_name

WORD = re.compile(r"[a-z]+|;")


@dataclass(frozen=True)
class Tree:
    """A function, what it is given by other functions, and its value."""

    function: str
    inputs: tuple[Tree, ...] = ()
    values: tuple[str, ...] = ()


SCENE = Tree("scene")


@dataclass(frozen=True)
class Noun:
    """Values that objects are to have, by attribute, and the set that they are looked for in."""

    filters: tuple[tuple[str, str], ...]
    source: Tree = SCENE

    def within(self, source: Tree) -> Noun:
        return Noun(self.filters, source)

    @property
    def many(self) -> Tree:
        """The objects that it stands for."""
        tree = self.source
        for attribute, value in self.filters:
            tree = Tree(f"filter_{attribute}", (tree,), (value,))
        return tree

    @property
    def one(self) -> Tree:
        return Tree("unique", (self.many,))

    def query(self, attribute: str) -> Tree:
        return Tree(f"query_{attribute}", (self.one,))

    @property
    def number(self) -> Tree:
        return Tree("count", (self.many,))


def spelled(meanings: Sequence[str]) -> dict[str, str]:
    """All words and phrases for some meanings -> which it is, longest first."""
    phrases = {phrase: meaning for meaning in meanings for phrase in (meaning, *SYNONYMS.get(meaning, ()))}
    return dict(sorted(phrases.items(), key=lambda pair: -len(pair[0])))


def any_of(phrases: Sequence[str]) -> str:
    return "|".join(phrases)


VALUES = {attribute: spelled(known) for attribute, known in ATTRIBUTES.items()}
PLACES = {phrase: relation for phrase, relation in spelled(RELATIONS).items() if phrase in SYNONYMS[relation]}
NOUN = re.compile(
    r"\b"
    + "".join(f"(?:({any_of(list(VALUES[name]))}) )?" for name in list(ATTRIBUTES)[:-1])
    + f"({any_of([*VALUES['shape'], *ANYTHING])})s?"
    + r"\b"
)
RELATION = re.compile(rf"\b(?:{any_of(list(PLACES))})\b")
A = f"({any_of(list(ATTRIBUTES))})"
N = r"N(\d+)"
MANY = r"(?:how many|what number of) "
IS = r"(?:that )?(?:is |are )?"


class Sentence:
    """A question while it is rewritten, and what its N, R and P stand for."""

    def __init__(self, text: str) -> None:
        self.nouns: list[Noun] = []
        self.relations: list[str] = []
        self.places: list[Tree] = []
        text = " ".join(WORD.findall(text.lower()))
        text = re.sub(r"\banything else\b", "any thing", text)
        # `same_` leaves the object itself out, whether the sentence says so or not
        text = re.sub(r"\banother\b", "a", re.sub(r"\bother ", "", text))
        self.text = NOUN.sub(self.noun, RELATION.sub(self.relation, text))
        self.introduce()
        self.take_in_places()

    def relation(self, found: re.Match[str]) -> str:
        self.relations.append(PLACES[found[0]])
        return f"R{len(self.relations) - 1}"

    def noun(self, found: re.Match[str]) -> str:
        named = zip(VALUES, found.groups(), strict=True)
        return self.keep_noun(Noun(tuple((name, VALUES[name][word]) for name, word in named if word in VALUES[name])))

    def keep_noun(self, noun: Noun) -> str:
        self.nouns.append(noun)
        return f"N{len(self.nouns) - 1}"

    def keep_place(self, place: Tree) -> str:
        self.places.append(place)
        return f"P{len(self.places) - 1}"

    def introduce(self) -> None:
        """'there is a cube; what is its size' becomes 'what is the size of the cube'."""
        if found := re.fullmatch(r"there is a (.*?) ; (.*)", self.text):
            text = re.sub(rf"\bits {A}", r"the \1 of it", found[2])
            self.text = re.sub(r"\bit\b", f"the {found[1]}", text)

    def take_in_places(self) -> None:
        """Nouns take in where they are, until no more is to be taken in."""
        before = ""
        while before != self.text:
            before = self.text
            self.text = re.sub(r"(?:both )?P(\d+) and P(\d+)", self.at_both, self.text)
            self.text = re.sub(rf"R(\d+) the {N}\b(?! {IS}(?:both )?[RP]\d)", self.beside, self.text)
            self.text = re.sub(rf"{N} {IS}P(\d+)\b(?! and [RP]\d)", self.placed, self.text)

    def at_both(self, found: re.Match[str]) -> str:
        return self.keep_place(Tree("intersect", (self.places[int(found[2])], self.places[int(found[1])])))

    def beside(self, found: re.Match[str]) -> str:
        anchor, relation = self.nouns[int(found[2])], self.relations[int(found[1])]
        return self.keep_place(Tree("relate", (anchor.one,), (relation,)))

    def placed(self, found: re.Match[str]) -> str:
        return self.keep_noun(self.nouns[int(found[1])].within(self.places[int(found[2])]))

    def take_in_likeness(self) -> None:
        """'cube of the same size as the ball' is a noun too."""
        alike = rf"{N} (?:that )?(?:(?:is|are|has|have|there) )*(?:made )?(?:of )?the same {A} as the {N}"
        self.text = re.sub(alike, self.like, self.text)

    def like(self, found: re.Match[str]) -> str:
        other = self.nouns[int(found[3])]
        return self.keep_noun(self.nouns[int(found[1])].within(Tree(f"same_{found[2]}", (other.one,))))


COMPARED = {"less than": "less_than", "fewer": "less_than", "greater than": "greater_than", "more": "greater_than"}
"""Otherwise numbers are compared for equality."""

Said = Sequence[str]
"""The parts of a sentence that its frame leaves open, nouns by their numbers."""
Frame = tuple[str, Callable[[Sequence[Noun], Said], Tree]]


def numbers(how: str, these: Noun, those: Noun) -> Tree:
    return Tree(COMPARED.get(how, "equal_integer"), (these.number, those.number))


def equal(attribute: str, this: Noun, that: Noun) -> Tree:
    return Tree(f"equal_{attribute}", (this.query(attribute), that.query(attribute)))


def either(things: Noun, these: Noun, those: Noun) -> Tree:
    return things.within(Tree("union", (these.many, those.many))).number


COMPARING: Sequence[Frame] = (
    (
        rf"are there (an equal|the same) number of {N} and {N}",
        lambda n, said: numbers(said[0], n[int(said[1])], n[int(said[2])]),
    ),
    (
        rf"is the number of {N} (the same as|less than|greater than) the number of {N}",
        lambda n, said: numbers(said[1], n[int(said[0])], n[int(said[2])]),
    ),
    (rf"are there (fewer|more) {N} than {N}", lambda n, said: numbers(said[0], n[int(said[1])], n[int(said[2])])),
    (
        rf"(?:do|are) the {N} and the {N} (?:have |made of |of )?the same {A}",
        lambda n, said: equal(said[2], n[int(said[0])], n[int(said[1])]),
    ),
    (
        rf"(?:is|does) the {N} (?:have |made of )?the same {A} as the {N}",
        lambda n, said: equal(said[1], n[int(said[0])], n[int(said[2])]),
    ),
    (
        rf"is the {A} of the {N} the same as the {N}",
        lambda n, said: equal(said[0], n[int(said[1])], n[int(said[2])]),
    ),
)
ASKING: Sequence[Frame] = (
    (
        rf"{MANY}{N} are (?:either )?{N} or {N}",
        lambda n, said: either(n[int(said[0])], n[int(said[1])], n[int(said[2])]),
    ),
    (rf"{MANY}{N}(?: are there)?", lambda n, said: n[int(said[0])].number),
    (
        rf"(?:(?:are|is) (?:there )?any|is there a) {N}(?: visible)?",
        lambda n, said: Tree("exist", (n[int(said[0])].many,)),
    ),
    (rf"how big is the {N}", lambda n, said: n[int(said[0])].query("size")),
    (rf"what (?:material )?is the {N} made of", lambda n, said: n[int(said[0])].query("material")),
    (rf"the {N} is made of what(?: material)?", lambda n, said: n[int(said[0])].query("material")),
    (rf"what {A} is the {N}", lambda n, said: n[int(said[1])].query(said[0])),
    (rf"what is the {A} of the {N}", lambda n, said: n[int(said[1])].query(said[0])),
    (rf"the {N} (?:is|has) what {A}", lambda n, said: n[int(said[0])].query(said[1])),
)


@lru_cache(maxsize=4096)
def parse(text: str) -> Program:
    """The program of a question. An unknown word, or a sentence that the grammar does not know, is an error."""
    known = known_words()
    for word in re.findall(r"[^\W_]+", text.lower()):
        if word not in known:
            raise unknown_name(f"word of the question {text!r}", word, sorted(known))
    sentence = Sentence(text)
    for frames in (COMPARING, ASKING):
        for pattern, make in frames:
            if found := re.fullmatch(pattern, sentence.text):
                return program_of(make(sentence.nouns, found.groups()))
        sentence.take_in_likeness()
    raise HeatproofError(
        f"the question {text!r} is worded in no way that CLEVR's questions are. Such are: 'What color is the big thing"
        " left of the red cube?', 'How many other things are the same size as the ball?' (heatproof clevr ask DATASET"
        " --set complex --show 3 shows more)."
    )


@lru_cache(maxsize=1)
def known_words() -> frozenset[str]:
    """All words of our grammar, which are CLEVR's."""
    patterns = [text for name in QUESTION_SETS for template in templates(name) for text in template.texts]
    nouns = [*VALUES["shape"], *ANYTHING]
    meant = [word for known in VALUES.values() for word in known]
    said = " ".join([*patterns, *meant, *PLACES, *nouns, *(f"{noun}s" for noun in nouns)])
    return frozenset(WORD.findall(re.sub(r"<\w+>s?", " ", said).lower()))


def program_of(tree: Tree) -> Program:
    """The functions of a tree one after the other, inputs before what takes them, the answer last."""
    calls: list[Call] = []
    inputs: list[int] = []
    for part in tree.inputs:
        start = len(calls)
        calls += [Call(c.function, tuple(start + i for i in c.inputs), c.values) for c in program_of(part)]
        inputs.append(len(calls) - 1)
    return (*calls, Call(tree.function, tuple(inputs), tree.values))
