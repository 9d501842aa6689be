"""From a scene as in CLEVR's JSON to the arrays that the kernels read."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from heatproof.clevr.rendering import world
from heatproof.clevr.rendering.camera import HALF_VIEW, Camera, axes_towards_origin, unit
from heatproof.clevr.rendering.kernels import World
from heatproof.exact import cos_sin

if TYPE_CHECKING:
    from numpy.typing import NDArray

FILTER_WIDTH = 1.5
"""Width in pixels of the Blackman-Harris filter, as Blender has it."""


def pack(scene: Mapping[str, Any], width: int, height: int) -> World:
    """The scene at the size of its picture."""
    objects, jittered = scene["objects"], scene["_render"]
    centres = np.array([thing["3d_coords"] for thing in objects], dtype=np.float64).reshape(-1, 3)
    radius = np.array([world.SIZES[thing["size"]] for thing in objects], dtype=np.float64)
    shapes = [thing["shape"] for thing in objects]
    squares = {"cube": 3.0, "sphere": 1.0, "cylinder": 2.0}
    bounds = np.vstack([centres.T, radius**2 * [squares[shape] for shape in shapes]])
    # The rotation is drawn in degrees and used in radians, as in the original.
    rotation = np.array([thing["rotation"] for thing in objects], dtype=np.float64)
    camera = Camera(tuple(jittered["camera"]), width, height)
    lamps = [jittered[name] for name in world.LAMPS]
    frames = [np.vstack([place, lamp_axes(place)]) for place in lamps]
    sun = unit(np.array(world.SUN_DIRECTION))
    frames.append(np.vstack([sun, lamp_axes(sun)]))
    packed = World(
        bounds=bounds,
        radius=radius,
        turn=np.stack(cos_sin(rotation), axis=1),
        rounding=radius * [world.EDGE_ROUNDING.get(shape, 0.0) for shape in shapes],
        shape=np.array([world.SHAPES.index(shape) for shape in shapes], dtype=np.int64),
        material=np.array([1 + world.MATERIALS.index(thing["material"]) for thing in objects], dtype=np.int64),
        colour=np.array([world.COLOURS[thing["color"]] for thing in objects], dtype=np.float64).reshape(-1, 3) / 255,
        lamp_frame=np.array(frames),
        lamp_light=np.array([*(world.LAMP_LIGHT[name] for name in world.LAMPS), [world.SUN_STRENGTH] * 3]),
        lamp_side=np.array([*(world.LAMP_SIDE[name] for name in world.LAMPS), world.SUN_RADIUS]),
        lamp_choice=np.array([world.LAMP_CHOICE[name] for name in (*world.LAMPS, "sun")]),
        backdrop=np.transpose(world.BACKDROP),
        ground=np.array([*world.BACKDROP_AXIS, world.BACKDROP_HALF_WIDTH, world.BACKDROP_BEGIN, world.BACKDROP_GREY]),
        camera=np.vstack([camera.place, camera.axes.T, [*HALF_VIEW, 0.0]]),
        windows=windows(camera, centres, radius),
        pixel_filter=pixel_filter(),
    )
    return World._make(map(np.ascontiguousarray, packed))  # one layout, so that Numba compiles once


def lamp_axes(place: NDArray[np.float64]) -> NDArray[np.float64]:
    """Rows: across, up, and the direction in which a lamp at `place` shines."""
    axes = axes_towards_origin(place)
    return np.stack([axes[:, 0], axes[:, 1], -axes[:, 2]])


def windows(camera: Camera, centres: NDArray[np.float64], radius: NDArray[np.float64]) -> NDArray[np.int64]:
    """The pixels (x0, x1, y0, y1; ends excluded) that an upright box around each object covers."""
    corners = np.array([(x, y, z) for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)]) * (2**0.5, 2**0.5, 1.0)
    found = []
    for centre, r in zip(centres, radius, strict=True):
        pixels = camera.project(centre + r * corners)[:, :2]
        low, high = np.floor(pixels.min(0)) - 2, np.ceil(pixels.max(0)) + 2
        found.append((low[0], high[0], low[1], high[1]))
    return np.array(found, dtype=np.int64).reshape(-1, 4)


@cache
def pixel_filter() -> NDArray[np.float64]:
    """Offsets from a pixel's centre at evenly spaced shares of the filter's weight."""
    offsets = np.linspace(-FILTER_WIDTH / 2, FILTER_WIDTH / 2, 2001)
    angle = 2 * np.pi * (offsets / FILTER_WIDTH + 0.5)
    once, twice, thrice = (cos_sin(times * angle)[0] for times in (1, 2, 3))
    weight = 0.35875 - 0.48829 * once + 0.14128 * twice - 0.01168 * thrice
    below = np.concatenate([[0.0], np.cumsum((weight[1:] + weight[:-1]) / 2)])
    return np.interp(np.linspace(0, 1, 257), below / below[-1], offsets)
