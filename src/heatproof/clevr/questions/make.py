"""From a scene file to a question file: what `heatproof clevr ask` does."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from heatproof.clevr.answers import in_words
from heatproof.clevr.questions.asking import PER_IMAGE, Question, Tally, ask
from heatproof.clevr.questions.balance import RESET_AFTER
from heatproof.clevr.questions.grammar import QUESTION_SETS
from heatproof.clevr.questions.grammar import templates as own_templates
from heatproof.clevr.questions.official import load_synonyms, load_templates
from heatproof.clevr.questions.records import (
    FORMS,
    Line,
    SceneFile,
    as_line,
    is_there,
    question_file,
    read_scenes,
)
from heatproof.clevr.questions.search import BUDGET
from heatproof.clevr.questions.templates import Template, digest
from heatproof.clevr.questions.wording import SYNONYMS
from heatproof.clevr.words import Form, QuestionSet
from heatproof.errors import HeatproofError, require_whole, unknown_name
from heatproof.executors import Executor, Failure
from heatproof.executors.choice import AUTO, Execution
from heatproof.progress import Progress, reached, silent

MOST_NAMED = 5
"""Templates that the summary names."""
SECONDS_PER_QUESTION = {"simple": 1.7e-4, "complex": 6.5e-4}
"""About what a question takes: enough to know whether processes are worth it."""


@dataclass(frozen=True)
class Made:
    """A question file, and what became of the search; `tally` is None if the file was there already."""

    path: Path
    templates: list[Template]
    tally: Tally | None
    samples: dict[str, Question]
    """the first question of every template"""


class Block:
    """Scenes between two resets of the balance, which is all that a question depends on.

    Sent elsewhere, they are unpacked only by who asks about them: every worker is sent all blocks.
    """

    def __init__(self, first: int, scenes: Sequence[Mapping[str, Any]] | bytes) -> None:
        self.first, self._scenes = first, scenes

    @property
    def scenes(self) -> Sequence[Mapping[str, Any]]:
        return pickle.loads(self._scenes) if isinstance(self._scenes, bytes) else self._scenes  # ours  # nosec B301

    def __reduce__(self) -> Any:
        return Block, (self.first, self._scenes if isinstance(self._scenes, bytes) else pickle.dumps(self._scenes))


@dataclass(frozen=True)
class Asked:
    """What a block of scenes gave: lines of the file, what became of the search, and samples."""

    lines: list[Line]
    tally: Tally
    samples: dict[str, Question]


@dataclass(frozen=True)
class Asker:
    """All that is needed to ask about scenes, anywhere."""

    templates: list[Template]
    synonyms: Mapping[str, Sequence[str]]
    seed: int
    per_image: int
    form: Form

    def compute(self, block: Block) -> Asked:
        families = {template.name: number for number, template in enumerate(self.templates)}
        asked = Asked([], Tally(), {})
        for question in ask(
            block.scenes,
            self.templates,
            seed=self.seed,
            per_image=self.per_image,
            synonyms=self.synonyms,
            tally=asked.tally,
            first=block.first,
            progress=lambda _, done, total: reached(done / total),
        ):
            asked.samples.setdefault(question.template.name, question)
            asked.lines.append(as_line(question, self.form, families[question.template.name]))
        return asked


def make_questions(
    scenes: Path,
    question_set: QuestionSet,
    *,
    templates: Path | None = None,
    seed: int = 0,
    per_image: int = PER_IMAGE,
    form: Form = "clevr-xai",
    out: Path | None = None,
    how: Execution = AUTO,
    progress: Progress = silent,
) -> Made:
    """Ask about the scenes of a file or dataset folder, and write the questions beside it or to `out`.

    `how` says where the work is done, which changes no byte.
    """
    if question_set not in QUESTION_SETS:
        raise unknown_name("question set", question_set, QUESTION_SETS)
    if form not in FORMS:
        raise unknown_name("format", form, FORMS)
    require_whole("per_image", per_image, 1)
    source = read_scenes(scenes)
    chosen = own_templates(question_set) if templates is None else load_templates(templates, question_set)
    synonyms = (load_synonyms(templates) if templates else None) or SYNONYMS
    path = out or source.path.parent / file_name(question_set, form)
    settings = {
        "set": question_set,
        "format": form,
        "seed": seed,
        "per_image": per_image,
        "templates": digest(chosen),
        "scenes": source.digest,
    }
    if is_there(path, settings):
        return Made(path, chosen, None, {})
    tally = Tally()
    samples: dict[str, Question] = {}
    asker = Asker(chosen, synonyms, seed, per_image, form)
    expected = len(source.scenes) * min(per_image, len(chosen)) * SECONDS_PER_QUESTION[question_set]
    with question_file(path, dict(source.info) | {"heatproof": settings}) as add:

        def take(asked: Asked) -> None:
            add(asked.lines)
            tally.add(asked.tally)
            samples.update({name: sample for name, sample in asked.samples.items() if name not in samples})

        ask_all(asker, source, how.executor(lambda: expected), take, progress)
    return Made(path, chosen, tally, samples)


def ask_all(
    asker: Asker, source: SceneFile, executor: Executor, take: Callable[[Asked], None], progress: Progress
) -> None:
    """Ask about all scenes, wherever that is done; what a block gives is taken after that of the blocks before it."""
    scenes = source.scenes
    blocks = [Block(first, scenes[first : first + RESET_AFTER]) for first in range(0, len(scenes), RESET_AFTER)]
    early: dict[int, Asked | Failure] = {}
    taken = 0

    def deliver(place: int, outcome: Asked | Failure) -> None:
        nonlocal taken
        early[place] = outcome
        while taken in early:
            asked = early.pop(taken)
            if isinstance(asked, Failure):
                raise HeatproofError(f"{source.path}, {asked.message}")
            take(asked)
            taken += 1
        watch({})

    def watch(running: Mapping[int, float]) -> None:
        progress("questions", taken + len(early) + sum(running.values()), len(blocks))

    executor.run(asker, blocks, deliver, watch)


def file_name(question_set: QuestionSet, form: Form) -> str:
    """Where the questions of a dataset lie; the first form's name is the release's."""
    return {"clevr-xai": f"CLEVR-XAI_{question_set}_questions.json", "clevr": f"CLEVR_{question_set}_questions.json"}[
        form
    ]


def summary(made: Made) -> list[str]:
    """What was made, what the search gave up on, and what can hardly be asked."""
    if made.tally is None:
        return [f"{made.path} is there already, made with the same settings"]
    tally = made.tally
    lines = [f"{made.path}: {tally.questions:,} questions about {tally.scenes:,} scenes"]
    if tally.short:
        lines.append(f"{tally.short:,} scenes have fewer questions than wanted: they allow no more.")
    if tally.nothing:
        lines.append(f"{tally.nothing.total():,} searches found no question: {_named(tally.nothing.most_common())}")
    if tally.stopped:
        lines.append(
            f"{tally.stopped.total():,} searches were given up after {BUDGET:,} options: "
            f"{_named(tally.stopped.most_common())}"
        )
    lines += [
        f"{template.name} can only be answered with {' or '.join(in_words(a) for a in template.possible_answers)}, "
        f"because its constraints exclude the rest; balance then admits it once in {RESET_AFTER} scenes "
        f"(here {tally.asked[template.name]})"
        for template in made.templates
        if template.possible_answers < set(template.answers)
    ]
    return lines


def _named(counts: list[tuple[str, int]]) -> str:
    named = ", ".join(f"{name} {count}" for name, count in counts[:MOST_NAMED])
    return f"{named}, ..." if len(counts) > MOST_NAMED else named


def show_samples(made: Made, number: int) -> list[str]:
    """About `number` questions of every family with their answers, from templates all over it, as Markdown."""
    families: dict[str, list[Question]] = {}
    for template in made.templates:
        if template.name in made.samples:
            families.setdefault(template.family, []).append(made.samples[template.name])
    return [
        f"- `{question.template.name}` {question.text} *{in_words(question.answer)}*"
        for questions in families.values()
        for question in questions[:: max(1, len(questions) // max(1, number))][:number]
    ]
