"""From a scene file to a question file: what `heatproof clevr ask` does."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from heatproof.clevr.answers import in_words
from heatproof.clevr.questions.asking import PER_IMAGE, Question, Tally, ask
from heatproof.clevr.questions.balance import RESET_AFTER
from heatproof.clevr.questions.grammar import QUESTION_SETS, QuestionSet
from heatproof.clevr.questions.grammar import templates as own_templates
from heatproof.clevr.questions.official import load_synonyms, load_templates
from heatproof.clevr.questions.records import FORMS, Form, is_there, read_scenes, write_questions
from heatproof.clevr.questions.search import BUDGET
from heatproof.clevr.questions.templates import Template, digest
from heatproof.clevr.questions.wording import SYNONYMS
from heatproof.errors import HeatproofError, unknown_name
from heatproof.progress import Progress, silent

MOST_NAMED = 5
"""Templates that the summary names."""


@dataclass(frozen=True)
class Made:
    """A question file, and what became of the search; `tally` is None if the file was there already."""

    path: Path
    templates: list[Template]
    tally: Tally | None
    samples: dict[str, Question]
    """the first question of every template"""


def make_questions(
    scenes: Path,
    question_set: QuestionSet,
    *,
    templates: Path | None = None,
    seed: int = 0,
    per_image: int = PER_IMAGE,
    form: Form = "clevr-xai",
    out: Path | None = None,
    progress: Progress = silent,
) -> Made:
    """Ask about the scenes of a file or dataset folder, and write the questions beside it or to `out`."""
    if question_set not in QUESTION_SETS:
        raise unknown_name("question set", question_set, QUESTION_SETS)
    if form not in FORMS:
        raise unknown_name("format", form, FORMS)
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
    samples: dict[str, Question] = {}
    if is_there(path, settings):
        return Made(path, chosen, None, samples)
    tally = Tally()

    def questions() -> Iterator[Question]:
        asked = ask(
            source.scenes, chosen, seed=seed, per_image=per_image, synonyms=synonyms, tally=tally, progress=progress
        )
        for question in _naming(source.path, asked):
            samples.setdefault(question.template.name, question)
            yield question

    write_questions(path, questions(), chosen, dict(source.info) | {"heatproof": settings}, form)
    return Made(path, chosen, tally, samples)


def _naming(path: Path, questions: Iterator[Question]) -> Iterator[Question]:
    """The same questions; errors about scenes say which file they are in."""
    try:
        yield from questions
    except HeatproofError as problem:
        raise HeatproofError(f"{path}, {problem}") from problem


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
