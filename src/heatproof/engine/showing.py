"""Cases to look at: found by their names or picked, then explained by every explainer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from heatproof.benchmarks.base import Opened
from heatproof.cases import Batch, Chunk
from heatproof.engine.plan import explained_quantity
from heatproof.engine.sources import AXES, Explaining
from heatproof.engine.wanted import COUNT, Wanted
from heatproof.errors import HeatproofError
from heatproof.explainers.base import Explainer
from heatproof.lazy import np, pl
from heatproof.progress import Progress, listening
from heatproof.story import Case, Column, MetricWords

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from heatproof.lazy import torch

RIGHT = ("correct", "names_target")
"""Facts that say whether the model gets a case right; a mosaic, whether it names the target class."""
LOOKED_THROUGH = 16
"""Chunks that are searched for the names nearest to one that is not there."""


@dataclass(frozen=True, eq=False)
class Found:
    """One case, the model that it is explained on, and why it was picked."""

    batch: Batch
    model: str
    remark: str = ""


def find(source: Explaining, name: str, wanted: Wanted, progress: Progress) -> tuple[list[Found], str]:
    """The wanted cases of benchmark `name`, and what stands over them: how they were picked, nothing over a single."""
    if wanted.pick is None:
        each = (find_case(source.opened, name, case) for case in dict.fromkeys(wanted.cases))
        found = [Found(batch, chunk.model) for batch, chunk in each]
        return found, name if len(found) > 1 else ""
    count = wanted.count or COUNT
    if wanted.pick in ("best", "worst"):
        return by_score(source, name, wanted.pick == "best", count, wanted.candidates, progress)
    return by_answer(source.opened, name, wanted.pick == "right", count, progress)


def find_case(opened: Opened, name: str, case: str) -> tuple[Batch, Chunk]:
    """The batch of one case of benchmark `name`, and the chunk that it is in."""
    for chunk in opened.chunks_with([case]):
        batch = opened.load(chunk)
        if case in batch.ids:
            place = batch.ids.index(case)
            return batch[place : place + 1], chunk
    known = [known for chunk in first_model(opened)[:LOOKED_THROUGH] for known in opened.load(chunk).ids]
    near = get_close_matches(case, known, n=3, cutoff=0.0)
    raise HeatproofError(f"{name} has no case {case!r}; its cases are called like {', '.join(near)}.")


def first_model(opened: Opened, most: int | None = None) -> list[Chunk]:
    """The chunks of the first model."""
    first = next(iter(opened.models))
    return [chunk for chunk in opened.chunks(most) if chunk.model == first]


def by_answer(opened: Opened, name: str, right: bool, count: int, progress: Progress) -> tuple[list[Found], str]:
    """The first cases that the model gets right, or wrong."""
    found: list[Found] = []
    chunks = first_model(opened)
    for place, chunk in enumerate(chunks):
        progress("looking for cases", place, len(chunks))
        batch = opened.load(chunk)
        if not any(name in batch.facts for name in RIGHT):
            raise HeatproofError(
                f"{name} does not say which cases its model gets right; name the cases, or pick best or worst."
            )
        places = [i for i in range(len(batch)) if is_right(batch, i) is right]
        found += [Found(batch[i : i + 1], chunk.model) for i in places[: count - len(found)]]
        if len(found) == count:
            break
    progress("looking for cases", len(chunks), len(chunks))
    answer = "right" if right else "wrong"
    if not found:
        total = sum(chunk.cases for chunk in chunks)
        raise HeatproofError(
            f"the model gets none of the {total:,} cases of {name} {answer}. Where a benchmark leaves such cases out,"
            f" an option lets them in: heatproof show {name} --help."
        )
    return found, f"{name}: {cases_in_words('first', len(found))} that the model gets {answer}"


def is_right(batch: Batch, place: int) -> bool | None:
    """Whether the model gets a case right; None where nobody says."""
    said = next((batch.facts[name][place] for name in RIGHT if name in batch.facts), None)
    return None if said is None else bool(said)


def by_score(
    source: Explaining, name: str, best: bool, count: int, candidates: int, progress: Progress
) -> tuple[list[Found], str]:
    """The candidates, evenly from all cases, with the best or worst scores under the first explainer."""
    opened, explainer = source.opened, source.explainers[0]
    # Of several parts the first is the one that is scored; the others are what is learned from.
    every = first_model(opened, 1)[: next(iter(opened.counts.values()))]
    places = np.unique(np.linspace(0, len(every) - 1, min(candidates, len(every))).round().astype(int))
    batches, rows = {}, []
    for done, place in enumerate(places.tolist()):
        progress("scoring candidates", done, len(places))
        batch = opened.load(every[place])
        with listening(further(progress, "scoring candidates", done, len(places))):
            rows.append(source.explained(explainer, every[place].model, batch))
        batches[batch.ids[0]] = batch
    progress("scoring candidates", len(places), len(places))
    metric, values = ranking(opened, labelled_by(pl.concat(rows, how="diagonal"), every[0].model, explainer))
    if not values:
        raise HeatproofError(f"none of the {len(places)} candidates has a score under {explainer.label}.")
    order = sorted(values, key=lambda case: values[case], reverse=best == metric.higher_is_better)
    found = [
        Found(batches[case], every[0].model, f"{metric.title} {in_words(values[case], metric)}")
        for case in order[:count]
    ]
    kind = cases_in_words("best" if best else "worst", len(found), "")
    among = f"{len(places)} candidates, evenly from {len(every):,} cases"
    return found, f"{name}: {kind} of {among}, by {metric.title} of {short_names(source)[explainer]}"


def ranking(opened: Opened, rows: pl.DataFrame) -> tuple[MetricWords, dict[str, float]]:
    """The first metric of the table that single cases have, and its values by case, where these are defined.

    A metric that only all cases together have (no row has it) is passed over; a variant that is made of the
    benchmark's rows at the end is made of these.
    """
    story = opened.story
    for metric in story.metrics:
        own = rows.filter(metric=metric.name)
        if own.is_empty():
            continue
        column = next((column for column in story.columns if column.metric == metric.name), None)
        column = column or Column(*own.select(AXES).row(0))
        chosen = own.filter(column.condition)
        if chosen.is_empty():
            chosen = opened.summarise(rows.filter(opened.remembers())).filter(column.condition)
        values = {case: value for case, value in chosen.select("case", "value").iter_rows() if np.isfinite(value)}
        return metric, values
    return story.metrics[0], {}


def cases_in_words(which: str, count: int, noun: str = "cases") -> str:
    """Such as 'the first 4 cases', 'the worst'."""
    number = f" {count}" if count > 1 else ""
    return f"the {which}{number} {noun if count > 1 or not noun else noun.removesuffix('s')}".rstrip()


def in_words(value: float, metric: MetricWords) -> str:
    return f"{value:.1%}".replace("%", " %") if metric.range == (0.0, 1.0) else f"{value:.3g}"


def short_names(source: Explaining) -> dict[Explainer, str]:
    """What columns are called: with the explained quantity, where there are several."""
    return {explainer: names[0] for explainer, names in column_names(source).items()}


def column_names(source: Explaining) -> dict[Explainer, tuple[str, str]]:
    """The short name of each explainer, and the full one."""
    entries = source.entries()
    several = len({entry["target"] for entry in entries} - {""}) > 1
    found = {}
    for explainer, entry in zip(source.explainers, entries, strict=True):
        quantity = f", {entry['target']}" if several and entry["target"] else ""
        found[explainer] = (entry["short"] + quantity, entry["explainer"] + quantity)
    return found


def explain_cases(source: Explaining, found: Sequence[Found], progress: Progress, called: str = "") -> list[Case]:
    """Each case with its relevance under every explainer, and what these mark; `called` stands before its name."""
    names = short_names(source)
    total = len(names) * len(found)
    heatmaps: list[dict[str, NDArray[Any]]] = [{} for _ in found]
    marks: list[dict[str, tuple[int, int]]] = [{} for _ in found]
    done = 0
    for explainer, short in names.items():
        for place, case in enumerate(found):
            task = f"explaining: {short}"
            progress(task, done, total)
            with listening(further(progress, task, done, total)):
                relevance = source.relevance(explainer, source.form(case.model, explainer), case.batch)
            heatmaps[place][short] = relevance[0].cpu().numpy()
            if source.opened.story.words.mark:
                for stretch in marked(source, explainer, case, relevance):
                    marks[place][short] = stretch
            done += 1
    progress("explaining", total, total)
    full = dict(column_names(source).values())
    return [
        Case(
            called + title_of(source.opened, case),
            source.opened.as_pictures(case.batch.inputs)[0].cpu().numpy(),
            heatmaps[place],
            next((mask[0].cpu().numpy() for mask in case.batch.masks.values()), None),
            marks[place],
            full,
        )
        for place, case in enumerate(found)
    ]


def marked(source: Explaining, explainer: Explainer, case: Found, relevance: torch.Tensor) -> list[tuple[int, int]]:
    """Start and length of what an explainer marks in a case: one stretch, or none."""
    judge = source.placement.reached(source.opened.form(case.model, explainer))
    rows = source.scores(case.batch, relevance, judge)
    marks = source.opened.marks(labelled_by(rows, case.model, explainer))
    return [(mark.start, mark.length) for mark in marks][:1]


def labelled_by(rows: pl.DataFrame, model: str, explainer: Explainer) -> pl.DataFrame:
    return rows.with_columns(
        model=pl.lit(model), explainer=pl.lit(explainer.label), target=pl.lit(explained_quantity(explainer))
    )


def further(progress: Progress, task: str, done: int, total: int) -> Callable[[float], None]:
    """Tells of each share of the work that comes after `done`."""
    return lambda share: progress(task, done + share, total)


def title_of(opened: Opened, case: Found) -> str:
    """The case's name, what the benchmark says about it, what the model made of it if that is wrong, and the remark."""
    batch = case.batch
    about = opened.about(batch)
    title = batch.ids[0] + (f": {about}" if about else f", class {int(batch.target)} explained")
    if is_right(batch, 0) is False:
        said = f"; the model says {batch.facts['predicted'][0]}" if {"correct", "predicted"} <= set(batch.facts) else ""
        title += f" (wrong{said})"
    return title + (f", {case.remark}" if case.remark else "")
