"""What a CLEVR data set holds, in numbers: scenes, questions, answers, and which masks there are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from heatproof.clevr.files import Dataset, Question
from heatproof.clevr.ground_truth import KINDS, check_programs, has_results
from heatproof.clevr.mask_files import kinds_there
from heatproof.clevr.question_types import last_operation, question_type
from heatproof.lazy import np
from heatproof.progress import Progress, silent

if TYPE_CHECKING:
    from numpy.typing import NDArray

PUBLISHED = {
    ("simple", "single_object"): 1.0,
    ("simple", "all_objects"): 1.0,
    ("complex", "unique"): 0.89873,
    ("complex", "unique_first_nonempty"): 0.99786,
    ("complex", "union"): 0.99786,
    ("complex", "all_objects"): 1.0,
}
"""The share of CLEVR-XAI's questions that have a mask of each kind."""

PUBLISHED_PER_SCENE = {"simple": 3.9761, "complex": 10.0}
"""CLEVR-XAI's questions per picture."""

CHAINS: Mapping[str, Sequence[str]] = {
    "simple": ("single_object", "all_objects"),
    "complex": ("unique", "unique_first_nonempty", "union", "all_objects"),
}
"""Kinds of which each one's objects are among the next one's."""


def describe(dataset: Dataset, progress: Progress = silent) -> dict[str, Any]:
    """Everything that `heatproof clevr stats` shows, as plain values that can be written as JSON."""
    sets = {}
    for done, name in enumerate(dataset.sets, 1):
        sets[name] = describe_set(dataset, name)
        progress("statistics", done, len(dataset.sets))
    return {
        "dataset": str(dataset.folder),
        "layout": dataset.layout.name,
        "scenes": len(dataset.scenes),
        "pictures": dataset.has_pictures,
        "object_masks": None if dataset.object_folder is None else dataset.object_folder.name,
        "objects_per_scene": spread([len(scene["objects"]) for scene in dataset.scenes.values()]),
        "sets": sets,
    }


def describe_set(dataset: Dataset, name: str) -> dict[str, Any]:
    """The figures of one question set."""
    questions = dataset.questions(name)
    asked = Counter(question.record["image_filename"] for question in questions)
    per_scene = [asked.get(picture, 0) for picture in dataset.scenes] or list(asked.values())
    figures: dict[str, Any] = {
        "questions": len(questions),
        "per_scene": spread(per_scene) | {"published": PUBLISHED_PER_SCENE.get(name)},
        "words": spread([len(question.text.split()) for question in questions]),
    }
    if all(question.program for question in questions):
        figures["program_nodes"] = spread([len(question.program) for question in questions])
        figures["types"] = shares(question_type(question.program) for question in questions)
        figures["answers"] = answers(questions)
    figures["families"] = shares(family(question) for question in questions)
    figures["template_uses"] = spread(list(Counter(template(question) for question in questions).values()))
    if name in KINDS and any(map(has_results, questions)):
        check_programs(dataset, [name])
        figures["ground_truth"] = ground_truth(dataset, name)
    return figures


def ground_truth(dataset: Dataset, name: str) -> dict[str, Any]:
    """For each kind how many questions have a mask, of how many objects and pixels; and whether the kinds nest.

    Objects are counted over all questions, with 0 where there is no mask; pixels over masks.
    """
    questions = dataset.questions(name)
    chosen: dict[str, list[frozenset[int]]] = {
        kind: [rule(q.program, len(q.scene["objects"]) if q.scene else 0) for q in questions]
        for kind, rule in KINDS[name].items()
    }
    kinds = {}
    for kind, sets in chosen.items():
        available = sum(map(bool, sets))
        kinds[kind] = {
            "available": available,
            "unavailable": len(sets) - available,
            "share": available / len(sets),
            "published": PUBLISHED.get((name, kind)),
            "objects": spread([len(targets) for targets in sets]),
            "pixels": mask_sizes(dataset, name, kind),
        }
    chain = CHAINS[name]
    figures: dict[str, Any] = {
        "kinds": kinds,
        "not_nested": sum(
            not small <= large
            for smaller, larger in pairwise(chain)
            for small, large in zip(chosen[smaller], chosen[larger], strict=True)
        ),
    }
    if name == "complex":
        unique, first, union = (chosen[kind] for kind in ("unique", "unique_first_nonempty", "union"))
        figures["union_without_first_nonempty"] = sum(
            bool(one) != bool(other) for one, other in zip(first, union, strict=True)
        )
        figures["first_nonempty_equals_unique"] = sum(map(frozenset.__eq__, first, unique)) / len(questions)
    return figures


def mask_sizes(dataset: Dataset, name: str, kind: str) -> dict[str, Any] | None:
    """Pixels of the masks that are there; None if they have not been made."""
    if kind not in kinds_there(dataset.folder, name):
        return None
    masks = dataset.masks(name, kind)
    sizes: NDArray[np.int64] = masks.pixels[masks.available]
    figures = spread(sizes.tolist(), counts=False)
    if figures:
        figures["above_1000"] = int((sizes > 1000).sum())
    return figures


def spread(values: Sequence[int], counts: bool = True) -> dict[str, Any]:
    """Mean, extremes and median, and how often each value occurs; empty if there is no value."""
    if not values:
        return {}
    numbers = np.asarray(values)
    figures: dict[str, Any] = {
        "mean": float(numbers.mean()),
        "min": int(numbers.min()),
        "median": float(np.median(numbers)),
        "max": int(numbers.max()),
    }
    if counts:
        figures["counts"] = {str(value): count for value, count in sorted(Counter(values).items())}
    return figures


def shares(names: Iterable[str]) -> dict[str, dict[str, Any]]:
    """How many there are of each name, the most frequent first."""
    counts = Counter(names)
    total = sum(counts.values())
    return {name: {"count": count, "share": count / total} for name, count in counts.most_common()}


def answers(questions: Iterable[Question]) -> dict[str, dict[str, dict[str, Any]]]:
    """How often each answer is given, by what is asked."""
    given: dict[str, list[str]] = {}
    for question in questions:
        if question.answer is not None:
            given.setdefault(last_operation(question.program), []).append(str(question.answer).lower())
    return {asked: shares(said) for asked, said in sorted(given.items())}


def family(question: Question) -> str:
    """The template file's name, or in CLEVR v1.0 the number of the template."""
    named = question.record.get("template_filename")
    return str(named).removesuffix(".json") if named else template(question)


def template(question: Question) -> str:
    return f"{question.record.get('template_filename', '')} {question.record.get('question_family_index', '?')}".strip()
