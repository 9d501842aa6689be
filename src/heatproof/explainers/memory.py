"""How many rows go through a model at once: as many as a memory budget allows, half of that where it runs out.

What a row costs is seen once, in a pass of one row, and remembered for the model. What memory was seen to hold is
remembered within one sweep only. So the blocks of an explanation that memory suffices for are always the same, and with
them its last digits, whatever ran before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import ceil
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from heatproof.cases import Batch
from heatproof.errors import is_out_of_memory
from heatproof.explainers.manners import own_copies
from heatproof.progress import reached

MEGABYTE = 10**6
FEWEST = 16
"""Rows that a CPU takes at least, where memory allows. From so many on torch leaves 1x1 convolutions of one thread to
oneDNN: MobileNetV2 and SqueezeNet take 1.4 to 1.6 times as long with fewer."""
CACHED = 64 * MEGABYTE
QUICKEST = 500
"""Rows that a CPU takes in one call: enough that what a call costs beside its rows does not count, few enough that what
it makes of small ones stays in the cache. SVEA's network takes a third longer with 2,000, and twice as long where the
system takes memory back after each call."""


@dataclass(frozen=True)
class RowCost:
    """What one row of some shape costs in a model, in bytes."""

    quick: float
    """Above this, blocks of more than FEWEST rows are not faster: on a CPU, what they make leaves the cache, and
    weights are read as seldom as need be. Measured with networks of 14,000 to 57 million weights; the least time is
    flat about here."""
    inputs: int
    kept: int
    """What backward needs."""
    largest: int
    """The inputs and output of the largest single step."""

    def rows(self, megabytes: float, gradient: bool) -> int:
        """How many fit: a few copies of the inputs, a few tensors at work, and what backward needs."""
        row = 4 * self.inputs + 2 * self.largest + (self.kept if gradient else 0)
        return max(1, int(min(megabytes * MEGABYTE, max(self.quick, FEWEST * row)) / row))


_row_costs: WeakKeyDictionary[nn.Module, dict[object, RowCost]] = WeakKeyDictionary()


def row_cost(model: nn.Module, batch: Batch) -> RowCost:
    """The cost of a row of such a batch."""
    tensors = (batch.inputs, *batch.context)
    kind = tuple((tuple(tensor.shape[1:]), tensor.dtype, str(tensor.device)) for tensor in tensors)
    known = _row_costs.setdefault(model, {})
    if kind not in known:
        row = batch[:1]
        footprint = footprint_of(model, row)
        weights = sum(size(parameter) for parameter in model.parameters())
        quick = max(CACHED, 4 * weights) if row.inputs.device.type == "cpu" else torch.inf
        known[kind] = RowCost(quick, size(row.inputs), footprint.kept, footprint.largest)
    return known[kind]


def footprint_of(model: nn.Module, row: Batch) -> Footprint:
    """What a pass with gradients makes, or one without where the model has none: then nothing is kept for them."""
    possible = (True, False) if not getattr(model, "only_asked", False) else (False,)
    for gradients in possible:
        footprint = Footprint()
        with torch.set_grad_enabled(gradients):
            given = own_copies((row.inputs.detach().requires_grad_(gradients), *row.context))
            try:
                with footprint:
                    model.forward(*given)  # not called as model(...): hooks, which may count passes, need not know
                break
            except RuntimeError as problem:
                if not gradients or is_out_of_memory(problem):
                    raise
    return footprint


class Footprint(TorchFunctionMode):
    """Adds up what torch functions make: what backward will need, and the largest single step."""

    def __init__(self) -> None:
        super().__init__()
        self.made: dict[int, Tensor] = {}
        self.largest = 0

    @property
    def kept(self) -> int:
        return sum(map(size, self.made.values()))

    def __torch_function__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        if isinstance(result, Tensor):
            step = size(result) + sum(size(value) for value in args if is_activation(value))
            self.largest = max(self.largest, step)
            if result.requires_grad:
                self.made[result.data_ptr()] = result  # kept alive: what is freed would lend its address to another
        return result


def is_activation(value: object) -> bool:
    return isinstance(value, Tensor) and not isinstance(value, nn.Parameter)


def size(tensor: Tensor) -> int:
    return tensor.numel() * tensor.element_size()


def pieces(*tensors: Tensor) -> Iterator[tuple[Tensor, ...]]:
    """The rows of some tensors in even pieces that a CPU is quickest with; on other devices all at once."""
    first = tensors[0]
    if first.device.type != "cpu" or len(first) <= QUICKEST:
        return iter([tensors])
    count = ceil(len(first) / QUICKEST)
    return zip(*(tensor.chunk(count) for tensor in tensors), strict=True)


def rejoined(parts: Sequence[Tensor], axis: int = 0) -> Tensor:
    """What was made of pieces as one tensor."""
    return torch.cat(list(parts), axis) if len(parts) > 1 else parts[0]


def sweep(
    rows: int,
    total: int,
    rows_of: Callable[[int, int], tuple[Tensor, ...]],
    work: Callable[..., None],
) -> None:
    """Call `work(*rows_of(start, stop))` for even blocks of at most `rows` rows that cover 0 ... total, in order.

    `work` must change nothing before all that needs memory is done: where memory runs out, it is called again with
    halves of its rows, and later blocks are no larger.
    """
    start = 0
    while start < total:
        left = total - start
        stop = start + ceil(left / ceil(left / rows))
        fitted = halve_where_memory_runs_out(work, rows_of(start, stop))
        if fitted < stop - start:
            rows = fitted
        start = stop
        reached(start / total)


def halve_where_memory_runs_out(work: Callable[..., None], rows: tuple[Tensor, ...]) -> int:
    """Do the work on all rows at once or in parts; the number of rows of the smallest part."""
    count = len(rows[0])
    with memory_error_noted(raises=count == 1) as ran_out:
        work(*rows)
    if not ran_out:
        return count
    halves = [tuple(part[half] for part in rows) for half in (slice(None, count // 2), slice(count // 2, None))]
    return min(halve_where_memory_runs_out(work, half) for half in halves)


@contextmanager
def memory_error_noted(raises: bool) -> Iterator[list[str]]:
    """Notes that memory ran out inside, or lets the error through; gone with the error is what its frames held."""
    notes: list[str] = []
    try:
        yield notes
    except Exception as problem:
        if raises or not is_out_of_memory(problem):
            raise
        notes.append(str(problem))
        # From Python 3.12 on, the frame that swallows the error keeps it, and it would keep the frames that it came
        # through, with all their tensors, until the garbage collector looks.
        problem.__traceback__ = None
