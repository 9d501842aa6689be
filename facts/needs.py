"""What an explainer needs of a model, found by taking things away: layers, then gradients, then scores."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from heatproof.cases import Batch
from heatproof.engine.passes import counted_passes
from heatproof.errors import HeatproofError
from heatproof.explainers.base import Explainer
from heatproof.models.black_box import black_box
from heatproof.seeds import CaseRandom


class Step(torch.autograd.Function):
    """A whole network as one step of autograd's graph."""

    @staticmethod
    def forward(context: Any, inputs: Tensor, hidden: list[nn.Module]) -> Tensor:
        context.hidden = hidden
        context.save_for_backward(inputs)
        with torch.no_grad():
            return hidden[0](inputs)

    @staticmethod
    def backward(context: Any, *gradients: Tensor) -> Any:
        (inputs,) = context.saved_tensors
        with torch.enable_grad():
            again = inputs.detach().requires_grad_()
            return torch.autograd.grad(context.hidden[0](again), again, gradients[0])[0], None


class Opaque(nn.Module):
    """A network that has gradients, and no layers that anybody could see."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.hidden = [network]  # in a list, where torch does not look

    def forward(self, inputs: Tensor) -> Tensor:
        outputs: Tensor = Step.apply(inputs, self.hidden)
        return outputs


def needs(explainer: Explainer, model: nn.Module, batch: Batch) -> str:
    """truth, nothing, scores, gradients or layers."""
    rng = CaseRandom(0, explainer.label)
    with counted_passes(model) as passes:
        expected = explainer(model, batch, rng)
    if not passes.total:
        try:
            explainer(model, Batch(batch.inputs, batch.target, batch.ids), rng)
        except HeatproofError:
            return "truth"
        return "nothing"

    def predict(inputs: Any) -> Any:
        with torch.no_grad():
            return model(torch.as_tensor(inputs)).numpy()

    for kind, other in (("scores", black_box(predict)), ("gradients", Opaque(model))):
        try:
            found = explainer(other, batch, rng)
        except (HeatproofError, RuntimeError):
            continue
        if torch.allclose(found, expected, rtol=1e-3, atol=1e-4 * float(expected.abs().max())):
            return kind
    return "layers"
