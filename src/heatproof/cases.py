"""Batch: the cases that are explained, with everything that is known about them. Chunk: a fixed piece of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from heatproof.errors import HeatproofError
from heatproof.lazy import torch


@dataclass(frozen=True)
class Chunk:
    """A fixed piece of a benchmark's cases, explained on one model; both names are fit for file names."""

    name: str
    model: str
    cases: int

    @property
    def stem(self) -> str:
        """What its files are called."""
        return f"{self.model}.{self.name}"


@dataclass(frozen=True, eq=False)
class Batch:
    """Some cases: inputs, the class to explain for each, and the ground truth where there is one.

    inputs   (B, C, *space)
    target   (B,) the class that is explained
    ids      one name per case, unique within a benchmark; random draws are seeded by it
    context  further tensors that the model takes after the inputs (question tokens ...), each (B, ...)
    masks    ground truths by name, bool (B, *space); a case without one has an empty mask, and scores NaN
    facts    plain columns about each case; they end up in the score rows
    void     positions that count neither way, bool (B, *space); None where all count
    black    what a black pixel is in the inputs, a value per channel; None where nobody knows, or there are no pixels
    other    something else that may be asked about the same inputs: its target (B,), negative where there is nothing
             else, and its context; None where nobody knows
    """

    inputs: torch.Tensor
    target: torch.Tensor
    ids: tuple[str, ...]
    context: tuple[torch.Tensor, ...] = ()
    masks: Mapping[str, torch.Tensor] = field(default_factory=dict)
    facts: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    black: tuple[float, ...] | None = None
    void: torch.Tensor | None = None
    other: tuple[torch.Tensor, tuple[torch.Tensor, ...]] | None = None

    def __post_init__(self) -> None:
        if self.inputs.ndim < 3:
            raise HeatproofError(
                "inputs must be (cases, channels, *space) with at least one space dimension,"
                f" got shape {tuple(self.inputs.shape)}."
            )
        size = len(self.inputs)
        columns: dict[str, int] = {"target": len(self.target), "ids": len(self.ids)}
        columns |= {f"context[{i}]": len(tensor) for i, tensor in enumerate(self.context)}
        columns |= {f"facts[{name!r}]": len(column) for name, column in self.facts.items()}
        for name, length in columns.items():
            if length != size:
                raise HeatproofError(f"{name} has {length} entries for {size} inputs.")
        if self.black is not None and len(self.black) != self.inputs.shape[1]:
            raise HeatproofError(f"black has {len(self.black)} values for {self.inputs.shape[1]} channels.")
        void = {} if self.void is None else {"void": self.void}
        for name, mask in {**self.masks, **void}.items():
            expected = (size, *self.space)
            if tuple(mask.shape) != expected or mask.dtype != torch.bool:
                raise HeatproofError(
                    f"masks[{name!r}] must be boolean of shape {expected}, got {mask.dtype} {tuple(mask.shape)}."
                )

    @property
    def space(self) -> tuple[int, ...]:
        """The extent of the inputs without cases and channels."""
        return tuple(self.inputs.shape[2:])

    def __len__(self) -> int:
        return len(self.inputs)

    def __getitem__(self, part: slice) -> Batch:
        """The cases of a slice."""
        return replace(
            self,
            inputs=self.inputs[part],
            target=self.target[part],
            ids=self.ids[part],
            context=tuple(tensor[part] for tensor in self.context),
            masks={name: mask[part] for name, mask in self.masks.items()},
            facts={name: column[part] for name, column in self.facts.items()},
            void=None if self.void is None else self.void[part],
            other=None if self.other is None else (self.other[0][part], tuple(t[part] for t in self.other[1])),
        )

    def to(self, device: torch.device | str | None = None, dtype: torch.dtype | None = None) -> Batch:
        """The same cases on `device`; `dtype` applies to the inputs only."""
        return replace(
            self,
            inputs=self.inputs.to(device=device, dtype=dtype),
            target=self.target.to(device),
            context=tuple(tensor.to(device) for tensor in self.context),
            masks={name: mask.to(device) for name, mask in self.masks.items()},
            void=None if self.void is None else self.void.to(device),
            other=None
            if self.other is None
            else (self.other[0].to(device), tuple(t.to(device) for t in self.other[1])),
        )
