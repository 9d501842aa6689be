"""Questions about many scenes: templates take turns, and their answers stay balanced."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from heatproof.clevr.questions.balance import RESET_AFTER, Balance
from heatproof.clevr.questions.functions import Value
from heatproof.clevr.questions.search import BUDGET, ROUNDS, Found, Options, OutOfBudgetError, Search
from heatproof.clevr.questions.templates import Template
from heatproof.clevr.questions.wording import SYNONYMS, put_into_words
from heatproof.clevr.questions.world import look_at
from heatproof.errors import HeatproofError, require_whole
from heatproof.progress import Progress, silent
from heatproof.seeds import derive_seed

PER_IMAGE = 10
"""Questions about a scene, at most one per template."""


@dataclass(frozen=True)
class Question:
    """A question about `scene`, in words and as a program with the output of every node."""

    scene: Mapping[str, Any]
    text: str
    found: Found
    template: Template

    @property
    def answer(self) -> Value:
        return self.found.answer


@dataclass
class Tally:
    """What became of the attempts, per template name; filled while questions are asked."""

    scenes: int = 0
    short: int = 0
    """scenes with fewer questions than wanted"""
    asked: Counter[str] = field(default_factory=Counter)
    nothing: Counter[str] = field(default_factory=Counter)
    """searches that saw every option drawn and found no question"""
    stopped: Counter[str] = field(default_factory=Counter)
    """searches that were given up after `BUDGET` options"""

    @property
    def questions(self) -> int:
        return self.asked.total()

    def add(self, other: Tally) -> None:
        """Count what became of later attempts too."""
        self.scenes += other.scenes
        self.short += other.short
        for mine, more in ((self.asked, other.asked), (self.nothing, other.nothing), (self.stopped, other.stopped)):
            mine.update(more)


def ask(
    scenes: Sequence[Mapping[str, Any]],
    templates: Sequence[Template],
    *,
    seed: int = 0,
    per_image: int = PER_IMAGE,
    synonyms: Mapping[str, Sequence[str]] = SYNONYMS,
    tally: Tally | None = None,
    first: int = 0,
    progress: Progress = silent,
) -> Iterator[Question]:
    """Up to `per_image` questions about each scene in turn, from the templates that were used least so far.

    Random draws depend on (seed, image index). Answers are balanced over the scenes since the last reset, so a
    question also depends on the scenes before it, within a block of 250. `first` is the place of the first of these
    scenes in its file, where a block begins.
    """
    require_whole("per_image", per_image, 1)
    tally = Tally() if tally is None else tally
    uses: Counter[str] = Counter()
    balances: dict[str, Balance] = {}
    for place, scene in enumerate(scenes, first):
        if place % RESET_AFTER == 0:
            uses.clear()
            balances = {template.name: Balance(template.answers) for template in templates}
        name, index = _identify(scene, place)
        draws, words = (random.Random(derive_seed(seed, "questions", part, index)) for part in ("program", "words"))
        options = Options(look_at(scene, name))
        asked = 0
        for template in sorted(templates, key=lambda template: uses[template.name]):
            found = find(template, options, balances[template.name], draws, tally)
            if found is None:
                continue
            balances[template.name].add(found.answer)
            uses[template.name] += 1
            tally.asked[template.name] += 1
            yield Question(scene, put_into_words(template.texts, found.parameters, words, synonyms), found, template)
            asked += 1
            if asked == per_image:
                break
        tally.scenes += 1
        tally.short += asked < min(per_image, len(templates))
        progress("questions", place + 1 - first, len(scenes))


def find(
    template: Template, options: Options, balance: Balance, rng: random.Random, tally: Tally | None = None
) -> Found | None:
    """An instance of the template in a scene whose answer keeps the balance; None if the search finds none."""
    allowed = balance.allowed() & template.possible_answers
    if not allowed:
        return None
    tally = Tally() if tally is None else tally
    for _ in range(ROUNDS):
        try:
            found = Search(template, options, allowed, rng, BUDGET).run()
        except OutOfBudgetError:
            tally.stopped[template.name] += 1
            return None
        if found:
            return found
    tally.nothing[template.name] += 1
    return None


def _identify(scene: Any, place: int) -> tuple[str, int]:
    """How errors call a scene, and its image index."""
    if not isinstance(scene, Mapping):
        raise HeatproofError(f"scene {place} is a {type(scene).__name__}; it must be a JSON object.")
    filename, index = scene.get("image_filename"), scene.get("image_index")
    if not isinstance(filename, str) or not isinstance(index, int):
        raise HeatproofError(f"scene {place}: needs 'image_filename' (text) and 'image_index' (a whole number).")
    return f"scene {place} ({filename})", index
