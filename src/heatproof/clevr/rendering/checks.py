"""Is this a scene that can be rendered? If not, which field is wrong?"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from heatproof.clevr.rendering import world
from heatproof.errors import HeatproofError

MOST_OBJECTS = 62
"""The tracer keeps sets of objects as bits of one machine word."""
NEAREST = 1e-6
"""What points at the origin from nearer than this to the axis through it has no upright."""
ATTRIBUTES = {
    "shape": world.SHAPES,
    "size": tuple(world.SIZES),
    "material": world.MATERIALS,
    "color": tuple(world.COLOURS),
}


def check_scene(scene: Mapping[str, Any]) -> dict[str, Any]:
    """The scene, with camera and lamps where the JSON does not say where they stand; an error if it is not one."""
    name = scene.get("image_filename", "scene") if isinstance(scene, Mapping) else "scene"
    if not isinstance(scene, Mapping) or not isinstance(scene.get("objects"), list):
        raise HeatproofError(f"{name}: not a CLEVR scene, there is no list 'objects'.")
    if len(scene["objects"]) > MOST_OBJECTS:
        raise HeatproofError(f"{name}: {len(scene['objects'])} objects; the tracer renders at most {MOST_OBJECTS}.")
    for number, thing in enumerate(scene["objects"]):
        where = f"{name}: objects[{number}]"
        if not isinstance(thing, Mapping):
            raise HeatproofError(f"{where} is not an object with fields.")
        for field, known in ATTRIBUTES.items():
            if thing.get(field) not in known:
                raise HeatproofError(f"{where}.{field} is {thing.get(field)!r}; known: {', '.join(known)}.")
        check_numbers(f"{where}.3d_coords", thing.get("3d_coords"), 3)
        check_numbers(f"{where}.rotation", [thing.get("rotation")], 1)
    stands = scene.get("_render", {})
    if not isinstance(stands, Mapping):
        raise HeatproofError(f"{name}: _render is not an object with fields.")
    usual = {"camera": world.CAMERA} | world.LAMPS
    for field in usual:
        if field in stands:
            check_numbers(f"{name}: _render.{field}", stands[field], 3)
            if math.hypot(*stands[field][:2]) < NEAREST:
                raise HeatproofError(
                    f"{name}: _render.{field} is {stands[field]!r}, straight above, below or at the origin, at which it"
                    " points; move it aside."
                )
    return dict(scene) | {"_render": usual | dict(stands)}


def check_numbers(where: str, values: Any, count: int) -> None:
    ok = isinstance(values, list | tuple) and len(values) == count
    if not ok or not all(type(value) in (int, float) and math.isfinite(value) for value in values):
        raise HeatproofError(f"{where} must be {count} finite number{'s' * (count > 1)}, got {values!r}.")
