"""Pascal VOC's folder: SegmentationClass pictures with a palette, or boxes of the XML files in Annotations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import isfinite, nan
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from heatproof.benchmarks.masks.readers import MaskSource, Truth, box_truth, checked_size, read_pixels
from heatproof.errors import HeatproofError
from heatproof.lazy import np
from heatproof.metrics.mask_scores import INSIDE, OUTSIDE, VOID

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

    from numpy.typing import NDArray

    Box = tuple[float, float, float, float]

CLASSES = (
    "aeroplane", "bicycle", "bird", "boat", "bottle", "bus", "car", "cat", "chair", "cow", "diningtable", "dog",
    "horse", "motorbike", "person", "pottedplant", "sheep", "sofa", "train", "tvmonitor",
)  # fmt: skip
"""What the numbers from 1 on mean."""
BORDER = 255
SEGMENTS, BOXES, PICTURES = "SegmentationClass", "Annotations", "JPEGImages"


def is_voc(place: Path) -> bool:
    return (place / SEGMENTS).is_dir() or (place / BOXES).is_dir()


def open_voc(place: Path, boxes: bool = False) -> MaskSource:
    """Segments where there are any, unless boxes are asked for."""
    wanted = place / (BOXES if boxes or not (place / SEGMENTS).is_dir() else SEGMENTS)
    ending = ".xml" if wanted.name == BOXES else ".png"
    files = {file.stem: file for file in sorted(wanted.glob(f"*{ending}"))} if wanted.is_dir() else {}
    if not files:
        raise HeatproofError(f"{wanted} holds no {ending} file; is the copy of VOC complete?")
    return VocBoxes(place, files) if wanted.name == BOXES else VocSegments(place, files)


@dataclass(frozen=True)
class VocSegments(MaskSource):
    """Numbers of classes; 255, the borders of objects and what is too hard, is void."""

    files: Mapping[str, Path] = field(default_factory=dict, repr=False)
    knows_classes: ClassVar[bool] = True

    @property
    def names(self) -> Sequence[str]:
        return list(self.files)

    @property
    def all_classes(self) -> tuple[str, ...]:
        return CLASSES

    def pixels(self, name: str) -> NDArray[np.uint8]:
        pixels = read_pixels(self.files[name])
        unknown = sorted(set(np.unique(pixels).tolist()) - {0, BORDER, *range(1, len(CLASSES) + 1)})
        if unknown:
            raise HeatproofError(
                f"{self.files[name]} has pixels of value {unknown[0]}: VOC's classes are 1 to {len(CLASSES)}, 255 is"
                " void. Is it a picture of colours instead of a palette?"
            )
        return pixels

    def classes(self, name: str) -> tuple[str, ...]:
        return tuple(CLASSES[value - 1] for value in np.unique(self.pixels(name)).tolist() if 0 < value < BORDER)

    def truth(self, name: str, label: str) -> Truth:
        pixels = self.pixels(name)
        wanted = CLASSES.index(label) + 1 if label in CLASSES else -1
        return np.where(pixels == wanted, INSIDE, np.where(pixels == BORDER, VOID, OUTSIDE)).astype(np.uint8)


@dataclass(frozen=True)
class VocBoxes(MaskSource):
    """Boxes by class; objects that are marked as difficult are void."""

    files: Mapping[str, Path] = field(default_factory=dict, repr=False)
    knows_classes: ClassVar[bool] = True

    @property
    def names(self) -> Sequence[str]:
        return list(self.files)

    @cached_property
    def all_classes(self) -> tuple[str, ...]:
        return tuple(sorted({label for name in self.files for label in self.classes(name)}))

    def classes(self, name: str) -> tuple[str, ...]:
        return tuple(sorted({label for label, _, _ in self.objects(name)[1]}))

    def truth(self, name: str, label: str) -> Truth:
        size, things = self.objects(name)
        found = np.full(size, OUTSIDE, np.uint8)
        for difficult, meaning in ((True, VOID), (False, INSIDE)):
            boxes = [box for what, box, hard in things if what == label and hard == difficult]
            found[box_truth(size, boxes)] = meaning
        return found

    def objects(self, name: str) -> tuple[tuple[int, int], list[tuple[str, Box, bool]]]:
        """Height and width, and of each object its class, its box, and whether it is difficult."""
        file = self.files[name]
        root = read_xml(file)
        size = checked_size(number(root, "size/height", file), number(root, "size/width", file), str(file))
        things = []
        for thing in root.findall("object"):
            left, top, right, bottom = (
                number(thing, f"bndbox/{corner}", file) for corner in ("xmin", "ymin", "xmax", "ymax")
            )
            hard = (thing.findtext("difficult") or "0").strip() == "1"
            # Pixels count from 1, and the last ones belong to the box.
            things.append(((thing.findtext("name") or "").strip(), (left - 1, top - 1, right, bottom), hard))
        if any(not label for label, _, _ in things):
            raise HeatproofError(f"{file}: an object has no name.")
        return size, things


def read_xml(file: Path) -> Element:
    """The root of an XML file. A declaration of entities, which could grow without end, is refused."""
    from xml.etree.ElementTree import ParseError, fromstring

    try:
        text = file.read_text(encoding="utf-8")
        if "<!ENTITY" in text or "<!DOCTYPE" in text:
            raise HeatproofError(f"{file} declares entities, which no annotation needs; remove them.")
        return fromstring(text)  # entities are refused above  # nosec B314
    except (OSError, UnicodeDecodeError, ParseError, ValueError) as problem:
        raise HeatproofError(f"{file} cannot be read as XML ({problem}).") from problem


def number(element: Element, path: str, file: Path) -> float:
    text = element.findtext(path)
    try:
        value = float(text or "")
    except ValueError:
        value = nan
    if not isfinite(value):
        raise HeatproofError(f"{file}: {path} must be a number, got {text!r}.")
    return value
