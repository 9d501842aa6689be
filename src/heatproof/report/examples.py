"""The page's examples: a column per case, a row per explainer; signals and pictures alike."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from heatproof.lazy import np
from heatproof.report.figures import signal
from heatproof.report.gallery import overlay, picture, small, within
from heatproof.results.tables import Line
from heatproof.story import Mark

if TYPE_CHECKING:
    from markupsafe import Markup
    from numpy.typing import NDArray

    from heatproof.results.run import Results

SHOWN_MASKS = 3


@dataclass(frozen=True)
class Strip:
    """Examples under every explainer.

    heads   title and caption of each case
    before  rows that are no explainer's: the input, and where pictures have masks, these
    rows    a line of the table with a drawing for each case; empty where there is none
    """

    model: str
    targets: Sequence[str]
    is_pictures: bool
    has_truth: bool
    heads: Sequence[tuple[str, str]]
    before: Sequence[tuple[str, Sequence[Markup]]]
    rows: Sequence[tuple[Line, Sequence[Markup]]]


def example_strip(run: Results, lines: Sequence[Line], targets: Sequence[str]) -> Strip | None:
    """The kept examples in the order of the table; None where a run has none, or none that can be drawn."""
    kept = run.files.examples()
    if not kept or kept["inputs"].ndim not in (3, 4):
        return None
    ids = kept["ids"].tolist()
    masks = {name.removeprefix("mask."): array for name, array in kept.items() if name.startswith("mask.")}
    folders = {(entry["explainer"], entry["target"]): entry["folder"] for entry in run.manifest["explainers"]}
    model = next(iter(run.manifest["models"]))
    is_pictures = kept["inputs"].ndim == 4
    draw = Pictures(kept["inputs"], ids) if is_pictures else Signals(kept["inputs"], ids, masks, run)
    rows = []
    for line in lines:
        if (line.explainer, line.target) in folders:
            heat = run.files.heatmaps(folders[line.explainer, line.target], model)
            rows.append((line, [draw.heat(place, line, heat.get(case)) for place, case in enumerate(ids)]))
    heads = [(run.story.examples.get(case) or case, run.story.captions.get(case, "")) for case in ids]
    return Strip(model, targets, is_pictures, bool(masks), heads, draw.before(masks), rows)


@dataclass(frozen=True, eq=False)
class Signals:
    """Draws signals (N, C, length) over their heat, with the first true mask and what an explainer marks."""

    inputs: NDArray[Any]
    ids: Sequence[str]
    masks: dict[str, NDArray[Any]]
    run: Results

    @cached_property
    def marks(self) -> dict[tuple[str, str, str], Mark]:
        return {(mark.explainer, mark.target, mark.case): mark for mark in self.run.story.marks}

    def before(self, masks: dict[str, NDArray[Any]]) -> list[tuple[str, list[Markup]]]:
        return [] if masks else [("signal", [signal(values[0], None, None, None) for values in self.inputs])]

    def heat(self, place: int, line: Line, relevance: NDArray[Any] | None) -> Markup:
        truth = next(iter(self.masks.values()))[place] if self.masks else None
        mark = self.marks.get((line.explainer, line.target, self.ids[place]))
        heat = None if relevance is None else relevance.sum(0)
        drawn = signal(self.inputs[place, 0], heat, truth, None if mark is None else (mark.start, mark.length))
        return drawn + said(mark.text) if mark is not None and mark.text else drawn


@dataclass(frozen=True, eq=False)
class Pictures:
    """Draws pictures (N, C, H, W) in pale grey under their heat."""

    inputs: NDArray[Any]
    ids: Sequence[str]

    def before(self, masks: dict[str, NDArray[Any]]) -> list[tuple[str, list[Markup]]]:
        found = [("picture", [image(picture(entry)) for entry in self.inputs])]
        for name, mask in list(masks.items())[:SHOWN_MASKS]:
            drawn = zip(self.inputs, mask, strict=True)
            found.append((name.replace("_", " "), [image(within(entry, truth)) for entry, truth in drawn]))
        return found

    def heat(self, place: int, line: Line, relevance: NDArray[Any] | None) -> Markup:
        from markupsafe import Markup

        if relevance is None:
            return Markup("")
        return image(overlay(self.inputs[place], np.asarray(relevance).sum(0)))


def said(text: str) -> Markup:
    from markupsafe import Markup

    return Markup("<small>{}</small>").format(text)


def image(pixels: NDArray[Any]) -> Markup:
    from markupsafe import Markup

    return Markup('<img src="{}" alt="">').format(small(pixels))
