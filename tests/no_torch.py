"""The command line as if torch were not installed: `python tests/no_torch.py evaluate ...`"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from importlib import metadata
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType


class WithoutTorch(PathFinder):
    """Finds what is installed, but for torch."""

    @classmethod
    def find_spec(
        cls, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        return None if fullname.partition(".")[0] == "torch" else super().find_spec(fullname, path, target)

    @classmethod
    def find_distributions(cls, *given: object) -> list[metadata.Distribution]:
        """What is installed has versions, and torch has none."""
        found = metadata.MetadataPathFinder.find_distributions(*given)  # type: ignore[arg-type]
        return [distribution for distribution in found if distribution.name != "torch"]


def call_without_torch(*words: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, __file__, *map(str, words)], capture_output=True, text=True, check=False)


if __name__ == "__main__":
    sys.meta_path[:] = [WithoutTorch if finder is PathFinder else finder for finder in sys.meta_path]
    from heatproof.cli import main

    main()
