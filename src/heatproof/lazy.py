"""Heavy libraries, imported at first use, so that `heatproof --help` and `heatproof list` stay instant.

Modules that describe methods (explainers, metrics, poolings, benchmarks) take `torch` from here; modules that
subclass `torch.nn.Module` import it directly and are themselves imported only where a network is needed.
"""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import TYPE_CHECKING, Any

__all__ = ["np", "pl", "torch"]

if TYPE_CHECKING:
    import numpy as np
    import polars as pl
    import torch
else:

    class LazyModule(ModuleType):
        """Stands for a module and imports it when an attribute is first asked for."""

        def __getattr__(self, name: str) -> Any:
            value = getattr(importlib.import_module(self.__name__), name)
            self.__dict__[name] = value
            return value

    np = LazyModule("numpy")
    pl = LazyModule("polars")
    torch = LazyModule("torch")
