"""Explainers as their papers' formulas read: one case, one map, one position at a time, in float64."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from heatproof.cases import Batch

Array = NDArray[Any]


@dataclass(frozen=True)
class Net:
    """A model and cases for it, with the model cut in two at the layer that class activation maps read.

    `features(inputs)` gives the feature maps, `head(maps, *context)` the logits; together they are the model.
    """

    model: torch.nn.Module
    batch: Batch
    layer: str
    features: Callable[[torch.Tensor], torch.Tensor]
    head: Callable[..., torch.Tensor]

    def inputs(self, case: int) -> Array:
        """The inputs (C, *space) of one case."""
        inputs: Array = self.batch.inputs[case].numpy()
        return inputs

    def context(self, case: int) -> tuple[torch.Tensor, ...]:
        """The context of one case, as a batch of one."""
        return tuple(tensor[case : case + 1] for tensor in self.batch.context)

    def score(self, case: int, inputs: Array, quantity: str) -> float:
        """The explained quantity of one case's target class, with other inputs."""
        with torch.no_grad():
            logits = self.model(torch.as_tensor(inputs)[None], *self.context(case))[0].tolist()
        return quantity_of(logits, int(self.batch.target[case]), quantity)

    def maps(self, case: int) -> Array:
        """The feature maps (K, *any) of one case."""
        with torch.no_grad():
            maps: Array = self.features(self.batch.inputs[case : case + 1])[0].numpy()
        return maps

    def map_gradient(self, case: int, quantity: str) -> Array:
        """d score / d maps, from the Jacobian of the logits and the derivative of the softmax written out."""
        maps = torch.as_tensor(self.maps(case))[None]
        jacobian = torch.autograd.functional.jacobian(lambda a: self.head(a, *self.context(case))[0], maps)
        with torch.no_grad():
            logits = self.head(maps, *self.context(case))[0].tolist()
        return logit_gradients_to_score(jacobian[:, 0].numpy(), logits, int(self.batch.target[case]), quantity)

    def input_gradient(self, case: int, inputs: Array, quantity: str) -> Array:
        """d score / d inputs of one case at other inputs, in the same way."""
        rows = torch.as_tensor(inputs)[None]
        jacobian = torch.autograd.functional.jacobian(lambda x: self.model(x, *self.context(case))[0], rows)
        with torch.no_grad():
            logits = self.model(rows, *self.context(case))[0].tolist()
        return logit_gradients_to_score(jacobian[:, 0].numpy(), logits, int(self.batch.target[case]), quantity)


def probabilities(logits: Sequence[float]) -> list[float]:
    """exp(z_k) / sum_j exp(z_j)"""
    total = math.fsum(math.exp(z) for z in logits)
    return [math.exp(z) / total for z in logits]


def quantity_of(logits: Sequence[float], target: int, quantity: str) -> float:
    """Logit, probability or log-probability of the target class."""
    if quantity == "logit":
        return logits[target]
    probability = probabilities(logits)[target]
    return probability if quantity == "probability" else math.log(probability)


def logit_gradients_to_score(gradients: Array, logits: Sequence[float], target: int, quantity: str) -> Array:
    """d log p_t = d z_t - sum_k p_k d z_k, d p_t = p_t d log p_t, from the gradients (classes, ...) of the logits."""
    if quantity == "logit":
        return np.array(gradients[target])
    p = probabilities(logits)
    result = np.array(gradients[target])
    for k in range(len(p)):
        result = result - p[k] * gradients[k]
    return result if quantity == "log_probability" else p[target] * result


def stretch(values: Array, size: Sequence[int]) -> Array:
    """Linear up-sampling in every dimension: half-pixel centres, edges clamped."""
    result = np.zeros(tuple(size))
    for place in np.ndindex(*size):
        corners = []
        for position, new, old in zip(place, size, values.shape, strict=True):
            source = min(max((position + 0.5) * old / new - 0.5, 0.0), old - 1.0)
            left = math.floor(source)
            right = min(left + 1, old - 1)
            corners.append([(left, 1 - (source - left)), (right, source - left)])
        for corner in itertools.product(*corners):
            weight = math.prod(share for _, share in corner)
            result[place] += weight * values[tuple(index for index, _ in corner)]
    return result


def scaled(values: Array) -> Array:
    """(v - min) / (max - min); zero where all values are the same."""
    low, high = values.min(), values.max()
    return (values - low) / (high - low) if high > low else np.zeros_like(values)


def integrated_gradients(net: Net, case: int, steps: int, quantity: str) -> Array:
    """x times the trapezoid sum of the gradient at a x, a = 0, 1/steps ... 1."""
    inputs = net.inputs(case)
    total = np.zeros_like(inputs)
    for step in range(steps + 1):
        weight = (0.5 if step in (0, steps) else 1.0) / steps
        total = total + weight * net.input_gradient(case, step / steps * inputs, quantity)
    return inputs * total


def weighted_maps(net: Net, case: int, weights: Sequence[float], shift: bool = False) -> Array:
    """max(0, sum_k w_k A_k), then up-sampled to the input; shift: the sum's lowest value subtracted first."""
    maps = net.maps(case)
    cam = np.zeros(maps.shape[1:])
    for place in np.ndindex(*cam.shape):
        cam[place] = math.fsum(w * a[place] for w, a in zip(weights, maps, strict=True))
    return stretch(np.maximum(0.0, cam - cam.min() if shift else cam), net.batch.space)


def grad_cam(net: Net, case: int, quantity: str) -> Array:
    """w_k = mean of g_k"""
    weights = [math.fsum(g.flat) / g.size for g in net.map_gradient(case, quantity)]
    return weighted_maps(net, case, weights)


def grad_cam_pp(
    net: Net, case: int, quantity: str, normalised: bool = False, eps: float = 0.0, shift: bool = False
) -> Array:
    """w_k = sum of alpha max(0, g), alpha = g^2 / (2 g^2 + g^3 sum of A_k + eps); normalised: alpha over its sum."""
    weights = []
    for a, g in zip(net.maps(case), net.map_gradient(case, quantity), strict=True):
        mass = math.fsum(a.flat)
        alphas = [v**2 / (2 * v**2 + v**3 * mass + eps) if v != 0 else 0.0 for v in g.flat]
        total = math.fsum(alphas)
        if normalised and total != 0:
            alphas = [alpha / total for alpha in alphas]
        weights.append(math.fsum(alpha * max(0.0, v) for alpha, v in zip(alphas, g.flat, strict=True)))
    return weighted_maps(net, case, weights, shift)


def xgrad_cam(net: Net, case: int, quantity: str) -> Array:
    """w_k = sum over space of (A_k / sum of A_k) g_k; zero for an empty map."""
    weights = []
    for a, g in zip(net.maps(case), net.map_gradient(case, quantity), strict=True):
        mass = math.fsum(a.flat)
        weights.append(math.fsum(x / mass * v for x, v in zip(a.flat, g.flat, strict=True)) if mass != 0 else 0.0)
    return weighted_maps(net, case, weights)


def score_cam(net: Net, case: int, quantity: str) -> Array:
    """max(0, sum_k w_k A_k) of the up-sampled maps, w = softmax of the scores of x * scaled(A_k)."""
    maps = [stretch(a, net.batch.space) for a in net.maps(case)]
    scores = [net.score(case, net.inputs(case) * scaled(a), quantity) for a in maps]
    weights = probabilities(scores)
    total = np.zeros(net.batch.space)
    for w, a in zip(weights, maps, strict=True):
        total += w * a
    return np.maximum(total, 0.0)


def sise(net: Net, case: int, quantity: str) -> Array:
    """sum_k S(x m_k) m_k / sum of m_k over the maps with positive mean gradient, m_k = scaled(up-sampled A_k)."""
    total = np.zeros(net.batch.space)
    for a, g in zip(net.maps(case), net.map_gradient(case, quantity), strict=True):
        if math.fsum(g.flat) / g.size <= 0:
            continue
        mask = scaled(stretch(a, net.batch.space))
        if mask.sum() == 0:
            continue
        total += net.score(case, net.inputs(case) * mask, quantity) * mask / math.fsum(mask.flat)
    return total


def rise_mask(numbers: Sequence[float], space: Sequence[int], cells: int, p: float) -> Array:
    """One RISE mask: a grid of cells kept where the number is below p, stretched to cells + 1 cells, cropped.

    `numbers` are the cells in row-major order, then one offset per dimension as a share of a cell.
    """
    grid = np.zeros([cells] * len(space))
    for place, number in zip(np.ndindex(*grid.shape), numbers[: grid.size], strict=True):
        grid[place] = 1.0 if number < p else 0.0
    lengths = [math.ceil(extent / cells) for extent in space]
    large = stretch(grid, [(cells + 1) * length for length in lengths])
    offsets = [math.floor(u * length) for u, length in zip(numbers[grid.size :], lengths, strict=True)]
    return large[tuple(slice(o, o + extent) for o, extent in zip(offsets, space, strict=True))]


def rise(net: Net, case: int, masks: Sequence[Array], p: float, quantity: str) -> Array:
    """sum_i S(x m_i) m_i / (number of masks * p)"""
    total = np.zeros(net.batch.space)
    for mask in masks:
        total += net.score(case, net.inputs(case) * mask, quantity) * mask
    return total / (len(masks) * p)
