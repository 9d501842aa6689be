"""What each object does to a network's answer: asked with it and without it, the same question, the same light."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from heatproof.clevr.answers import in_words
from heatproof.clevr.changed_pictures import Wanted, read_changed, wanted_of
from heatproof.clevr.files import Question
from heatproof.clevr.ground_truth import KINDS, has_results
from heatproof.clevr.interventions import CHANGED
from heatproof.lazy import np, torch
from heatproof.progress import Progress, silent

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from heatproof.models.vqa import Vqa

QUANTITIES = ("logit", "probability")
LEAST: Mapping[str, float] = {"logit": 0.1, "probability": 0.01}
"""Where no object changes the answer by as much, nothing matters, and there is no order to find."""
TRIED = 5
"""Pictures that tell how long it takes to ask."""


@dataclass(frozen=True, eq=False)
class Asked:
    """A question that was asked of a scene as it is, and of the scene changed at each object.

    picture  the scene as it is (size, size, 3), the picture that is explained
    answer   the index of the network's answer to it
    effects  of each object by quantity: what the change takes from the answer's logit or probability
    others   the network's answer after each change
    """

    question: Question
    picture: NDArray[np.uint8]
    answer: int
    probability: float
    effects: Mapping[str, NDArray[np.float64]]
    others: tuple[int, ...]

    def matters(self, quantity: str) -> bool:
        """Whether any object matters."""
        return bool(np.abs(self.effects[quantity]).max(initial=0.0) >= LEAST[quantity])

    def is_right(self, network: Vqa) -> bool:
        return network.answers[self.answer] == in_words(self.question.answer)

    def marked(self) -> dict[str, frozenset[int]]:
        """The objects that each kind of ground truth marks; empty where the programs do not say."""
        if not has_results(self.question):
            return {}
        assert self.question.scene is not None
        count = len(self.question.scene["objects"])
        return {kind: rule(self.question.program, count) for kind, rule in KINDS[self.question.set].items()}


def measure(
    network: Vqa, questions: Sequence[Question], folder: Path, intervention: str, progress: Progress = silent
) -> list[Asked]:
    """Ask every question of its picture and of the changed ones in `folder`, which must be there."""
    by_picture: dict[str, list[int]] = {}
    for place, question in enumerate(questions):
        by_picture.setdefault(str(question.record["image_filename"]), []).append(place)
    found: dict[int, Asked] = {}
    told = f"asking of pictures {CHANGED[intervention]}"
    for done, places in enumerate(by_picture.values()):
        progress(told, done, len(by_picture))
        scene = questions[places[0]].scene
        assert scene is not None
        shown = [read_small(folder, wanted, network.size) for wanted in wanted_of([scene], intervention)]
        for place in places:
            found[place] = ask_each(network, questions[place], shown)
    progress(told, len(by_picture), len(by_picture))
    return [found[place] for place in range(len(questions))]


def read_small(folder: Path, wanted: Wanted, size: int) -> NDArray[np.uint8]:
    """A changed picture (size, size, 3), squashed bilinearly where it has another size."""
    from PIL import Image

    picture = Image.fromarray(read_changed(folder, wanted))
    if picture.size != (size, size):
        picture = picture.resize((size, size), Image.Resampling.BILINEAR)
    return np.asarray(picture)


def ask_each(network: Vqa, question: Question, shown: Sequence[NDArray[np.uint8]]) -> Asked:
    """The question about each of these pictures, of which the first is the one as it is.

    Equal pictures are asked about once: what cannot be seen has an effect of exactly 0.
    """
    kinds = {picture.tobytes(): picture for picture in shown}
    order = list(kinds)
    logits = ask_pictures(network, question.text, [kinds[key] for key in order])
    rows = logits[[order.index(picture.tobytes()) for picture in shown]]
    chances = np.exp(rows - rows.max(1, keepdims=True))
    chances /= chances.sum(1, keepdims=True)
    said = rows.argmax(1)
    answer = int(said[0])
    effects = {
        name: values[0, answer] - values[1:, answer] for name, values in (("logit", rows), ("probability", chances))
    }
    return Asked(question, shown[0], answer, float(chances[0, answer]), effects, tuple(map(int, said[1:])))


def ask_pictures(network: Vqa, text: str, shown: Sequence[NDArray[np.uint8]]) -> NDArray[np.float64]:
    """Logits (pictures, answers) of one question about several pictures, one by one.

    One by one, because a matrix product may round a row otherwise in other company.
    """
    from heatproof.explainers.wrapped import reached
    from heatproof.models.networks import ask, check_logits

    module = reached(network.form("values"))
    words = network.encode(text)
    found = []
    for picture in shown:
        inputs = as_input(picture)[None]
        outputs = ask(network.name, module, inputs, words, what="pictures")
        found.append(check_logits(network.name, outputs, 1, len(network.answers)).cpu().double().numpy())
    return np.concatenate(found)


def seconds_to_ask(network: Vqa, one: Asked) -> float:
    """CPU seconds that it takes to ask about one more picture; the first time, which is slow, does not count."""
    ask_pictures(network, one.question.text, [one.picture])
    start = time.process_time()
    ask_pictures(network, one.question.text, [one.picture] * TRIED)
    return (time.process_time() - start) / TRIED


def as_input(picture: NDArray[np.uint8]) -> torch.Tensor:
    """A picture (H, W, 3) as networks take it: (3, H, W) in [0, 1]."""
    return torch.as_tensor(picture.transpose(2, 0, 1).astype(np.float32) / np.float32(255))


def padded(rows: Sequence[NDArray[np.float64]], width: int) -> NDArray[np.float64]:
    """Rows of different lengths as one array (rows, width), NaN at the end."""
    found = np.full((len(rows), width), np.nan)
    for place, row in enumerate(rows):
        found[place, : len(row)] = row
    return found


TRUTHS: Mapping[str, Callable[[Asked], Any]] = {
    "logit": lambda asked: asked.effects["logit"],
    "logit_abs": lambda asked: np.abs(asked.effects["logit"]),
    "probability": lambda asked: asked.effects["probability"],
    "probability_abs": lambda asked: np.abs(asked.effects["probability"]),
}
"""What heatmaps are compared with: the effect with its sign, or its size."""


def truth_of(asked: Sequence[Asked], name: str, width: int) -> NDArray[np.float64]:
    """Effects (cases, width) of a name in TRUTHS; all NaN for a case in which nothing matters."""
    quantity = name.removesuffix("_abs")
    rows = [TRUTHS[name](one) if one.matters(quantity) else np.array([]) for one in asked]
    return padded(rows, width)
