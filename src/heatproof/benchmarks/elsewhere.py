"""Heatmaps made elsewhere, for each benchmark that can score them without a network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from heatproof.benchmarks.base import OpenedMasks
from heatproof.benchmarks.clevr_xai import open_masks
from heatproof.benchmarks.focus_heatmaps import open_mosaic_maps
from heatproof.benchmarks.masks.heatmaps import open_vendors
from heatproof.benchmarks.masks.readers import Values
from heatproof.benchmarks.svea.heatmaps import open_signal_maps, open_signals
from heatproof.errors import HeatproofError, unknown_name
from heatproof.heatmap_files import Heatmaps, open_heatmaps
from heatproof.metrics.understandability import WindowRule
from heatproof.progress import Progress, silent

Elsewhere = Literal["clevr-xai", "svea", "focus", "masks"]
TAKES = {
    "clevr-xai": ("dataset", "questions", "poolings", "predictions"),
    "svea": ("poolings", "predictions", "masked_outputs", "window"),
    "focus": ("mosaics",),
    "masks": (
        "masks", "poolings", "object_value", "background_value", "void_value", "boxes", "tolerance", "resize",
    ),
}  # fmt: skip
"""What each of them is told beside the heatmaps."""


@dataclass(frozen=True, kw_only=True)
class Told:
    """What is said beside the heatmaps; each benchmark takes some of it."""

    dataset: Path | str | None = None
    questions: str | None = None
    poolings: Sequence[str] | None = None
    predictions: Path | str | None = None
    mosaics: Path | str | None = None
    masked_outputs: Path | str | None = None
    window: WindowRule | None = None
    masks: Path | str | None = None
    object_value: int | None = None
    background_value: int | None = None
    void_value: int | None = None
    boxes: bool | None = None
    tolerance: int | None = None
    resize: bool | None = None

    @property
    def values(self) -> Values:
        """What the pixels of mask pictures mean."""
        usual = Values()
        inside, outside = (
            default if value is None else value
            for value, default in ((self.object_value, usual.inside), (self.background_value, usual.outside))
        )
        return Values(inside, outside, self.void_value)

    @property
    def given(self) -> dict[str, str]:
        """What was really said, as plain words."""
        return {name: str(value) for name, value in vars(self).items() if value is not None}


def open_elsewhere(
    benchmark: str, heatmaps: Path, told: Told, progress: Progress = silent
) -> tuple[Heatmaps, OpenedMasks]:
    """The heatmaps, and the cases of the benchmark that they are about."""
    check_told(benchmark, told)
    predictions = None if told.predictions is None else Path(told.predictions)
    if benchmark == "svea":
        signals = open_signal_maps(heatmaps)
        masked = None if told.masked_outputs is None else Path(told.masked_outputs)
        return signals, open_signals(
            signals,
            poolings=told.poolings,
            predictions=predictions,
            masked_outputs=masked,
            window=told.window or "clipped",
        )
    if benchmark == "focus":
        if told.mosaics is None:
            raise HeatproofError("Focus scores heatmaps of mosaics: give their CSV with --mosaics.")
        return open_mosaic_maps(heatmaps, Path(told.mosaics), progress)
    if told.dataset is None:
        raise HeatproofError(f"{heatmaps} is no run, which would know its data set: give its folder with --dataset.")
    stored = open_heatmaps(heatmaps)
    questions = told.questions or "simple"
    return stored, open_masks(stored, Path(told.dataset), questions, told.poolings, predictions, progress)


def open_several(
    heatmaps: Mapping[str, Path], told: Told, progress: Progress = silent
) -> tuple[dict[str, Heatmaps], OpenedMasks]:
    """The heatmaps of several vendors by what tables call them, and the masks that they are about."""
    check_told("masks", told)
    if told.masks is None:
        raise HeatproofError("say with --masks where the masks of the pictures are.")
    return open_vendors(
        heatmaps,
        Path(told.masks),
        values=told.values,
        boxes=bool(told.boxes),
        poolings=told.poolings,
        tolerance=told.tolerance or 0,
        resize=bool(told.resize),
        progress=progress,
    )


def check_told(benchmark: str, told: Told) -> None:
    """What was said must be something that the benchmark takes."""
    if benchmark not in TAKES:
        raise unknown_name("benchmark for heatmaps made elsewhere", benchmark, TAKES)
    for name in told.given:
        if name not in TAKES[benchmark]:
            option, *takes = (f"--{word.replace('_', '-')}" for word in (name, *TAKES[benchmark]))
            raise HeatproofError(f"{option} is not for --benchmark {benchmark}, which takes {', '.join(takes)}.")
