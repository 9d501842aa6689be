"""The pictures that ship with Focus: single objects from our own tracer, class = material and shape.

`heatproof focus objects` renders them again; training pictures are never shipped, only rendered.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from heatproof.clevr.rendering import world
from heatproof.lazy import np
from heatproof.progress import Progress, silent
from heatproof.seeds import derive_seed
from heatproof.workspace import whole, workspace, write_whole

if TYPE_CHECKING:
    from numpy.typing import NDArray

CLASSES = {f"{material}_{shape}": (shape, material) for material in world.MATERIALS for shape in world.SHAPES}
SIDE = 64
SAMPLES = 16
SHIPPED = 40
"""Pictures of each class in the package."""
SHEET, MASK_SHEET = "objects.png", "object_masks.png"


@dataclass(frozen=True)
class Look:
    """The colour of an object, and whether a small yellow metal sphere stands beside it."""

    colour: str
    companion: bool = False


Looks = Callable[[str, random.Random], Look]
"""From a class and a random stream to the look of an object."""


def any_colour(_label: str, rng: random.Random) -> Look:
    return Look(rng.choice(list(world.COLOURS)))


def object_scene(label: str, split: str, number: int, seed: int = 0, looks: Looks = any_colour) -> dict[str, Any]:
    """One large object in front of a camera that stands close; place, turn, colour, camera and lamps are drawn."""
    rng = random.Random(derive_seed(seed, "focus object", split, label, number))
    shape, material = CLASSES[label]
    near = 0.38 + 0.12 * rng.random()
    camera = [near * (place + 0.8 * (2 * rng.random() - 1)) for place in world.CAMERA]
    lamps = {name: [place + 2 * rng.random() - 1 for place in lamp] for name, lamp in world.LAMPS.items()}
    # Towards the camera, so that the object stands in the middle of the picture.
    x, y = (place / 9 + 0.3 * (2 * rng.random() - 1) for place in world.CAMERA[:2])
    look = looks(label, rng)
    things = [one_object(shape, material, "large", look.colour, x, y, 360 * rng.random())]
    if look.companion:
        # In front of the object, to its left or right.
        side = rng.choice((-1, 1))
        east, south = (place / 10 for place in world.CAMERA[:2])
        place = (x + 0.7 * east - 0.7 * side * south, y + 0.7 * south + 0.7 * side * east)
        things.append(one_object("sphere", "metal", "small", "yellow", *place, 0.0))
    render = {"camera": camera, "seed": derive_seed(seed, split, label)} | lamps
    return {"objects": things, "image_index": number, "_render": render}


def one_object(shape: str, material: str, size: str, colour: str, x: float, y: float, turn: float) -> dict[str, Any]:
    kind = {"shape": shape, "material": material, "size": size, "color": colour}
    return kind | {"3d_coords": [x, y, world.SIZES[size]], "rotation": turn}


def render_objects(
    split: str,
    per_class: int,
    *,
    side: int = SIDE,
    samples: int = SAMPLES,
    seed: int = 0,
    looks: Looks = any_colour,
    classes: Sequence[str] = tuple(CLASSES),
    denoise: bool | None = None,
    progress: Progress = silent,
) -> dict[str, NDArray[np.uint8]]:
    """`per_class` pictures (N, side, side, 3) of each class. Pictures of different splits have nothing in common."""
    from heatproof.clevr.rendering.picture import render

    wide = side * 3 // 2  # the camera's view; its middle is square
    margin = (wide - side) // 2
    found: dict[str, NDArray[np.uint8]] = {}
    for place, label in enumerate(classes):
        made = []
        for number in range(per_class):
            progress(f"rendering pictures: {split}", place * per_class + number, len(classes) * per_class)
            scene = object_scene(label, split, number, seed, looks)
            picture = render(scene, wide, side, samples=samples, denoise=denoise).image
            made.append(picture[:, margin : margin + side])
        found[label] = np.stack(made)
    progress(f"rendering pictures: {split}", 1, 1)
    return found


def object_masks(
    split: str,
    per_class: int,
    *,
    side: int = SIDE,
    seed: int = 0,
    looks: Looks = any_colour,
    classes: Sequence[str] = tuple(CLASSES),
) -> dict[str, NDArray[np.uint8]]:
    """Where the object of each picture of `render_objects` is seen (N, side, side): 255 there, 0 elsewhere."""
    from heatproof.clevr.rendering.checks import check_scene
    from heatproof.clevr.rendering.tracer import seen_objects

    wide = side * 3 // 2
    margin = (wide - side) // 2
    return {
        label: np.stack(
            [
                255 * (seen_objects(check_scene(object_scene(label, split, number, seed, looks)), wide, side) == 1)
                for number in range(per_class)
            ]
        )[:, :, margin : margin + side].astype(np.uint8)
        for label in classes
    }


def write_pictures(pictures: Mapping[str, NDArray[np.uint8]], folder: Path) -> None:
    """A folder per class with a PNG per picture."""
    from PIL import Image

    for label, stack in pictures.items():
        for number, pixels in enumerate(stack):
            image = Image.fromarray(pixels)
            with whole(folder / label / f"{number:04d}.png") as temporary:
                image.save(temporary, "PNG")


def write_sheet(pictures: Mapping[str, NDArray[np.uint8]], path: Path) -> None:
    """All pictures as one, a row per class: how those of the package are kept."""
    from PIL import Image

    rows = [np.concatenate(list(stack), axis=1) for stack in pictures.values()]
    sheet = Image.fromarray(np.concatenate(rows))
    write_whole(path, lambda temporary: sheet.save(temporary, "PNG", optimize=True))


def read_sheet(name: str = SHEET) -> dict[str, NDArray[np.uint8]]:
    """The shipped pictures by class, or their masks."""
    from PIL import Image

    with resources.files("heatproof.clevr").joinpath(name).open("rb") as file, Image.open(file) as sheet:
        pixels = np.asarray(sheet.convert("RGB" if name == SHEET else "L"))
    stacks = pixels.reshape(len(CLASSES), SIDE, -1, SIDE, *pixels.shape[2:]).swapaxes(1, 2)
    return dict(zip(CLASSES, stacks, strict=True))


def shipped_pictures() -> Path:
    """The shipped pictures as files: a folder per class, in the cache folder."""
    sheet = resources.files("heatproof.clevr").joinpath(SHEET).read_bytes()
    folder = workspace("focus", f"objects-{derive_seed(sheet) % 16**8:08x}")
    if not (folder / ".whole").exists():
        write_pictures(read_sheet(), folder)
        write_whole(folder / ".whole", lambda temporary: temporary.touch())
    return folder
