"""Does the relevance on each object follow what the object really does? Effects are measured by taking objects out.

Arrays in, one float64 value per case out. `relevance` (cases, objects) is what a heatmap puts on each object, `effects`
(cases, objects) what taking it out changes; where a case has fewer objects than others, both are NaN. A score is NaN
where it is undefined: the same relevance on all objects orders nothing.

Scores that compare objects come twice: `_sum` takes all the relevance that lies on an object, `_mean` (density) what
lies on each of its positions on average. A map that is the same everywhere puts more on larger objects by the first,
and orders nothing by the second.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from heatproof.lazy import np
from heatproof.metrics.base import register_metric

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Values = NDArray[np.float64]

PAPER = "after Hesse et al. 2023"  # the scores are ours: docs/removal.md
NEEDS, SIGNED = ("effects",), (-1.0, 1.0)
IDLE = 0.05
"""An object has no effect worth the name below this share of the largest effect of its case."""


def on_objects(heatmap: Values, regions: NDArray[Any], objects: int) -> tuple[Values, Values]:
    """Sums (cases, 1 + objects) of heatmaps (cases, *space) over their regions, and the regions' positions.

    `regions` (cases, *space) has 0 where no object is and k on object k - 1. Column 0 is what lies on no object.
    """
    cases = len(heatmap)
    places = (regions.reshape(cases, -1).astype(np.int64) + np.arange(cases)[:, None] * (objects + 1)).ravel()
    size = cases * (objects + 1)
    sums = np.bincount(places, heatmap.reshape(-1).astype(np.float64), size).reshape(cases, -1).astype(np.float64)
    return sums, np.bincount(places, minlength=size).reshape(cases, -1).astype(np.float64)


@register_metric("effect_kendall_sum", title="Kendall's tau with effects", needs=NEEDS, paper=PAPER, range=SIGNED)
@register_metric(
    "effect_kendall_mean", title="Kendall's tau with effects, density", needs=NEEDS, paper=PAPER, range=SIGNED
)
def effect_kendall(relevance: Values, effects: Values) -> Values:
    """Kendall's tau-b between the relevance on each object and its effect: do they put objects in the same order?"""
    ours, truth = pair_signs(relevance), pair_signs(effects)
    both = np.isfinite(ours) & np.isfinite(truth)
    ours, truth = np.where(both, ours, 0.0), np.where(both, truth, 0.0)
    return ratio((ours * truth).sum((1, 2)), np.sqrt((ours**2).sum((1, 2)) * (truth**2).sum((1, 2))))


@register_metric("effect_spearman_sum", title="Spearman's rho with effects", needs=NEEDS, paper=PAPER, range=SIGNED)
@register_metric(
    "effect_spearman_mean", title="Spearman's rho with effects, density", needs=NEEDS, paper=PAPER, range=SIGNED
)
def effect_spearman(relevance: Values, effects: Values) -> Values:
    """Spearman's rho between the relevance on each object and its effect."""
    there = np.isfinite(relevance) & np.isfinite(effects)
    ours, truth = (centred(ranks(np.where(there, values, np.nan)), there) for values in (relevance, effects))
    return ratio((ours * truth).sum(1), np.sqrt((ours**2).sum(1) * (truth**2).sum(1)))


@register_metric("effect_top1_sum", title="Top object", needs=NEEDS, paper=PAPER)
@register_metric("effect_top1_mean", title="Top object, density", needs=NEEDS, paper=PAPER)
def effect_top1(relevance: Values, effects: Values) -> Values:
    """Whether the object with the most relevance is the one with the largest effect; of several, the share that is."""
    ours, truth = (np.where(np.isfinite(values), values, -np.inf) for values in (relevance, effects))
    most, largest = ours == ours.max(1, keepdims=True), truth == truth.max(1, keepdims=True)
    says = np.isfinite(ours).any(1) & (spread_of(relevance) > 0)
    return np.where(says, (most & largest).sum(1) / most.sum(1), np.nan)


@register_metric("effect_mass", title="Effect-weighted mass", needs=NEEDS, paper=PAPER)
def effect_mass(sums: Values, effects: Values) -> Values:
    """Overlap of two shares: of the relevance that lies on each object, and of the effects that the object has.

    sum over objects of min(relevance on it / all relevance, |effect| / all |effects|). `sums` (cases, 1 + objects) are
    of a heatmap without sign, background first: relevance on no object overlaps with nothing.
    """
    shares = sums[:, 1:] / np.where(sums.sum(1) > 0, sums.sum(1), np.nan)[:, None]
    sizes = np.abs(np.nan_to_num(effects))
    found = np.minimum(shares, ratio_of(sizes, sizes.sum(1))).sum(1)
    return cast("Values", np.minimum(found, 1.0))


@register_metric(
    "idle_share",
    title="Relevance on idle objects",
    needs=NEEDS,
    paper=PAPER,
    higher_is_better=False,
)
def idle_share(sums: Values, effects: Values) -> Values:
    """Of the relevance that lies on objects, the share on those without effect (under 5 % of the case's largest)."""
    idle = is_idle(effects)
    of_objects = sums[:, 1:]
    return ratio(np.where(idle, of_objects, 0.0).sum(1), of_objects.sum(1))


@register_metric(
    "no_object_share",
    title="Relevance on no object",
    needs=NEEDS,
    paper=PAPER,
    higher_is_better=False,
)
def no_object_share(sums: Values, effects: Values) -> Values:  # noqa: ARG001
    """Share of the relevance that lies on no object at all."""
    return ratio(sums[:, 0], sums.sum(1))


def is_idle(effects: Values) -> NDArray[np.bool_]:
    """Which objects (cases, objects) have next to no effect."""
    sizes = np.abs(np.nan_to_num(effects))
    return cast("NDArray[np.bool_]", np.isfinite(effects) & (sizes < IDLE * sizes.max(1, keepdims=True)))


def pair_signs(values: Values) -> Values:
    """The sign of each difference (cases, objects, objects); NaN where an object is missing."""
    return np.sign(values[:, :, None] - values[:, None, :])


def ranks(values: Values) -> Values:
    """Ranks (cases, objects) from 1, shared among equals; NaN where an object is missing."""
    signs = pair_signs(values)
    there = np.isfinite(values)
    found = 0.5 + (np.nan_to_num((signs + 1) / 2) * there[:, None, :]).sum(2)
    return np.where(there, found, np.nan)


def centred(values: Values, there: NDArray[np.bool_]) -> Values:
    """Values less the mean of those that are there; 0 elsewhere."""
    mean = np.where(there, values, 0.0).sum(1) / np.maximum(there.sum(1), 1)
    return np.where(there, values - mean[:, None], 0.0)


def spread_of(values: Values) -> Values:
    """The largest less the smallest of each row, NaN left out; 0 for a row without any."""
    low, high = np.where(np.isnan(values), np.inf, values).min(1), np.where(np.isnan(values), -np.inf, values).max(1)
    return np.where(np.isfinite(low) & np.isfinite(high), high - low, 0.0)


def ratio(part: Values, whole: Values) -> Values:
    """part / whole per case, NaN where the whole is not above 0."""
    return part / np.where(whole > 0, whole, np.nan)


def ratio_of(parts: Values, whole: Values) -> Values:
    return parts / np.where(whole > 0, whole, np.nan)[:, None]
