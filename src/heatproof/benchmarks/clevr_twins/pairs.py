"""Questions about pictures with a marker, and what both twins answer: with the marker, without it, and misled by it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from heatproof.benchmarks.clevr_removal.effects import as_input
from heatproof.clevr.answers import in_words
from heatproof.clevr.files import Dataset, Question
from heatproof.clevr.ground_truth import KINDS, has_results
from heatproof.clevr.markers import beside, covered, with_marker
from heatproof.errors import HeatproofError
from heatproof.lazy import np, torch
from heatproof.progress import Progress
from heatproof.seeds import derive_seed

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from heatproof.models.vqa import Vqa

HOLDS, MISLEADS, ABSENT = "holds", "misleads", "is absent"
"""Where the marker stands: beside the object that is asked about, beside another one, or nowhere."""


@dataclass(frozen=True, eq=False)
class Seen:
    """What a twin answers to a question: the index of its answer by where the cue is.

    probability  of its answer where the cue holds
    effect       what the logit of that answer loses when the marker is gone
    """

    answers: Mapping[str, int]
    probability: float
    effect: float


@dataclass(frozen=True, eq=False)
class Pair:
    """A question, its picture with the marker beside the object that is asked about, and both twins.

    shown   pictures (size, size, 3) by where the cue is; the misleading one is missing where no other object has room
    marker  the pixels of the marker (size, size); `thing` those of the object that is asked about
    other   the answer that the misleading marker suggests
    """

    question: Question
    shown: Mapping[str, NDArray[np.uint8]]
    marker: NDArray[np.bool_]
    thing: NDArray[np.bool_]
    other: str
    twins: Mapping[str, Seen]

    def is_right(self, networks: Mapping[str, Vqa]) -> bool:
        """Whether both twins answer right where the cue holds."""
        return all(self.answer(networks, twin, HOLDS) == in_words(self.question.answer) for twin in self.twins)

    def answer(self, networks: Mapping[str, Vqa], twin: str, cue: str) -> str:
        return networks[twin].answers[self.twins[twin].answers[cue]]


def ask_twins(
    networks: Mapping[str, Vqa], data: Dataset, questions: Sequence[Question], progress: Progress
) -> list[Pair]:
    """Every question that has room for a marker beside its object, asked of both twins."""
    found = []
    for done, question in enumerate(questions):
        progress("asking the twins", done, len(questions))
        if (pair := prepared(data, question, next(iter(networks.values())).size)) is not None:
            twins = {name: seen_by(network, pair) for name, network in networks.items()}
            found.append(Pair(**{**vars(pair), "twins": twins}))
    progress("asking the twins", len(questions), len(questions))
    return found


def prepared(data: Dataset, question: Question, size: int) -> Pair | None:
    """The question with its pictures, which nobody has been asked about; None where a marker has no room."""
    from PIL import Image

    from heatproof.models.vqa_data import nearest

    scene = question.scene
    if scene is None or not has_results(question):
        raise HeatproofError(
            f"question {question.index}: its scene or the results in its program are missing, so nobody knows what"
            " object it is about; ask in the default format (heatproof clevr ask)."
        )
    (asked,) = KINDS["simple"]["single_object"](question.program, len(scene["objects"]))
    ids = nearest(data.object_ids(scene), size)
    if (place := beside(ids, asked + 1)) is None:
        return None
    picture = np.asarray(Image.fromarray(question.picture()).resize((size, size), Image.Resampling.BILINEAR))
    shown = {HOLDS: with_marker(picture, place), ABSENT: picture}
    others = [(number, there) for number in range(len(scene["objects"])) if (there := beside(ids, number + 1))]
    others = [(number, there) for number, there in others if number != asked]
    other = ""
    if others:
        drawn = derive_seed(0, "misleading marker", question.set, question.index) % len(others)
        number, there = others[drawn]
        shown[MISLEADS] = with_marker(picture, there)
        wanted = str(question.program[-1]["type"]).removeprefix("query_")
        other = str(scene["objects"][number][wanted])
    return Pair(question, shown, covered(place, (size, size)), ids == asked + 1, other, {})


def seen_by(network: Vqa, pair: Pair) -> Seen:
    """What one twin makes of the pictures, one by one."""
    from heatproof.benchmarks.clevr_removal.effects import ask_pictures

    order = list(pair.shown)
    logits = ask_pictures(network, pair.question.text, [pair.shown[cue] for cue in order])
    said = dict(zip(order, logits.argmax(1).tolist(), strict=True))
    with_it, without = (logits[order.index(cue)] for cue in (HOLDS, ABSENT))
    answer = said[HOLDS]
    chances = np.exp(with_it - with_it.max())
    return Seen(said, float(chances[answer] / chances.sum()), float(with_it[answer] - without[answer]))


def inputs_of(pairs: Sequence[Pair]) -> torch.Tensor:
    """Pictures with the marker beside the object that is asked about, as networks take them."""
    return torch.stack([as_input(pair.shown[HOLDS]) for pair in pairs])
