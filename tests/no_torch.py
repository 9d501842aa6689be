"""The command line in a process where importing torch fails: `python tests/no_torch.py evaluate ...`"""

from __future__ import annotations

import subprocess
import sys
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_loader
from typing import Any, NoReturn


class NoTorch(MetaPathFinder, Loader):
    """Finds torch, which libraries may look for, and fails when it is imported."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        return spec_from_loader(name, self) if name.partition(".")[0] == "torch" else None

    def create_module(self, spec: ModuleSpec) -> NoReturn:
        raise ImportError("there is no torch here")


def call_without_torch(*words: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, __file__, *map(str, words)], capture_output=True, text=True, check=False)


if __name__ == "__main__":
    sys.meta_path.insert(0, NoTorch())
    from heatproof.cli import main

    main()
