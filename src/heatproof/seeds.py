"""Honest randomness: every draw comes from a seed derived from (run seed, explainer, case).

So a score does not depend on batch size, order, chunking or the number of workers.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from heatproof.lazy import torch


def derive_seed(*parts: object) -> int:
    """A 63-bit seed that is the same on every machine for the same parts."""
    text = "\x1f".join(str(part) for part in parts)
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big") >> 1


class Named(Protocol):
    """What has a name, and a label where that is empty."""

    @property
    def name(self) -> str: ...

    @property
    def label(self) -> str: ...


@dataclass(frozen=True)
class CaseRandom:
    """Random numbers for the cases of one explainer in one run."""

    run_seed: int
    explainer: str

    @classmethod
    def of(cls, run_seed: int, explainer: Named) -> CaseRandom:
        """Those of an explainer: its parameters do not change its draws."""
        return cls(run_seed, explainer.name or explainer.label)

    def generator(self, case: str) -> torch.Generator:
        """The random stream that belongs to `case` alone. It lives on the CPU, whatever the model's device."""
        return torch.Generator().manual_seed(derive_seed(self.run_seed, self.explainer, case))

    def samples(
        self, cases: Sequence[str], per_case: int, numbers: int, draw: Callable[[torch.Generator, int], torch.Tensor]
    ) -> SampleDraws:
        """`per_case` samples of each case, of `numbers` numbers each: draw(generator, count) -> (count, ...)."""
        return SampleDraws(self, cases, per_case, max(1, DRAWN_AT_ONCE // numbers), draw)

    def draw(self, cases: Sequence[str], draw: Callable[[torch.Generator], torch.Tensor]) -> torch.Tensor:
        """`draw(generator)` for each case, stacked."""
        return torch.stack([draw(self.generator(case)) for case in cases])


DRAWN_AT_ONCE = 2**18


class SampleDraws:
    """The draws of many samples of each case, handed out in order.

    They are made in groups of a fixed size, so neither the size of the blocks that ask for them nor their number
    changes them, and memory does not grow with the samples.
    """

    def __init__(
        self,
        rng: CaseRandom,
        cases: Sequence[str],
        per_case: int,
        group: int,
        draw: Callable[[torch.Generator, int], torch.Tensor],
    ) -> None:
        self.rng, self.cases, self.per_case, self.group, self.draw = rng, cases, per_case, group, draw
        self.place = -1

    def rows(self, case: torch.Tensor) -> torch.Tensor:
        """The next draw of every row, where row i belongs to case `case[i]`; cases come one after the other."""
        places, counts = torch.unique_consecutive(case, return_counts=True)
        return torch.cat([self.take(*pair) for pair in zip(places.tolist(), counts.tolist(), strict=True)])

    def take(self, place: int, count: int) -> torch.Tensor:
        """The next `count` draws of one case."""
        if place != self.place:
            self.place, self.generator = place, self.rng.generator(self.cases[place])
            self.left, self.open = self.draw(self.generator, 0), self.per_case
        parts = [self.left]
        while sum(map(len, parts)) < count:
            parts.append(self.draw(self.generator, min(self.group, self.open)))
            self.open -= len(parts[-1])
        drawn = torch.cat(parts)
        self.left = drawn[count:]
        return drawn[:count]
