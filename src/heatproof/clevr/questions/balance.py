"""Which answers a template may give next: what keeps a network from guessing without looking."""

from __future__ import annotations

from collections.abc import Iterable

from heatproof.clevr.questions.functions import Value

RESET_AFTER = 250
"""Scenes after which all counts start from zero."""


class Balance:
    """How often a template gave each answer since the last reset."""

    def __init__(self, answers: Iterable[Value]) -> None:
        self.counts = dict.fromkeys(answers, 0)

    def allowed(self) -> frozenset[Value]:
        """Answers that are neither ahead of the second most frequent one by 10 % nor five times the median."""
        ordered = sorted(self.counts.values())
        most = min(1.1 * ordered[-2], 5 * max(5, ordered[len(ordered) // 2]))
        return frozenset(answer for answer, count in self.counts.items() if count <= most)

    def add(self, answer: Value) -> None:
        self.counts[answer] += 1
