"""Maps that are painted from what is known of the objects: the ceiling, and a floor that knows only how large they are.

They need cases with regions and effects, which only clevr-removal and svea-removal have: `true_effects`,
`true_effects:over=sum` and `object_size` are refused in every other run (`heatproof.explainers.spec.BROUGHT`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from heatproof.cases import Batch
from heatproof.errors import HeatproofError
from heatproof.explainers.base import Explainer
from heatproof.lazy import torch
from heatproof.seeds import CaseRandom


@dataclass(frozen=True, eq=False)
class ObjectBatch(Batch):
    """Cases with their objects.

    regions  (B, *space): 0 where no object is, k on object k - 1
    truths   effects (B, objects) by name, NaN where a case has no such object
    """

    regions: torch.Tensor = field(default_factory=lambda: torch.empty(0))
    truths: Mapping[str, torch.Tensor] = field(default_factory=dict)

    def __getitem__(self, part: slice) -> ObjectBatch:
        rest = super().__getitem__(part)
        assert isinstance(rest, ObjectBatch)
        return replace(
            rest, regions=self.regions[part], truths={name: truth[part] for name, truth in self.truths.items()}
        )


def objects_of(batch: Batch, label: str) -> ObjectBatch:
    if not isinstance(batch, ObjectBatch):
        raise HeatproofError(
            f"{label} paints objects and their effects, which only clevr-removal and svea-removal know."
        )
    return batch


@dataclass(frozen=True, kw_only=True)
class TrueEffects(Explainer):
    """Each object painted with its effect: the ceiling.

    `truth` names the effects. `over=mean` paints all of each object; `over=sum` as many positions of each as the
    smallest one has, so that what lies on it altogether follows its effect. Signed effects are lifted so that the least
    is 0, which keeps their order.
    """

    name = "true_effects"
    family = "ceiling"
    looks_at = "values"

    truth: str = "logit_abs"
    over: Literal["mean", "sum"] = "mean"

    def explain(self, model: torch.nn.Module, batch: Batch, rng: CaseRandom) -> torch.Tensor:
        cases = objects_of(batch, self.label)
        if self.truth not in cases.truths:
            raise HeatproofError(f"{self.label}: no effects {self.truth!r}; there are: {', '.join(cases.truths)}.")
        effects = cases.truths[self.truth].double()
        least = effects.nan_to_num(torch.inf).amin(1, keepdim=True).clamp(max=0)
        values = (effects - least).nan_to_num(0.0)
        regions = cases.regions if self.over == "mean" else evenly(cases.regions)
        return paint(values, regions)


@dataclass(frozen=True, kw_only=True)
class ObjectSize(Explainer):
    """Each object painted with its own area: a floor that knows where objects are and how large, and nothing else."""

    name = "object_size"
    family = "floor"
    looks_at = "values"

    def explain(self, model: torch.nn.Module, batch: Batch, rng: CaseRandom) -> torch.Tensor:
        cases = objects_of(batch, self.label)
        objects = max(1, int(cases.regions.max()))  # a scene may have none
        flat = cases.regions.flatten(1)
        areas = torch.stack([(flat == place + 1).sum(1) for place in range(objects)], 1)
        return paint(areas.double() / flat.shape[1], cases.regions)


def paint(values: torch.Tensor, regions: torch.Tensor) -> torch.Tensor:
    """A map (B, 1, *space) with each object's value (B, objects) on its region, 0 elsewhere."""
    table = torch.cat([torch.zeros(len(values), 1, dtype=values.dtype), values], 1)
    painted = table.gather(1, regions.flatten(1).long())
    return painted.view(regions.shape).unsqueeze(1)


def evenly(regions: torch.Tensor) -> torch.Tensor:
    """The same regions with as many positions of each object as the smallest of its case has, in reading order."""
    found = torch.zeros_like(regions)
    for case, region in enumerate(regions):
        there = [int(number) for number in region.unique() if number > 0]
        most = min((int((region == number).sum()) for number in there), default=0)
        flat, kept = region.flatten(), found[case].view(-1)
        for number in there:
            kept[(flat == number).nonzero()[:most, 0]] = number
    return found
