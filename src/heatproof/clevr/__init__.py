"""CLEVR worlds: scenes, pictures, questions and true masks. Usable without the rest of Heatproof; needs no torch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from heatproof.clevr.files import open_dataset

__all__ = ["open_dataset"]


def __getattr__(name: str) -> Any:
    if name != "open_dataset":
        raise AttributeError(f"module 'heatproof.clevr' has no attribute {name!r}")
    from heatproof.clevr.files import open_dataset

    return open_dataset
