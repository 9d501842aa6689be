"""The small data set that ships: 60 scenes at 128x128, simple and complex questions, and their true masks."""

from __future__ import annotations

from importlib import resources
from pathlib import Path


def shipped_dataset() -> Path:
    """Its folder, for `open_dataset`; docs/clevr-xai.md has the commands that made it."""
    return Path(str(resources.files("heatproof.clevr").joinpath("shipped")))


def folder_named(given: Path) -> Path:
    """The folder that a user means: `shipped` is the one that ships, unless there is one of that name."""
    return shipped_dataset() if str(given) == "shipped" and not given.exists() else given
