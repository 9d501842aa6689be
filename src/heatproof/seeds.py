"""Honest randomness: every draw comes from a seed derived from (run seed, explainer, case).

So a score does not depend on batch size, order, chunking or the number of workers.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from heatproof.lazy import torch


def derive_seed(*parts: object) -> int:
    """A 63-bit seed that is the same on every machine for the same parts."""
    text = "\x1f".join(str(part) for part in parts)
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big") >> 1


@dataclass(frozen=True)
class CaseRandom:
    """Random numbers for the cases of one explainer in one run."""

    run_seed: int
    explainer: str

    def generator(self, case: str) -> torch.Generator:
        """The random stream that belongs to `case` alone. It lives on the CPU, whatever the model's device."""
        return torch.Generator().manual_seed(derive_seed(self.run_seed, self.explainer, case))

    def draw(self, cases: Sequence[str], draw: Callable[[torch.Generator], torch.Tensor]) -> torch.Tensor:
        """`draw(generator)` for each case, stacked."""
        return torch.stack([draw(self.generator(case)) for case in cases])
