"""Every reading of a leaderboard as compact data, so that a page can show any of them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any

from heatproof.lazy import pl
from heatproof.results.glances import BASELINES
from heatproof.results.tables import Board

if TYPE_CHECKING:
    from heatproof.results.run import Results

AXES = ("metric", "ground_truth", "pooling", "subset", "target", "model")
AXIS_TITLES = {
    "metric": "metric",
    "ground_truth": "ground truth",
    "pooling": "pooling",
    "subset": "part of the cases",
    "target": "explained",
    "model": "network",
}
NOTHING_CHOSEN = {
    "metric": "all, one beside the other",
    "ground_truth": "as shown first",
    "pooling": "as shown first",
    "subset": "all",
    "target": "all",
    "model": "all together",
}
"""What a filter says that leaves the table as it is."""
NUMBERS = {
    "mean": "mean",
    "low": "ci_low",
    "high": "ci_high",
    "undefined": "undefined",
    "whole": "mean_all",
    "reference": "reference",
    "elsewhere": "reference_elsewhere",
    "skill": "skill",
    "skill_low": "skill_low",
    "skill_high": "skill_high",
}
"""Columns of the data, and what the leaderboard calls them; `whole` is left out where it is the mean."""
SCALE = 10**5
"""Fractions are stored as whole numbers of this part: five digits in few letters."""


def filters(run: Results) -> list[tuple[str, str, str, list[str]]]:
    """Each axis that has a choice: its name, its title, what stands for no choice, and the values."""
    table = run.leaderboard()
    found = []
    for axis in AXES:
        values = [value for value in axis_values(run, table, axis) if value != ""]
        if axis == "subset":
            values = [value for value in values if value != "all"]
        if axis == "model":
            values = [value for value in values if not value.startswith("mean of ")]
        if len(values) > (0 if axis == "subset" else 1):
            found.append((axis, AXIS_TITLES[axis], NOTHING_CHOSEN[axis], values))
    return found


def axis_values(run: Results, table: pl.DataFrame, axis: str) -> list[str]:
    """The values of an axis in the order of the tables."""
    values: list[str] = table[axis].unique(maintain_order=True).to_list()
    known = {"metric": list(run.story.metric), "pooling": list(run.story.poolings)}.get(axis, [])
    return sorted(values, key=[*known, *values].index)


def readings(run: Results, boards: Sequence[Board]) -> dict[str, Any]:
    """All lines of the leaderboard in columns, axes by number, and what the contests say."""
    table = run.leaderboard()
    axes = {axis: axis_values(run, table, axis) for axis in AXES}
    explainers = table["explainer"].unique(maintain_order=True).to_list()
    families = {entry["explainer"]: entry["family"] for entry in run.manifest["explainers"]}
    lines: dict[str, Any] = {}
    for axis, values in (*axes.items(), ("explainer", explainers)):
        codes = {value: place for place, value in enumerate(values)}
        lines[axis] = [codes[value] for value in table[axis]]
    lines["n"] = table["n"].to_list()
    for name, column in NUMBERS.items():
        if table[column].is_not_null().any():
            lines[name] = (table[column].fill_nan(None) * SCALE).round().cast(pl.Int64).to_list()
    lines["whole"] = [None if all_maps == mean else all_maps for all_maps, mean in zip(
        lines.get("whole", []), lines.get("mean", []), strict=False)]  # fmt: skip
    costs = table.select("explainer", "target", "passes_per_case", "seconds_per_case", "peak_memory").unique(
        maintain_order=True
    )
    return {
        "scale": SCALE,
        **axes,
        "shown": shown_variants(run),
        "model_shown": boards[0].model,
        "better_high": {words.name: words.higher_is_better for words in run.story.metrics},
        "titles": {words.name: words.title for words in run.story.metrics},
        "explainers": [
            [run.short.get(name, name), name, int(families.get(name, "raw") in BASELINES)] for name in explainers
        ],
        "costs": [[explainers.index(name), *rest] for name, *rest in costs.iter_rows()],
        "lines": {name: packed(column) for name, column in lines.items()},
        "contests": contests(run, explainers),
    }


def packed(column: Sequence[Any]) -> Sequence[Any] | dict[str, list[Any]]:
    """A column as it is, or where that takes less as its runs: a value, how often it comes in a row, and so on."""
    runs = [entry for value, group in groupby(column) for entry in (value, sum(1 for _ in group))]
    return {"runs": runs} if len(runs) < len(column) else column


def shown_variants(run: Results) -> dict[str, list[str]]:
    """Ground truth and pooling that each metric is first shown under."""
    shown = run.leaderboard().filter(run.story.shown).unique("metric", keep="last", maintain_order=True)
    return {metric: [truth, pooling] for metric, truth, pooling in shown.select(AXES[:3]).iter_rows()}


def contests(run: Results, explainers: Sequence[str]) -> list[list[Any]]:
    """What each contest says of its entrants: groups, rank with its interval, what is said where it beats no floor."""
    place = {name: number for number, name in enumerate(explainers)}
    found: dict[tuple[str, ...], list[list[Any]]] = {}
    for judged in run.verdict.contests:
        higher = run.story.metric[judged.metric].higher_is_better
        found[judged.metric, judged.ground_truth, judged.pooling, judged.target, "all", ""] = [
            [place[e.explainer], e.target, e.groups, e.rank, e.rank_low, e.rank_high, judged.against_floor(e, higher)]
            for e in judged.entrants
            if e.explainer in place
        ]
    for g in run.verdict.glances:
        said = [place[g.explainer], g.target, g.groups, g.rank, g.rank_low, g.rank_high, g.floor]
        found.setdefault((g.metric, g.ground_truth, g.pooling, g.target, g.subset, g.model), []).append(said)
    return [[*reading, entrants] for reading, entrants in found.items()]


def script_safe(content: Any) -> str:
    """JSON for a script element: nothing in it can end the element or begin a comment."""
    text = json.dumps(content, separators=(",", ":"), ensure_ascii=False)
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")
