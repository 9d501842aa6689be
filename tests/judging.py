"""Synthetic runs, judged: scores by hand go through the same tables and verdict as those of a real run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl

from heatproof.results.agreement import Orders
from heatproof.results.columns import Gathered, gather
from heatproof.results.leaderboard import leaderboard
from heatproof.results.verdict import Evidence, Verdict, judge, methods_of
from heatproof.story import Column, MetricWords, Story, Words

NAN = float("nan")
MASS = MetricWords("mass", "Mass", "", localises=True)
DROP = MetricWords("drop", "Drop", "", higher_is_better=False)

Scores = Mapping[str, Sequence[float]]
"""A score per case, by explainer; cases behind the last one are missing."""


def part(
    scores: Scores, metric: str = "mass", model: str = "net", target: str = "logit", uniform: float | None = 0.1,
    pooling: str = "", floors: Sequence[str] = (),
    facts: Mapping[str, Any] | None = None, seconds: Mapping[str, float] | None = None,
) -> pl.DataFrame:  # fmt: skip
    """Score rows of some explainers. A score that is None has no row at all, as of a unit that failed."""
    rows: list[dict[str, Any]] = []
    for explainer, values in scores.items():
        of = "" if explainer in floors else target
        for place, value in enumerate(values):
            named = {"case": f"{place:04d}", "model": model, "target": of, "explainer": explainer}
            known = {name: column[place] for name, column in (facts or {}).items()}
            axes = {"metric": metric, "ground_truth": "", "pooling": pooling}
            if value is not None:
                rows.append({**named, **axes, "value": float(value), "uniform": uniform, **known})
                cost = (seconds or {}).get(explainer, 1.0)
                rows.append({**named, **axes, "metric": "seconds", "value": cost, "uniform": None, **known})
    return pl.DataFrame(rows, schema_overrides={"uniform": pl.Float64})


def gathered(
    parts: Sequence[pl.DataFrame], metrics: Sequence[MetricWords], cluster: str = "", **subsets: Any
) -> Gathered:
    return gather(parts, [words.name for words in metrics], subsets, cluster)


def verdict_of(
    parts: Sequence[pl.DataFrame], metrics: Sequence[MetricWords] = (MASS,), families: Mapping[str, str] | None = None,
    cluster: str = "", failures: int = 0, columns: Sequence[Column] = (), repeats: int | None = None, **subsets: Any,
) -> Verdict:  # fmt: skip
    """The verdict on these rows; explainers are methods unless `families` says otherwise."""
    return judge(evidence_of(parts, metrics, families, cluster, failures, columns, repeats, **subsets))


def evidence_of(
    parts: Sequence[pl.DataFrame], metrics: Sequence[MetricWords] = (MASS,), families: Mapping[str, str] | None = None,
    cluster: str = "", failures: int = 0, columns: Sequence[Column] = (), repeats: int | None = None, **subsets: Any,
) -> Evidence:  # fmt: skip
    story = Story(
        "T", "", "data", tuple(metrics), tuple(columns), words=Words(cases="cases"), cluster=cluster, repeats=repeats
    )
    names = list(dict.fromkeys(name for rows in parts for name in rows["explainer"]))
    entries = [{"explainer": name, "short": name, "family": (families or {}).get(name, "gradient")} for name in names]
    scores = gathered(parts, metrics, cluster, **subsets)
    orders = Orders({words.name: words.higher_is_better for words in metrics}, methods_of(entries))
    table = leaderboard(
        scores, benchmark="b", dataset="d", metrics=metrics, families=dict(families or {}), reference=None, seed=0,
        look=orders.add,
    )  # fmt: skip
    return Evidence(scores, orders, table, story, entries, 0, failures)


def steps(n: int, *shifts: float, seed: int = 0, spread: float = 0.05) -> dict[str, np.ndarray]:
    """Methods a, b, c ... of these means; scores hang together by how hard a case is."""
    rng = np.random.default_rng(seed)
    hard = rng.uniform(-0.1, 0.1, n)
    return {"abcdefghij"[k]: np.clip(s + hard + rng.normal(0, spread, n), 0, 1) for k, s in enumerate(shifts)}
