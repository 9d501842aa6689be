"""Masks without a network: heatmaps of one or more vendors, made elsewhere, matched with masks by name. No torch."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from heatproof.benchmarks.base import Ending, OpenedMasks, metric_words, require_poolings
from heatproof.benchmarks.floors import FAMILIES
from heatproof.benchmarks.masks import rows as mask_rows
from heatproof.benchmarks.masks.finding import MOST_BAD
from heatproof.benchmarks.masks.held import HeldMasks
from heatproof.benchmarks.masks.readers import MaskSource, Truth, Values, digest_of, has_both, open_mask_source
from heatproof.benchmarks.masks.rows import FACTS, METRICS, TRUTH
from heatproof.benchmarks.sample import pictures_kept, stratified
from heatproof.cases import Chunk
from heatproof.errors import HeatproofError
from heatproof.heatmap_files import SHOWN, Heatmaps, few, open_heatmaps
from heatproof.lazy import np, pl
from heatproof.metrics.mask_scores import INSIDE
from heatproof.pooling import poolings as known_poolings
from heatproof.progress import Progress, silent
from heatproof.story import Story, Words

if TYPE_CHECKING:
    from numpy.typing import NDArray

MODEL = "elsewhere"
CHUNK_VALUES = 2**23
"""Values of heatmaps in a chunk: about 64 MB."""


@dataclass(frozen=True)
class Item:
    """A case: the name of its heatmap, that of its mask, and the class."""

    case: str
    mask: str
    label: str


def open_vendors(
    heatmaps: Mapping[str, Path],
    masks: Path,
    *,
    values: Values | None = None,
    boxes: bool = False,
    poolings: Sequence[str] | None = None,
    tolerance: int = 0,
    resize: bool = False,
    progress: Progress = silent,
) -> tuple[dict[str, Heatmaps], OpenedMaskMaps]:
    """The heatmaps of each vendor, and the masks that some heatmap is for; each is read once, bad ones are left out."""
    chosen = list(known_poolings) if poolings is None else list(poolings)
    require_poolings(chosen)
    vendors = {name: open_heatmaps(path) for name, path in heatmaps.items()}
    source = open_mask_source(masks, values or Values(), boxes)
    there = {name for vendor in vendors.values() for name in vendor.names}
    items = matching(source, there)
    if not items:
        raise HeatproofError(
            f"none of the heatmaps ({few(sorted(there))}) is called like a mask of {masks}"
            f" ({few(wanted_names(source))})."
        )
    held = HeldMasks(source)
    good, problems, digest = readable(items, held, progress)
    by_size: dict[tuple[int, int], list[Item]] = {}
    for item, truth_size in good:
        by_size.setdefault(truth_size, []).append(item)
    space = Counter(size for _, size in good).most_common(1)[0][0]
    parts = {f"{height}x{width}": tuple(found) for (height, width), found in by_size.items()}
    if len(parts) == 1:
        parts = {"": next(iter(parts.values()))}
    strata = {item.case: item.label for item, size in good if size == space}
    kept = {item.case for item, _ in good}
    opened = OpenedMaskMaps(
        story=Story(
            title="Masks: heatmaps made elsewhere",
            paper="Zhang et al. 2018: the pointing game, and its kin",
            dataset="pictures",
            metrics=metric_words(METRICS),
            columns=mask_rows.columns_for(chosen),
            poolings=tuple(chosen),
            words=Words(cases="pictures", truth="the object"),
            examples={case: strata[case] or case for case in stratified(strata, pictures_kept(*space), seed=0)},
            facts=tuple(fact for fact in FACTS if fact.column in ("target_class", "mask")),
        ),
        settings={
            **source.settings(),
            "poolings": chosen,
            "tolerance": tolerance,
            "resize": resize,
            "boxes": boxes,
            "cases": len(good),
        },
        fingerprint=digest,
        models={MODEL: ""},
        counts={part: len(found) for part, found in parts.items()},
        per_chunk=max(1, CHUNK_VALUES // (space[0] * space[1])),
        space=space,
        size_hint="" if resize else ", the size of its mask; --resize brings heatmaps to it",
        resizes=resize,
        held=held,
        parts=parts,
        chosen=tuple(chosen),
        tolerance=tolerance,
        left_out=[
            *([f"Masks that cannot be used: {len(problems):,} ({few(problems, '; ')})."] if problems else []),
            *left_out("Masks without a heatmap", [name for name in unclassed(source) if name not in there]),
            *left_out("Heatmaps without a mask", sorted(there - kept - {item.case for item in items})),
        ],
    )
    return vendors, opened


def left_out(what: str, names: Sequence[str]) -> list[str]:
    return [f"{what}: {len(names):,} ({few(names)})."] if names else []


def unclassed(source: MaskSource) -> Sequence[str]:
    """The masks that a heatmap should be for; none where masks have classes, of which some may be meant only."""
    return [] if source.knows_classes else source.names


def wanted_names(source: MaskSource) -> list[str]:
    """What the first heatmaps should be called: as their masks, where these have classes with the class."""
    names = source.names[: SHOWN + 1]
    return [f"{name}.{label}" if label else name for name in names for label in source.classes(name) or ("",)]


def matching(source: MaskSource, there: set[str]) -> list[Item]:
    """The cases that some heatmap is for: NAME, or NAME.CLASS where masks have classes; NAME alone for the only one."""
    if not source.knows_classes:
        return [Item(name, name, "") for name in source.names if name in there]
    items = []
    meant = there | {case[:place] for case in there for place, letter in enumerate(case) if letter == "."}
    for name in source.names:
        if name not in meant:
            continue
        classes = source.classes(name)
        items += [Item(f"{name}.{label}", name, label) for label in classes if f"{name}.{label}" in there]
        if len(classes) == 1 and name in there:
            items.append(Item(name, name, classes[0]))
        elif name in there and len(classes) > 1:
            raise HeatproofError(
                f"the picture {name} has masks of {', '.join(classes)}: call its heatmaps {name}.{classes[0]} and so"
                " on."
            )
    return items


def readable(
    items: Sequence[Item], held: HeldMasks, progress: Progress
) -> tuple[list[tuple[Item, tuple[int, int]]], list[str], str]:
    """The cases whose masks can be read, with their sizes; what is wrong with others; a hash of them all."""
    good: list[tuple[Item, tuple[int, int]]] = []
    problems: list[str] = []
    digest, telling = hashlib.sha256(), False
    for place, item in enumerate(items):
        if place % 50 == 0:
            progress("reading masks", place, len(items))
        try:
            truth = held.truth(item.mask, item.label)
        except HeatproofError as problem:
            problems.append(str(problem).rstrip("."))
            continue
        digest.update(item.case.encode() + digest_of(truth))
        telling = telling or has_both(truth)
        good.append((item, (truth.shape[0], truth.shape[1])))
    progress("reading masks", len(items), len(items))
    if len(good) < MOST_BAD * len(items):
        raise HeatproofError(
            f"{len(problems):,} of {len(items):,} masks of {held.source.place} cannot be used: {few(problems, '; ')}."
        )
    if not telling:
        raise HeatproofError(
            f"no mask of {held.source.place} has both object and background, so that no heatmap would have a score."
        )
    return good, problems, digest.hexdigest()[:16]


@dataclass(frozen=True, eq=False, kw_only=True)
class OpenedMaskMaps(OpenedMasks):
    """Masks that have heatmaps; those of one size are a part."""

    held: HeldMasks
    parts: Mapping[str, Sequence[Item]]
    chosen: tuple[str, ...]
    tolerance: int
    left_out: Sequence[str]
    keeps_float32 = True

    def items(self, chunk: Chunk) -> Sequence[Item]:
        part, _, start = chunk.name.rpartition("-")
        return self.parts[part][int(start) : int(start) + chunk.cases]

    def cases(self, chunk: Chunk) -> list[str]:
        return [item.case for item in self.items(chunk)]

    def space_of(self, chunk: Chunk) -> tuple[int, ...]:
        part = chunk.name.rpartition("-")[0]
        return tuple(int(extent) for extent in part.split("x")) if part else self.space

    def truths(self, chunk: Chunk) -> Truth:
        return np.stack([self.held.truth(item.mask, item.label) for item in self.items(chunk)])

    def truth(self, chunk: Chunk) -> NDArray[np.bool_]:
        return np.asarray(self.truths(chunk) == INSIDE)

    def score(self, chunk: Chunk, relevance: NDArray[Any], problems: Sequence[str]) -> pl.DataFrame:
        items = self.items(chunk)
        facts = {"target_class": [item.label for item in items]} if self.held.source.knows_classes else {}
        return mask_rows.score_table(
            [item.case for item in items], facts, relevance, self.truths(chunk), self.chosen, self.tolerance, problems
        )

    def shown(self, cases: Sequence[str]) -> dict[str, NDArray[Any]]:
        """The masks themselves in the place of pictures, which nobody has given."""
        by_case = {item.case: item for items in self.parts.values() for item in items}
        truths = np.stack([self.held.truth(by_case[case].mask, by_case[case].label) for case in cases])
        grey = np.array([0.35, 0.75, 0.55], np.float32)[truths]
        return {"inputs": np.repeat(grey[:, None], 3, 1), f"mask.{TRUTH}": truths == INSIDE}

    def subsets(self) -> Mapping[str, pl.Expr]:
        classes = sorted({item.label for items in self.parts.values() for item in items} - {""})
        return mask_rows.parts_of_cases(classes, predicted=False)

    def remembers(self) -> pl.Expr:
        return mask_rows.remembered()

    def end(self, rows: pl.DataFrame, table: pl.DataFrame) -> Ending:
        count = sum(self.counts.values())
        said = [f"Heatmaps of {count:,} pictures scored. The mask's share of the picture is what says nothing."]
        own = rows.filter(~pl.col("explainer").is_in(list(FAMILIES)) & pl.col("value").is_nan())
        bad = own.unique(["explainer", "case"], maintain_order=True).select("explainer", "case", "undefined").rows()
        if bad:
            reasons = few([f"{explainer}, {case}: {reason}" for explainer, case, reason in bad], "; ")
            said.append(f"Undefined: {len(bad):,} heatmaps ({reasons}).")
        return Ending([*said, *self.left_out], sections=mask_rows.segmentation_section(rows))
