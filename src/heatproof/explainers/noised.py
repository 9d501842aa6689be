"""Any explainer, averaged over noisy copies of the inputs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from heatproof.cases import Batch
from heatproof.errors import HeatproofError
from heatproof.exact import normal
from heatproof.explainers.around import Around
from heatproof.explainers.base import (
    Size,
    register_explainer,
    require_one_of,
    require_positive,
)
from heatproof.lazy import torch
from heatproof.progress import part
from heatproof.seeds import CaseRandom

OWN = ("samples", "sigma", "summary")
"""Parameters of the noise, which `noised:NAME:...` takes for itself; all others go to the explainer."""


@register_explainer("noised")
@dataclass(frozen=True, kw_only=True)
class Noised(Around):
    """Another explainer over noisy copies of the inputs: `noised:grad_cam:samples=10,sigma=0.1`.

    The noise is that of SmoothGrad, N(0, (sigma * (max x - min x))^2), which `noised:gradient` is. Parameters of the
    other explainer stand among those of the noise: `noised:lrp:composite=gamma,samples=10`.

    of       the explainer
    summary  over the copies: mean, square (the mean of squares), or variance
    """

    family = "gradient"
    paper = "Smilkov et al. 2017"
    cost = "samples x that of the other"

    samples: int = 25
    sigma: float = 0.1
    summary: Literal["mean", "square", "variance"] = "mean"

    def __post_init__(self) -> None:
        super().__post_init__()
        require_positive(self, "samples", "sigma")
        require_one_of(self, "summary", ("mean", "square", "variance"))
        if self.other().family in ("floor", "ceiling"):
            raise HeatproofError(f"{self.name}: {self.of} does not look at the model, so noise tells nothing of it.")

    @property
    def label(self) -> str:
        plain = Noised(of=self.of)
        own = [f"{name}={getattr(self, name)}" for name in OWN if getattr(self, name) != getattr(plain, name)]
        name, _, parameters = self.other().label.partition(":")
        given = ",".join([*filter(None, [parameters]), *own])
        return f"{self.name}:{name}:{given}" if given else f"{self.name}:{name}"

    def passes(self, size: Size) -> int:
        return self.samples * self.other().passes(size)

    def explain(self, model: torch.nn.Module, batch: Batch, rng: CaseRandom) -> torch.Tensor:
        found = []
        for copy in range(self.samples):
            with part(copy, self.samples):
                found.append(self.of_copy(model, batch, rng, copy))
        maps = torch.stack(found)
        if self.summary == "mean":
            return maps.mean(0)
        return maps.square().mean(0) if self.summary == "square" else maps.var(0, correction=0)

    def of_copy(self, model: torch.nn.Module, batch: Batch, rng: CaseRandom, copy: int) -> torch.Tensor:
        """What the other explainer says of a noisy copy, which is a case of its own to whatever it draws."""
        names = tuple(f"{case} copy {copy}" for case in batch.ids)
        values = batch.inputs.flatten(1)
        spread = self.sigma * (values.amax(1) - values.amin(1)).view(-1, *[1] * (batch.inputs.ndim - 1))
        noise = rng.draw(names, lambda generator: normal(batch.inputs.shape[1:], generator)).to(batch.inputs)
        other = self.other()
        noisy = replace(batch, inputs=batch.inputs + spread * noise, ids=names)
        return other(model, noisy, CaseRandom.of(rng.run_seed, other))
