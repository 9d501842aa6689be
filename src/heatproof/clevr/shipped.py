"""The small data set that ships: 60 scenes at 128x128, simple and complex questions, and their true masks."""

from __future__ import annotations

from importlib import resources
from pathlib import Path


def shipped_dataset() -> Path:
    """Its folder, for `open_dataset`; docs/clevr-xai.md has the commands that made it."""
    return Path(str(resources.files("heatproof.clevr").joinpath("shipped")))


def folder_named(given: Path | str | None) -> Path:
    """The folder that a user means: `shipped` is the one that ships, unless there is one of that name; so is None."""
    if given is None or (str(given) == "shipped" and not Path(given).exists()):
        return shipped_dataset()
    return Path(given)
