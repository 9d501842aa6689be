"""What a process costs before it does anything."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from importlib import import_module

LIBRARIES = ("polars", "torch", "heatproof.api")
STARTS = """
from heatproof.executors.memory import held_now
from heatproof.executors.start import load_libraries
load_libraries()
print(held_now().own)
"""


@dataclass(frozen=True)
class Start:
    """CPU seconds of a process that only loads libraries, to its very end, and the memory that it takes in bytes."""

    cpu_seconds: float
    memory: int


def load_libraries() -> None:
    """What every process of a run does first."""
    for name in LIBRARIES:
        import_module(name)


@cache
def start_of_process() -> Start:
    """As measured in a process of its own; zero CPU seconds where the system does not tell."""
    before = os.times()
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    said = subprocess.run([sys.executable, "-c", STARTS], env=environment, capture_output=True, text=True).stdout  # nosec B603
    after = os.times()
    seconds = after.children_user + after.children_system - before.children_user - before.children_system
    return Start(seconds, int(said) if said.strip().isdecimal() else 0)
