"""Slow, literal versions of what the tracer does, by other means: distance fields, quadrature, textbook formulas."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from heatproof.clevr.rendering import world

Floats = NDArray[np.float64]


def view_rays(place: Any, width: int, height: int) -> tuple[Floats, Floats]:
    """The camera's place and directions (height, width, 3) through the pixels' centres; 35 mm lens, 32 mm sensor."""
    eye = np.array(place, dtype=float)
    ahead = -eye / np.linalg.norm(eye)
    right = np.cross(ahead, [0, 0, 1])
    right /= np.linalg.norm(right)
    up = np.cross(right, ahead)
    sensor_height = 32 * 2 / 3
    across = ((np.arange(width) + 0.5) / width - 0.5) * 32
    down = ((np.arange(height) + 0.5) / height - 0.5) * sensor_height
    rays = 35 * ahead + across[None, :, None] * right - down[:, None, None] * up
    return eye, rays / np.linalg.norm(rays, axis=-1, keepdims=True)


def distance_to(thing: dict[str, Any], points: Floats) -> Floats:
    """Signed distance from points (..., 3) to an object."""
    radius = world.SIZES[thing["size"]]
    local = points - np.array(thing["3d_coords"])
    if thing["shape"] == "sphere":
        return np.linalg.norm(local, axis=-1) - radius
    angle = thing["rotation"]
    x = np.cos(angle) * local[..., 0] + np.sin(angle) * local[..., 1]
    y = np.cos(angle) * local[..., 1] - np.sin(angle) * local[..., 0]
    z = local[..., 2]
    edge = world.EDGE_ROUNDING[thing["shape"]] * radius
    if thing["shape"] == "cube":
        beyond = np.stack([np.abs(x), np.abs(y), np.abs(z)], axis=-1) - (radius - edge)
    else:
        beyond = np.stack([np.hypot(x, y), np.abs(z)], axis=-1) - (radius - edge)
    return np.linalg.norm(np.maximum(beyond, 0), axis=-1) + np.minimum(beyond.max(-1), 0) - edge


def height_above_backdrop(points: Floats) -> Floats:
    along, height = np.transpose(world.BACKDROP)
    return points[..., 2] - np.interp(points[..., :2] @ np.array(world.BACKDROP_AXIS), along, height)


def objects_seen(scene: dict[str, Any], width: int, height: int) -> NDArray[np.int64]:
    """The id buffer, by walking every ray until it touches something."""
    eye, rays = view_rays(scene["_render"]["camera"], width, height)
    travelled = np.full((height, width), 4.0)
    seen = np.zeros((height, width), dtype=np.int64)
    for _ in range(400):
        points = eye + travelled[..., None] * rays
        gaps = np.stack([distance_to(thing, points) for thing in scene["objects"]])
        nearest = gaps.min(0)
        ground = height_above_backdrop(points)
        seen = np.where((seen == 0) & (nearest < 1e-4) & (ground > 0), gaps.argmin(0) + 1, seen)
        walking = (seen == 0) & (ground > 0) & (travelled < 30)
        travelled = np.where(walking, travelled + np.clip(nearest, 1e-4, 0.5), travelled)
    return seen


def lit_ground(points: Floats, lamps: dict[str, Any], cells: int = 40) -> Floats:
    """Light (N, 3) that flat grey ground sends back, lit by lamps and sun unhindered: sums over their surfaces."""
    total = np.zeros((len(points), 3))
    for name in world.LAMPS:
        centre, side = np.array(lamps[name]), world.LAMP_SIDE[name]
        facing = -centre / np.linalg.norm(centre)
        right = np.cross(facing, [0, 0, 1])
        right /= np.linalg.norm(right)
        up = np.cross(right, facing)
        offsets = ((np.arange(cells) + 0.5) / cells - 0.5) * side
        spots = centre + offsets[:, None, None] * right + offsets[None, :, None] * up
        way = spots.reshape(-1, 3)[None] - points[:, None]
        square = (way**2).sum(-1)
        way /= np.sqrt(square)[..., None]
        solid = np.maximum(-(way @ facing), 0) * (side / cells) ** 2 / square
        total += (np.maximum(way[..., 2], 0) * solid).sum(1)[:, None] * np.array(world.LAMP_LIGHT[name])
    sun = np.array(world.SUN_DIRECTION) / np.linalg.norm(world.SUN_DIRECTION)
    total += sun[2] * world.SUN_STRENGTH
    return total * world.BACKDROP_GREY / np.pi


def fresnel(cosine: float, index: float) -> float:
    """Mean of the two polarisations, by Snell's law."""
    inside = np.sqrt(1 - (1 - cosine**2) / index**2)
    across = (cosine - index * inside) / (cosine + index * inside)
    along = (inside - index * cosine) / (inside + index * cosine)
    return float((across**2 + along**2) / 2)


def object_masks(mask: NDArray[np.uint8], scene: dict[str, Any]) -> list[NDArray[np.bool_]]:
    """Which pixels belong to which object, read from a mask picture by CLEVR-XAI's rule, literally."""
    pixels = mask[:, :, :3]
    colours = {tuple(int(v) for v in colour) for colour in pixels.reshape(-1, 3)}
    assert (64, 64, 64) in colours
    colours.remove((64, 64, 64))
    shares = {colour: [c / 255 for c in colour] for colour in colours}
    linear = {
        colour: np.array([((c + 0.055) / 1.055) ** 2.4 if c >= 0.0404482362771082 else c / 12.92 for c in share])
        for colour, share in shares.items()
    }
    matched = [
        min(linear, key=lambda colour: float(np.linalg.norm(linear[colour] - np.array(thing["mask_color"]))))
        for thing in scene["objects"]
    ]
    assert len(set(matched)) == len(matched) == len(colours)
    return [(pixels == colour).all(-1) for colour in matched]
