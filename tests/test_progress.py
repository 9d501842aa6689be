"""Who listens is told how far the work is, from parts within parts, forwards only."""

from __future__ import annotations

import pytest

from heatproof.progress import listening, part, part_by_part, reached


def test_parts_scale_what_lies_inside() -> None:
    """Reference: by hand; a half of which the second is in three parts."""
    told: list[float] = []
    with listening(told.append):
        with part(0, 2):
            reached(0.5)
        with part(1, 2):
            for number in range(3):
                with part(number, 3):
                    reached(0.5)
    assert told == pytest.approx([1 / 4, 1 / 2, 7 / 12, 2 / 3, 9 / 12, 5 / 6, 11 / 12, 1])


def test_what_is_done_again_is_not_told_again() -> None:
    """Work that starts anew stands still until it is past where it was."""
    told: list[float] = []
    with listening(told.append):
        for fraction in (0.25, 0.75, 0.25, 0.75, 1):
            reached(fraction)
    assert told == [0.25, 0.75, 1]


def test_results_of_parts_come_in_order() -> None:
    """Reference: a list comprehension; and a part for each item."""
    told: list[float] = []
    with listening(told.append):
        assert part_by_part((3, 1, 2), lambda item: item**2) == [9, 1, 4]
    assert told == pytest.approx([1 / 3, 2 / 3, 1])
    assert part_by_part((), str) == []


def test_a_part_that_fails_is_not_reached_and_leaves_no_trace() -> None:
    """After an error what is reached counts for the whole again; outside, nobody listens."""

    def fail() -> None:
        with part(0, 10):
            reached(0.5)
            raise ValueError("midway")

    told: list[float] = []
    with listening(told.append):
        with pytest.raises(ValueError, match="midway"):
            fail()
        reached(0.5)
    reached(1)
    assert told == [0.05, 0.5]


def test_nobody_needs_to_listen() -> None:
    """Parts and steps without a listener do nothing."""
    with part(0, 2):
        reached(0.5)
    assert part_by_part((1, 2), str) == ["1", "2"]


def test_listeners_within_listeners() -> None:
    """The innermost is told; the outer one is, again, when it is gone."""
    outer: list[float] = []
    inner: list[float] = []
    with listening(outer.append):
        with listening(inner.append):
            reached(0.3)
        reached(0.6)
    assert (outer, inner) == ([0.6], [0.3])
