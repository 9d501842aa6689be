"""Heavy libraries, imported at first use, so that `heatproof --help` and `heatproof list` stay instant.

Modules that describe methods (explainers, metrics, poolings, benchmarks) take `torch` from here; modules that
subclass `torch.nn.Module` import it directly and are themselves imported only where a network is needed.
"""

from __future__ import annotations

import gc
import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from types import ModuleType
from typing import TYPE_CHECKING, Any

__all__ = ["np", "pl", "torch"]

_is_ours = False


def own_process() -> None:
    """Say that this process is a command or a worker: nobody else's objects are in it."""
    global _is_ours
    _is_ours = True


@contextmanager
def uncollected() -> Iterator[None]:
    """While libraries load in here, nothing is looked through for garbage: what they make stays.

    In a process of our own it is not looked through later either, which takes a tenth of a second each time, and makes
    a forked process copy the memory that it shares.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if _is_ours:
            gc.freeze()
        if was_on:
            gc.enable()


if TYPE_CHECKING:
    import numpy as np
    import polars as pl
    import torch
else:

    class LazyModule(ModuleType):
        """Stands for a module and imports it when an attribute is first asked for."""

        def __getattr__(self, name: str) -> Any:
            with nullcontext() if self.__name__ in sys.modules else uncollected():
                module = importlib.import_module(self.__name__)
            value = getattr(module, name)
            self.__dict__[name] = value
            return value

    np = LazyModule("numpy")
    pl = LazyModule("polars")
    torch = LazyModule("torch")
