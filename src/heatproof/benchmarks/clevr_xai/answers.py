"""What a network answers, remembered between runs."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from heatproof.arrays import read_arrays, write_arrays
from heatproof.benchmarks.clevr_xai.company import NOBODY, Company
from heatproof.clevr.files import Dataset, Question
from heatproof.errors import HeatproofError
from heatproof.lazy import np, torch
from heatproof.progress import Progress
from heatproof.workspace import workspace

if TYPE_CHECKING:
    from heatproof.models.vqa import Vqa


@dataclass(frozen=True, eq=False)
class Answers:
    """The answer (an index) to each question and its probability."""

    answer: np.ndarray[Any, np.dtype[np.int64]]
    probability: np.ndarray[Any, np.dtype[np.float64]]


BLACK = (0.0, 0.0, 0.0)
"""A black pixel of `pictures`."""


def pictures(questions: Sequence[Question], size: int) -> torch.Tensor:
    """The pictures (B, 3, size, size) of questions in [0, 1], squashed bilinearly where they have another size."""
    from PIL import Image

    drawn: dict[str, np.ndarray[Any, Any]] = {}
    for question in questions:
        name = str(question.record["image_filename"])
        if name not in drawn:
            picture = Image.fromarray(question.picture())
            if picture.size != (size, size):
                picture = picture.resize((size, size), Image.Resampling.BILINEAR)
            drawn[name] = np.asarray(picture, dtype=np.float32).transpose(2, 0, 1) / np.float32(255)
    return torch.as_tensor(np.stack([drawn[str(question.record["image_filename"])] for question in questions]))


def tokens(network: Vqa, questions: Sequence[Question]) -> torch.Tensor:
    """Questions as the network takes them; one that it cannot take is an error that names it."""
    return torch.cat([encoded(network, question) for question in questions])


def encoded(network: Vqa, question: Question) -> torch.Tensor:
    try:
        return network.encode(question.text)
    except HeatproofError as problem:
        raise HeatproofError(f"{question.set} question {question.index}: {problem}") from problem


def answer(network: Vqa, questions: Sequence[Question], source: str | None, progress: Progress) -> Answers:
    """What the network answers; remembered under the hash of its weights and of `source`, the cases, if given.

    Weights do not tell all: code decides as much. So the first questions are asked anew, and what is remembered counts
    only if their logits are still the same.
    """
    from heatproof.explainers.wrapped import reached
    from heatproof.models.weights import fingerprint

    module, at_once = reached(network.form("values")), network.at_once
    first = ask(network, module, questions[:at_once])
    key = f"{fingerprint(network.module)} {source} {len(questions)}"
    kept = workspace("answers", hashlib.sha256(key.encode()).hexdigest()[:24] + ".npz")
    if source is not None and kept.is_file():
        try:
            known = read_arrays(kept)
            if np.allclose(known["logits"], first.cpu().numpy(), rtol=1e-3, atol=1e-3):
                return Answers(known["answer"], known["probability"])
        except (HeatproofError, KeyError, ValueError):  # damaged, or of another version: answer again
            pass
    logits = [first]
    for start in range(at_once, len(questions), at_once):
        progress("answering questions", start, len(questions))
        logits.append(ask(network, module, questions[start : start + at_once]))
    progress("answering questions", len(questions), len(questions))
    probability, said = torch.cat(logits).double().softmax(1).max(1)
    found = Answers(said.cpu().numpy(), probability.cpu().numpy())
    if source is not None:
        write_arrays(kept, {"answer": found.answer, "probability": found.probability, "logits": first.cpu().numpy()})
    return found


def other_answers(
    network: Vqa,
    data: Dataset,
    asked: Sequence[Question],
    chosen: Sequence[int],
    company: Company,
    fingerprint: str,
    progress: Progress,
) -> dict[int, tuple[str, int]]:
    """The other question of each that enters, and what the network answers to it, by its index."""
    wanted = sorted(set(company.any_other([asked[place].index for place in chosen])) - {NOBODY})
    known = {question.index: question for question in data.questions(asked[0].set)}
    others = [known[index] for index in wanted]
    if not others:
        return {}
    source = hashlib.sha256(f"{fingerprint} {wanted}".encode()).hexdigest()
    said = answer(network, others, source, progress).answer.tolist()
    return {question.index: (question.text, each) for question, each in zip(others, said, strict=True)}


def ask(network: Vqa, module: torch.nn.Module, questions: Sequence[Question]) -> torch.Tensor:
    """The logits of a few questions, from a form of the network."""
    from heatproof.models.networks import ask as ask_module
    from heatproof.models.networks import check_logits

    shown = pictures(questions, network.size)
    outputs = ask_module(network.name, module, shown, tokens(network, questions), what="pictures")
    return check_logits(network.name, outputs, len(questions), len(network.answers))
