"""Does the network follow a change? The right answer after it is known: the question's program is executed anew."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from typing import TYPE_CHECKING, Any

from heatproof.benchmarks.clevr_removal.effects import Asked
from heatproof.benchmarks.clevr_xai.rows import stratum
from heatproof.clevr.answers import in_words
from heatproof.clevr.interventions import RULES, changed
from heatproof.clevr.questions.functions import FUNCTIONS, Call, execute
from heatproof.clevr.questions.world import World, look_at
from heatproof.story import Cell, Table

if TYPE_CHECKING:
    from heatproof.models.vqa import Vqa

NORMAL = 1.959964
"""Of the normal distribution, 95 % lie so many standard deviations around the middle, or less."""
NOTE = (
    "Questions that are answered right as the scene is, and changes after which they still have one answer. Beside each"
    " share its 95 % interval; changes of one picture hang together."
)


@dataclass(frozen=True, eq=False)
class Change:
    """A question, the object that is changed, the right answer after that, and what the network says then."""

    one: Asked
    place: int
    right: str
    said: str

    @property
    def matters(self) -> bool:
        """Whether the right answer is another one than before."""
        return self.right != in_words(self.one.question.answer)


def changes_of(network: Vqa, measured: Sequence[Asked], intervention: str) -> Iterator[Change]:
    """Every change of an attribute after which the question still has an answer, of questions answered right before."""
    for one in measured:
        scene = one.question.scene
        assert scene is not None
        if not one.is_right(network):
            continue
        for place, said in enumerate(one.others):
            right = right_answer(one.question.program, look_at(changed(scene, place, intervention)))
            if right is not None:
                yield Change(one, place, right, network.answers[said])


def right_answer(program: Sequence[Mapping[str, Any]], world: World) -> str | None:
    """What the program gives in this world, in words.

    None where it asks for the one object of a kind and there is none or several, and where there is no program.
    """
    calls = [
        Call(str(node.get("type") or node.get("function")), tuple(node["inputs"]), tuple(node.get("value_inputs", ())))
        for node in program
    ]
    if not calls or any(call.function not in FUNCTIONS for call in calls):
        return None
    found = execute(world, calls)[-1]
    return None if found is None else in_words(found)


def following(network: Vqa, measured: Sequence[Asked], intervention: str) -> Table | None:
    """How often the network gives the right answer after a change: where that is another one, and where it stays."""
    every = list(changes_of(network, measured, intervention))
    if not any(change.matters for change in every):
        return None
    by_kind: dict[str, list[Change]] = {"all": every}
    for change in every:
        _, kind, attribute = stratum(change.one.question)
        by_kind.setdefault(attribute or kind, []).append(change)
    lines = []
    for kind, some in by_kind.items():
        cells: list[Cell] = []
        for matters in (True, False):
            cells += share_cells([change for change in some if change.matters == matters])
        lines.append((kind, cells))
    heads = ("asks for", "changes of the right answer", "followed", "changes beside it", "answer kept")
    title = f"Right answers before and after an object has another {RULES[intervention].field}"
    return Table(title, heads, lines, note=NOTE)


def share_cells(changes: Sequence[Change]) -> list[Cell]:
    """How many changes, and after what share of them the network is right."""
    if not changes:
        return [Cell("0", 0.0), Cell("–")]
    hits = [change.said == change.right for change in changes]
    share, low, high = share_interval(hits, [str(change.one.question.record["image_filename"]) for change in changes])
    return [Cell(f"{len(hits):,}", float(len(hits))), Cell(f"{share:.1%} ({low:.1%} to {high:.1%})", share)]


def share_interval(hits: Sequence[bool], clusters: Sequence[str]) -> tuple[float, float, float]:
    """The share of hits, with Wilson's 95 % interval of as many cases as the clusters are worth.

    Cases of one cluster (a picture) hang together. They are worth n / d cases, where d is by how much the variance
    between clusters exceeds that of n cases which know nothing of each other; where all are hits, or none is, which
    hides that, a cluster counts as one case.
    """
    count, share = len(hits), sum(hits) / len(hits)
    sizes, found = Counter(clusters), Counter(name for name, hit in zip(clusters, hits, strict=True) if hit)
    spread = share * (1 - share)
    between = sum((found[name] - share * size) ** 2 for name, size in sizes.items()) / count
    worth = min(count, count * spread / between) if spread and between else len(sizes)
    middle = (share + NORMAL**2 / (2 * worth)) / (1 + NORMAL**2 / worth)
    reach = NORMAL * sqrt(spread / worth + NORMAL**2 / (4 * worth**2)) / (1 + NORMAL**2 / worth)
    return share, max(0.0, middle - reach), min(1.0, middle + reach)
