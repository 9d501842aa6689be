"""What an explainer can say about its maps beside the maps: values per case, for whoever listens.

    with accounts() as found:
        relevance = heatproof.explain(network, pictures, "deep_lift")
    found["left_over"]  # (cases,): by how much the relevance misses S(x) - S(b)

A method reports once its relevance is whole, so that nothing is said twice where memory runs out and it starts again
in halves. Batches follow each other in the order of the calls.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar

from heatproof.lazy import torch


class Accounts(Mapping[str, "torch.Tensor"]):
    """Values per case by name, of all cases that were explained while somebody listened."""

    def __init__(self) -> None:
        self.parts: dict[str, list[torch.Tensor]] = {}

    def add(self, name: str, values: torch.Tensor) -> None:
        self.parts.setdefault(name, []).append(values.detach().cpu())

    def __getitem__(self, name: str) -> torch.Tensor:
        return torch.cat(self.parts[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self.parts)

    def __len__(self) -> int:
        return len(self.parts)


LISTENER: ContextVar[Accounts | None] = ContextVar("accounts", default=None)


@contextmanager
def accounts() -> Iterator[Accounts]:
    """Listens to what explainers report inside this context."""
    listener = Accounts()
    token = LISTENER.set(listener)
    try:
        yield listener
    finally:
        LISTENER.reset(token)


def listening() -> bool:
    """Whether anybody does."""
    return LISTENER.get() is not None


def report(name: str, values: Callable[[], torch.Tensor]) -> None:
    """Says `values()`, one per case; they are not even computed where nobody listens."""
    listener = LISTENER.get()
    if listener is not None:
        listener.add(name, values())
