"""COCO's instances.json: polygons and run lengths by pycocotools, or boxes without it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite
from pathlib import Path, PurePosixPath
from typing import Any, ClassVar

from heatproof.benchmarks.masks.readers import MaskSource, Truth, box_truth, checked_size
from heatproof.errors import HeatproofError, unknown_name
from heatproof.lazy import np
from heatproof.metrics.mask_scores import INSIDE, OUTSIDE, VOID

PARTS = {"images": ("id", "file_name", "height", "width"), "annotations": ("image_id", "category_id"),
         "categories": ("id", "name")}  # fmt: skip


@dataclass(frozen=True)
class CocoMasks(MaskSource):
    """The objects of each picture by class; what stands for a crowd is void."""

    boxes: bool = False
    pictures: Mapping[str, Mapping[str, Any]] = field(default_factory=dict, repr=False)
    objects: Mapping[str, Mapping[str, Sequence[Mapping[str, Any]]]] = field(default_factory=dict, repr=False)
    categories: tuple[str, ...] = ()
    knows_classes: ClassVar[bool] = True

    @property
    def names(self) -> Sequence[str]:
        return list(self.pictures)

    @property
    def all_classes(self) -> tuple[str, ...]:
        return self.categories

    def classes(self, name: str) -> tuple[str, ...]:
        return tuple(sorted(self.objects.get(name, {})))

    def truth(self, name: str, label: str) -> Truth:
        picture = self.pictures[name]
        size = picture["height"], picture["width"]
        found = np.full(size, OUTSIDE, np.uint8)
        things = self.objects.get(name, {}).get(label, ())
        for crowd, meaning in ((True, VOID), (False, INSIDE)):
            for thing in things:
                if bool(thing.get("iscrowd")) == crowd:
                    found[self.where(thing, size)] = meaning
        return found

    def where(self, thing: Mapping[str, Any], size: tuple[int, int]) -> Any:
        """The pixels of an object."""
        what = f"{self.place}: annotation {thing.get('id', '?')} of image {thing['image_id']}"
        segmentation = thing.get("segmentation")
        if self.boxes or not segmentation:
            return box_truth(size, [corners(thing, what)])
        tools = mask_tools(self.place)
        try:
            if isinstance(segmentation, list):
                require_near(segmentation, size, what)
                runs = tools.merge(tools.frPyObjects(segmentation, *size))
            else:
                runs = checked_runs(segmentation, size, what)
                if isinstance(runs["counts"], list):
                    runs = tools.frPyObjects(runs, *size)
            mask = np.asarray(tools.decode(runs), dtype=np.bool_)
        except HeatproofError:
            raise
        except Exception as problem:  # pycocotools raises whatever its C code meets
            raise HeatproofError(
                f"{what}: its segmentation cannot be read ({type(problem).__name__}: {problem})."
            ) from problem
        if mask.shape != size:
            raise HeatproofError(
                f"{what}: its segmentation is {mask.shape[1]}x{mask.shape[0]}, the image {size[1]}x{size[0]}."
            )
        return mask

    def settings(self) -> dict[str, Any]:
        return {"boxes": self.boxes}


def checked_runs(runs: Any, size: tuple[int, int], what: str) -> dict[str, Any]:
    """Run lengths that are seen to fit the picture: pycocotools reads beyond the end of those that do not."""
    if not isinstance(runs, Mapping) or not {"counts", "size"} <= set(runs):
        raise HeatproofError(f"{what}: its segmentation is neither polygons nor run lengths (size and counts).")
    if list(runs["size"]) != list(size):
        raise HeatproofError(f"{what}: its run lengths are of size {list(runs['size'])}, the image is {list(size)}.")
    counts = runs["counts"]
    if isinstance(counts, list) and not all(isinstance(count, int) and count >= 0 for count in counts):
        raise HeatproofError(f"{what}: its run lengths must be whole numbers from 0 on.")
    total = sum(counts) if isinstance(counts, list) else sum(decoded_counts(str(counts), what))
    if total != size[0] * size[1]:
        raise HeatproofError(
            f"{what}: its run lengths add up to {total:,} pixels, the image has {size[0] * size[1]:,}."
        )
    return {"size": list(size), "counts": counts}


def require_near(polygons: Sequence[Any], size: tuple[int, int], what: str) -> None:
    """Corners must lie about the picture: pycocotools walks along the edges pixel by pixel, however long they are."""
    far = 2 * max(size)
    for polygon in polygons:
        if not isinstance(polygon, list) or not all(
            isinstance(value, int | float) and -far <= value <= far for value in polygon
        ):
            raise HeatproofError(f"{what}: its polygons must be lists of numbers in or near the image.")


def decoded_counts(text: str, what: str) -> list[int]:
    """The run lengths of COCO's compressed text: five bits a letter, from the third on as differences to two before."""
    counts: list[int] = []
    place = 0
    while place < len(text):
        value, shift, more = 0, 0, True
        while more:
            if place >= len(text) or not 48 <= ord(text[place]) < 112:
                raise HeatproofError(f"{what}: its compressed run lengths are damaged at letter {place}.")
            bits = ord(text[place]) - 48
            value |= (bits & 31) << shift
            more = bool(bits & 32)
            place, shift = place + 1, shift + 5
            if not more and bits & 16:
                value |= -1 << shift
        counts.append(value + (counts[-2] if len(counts) > 2 else 0))
    if any(count < 0 for count in counts):
        raise HeatproofError(f"{what}: its compressed run lengths are damaged: one is negative.")
    return counts


def corners(thing: Mapping[str, Any], what: str) -> tuple[float, float, float, float]:
    """Left, top, right and bottom of an object's box."""
    box = thing.get("bbox")
    if not isinstance(box, list) or len(box) != 4 or not all(isinstance(n, int | float) and isfinite(n) for n in box):
        raise HeatproofError(f"{what} has neither a segmentation nor a bbox of four numbers.")
    left, top, width, height = map(float, box)
    return left, top, left + width, top + height


def mask_tools(place: Path) -> Any:
    """The part of pycocotools that knows polygons and run lengths."""
    try:
        from pycocotools import mask
    except ImportError:
        raise HeatproofError(
            f"to read the polygons and run lengths of {place}, install pycocotools: pip install heatproof[coco];"
            " or take the boxes alone with --boxes."
        ) from None
    return mask


def open_coco(place: Path, boxes: bool = False) -> CocoMasks:
    """The annotations of a file, once its three lists are seen to be whole and to fit each other."""
    content = read_json(place)
    for part, keys in PARTS.items():
        entries = content.get(part)
        if not isinstance(entries, list) or not entries:
            raise HeatproofError(f"{place} is no COCO instances file: it has no list {part!r}.")
        for number, entry in enumerate(entries):
            missing = [key for key in keys if not isinstance(entry, dict) or key not in entry]
            if missing:
                raise HeatproofError(f"{place}: entry {number} of {part} has no {missing[0]!r}.")
            for key in keys:
                if key.endswith("id") and not isinstance(entry[key], int | str):
                    raise HeatproofError(f"{place}: {key} of entry {number} of {part} must be a number or a text.")
    for number, entry in enumerate(content["images"]):
        if not isinstance(entry["file_name"], str) or not entry["file_name"].strip("./"):
            raise HeatproofError(f"{place}: file_name of entry {number} of images must be the name of a file.")
        size = checked_size(entry["height"], entry["width"], f"{place}: image {entry['file_name']}")
        entry["height"], entry["width"] = size
    categories = {entry["id"]: str(entry["name"]) for entry in content["categories"]}
    files = {entry["id"]: str(PurePosixPath(entry["file_name"]).with_suffix("")) for entry in content["images"]}
    for what, found in (("id", files), ("file_name", set(files.values()))):
        if len(found) < len(content["images"]):
            raise HeatproofError(f"{place}: two images have the same {what}, endings aside; rename one of them.")
    objects: dict[str, dict[str, list[Mapping[str, Any]]]] = {}
    for number, thing in enumerate(content["annotations"]):
        if thing["image_id"] not in files:
            raise HeatproofError(
                f"{place}: annotation {number} is of image_id {thing['image_id']}, which is not listed."
            )
        if thing["category_id"] not in categories:
            raise unknown_name(
                f"category_id of annotation {number} in {place}", str(thing["category_id"]), map(str, categories)
            )
        label = categories[thing["category_id"]]
        objects.setdefault(files[thing["image_id"]], {}).setdefault(label, []).append(thing)
    if not boxes and any(thing.get("segmentation") for thing in content["annotations"]):
        mask_tools(place)  # so that it is missed before long work
    pictures = {files[entry["id"]]: entry for entry in content["images"]}
    return CocoMasks(place, boxes, pictures, objects, tuple(sorted(set(categories.values()))))


def read_json(place: Path) -> dict[str, Any]:
    try:
        content = json.loads(place.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as problem:
        raise HeatproofError(f"{place} cannot be read as JSON ({problem}).") from problem
    if not isinstance(content, dict):
        raise HeatproofError(f"{place} is no COCO instances file: it holds a {type(content).__name__}, not an object.")
    return content
