"""How long work is said to take, by arithmetic."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from heatproof.cli import bars


@pytest.fixture
def seconds(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The clock of the lines; the last entry is now."""
    times = [100.0]
    monkeypatch.setattr(bars.time, "monotonic", lambda: times[-1])
    return times


def test_lines_of_resumed_work(seconds: list[float]) -> None:
    """600 of 1,000 steps were there already; then 20 steps take 10 seconds, so that 380 take 190."""
    written = io.StringIO()
    lines = bars.Lines(Console(file=written, width=200))
    lines("learning: epoch 7", 600, 1000)
    seconds.append(110.0)
    lines("learning: epoch 8", 620, 1000)
    seconds.append(300.0)
    lines("learning: epoch 9", 1000, 1000)
    assert written.getvalue().splitlines() == [
        "learning: 62%, 0:00:10, 0:03:10 left, epoch 8",
        "learning: 100%, 0:03:20, epoch 9",
    ]


def test_lines_of_work_whose_unit_changes(seconds: list[float]) -> None:
    """A run learns what its tasks cost: 1 % of a made-up total first, then a quarter of the seconds."""
    written = io.StringIO()
    lines = bars.Lines(Console(file=written, width=200))
    lines("explaining: rise", 50.0, 5000.0)
    seconds.append(112.0)
    lines("explaining: rise", 2.5, 10.0)
    assert written.getvalue() == "explaining: 25%, 0:00:12, 0:00:38 left, rise\n"  # 12 s * .75 / .24 = 37.5 s


def test_nothing_done_yet() -> None:
    assert bars.clock(bars.seconds_left(5.0, 0.0, 0.0)) == "?"
