"""Networks within other modules, which keep the names of their layers; and networks on another device."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from heatproof.devices import current_device, device_of, placed


class Wrapped(nn.Module):
    """A network within another module; its layers keep the names that they have in the network."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.wrapped_network = network
        self.training = False
        if hasattr(network, "training"):  # frozen programs have no mode
            self.train(network.training)

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(super().__getattr__("wrapped_network"), name)

    def named_modules(
        self, memo: set[nn.Module] | None = None, prefix: str = "", remove_duplicate: bool = True
    ) -> Iterator[tuple[str, nn.Module]]:
        """As of the network, so that `layer="features.28"` finds it; the network itself has our name for it."""
        memo = set() if memo is None else memo
        if self in memo:
            return
        if remove_duplicate:
            memo.add(self)
        yield prefix, self
        network = self.wrapped_network
        for name, module in network.named_modules(memo, prefix, remove_duplicate):
            yield (f"{prefix}.wrapped_network".lstrip("."), module) if module is network else (name, module)


class Program(Wrapped):
    """A module around a program of TorchScript, which takes no hooks itself."""

    def forward(self, *given: Tensor) -> Any:
        return self.wrapped_network(*given)


class Reached(Wrapped):
    """A network where it is: inputs go there, outputs come back to where the inputs were."""

    def forward(self, inputs: Tensor, *context: Tensor) -> Any:
        there = device_of(self.wrapped_network)
        outputs = self.wrapped_network(inputs.to(there), *(tensor.to(there) for tensor in context))
        return outputs.to(inputs.device) if isinstance(outputs, Tensor) else outputs


def reached(model: nn.Module, device: torch.device | None = None) -> nn.Module:
    """The model on a device (`current_device` unless one is given), for callers whose tensors are on the CPU."""
    device = current_device() if device is None else device
    moved = placed(model, device)
    return moved if device.type == "cpu" else Reached(moved)
