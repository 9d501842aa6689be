"""What a process allocates, against blocks of known size."""

from __future__ import annotations

import time

import pytest
import torch

from heatproof.executors.memory import allocated, peak_memory

BLOCK = 60 * 10**6

pytestmark = pytest.mark.skipif(not allocated(), reason="the C library does not tell what is allocated")


def test_a_block_counts_while_it_is_held():
    before = allocated()
    block = torch.zeros(BLOCK // 4)
    assert allocated() - before == pytest.approx(BLOCK, rel=0.02)
    del block
    assert allocated() - before == pytest.approx(0, abs=0.02 * BLOCK)


def test_the_peak_is_seen_though_it_is_gone_at_the_end():
    with peak_memory() as peak:
        blocks = [torch.zeros(BLOCK // 4) for _ in range(2)]
        time.sleep(0.2)
        blocks.clear()
    assert peak.bytes == pytest.approx(2 * BLOCK, rel=0.05)
