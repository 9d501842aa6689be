"""Where a run's models compute: on its device, and in its precision while they are explained."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from weakref import WeakKeyDictionary

from heatproof.cases import Batch
from heatproof.devices import FULL, Precision, choose_device, device_for_worker, placed
from heatproof.executors.set_up import worker_number
from heatproof.explainers.base import Explainer, Quantity
from heatproof.lazy import torch
from heatproof.seeds import CaseRandom


@dataclass(frozen=True, eq=False)
class Placement:
    """A device and a precision by their names. Models rest on the CPU; copies of them are made once."""

    device: str = "cpu"
    precision: Precision = FULL

    def __reduce__(self) -> tuple[type[Placement], tuple[str, str]]:
        """Another process makes copies of its own."""
        return Placement, (self.device, self.precision)

    @cached_property
    def place(self) -> torch.device:
        return choose_device(device_for_worker(self.device, worker_number()))

    @cached_property
    def copies(self) -> WeakKeyDictionary[torch.nn.Module, dict[torch.dtype | None, torch.nn.Module]]:
        """Copies of models, for as long as the models themselves are kept."""
        return WeakKeyDictionary()

    def dtype(self, full: bool) -> torch.dtype | None:
        """What inputs and models are changed to; None where they stay as they are."""
        halves = {"float16": torch.float16, "bfloat16": torch.bfloat16}
        return None if full else halves.get(self.precision)

    def model(self, model: torch.nn.Module, full: bool = True) -> torch.nn.Module:
        """The model on the device; in the run's precision, unless it is to have its `full` one."""
        dtype = self.dtype(full)
        known = self.copies.get(model, {})
        if dtype in known:
            return known[dtype]
        found = placed(model, self.place, dtype)
        if found is not model:  # a model must not keep itself
            self.copies.setdefault(model, {})[dtype] = found
        return found

    def reached(self, model: torch.nn.Module) -> torch.nn.Module:
        """The model on the device for those whose tensors are on the CPU."""
        found = self.model(model)
        if self.place.type == "cpu":
            return found
        from heatproof.explainers.wrapped import Reached

        return Reached(found)

    def batch(self, batch: Batch, full: bool = True) -> Batch:
        """Cases for such a model."""
        return batch.to(self.place, self.dtype(full))

    def explain(
        self,
        explainer: Explainer,
        model: torch.nn.Module,
        batch: Batch,
        rng: CaseRandom,
        full: bool,
        quantities: Sequence[Quantity],
    ) -> list[torch.Tensor]:
        """Relevance on the CPU, for each quantity, of a batch that goes to where the model is."""
        found = [relevance.cpu() for relevance in explainer.each(model, self.batch(batch, full), rng, quantities)]
        return found if self.dtype(full) is None else [relevance.float() for relevance in found]
