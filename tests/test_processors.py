"""The same on every processor: this one is made to work like older ones, by what BLAS, NumPy, Numba, torch and the C
library read from the environment. `make test-processors` runs all numeric tests so."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from benchmarks.processors import environment, hashes_under, settings

SLICE = ["tests/test_exact.py", "tests/test_mnist1d.py", "tests/clevr/test_shipped.py", "tests/metrics"]
KNOWN = {
    "MNIST-1D": "82a76512f216b49a",
    "random draws": "f95d05f7797c7adc",
    "mosaics": "7b47503a2cb522c0",
    "scenes and relations": "749b75d599343b49",
    "object ids": "03d8720120952928",
    "simple questions and programs": "99664b807cbb3f55",
    "complex questions and programs": "0b7d4826938e623f",
    "masks": "94d5551c4c449ae9",
}
"""What is made from a seed, as it was when the shipped data set was made."""


@pytest.mark.parametrize("name", list(settings()))
def test_seeded_things_are_the_same_to_the_last_bit(name: str) -> None:
    """Reference: the hashes of another day and machine."""
    assert hashes_under(name, 5) == KNOWN


def test_an_old_processor_passes_a_slice_of_the_suite() -> None:
    """The whole of the numeric part: `make test-processors`."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *SLICE]
    done = subprocess.run(
        command, env=environment("sse"), cwd=Path(__file__).parents[1], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout[-3000:]


def test_an_old_processor_really_works_otherwise() -> None:
    """The settings do something: torch's own normal numbers differ in their last digits."""
    if torch.backends.cpu.get_cpu_capability() == "DEFAULT":
        pytest.skip("this processor is an old one already")
    script = "import torch; print(torch.randn(1000, generator=torch.Generator().manual_seed(0)).sum().item())"
    found = {subprocess.check_output([sys.executable, "-c", script], env=environment(name)) for name in ("avx2", "sse")}
    assert len(found) == 2
