"""From parts to tables: every part is read once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from heatproof.benchmarks.base import Reference
from heatproof.engine.sources import Source
from heatproof.errors import HeatproofError
from heatproof.explainers import explainers
from heatproof.harmless import csv_bytes
from heatproof.lazy import pl
from heatproof.progress import Progress
from heatproof.results.agreement import Orders
from heatproof.results.columns import gather
from heatproof.results.leaderboard import AXES, COLUMNS, FURTHER, leaderboard
from heatproof.results.verdict import Evidence, judge, methods_of
from heatproof.run_folder import LEADERBOARD, STATISTICS, SUMMARY, VERDICT, RunFolder, ScoreRows, parquet
from heatproof.seals import sealed
from heatproof.story import Story

BLOCK = "block drawn"
"""The column that says what cases were drawn together by a run that stopped once it was settled."""


def finish(folder: RunFolder, source: Source, manifest: dict[str, Any], progress: Progress) -> pl.DataFrame:
    """Score what needs whole data sets; write the tables, and what the run has to say into run.json.

    Returns the leaderboard.
    """
    parts = folder.scores(entry["folder"] for entry in manifest["explainers"])
    if not parts.paths:
        reasons = sorted({f"{failure['explainer']}: {failure['message']}" for failure in folder.failures()})
        raise HeatproofError("every explainer failed, so there is no table.\n  " + "\n  ".join(reasons))
    opened, story = source.opened, source.story
    names = [metric.name for metric in story.metrics]
    remembered: list[pl.DataFrame] = []
    shown: list[pl.DataFrame] = []
    entries, seed = manifest["explainers"], manifest["configuration"]["seed"]
    progress("scoring: whole data set", 0, 3)
    settled = manifest.get("settled") or {}
    cluster = story.cluster
    if drawn := settled.get("chunks"):  # what is drawn as one hangs together, whatever is in it
        cluster = BLOCK
        parts = ScoreRows(parts.paths, lambda path: with_block(folder.read_part(path), drawn[path.stem]))
    every = looked_at(every_row(parts, source, folder, remembered), story, shown)
    scores = gather(every, names, opened.subsets(), cluster)
    orders = Orders({words.name: words.higher_is_better for words in story.metrics}, methods_of(entries))
    table = leaderboard(
        scores,
        benchmark=manifest["configuration"]["benchmark"],
        dataset=story.dataset,
        metrics=story.metrics,
        families={entry["explainer"]: entry["family"] for entry in entries},
        reference=by_label(opened.reference(), source.published),
        seed=seed,
        look=orders.add,
    )
    progress("scoring: tables", 1, 3)
    verdict = judge(Evidence(scores, orders, table, story, entries, seed, len(folder.failures())))
    folder.store(folder.path(VERDICT), sealed(verdict.plain()))
    folder.store(folder.path(LEADERBOARD), csv_bytes(table.select(*COLUMNS)))
    folder.store(folder.path(STATISTICS), csv_bytes(table.select(*AXES, "n", *FURTHER)))
    ending = opened.conclude(remembered[0], remembered[1], table)
    notes = (*([settled["text"]] if settled else []), *ending.notes)
    told = replace(story, notes=notes, marks=tuple(ending.marks))
    manifest["story"] = replace(told, sections=(*story.sections, *ending.sections)).plain()
    folder.write_manifest(manifest)
    progress("scoring: examples", 2, 3)
    if arrays := source.examples():
        folder.write_examples(arrays, pl.concat(shown, how="diagonal"))
    progress("scoring: done", 3, 3)
    return table.select(*COLUMNS)


def with_block(rows: pl.DataFrame, block: str) -> pl.DataFrame:
    return rows.with_columns(pl.lit(block).alias(BLOCK))


def every_row(
    parts: ScoreRows, source: Source, folder: RunFolder, remembered: list[pl.DataFrame]
) -> Iterator[pl.DataFrame]:
    """The parts, then the rows that the whole data set gives.

    `remembered` gets what the benchmark remembers of the parts, and those rows.
    """
    condition = source.opened.remembers()
    kept: list[pl.DataFrame] = []
    for part in parts:
        keep(part.filter(condition), kept)
        yield part
    remembered.append(pl.concat(kept, how="diagonal"))
    summary = source.opened.summarise(remembered[0])
    remembered.append(summary)
    folder.store(folder.path(SUMMARY), parquet(summary))
    if len(summary):
        yield summary


def looked_at(every: Iterable[pl.DataFrame], story: Story, shown: list[pl.DataFrame]) -> Iterator[pl.DataFrame]:
    """All rows; `shown` gets those that the page says of its examples."""
    condition = pl.col("case").is_in(list(story.examples)) & story.shown
    for rows in every:
        keep(rows.filter(condition), shown)
        yield rows


def keep(rows: pl.DataFrame, kept: list[pl.DataFrame]) -> None:
    """Add rows to those that are kept; of none only the first, for its columns: an empty frame takes memory too."""
    if len(rows) or not kept:
        kept.append(rows)


def by_label(reference: Reference, published: Mapping[str, str]) -> pl.DataFrame | None:
    """The paper's numbers by full specification, for the explainers that have the paper's parameters.

    They stand as `reference` where network and data are the paper's too, else as `reference_elsewhere`. A line of the
    paper for no explainer at all, such as raw inputs, goes by its own name.
    """
    if reference.rows is None:
        return None
    others = [name for name in reference.rows["explainer"].unique() if name not in explainers]
    names = dict(published) | {name: name for name in others}
    text = {"label": pl.String, "explainer": pl.String}  # also where no explainer has the paper's parameters
    labels = pl.DataFrame({"label": list(names), "explainer": list(names.values())}, schema=text)
    found = reference.rows.join(labels, on="explainer").drop("explainer").rename({"label": "explainer"})
    if reference.is_about_this:
        return found.with_columns(reference_elsewhere=pl.lit(None, dtype=pl.Float64))
    given = [name for name in ("reference_std", "reference_median") if name in found.columns]
    return (
        found.rename({"reference": "reference_elsewhere"})
        .drop(given)
        .with_columns(reference=pl.lit(None, dtype=pl.Float64))
    )
