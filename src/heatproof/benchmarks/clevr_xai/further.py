"""Rows beside mass and rank: does a map depend on the question, and does it find the objects? No torch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from heatproof.benchmarks.clevr_xai.company import Company
from heatproof.lazy import np, pl
from heatproof.metrics.heatmap_scores import REASONS, pooled
from heatproof.metrics.objects import are_there, held_by, share_off, top_n
from heatproof.metrics.selectivity import pixel_selectivity, selectivity_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Values = Mapping[str, NDArray[np.float64]]

SELECTIVITY = ("mass_selectivity", "rank_selectivity")
OBJECTS = ("object_top_n", "object_top_n_mean", "object_selectivity", "object_selectivity_mean", "off_objects")
FURTHER = (*SELECTIVITY, *OBJECTS)
EVERYTHING = "all_objects"
"""The truth that every question about a picture has: nothing can be told by it."""
NO_OTHER = "no other question about the picture has another truth"
NO_CHOICE = "none of the objects decides, or all of them do"


@dataclass(frozen=True, eq=False)
class Asked:
    """Some questions: `known` are the facts of each, `masks` (B, H, W) and `counts` of their objects are by kind."""

    name: str
    index: Sequence[int]
    known: pl.DataFrame
    masks: Mapping[str, NDArray[np.bool_]]
    counts: Mapping[str, Sequence[int]]


def further_rows(
    asked: Asked,
    relevance: NDArray[Any],
    company: Company,
    poolings: Mapping[str, str],
    problems: Sequence[str] | None = None,
) -> Iterator[pl.DataFrame]:
    """Rows of relevance (B, C, H, W) under the pooling that each metric is shown in."""
    flat = relevance.reshape(*relevance.shape[:2], -1)
    flat = flat if flat.dtype in (np.float32, np.float64) else flat.astype(np.float64)
    heat = {pooling: pooled(flat, pooling) for pooling in dict.fromkeys(poolings.values())}
    objects = company.objects(asked.index) if company.has_objects else None
    if objects is not None:
        there, maps_of_objects = are_there(objects), heat[poolings["object_top_n"]]
        held = {mean: held_by(maps_of_objects, objects, mean) for mean in (False, True)}
        even = {False: objects.sum(2).astype(np.float64), True: np.ones(there.shape)}
    for kind, mask in asked.masks.items():
        if kind == EVERYTHING:
            continue
        others = company.masks(asked.name, kind, asked.index).reshape(len(mask), -1)
        own = mask.reshape(len(mask), -1)
        uniform = pixel_selectivity(np.ones(own.shape), own, others, ranks=False)[0]
        for place, metric in enumerate(SELECTIVITY):
            maps = heat[poolings[metric]]
            values = pixel_selectivity(maps, own, others, ranks=place == 1)[place]
            yield labelled(asked, metric, kind, poolings[metric], values, uniform, maps, NO_OTHER, problems)
        if objects is not None:
            truth = company.flags(kind, asked.index, objects.shape[1])
            other = company.flags(kind, company.other(kind, asked.index), objects.shape[1])
            for end, mean in (("", False), ("_mean", True)):
                both = held[mean], even[mean]
                found = {
                    f"object_top_n{end}": ([top_n(each, there, truth) for each in both], NO_CHOICE),
                    f"object_selectivity{end}": (
                        [selectivity_of(each, there, truth, other) for each in both],
                        NO_OTHER,
                    ),
                }
                for metric, ((values, chance), why) in found.items():
                    pooling = poolings["object_top_n"]
                    yield labelled(asked, metric, kind, pooling, values, chance, maps_of_objects, why, problems)
    if objects is not None and EVERYTHING in asked.masks:
        maps = heat[poolings["off_objects"]]
        values, uniform = share_off(maps, objects), share_off(np.ones_like(maps), objects)
        yield labelled(
            asked, "off_objects", EVERYTHING, poolings["off_objects"], values, uniform, maps, NO_CHOICE, problems
        )


def labelled(
    asked: Asked,
    metric: str,
    kind: str,
    pooling: str,
    values: NDArray[np.float64],
    uniform: NDArray[np.float64],
    maps: NDArray[np.float64],
    missing: str,
    problems: Sequence[str] | None,
) -> pl.DataFrame:
    """Rows of one metric; `uniform` is what a uniform map gets, undefined where the truth is missing."""
    no_truth, silent, finite = np.isnan(uniform), np.isnan(values), np.asarray(np.isfinite(maps).all(1))
    reasons = [
        (problems[i] if problems is not None and problems[i] else "")
        or (missing if no_truth[i] else "" if not silent[i] else REASONS[3] if finite[i] else REASONS[2])
        for i in range(len(values))
    ]
    return asked.known.with_columns(
        metric=pl.lit(metric),
        ground_truth=pl.lit(kind),
        pooling=pl.lit(pooling),
        value=pl.Series(np.where(no_truth, np.nan, values)),
        uniform=pl.Series(uniform).fill_nan(None),
        mask_size=pl.Series(asked.masks[kind].reshape(len(values), -1).sum(1)),
        truth_objects=pl.Series(asked.counts[kind], dtype=pl.Int64),
        undefined=pl.Series(reasons),
    )
