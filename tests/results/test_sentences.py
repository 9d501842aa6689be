"""The verdict in words: what is said must be so."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from heatproof.results.agreement import Agreement
from heatproof.results.sentences import (
    ahead,
    cost,
    duration,
    floors,
    fraction,
    lead,
    listed,
    order,
    question_of,
    told_apart,
)
from heatproof.results.verdict import Entrant, Judged, Pair
from heatproof.story import MetricWords, Story, Words
from judging import part, steps, verdict_of

WORDS = MetricWords("mass", "Mass", "")
STORY = Story("T", "", "d", (WORDS,), words=Words(cases="pictures"))


def entrant(name: str, mean: float, family: str = "gradient", **more) -> Entrant:
    return Entrant(name, name, "logit", family, mean, None, None, 0.0, **more)


def judged(*entrants: Entrant, apart=(), leaders: int = 1, low: float = 0.01, high: float = 0.2) -> Judged:
    """A contest of which these pairs of places are told apart."""
    pairs = tuple(
        Pair(i, j, entrants[i].mean - entrants[j].mean, low, high, 0.5, 0.5, 0.5, (i, j) in apart)
        for i in range(len(entrants))
        for j in range(i + 1, len(entrants))
    )
    return Judged("logit", "mass", "", "", "net", 1200, 1200, entrants, pairs, leaders)


def test_a_lead_with_its_interval():
    found = judged(entrant("a", 0.6), entrant("b", 0.5), apart=[(0, 1)], low=0.04, high=0.16)
    assert lead(found, WORDS) == "On net (explaining the logit), a leads: Mass 60.0 %."
    assert told_apart(found, STORY) == ("Over 1,200 pictures, a is 10.0 points ahead of b (95 % interval 4.0 to 16.0).")


def test_how_many_cases_would_tell_the_first_two_apart():
    found = judged(entrant("a", 0.6), entrant("b", 0.59), entrant("c", 0.1), apart=[(0, 2), (1, 2)], leaders=2)
    assert told_apart(found, STORY) == (
        "With 1,200 pictures, a and b cannot be told apart; more cases alone would not help."
    )
    assert told_apart(replace(found, needed=4321), STORY).endswith("apart; it would take some 4,321.")
    assert told_apart(replace(found, cases=1), STORY).startswith("With 1 picture, a and b")
    alone = judged(replace(entrant("a", 0.6), low=0.55, high=0.65))
    assert told_apart(alone, STORY) == "Over 1,200 pictures, its 95 % interval is 55.0 % to 65.0 %."
    assert told_apart(judged(entrant("a", 0.6)), STORY) == "It was tried on 1,200 pictures."


@pytest.mark.parametrize(("low", "high", "said"), [(-0.02, 0.2, "-2.0 to 20.0"), (0.01, 0.2, "1.0 to 20.0")])
def test_an_end_on_the_other_side_of_zero_keeps_its_sign(low, high, said):
    assert said in ahead(judged(entrant("a", 0.6), entrant("b", 0.5), low=low, high=high))
    lower = judged(entrant("a", 0.5), entrant("b", 0.6), low=-high, high=-low)  # the lower score is the better one
    assert said in ahead(lower)


def test_those_who_cannot_be_told_apart():
    three = [entrant("a", 0.6), entrant("b", 0.59), entrant("c", 0.58)]
    last = entrant("d", 0.1)
    behind = [(0, 3), (1, 3), (2, 3)]
    assert "a, b and c lead and cannot be told apart: Mass 60.0 % to 58.0 %" in lead(
        judged(*three, last, apart=behind, leaders=3), WORDS
    )
    assert "nobody leads: a, b and c cannot be told apart: Mass 60.0 % to 58.0 %" in lead(
        judged(*three, leaders=3), WORDS
    )
    some = lead(judged(*three, apart=[(1, 2)], leaders=3), WORDS)
    assert some.endswith("a leads: Mass 60.0 %; b and c cannot be told apart from it.")
    skipped = lead(judged(*three, apart=[(0, 1)], leaders=2), WORDS)
    assert skipped.endswith("a leads: Mass 60.0 %; c cannot be told apart from it."), "who is behind b does not lead"


def test_many_who_cannot_be_told_apart_are_counted():
    many = [entrant(name, 0.6) for name in "abcdefg"]
    assert "a, b, c, d and 3 more cannot" in lead(judged(*many, leaders=7), WORDS)
    assert listed(list("abcde")) == "a, b, c, d and e"
    assert listed(["a"]) == "a"


def test_what_can_be_had_for_less():
    found = judged(
        entrant("a", 0.6, seconds=40.0, is_pareto=True), entrant("b", 0.59, seconds=1.0, is_pareto=True),
        entrant("c", 0.56, seconds=0.1, is_pareto=True), apart=[(0, 2), (1, 2)], leaders=2,
    )  # fmt: skip
    assert cost(found) == (
        "a takes 40 s of CPU time per case; of those that lead, b is cheapest with 1/40 of that;"
        " c takes 1/400 of what a does and loses 4.0 points."
    )
    equal = judged(entrant("a", 0.6, seconds=0.0021), entrant("b", 0.59, seconds=1.05), leaders=2)
    assert cost(equal) == (
        "a takes 2.1 ms of CPU time per case; b, which cannot be told apart from it, takes 500 times as much."
    )
    assert fraction(entrant("x", 0, seconds=1.0), entrant("y", 0, seconds=1.25)) == "80 %"
    assert cost(judged(entrant("a", 0.6), entrant("b", 0.5), apart=[(0, 1)])) == ""


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(0.0102, "10 ms"), (0.48553, "486 ms"), (2.4e-3, "2.4 ms"), (0.9999, "1 s"), (341.7, "342 s"), (1.1e-5, "11 µs"),
     (0.00099, "990 µs"), (4e-8, "0.04 µs")],
)  # fmt: skip
def test_times_have_the_unit_that_suits_them(seconds, said):
    assert duration(seconds) == said


FLOOR = entrant("floor", 0.5, "floor")


def against(*means: float, unsure: str = "", words: MetricWords = WORDS) -> str:
    methods = [
        entrant(name, mean, no_better_than="floor" if name in unsure else "")
        for name, mean in zip("abcd", means, strict=False)
    ]
    return floors(judged(*methods, FLOOR), words)


def test_not_to_be_sure_is_not_to_be_no_better():
    known = "beats the floors, which know nothing of the model; the best of these is floor (50.0 %)."
    assert against(0.9, 0.8) == f"Every method {known}"
    assert against(0.9) == f"It {known}"
    assert against(0.9, 0.4, unsure="b").startswith(
        "1 of 2 methods is no better than a floor: b (the best floor is floor"
    )
    both = against(0.9, 0.55, 0.5, 0.4, unsure="bcd")
    assert both.startswith(
        "2 of 4 methods are no better than a floor: c and d; 1 more is not surely better than one: b ("
    )
    assert against(0.9, 0.55, unsure="b").startswith("1 of 2 methods is not surely better than a floor: b (")
    assert against(0.6, 0.4, unsure="ab") == (
        "None yet: no method is surely better than the floor floor (50.0 %), which knows nothing of the model."
    )
    assert floors(judged(entrant("a", 0.6)), WORDS) == ""


def test_lower_scores_may_be_better_ones():
    down = replace(WORDS, higher_is_better=False)
    assert "no better than a floor: b" in against(0.1, 0.6, unsure="b", words=down)
    assert "not surely better than a floor: b" in against(0.1, 0.45, unsure="b", words=down)


def test_where_the_order_holds():
    def agreement(axis: str, low: float, mean: float, high: float) -> Agreement:
        return Agreement(axis, ["p", "q"], 5, [], mean, low, high, low, ("p", "q"))

    several = [
        agreement("pooling", 0.85, 0.9, 1.0),
        agreement("metric", 0.1, 0.3, 0.4),
        agreement("subset", 0.4, 0.7, 0.9),
        agreement("ground_truth", 0.5, 0.9, 1.0),
    ]
    assert order(several) == (
        "The order of the methods holds under other poolings (0.90);"
        " it seems to hold from one truth to another (0.90);"
        " it changes on parts of the cases (0.70); it does not hold from metric to metric (0.30)."
        " These are rank correlations: 1 is the very same order."
    )


def test_sentences_of_a_whole_verdict():
    rng = np.random.default_rng(0)
    scores = steps(80, 0.7, 0.5) | {"random": np.clip(rng.normal(0.1, 0.02, 80), 0, 1)}
    found = verdict_of([part(scores, floors=["random"])], families={"random": "floor"}, failures=2)
    questions, answers = zip(*map(question_of, found.sentences), strict=True)
    assert questions == (
        "Which explainer can I trust?", "", "How sure is that?", "What does it cost?", "Is the run sound?",
    )  # fmt: skip
    assert answers[-1] == f"1 of {len(found.checks)} health checks failed: failed units."
    assert question_of("Is <b>net? sound") == ("", "Is <b>net? sound"), "names ask nothing"


def test_where_nobody_beats_a_floor_that_comes_first():
    scores = steps(30, 0.5) | {"centre": np.full(30, 0.8)}
    found = verdict_of([part(scores, floors=["centre"])], families={"centre": "floor"})
    assert found.sentences[0].startswith("Which explainer can I trust? None yet: no method is surely better than the")
    assert found.sentences[1].startswith("On net (explaining the logit), a is the only method")
