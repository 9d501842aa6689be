"""A second device to try things on where there is none: tensors that live on "meta" and yet hold numbers.

`Elsewhere` computes on the processor, so results can be compared to the last bit; but it refuses to meet a tensor that
does not live there too, as a graphics card would, and gives no numbers away before they are brought to the CPU. It
draws random numbers from a stream of its own. Heatproof knows it by the name "meta" while `elsewhere()` holds.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import torch
from torch.utils._python_dispatch import TorchDispatchMode, return_and_correct_aliasing
from torch.utils._pytree import tree_flatten, tree_map_only

from heatproof import devices

NAME = "meta"
DEVICE = torch.device(NAME)
aten = torch.ops.aten


class Elsewhere(torch.Tensor):
    held: torch.Tensor
    is_meta = False  # it holds numbers, whatever its device is called

    @staticmethod
    def __new__(cls, held: torch.Tensor) -> Elsewhere:
        made = torch.Tensor._make_wrapper_subclass(
            cls,
            held.shape,
            strides=held.stride(),
            storage_offset=held.storage_offset(),
            dtype=held.dtype,
            device=DEVICE,
        )
        made.held = held
        return made

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        return f"Elsewhere({self.held!r})"

    def tolist(self) -> Any:
        return self.held.tolist()

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return compute(func, args, kwargs or {})


class _Device(TorchDispatchMode):
    """The device while it exists: `torch.zeros(..., device=DEVICE)` makes a tensor that holds numbers.

    doubles  whether it has float64, which Apple's have not
    stream   its own random numbers
    left     the operations that brought numbers to the CPU
    """

    def __init__(self, doubles: bool) -> None:
        super().__init__()
        self.doubles = doubles
        self.stream = torch.Generator().manual_seed(0)
        self.left: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return compute(func, args, kwargs or {})


_devices: list[_Device] = []


def compute(func: Any, args: Any, kwargs: Any) -> Any:
    """One operation, there if anything of it is there."""
    tensors = [leaf for leaf in tree_flatten((args, kwargs))[0] if isinstance(leaf, torch.Tensor)]
    there = [isinstance(tensor, Elsewhere) for tensor in tensors]
    named = kwargs.get("device")
    to = torch.device(named) if named is not None else None
    if not any(there) and (to is None or to.type != NAME):
        return func(*args, **kwargs)
    if func is aten._local_scalar_dense.default:  # a number of one element is waited for, on any device
        return func(args[0].held)
    moves = func in (aten._to_copy.default, aten.copy_.default)
    if not moves and any(there) and not all(t or tensor.ndim == 0 for t, tensor in zip(there, tensors, strict=True)):
        if func not in (aten.index.Tensor, aten.index_put_.default, aten.index_put.default):
            raise RuntimeError(f"{func}: tensors of two devices meet")
        raise RuntimeError(f"{func}: an index of another device")
    if func is aten.gather.default and not 0 <= args[2].held.min() <= args[2].held.max() < args[0].shape[args[1]]:
        raise SystemError("an index out of range: a real device would never work again")
    inner = tree_map_only(Elsewhere, lambda tensor: tensor.held, (args, kwargs))
    stays = (to.type == NAME) if to is not None else (there[0] if moves else any(there))
    if stays and to is not None:
        inner[1]["device"] = torch.device("cpu")
    found = (
        drawn(func, *inner) if stays and torch.Tag.nondeterministic_seeded in func.tags else func(*inner[0], **inner[1])
    )
    if not stays:
        if moves and any(there) and _devices:
            _devices[-1].left.append(str(func))
        return args[0] if func is aten.copy_.default else found
    out = tree_map_only(torch.Tensor, settled, found)
    return return_and_correct_aliasing(func, args, kwargs, out)


def settled(held: torch.Tensor) -> Elsewhere:
    if held.dtype == torch.float64 and _devices and not _devices[-1].doubles:
        raise TypeError("this device has no float64")
    return Elsewhere(held)


def drawn(func: Any, args: Any, kwargs: Any) -> Any:
    """An operation that draws random numbers, from the device's own stream unless a generator is given."""
    before = torch.get_rng_state()
    torch.set_rng_state(_devices[-1].stream.get_state())
    try:
        return func(*args, **kwargs)
    finally:
        _devices[-1].stream.set_state(torch.get_rng_state())
        torch.set_rng_state(before)


@contextmanager
def elsewhere(doubles: bool = True, count: int = 1) -> Iterator[torch.device]:
    """While this holds, the device exists: `count` of it as far as Heatproof is told."""
    device = _Device(doubles)
    without = devices.WITHOUT_DOUBLES | (set() if doubles else {NAME})
    with (
        patch.dict(devices.DEVICES, {NAME: lambda: count}),
        patch.dict(devices.STREAMS, {NAME: lambda _device: device.stream}),
        patch.object(devices, "WITHOUT_DOUBLES", without),
        device,
    ):
        _devices.append(device)
        try:
            yield DEVICE
        finally:
            _devices.pop()


def brought_home() -> list[str]:
    """The operations that have brought numbers from the device to the CPU so far."""
    return _devices[-1].left
