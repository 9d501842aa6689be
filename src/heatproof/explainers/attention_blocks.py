"""The blocks of a transformer, and what its last layers would say after each of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from heatproof.cases import Batch
from heatproof.errors import HeatproofError

if TYPE_CHECKING:
    from heatproof.explainers.attention import Seen


@dataclass(frozen=True, eq=False)
class Early:
    """A pass, and the outputs that the network's last layers make of the tokens of each block."""

    seen: Seen
    outputs: list[Tensor]


def read_early(name: str, model: nn.Module, batch: Batch, look: Callable[[], Seen]) -> Early:
    """Run a transformer once, and its last layers once more for each block but the last."""
    with noted_outputs(model) as given:
        seen = look()
    blocks = blocks_of(name, seen.maps.inside)
    tokens = [first_tensor(given[id(block)]) for block in blocks]
    if len({found.shape for found in tokens}) > 1:
        raise HeatproofError(f"{name} needs blocks that all give the same tokens; those of this model differ in shape.")
    outputs = []
    for found in tokens[:-1]:
        with instead(blocks[-1], found):
            # With gradients, because without torch's own blocks take a short cut past the layers.
            outputs.append(model(batch.inputs.detach().requires_grad_(), *batch.context))
    return Early(seen, [*outputs, seen.outputs])


def blocks_of(name: str, inside: Sequence[Sequence[nn.Module]]) -> list[nn.Module]:
    """The block of each attention: the outermost layer that ran for it alone."""
    times: dict[int, int] = {}
    for layers in inside:
        for layer in layers:
            times[id(layer)] = times.get(id(layer), 0) + 1
    found = [next((layer for layer in layers if times[id(layer)] == 1), None) for layers in inside]
    blocks = [block for block in found if block is not None]
    if len(blocks) < len(inside):
        raise HeatproofError(
            f"{name} needs a layer (nn.Module) for each block of the transformer, and in this model attention is not"
            " inside one of its own; take chefer or attention_rollout."
        )
    return blocks


@contextmanager
def noted_outputs(model: nn.Module) -> Iterator[dict[int, Any]]:
    """What every layer gave last, by its identity."""
    given: dict[int, Any] = {}

    def note(layer: nn.Module, _: Any, output: Any) -> None:
        given[id(layer)] = output

    layers = [layer for layer in model.modules() if not isinstance(layer, torch.jit.ScriptModule)]
    hooks = [layer.register_forward_hook(note) for layer in layers]
    try:
        yield given
    finally:
        for hook in hooks:
            hook.remove()


@contextmanager
def instead(layer: nn.Module, tokens: Tensor) -> Iterator[None]:
    """In here the layer gives these tokens, whatever it computes."""

    def replace(_: nn.Module, __: Any, output: Any) -> Any:
        return (tokens, *output[1:]) if isinstance(output, tuple) else tokens

    hook = layer.register_forward_hook(replace)
    try:
        yield
    finally:
        hook.remove()


def first_tensor(output: Any) -> Tensor:
    """The tokens among what a layer gave."""
    found = output[0] if isinstance(output, tuple) else output
    assert isinstance(found, torch.Tensor)
    return found
