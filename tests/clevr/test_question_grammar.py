"""Our grammar: CLEVR's programs, in words that CLEVR's networks know."""

from __future__ import annotations

import json
import random
import re
from collections import Counter
from importlib import resources
from itertools import product

import pytest

from heatproof.clevr.questions.functions import DOMAINS, FUNCTIONS, SIDES, Call, execute
from heatproof.clevr.questions.grammar import QUESTION_SETS, templates
from heatproof.clevr.questions.official import FOLDERS, load_synonyms, load_templates
from heatproof.clevr.questions.wording import OPTIONAL, SYNONYMS, put_into_words
from heatproof.clevr.questions.world import ATTRIBUTES, look_at
from question_scenes import random_scenes
from reference import clevr_programs

EVERY = [template for question_set in QUESTION_SETS for template in templates(question_set)]
VOCABULARY = set(
    json.loads(resources.files("heatproof.models").joinpath("vocabulary.json").read_text(encoding="utf-8"))["words"]
)


def words(text: str) -> list[str]:
    """As the Relation Network's vocabulary splits a question."""
    return re.sub(r"([;?])", r" \1 ", text).lower().split()


def test_sizes_of_sets_and_families():
    """Reference: the counts of CLEVR's template files."""
    assert len(templates("simple")) == 4
    sizes = Counter(template.family for template in templates("complex"))
    assert list(sizes.items()) == [
        ("compare_integer", 9),
        ("comparison", 16),
        ("one_hop", 6),
        ("same_relate", 28),
        ("single_and", 5),
        ("single_or", 8),
        ("three_hop", 6),
        ("two_hop", 6),
        ("zero_hop", 6),
    ]


@pytest.mark.parametrize("question_set", QUESTION_SETS)
def test_programs_are_those_of_the_official_templates(question_set, shared_data):
    """Reference: CLEVR's own template files; node for node, parameter for parameter, constraint for constraint."""
    official = load_templates(shared_data("clevr/templates"), question_set)
    ours = templates(question_set)
    assert [t.name for t in ours] == [t.name for t in official]
    for own, other in zip(ours, official, strict=True):
        assert own.nodes == other.nodes, own.name
        assert list(own.parameters.items()) == list(other.parameters.items()), own.name
        assert (own.blank, own.different) == (other.blank, other.different), own.name


def test_constraints_are_as_many_as_in_the_official_files():
    """Reference: 120 NULL and 31 OUT_NEQ in the complex files, 4 NULL in the simple one."""
    assert sum(len(t.blank) for t in templates("complex")) == 120
    assert sum(len(t.different) for t in templates("complex")) == 31
    assert [t.blank for t in templates("simple")] == [{"<S>"}, {"<M>"}, {"<C>"}, {"<Z>"}]


def test_kinds_of_questions():
    """Reference: counts by what is asked, and the ten templates that name no single object."""

    def asked(function: str) -> str:
        output = FUNCTIONS[function].output
        if output in SIDES:
            return "query"
        if function.endswith(("count", "exist")):
            return function[-5:]
        return "integers" if function in ("equal_integer", "less_than", "greater_than") else "attributes"

    complex_ = templates("complex")
    kinds = Counter(asked(t.nodes[-1].function) for t in complex_)
    assert kinds == {"query": 32, "count": 21, "exist": 12, "attributes": 16, "integers": 9}
    without_unique = [t.name for t in complex_ if not any(n.function.endswith("unique") for n in t.nodes)]
    assert without_unique == [
        *(f"compare_integer[{i}]" for i in (0, 1, 2)),
        *(f"single_or[{i}]" for i in (0, 1, 2, 4, 5)),
        *(f"zero_hop[{i}]" for i in (0, 1)),
    ]


@pytest.mark.parametrize("template", EVERY, ids=lambda t: t.name)
def test_every_pattern_says_every_parameter_once(template):
    assert len(set(template.texts)) == len(template.texts) >= 2
    for text in template.texts:
        assert Counter(re.findall(r"<\w+>", text)) == Counter(template.parameters.keys()), text
        assert text[0].isupper()
        assert text[-1] == "?"


def test_every_word_is_in_the_vocabulary_and_none_is_left_out():
    """All patterns with all values, all synonyms, with and without optional parts."""
    said = set()
    for template in EVERY:
        for text in template.texts:
            said |= set(words(re.sub(r"<\w+>s?", "", OPTIONAL.sub(r"\1", text))))
            said |= set(words(re.sub(r"<\w+>s?", "", OPTIONAL.sub("", text))))
            for name, kind in template.parameters.items():
                for value in (*DOMAINS[kind], "thing") if kind == "Shape" else DOMAINS[kind]:
                    for synonym in SYNONYMS.get(value, (value,)):
                        said |= {word + "s" if f"{name}s" in text else word for word in synonym.split()}
    assert said <= VOCABULARY
    assert VOCABULARY - said == set()


def test_the_official_folder_gives_the_official_words(shared_data):
    folder = shared_data("clevr/templates")
    synonyms = load_synonyms(folder)
    assert {word: synonyms[word] for word in SYNONYMS} == SYNONYMS
    for question_set, name in FOLDERS.items():
        loaded = load_templates(folder, question_set)
        assert loaded == load_templates(folder / name, question_set)
        for template in loaded:
            entries = json.loads((folder / name / f"{template.family}.json").read_text())
            assert list(template.texts) == entries[template.index]["text"]
    assert load_synonyms(folder / FOLDERS["simple"]) == synonyms


# Words


def say(text: str, seed: int = 0, **values: str) -> str:
    return put_into_words([text], {f"<{name}>": value for name, value in values.items()}, random.Random(seed), SYNONYMS)


def test_values_synonyms_and_spaces():
    said = Counter(
        say("Is the <Z> <C> <M> <S> <R> it?", i, Z="", C="red", M="metal", S="thing", R="left") for i in range(600)
    )
    expected = {
        f"Is the red {material} {thing} {place} it?"
        for material in ("metallic", "metal", "shiny")
        for thing in ("thing", "object")
        for place in ("left of", "to the left of", "on the left side of")
    }
    assert set(said) == expected
    assert min(said.values()) > 10  # 600 / 18 expected


def test_optional_parts_are_kept_half_of_the_time_each_by_itself():
    said = Counter(say("a [b] c [d e] f", i) for i in range(400))
    assert set(said) == {"a b c d e f", "a b c f", "a c d e f", "a c f"}
    assert min(said.values()) > 70


NOUNS = {"Z": "", "C": "", "M": "", "S": "cube", "Z2": "", "C2": "", "M2": "", "S2": "cube"}


@pytest.mark.parametrize(
    ("changed", "stays"),
    [
        ({}, True),
        ({"C": "red"}, True),
        ({"C": "red", "C2": "red"}, True),
        ({"C": "red", "C2": "blue"}, False),
        ({"Z": "large", "Z2": "small"}, False),
        ({"S2": "sphere"}, False),
        ({"S2": "thing"}, False),  # CLEVR takes 'thing' for a shape of its own
        ({"S": "thing", "S2": "thing"}, True),
    ],
)
def test_other_goes_where_the_nouns_differ(changed, stays):
    values = NOUNS | changed
    many = say("Any other <Z2> <C2> <M2> <S2>s like the <Z> <C> <M> <S>?", **values)
    one = say("Is there another <Z2> <C2> <M2> <S2> like the <Z> <C> <M> <S>?", **values)
    assert (" other " in many) == (" another " in one) == stays
    assert (" there a " in one) == (not stays)


def test_other_stays_where_the_rule_does_not_apply():
    """Only with exactly the eight parameters of two nouns."""
    assert " other " in say("Any other <S2> like the <S>?", S="cube", S2="sphere")
    assert " other " in say("An other <S2> like <S>, <R>?", **NOUNS | {"S2": "sphere"}, R="left")


# Functions


def test_every_plain_function_against_the_literal_one():
    """Reference: tests/reference/clevr_programs.py, for every input there is in some scenes."""
    plain = {name: function for name, function in FUNCTIONS.items() if function.run}
    assert len(plain) == 11 + 4 * len(ATTRIBUTES)
    for scene in random_scenes(4, seed=2, most=4):
        world = look_at(scene)
        things = range(world.count)
        inputs = {
            "ObjectSet": range(1 << world.count),
            "Object": things,
            **{kind: DOMAINS[kind] for kind in ("Integer", *SIDES)},
        }
        for name, function in plain.items():
            for given in product(*(inputs[kind] for kind in function.inputs)):
                for side in product(*(DOMAINS[kind] for kind in function.side)):
                    ours = execute(world, [*[Call("scene")] * len(given), call(name, given, side)], given)[-1]
                    literal_inputs = [
                        [i for i in things if value >> i & 1] if kind == "ObjectSet" else value
                        for kind, value in zip(function.inputs, given, strict=True)
                    ]
                    try:
                        literal = clevr_programs.run(name, literal_inputs, list(side), scene)
                    except clevr_programs.InvalidError:
                        literal = None
                    if function.output == "ObjectSet":
                        ours = [i for i in things if ours >> i & 1]
                    assert ours == literal, (name, given, side)


def call(name: str, given: tuple, side: tuple) -> Call:
    return Call(name, tuple(range(len(given))), side)


def test_what_follows_an_invalid_node_is_invalid():
    world = look_at(random_scenes(1)[0])
    assert execute(world, [Call("scene"), Call("unique", (0,)), Call("query_size", (1,))]) == [
        world.everything,
        None,
        None,
    ]
