"""The cases whose heatmaps a run has kept, as the data of an explorer and as a strip for those without scripts."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any

from heatproof.lazy import np, pl
from heatproof.report.figures import spans
from heatproof.report.gallery import picture
from heatproof.report.heat import disagreement, flaw, heat_png, letters, shrunk
from heatproof.report.outlines import outlines
from heatproof.report.shelf import Shelf, emptied, files_folder, webp
from heatproof.report.strip import Strip, strip_of
from heatproof.results.tables import Line
from heatproof.story import Fact

if TYPE_CHECKING:
    from markupsafe import Markup
    from numpy.typing import NDArray

    from heatproof.results.run import Results

INLINE = 2_600_000
"""Letters that the heatmaps of all runs may take within the page."""
LONGEST = (256, 192, 128, 96, 80, 64)
"""Lengths of pictures within the page: the first with which they fit."""
PER_PIXEL = 0.33
"""Letters that a pixel of a heatmap takes, as seen on pictures; of pure noise twice as many."""
COMPARED = 32
"""Length of the maps by which methods are seen to disagree."""
SIGNAL_LETTERS = 4_000_000
FEWEST = 24


@dataclass(frozen=True)
class Method:
    """An explainer for one explained quantity, under its names on the page, and where its heatmaps are."""

    name: str
    full: str
    target: str
    is_baseline: bool
    folder: str


@dataclass(frozen=True, eq=False)
class Explorer:
    """What the template needs.

    key     goes before ids and keys of the address, since a page may have several runs
    data    all that the script needs, safe within a script element
    strip   the first few cases
    """

    key: str
    model: str
    count: int
    is_pictures: bool
    has_truth: bool
    has_marks: bool
    has_files: bool
    data: Markup
    strip: Strip


def explorer(
    run: Results, lines: Sequence[Line], targets: Sequence[str], key: str, page: Path | None = None, sharing: int = 1
) -> Explorer | None:
    """The explorer of a run's cases, methods in the order of the table; None where there is nothing to draw.

    So many runs share the page's room for pictures; what has none there goes to a folder beside `page`.
    """
    arrays = run.files.examples()
    if not arrays or arrays["inputs"].ndim not in (3, 4):
        return None
    folders = {(entry["explainer"], entry["target"]): entry["folder"] for entry in run.manifest["explainers"]}
    methods = [
        Method(line.short, line.explainer, line.target, line.is_baseline, folders[line.explainer, line.target])
        for line in lines
        if (line.explainer, line.target) in folders
    ]
    model = next(iter(run.manifest["models"]))
    kept = Kept(run, arrays, methods, model)
    drawn = draw_pictures(kept, files_folder(page, key), sharing) if kept.is_pictures else draw_signals(kept)
    if all(found is None for maps in drawn.maps for found in maps):
        return None
    strip = strip_of(kept, drawn, key, targets)
    return Explorer(
        key=key,
        model=model,
        count=len(drawn.inputs),
        is_pictures=kept.is_pictures,
        has_truth=bool(kept.masks),
        has_marks=bool(run.story.marks),
        has_files=any(not address.startswith("data:") for address in drawn.addresses),
        data=script_data(case_data(kept, drawn, strip, targets, key)),
        strip=strip,
    )


@dataclass(frozen=True, eq=False)
class Kept:
    """What a run has kept of its cases."""

    run: Results
    arrays: Mapping[str, NDArray[Any]]
    methods: Sequence[Method]
    model: str

    @property
    def inputs(self) -> NDArray[Any]:
        return self.arrays["inputs"]

    @property
    def is_pictures(self) -> bool:
        return self.inputs.ndim == 4

    @cached_property
    def ids(self) -> list[str]:
        return [str(case) for case in self.arrays["ids"].tolist()]

    @cached_property
    def masks(self) -> dict[str, NDArray[Any]]:
        named = {name.removeprefix("mask."): mask for name, mask in self.arrays.items() if name.startswith("mask.")}
        return {name.replace("_", " "): mask for name, mask in named.items()}

    @cached_property
    def scores(self) -> pl.DataFrame:
        """The scores that are shown first, on the first model."""
        found = self.run.files.example_scores()
        if found is None:  # a folder of an earlier version
            found = self.run.score_rows().where(pl.col("case").is_in(self.ids) & self.run.story.shown)
        return found.filter(pl.col("model") == self.model) if len(found) else found

    def title(self, place: int) -> str:
        return self.run.story.examples.get(self.ids[place]) or self.ids[place]

    def caption(self, place: int) -> str:
        return self.run.story.captions.get(self.ids[place], "")


@dataclass(frozen=True, eq=False)
class Drawn:
    """Cases as they are drawn: inputs, true masks by kind, and a map of each method, None where there is none.

    Pictures are numbers of addresses; signals are values, and their maps letters.

    differ  how much the methods of each explained quantity disagree
    flaws   what is wrong with maps in which there is nothing to see, by case and method
    heats   the heat of signals, by case and method
    """

    size: tuple[int, ...]
    inputs: Sequence[Any]
    truths: Sequence[Sequence[Any]]
    maps: Sequence[Sequence[Any]]
    differ: Sequence[Mapping[str, float | None]]
    flaws: Mapping[tuple[int, int], str]
    addresses: Sequence[str] = ()
    heats: Mapping[tuple[int, int], NDArray[Any]] = field(default_factory=dict)


def has_pictures(run: Results) -> bool:
    """Whether a run has kept cases that are pictures."""
    arrays = run.files.examples()
    return bool(arrays) and arrays["inputs"].ndim == 4


def draw_pictures(kept: Kept, beside: Path | None, sharing: int) -> Drawn:
    """Heatmaps as PNG over pictures as WebP, in the page where there is room, else in the folder beside it."""
    height, width = kept.inputs.shape[2:]
    longest = longest_inline(len(kept.ids) * len(kept.methods), height, width, sharing)
    emptied(beside)
    shelf = Shelf(beside if longest is None else None)
    places = {case: place for place, case in enumerate(kept.ids)}
    maps: list[list[Any]] = [[None] * len(kept.methods) for _ in kept.ids]
    small: dict[tuple[int, int], NDArray[Any]] = {}
    flaws: dict[tuple[int, int], str] = {}
    for number, method in enumerate(kept.methods):
        for case, relevance in kept.run.files.each_heatmap(method.folder, kept.model):
            if (place := places.get(case)) is not None:
                heat = relevance.sum(0)
                flaws[place, number] = flaw(heat)
                small[place, number] = shrunk(heat, COMPARED).ravel()
                png = heat_png(shrunk(heat, longest or max(heat.shape)))
                maps[place][number] = shelf.put(png, f"{place}-{number}.png")
    inputs = [shelf.put(webp(picture(entry), longest), f"{place}.webp") for place, entry in enumerate(kept.inputs)]
    truths = [[outline_path(mask[place]) for mask in kept.masks.values()] for place in range(len(kept.ids))]
    differ = disagreements(kept.methods, small, len(kept.ids))
    return Drawn((height, width), inputs, truths, maps, differ, flaws, shelf.addresses)


def longest_inline(count: int, height: int, width: int, sharing: int = 1) -> int | None:
    """The length of pictures with which so many fit into a run's part of the page; None if they do not."""
    for longest in LONGEST:
        share = min(1.0, longest / max(height, width)) ** 2
        if count * height * width * share * PER_PIXEL <= INLINE / sharing:
            return longest
    return None


def draw_signals(kept: Kept) -> Drawn:
    """Signals as numbers, heatmaps as letters; as many cases as the page has room for."""
    count, length = len(kept.methods), kept.inputs.shape[2]
    room = max(FEWEST, SIGNAL_LETTERS // (max(1, count) * (length + 8 * len(kept.run.story.metrics))))
    ids = kept.ids[:room]
    places = {case: place for place, case in enumerate(ids)}
    maps: list[list[Any]] = [[None] * count for _ in ids]
    heats: dict[tuple[int, int], NDArray[Any]] = {}
    flaws: dict[tuple[int, int], str] = {}
    for number, method in enumerate(kept.methods):
        for case, relevance in kept.run.files.each_heatmap(method.folder, kept.model):
            if (place := places.get(case)) is not None:
                heat = relevance.sum(0)
                heats[place, number], flaws[place, number] = heat, flaw(heat)
                maps[place][number] = letters(heat)
    inputs = [[[rounded(value) for value in channel] for channel in entry.tolist()] for entry in kept.inputs[:room]]
    truths = [[spans(mask[place]) for mask in kept.masks.values()] for place in range(len(ids))]
    differ = disagreements(kept.methods, heats, len(ids))
    return Drawn((length,), inputs, truths, maps, differ, flaws, heats=heats)


def disagreements(
    methods: Sequence[Method], small: Mapping[tuple[int, int], NDArray[Any]], count: int
) -> list[dict[str, float | None]]:
    """How much the methods for each explained quantity disagree on each case; floors and ceiling do not count."""
    found = []
    targets = {method.target for method in methods if not method.is_baseline}
    for place in range(count):
        case: dict[str, float | None] = {}
        for target in sorted(targets):
            chosen = [n for n, m in enumerate(methods) if m.target == target and not m.is_baseline]
            maps = [small[place, number] for number in chosen if (place, number) in small]
            case[target] = rounded(disagreement(np.stack(maps))) if maps else None
        found.append(case)
    return found


def outline_path(mask: NDArray[Any]) -> str:
    """The outline of a mask (H, W) as an SVG path along the edges of its pixels."""
    parts = []
    for line in outlines(mask):
        (x, y), *others = line
        parts.append(f"M{x} {y}")
        for a, b in others:
            parts.append(f"h{a - x}" if b == y else f"v{b - y}")
            x, y = a, b
        parts.append("z")
    return "".join(parts)


def case_data(kept: Kept, drawn: Drawn, strip: Strip, targets: Sequence[str], key: str) -> dict[str, Any]:
    """All that the script needs, as plain data."""
    story = kept.run.story
    there = set(kept.scores["metric"]) if len(kept.scores) else set()
    metrics = [words for words in story.metrics if words.name in there]
    facts = [fact for fact in story.facts if fact.column in kept.scores.columns]
    scores = score_table(kept, [words.name for words in metrics])
    uniform = uniform_table(kept, [words.name for words in metrics])
    said = fact_table(kept, facts)
    marks = {(mark.explainer, mark.target, mark.case): mark for mark in story.marks}
    cases = []
    for place, case in enumerate(kept.ids[: len(drawn.inputs)]):
        held = [marks.get((method.full, method.target, case)) for method in kept.methods]
        about: dict[str, Any] = {
            "id": case,
            "title": kept.title(place),
            "caption": kept.caption(place),
            "facts": said.get(case, [""] * len(facts)),
            "input": drawn.inputs[place],
            "truths": drawn.truths[place],
            "share": rounded(float(next(iter(kept.masks.values()))[place].mean())) if kept.masks else None,
            "uniform": uniform.get(case, []),
            "scores": [scores.get((method.full, method.target, case), []) for method in kept.methods],
            "maps": drawn.maps[place],
            "differ": drawn.differ[place],
        }
        if flawed := {n: words for n in range(len(kept.methods)) if (words := drawn.flaws.get((place, n)))}:
            about["flaws"] = flawed
        if beside := story.companions.get(case):
            about["beside"] = [list(picture) for picture in beside]
        if any(held):
            about["marks"] = [None if mark is None else [mark.start, mark.length, mark.text] for mark in held]
        cases.append(about)
    return {
        "key": key,
        "pictures": kept.is_pictures,
        "size": list(drawn.size),
        "words": {"cases": story.words.cases},
        "metrics": [
            {"name": words.name, "title": words.title, "heading": words.heading, "higher": words.higher_is_better}
            for words in metrics
        ],
        "targets": list(targets),
        "methods": [
            {"name": method.name, "full": method.full, "target": method.target, "baseline": method.is_baseline}
            for method in kept.methods
        ],
        "facts": [{"title": fact.title, "column": fact.column, "filters": fact.filters} for fact in facts],
        "truths": list(kept.masks),
        "files": [None if number in strip.numbers else address for number, address in enumerate(drawn.addresses)],
        "cases": cases,
    }


def score_table(kept: Kept, metrics: Sequence[str]) -> dict[tuple[str, str, str], list[float | None]]:
    """The scores of each explainer, explained quantity and case, in the order of the metrics; None for undefined."""
    found: dict[tuple[str, str, str], list[float | None]] = {}
    if not metrics:
        return found
    columns = kept.scores.select("explainer", "target", "case", "metric", "value")
    for explainer, target, case, metric, value in columns.iter_rows():
        if metric in metrics:
            scores = found.setdefault((explainer, target, case), [None] * len(metrics))
            scores[metrics.index(metric)] = rounded(value)
    return found


def uniform_table(kept: Kept, metrics: Sequence[str]) -> dict[str, list[float | None]]:
    """What a uniform map would get on each case, in the order of the metrics: a map without a score counts as one."""
    found: dict[str, list[float | None]] = {}
    if not metrics or "uniform" not in kept.scores.columns:
        return found
    for case, metric, value in kept.scores.select("case", "metric", "uniform").unique().iter_rows():
        if metric in metrics and value is not None:
            found.setdefault(case, [None] * len(metrics))[metrics.index(metric)] = rounded(value)
    return found


def fact_table(kept: Kept, facts: Sequence[Fact]) -> dict[str, list[str]]:
    """What is said of each case."""
    if not facts:
        return {}
    known = kept.scores.group_by("case").agg(pl.col(fact.column).drop_nulls().first() for fact in facts)
    return {
        case: [fact_text(fact, value) for fact, value in zip(facts, values, strict=True)]
        for case, *values in known.select("case", *(fact.column for fact in facts)).iter_rows()
    }


def fact_text(fact: Fact, value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return fact.words[0] if value else fact.words[1]
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def rounded(value: float | None) -> float | None:
    return round(value, 4) if value is not None and isfinite(value) else None


def script_data(content: Mapping[str, Any]) -> Markup:
    """JSON that cannot end the script element that it stands in."""
    from markupsafe import Markup

    text = json.dumps(content, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    for letter in "<>&\u2028\u2029":
        text = text.replace(letter, f"\\u{ord(letter):04x}")
    return Markup(text)  # no tag can begin in it  # nosec B704
