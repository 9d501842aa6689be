"""A model's weights before and after: whether somebody else's code changed them, and how they are set back."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from heatproof.errors import HeatproofError
from heatproof.explainers.compiled import is_script

TABLES = ("_parameters", "_buffers", "_modules")
INTEGERS = {2: torch.int16, 4: torch.int32, 8: torch.int64}
"""By their bytes; bits compare faster as numbers of the same size."""


@dataclass(frozen=True, eq=False)
class Table:
    """One of the three tables of a module (parameters, buffers, layers) as it was."""

    place: str
    module: nn.Module
    kind: str
    entries: dict[str, Any]

    def now(self) -> dict[str, Any]:
        return dict(getattr(self.module, self.kind).items())

    def set_back(self) -> None:
        """The same objects under the same names again."""
        table = getattr(self.module, self.kind)
        table.clear()
        table.update(self.entries)
        for name, entry in self.entries.items():
            vars(self.module).pop(name, None)  # a plain attribute would hide the entry
            if entry is not None:
                setattr(self.module, name, entry)  # recurrent layers keep a list of their weights beside the table


@dataclass(frozen=True, eq=False)
class Kept:
    """A tensor, the memory that it lived in, and a copy of its values."""

    tensor: Tensor
    memory: Tensor
    values: Tensor

    def set_back(self) -> None:
        """The same memory with the same values again."""
        if not same_memory(self.tensor, self.memory):
            self.tensor.data = self.memory
        if not same_values(self.memory, self.values):
            self.memory.copy_(self.values)


@contextmanager
def weights_kept(model: nn.Module, label: str) -> Iterator[None]:
    """An error in the name of `label` if weights, buffers or layers are others on leaving; they are set back anyway.

    Values are compared and not version counters, which `.data` goes round. The same values in another tensor are set
    back without a word: some libraries merge layers and undo it so.
    """
    tables = [
        Table(place, module, kind, dict(getattr(module, kind).items()))
        for place, module in model.named_modules()
        for kind in TABLES
    ]
    kept = {
        id(tensor): Kept(tensor, tensor.data, tensor.data.clone())
        for table in tables
        for tensor in table.entries.values()
        if is_filled(tensor)
    }
    try:
        yield
    finally:
        changed = [name for table in tables for name in changes(table, kept)]
        replaced = [t for t in tables if not is_script(t.module) and not same_entries(t.now(), t.entries)]
        for table in replaced:
            table.set_back()
        for one in kept.values():
            # Comparing takes time; values that were seen to be right, in their own place, need no second look.
            if changed or replaced or not same_memory(one.tensor, one.memory):
                one.set_back()
    if changed:
        raise HeatproofError(
            f"{label} changes the model's weights, buffers or layers ({', '.join(changed[:3])}"
            f"{' ...' if len(changed) > 3 else ''}), and with them what other explainers see;"
            " let it work on copy.deepcopy(model). They are set back."
        )


def changes(table: Table, kept: dict[int, Kept]) -> Iterator[str]:
    """The full names of the entries that are not what they were."""
    now = table.now()
    for name in dict.fromkeys([*table.entries, *now]):
        before, after = table.entries.get(name), now.get(name)
        if id(before) in kept and isinstance(after, Tensor):
            same = same_values(after.data, kept[id(before)].values)
        else:
            same = before is after
        if not same:
            yield f"{table.place}.{name}" if table.place else name


def is_filled(entry: object) -> bool:
    """Whether it is a tensor with values; a lazy layer's has none before its first pass."""
    return isinstance(entry, Tensor) and not torch.nn.parameter.is_lazy(entry)


def same_entries(some: dict[str, Any], others: dict[str, Any]) -> bool:
    return list(some) == list(others) and all(some[name] is others[name] for name in some)


def same_memory(some: Tensor, other: Tensor) -> bool:
    place = (other.data_ptr(), other.shape, other.stride(), other.dtype, other.device)
    return (some.data_ptr(), some.shape, some.stride(), some.dtype, some.device) == place


def same_values(some: Tensor, other: Tensor) -> bool:
    """Bit for bit, so that NaN equals itself."""
    if (some.shape, some.dtype, some.device) != (other.shape, other.dtype, other.device):
        return False
    bits = INTEGERS.get(some.element_size(), torch.uint8)
    return torch.equal(some.flatten().view(bits), other.flatten().view(bits))
