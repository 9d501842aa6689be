"""A pure function from a scene to its picture and the objects seen in it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from heatproof.clevr.rendering.checks import check_scene
from heatproof.clevr.rendering.denoise import can_denoise, denoised, require_denoiser
from heatproof.clevr.rendering.tracer import seen_objects, trace_scene
from heatproof.clevr.srgb import encoded
from heatproof.errors import require_whole
from heatproof.lazy import np
from heatproof.seeds import derive_seed

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Picture:
    """8-bit sRGB (height, width, 3), and for each pixel the object seen: 0 none, k = objects[k - 1]."""

    image: NDArray[np.uint8]
    objects: NDArray[np.uint8]


def render(
    scene: Mapping[str, Any],
    width: int = 480,
    height: int = 320,
    *,
    samples: int = 64,
    denoise: bool | None = None,
    threads: int = 1,
) -> Picture:
    """The scene as our path tracer sees it.

    Camera and lamps stand where `scene["_render"]` says, else where CLEVR's stand before they are jittered.
    `denoise=None` denoises where pyoidn is installed. `threads` makes it faster and changes no pixel.
    """
    for name, value, least in (("width", width, 8), ("height", height, 8), ("samples", samples, 1)):
        require_whole(name, value, least)
    if denoise:
        require_denoiser()
    complete = check_scene(scene)
    seed = derive_seed(complete["_render"].get("seed", 0), "clevr picture", complete.get("image_index", 0))
    light, albedo, normals = trace_scene(complete, width, height, samples, seed, threads)
    if denoise or (denoise is None and can_denoise()):
        light = denoised(light, albedo, normals)
    return Picture(encoded(light), seen_objects(complete, width, height))
