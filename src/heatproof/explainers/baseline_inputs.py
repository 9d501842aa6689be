"""Inputs that stand for "nothing there": where integrated gradients start, what occlusion puts in its window."""

from __future__ import annotations

from collections.abc import Callable

from heatproof.cases import Batch
from heatproof.errors import HeatproofError, unknown_name
from heatproof.explainers.base import Explainer
from heatproof.lazy import torch


def smoothed(inputs: torch.Tensor) -> torch.Tensor:
    """Each channel averaged over windows of a quarter of the extent, dimension by dimension, borders repeated."""
    for axis in range(2, inputs.ndim):
        reach = inputs.shape[axis] // 8
        index = torch.arange(inputs.shape[axis], device=inputs.device)
        inputs = torch.stack(
            [inputs.index_select(axis, (index + step).clamp(0, len(index) - 1)) for step in range(-reach, reach + 1)]
        ).mean(0)
    return inputs


BASELINES: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "zero": lambda inputs: torch.zeros_like(inputs),
    "minimum": lambda inputs: inputs.flatten(1).amin(1).view(-1, *[1] * (inputs.ndim - 1)),
    "mean": lambda inputs: inputs.flatten(2).mean(2).view(*inputs.shape[:2], *[1] * (inputs.ndim - 2)),
    "blurred": smoothed,
}
BLACK = "black"
"""A black pixel as the model sees it; unlike the others it depends on how pictures became inputs."""


def given_baseline(text: str) -> list[float] | None:
    """Numbers from `0.5` or `0.46/0.46/0.45`; None if the text is not of that form."""
    try:
        return [float(number) for number in text.split("/")]
    except ValueError:
        return None


def require_baseline(explainer: Explainer, text: str) -> None:
    """The text must name a baseline or give its numbers."""
    if text not in (BLACK, *BASELINES) and given_baseline(text) is None:
        raise unknown_name(f"{explainer.name} baseline", text, (BLACK, *BASELINES))


def require_black(explainer: Explainer, batch: Batch) -> tuple[float, ...]:
    """A black pixel of the batch. It is not guessed from the inputs: a signal may lie between 0 and 1 too."""
    if batch.black is None:
        raise HeatproofError(
            f"{explainer.name}: baseline=black is a black pixel as the model sees it, and nobody has said how pixels"
            " became these inputs. Give its value, baseline=0 where pixels lie between 0 and 1 or -mean/std of each"
            " channel (baseline=-2.118/-2.036/-1.804 for ImageNet's); or baseline=minimum, each case's least value."
        )
    return batch.black


def baseline_of(explainer: Explainer, text: str, batch: Batch) -> torch.Tensor:
    """The baseline of each case, of the inputs' shape."""
    inputs = batch.inputs
    if text in BASELINES:
        return BASELINES[text](inputs).expand_as(inputs)
    numbers = require_black(explainer, batch) if text == BLACK else given_baseline(text)
    given = torch.tensor(numbers, dtype=torch.float64).to(inputs)
    if len(given) not in (1, inputs.shape[1]):
        raise HeatproofError(
            f"{explainer.name}: baseline has {len(given)} numbers for {inputs.shape[1]} channels;"
            " give one, or one each."
        )
    return given.view(1, -1, *[1] * (inputs.ndim - 2)).expand_as(inputs)
