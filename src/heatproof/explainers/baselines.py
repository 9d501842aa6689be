"""Floors that know nothing of the model, and the ceiling that knows the truth."""

from __future__ import annotations

import copy
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from heatproof.cases import Batch
from heatproof.devices import device_of, seeded
from heatproof.errors import HeatproofError
from heatproof.explainers.around import Around
from heatproof.explainers.base import Explainer, Quantity, register_explainer
from heatproof.lazy import torch
from heatproof.seeds import CaseRandom, derive_seed


@register_explainer("constant")
@dataclass(frozen=True, kw_only=True)
class Constant(Explainer):
    """The same everywhere: its mass accuracy is the mask's share of the area, exactly."""

    family = "floor"
    looks_at = "values"

    def explain(self, model: torch.nn.Module, batch: Batch, rng: CaseRandom) -> torch.Tensor:
        return torch.ones(len(batch), 1, *batch.space).to(batch.inputs)


@register_explainer("random")
@dataclass(frozen=True, kw_only=True)
class Random(Explainer):
    """Uniform noise: what a heatmap scores that says nothing."""

    family = "floor"
    looks_at = "values"

    def explain(self, model: torch.nn.Module, batch: Batch, rng: CaseRandom) -> torch.Tensor:
        shape = (1, *batch.space)
        return rng.draw(batch.ids, lambda generator: torch.rand(shape, generator=generator)).to(batch.inputs)


@register_explainer("centre")
@dataclass(frozen=True, kw_only=True)
class Centre(Explainer):
    """A Gaussian bump in the middle of the input, a quarter of the extent wide."""

    family = "floor"
    looks_at = "values"

    def explain(self, model: torch.nn.Module, batch: Batch, rng: CaseRandom) -> torch.Tensor:
        middle = [float(extent // 2) for extent in batch.space]
        squares = squared_distance(
            batch.space, torch.tensor([middle], dtype=torch.float64), [extent / 4 for extent in batch.space]
        )
        return torch.exp(-squares / 2).to(batch.inputs).unsqueeze(1).expand(len(batch), 1, *batch.space)


@register_explainer("input_magnitude")
@dataclass(frozen=True, kw_only=True)
class InputMagnitude(Explainer):
    """|x|: what is loud is relevant."""

    family = "floor"
    looks_at = "values"

    def explain(self, model: torch.nn.Module, batch: Batch, rng: CaseRandom) -> torch.Tensor:
        return batch.inputs.abs()


@register_explainer("edges")
@dataclass(frozen=True, kw_only=True)
class Edges(Explainer):
    """Where the input changes: the length of its Sobel gradient, channels averaged, borders repeated."""

    family = "floor"
    looks_at = "values"

    def explain(self, model: torch.nn.Module, batch: Batch, rng: CaseRandom) -> torch.Tensor:
        brightness = batch.inputs.mean(1)
        squares = [sobel(brightness, axis).square() for axis in range(1, brightness.ndim)]
        return torch.stack(squares).sum(0).sqrt().unsqueeze(1)


def sobel(values: torch.Tensor, axis: int) -> torch.Tensor:
    """Central difference along `axis` of values (B, *space), smoothed by 1, 2, 1 along the other space axes."""
    for along in range(1, values.ndim):
        first, last = values.narrow(along, 0, 1), values.narrow(along, values.shape[along] - 1, 1)
        padded = torch.cat([first, values, last], along)
        before, after = (padded.narrow(along, start, values.shape[along]) for start in (0, 2))
        values = after - before if along == axis else before + 2 * values + after
    return values


@register_explainer("randomised")
@dataclass(frozen=True, kw_only=True)
class Randomised(Around):
    """Another explainer on the model with weights drawn anew: `randomised:grad_cam`.

    What is left of its scores does not come from what the model has learnt. All cases of a run see the same weights.
    """

    family = "floor"
    paper = "Adebayo et al. 2018"
    cost = "as the other"

    def explain(self, model: torch.nn.Module, batch: Batch, rng: CaseRandom) -> torch.Tensor:
        return self.other()(randomised(model, derive_seed(rng.run_seed, "weights")), batch, rng)

    @property
    def shares_passes(self) -> bool:
        return self.other().shares_passes

    def each(
        self, model: torch.nn.Module, batch: Batch, rng: CaseRandom, quantities: Sequence[Quantity]
    ) -> list[torch.Tensor]:
        def explain(cases: Batch) -> list[torch.Tensor]:
            return self.other().each(randomised(model, derive_seed(rng.run_seed, "weights")), cases, rng, quantities)

        return self.guarded(model, batch, explain)


def randomised(model: torch.nn.Module, seed: int) -> torch.nn.Module:
    """A copy of the model, every layer set up anew as its class does it; weights of no layer are shuffled.

    Drawn on the CPU in the plain order of memory, then laid out as the model's own and where that is: the values depend
    on neither.
    """
    copied = copy.deepcopy(model).cpu()
    for parameter in copied.parameters():
        parameter.data = parameter.data.contiguous()
    with seeded(seed):
        for module in copied.modules():
            if callable(reset := getattr(module, "reset_parameters", None)):
                reset()
            else:
                for parameter in module.parameters(recurse=False):
                    shuffled = parameter.detach().flatten()[torch.randperm(parameter.numel())]
                    parameter.data = shuffled.view_as(parameter)
    for parameter, old in zip(copied.parameters(), model.parameters(), strict=True):
        parameter.data = torch.empty_like(old, device="cpu").copy_(parameter.data)
    return copied.to(device_of(model))


@register_explainer("other_question")
@dataclass(frozen=True, kw_only=True)
class OtherQuestion(Around):
    """Another explainer, asked something else about the same input: `other_question:lrp`.

    A map that depends on what is asked scores higher than this one. It is the other question where cases know of one,
    and a uniform map for a case that has none; where cases know of none it is class 0, or 1 where 0 is explained.
    """

    family = "floor"
    paper = "after Arras et al. 2022"
    cost = "as the other"

    def explain(self, model: torch.nn.Module, batch: Batch, rng: CaseRandom) -> torch.Tensor:
        target, context = batch.other or ((batch.target == 0).to(batch.target), batch.context)
        asked = replace(batch, target=target.clamp(min=0), context=context)
        found = self.other()(model, asked, rng)
        return torch.where((target >= 0).view(-1, *[1] * (found.ndim - 1)), found, 1.0)


@register_explainer("oracle")
@dataclass(frozen=True, kw_only=True)
class Oracle(Explainer):
    """The true mask itself, a shade stronger towards its middle so that its maximum is not an edge.

    `mask` names the ground truth; without it there must be exactly one.
    """

    family = "ceiling"
    looks_at = "values"

    mask: str | None = None

    def problem_with(self, masks: Collection[str]) -> str:
        if self.mask in masks or (not self.mask and len(masks) == 1):
            return ""
        known = ", ".join(sorted(masks)) or "none"
        return f"oracle needs one ground-truth mask, given by mask=NAME; these cases have: {known}."

    def explain(self, model: torch.nn.Module, batch: Batch, rng: CaseRandom) -> torch.Tensor:
        if problem := self.problem_with(batch.masks):
            raise HeatproofError(problem)
        mask = batch.masks[self.mask or next(iter(batch.masks))].to(batch.inputs)
        places = torch.stack(torch.meshgrid(*[torch.arange(n) for n in batch.space], indexing="ij"), -1).to(mask)
        flat = mask.flatten(1)
        middle = (flat @ places.flatten(0, -2)) / flat.sum(1, keepdim=True).clamp(min=1)
        far = float(sum(extent**2 for extent in batch.space))
        nearness = 1 - squared_distance(batch.space, middle, [1.0] * len(batch.space)) / far
        return (mask * (0.9 + 0.1 * nearness)).unsqueeze(1)


def squared_distance(space: tuple[int, ...], middle: torch.Tensor, widths: list[float]) -> torch.Tensor:
    """Squared distance (B, *space) of every position from each row of `middle` (B, dimensions), in widths."""
    total = torch.zeros(len(middle), *space, device=middle.device, dtype=middle.dtype)
    for axis, (extent, width) in enumerate(zip(space, widths, strict=True)):
        steps = (torch.arange(extent, device=middle.device) - middle[:, axis, None]) / width
        shape = [len(middle)] + [extent if other == axis else 1 for other in range(len(space))]
        total = total + steps.square().view(shape)
    return total
