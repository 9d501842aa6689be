"""Which pictures have masks, and what is explained of each; bad ones are found before any long work. No torch."""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from heatproof.benchmarks.masks.readers import MaskSource, Truth, digest_of, has_both, name_in
from heatproof.benchmarks.masks.voc import PICTURES
from heatproof.errors import HeatproofError, unknown_name
from heatproof.heatmap_files import few
from heatproof.lazy import np
from heatproof.mosaics.pictures import ENDINGS, Fit, find_pictures, framed, in_rgb
from heatproof.progress import Progress, silent

if TYPE_CHECKING:
    from numpy.typing import NDArray

MOST_BAD = 0.5
"""A share of bad pictures above this is a mistake in what was said about them all."""


@dataclass(frozen=True)
class Shown:
    """A case: a picture, what its mask is called, and the class; empty where nobody says which it is."""

    case: str
    file: Path
    mask: str
    label: str


@dataclass(frozen=True)
class Found:
    """The cases, and what is wrong with pictures and masks that are none."""

    cases: Sequence[Shown]
    problems: Sequence[str]
    lonely_masks: Sequence[str]

    @property
    def notes(self) -> list[str]:
        """What was left out, as sentences."""
        said = []
        if self.problems:
            said.append(f"Left out: {len(self.problems):,} pictures ({few(self.problems, '; ')}).")
        if self.lonely_masks:
            said.append(f"Masks without a picture: {len(self.lonely_masks):,} ({few(self.lonely_masks)}).")
        return said


def find_cases(images: Path, source: MaskSource, subset: str | None, classes: Sequence[str] | None) -> Found:
    """A case for each picture and class that is explained; nothing is read yet but lists and annotations.

    The class comes from the picture's folder or CSV, else from the annotations: one case for each class of these.
    """
    labelled = list_pictures(images, source, subset)
    wanted = known_classes(classes, source, [label for _, label in labelled])
    names = mask_names([file for file, _ in labelled], images, source)
    cases: list[Shown] = []
    problems: list[str] = []
    for (file, label), name in zip(labelled, names, strict=True):
        if name is None:
            problems.append(f"{file} has no mask in {source.place}")
            continue
        try:
            annotated = source.classes(name)
        except HeatproofError as problem:
            problems.append(str(problem))
            continue
        labels = [label] if label or not source.knows_classes else annotated
        for what in labels:
            if wanted is None or what in wanted:
                cases.append(Shown(name if len(labels) == 1 else f"{name}.{what}", file, name, what))
    used = {name for name in names if name}
    lonely = [name for name in source.names if name not in used]
    if not cases:
        reason = few(problems, "; ") or (f"masks are called {few(lonely)}" if lonely else "no class is left")
        raise HeatproofError(f"no picture of {images} has a mask in {source.place}: {reason}.")
    if twice := [case for case, count in Counter(shown.case for shown in cases).items() if count > 1]:
        raise HeatproofError(f"two pictures have the same mask, {twice[0]}: rename one of them.")
    return Found(cases, problems, lonely)


def known_classes(classes: Sequence[str] | None, source: MaskSource, labels: Sequence[str]) -> frozenset[str] | None:
    """The classes that were asked for, which must be there."""
    if classes is None:
        return None
    there = {*source.all_classes, *labels} - {""}
    for name in classes:
        if name not in there:
            raise unknown_name("class of the pictures", name, there)
    return frozenset(classes)


def list_pictures(images: Path, source: MaskSource, subset: str | None) -> list[tuple[Path, str]]:
    """Files with their classes: of a folder per class, of a CSV; or of one folder, without a class."""
    if images.is_dir() and (source.knows_classes or not any(has_pictures(folder) for folder in images.iterdir())):
        if subset is not None:
            raise HeatproofError(
                f"{images} is a folder: subset {subset!r} needs a CSV with filename, label and subset."
            )
        inner = images / PICTURES
        files = sorted(file for file in (inner if inner.is_dir() else images).rglob("*") if is_picture(file))
        if not files:
            raise HeatproofError(f"{images} holds no picture ({', '.join(sorted(ENDINGS))}).")
        return [(file, "") for file in files]
    found = find_pictures(images, subset, least=1)
    return [(file, label) for label, files in found.by_class.items() for file in files]


def has_pictures(folder: Path) -> bool:
    return folder.is_dir() and not folder.name.startswith(".") and any(map(is_picture, folder.rglob("*")))


def is_picture(file: Path) -> bool:
    return file.suffix.lower() in ENDINGS


def mask_names(files: Sequence[Path], images: Path, source: MaskSource) -> list[str | None]:
    """What the mask of each picture is called: its path in the folder of the pictures.

    Where no picture has such a mask, as when masks lie in folders of their own, names without folders count.
    """
    known = set(source.names)
    roots = [images if images.is_dir() else images.parent]
    if files:
        roots.append(Path(os.path.commonpath([file.parent for file in files])))
    for root in roots:
        names = [name_in(root, file) if file.is_relative_to(root) else "" for file in files]
        if known.intersection(names):
            return [name if name in known else None for name in names]
    stems = Counter(name.rpartition("/")[2] for name in known)
    alone = {name.rpartition("/")[2]: name for name in known if stems[name.rpartition("/")[2]] == 1}
    return [alone.get(file.stem) for file in files]


def check_cases(
    found: Found, source: MaskSource, side: int, fit: Fit, progress: Progress = silent
) -> tuple[Found, str]:
    """Read every picture and mask once: those that are good, and a hash of them as they are explained.

    A bad one costs itself; where most are bad, something was said wrong of them all, and that is an error.
    """
    good: list[Shown] = []
    problems = list(found.problems)
    digest, telling = hashlib.sha256(), False
    for place, shown in enumerate(found.cases):
        if place % 20 == 0:
            progress("reading pictures and masks", place, len(found.cases))
        try:
            pixels, truth = read_case(shown, source, side, fit)
        except HeatproofError as problem:
            problems.append(str(problem).rstrip("."))
            continue
        digest.update(f"{shown.case} {shown.label}".encode() + pixels.tobytes() + digest_of(truth))
        telling = telling or has_both(truth)
        good.append(shown)
    progress("reading pictures and masks", len(found.cases), len(found.cases))
    if len(good) < MOST_BAD * len(found.cases):
        raise HeatproofError(
            f"{len(found.cases) - len(good):,} of {len(found.cases):,} pictures cannot be used:"
            f" {few(problems[len(found.problems) :], '; ')}."
        )
    if not telling:
        raise HeatproofError(
            f"no mask of {source.place} has both object and background in what the network sees of its picture, so"
            " that no map would have a score."
        )
    return Found(good, problems, found.lonely_masks), digest.hexdigest()[:16]


def read_case(shown: Shown, source: MaskSource, side: int, fit: Fit) -> tuple[NDArray[np.uint8], Truth]:
    """Pixels (side, side, 3) and truth (side, side) of a case, both by the same geometry."""
    from PIL import Image

    image = in_rgb(shown.file)
    truth = source.truth(shown.mask, shown.label)
    if image.size != truth.shape[::-1]:
        raise HeatproofError(
            f"{shown.file} is {image.size[0]}x{image.size[1]}, its mask in {source.place}"
            f" {truth.shape[1]}x{truth.shape[0]}; both must be of one size."
        )
    pixels = framed(image, side, fit, Image.Resampling.BILINEAR)
    return pixels, framed(Image.fromarray(truth), side, fit, Image.Resampling.NEAREST)


def size_words(share: float) -> str:
    """How large a mask is, in a word."""
    return next(word for word, most in SIZES.items() if share <= most)


SIZES: Mapping[str, float] = {"small": 0.1, "medium": 0.4, "large": 1.0}
"""Shares of the picture up to which a mask is called so."""
