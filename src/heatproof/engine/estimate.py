"""What a run would cost, from one timed pass of each model; nothing is explained or written."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from heatproof.cases import Batch
from heatproof.engine.sources import Explaining
from heatproof.explainers.base import Explainer, SampledExplainer, untouched
from heatproof.lazy import torch


@dataclass(frozen=True)
class ModelCost:
    """What one row costs in a model."""

    seconds_per_pass: float
    activation_bytes: int


@dataclass(frozen=True)
class Estimate:
    """The cost of one explainer: seconds, and the peak of activations and inputs in bytes."""

    explainer: str
    target: str
    units: int
    cases: int
    passes: int | None
    """None where nobody knows, as for a user's function."""
    seconds: float
    memory: int


def estimate(source: Explaining) -> list[Estimate]:
    """One line per explainer, in the order of the plan."""
    units = source.units()
    costs: dict[str, ModelCost] = {}
    for unit in units:
        if unit.chunk.model not in costs:
            costs[unit.chunk.model] = measure(source.opened.model(unit.chunk.model), source.loaded(unit.chunk))
    lines = []
    for folder in dict.fromkeys(unit.folder for unit in units):
        chosen = [unit for unit in units if unit.folder == folder]
        explainer = source.by_folder[folder]
        passes = [unit.chunk.cases * unit.passes for unit in chosen]
        seconds = [n * costs[unit.chunk.model].seconds_per_pass for n, unit in zip(passes, chosen, strict=True)]
        row = max(costs[unit.chunk.model].activation_bytes for unit in chosen)
        memory = rows_at_once(explainer, row, source.batch_size) * row if sum(passes) else 0
        cases = sum(unit.chunk.cases for unit in chosen)
        lines.append(
            Estimate(
                explainer.label,
                chosen[0].target,
                len(chosen),
                cases,
                None if explainer.cost == "unknown" else sum(passes),
                sum(seconds),
                memory,
            )
        )
    return lines


def rows_at_once(explainer: Explainer, bytes_per_row: int, batch_size: int) -> int:
    """How many rows go through the model together."""
    if not isinstance(explainer, SampledExplainer):
        return batch_size
    return min(explainer.rows, max(1, int(explainer.memory * 10**6) // bytes_per_row))


def measure(model: torch.nn.Module, batch: Batch) -> ModelCost:
    """Time one forward and one backward pass of a batch, twice; the second counts."""
    from heatproof.explainers.compiled import is_script

    activations: list[int] = []

    def remember(_module: torch.nn.Module, _args: Any, output: Any) -> None:
        if isinstance(output, torch.Tensor):
            activations.append(output.numel() * output.element_size())

    with untouched(model):
        leaves = [m for m in model.modules() if not any(m.children()) and not is_script(m)]
        hooks = [leaf.register_forward_hook(remember) for leaf in leaves]
        try:
            outputs = model(batch.inputs, *batch.context)
        finally:
            for hook in hooks:
                hook.remove()
        start = time.perf_counter()
        inputs = batch.inputs.detach().requires_grad_()
        outputs = model(inputs, *batch.context)
        if outputs.requires_grad:
            torch.autograd.grad(outputs.sum(), inputs)
        seconds = time.perf_counter() - start
    # Backward keeps the activations and makes a gradient for each.
    size = 2 * sum(activations) + 2 * batch.inputs.numel() * batch.inputs.element_size()
    return ModelCost(seconds / (2 * len(batch)), size // len(batch))
