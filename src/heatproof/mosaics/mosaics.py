"""Mosaics: pictures of a target class among pictures of others, drawn from a seed, and as files on disk.

A mosaic of grid k has k * k tiles, counted row by row from the top left. In the paper k is 2 and two tiles are of the
target class.
"""

from __future__ import annotations

import csv
import hashlib
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import ceil, isqrt
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeVar, get_args

from heatproof.errors import HeatproofError, require_whole, unknown_name
from heatproof.harmless import guarded
from heatproof.lazy import np
from heatproof.mosaics.pictures import Fit, Pictures, check_picture, read_table, tile
from heatproof.progress import Progress, silent
from heatproof.seeds import derive_seed
from heatproof.workspace import whole, write_whole

if TYPE_CHECKING:
    from numpy.typing import NDArray

LAYOUTS: dict[str, tuple[int, ...]] = {
    "top": (0, 1),
    "bottom": (2, 3),
    "left": (0, 2),
    "right": (1, 3),
    "diagonal": (0, 3),
    "antidiagonal": (1, 2),
}
"""The six places of two targets in a 2x2 mosaic."""
Design = Literal["random", "balanced"]
Layout = Literal["random", "top", "bottom", "left", "right", "diagonal", "antidiagonal"]

MOST_PER_CLASS, MOST_TILES = 10**6, 64
"""What nobody means who asks for more: mosaics of a class, and tiles along a side."""
SEVERAL = 2
"""Mosaics of a balanced design that show a picture, at least: one says nothing of how much they differ."""

Item = TypeVar("Item")


@dataclass(frozen=True)
class Mosaic:
    """What a mosaic is made of: the files of its tiles, their classes, and the class to look for.

    `picture` is the whole mosaic where it was read from disk; `files` are then only what its CSV says of them. `cell`
    is the one tile that counts, where not all of the target class do.
    """

    name: str
    files: tuple[Path, ...]
    labels: tuple[str, ...]
    target: str
    picture: Path | None = None
    cell: int | None = None

    @property
    def grid(self) -> int:
        return isqrt(len(self.files))

    @property
    def targets(self) -> tuple[bool, ...]:
        """Which tiles are of the target class, or the one that counts."""
        if self.cell is not None:
            return tuple(place == self.cell for place in range(len(self.labels)))
        return tuple(label == self.target for label in self.labels)


@dataclass(frozen=True)
class MosaicSettings:
    """How mosaics are drawn."""

    per_class: int = field(default=40, metadata={"help": "Mosaics of each target class."})
    grid: int = field(default=2, metadata={"help": "Tiles along a side of a mosaic."})
    targets: int = field(default=2, metadata={"help": "Tiles of the target class."})
    layout: Layout = field(
        default="random", metadata={"help": "Where they are: at random, or one of the six places of a 2x2 mosaic."}
    )
    repeats: bool = field(default=False, metadata={"help": "Allow a picture twice in a mosaic, as the original does."})
    only: str | None = field(default=None, metadata={"help": "Mosaics of this target class alone."})
    design: Design = field(
        default="random",
        metadata={
            "help": "random, or balanced: every picture of another class appears equally often against every target, in"
            " at least --per-class mosaics; for heatproof focus bias."
        },
    )

    def __post_init__(self) -> None:
        require_whole("per_class", self.per_class, 1, MOST_PER_CLASS)
        require_whole("grid", self.grid, 2, MOST_TILES)
        require_whole("targets", self.targets, 1)
        if self.targets >= self.grid**2:
            raise HeatproofError(f"{self.targets} targets leave no tile for others in a mosaic of {self.grid**2}.")
        if self.layout != "random" and self.layout not in LAYOUTS:
            raise HeatproofError(f"layout {self.layout!r} is unknown; take random or one of {', '.join(LAYOUTS)}.")
        if self.layout != "random" and (self.grid, self.targets) != (2, 2):
            raise HeatproofError(f"layout {self.layout} is for two targets in a 2x2 mosaic.")
        if self.design not in get_args(Design):
            raise unknown_name("design", self.design, get_args(Design))
        if self.design == "balanced" and self.repeats:
            raise HeatproofError("a balanced design shows no picture twice in a mosaic; leave --repeats out.")


def draw_mosaics(pictures: Pictures, settings: MosaicSettings, seed: int = 0) -> list[Mosaic]:
    """Mosaics class by class. Every picture is used about equally often; other classes too."""
    others = settings.grid**2 - settings.targets
    if settings.only is not None and settings.only not in pictures.classes:
        raise HeatproofError(f"there is no class {settings.only!r} among the pictures: {', '.join(pictures.classes)}.")
    if not settings.repeats:
        for label, files in pictures.by_class.items():
            if len(files) < settings.targets and settings.only in (None, label):
                raise HeatproofError(
                    f"class {label!r} has {len(files)} picture(s), and a mosaic shows {settings.targets} of its target;"
                    " add pictures, leave the class out, or allow a picture twice (--repeats)."
                )
    mosaics: list[Mosaic] = []
    for target in [settings.only] if settings.only else pictures.classes:
        rng = random.Random(derive_seed(seed, "mosaics", target))
        wanted = [(file, target) for file in pictures.by_class[target]]
        if settings.design == "balanced":
            beside = deal_evenly(others_of(pictures, target), settings.per_class, others, rng)
            shown = deal(wanted, len(beside), settings.targets, rng, settings.repeats)
        else:
            rest = draw_others(pictures, target, others * settings.per_class, rng)
            shown = deal(wanted, settings.per_class, settings.targets, rng, settings.repeats)
            beside = deal(rest, settings.per_class, others, rng, settings.repeats)
        for mine, foreign in zip(shown, beside, strict=True):
            tiles = arranged(mine, foreign, settings.layout, rng)
            files, labels = zip(*tiles, strict=True)
            mosaics.append(Mosaic(f"{len(mosaics):06d}", files, labels, target))
    return mosaics


def draw_others(pictures: Pictures, target: str, count: int, rng: random.Random) -> list[tuple[Path, str]]:
    """At least `count` pictures of the other classes, as many of each."""
    classes = [label for label in pictures.classes if label != target]
    each = ceil(count / len(classes))
    found = []
    for label in classes:
        files = list(pictures.by_class[label])
        whole, part = divmod(each, len(files))
        found += [(file, label) for file in files * whole + rng.sample(files, part)]
    return found


def others_of(pictures: Pictures, target: str) -> list[tuple[Path, str]]:
    """Every picture of another class, once."""
    return [(file, label) for label, files in pictures.by_class.items() if label != target for file in files]


def deal_evenly(cards: Sequence[Item], hands: int, size: int, rng: random.Random) -> list[list[Item]]:
    """At least `hands` hands of `size` different cards, such that every card is in as many hands: two or more."""
    if len(cards) < size:
        raise HeatproofError(f"a balanced design needs {size} pictures of other classes at least, got {len(cards)}.")
    times = max(SEVERAL, ceil(hands * size / len(cards)))
    while times * len(cards) % size:
        times += 1
    dealt = [card for _ in range(times) for card in rng.sample(list(cards), len(cards))]
    for place in range(len(dealt)):  # where one round meets the next, a hand may have a card twice
        start = place - place % size
        if dealt[place] in dealt[start:place]:
            free = next(
                other
                for other in (*range(start + size, len(dealt)), *range(start))
                if dealt[other] not in dealt[start : start + size]
                and dealt[place] not in dealt[other - other % size : other - other % size + size]
            )
            dealt[place], dealt[free] = dealt[free], dealt[place]
    return [dealt[start : start + size] for start in range(0, len(dealt), size)]


def deal(cards: Sequence[Item], hands: int, size: int, rng: random.Random, repeats: bool) -> list[list[Item]]:
    """`hands` hands of `size` cards from a shuffled deck, which is shuffled anew when it is used up.

    Without `repeats` no hand has a card twice, as far as there are cards enough.
    """
    deck: list[Item] = []
    dealt = []
    different = len(set(cards))
    for _ in range(hands):
        hand: list[Item] = []
        held: set[Item] = set()
        while len(hand) < size:
            place = None
            if repeats or len(held) < different:
                place = next((i for i, card in enumerate(deck) if repeats or card not in held), None)
            if place is None:
                if different < size and not repeats and len(deck) >= len(cards):
                    place = 0
                else:
                    deck += rng.sample(list(cards), len(cards))
                    continue
            hand.append(deck.pop(place))
            held.add(hand[-1])
        dealt.append(hand)
    return dealt


def arranged(mine: list[Item], foreign: list[Item], layout: Layout, rng: random.Random) -> list[Item]:
    """The tiles in their places."""
    tiles = [*mine, *foreign]
    if layout == "random":
        rng.shuffle(tiles)
        return tiles
    left, rest = iter(mine), iter(foreign)
    return [next(left) if place in LAYOUTS[layout] else next(rest) for place in range(len(tiles))]


def assemble(mosaic: Mosaic, side: int, fit: Fit = "crop") -> NDArray[np.uint8]:
    """The mosaic as 8-bit RGB (grid * side, grid * side, 3), or as it is on disk."""
    if mosaic.picture is not None:
        return tile(mosaic.picture, mosaic.grid * side, "squash")
    tiles = [tile(file, side, fit) for file in mosaic.files]
    return join_tiles(tiles, mosaic.grid)


def join_tiles(tiles: Sequence[NDArray[np.uint8]], grid: int) -> NDArray[np.uint8]:
    """Tiles (side, side, 3), row by row, as one picture."""
    side = len(tiles[0])
    shaped = np.stack(tiles).reshape(grid, grid, side, side, 3)
    joined: NDArray[np.uint8] = shaped.swapaxes(1, 2).reshape(grid * side, grid * side, 3)
    return joined


def check_files(mosaics: Sequence[Mosaic], side: int, fit: Fit, progress: Progress = silent) -> str:
    """Read every picture that mosaics are made of once, so that a bad one is named early; a hash of them all."""
    used = {file for mosaic in mosaics for file in ([mosaic.picture] if mosaic.picture else mosaic.files)}
    files = {file: place for place, file in enumerate(sorted(used))}
    for file in files:
        check_picture(file)
    digest = hashlib.sha256()
    for file, place in files.items():
        if place % 20 == 0:
            progress("reading pictures", place, len(files))
        digest.update(tile(file, side, fit).tobytes())
    progress("reading pictures", len(files), len(files))
    for mosaic in mosaics:
        places = [files.get(file) for file in mosaic.files]
        digest.update(f"{mosaic.name} {mosaic.target} {mosaic.labels} {places}".encode())
    return digest.hexdigest()[:16]


def write_mosaics(
    mosaics: Sequence[Mosaic], folder: Path, side: int, fit: Fit = "crop", progress: Progress = silent
) -> Path:
    """PNG files, mosaics.csv in the original's columns, and labels.csv with the names of its label numbers."""
    from PIL import Image

    if (folder / "mosaics.csv").exists():
        raise HeatproofError(f"{folder} holds mosaics already; choose another folder with --out.")
    classes = sorted({label for mosaic in mosaics for label in mosaic.labels})
    numbers = {label: number for number, label in enumerate(classes)}
    tiles = range(len(mosaics[0].files))
    rows = [["filename", *(f"filename_{i}" for i in tiles), *(f"label_{i}" for i in tiles), "target_class"]]
    for done, mosaic in enumerate(mosaics):
        progress("writing mosaics", done, len(mosaics))
        name = f"{mosaic.name}.png"
        picture = Image.fromarray(assemble(mosaic, side, fit))
        with whole(folder / name) as temporary:
            picture.save(temporary, "PNG")
        labels = [str(numbers[label]) for label in mosaic.labels]
        rows.append([name, *(file.name for file in mosaic.files), *labels, str(numbers[mosaic.target])])
    write_csv(folder / "labels.csv", [["label"], *([label] for label in classes)])
    write_csv(folder / "mosaics.csv", rows)
    progress("writing mosaics", len(mosaics), len(mosaics))
    return folder / "mosaics.csv"


def write_csv(path: Path, rows: Sequence[Sequence[str]]) -> None:
    def write(temporary: Path) -> None:
        with temporary.open("w", encoding="utf-8", newline="") as file:
            csv.writer(file).writerows([guarded(cell) for cell in row] for row in rows)

    write_whole(path, write)


def read_mosaics(path: Path) -> list[Mosaic]:
    """Mosaics from a CSV in the original's columns, the pictures beside it.

    A labels.csv beside it (column label) gives the label numbers their names.
    """
    from PIL import Image

    head = read_table(path, ("filename", "target_class", "label_0"))
    count = sum(name.startswith("label_") for name in head[0])
    grid = isqrt(count)
    if grid**2 != count or grid < 2:
        raise HeatproofError(f"{path} has {count} label columns; a mosaic has 4, 9, 16 ... tiles.")
    rows = read_table(path, ("filename", "target_class", *(f"label_{i}" for i in range(count))))
    beside = path.with_name("labels.csv")
    names = [row["label"] for row in read_table(beside, ("label",))] if beside.is_file() else None
    if names and len(set(names)) < len(names):
        raise HeatproofError(f"{beside}: the label {twice(names)!r} is there twice.")
    mosaics: list[Mosaic] = []
    seen: set[str] = set()
    for line, row in enumerate(rows, 2):
        try:
            numbers = [int(row[f"label_{i}"]) for i in range(count)]
            target = int(row["target_class"])
            if min(*numbers, target) < 0:
                raise IndexError(f"{min(*numbers, target)} is below zero")
            labels = [str(number) if names is None else names[number] for number in [*numbers, target]]
        except (ValueError, IndexError) as problem:
            raise HeatproofError(
                f"{path}, line {line}: labels and target_class must be row numbers of labels.csv ({problem})."
            ) from problem
        if target not in numbers:
            raise HeatproofError(f"{path}, line {line}: no tile is of target_class {target}.")
        picture = path.parent / row["filename"]
        if picture.stem in seen:
            raise HeatproofError(f"{path}, line {line}: there is a mosaic called {picture.stem!r} already.")
        seen.add(picture.stem)
        check_picture(picture)
        with Image.open(picture) as image:
            width, height = image.size
        if width % grid or width != height:
            raise HeatproofError(f"{picture} is {width}x{height}: that is not {grid}x{grid} square tiles.")
        files = tuple(Path(row.get(f"filename_{i}") or "") for i in range(count))
        mosaics.append(Mosaic(picture.stem, files, tuple(labels[:-1]), labels[-1], picture))
    return mosaics


def twice(names: Sequence[str]) -> str:
    """The first name that is there a second time."""
    return next(name for place, name in enumerate(names) if name in names[:place])
