"""Where networks compute: devices and precisions by name, and what differs between devices.

Networks rest on the CPU, and so do cases and scores. What is explained is copied to the device, batch by batch, and its
relevance comes back.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Literal, TypeVar, get_args

from heatproof.errors import HeatproofError, unknown_name
from heatproof.lazy import torch

M = TypeVar("M", bound="torch.nn.Module")
Precision = Literal["float32", "float16", "bfloat16"]
TrainingPrecision = Literal["auto", "float32", "bfloat16"]
"""In what a network learns; auto: in bfloat16 where the processor computes in it."""
FULL: Precision = "float32"
"""Models as they are; those that are in float64 stay so."""

DEVICES: dict[str, Callable[[], int]] = {
    "cuda": lambda: torch.cuda.device_count(),
    "mps": lambda: int(torch.backends.mps.is_available()),
}
"""How many there are of each kind, the kind that `auto` prefers first. Asking starts none of them."""
WITHOUT_DOUBLES = {"mps"}
"""Kinds that have no float64."""
STREAMS: dict[str, Callable[[torch.device], torch.Generator]] = {
    "cuda": lambda device: torch.cuda.default_generators[device.index or 0],
    "mps": lambda _device: torch.mps._get_default_mps_generator(),
}
"""The global random numbers of a device, of the kinds that have their own."""

_computing_on: ContextVar[str] = ContextVar("computing_on", default="cpu")


def choose_device(name: str | torch.device) -> torch.device:
    """The device of that name: cpu, cuda (the first), cuda:1, mps; auto is the first GPU, or else the CPU."""
    return torch.device(device_name(str(name)))


def device_name(name: str) -> str:
    """The name of that device with its number, once it is seen to be there; for the CPU torch need not be loaded."""
    if name == "cpu":
        return name
    kind, colon, number = name.partition(":")
    counts = {known: count for known, ask in DEVICES.items() if (count := ask())}
    if name == "auto":
        return f"{next(iter(counts))}:0" if counts else "cpu"
    here = ", ".join(["cpu", *(f"{known}:{place}" for known, count in counts.items() for place in range(count))])
    if kind not in DEVICES or (colon and not number.isdecimal()):
        raise HeatproofError(
            f"unknown device {name!r}. Give auto, cpu, {', '.join(DEVICES)}, or one of several by its number, such as"
            f" cuda:1. Here there is {here}."
        )
    if int(number or 0) >= counts.get(kind, 0):
        raise HeatproofError(
            f"there is no device {name!r}: torch {torch.__version__} sees {here}. Choose one of these, or auto; or"
            f" install a torch that is built for {kind} on a machine that has it."
        )
    return f"{kind}:{int(number or 0)}"


def device_for_worker(name: str, index: int) -> str:
    """The device of one of several workers: those of a kind in turn, unless one is named by its number."""
    chosen = device_name(name)
    kind = chosen.partition(":")[0]
    return chosen if kind == "cpu" or ":" in name else f"{kind}:{index % DEVICES[kind]()}"


def workers_for(name: str) -> int | None:
    """How many workers a device serves: one for each GPU; None for the CPU, whose cores say so."""
    kind = device_name(name).partition(":")[0]
    if kind == "cpu":
        return None
    return 1 if ":" in name else DEVICES[kind]()


def require_precision(name: str) -> None:
    if name not in get_args(Precision):
        raise unknown_name("precision", name, get_args(Precision))


def title_of(name: str) -> str:
    """The device of that name, and what its maker calls it."""
    if name == "cpu":  # which is told without torch
        return name
    device = choose_device(name)
    return f"{device} {torch.cuda.get_device_name(device)}" if device.type == "cuda" else str(device)


@contextmanager
def computing_on(name: str) -> Iterator[None]:
    """While this holds, `current_device` is this one: for what is opened, whose functions take no device."""
    token = _computing_on.set(name)
    try:
        yield
    finally:
        _computing_on.reset(token)


def current_device() -> torch.device:
    return choose_device(_computing_on.get())


def device_of(model: torch.nn.Module) -> torch.device | None:
    """Where a model is; None for one without weights, which is anywhere."""
    return next((tensor.device for tensors in (model.parameters(), model.buffers()) for tensor in tensors), None)


def placed(model: M, device: torch.device, dtype: torch.dtype | None = None) -> M:
    """The model itself if all of it is on the device, or a copy there; of another type if one is given."""
    tensors = (*model.parameters(), *model.buffers())
    if dtype is None and all(same_device(tensor.device, device) for tensor in tensors):
        return model
    try:
        return copy.deepcopy(model).to(device=device, dtype=dtype)
    except Exception as problem:  # a model may hold anything
        raise HeatproofError(
            f"{type(model).__name__} cannot be copied to device {device} ({problem}); move it there yourself:"
            f" model.to({str(device)!r})."
        ) from problem


def same_device(one: torch.device, other: torch.device) -> bool:
    """Whether both are one, whether or not they say that they are the first of their kind."""
    return (one.type, one.index or 0) == (other.type, other.index or 0)


def has_doubles(device: torch.device) -> bool:
    return device.type not in WITHOUT_DOUBLES


def in_double(values: torch.Tensor) -> torch.Tensor:
    """The values in float64, on the CPU where their device has none."""
    return (values if has_doubles(values.device) else values.cpu()).double()


@contextmanager
def seeded(seed: int, device: torch.device | None = None) -> Iterator[None]:
    """While this holds, torch's global random numbers come from the seed, the CPU's and the device's own."""
    streams = random_streams(device)
    states = [stream.get_state() for stream in streams]
    try:
        for stream in streams:
            stream.manual_seed(seed)
        yield
    finally:
        for stream, state in zip(streams, states, strict=True):
            stream.set_state(state)


def random_streams(device: torch.device | None = None) -> list[torch.Generator]:
    """Torch's global random numbers: the CPU's, and the device's if it has its own."""
    own = [] if device is None or device.type not in STREAMS else [STREAMS[device.type](device)]
    return [torch.default_generator, *own]
