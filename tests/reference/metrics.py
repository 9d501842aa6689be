"""Poolings and metrics as their formulas read: plain loops over plain numbers, one case at a time."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

Array = NDArray[Any]


def pooled(channels: Sequence[float], pooling: str) -> float:
    """One position's channel values to one number; the ten formulas of CLEVR-XAI."""
    values = [float(value) for value in channels]
    kept = [value if value > 0 else 0.0 for value in values]
    formulas = {
        "sum_abs": abs(math.fsum(values)),
        "sum_pos": max(0.0, math.fsum(values)),
        "max_norm": max(abs(value) for value in values),
        "l1_norm": math.fsum(abs(value) for value in values),
        "l2_norm": math.sqrt(math.fsum(value**2 for value in values)),
        "l2_norm_sq": math.fsum(value**2 for value in values),
        "pos_sum": math.fsum(kept),
        "pos_max_norm": max(kept),
        "pos_l2_norm": math.sqrt(math.fsum(value**2 for value in kept)),
        "pos_l2_norm_sq": math.fsum(value**2 for value in kept),
    }
    return formulas[pooling]


def pool(relevance: Array, pooling: str) -> Array:
    """Relevance (B, C, *space) to heatmaps (B, *space), position by position."""
    heatmap = np.zeros((relevance.shape[0], *relevance.shape[2:]))
    for place in np.ndindex(*heatmap.shape):
        case, position = place[0], place[1:]
        heatmap[place] = pooled([relevance[(case, c, *position)] for c in range(relevance.shape[1])], pooling)
    return heatmap


def mass_accuracy(heatmap: Array, mask: Array) -> float:
    """Relevance inside the mask over all relevance, of one case."""
    inside = math.fsum(float(h) for h, m in zip(heatmap.flat, mask.flat, strict=True) if m)
    return inside / math.fsum(float(h) for h in heatmap.flat)


def focus(heatmap: Array, labels: Sequence[int], target: int) -> float:
    """Focus of one 2x2 mosaic as the original's code reads: four quadrants by integer halves, positive parts added up.

    Quadrants 0 to 3 are top left, top right, bottom left, bottom right.
    """
    height, width = heatmap.shape
    quadrants = [
        heatmap[: height // 2, : width // 2],
        heatmap[: height // 2, width // 2 :],
        heatmap[height // 2 :, : width // 2],
        heatmap[height // 2 :, width // 2 :],
    ]
    sums = [math.fsum(float(value) for value in quadrant.flat if value > 0) for quadrant in quadrants]
    total = math.fsum(sums)
    right = math.fsum(part for part, label in zip(sums, labels, strict=True) if label == target)
    return right / total if total else math.nan


def rank_accuracy_sorted(heatmap: Array, mask: Array) -> float:
    """The papers' code: argsort, reversed, the first K, how many are in the mask. Only for maps without ties."""
    assert len(set(heatmap.flat)) == heatmap.size
    size = int(mask.sum())
    order = np.argsort(heatmap.ravel())[::-1]
    return sum(bool(mask.ravel()[i]) for i in order[:size]) / size


def rank_accuracy_enumerated(heatmap: Sequence[float], mask: Sequence[bool]) -> Fraction:
    """The same, averaged exactly over every order in which positions of equal relevance can be sorted."""
    size, total, count = sum(mask), 0, 0
    for order in itertools.permutations(range(len(heatmap))):
        ranked = sorted(order, key=lambda i: -heatmap[i])  # stable: ties stay in the order of the permutation
        total += sum(mask[i] for i in ranked[:size])
        count += 1
    return Fraction(total, count * size)


def pointing_game_enumerated(heatmap: Sequence[float], mask: Sequence[bool]) -> Fraction:
    """Whether the maximum lies in the mask, averaged over the positions that share the maximum."""
    peaks = [i for i, value in enumerate(heatmap) if value == max(heatmap)]
    return Fraction(sum(mask[i] for i in peaks), len(peaks))


def drop(full: float, kept: float) -> float:
    """max(0, Y - O) / Y"""
    return (full - kept) / full if full > kept else 0.0


def window_clipped(relevance: Sequence[float], length: int) -> list[int]:
    """Positions (from 0) of the window: centred on the first maximum, moved into the signal."""
    peak = list(relevance).index(max(relevance))
    start = peak - length // 2
    while start < 0:
        start += 1
    while start + length > len(relevance):
        start -= 1
    return list(range(start, start + length))


def window_literal(relevance: Sequence[float], length: int) -> list[int]:
    """Positions (from 0) of the window by equation 1 of SVEA, in its own count from 1."""
    points = len(relevance)
    i = list(relevance).index(max(relevance)) + 1
    if length < i < points - length:
        window = range(i - length // 2, i - length // 2 + length)
    elif i <= length:
        window = range(1, length + 1)
    else:
        window = range(points - length + 1, points + 1)
    return [position - 1 for position in window]


def svm_predictions(train: Array, labels: Array, test: Array) -> Array:
    """Linear one-vs-rest SVM: minimises |w|^2 / 2 + sum of max(0, 1 - y (w x))^2 per class by L-BFGS.

    A constant 1 is appended to x, so the intercept is regularised too, as in LIBLINEAR.
    """
    train = np.hstack([train, np.ones((len(train), 1))])
    test = np.hstack([test, np.ones((len(test), 1))])
    classes = np.unique(labels)
    margins = np.zeros((len(test), len(classes)))
    for k, name in enumerate(classes):
        sign = np.where(labels == name, 1.0, -1.0)

        def objective(w: Array, sign: Array = sign) -> tuple[float, Array]:
            slack = np.maximum(0.0, 1 - sign * (train @ w))
            return 0.5 * float(w @ w) + float((slack**2).sum()), w - 2 * train.T @ (sign * slack)

        options = {"maxiter": 10_000, "ftol": 1e-14, "gtol": 1e-9}
        found = minimize(objective, np.zeros(train.shape[1]), jac=True, method="L-BFGS-B", options=options)
        margins[:, k] = test @ found.x
    return classes[margins.argmax(1)]


# Scores of one case against a mask: values and whether each lies inside, as plain lists


def rank_share(values: Sequence[float], inside: Sequence[bool]) -> float:
    """Share of the K largest that lie inside; those equal to the K-th by the share of them that does."""
    size = sum(inside)
    last = sorted(values, reverse=True)[size - 1]
    sure = [mark for value, mark in zip(values, inside, strict=True) if value > last]
    tied = [mark for value, mark in zip(values, inside, strict=True) if value == last]
    return float((sum(sure) + (size - len(sure)) * Fraction(sum(tied), len(tied))) / size)


def pointing_share(values: Sequence[float], inside: Sequence[bool]) -> float:
    peaks = [mark for value, mark in zip(values, inside, strict=True) if value == max(values)]
    return sum(peaks) / len(peaks)


def pixel_auc(values: Sequence[float], inside: Sequence[bool]) -> float:
    """Every pair of a position inside and one outside; equals count half."""
    pairs = [
        Fraction(1) if mine > other else Fraction(int(mine == other), 2)
        for mine, mark in zip(values, inside, strict=True)
        if mark
        for other, outside in zip(values, inside, strict=True)
        if not outside
    ]
    return float(sum(pairs) / len(pairs))


def average_precision(values: Sequence[float], inside: Sequence[bool]) -> float:
    """Over all thresholds, the precision times what recall grows by."""
    total, before, found = sum(inside), 0, Fraction(0)
    for cut in sorted(set(values), reverse=True):
        chosen = [mark for value, mark in zip(values, inside, strict=True) if value >= cut]
        found += Fraction(sum(chosen) - before, total) * Fraction(sum(chosen), len(chosen))
        before = sum(chosen)
    return float(found)


def overlap_at(values: Sequence[float], inside: Sequence[bool], cut: float) -> float:
    marked = [value >= cut for value in values]
    both = sum(one and other for one, other in zip(marked, inside, strict=True))
    either = sum(one or other for one, other in zip(marked, inside, strict=True))
    return both / either


def best_iou(values: Sequence[float], inside: Sequence[bool]) -> float:
    return max(overlap_at(values, inside, cut) for cut in set(values))


def at_mean(values: Sequence[float], inside: Sequence[bool]) -> tuple[float, float]:
    """IoU and pixel accuracy of what reaches the mean."""
    cut = min(math.fsum(values) / len(values), max(values))
    right = [(value >= cut) == mark for value, mark in zip(values, inside, strict=True)]
    return overlap_at(values, inside, cut), sum(right) / len(right)


def object_top_n(amounts: Sequence[float], true: Sequence[bool]) -> float:
    """Share of the n true objects among the n that hold most: the mean over all orders of the objects."""
    n, shares = sum(true), []
    for order in itertools.permutations(range(len(amounts))):
        best = sorted(order, key=lambda place: -amounts[place])[:n]  # stable: equals stay in this order
        shares.append(sum(true[place] for place in best) / n)
    return math.fsum(shares) / len(shares)


def held_by_objects(heatmap: Array, objects: Array, mean: bool) -> list[float]:
    """Relevance of each object (M, positions): added up pixel by pixel, or over the pixels that it shows."""
    found = []
    for plane in objects:
        inside = [float(value) for value, shown in zip(heatmap, plane, strict=True) if shown]
        found.append(math.fsum(inside) / (len(inside) if mean else 1))
    return found


def object_selectivity(amounts: Sequence[float], own: Sequence[bool], other: Sequence[bool]) -> float:
    """Own minus other, after the objects that both have were taken away."""
    left = [place for place in range(len(amounts)) if not (own[place] and other[place])]
    held = [amounts[place] for place in left]
    return object_top_n(held, [own[i] for i in left]) - object_top_n(held, [other[i] for i in left])


def mass_selectivity(heatmap: Array, own: Array, other: Array) -> float:
    """Own minus other, after the pixels that both have were blackened."""
    left = [0.0 if a and b else float(value) for value, a, b in zip(heatmap, own, other, strict=True)]
    total = math.fsum(left)
    mine = math.fsum(value for value, a, b in zip(left, own, other, strict=True) if a and not b)
    others = math.fsum(value for value, a, b in zip(left, own, other, strict=True) if b and not a)
    return mine / total - others / total


def rank_selectivity(heatmap: Array, own: Array, other: Array) -> float:
    """The same of ranks."""
    left = [0.0 if a and b else float(value) for value, a, b in zip(heatmap, own, other, strict=True)]
    mine = [bool(a and not b) for a, b in zip(own, other, strict=True)]
    others = [bool(b and not a) for a, b in zip(own, other, strict=True)]
    return rank_share(left, mine) - rank_share(left, others)
