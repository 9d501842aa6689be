"""The search: as likely to find each question as CLEVR's own, bounded, and true to every constraint."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

import pytest
from scipy.stats import chi2_contingency

from heatproof.clevr.questions import asking
from heatproof.clevr.questions.asking import Tally, ask, find
from heatproof.clevr.questions.balance import Balance
from heatproof.clevr.questions.functions import Call, execute, is_degenerate
from heatproof.clevr.questions.grammar import templates
from heatproof.clevr.questions.search import Options, OutOfBudgetError, Search
from heatproof.clevr.questions.templates import Template
from heatproof.clevr.questions.world import look_at
from question_scenes import random_scenes, scene_of
from reference import clevr_search

COMPLEX = {template.name: template for template in templates("complex")}
SCENE = scene_of(
    "small red metal cube",
    "large red rubber sphere",
    "small blue metal cube",
    "large gray metal cylinder",
    depths=[2, 0, 3, 1],
)


Features = dict[str, object]


def features(functions: list[str], values: list[str], outputs: list[object]) -> Features:
    """What is counted of a question."""
    relations = [value for value in values if value in clevr_search.TYPES["Relation"]]
    anchors = [output for function, output in zip(functions, outputs, strict=True) if function == "unique"]
    return {
        "answer": outputs[-1],
        "length": len(functions),
        "filters": tuple(sorted({function for function in functions if function.startswith("filter_")})),
        "relations": tuple(relations[:2]),
        "anchors": tuple(anchors[:2]),
    }


def our_features(template: Template, options: Options, balance: Balance, seed: int) -> Features:
    found = find(template, options, balance, random.Random(seed))
    assert found is not None
    functions = [call.function for call in found.program]
    return features(functions, [value for call in found.program for value in call.values], list(found.outputs))


def literal_features(template: Template, balance: Balance, seed: int) -> Features:
    found = clevr_search.search(template, SCENE, balance.counts, random.Random(seed))
    assert found is not None
    functions = [node["type"] for node in found["program"]]
    return features(functions, [v for node in found["program"] for v in node["value_inputs"]], found["outputs"])


def assert_alike(ours: list[Features], theirs: list[Features]) -> None:
    """No feature tells the two samples apart: chi-squared, rare values taken together."""
    for feature in ours[0]:
        counts = [Counter(question[feature] for question in sample) for sample in (ours, theirs)]
        common = [value for value, count in (counts[0] + counts[1]).items() if count >= 10]
        table = [[*(count[v] for v in common), count.total() - sum(count[v] for v in common)] for count in counts]
        columns = [column for column in zip(*table, strict=True) if sum(column)]
        if len(columns) > 1:
            assert chi2_contingency(columns).pvalue > 1e-4, feature


@pytest.mark.parametrize(
    ("name", "counts", "draws"),
    [
        ("zero_hop[0]", {}, 500),
        ("zero_hop[0]", {1: 8, 0: 7}, 500),
        ("zero_hop[1]", {True: 3}, 500),
        ("zero_hop[4]", {"red": 2, "blue": 1}, 500),
        ("one_hop[0]", {}, 500),
        ("one_hop[1]", {False: 1}, 500),
        ("two_hop[1]", {True: 1}, 300),
        pytest.param("single_and[0]", {}, 300, marks=pytest.mark.slow),
        ("single_and[2]", {}, 60),
        ("single_or[1]", {}, 300),
        ("single_or[6]", {2: 1}, 300),
        ("same_relate[8]", {}, 300),
        ("same_relate[16]", {}, 300),
        ("compare_integer[1]", {False: 1}, 300),
        ("comparison[4]", {}, 300),
    ],
)
def test_each_question_is_as_likely_as_in_the_literal_search(name, counts, draws):
    """Reference: the stack without memory of tests/reference/clevr_search.py."""
    template, options = COMPLEX[name], Options(look_at(SCENE))
    balance = Balance(template.answers)
    balance.counts.update(counts)
    ours = [our_features(template, options, balance, seed) for seed in range(draws)]
    theirs = [literal_features(template, balance, 10_000 + seed) for seed in range(draws)]
    assert_alike(ours, theirs)


def test_the_test_of_likelihood_can_fail():
    """The comparison notices a search that never asks about what is not there."""

    class WithoutRandomWords(Options):
        def filters(self, *arguments):
            return super().filters(*arguments)[0], 0

    template, balance = COMPLEX["zero_hop[0]"], Balance(range(11))
    poor = [our_features(template, WithoutRandomWords(look_at(SCENE)), balance, seed) for seed in range(300)]
    with pytest.raises(AssertionError, match="answer"):
        assert_alike(poor, [literal_features(template, balance, seed) for seed in range(300)])


class EveryRelation(Options):
    """Offers all trivial relations, so that nothing is left to chance."""

    def relations(self, thing, ending, open_):
        telling, trivial, _ = super().relations(thing, ending, open_)
        return [*telling, *(o for o in trivial if not any(o[0].description[i] for i in open_))], [], 0


@pytest.mark.parametrize(
    ("name", "objects", "scenes"),
    [
        ("zero_hop[4]", 4, 4),
        *((f"same_relate[{i}]", 4, 4) for i in (0, 5, 16)),
        ("comparison[1]", 4, 4),
        *((f"one_hop[{i}]", 3, 4) for i in (0, 3)),
        *((f"comparison[{i}]", 2, 3) for i in (4, 5)),
        ("single_and[1]", 2, 2),
        pytest.param("two_hop[0]", 2, 4, marks=pytest.mark.slow),
        pytest.param("comparison[9]", 2, 4, marks=pytest.mark.slow),
    ],
)
def test_remembered_dead_ends_hide_no_question(name, objects, scenes, monkeypatch):
    """Reference: without memory, a question with a given answer is found in a scene exactly if we find one."""
    template = COMPLEX[name]
    monkeypatch.setattr(clevr_search, "TRIVIAL_PER_TELLING", 1e9)
    outcomes = set()
    for scene in random_scenes(scenes, seed=21, least=objects, most=objects):
        options = EveryRelation(look_at(scene))
        for answer in template.answers[:4]:
            monkeypatch.setattr(clevr_search, "balanced", lambda given, counts, answer=answer: given == answer)
            literal = clevr_search.search(template, scene, {}, random.Random(0))
            found = Search(template, options, frozenset({answer}), random.Random(0)).run()
            assert (found is None) == (literal is None), answer
            outcomes.add(found is None)
    assert True in outcomes


def test_balance_is_the_literal_rule():
    """Reference: the rule as written, for random counts."""
    rng = random.Random(0)
    for answers in ((True, False), tuple(range(11)), ("small", "large")):
        for _ in range(300):
            balance = Balance(answers)
            balance.counts = {answer: rng.choice([0, 0, 1, rng.randint(0, 40)]) for answer in answers}
            assert balance.allowed() == {a for a in answers if clevr_search.balanced(a, balance.counts)}


def test_an_answer_is_not_given_twice_before_another():
    balance = Balance((True, False))
    balance.add(True)
    assert balance.allowed() == {False}
    balance.add(False)
    assert balance.allowed() == {True, False}


def test_degenerate_questions_are_told():
    """Three cubes in a row: of what is right of the first, 'left of the third' leaves only the second."""
    world = look_at(scene_of("small red metal cube", "small blue metal cube", "small gray metal cube"))

    def between(first: str, second: str) -> tuple[Call, ...]:
        return (
            Call("scene"),
            Call("filter_color", (0,), ("red",)),
            Call("unique", (1,)),
            Call("relate", (2,), (first,)),
            Call("scene"),
            Call("filter_color", (4,), ("gray",)),
            Call("unique", (5,)),
            Call("relate", (6,), (second,)),
            Call("intersect", (3, 7)),
            Call("count", (8,)),
        )

    needed = between("right", "left")
    assert execute(world, needed)[-1] == 1
    assert not is_degenerate(world, needed, execute(world, needed))
    empty = between("left", "left")  # nothing is left of the first, whatever the third says
    assert execute(world, empty)[-1] == 0
    assert is_degenerate(world, empty, execute(world, empty))


def test_dropping_a_relation_may_make_a_question_invalid_and_then_it_was_needed():
    world = look_at(scene_of("small red metal cube", "small blue metal cube"))
    program = (
        Call("scene"),
        Call("filter_color", (0,), ("red",)),
        Call("unique", (1,)),
        Call("relate", (2,), ("right",)),
        Call("filter_shape", (3,), ("cube",)),
        Call("unique", (4,)),
        Call("query_size", (5,)),
    )
    assert execute(world, program)[-1] == "small"
    assert not is_degenerate(world, program, execute(world, program))


def instances(template: Template, scenes: int = 40) -> list:
    found = []
    for i, scene in enumerate(random_scenes(scenes, seed=5)):
        found.append(find(template, Options(look_at(scene)), Balance(template.answers), random.Random(i)))
    return [question for question in found if question]


def test_null_keeps_an_attribute_open():
    free = replace(COMPLEX["zero_hop[0]"], blank=frozenset())
    bound = replace(free, blank=frozenset({"<C>"}))
    assert {question.parameters["<C>"] for question in instances(bound)} == {""}
    assert len({question.parameters["<C>"] for question in instances(free)}) > 3
    no_shape = replace(free, blank=frozenset({"<S>"}))
    assert {question.parameters["<S>"] for question in instances(no_shape)} == {"thing"}


def test_out_neq_makes_outputs_differ():
    bound = COMPLEX["single_or[0]"]
    free = replace(bound, different=frozenset())

    def equal(question) -> bool:
        """Both kinds are the same set: the inputs of the union, in the order of the program."""
        union = next(call for call in question.program if call.function == "union")
        return question.outputs[union.inputs[0]] == question.outputs[union.inputs[1]]

    assert not any(equal(question) for question in instances(bound, 150))
    assert any(equal(question) for question in instances(free, 150))


def test_the_template_that_can_hardly_be_asked():
    """compare_integer[0] demands that two numbers differ and asks whether they are equal: one 'no' per 250 scenes."""
    template = COMPLEX["compare_integer[0]"]
    assert template.possible_answers == {False}
    assert [name for name, other in COMPLEX.items() if len(other.possible_answers) < len(other.answers)] == [
        template.name
    ]
    tally = Tally()
    questions = list(ask(random_scenes(501), [template, COMPLEX["zero_hop[1]"]], tally=tally))
    asked = [q for q in questions if q.template == template]
    assert [q.scene["image_index"] for q in asked] == [0, 250, 500]
    assert not any(q.answer for q in asked)
    assert template.name not in tally.nothing  # known without a search
    options, balance = Options(look_at(SCENE)), Balance((True, False))
    balance.add(False)
    with_search = replace(template, different=frozenset())
    assert find(with_search, options, balance, random.Random(0)) is not None


def test_a_search_without_hope_ends_by_itself():
    """Nothing is shared by these two objects; all 'count' answers but large ones are forbidden: every way is dead."""
    world = look_at(random_scenes(1, seed=3, least=10)[0])
    search = Search(COMPLEX["three_hop[0]"], Options(world), frozenset({10}), random.Random(0))
    assert search.run() is None
    assert 0 < search.budget < 20_000


def test_the_budget_bounds_the_search_and_is_reported(monkeypatch):
    options = Options(look_at(random_scenes(1, seed=3, least=10)[0]))
    with pytest.raises(OutOfBudgetError):
        Search(COMPLEX["three_hop[0]"], options, frozenset({10}), random.Random(0), budget=50).run()
    monkeypatch.setattr(asking, "BUDGET", 3)
    tally = Tally()
    questions = list(ask(random_scenes(5), list(COMPLEX.values()), tally=tally))
    assert tally.stopped.total() > 0
    assert len(questions) == tally.questions < 50
    assert tally.short == 5


@pytest.mark.parametrize("ending", ["unique", "count", "exist", ""])
def test_one_relation_in_ten_tells_nothing(ending):
    """Of the relations offered, a tenth leaves the noun's objects as they are (if there are so many)."""
    scene = random_scenes(1, seed=11, least=10)[0]
    telling, trivial, offered = Options(look_at(scene)).relations(4, ending, ())
    assert offered == min(len(trivial), round(len(telling) / 9))
    options = clevr_search.filter_options(scene)
    for choice, objects in trivial:
        assert {i for i in range(10) if objects >> i & 1} == options[choice.description]
    for choice, objects in telling:
        assert {i for i in range(10) if objects >> i & 1} < options[choice.description]
