"""What explainers report beside their maps. Reference: values written by hand."""

from __future__ import annotations

import torch

from heatproof.explainers.accounts import accounts, report


def test_values_are_collected_in_the_order_of_calls() -> None:
    with accounts() as found:
        report("left_over", lambda: torch.tensor([1.0, 2.0]))
        report("taken", lambda: torch.tensor([0.5]))
        report("left_over", lambda: torch.tensor([3.0]))
    assert list(found) == ["left_over", "taken"]
    assert len(found) == 2
    assert found["left_over"].tolist() == [1.0, 2.0, 3.0]
    report("left_over", lambda: torch.tensor([4.0]))
    assert found["left_over"].tolist() == [1.0, 2.0, 3.0]


def test_nothing_is_computed_where_nobody_listens() -> None:
    def values() -> torch.Tensor:
        raise AssertionError

    report("left_over", values)


def test_the_innermost_listens() -> None:
    with accounts() as outer:
        with accounts() as inner:
            report("left_over", lambda: torch.tensor([1.0]))
        report("left_over", lambda: torch.tensor([2.0]))
    assert inner["left_over"].tolist() == [1.0]
    assert outer["left_over"].tolist() == [2.0]
