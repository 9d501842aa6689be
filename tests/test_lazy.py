"""Libraries load at first use, and nobody looks for garbage in the meantime."""

from __future__ import annotations

import subprocess
import sys

import pytest

LOADS = """
import gc, sys
{before}
from heatproof.lazy import np, own_process
{ours}
while_loading = []
def look(phase, about):
    numpy = sys.modules.get("numpy")
    while_loading.append(numpy is not None and numpy.__spec__._initializing)
gc.callbacks.append(look)
np.zeros(1)
print(any(while_loading), gc.isenabled(), gc.get_freeze_count() > 1000)
kept = gc.get_freeze_count()
heap = [[] for _ in range(10**4)]
np.full(1, 0)
assert gc.get_freeze_count() == kept, "only what was loaded is left alone"
"""


@pytest.mark.parametrize(
    ("before", "ours", "said"),
    [("", "", "False True False"), ("", "own_process()", "False True True"), ("gc.disable()", "", "False False False")],
    ids=["of a user", "of our own", "of a user who looks for none"],
)
def test_a_process_looks_for_garbage_as_before_but_not_while_libraries_load(before, ours, said):
    """What is there stays to be looked through in a process of somebody else."""
    script = LOADS.format(before=before, ours=ours)
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == said
