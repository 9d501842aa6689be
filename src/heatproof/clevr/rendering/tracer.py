"""Our path tracer: scene in, picture out. A picture depends on (seed, index, size, samples) only."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from heatproof.clevr.rendering.checks import check_scene
from heatproof.lazy import np

if TYPE_CHECKING:
    from numpy.typing import NDArray

VERTICES = 4
"""Light is followed over this many surfaces; a fifth changes no pixel by a grey level."""


def seen_objects(scene: Mapping[str, Any], width: int, height: int) -> NDArray[np.uint8]:
    """Which object is seen at the centre of each pixel (height, width): 0 none, k = objects[k - 1]."""
    from heatproof.clevr.rendering.kernels import object_ids
    from heatproof.clevr.rendering.packing import pack

    return object_ids(width, height, pack(scene, width, height))


def trace_scene(
    scene: Mapping[str, Any], width: int, height: int, samples: int, seed: int, threads: int = 1
) -> tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.float32]]:
    """Linear light, surface colours and normals, each (height, width, 3).

    Bands of rows are traced side by side; every pixel has its own random stream, so `threads` changes nothing else.
    """
    from concurrent.futures import ThreadPoolExecutor

    from heatproof.clevr.rendering.kernels import trace
    from heatproof.clevr.rendering.packing import pack

    packed = pack(scene, width, height)
    rows = 16 if threads > 1 else height

    def band(first: int) -> Any:
        return trace(first, min(first + rows, height), width, height, samples, VERTICES, seed, packed)

    with ThreadPoolExecutor(threads) as pool:
        bands = list(pool.map(band, range(0, height, rows)))
    light, albedo, normals = np.concatenate(bands, axis=1)
    return light, albedo, normals


def warm_up(pictures: bool = True) -> None:
    """Compile the kernels, or load them from Numba's cache; takes some 20 seconds the first time."""
    scene = check_scene({"objects": []})
    seen_objects(scene, 8, 8)
    if pictures:
        trace_scene(scene, 8, 8, 1, 0)
