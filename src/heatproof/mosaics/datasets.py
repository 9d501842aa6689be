"""The four data sets of the Focus paper, each read in the layout in which it is distributed.

Mosaics are made of held-out pictures, so a reader says which those are: by the data set's own lists, or by a rule of
ours where it has none (Dogs vs. Cats).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from heatproof.errors import HeatproofError, unknown_name
from heatproof.mosaics.pictures import TRAINING, Pictures, checked_classes, from_folders, read_table

Dataset = Literal["dogs-vs-cats", "mame", "mit67", "imagenet"]
HELD_OUT = "val"
"""What the paper's code takes."""
EVERY_FIFTH = 5
"""Dogs vs. Cats comes without a split: pictures whose number divides by this are held out."""

Subsets = Mapping[str, Mapping[str, Sequence[Path]]]
"""Files by subset and class."""


DIGITS = 9
"""Of a number of a picture or an output at most."""


@dataclass(frozen=True)
class Layout:
    """How a data set lies on disk, in words; its reader; and how many mosaics of each class the paper has."""

    words: str
    read: Callable[[Path], Subsets]
    per_class: int = 100


class MissingError(Exception):
    """A folder is not of the layout that it was taken for; says what is not there."""


def with_paper_count(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options of mosaics, with as many of each class as the paper has of the data set if they do not say how many."""
    given = {name: value for name, value in options.items() if value is not None}
    layout = DATASETS.get(given.get("dataset", ""))
    return given if layout is None else {"per_class": layout.per_class, **given}


def held_out_pictures(name: Dataset, place: Path, subset: str | None = None) -> Pictures:
    """The pictures that mosaics are made of: those of a subset other than train, by default `val`."""
    if subset == TRAINING:
        raise HeatproofError(f"mosaics of {name} are made of held-out pictures; choose a subset other than {TRAINING}.")
    return pictures_of(name, place, subset or HELD_OUT)


def pictures_of(name: Dataset, place: Path, subset: str) -> Pictures:
    """The pictures of a subset of the data set, which must have some of each of its classes."""
    found = read_dataset(name, place)
    if subset not in found:
        raise unknown_name(f"subset of {name}", subset, found)
    by_class = found[subset]
    known = sorted({label for each in found.values() for label in each})
    empty = [label for label in known if not by_class.get(label)]
    if empty:
        kind = "training" if subset == TRAINING else "held-out"
        raise HeatproofError(
            f"{place}: class {empty[0]!r} has no {kind} pictures (subset {subset})"
            + f", nor have {len(empty) - 1} other classes" * (len(empty) > 1)
            + "; is the copy complete?"
        )
    return checked_classes(Pictures({label: tuple(sorted(by_class[label])) for label in known}), place)


def read_dataset(name: Dataset, place: Path) -> Subsets:
    """All files of the data set by subset and class; what a folder of another layout misses is said."""
    if name not in DATASETS:
        raise unknown_name("data set", name, DATASETS)
    try:
        if not place.is_dir():
            raise MissingError(f"there is no folder {place}")
        return DATASETS[name].read(place)
    except MissingError as missing:
        known = "; ".join(f"{each}: {layout.words}" for each, layout in DATASETS.items())
        raise HeatproofError(
            f"{place} is not {name} as it is distributed: {missing}. Known layouts: {known}. A folder per class, or a"
            " CSV with filename, label and subset, goes with --images alone."
        ) from missing


def dogs_vs_cats(place: Path) -> Subsets:
    """Kaggle's `train` folder, or the one that it is in."""
    form = re.compile(r"(cat|dog)\.(\d+)\.jpe?g", re.IGNORECASE)
    for folder in (place, place / "train", place / "train" / "train"):
        numbered = [(path, match) for path in listed(folder) if (match := form.fullmatch(path.name))]
        if numbered:
            break
    else:
        raise MissingError("neither it nor its folder train holds a picture called cat.0.jpg, dog.0.jpg ...")
    found: dict[str, dict[str, list[Path]]] = {kind: {"cat": [], "dog": []} for kind in (TRAINING, HELD_OUT)}
    for path, match in numbered:
        kind = TRAINING if int(match[2]) % EVERY_FIFTH else HELD_OUT
        found[kind][match[1].lower()].append(path)
    return found


def mame(place: Path) -> Subsets:
    """MAMe's table of pictures (Image file, Medium, Subset among other columns), and the folder with all of them."""
    table = require_file(place, "MAMe_dataset.csv")
    rows = read_table(table, ("Image file", "Medium", "Subset"))
    folder = folder_with(place, ("data", "data_256", "data_full", "."), rows[0]["Image file"])
    found: dict[str, dict[str, list[Path]]] = {}
    for row in rows:
        files = found.setdefault(row["Subset"].strip(), {}).setdefault(row["Medium"].strip(), [])
        files.append(folder / row["Image file"])
    return found


def mit67(place: Path) -> Subsets:
    """`TestImages.txt` and, if it is there, `TrainImages.txt`, of lines class/file, and the folder `Images`."""
    lists = {HELD_OUT: require_file(place, "TestImages.txt")}
    if (training := find_file(place, "TrainImages.txt")) is not None:
        lists[TRAINING] = training
    found: dict[str, dict[str, list[Path]]] = {}
    for subset, path in lists.items():
        by_class = found.setdefault(subset, {})
        names = lines_of(path)
        folder = folder_with(place, ("Images", "indoorCVPR_09/Images", "."), names[0])
        for number, name in enumerate(names, 1):
            label, _, file = name.partition("/")
            if not file:
                raise HeatproofError(f"{path}, line {number}: {name!r} is not of the form class/file.")
            by_class.setdefault(label, []).append(folder / name)
    return found


def imagenet(place: Path) -> Subsets:
    """The validation pictures in one folder, by number, with one of the usual lists of their classes.

    Classes are WordNet ids, the order of which is that of torchvision's outputs, or numbers of outputs where the list
    has them. Pictures in a folder per WordNet id are taken as they are.
    """
    form = re.compile(r"ILSVRC2012_val_(\d{8})\.JPEG", re.IGNORECASE)
    folders = [place, *(place / name for name in ("val", "ILSVRC2012_img_val", "Data/CLS-LOC/val"))]
    for folder in folders:
        if any(form.fullmatch(path.name) for path in listed(folder)):
            break
        if any(re.fullmatch(r"n\d{8}", path.name) for path in listed(folder)):
            return {HELD_OUT: from_folders(folder).by_class}
    else:
        raise MissingError("neither it nor its folder val holds a picture called ILSVRC2012_val_00000001.JPEG ...")
    labels = imagenet_labels(place)
    found: dict[str, list[Path]] = {label: [] for label in sorted(set(labels.values()))}
    for path in listed(folder):
        if match := form.fullmatch(path.name):
            if int(match[1]) not in labels:
                raise HeatproofError(f"{path} has no line in the list of classes, which has {len(labels)} pictures.")
            found[labels[int(match[1])]].append(path)
    return {HELD_OUT: found}


def imagenet_labels(place: Path) -> dict[int, str]:
    """The class of each validation picture by its number, from whichever list is there."""
    readers: dict[str, Callable[[Path], Iterable[tuple[int, str]]]] = {
        "LOC_val_solution.csv": kaggle_solution,
        "imagenet_2012_validation_synset_labels.txt": lambda path: enumerate(lines_of(path), 1),
        "val.txt": caffe_list,
        "ILSVRC2012_validation_ground_truth.txt": ground_truth,
    }
    for name, read in readers.items():
        if (path := find_file(place, name)) is not None:
            return dict(read(path))
    raise MissingError(f"there is no list of the pictures' classes ({', '.join(readers)})")


def kaggle_solution(path: Path) -> Iterable[tuple[int, str]]:
    """Rows of ImageId and PredictionString, which begins with the WordNet id."""
    for row in read_table(path, ("ImageId", "PredictionString")):
        number, words = picture_number(path, row["ImageId"]), row["PredictionString"].split()
        if not words:
            raise HeatproofError(f"{path}: {row['ImageId']} has no PredictionString.")
        yield number, words[0]


def caffe_list(path: Path) -> Iterable[tuple[int, str]]:
    """Lines of a file name and the number of an output; with leading zeros their order by name is that by number."""
    for number, line in enumerate(lines_of(path), 1):
        name, _, output = line.rpartition(" ")
        if not output.isdecimal() or len(output) > DIGITS:
            raise HeatproofError(f"{path}, line {number}: {line!r} is not a file name and the number of an output.")
        yield picture_number(path, Path(name).stem), f"{int(output):04d}"


def ground_truth(path: Path) -> Iterable[tuple[int, str]]:
    """The development kit's numbers, a line per picture, which its meta.mat translates to WordNet ids.

    They are not the numbers of outputs: the kit counts its classes in another order.
    """
    from scipy.io import loadmat

    meta = find_file(path.parent, "meta.mat")
    if meta is None:
        raise MissingError(f"{path.name} has numbers of the development kit, whose meta.mat must lie beside it")
    try:
        synsets = loadmat(meta, squeeze_me=True)["synsets"]
        wordnet = {int(row["ILSVRC2012_ID"]): str(row["WNID"]) for row in synsets}
    except Exception as problem:  # errors of many kinds, by what the file really is
        raise HeatproofError(
            f"{meta} cannot be read as the development kit's list of classes ({problem})."
        ) from problem
    for number, line in enumerate(lines_of(path), 1):
        if not line.isdecimal() or len(line) > DIGITS or int(line) not in wordnet:
            raise HeatproofError(f"{path}, line {number}: {line!r} is no class of {meta.name}.")
        yield number, wordnet[int(line)]


def picture_number(path: Path, name: str) -> int:
    digits = name.rpartition("_")[2]
    if not digits.isdecimal() or len(digits) > DIGITS:
        raise HeatproofError(f"{path}: {name!r} is no validation picture such as ILSVRC2012_val_00000001.")
    return int(digits)


def listed(folder: Path) -> list[Path]:
    return sorted(folder.iterdir()) if folder.is_dir() else []


def lines_of(path: Path) -> list[str]:
    """The lines that are not empty, without blanks around them."""
    try:
        lines = [line.strip() for line in path.read_text(encoding="utf-8").splitlines()]
    except (OSError, UnicodeDecodeError) as problem:
        raise HeatproofError(f"{path} cannot be read as text: {problem}.") from problem
    if not any(lines):
        raise HeatproofError(f"{path} is empty.")
    return [line for line in lines if line]


def find_file(place: Path, name: str) -> Path | None:
    """The file of that name in the folder, or up to two folders down."""
    return next((path for pattern in (name, f"*/{name}", f"*/*/{name}") for path in sorted(place.glob(pattern))), None)


def require_file(place: Path, name: str) -> Path:
    found = find_file(place, name)
    if found is None:
        raise MissingError(f"there is no {name} in it")
    return found


def folder_with(place: Path, names: Sequence[str], picture: str) -> Path:
    """The first of these folders of the data set that there is with this picture."""
    for name in names:
        if (place / name / picture).is_file():
            return place / name
    raise MissingError(f"the picture {picture} of its list is in none of its folders {', '.join(names)}")


DATASETS: dict[str, Layout] = {
    "dogs-vs-cats": Layout("a folder of cat.0.jpg ... and dog.0.jpg ...", dogs_vs_cats),
    "mame": Layout("MAMe_dataset.csv with Image file, Medium and Subset, and the pictures in data or data_256", mame),
    "mit67": Layout("TestImages.txt with lines class/file, and the pictures in Images", mit67),
    "imagenet": Layout("ILSVRC2012_val_00000001.JPEG ... in one folder, and a list of their classes", imagenet, 10),
}
