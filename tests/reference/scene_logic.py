"""The scene-logic network's logic for one question, slot by slot, on Python's own floats."""

from __future__ import annotations

import math
from collections.abc import Sequence

from heatproof.clevr.questions.functions import Program
from heatproof.clevr.questions.world import ATTRIBUTES

NOWHERE = -1e4


class Plain:
    """Runs programs on one picture's slots: scores of being there, of each value by its name, and places."""

    def __init__(
        self,
        there: Sequence[float],
        values: Sequence[dict[str, float]],
        places: Sequence[tuple[float, float]],
        softness: float,
    ) -> None:
        self.there, self.values, self.places, self.softness = there, values, places, softness
        self.slots = range(len(there))

    def every(self, scores: Sequence[float]) -> float:
        return -self.some([-score for score in scores])

    def some(self, scores: Sequence[float]) -> float:
        best = max(scores)
        if not self.softness:
            return best
        weights = [math.exp((score - best) / self.softness) for score in scores]
        return sum(w * score for w, score in zip(weights, scores, strict=True)) / sum(weights)

    def answers(self, program: Program, place: int = -1) -> dict[str, float]:
        """Each possible answer of the program, in words, and its score."""
        call = program[place]
        if call.function == "exist":
            found = self.objects(program, call.inputs[0])
            return {"yes": self.some(found), "no": self.every([-score for score in found])}
        if call.function == "count":
            best_first = sorted(self.objects(program, call.inputs[0]), reverse=True)
            return {
                str(k): self.every([score if i < k else -score for i, score in enumerate(best_first)])
                for k in range(11)
            }
        if call.function.startswith("query_"):
            one, known = self.objects(program, call.inputs[0]), ATTRIBUTES[call.function.removeprefix("query_")]
            # Slots that can never be are counted too, where means are taken over all.
            return {
                value: self.some([self.every([one[slot], self.values[slot][value]]) for slot in self.slots])
                for value in known
            }
        first, second = (self.answers(program, i) for i in call.inputs)
        holds = {"less_than": lambda a, b: a < b, "greater_than": lambda a, b: a > b}.get(call.function)
        scores: dict[str, list[float]] = {"yes": [], "no": []}
        for a, of_a in first.items():
            for b, of_b in second.items():
                is_so = holds(int(a), int(b)) if holds else a == b
                scores["yes" if is_so else "no"].append(self.every([of_a, of_b]))
        return {answer: max(found) for answer, found in scores.items()}

    def doubt(self, program: Program) -> float:
        """How false the falsest of all it takes for granted is: that of each thing that it singles out there is one."""
        worst = 0.0
        for call in program:
            if call.function == "unique":
                first, second = sorted(self.objects(program, call.inputs[0]), reverse=True)[:2]
                worst = max(worst, -first, second)
        return worst

    def objects(self, program: Program, place: int) -> list[float]:
        """How much each slot belongs to the set, or is the object, that a function gives."""
        call = program[place]
        kind, _, rest = call.function.partition("_")
        if kind == "scene":
            return list(self.there)
        if kind == "filter":
            return self.filtered(program, place)
        if kind in ("union", "intersect"):
            parts = [self.objects(program, i) for i in call.inputs]
            join = self.some if kind == "union" else self.every
            return [join([part[slot] for part in parts]) for slot in self.slots]
        given = self.objects(program, call.inputs[0])
        if kind == "unique":
            first, second = sorted(given, reverse=True)[:2]
            return [score - (first + second) / 2 for score in given]
        return [
            self.some(
                [
                    NOWHERE
                    if source == slot
                    else self.every(
                        [given[source], self.holds(kind, rest, call.values, source, slot), self.there[slot]]
                    )
                    for source in self.slots
                ]
            )
            for slot in self.slots
        ]

    def filtered(self, program: Program, place: int) -> list[float]:
        """All filters of one noun at once."""
        named: list[str] = []
        while program[place].function.startswith("filter_"):
            named.append(program[place].values[0])
            place = program[place].inputs[0]
        given = self.objects(program, place)
        return [self.every([given[slot], *(self.values[slot][value] for value in named)]) for slot in self.slots]

    def holds(self, kind: str, attribute: str, values: tuple[str, ...], source: int, slot: int) -> float:
        if kind == "same":
            both = [self.values[source], self.values[slot]]
            return max(self.every([one[value] for one in both]) for value in ATTRIBUTES[attribute])
        (right, front), (right_of, front_of) = self.places[slot], self.places[source]
        steps = {"left": right_of - right, "right": right - right_of, "front": front - front_of}
        return 4 * steps.get(values[0], front_of - front)
