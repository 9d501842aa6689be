"""Verdicts on synthetic runs whose truth is known."""

from __future__ import annotations

import json
from itertools import combinations

import numpy as np
import polars as pl
import pytest
from numpy.testing import assert_allclose
from scipy import stats

from heatproof.results.glances import group_letters
from heatproof.results.verdict import Verdict, judge, read_verdict
from heatproof.story import Column, MetricWords
from judging import DROP, MASS, NAN, evidence_of, part, steps, verdict_of

FLOORS = {"floor": "floor", "random": "floor", "oracle": "ceiling"}


def with_ends(scores: dict[str, np.ndarray], floor: float = 0.2, low: float = 0.05) -> dict[str, np.ndarray]:
    """The same beside two floors and a ceiling."""
    rng = np.random.default_rng(1)
    n = len(next(iter(scores.values())))
    floors = {"floor": floor + rng.normal(0, 0.02, n), "random": low + rng.normal(0, 0.02, n), "oracle": np.ones(n)}
    return scores | {name: np.clip(values, 0, 1) for name, values in floors.items()}


def test_a_plain_order():
    scores = with_ends(steps(100, 0.4, 0.7, 0.55))
    found = verdict_of([part(scores, floors=["floor", "random", "oracle"])], families=FLOORS)
    (judged,) = found.contests
    assert [entrant.explainer for entrant in judged.entrants] == ["b", "c", "a", "oracle", "floor", "random"]
    assert [entrant.explainer for entrant in judged.methods] == ["b", "c", "a"]
    assert (judged.leaders, judged.needed, judged.cases, judged.clusters) == (1, None, 100, 100)
    assert [entrant.rank for entrant in judged.methods] == [1, 2, 3]
    assert all(pair.apart for pair in judged.pairs)
    assert {entrant.groups for entrant in judged.entrants} == {""}
    best = judged.methods[0]
    assert best.mean == pytest.approx(scores["b"].mean())
    assert best.low < best.mean < best.high
    assert best.skill == pytest.approx((scores["b"].mean() - scores["floor"].mean()) / (1 - scores["floor"].mean()))
    assert "b leads: Mass" in found.sentences[0]
    assert found.sentences[1].startswith("Every method beats the floors, which know nothing of the model; the best of")


def test_pairs_have_what_the_scores_say():
    scores = steps(60, 0.5, 0.52)
    (judged,) = verdict_of([part(scores)]).contests
    pair = judged.pair(0, 1)
    assert pair is not None
    names = [judged.entrants[place].explainer for place in (pair.first, pair.second)]
    apart = scores[names[0]] - scores[names[1]]
    assert pair.difference == pytest.approx(apart.mean())
    assert pair.low < pair.difference < pair.high
    assert pair.superior == pytest.approx((apart > 0).mean())
    assert judged.pair(1, 0) is None


def same(one: Verdict, other: Verdict) -> bool:
    return json.dumps(one.plain(), sort_keys=True) == json.dumps(other.plain(), sort_keys=True)


def test_it_goes_through_json_and_back():
    scores = with_ends(steps(40, 0.4, 0.5, 0.5, 0.6))
    parts = [
        part(scores, pooling=pooling, floors=["floor", "random", "oracle"], facts={"probability": np.full(40, 0.9)})
        for pooling in ("p", "q")
    ]
    found = verdict_of(parts, families=FLOORS, columns=[Column("mass", "", "p")], half=pl.col("case") < "0020")
    assert found.agreements
    assert found.standings
    text = json.dumps(found.plain(), allow_nan=False)  # no NaN: other readers than Python's know none
    back = read_verdict(json.loads(text))
    assert same(back, found)
    assert back.contests[0].entrants == found.contests[0].entrants
    assert back.contests[0].pairs == found.contests[0].pairs
    assert back.checks == found.checks


def test_what_a_later_version_adds_is_left_out():
    plain = verdict_of([part(steps(10, 0.4, 0.6))]).plain()
    plain["contests"][0]["more"] = plain["contests"][0]["entrants"][0]["more"] = 1
    assert read_verdict(plain).contests[0].cases == 10


def test_one_explainer():
    scores = steps(30, 0.5)
    found = verdict_of([part(scores)])
    (judged,) = found.contests
    assert (judged.leaders, judged.pairs, judged.needed) == (1, (), None)
    assert judged.methods[0].rank == 1
    mean = f"{100 * scores['a'].mean():.1f} %"
    assert found.sentences[0].endswith(f"On net (explaining the logit), a is the only method: Mass {mean}.")
    assert found.sentences[1].startswith("How sure is that? Over 30 cases, its 95 % interval is ")
    assert next(check for check in found.checks if check.name == "sample size").passed is None


def test_one_case():
    found = verdict_of([part(steps(1, 0.3, 0.6))])
    (judged,) = found.contests
    assert {(entrant.low, entrant.high) for entrant in judged.entrants} == {(None, None)}
    assert (judged.pairs[0].low, judged.pairs[0].high, judged.pairs[0].p) == (None, None, 1.0)
    assert (judged.leaders, judged.needed) == (2, None)
    assert "cannot be told apart" in found.sentences[0]
    json.dumps(found.plain(), allow_nan=False)


def test_no_case_that_has_a_truth():
    nothing = {name: [NAN, NAN] for name in "ab"}
    found = verdict_of([part(nothing, uniform=None)])
    assert found.contests == ()
    assert found.sentences == ()


def test_a_glance_says_what_the_contest_would():
    """Reference: the contest that is held where the other pooling is the one shown."""
    rng = np.random.default_rng(1)
    shifts = {"a": 0.0, "b": 0.02, "c": 0.3, "random": 0.1}
    parts = [part({name: rng.random(40) + shift for name, shift in shifts.items()}, pooling=p) for p in "pq"]
    first, other = (verdict_of(parts, families={"random": "floor"}, columns=[Column("mass", "", p)]) for p in "pq")
    (contest,) = other.contests
    said = {(e.explainer, e.groups, e.rank, e.rank_low, e.rank_high) for e in contest.methods}
    assert {(g.explainer, g.groups, g.rank, g.rank_low, g.rank_high) for g in first.glances} == said
    floors = {e.explainer: contest.against_floor(e, True) for e in contest.methods}
    assert {g.explainer: g.floor for g in first.glances} == floors
    assert {(g.metric, g.ground_truth, g.pooling, g.target) for g in first.glances} == {("mass", "", "q", "logit")}
    assert read_verdict(json.loads(json.dumps(first.plain()))) == first


def test_a_ceiling_is_no_estimate_and_hits_of_a_method_are_one():
    """Reference: SciPy's exact interval of 20 of 20. A floor that scores the same everywhere does so by nature."""
    noise = np.random.default_rng(0).random(20)
    scores = {"a": noise, "hits": np.ones(20), "oracle": np.ones(20), "constant": np.full(20, 0.5)}
    found = verdict_of([part(scores)], families={"oracle": "ceiling", "constant": "floor"})
    ends = {entrant.short: (entrant.low, entrant.high) for entrant in found.contests[0].entrants}
    exact = stats.binomtest(20, 20).proportion_ci(0.95, method="exact")
    assert ends["hits"] == pytest.approx((exact.low, 1.0))
    assert ends["oracle"] == (1.0, 1.0)
    assert ends["constant"] == (0.5, 0.5)


def test_a_floor_without_scores_fails_no_check():
    values = np.random.default_rng(0).random(20)
    found = verdict_of([part({"a": values, "constant": np.full(20, NAN)})], families={"constant": "floor"})
    check = next(check for check in found.checks if check.name == "undefined scores")
    assert (check.passed, check.text) == (True, "Every map has its score.")


def test_ends_of_ranks_are_ranks():
    rng = np.random.default_rng(3)
    found = verdict_of([part({name: rng.random(37) + 0.05 * place for place, name in enumerate("abcdef")})])
    ends = [end for method in found.contests[0].methods for end in (method.rank_low, method.rank_high)]
    assert all(2 * end == int(2 * end) for end in ends)  # ties share a rank between two


def test_ties_everywhere():
    same_scores = np.random.default_rng(0).random(50)
    found = verdict_of([part(dict.fromkeys("abc", same_scores))])
    (judged,) = found.contests
    assert [entrant.rank for entrant in judged.methods] == [2, 2, 2]
    assert {entrant.groups for entrant in judged.methods} == {"a"}
    assert (judged.leaders, judged.needed) == (3, None)
    assert "nobody leads: a, b and c cannot be told apart" in found.sentences[0]
    check = next(check for check in found.checks if check.name == "sample size")
    assert "more cases alone would not help" in check.text


def test_lower_is_better():
    scores = with_ends(steps(80, 0.3, 0.6), floor=0.8, low=0.9) | {"oracle": np.zeros(80)}
    found = verdict_of([part(scores, "drop", floors=["floor", "random", "oracle"])], (DROP,), FLOORS)
    (judged,) = found.contests
    assert [entrant.explainer for entrant in judged.entrants] == ["a", "b", "oracle", "floor", "random"]
    assert judged.methods[0].skill == pytest.approx(1 - scores["a"].mean() / scores["floor"].mean())
    assert judged.methods[0].skill_low < judged.methods[0].skill < judged.methods[0].skill_high
    pair = judged.pair(0, 1)
    assert pair.difference < 0
    assert pair.superior > 0.9
    assert all(not entrant.no_better_than for entrant in judged.methods)
    assert f"{-100 * pair.high:.1f} to {-100 * pair.low:.1f}" in found.sentences[2]


def test_a_failed_explainer_counts_as_uniform():
    """b is the best wherever it gives a map, and gives one for the easy half only."""
    scores = steps(60, 0.5, 0.6, spread=0.01)
    half = {"a": scores["a"], "b": [value if place < 30 else None for place, value in enumerate(scores["b"])]}
    (judged,) = verdict_of([part(half)]).contests
    assert [entrant.explainer for entrant in judged.methods] == ["a", "b"]
    assert judged.cases == 60
    assert judged.methods[1].undefined == 0.5
    assert judged.methods[1].mean == pytest.approx((scores["b"][:30].sum() + 30 * 0.1) / 60)


def test_where_no_uniform_score_is_known_the_common_cases_decide():
    scores = steps(40, 0.5, 0.6, 0.7)
    gaps = scores | {"b": [value if place < 30 else NAN for place, value in enumerate(scores["b"])]}
    (judged,) = verdict_of([part(gaps, uniform=None)]).contests
    assert judged.cases == 30
    assert judged.methods[0].mean == pytest.approx(scores["c"][:30].mean())


def test_one_who_is_hardly_heard_spoils_no_contest():
    scores = steps(40, 0.5, 0.6, 0.7)
    for heard in (0, 3):
        gaps = scores | {"b": [value if place < heard else NAN for place, value in enumerate(scores["b"])]}
        (judged,) = verdict_of([part(gaps, uniform=None)]).contests
        assert [entrant.explainer for entrant in judged.methods] == ["c", "a"]
        assert judged.cases == 40


def test_cases_without_a_truth_leave_the_table_for_all():
    scores = {name: np.where(np.arange(20) < 5, np.nan, values) for name, values in steps(20, 0.5, 0.9).items()}
    rows = part(scores).with_columns(uniform=pl.when(pl.col("case") < "0005").then(None).otherwise(pl.col("uniform")))
    (judged,) = verdict_of([rows]).contests
    assert judged.cases == 15
    assert judged.methods[0].undefined == 0


def test_several_models():
    """Three networks that agree, and three of which one does not."""
    parts = [part(steps(80, 0.4, 0.6, seed=seed), model=f"net-{seed}") for seed in range(3)]
    found = verdict_of(parts)
    (judged,) = found.contests
    assert judged.model == "mean of 3 models"
    assert judged.leaders == 1
    first = judged.methods[0]
    assert first.mean == pytest.approx(
        np.mean([rows.filter(metric="mass", explainer="b")["value"].mean() for rows in parts])
    )
    assert first.low < first.mean < first.high
    turned = [*parts[:2], part(dict(zip("ba", steps(80, 0.4, 0.6, seed=2).values(), strict=True)), model="net-2")]
    (doubtful,) = verdict_of(turned).contests
    assert doubtful.leaders == 2
    assert doubtful.pairs[0].adjusted < 0.05
    assert not doubtful.pairs[0].apart
    assert doubtful.needed is None
    assert doubtful.pairs[0].low < 0 < doubtful.pairs[0].high


def test_a_model_on_which_an_explainer_failed():
    parts = [part(steps(40, 0.4, 0.6, seed=0), model="net-0"), part({"a": steps(40, 0.4)["a"]}, model="net-1")]
    (judged,) = verdict_of(parts).contests
    assert [entrant.explainer for entrant in judged.methods] == ["a"]
    line = evidence_of(parts).table.filter(explainer="b", model="mean of 2 models").row(0, named=True)
    assert (line["n"], line["ci_low"], line["ci_high_all"]) == (1, None, None)


def test_clusters_are_counted_not_cases():
    scores = {name: np.repeat(values, 10) for name, values in steps(8, 0.5, 0.53, spread=0.02).items()}
    pictures = np.repeat(np.arange(8), 10)
    alone = verdict_of([part(scores)]).contests[0]
    (judged,) = verdict_of([part(scores, facts={"picture": pictures})], cluster="picture").contests
    assert (judged.cases, judged.clusters) == (80, 8)
    assert judged.pairs[0].p > alone.pairs[0].p
    widths = [contest.entrants[0].high - contest.entrants[0].low for contest in (judged, alone)]
    assert widths[0] > 2 * widths[1]


def test_one_picture_has_no_interval():
    """Forty questions about one picture are one independent thing."""
    rows = part(with_ends(steps(40, 0.5, 0.9)), facts={"picture": np.zeros(40)})
    evidence = evidence_of([rows], families=FLOORS, cluster="picture")
    assert evidence.table["ci_low"].null_count() == len(evidence.table)
    assert evidence.table["skill_low"].null_count() == len(evidence.table)
    (judged,) = judge(evidence).contests
    assert judged.leaders == 2
    assert judged.pairs[0].low is None


def test_two_targets_and_several_columns():
    scores = steps(30, 0.4, 0.6)
    parts = [
        part(scores, metric, target=target, pooling="p")
        for target in ("logit", "probability")
        for metric in ("mass", "drop")
    ]
    columns = (Column("mass", "", "p"), Column("drop", "", "p"))
    found = verdict_of(parts, (MASS, DROP), columns=columns)
    assert [(judged.target, judged.metric) for judged in found.contests] == [
        ("probability", "mass"), ("probability", "drop"), ("logit", "mass"), ("logit", "drop")
    ]  # fmt: skip
    assert [judged.methods[0].explainer for judged in found.contests] == ["b", "a", "b", "a"]
    assert {agreement.axis for agreement in found.agreements} == set()  # two methods are no order


def test_the_pareto_set():
    scores = steps(50, 0.8, 0.7, 0.6, 0.5)
    (judged,) = verdict_of([part(scores, seconds={"a": 9.0, "b": 3.0, "c": 4.0, "d": 1.0})]).contests
    assert [entrant.is_pareto for entrant in judged.methods] == [True, True, False, True]
    assert [entrant.seconds for entrant in judged.methods] == [9, 3, 4, 1]
    same_cost = verdict_of([part(scores)]).contests[0]
    assert [entrant.is_pareto for entrant in same_cost.methods] == [True, False, False, False]


def test_no_better_than_a_floor():
    scores = with_ends(steps(60, 0.6, 0.3, 0.1), floor=0.3)
    found = verdict_of([part(scores, floors=["floor", "random", "oracle"])], families=FLOORS)
    (judged,) = found.contests
    assert [entrant.no_better_than for entrant in judged.methods] == ["", "floor", "floor"]
    assert [entrant.no_better_than for entrant in judged.entrants if entrant.is_baseline] == ["", "", ""]
    beaten = [entrant for entrant in judged.methods if entrant.mean <= scores["floor"].mean()]
    assert any(f"{len(beaten)} of 3 method" in sentence for sentence in found.sentences)


def test_letters_say_who_can_be_told_apart():
    scores = steps(25, 0.5, 0.52, 0.54, 0.56, 0.58, 0.6, spread=0.06)
    (judged,) = verdict_of([part(scores)]).contests
    for i, j in combinations(range(6), 2):
        share = set(judged.entrants[i].groups) & set(judged.entrants[j].groups)
        assert bool(share) != judged.pair(i, j).apart
    assert len({*judged.entrants[0].groups}) >= 1


def test_there_are_letters_for_many_groups():
    letters = group_letters([[place, place + 1] for place in range(40)])
    assert len(letters) == 41
    assert all(set(letters[place]) & set(letters[place + 1]) for place in range(40))


def test_unbounded_metrics_are_judged_too():
    free = MetricWords("free", "Free", "", range=(-np.inf, np.inf))
    rng = np.random.default_rng(0)
    scores = {"a": rng.normal(5, 1, 40), "b": rng.normal(9, 1, 40)}
    (judged,) = verdict_of([part(scores, "free", uniform=None)], (free,)).contests
    assert judged.leaders == 1
    assert_allclose(judged.pairs[0].difference, scores["b"].mean() - scores["a"].mean())


def glimpsed(found, **wanted):
    """What the glances at this reading say."""
    return {
        (g.explainer, g.groups, g.rank, g.rank_low, g.rank_high)
        for g in found.glances
        if all(getattr(g, axis) == value for axis, value in wanted.items())
    }


def said_of(found):
    (contest,) = found.contests
    return {(e.explainer, e.groups, e.rank, e.rank_low, e.rank_high) for e in contest.methods}


def test_parts_of_the_cases_and_networks_are_contests_of_their_own():
    """Reference: the same scores, judged as if there were no others."""
    rng = np.random.default_rng(2)
    first, second = ({name: rng.random(60) + shift for name, shift in zip("abc", shifts, strict=True)}
                     for shifts in ([0.0, 0.05, 0.4], [0.5, 0.45, 0.0]))  # fmt: skip
    kinds = ["round" if place % 3 else "square" for place in range(60)]
    parts = [part(scores, model=model, facts={"kind": kinds}) for model, scores in {"n1": first, "n2": second}.items()]
    found = verdict_of(parts, round=pl.col("kind") == "round")
    assert {(g.subset, g.model) for g in found.glances} == {
        ("all", "n1"), ("all", "n2"), ("round", ""), ("round", "n1"), ("round", "n2"),
    }  # fmt: skip
    assert glimpsed(found, subset="all", model="n2") == said_of(verdict_of(parts[1:]))
    is_round = pl.col("kind") == "round"
    kept = [rows.filter(is_round) for rows in parts]
    assert glimpsed(found, subset="round", model="") == said_of(verdict_of(kept))
    assert glimpsed(found, subset="round", model="n1") == said_of(verdict_of(kept[:1]))
    assert glimpsed(found, subset="all", model="n1") != glimpsed(found, subset="all", model="n2")
