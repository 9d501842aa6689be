"""CLEVR scenes (Johnson et al. 2017), sampled by the rules of the original generator.

A scene depends on (seed, index, least and most objects) only: not on the picture's size, other scenes or the processor.
Three things of the original are kept on purpose: `directions` are those of the camera before it is jittered; the
rotation is drawn in degrees and used in radians; cubes are not shrunk by sqrt 2.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypedDict, TypeVar

from heatproof.clevr.rendering import world
from heatproof.clevr.rendering.camera import Camera
from heatproof.clevr.srgb import linear
from heatproof.errors import HeatproofError, require_whole
from heatproof.lazy import np
from heatproof.seeds import derive_seed

if TYPE_CHECKING:
    from numpy.typing import NDArray

Value = TypeVar("Value")
Point = tuple[float, float, float]

HALF_FIELD = 3.0
"""Objects stand within this distance of the middle, along both axes."""
MIN_GAP = 0.25
"""Least distance between two objects."""
MIN_MARGIN = 0.4
"""Least distance between two objects along the directions left and behind."""
RELATION_MARGIN = 0.2
MIN_VISIBLE = 200
"""Pixels of each object, and of the background, that must be seen at JUDGED_SIZE."""
JUDGED_SIZE = (480, 320)
PLACE_TRIES = 50
SCENE_TRIES = 20_000
BACKGROUND = (64, 64, 64)
"""Colour of the mask picture where no object is."""

DIRECTIONS: dict[str, Point] = {
    "behind": (-0.754490315914154, 0.6563112735748291, 0.0),
    "front": (0.754490315914154, -0.6563112735748291, -0.0),
    "left": (-0.6563112735748291, -0.7544902563095093, 0.0),
    "right": (0.6563112735748291, 0.7544902563095093, -0.0),
    "above": (0.0, 0.0, 1.0),
    "below": (-0.0, -0.0, -1.0),
}
RELATIONS = ("left", "right", "front", "behind")
MOST_OBJECTS = 1 + int(2 * HALF_FIELD * (abs(DIRECTIONS["left"][0]) + abs(DIRECTIONS["left"][1])) / MIN_MARGIN)
"""No more can stand MIN_MARGIN apart from left to right."""

SceneObject = TypedDict(
    "SceneObject",
    {
        "shape": str,
        "size": str,
        "material": str,
        "3d_coords": list[float],
        "rotation": float,
        "pixel_coords": list[float],
        "color": str,
        "mask_color": list[float],
    },
)


class Scene(TypedDict):
    """A scene as in CLEVR's JSON; `_render` holds where camera and lamps stand, the picture's size and the seed."""

    split: str
    image_index: int
    image_filename: str
    mask_filename: str
    objects: list[SceneObject]
    directions: dict[str, list[float]]
    relationships: dict[str, list[list[int]]]
    _render: dict[str, Any]


@dataclass(frozen=True)
class SceneSettings:
    """What scenes are sampled from."""

    seed: int = 0
    split: str = "new"
    min_objects: int = 3
    max_objects: int = 10
    width: int = 480
    height: int = 320

    def __post_init__(self) -> None:
        require_whole("seed", self.seed, 0)
        require_whole("min-objects", self.min_objects, 1)
        require_whole("max-objects", self.max_objects, 1)
        require_whole("width", self.width, 8)
        require_whole("height", self.height, 8)
        if self.min_objects > self.max_objects:
            raise HeatproofError(f"min-objects is {self.min_objects}, above max-objects, which is {self.max_objects}.")
        if self.max_objects > MOST_OBJECTS:
            raise HeatproofError(
                f"a scene of {self.max_objects} objects cannot be placed: no more than {MOST_OBJECTS} can stand "
                f"{MIN_MARGIN} apart. Lower max-objects; CLEVR has 3 to 10."
            )
        if not self.split or not self.split.replace("-", "").replace("_", "").isalnum():
            raise HeatproofError(f"split {self.split!r} becomes part of file names: use letters, digits, - and _.")


def image_name(split: str, index: int) -> str:
    """The name of a picture, without its ending."""
    return f"CLEVR_{split}_{index:06d}"


def sample_scene(settings: SceneSettings, index: int) -> Scene:
    """Scene number `index`."""
    rng = random.Random(derive_seed(settings.seed, "clevr scene", index))
    count = settings.min_objects + int(rng.random() * (settings.max_objects - settings.min_objects + 1))
    stands = {"camera": jittered(world.CAMERA, world.CAMERA_JITTER, rng)}
    stands |= {name: jittered(place, world.LAMP_JITTER, rng) for name, place in world.LAMPS.items()}
    for _ in range(SCENE_TRIES):
        objects = place_objects(count, rng)
        if objects is not None and all_visible(objects, stands):
            break
    else:
        raise HeatproofError(
            f"scene {index}: {count} objects could not be placed in {SCENE_TRIES:,} attempts. "
            "Lower max-objects; CLEVR has 3 to 10."
        )
    camera = Camera(stands["camera"], settings.width, settings.height)
    for thing, pixel in zip(objects, camera.project(np.array([o["3d_coords"] for o in objects])), strict=True):
        thing["pixel_coords"] = [round(float(pixel[0])), round(float(pixel[1])), float(pixel[2])]
    for thing, colour in zip(objects, mask_colours(count, rng), strict=True):
        thing["mask_color"] = [linear(value) for value in colour]
    name = image_name(settings.split, index) + ".png"
    return {
        "split": settings.split,
        "image_index": index,
        "image_filename": name,
        "mask_filename": name,
        "objects": objects,
        "directions": {direction: list(vector) for direction, vector in DIRECTIONS.items()},
        "relationships": relationships([thing["3d_coords"] for thing in objects]),
        "_render": {name: list(place) for name, place in stands.items()}
        | {"width": settings.width, "height": settings.height, "seed": settings.seed},
    }


def jittered(place: Point, most: float, rng: random.Random) -> Point:
    """`place` moved by at most `most` along each axis."""
    x, y, z = (value + most * (2 * rng.random() - 1) for value in place)
    return x, y, z


def pick(values: Sequence[Value], rng: random.Random) -> Value:
    return values[int(rng.random() * len(values))]


def place_objects(count: int, rng: random.Random) -> list[SceneObject] | None:
    """Objects on the field, or None where one of them found no place."""
    objects: list[SceneObject] = []
    placed: list[Point] = []
    for _ in range(count):
        size = pick(tuple(world.SIZES), rng)
        radius = world.SIZES[size]
        for _ in range(PLACE_TRIES):
            x, y = (HALF_FIELD * (2 * rng.random() - 1) for _ in range(2))
            if is_free(x, y, radius, placed):
                break
        else:
            return None
        placed.append((x, y, radius))
        shape, colour = pick(world.SHAPES, rng), pick(tuple(world.COLOURS), rng)
        rotation = 360.0 * rng.random()
        objects.append(
            {
                "shape": shape,
                "size": size,
                "material": pick(world.MATERIALS, rng),
                "3d_coords": [x, y, radius],
                "rotation": rotation,
                "pixel_coords": [],
                "color": colour,
                "mask_color": [],
            }
        )
    return objects


def is_free(x: float, y: float, radius: float, placed: Sequence[Point]) -> bool:
    """Whether an object there keeps its distance from those placed before it."""
    left_x, left_y, _ = DIRECTIONS["left"]
    behind_x, behind_y, _ = DIRECTIONS["behind"]
    for other_x, other_y, other_radius in placed:
        dx, dy = x - other_x, y - other_y
        if (
            dx * dx + dy * dy < (radius + other_radius + MIN_GAP) ** 2
            or 0 < abs(dx * left_x + dy * left_y) < MIN_MARGIN
            or 0 < abs(dx * behind_x + dy * behind_y) < MIN_MARGIN
        ):
            return False
    return True


def all_visible(objects: Sequence[SceneObject], stands: dict[str, Point]) -> bool:
    """Whether enough pixels are seen of every object, and of the background."""
    from heatproof.clevr.rendering.tracer import seen_objects

    seen = seen_objects({"objects": objects, "_render": stands}, *JUDGED_SIZE)
    return bool(np.bincount(seen.ravel(), minlength=len(objects) + 1).min() >= MIN_VISIBLE)


def relationships(places: Sequence[Sequence[float]]) -> dict[str, list[list[int]]]:
    """For each relation and each object, the objects that stand in that relation to it."""
    points = np.asarray(places, dtype=np.float64).reshape(-1, 3)
    x, y, z = np.moveaxis(points[None] - points[:, None], 2, 0)
    found = {}
    for name in RELATIONS:
        towards = DIRECTIONS[name]
        lines: NDArray[np.bool_] = x * towards[0] + y * towards[1] + z * towards[2] > RELATION_MARGIN
        found[name] = [np.flatnonzero(line).tolist() for line in lines]
    return found


def mask_colours(count: int, rng: random.Random) -> list[tuple[int, int, int]]:
    """8-bit colours that are easy to tell from each other and from the background."""
    chosen = [BACKGROUND]
    while len(chosen) <= count:
        red, green, blue = (int(rng.random() * 256) for _ in range(3))
        if all(max(abs(red - r), abs(green - g), abs(blue - b)) >= 24 for r, g, b in chosen):
            chosen.append((red, green, blue))
    return chosen[1:]
