"""How many questions a network answers right, by family and by what they ask for, and what guessing would get."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from heatproof.benchmarks.clevr_xai.answers import answer
from heatproof.clevr.answers import in_words
from heatproof.clevr.files import Question
from heatproof.clevr.question_types import answer_type
from heatproof.errors import HeatproofError
from heatproof.progress import Progress, silent

if TYPE_CHECKING:
    from heatproof.models.vqa import Vqa

ALL = "all"


@dataclass(frozen=True)
class Score:
    """Of some questions: how many there are, are answered right, and would be by guessing.

    Guessing: always the answer that is right most often among questions that ask for the same, picture unseen.
    """

    questions: int
    right: int
    guessed: int


def parts_of(question: Question) -> tuple[str, ...]:
    """The parts of a set that a question belongs to: all, its family, what it asks for."""
    family = str(question.record.get("template_filename", "")).removesuffix(".json")
    kind = answer_type(question.program)
    return (ALL, *([f"family {family}"] if family else []), *([f"answer {kind}"] if kind else []))


def accuracy(network: Vqa, questions: Sequence[Question], progress: Progress = silent) -> Mapping[str, Score]:
    """The scores of all questions and of their parts, by name."""
    if not questions:
        raise HeatproofError("there are no questions to answer.")
    truths = [in_words(question.answer) for question in questions]
    kinds = [answer_type(question.program) for question in questions]
    said = [network.answers[place] for place in answer(network, questions, None, progress).answer]
    common: dict[str, Counter[str]] = defaultdict(Counter)
    for kind, truth in zip(kinds, truths, strict=True):
        common[kind][truth] += 1
    guesses = {kind: count.most_common(1)[0][0] for kind, count in common.items()}
    counts: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0])
    for question, kind, truth, answered in zip(questions, kinds, truths, said, strict=True):
        for part in parts_of(question):
            for place, counted in enumerate((True, answered == truth, guesses[kind] == truth)):
                counts[part][place] += counted
    order = sorted(counts, key=lambda part: (part != ALL, part))
    return {part: Score(*counts[part]) for part in order}
