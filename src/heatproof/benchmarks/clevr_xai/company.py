"""What a question is compared with: the other questions about its picture, and all objects of the scene. No torch.

Selectivity asks how much more of a map lies on the own truth than on that of another question about the same picture.
The other one is drawn in pairs: where it can be, two questions are each other's, so that for every pixel that one gains
by being asked about another loses it, and a map that ignores the question has selectivity 0 by construction.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from heatproof.clevr.files import Dataset, Question
from heatproof.clevr.ground_truth import KINDS, program_problems, resize_objects
from heatproof.lazy import np
from heatproof.progress import Progress, silent
from heatproof.seeds import derive_seed

if TYPE_CHECKING:
    from numpy.typing import NDArray

NOBODY = -1
"""The other question where there is none."""
PICTURES_HELD = 64

Truths = Mapping[str, frozenset[int]]


@dataclass(frozen=True, eq=False)
class Company:
    """For questions by their index: the other question of each kind of truth, and the objects of each truth.

    others  by kind: the other question's index; those without one are left out
    truths  by kind: the objects, by their place in the scene
    files   the picture's file
    """

    data: Dataset
    size: tuple[int, int]
    others: Mapping[str, Mapping[int, int]]
    truths: Mapping[str, Mapping[int, frozenset[int]]]
    files: Mapping[int, str]

    @property
    def has_objects(self) -> bool:
        """Whether it is known which pixels belong to which object."""
        return self.data.object_folder is not None

    def other(self, kind: str, index: Sequence[int]) -> list[int]:
        """The other question of each of these, or NOBODY."""
        return [self.others[kind].get(one, NOBODY) for one in index]

    def any_other(self, index: Sequence[int]) -> list[int]:
        """One other question for each of these: of the first kind of truth that has one; NOBODY where none has."""
        columns = [self.other(kind, index) for kind in self.others]
        return [next((other for other in row if other != NOBODY), NOBODY) for row in zip(*columns, strict=True)]

    def masks(self, name: str, kind: str, index: Sequence[int]) -> NDArray[np.bool_]:
        """Masks (B, H, W) of the others of these questions; empty where there is none."""
        others = self.other(kind, index)
        there = [one for one in others if one != NOBODY]
        found = np.zeros((len(index), *self.size), dtype=np.bool_)
        if there:
            found[[place for place, one in enumerate(others) if one != NOBODY]] = self.data.masks(name, kind).batch(
                there
            )
        return found

    def objects(self, index: Sequence[int]) -> NDArray[np.bool_]:
        """All objects (B, M, positions) of these questions' pictures, with empty planes behind the last."""
        planes = [objects_of(self.data, self.files[one], self.size) for one in index]
        most, positions = max(len(each) for each in planes), self.size[0] * self.size[1]
        found = np.zeros((len(index), most, positions), dtype=np.bool_)
        for place, each in enumerate(planes):
            found[place, : len(each)] = each.reshape(len(each), positions)
        return found

    def flags(self, kind: str, index: Sequence[int], most: int) -> NDArray[np.bool_]:
        """Which of `most` objects (B, M) these questions' truths have; none for NOBODY."""
        found = np.zeros((len(index), most), dtype=np.bool_)
        for place, one in enumerate(index):
            found[place, sorted(self.truths[kind].get(one, ()))] = True
        return found

    def counts(self, kind: str, index: Sequence[int]) -> list[int]:
        """How many objects each truth has."""
        return [len(self.truths[kind].get(one, ())) for one in index]


@lru_cache(maxsize=PICTURES_HELD)
def objects_of(data: Dataset, file: str, size: tuple[int, int]) -> NDArray[np.bool_]:
    """The objects (M, H, W) of a picture, made to the size of masks as these are."""
    scene = data.scenes[file]
    return resize_objects(data.object_ids(scene), len(scene["objects"]), *size)


def find_company(
    data: Dataset,
    name: str,
    kinds: Collection[str],
    size: tuple[int, int],
    seed: int,
    wanted: Collection[int],
    progress: Progress = silent,
) -> Company:
    """The company of the `wanted` questions of a set, drawn by `seed` among all questions of the set."""
    told: dict[str, dict[int, Truths]] = {}
    met: dict[frozenset[int], frozenset[int]] = {}  # there are few, and each is kept once
    for question in data.each_question(name):
        picture = str(question.record["image_filename"])
        truths_here = {kind: met.setdefault(truth, truth) for kind, truth in truths_of(question, kinds).items()}
        told.setdefault(picture, {})[question.index] = truths_here
    others: dict[str, dict[int, int]] = {kind: {} for kind in kinds}
    truths: dict[str, dict[int, frozenset[int]]] = {kind: {} for kind in kinds}
    files: dict[int, str] = {}
    asked = set(wanted)
    for done, (picture, questions) in enumerate(told.items(), 1):
        if not asked.isdisjoint(questions):
            files |= dict.fromkeys(questions, picture)
            for kind in kinds:
                known = {index: each[kind] for index, each in questions.items() if each.get(kind)}
                truths[kind] |= known
                pairs = paired(known, derive_seed(seed, "other question", picture))
                others[kind] |= {index: other for index, other in pairs.items() if index in asked}
        progress("other questions", done, len(told))
    return Company(data, size, others, truths, files)


def truths_of(question: Question, kinds: Iterable[str]) -> Truths:
    """The objects of each truth; nothing where the program does not tell."""
    if question.scene is None or any(True for _ in program_problems(question)):
        return {}
    rules, objects = KINDS[question.set], len(question.scene["objects"])
    return {kind: rules[kind](question.program, objects) for kind in kinds}


def paired(truths: Mapping[int, frozenset[int]], seed: int) -> dict[int, int]:
    """For each question about a picture another one with another truth: each has an object that the other has not.

    In pairs as far as that goes, in an order that is drawn; who is left over gets the first that will do.
    """
    order = np.random.default_rng(seed).permutation(sorted(truths)).tolist()
    found: dict[int, int] = {}
    for one in order:
        if one not in found:
            for other in order:
                if other not in found and differ(truths[one], truths[other]):
                    found |= {one: other, other: one}
                    break
    for one in set(order) - set(found):
        will_do = [other for other in order if differ(truths[one], truths[other])]
        found |= {one: will_do[0]} if will_do else {}
    return found


def differ(one: frozenset[int], other: frozenset[int]) -> bool:
    return bool(one - other) and bool(other - one)
