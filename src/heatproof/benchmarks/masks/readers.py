"""Object masks as people have them: a picture per image, an archive of arrays, COCO's JSON, VOC's folder. No torch.

Each is a `MaskSource`: it knows the names of its pictures (paths without their ending), the classes that are annotated
in each if it has classes at all, and gives the truth of one class in one picture: OUTSIDE, INSIDE, or VOID, which
counts neither way.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from operator import attrgetter
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

from heatproof.arrays import member
from heatproof.errors import HeatproofError
from heatproof.heatmap_files import few
from heatproof.lazy import np
from heatproof.metrics.mask_scores import INSIDE, OUTSIDE, VOID
from heatproof.mosaics.pictures import ENDINGS

if TYPE_CHECKING:
    from numpy.typing import NDArray

MOST_PIXELS = 2**28
"""Of a picture; annotations that say more are damaged."""
Truth: TypeAlias = "NDArray[np.uint8]"
"""What is known of each position: OUTSIDE, INSIDE or VOID."""


@dataclass(frozen=True)
class Values:
    """What the pixels of a mask picture mean."""

    inside: int = 255
    outside: int = 0
    void: int | None = None

    def __post_init__(self) -> None:
        given = [value for value in (self.inside, self.outside, self.void) if value is not None]
        if len(set(given)) != len(given):
            raise HeatproofError(f"object, background and void pixels must have different values, got {given}.")

    @property
    def words(self) -> str:
        void = "" if self.void is None else f", {self.void} (void)"
        return f"{self.inside} (object), {self.outside} (background){void}"

    @cached_property
    def table(self) -> bytes:
        """What each value of a byte means."""
        found = bytearray([VOID + 1]) * 256
        for value, meaning in ((self.inside, INSIDE), (self.outside, OUTSIDE), (self.void, VOID)):
            if value is not None and 0 <= value < len(found):
                found[value] = meaning
        return bytes(found)

    def truth(self, pixels: NDArray[Any], what: str) -> Truth:
        """Pixels (height, width) as truth; a value that nobody has named is an error."""
        if pixels.dtype == np.uint8:
            found: Truth = np.frombuffer(pixels.tobytes().translate(self.table), np.uint8).reshape(pixels.shape)
        else:
            found = np.full(pixels.shape, VOID + 1, np.uint8)
            for value, meaning in ((self.inside, INSIDE), (self.outside, OUTSIDE), (self.void, VOID)):
                if value is not None:
                    found[pixels == value] = meaning
        if found.max(initial=0) > VOID:
            unknown = np.unique(pixels[found > VOID]).tolist()
            raise HeatproofError(
                f"{what} has pixels of value {few(unknown)}, which is none of {self.words}; say what they mean with"
                " --object-value, --background-value and --void-value."
            )
        return found


@dataclass(frozen=True)
class MaskSource(ABC):
    """Masks by the names of pictures."""

    place: Path
    knows_classes: ClassVar[bool] = False

    @property
    @abstractmethod
    def names(self) -> Sequence[str]:
        """The pictures that it has masks of."""

    def classes(self, name: str) -> tuple[str, ...]:
        """The classes that are annotated in a picture, in a fixed order; empty where masks have no classes."""
        return ()

    @property
    def all_classes(self) -> tuple[str, ...]:
        """The classes that there may be."""
        return ()

    @abstractmethod
    def truth(self, name: str, label: str) -> Truth:
        """The truth (height, width) of a class in a picture; where masks have no classes, of the object."""

    def settings(self) -> dict[str, Any]:
        """What the truth depends on beside the files."""
        return {}


def open_mask_source(place: Path, values: Values, boxes: bool = False) -> MaskSource:
    """The reader for what is at this place."""
    from heatproof.benchmarks.masks.coco import open_coco
    from heatproof.benchmarks.masks.voc import is_voc, open_voc

    if place.suffix.lower() == ".json":
        return open_coco(place, boxes)
    if place.is_dir() and is_voc(place):
        return open_voc(place, boxes)
    if boxes:
        raise HeatproofError(f"{place} has no boxes: --boxes is for COCO's JSON and VOC's folder.")
    if place.suffix.lower() == ".npz" and place.is_file():
        return MaskArchive(place, values)
    if place.is_dir():
        return MaskPictures(place, values)
    said = "does not exist" if not place.exists() else "is no folder, .npz or .json"
    raise HeatproofError(
        f"{place} {said}; give a folder with a mask picture per image, a .npz of arrays, COCO's .json or VOC's folder."
    )


def name_in(folder: Path, file: Path) -> str:
    """What a picture is called: its path in a folder, without its ending."""
    return PurePosixPath(file.relative_to(folder).with_suffix("")).as_posix()


@dataclass(frozen=True)
class MaskPictures(MaskSource):
    """A mask picture for each image, of the same relative name and the same size."""

    values: Values = field(default_factory=Values)

    @cached_property
    def files(self) -> Mapping[str, Path]:
        found: dict[str, Path] = {}
        for file in sorted(self.place.rglob("*"), key=attrgetter("parts")):  # paths themselves are slow to compare
            if file.suffix.lower() in ENDINGS and not any(part.startswith(".") for part in file.parts[-2:]):
                name = name_in(self.place, file)
                if name in found:
                    raise HeatproofError(f"{file} and {found[name].name} are masks of one name; remove one of them.")
                found[name] = file
        if not found:
            raise HeatproofError(f"{self.place} holds no mask picture ({', '.join(sorted(ENDINGS))}).")
        return found

    @property
    def names(self) -> Sequence[str]:
        return list(self.files)

    def truth(self, name: str, label: str) -> Truth:
        return self.values.truth(read_pixels(self.files[name]), str(self.files[name]))

    def settings(self) -> dict[str, Any]:
        return {"values": [self.values.inside, self.values.outside, self.values.void]}


@dataclass(frozen=True)
class MaskArchive(MaskSource):
    """Arrays (height, width) by name: truth values, or numbers as in mask pictures."""

    values: Values = field(default_factory=Values)

    @cached_property
    def archive(self) -> Any:
        from heatproof.heatmap_files import archive_of

        return archive_of(self.place)

    def __getstate__(self) -> dict[str, Any]:
        """Other processes open the file for themselves."""
        return {"place": self.place, "values": self.values}

    @property
    def names(self) -> Sequence[str]:
        return sorted(self.archive.files)

    def truth(self, name: str, label: str) -> Truth:
        what = f"{name} of {self.place}"
        try:
            array = member(self.archive, name)
        except Exception as problem:  # a damaged archive fails in many ways
            raise HeatproofError(f"{what} cannot be read ({type(problem).__name__}: {problem}).") from problem
        if array.ndim != 2 or array.dtype.kind not in "biu":
            raise HeatproofError(
                f"{what} is {array.dtype} of shape {array.shape}; a mask is (height, width) of truth values or whole"
                " numbers."
            )
        return array.astype(np.uint8) if array.dtype.kind == "b" else self.values.truth(array, what)

    def settings(self) -> dict[str, Any]:
        return {"values": [self.values.inside, self.values.outside, self.values.void]}


def read_pixels(file: Path) -> NDArray[Any]:
    """A mask picture as the numbers that it holds (height, width): grey levels, or numbers of a palette."""
    from PIL import Image

    try:
        with Image.open(file) as image:
            image.load()
            pixels = np.asarray(image)
    except Exception as problem:  # Pillow has many kinds of errors for damaged files
        raise HeatproofError(f"{file} cannot be read as a picture ({problem}); replace or remove it.") from problem
    if pixels.dtype == np.bool_:
        return pixels.astype(np.uint8) * np.uint8(255)
    if pixels.ndim == 3:
        colours = pixels[..., :3] if pixels.shape[2] >= 3 else pixels[..., :1]
        if not (colours == colours[..., :1]).all():
            raise HeatproofError(f"{file} is in colour; a mask is a grey picture, or one with a palette.")
        return np.ascontiguousarray(colours[..., 0])
    return pixels


def box_truth(size: tuple[int, int], boxes: Sequence[tuple[float, float, float, float]]) -> NDArray[np.bool_]:
    """Where the boxes are (height, width): each left, top, right, bottom, of pixels whose middle lies in it."""
    found = np.zeros(size, dtype=np.bool_)
    rows, columns = (np.arange(extent) + 0.5 for extent in size)
    for left, top, right, bottom in boxes:
        found |= ((rows > top) & (rows < bottom))[:, None] & ((columns > left) & (columns < right))
    return found


def checked_size(height: Any, width: Any, what: str) -> tuple[int, int]:
    """Height and width as whole numbers, of a picture that can be: memory is taken by what they say."""
    sides = [side for side in (height, width) if isinstance(side, int | float) and 0 < side <= MOST_PIXELS]
    if len(sides) < 2 or any(side != int(side) for side in sides) or sides[0] * sides[1] > MOST_PIXELS:
        raise HeatproofError(
            f"{what} must have a height and a width of whole numbers, with at most {MOST_PIXELS:,} pixels; got"
            f" {height!r} and {width!r}."
        )
    return int(sides[0]), int(sides[1])


def has_both(truth: Truth) -> bool:
    """Whether there is object and background, without which no map has a score."""
    return bool((truth == INSIDE).any() and (truth == OUTSIDE).any())


def digest_of(truth: Truth) -> bytes:
    """For fingerprints."""
    return hashlib.sha256(repr(truth.shape).encode() + truth.tobytes()).digest()
