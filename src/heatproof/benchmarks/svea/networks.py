"""The networks that SVEA explains, and what they make of whole signals and of regions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from heatproof.benchmarks.svea.regions import CHUNK, Cases, inputs_of
from heatproof.explainers.guards import untouched
from heatproof.lazy import np, torch
from heatproof.metrics.understandability import window_mask

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from heatproof.cases import Batch


@dataclass(frozen=True, eq=False)
class Network:
    """A network and its class probabilities for the training and the test signals."""

    module: torch.nn.Module
    train: torch.Tensor
    test: torch.Tensor


def classes_seen(networks: Mapping[str, Network]) -> dict[str, NDArray[np.int64]]:
    """The class that each network sees in each test signal."""
    return {name: network.test.argmax(1).cpu().numpy() for name, network in networks.items()}


def predict(name: str, module: torch.nn.Module, cases: Cases, split: str, at_once: int = CHUNK) -> torch.Tensor:
    """Class probabilities (N, classes) in float32."""
    from heatproof.explainers.wrapped import reached
    from heatproof.models.networks import ask, check_logits

    module, classes = reached(module), len(cases.classes)
    signals = torch.as_tensor(inputs_of(cases.part(split)[0]), dtype=torch.float32)
    outputs = [
        check_logits(name, ask(name, module, rows, what="signals"), len(rows), classes)
        for rows in signals.split(at_once)
    ]
    return (torch.cat(outputs) if outputs else torch.zeros(0, classes)).softmax(1)


def confidence_within(starts: torch.Tensor, batch: Batch, model: torch.nn.Module, length: int) -> torch.Tensor:
    """The target's probability where all but a window of `length` from `starts` (cases,) is zero."""
    region = window_mask(starts, batch.space[0], length)
    with torch.no_grad(), untouched(model):
        outputs = model(batch.inputs * region.unsqueeze(1))
    kept: torch.Tensor = outputs.softmax(1).gather(1, batch.target[:, None])[:, 0]
    return kept
