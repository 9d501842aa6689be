"""Questions back to their programs: every wording of both sets, ours and CLEVR's own; what cannot be parsed says so."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from heatproof.clevr.questions.asking import Question, ask
from heatproof.clevr.questions.functions import Program
from heatproof.clevr.questions.grammar import QUESTION_SETS, templates
from heatproof.clevr.questions.official import load_synonyms, load_templates
from heatproof.clevr.questions.parsing import known_words, parse
from heatproof.clevr.questions.templates import Template
from heatproof.clevr.questions.wording import SYNONYMS, put_into_words
from heatproof.clevr.scenes import SceneSettings, sample_scene
from heatproof.errors import HeatproofError
from heatproof.models.relation_network import words

OFFICIAL = "clevr/templates"


@pytest.fixture(scope="module")
def scenes() -> Sequence[Mapping[str, Any]]:
    return [sample_scene(SceneSettings(seed=77), index) for index in range(10)]


def tree(program: Program, place: int = -1) -> tuple[Any, ...]:
    """A program without the order of its nodes, which CLEVR's templates do not agree about."""
    call = program[place]
    return call.function, call.values, tuple(tree(program, i) for i in call.inputs)


def every_wording(asked: Sequence[Question], synonyms: Mapping[str, Sequence[str]]) -> list[tuple[str, Program]]:
    """Each question in all patterns of its template, with synonyms and optional parts drawn twice."""
    rng = random.Random(1)
    return [
        (put_into_words((text,), question.found.parameters, rng, synonyms), question.found.program)
        for question in asked
        for text in question.template.texts
        for _ in range(2)
    ]


def asked_of_all(scenes: Sequence[Mapping[str, Any]], known: Sequence[Template]) -> list[Question]:
    asked = list(ask(scenes, known, seed=5, per_image=len(known)))
    assert {question.template.name for question in asked} == {template.name for template in known}
    return asked


@pytest.mark.parametrize("name", QUESTION_SETS)
def test_every_wording_of_ours_gives_its_program(scenes, name):
    """Against the programs that the questions were made from."""
    for text, program in every_wording(asked_of_all(scenes, templates(name)), SYNONYMS):
        assert tree(parse(text)) == tree(program), text


@pytest.mark.parametrize("name", QUESTION_SETS)
def test_every_wording_of_clevrs_own_gives_its_program(scenes, name, shared_data):
    folder = shared_data(OFFICIAL)
    asked = asked_of_all(scenes, load_templates(folder, name))
    for text, program in every_wording(asked, load_synonyms(folder) or SYNONYMS):
        assert tree(parse(text)) == tree(program), text


def test_case_and_spaces_do_not_matter():
    said = "There is a big red thing; how many cubes are to the left of it?"
    assert parse("there is a  BIG red thing ;how many cubes are to the left of it") == parse(said)


def test_known_words_are_those_of_clevrs_vocabulary():
    """Against the vocabulary of the public Relation Network, which learned all of CLEVR."""
    assert known_words() <= {word for word in words if word.isalpha()} | {";"}


@pytest.mark.parametrize(
    ("question", "said"),
    [
        ("What color is the large orange sphere?", "'orange'"),
        ("What texture is the large sphere?", "'texture'"),
        ("How many Würfel are there?", "'würfel'"),
        ("How many 3 cubes are there?", "'3'"),
        ("What color is the sphere large?", "worded in no way"),
        ("What shape is the shape?", "worded in no way"),
        ("cube", "worded in no way"),
        ("", "worded in no way"),
        ("N0 R0 P0", "'n0'"),
        ("What is the size of the cube that is?", "worded in no way"),
    ],
)
def test_what_cannot_be_parsed_is_named(question, said):
    with pytest.raises(HeatproofError, match=said) as refused:
        parse(question)
    assert repr(question) in str(refused.value)
