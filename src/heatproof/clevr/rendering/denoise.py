"""Intel's Open Image Denoise, where `pyoidn` is installed."""

from __future__ import annotations

import sys
from functools import cache
from importlib.util import find_spec
from types import ModuleType
from typing import TYPE_CHECKING, Any

from heatproof.errors import HeatproofError
from heatproof.lazy import np

if TYPE_CHECKING:
    from numpy.typing import NDArray

FLOAT3 = 3
HIGH_QUALITY = 6


def can_denoise() -> bool:
    return find_spec("pyoidn") is not None


def require_denoiser() -> None:
    if not can_denoise():
        raise HeatproofError("denoising needs the package pyoidn: pip install pyoidn, or render with --no-denoise.")


def denoised(
    light: NDArray[np.float32], albedo: NDArray[np.float32], normals: NDArray[np.float32]
) -> NDArray[np.float32]:
    """`light` without noise; surface colours and normals tell the denoiser where edges are."""
    require_denoiser()
    pyoidn, device = denoiser()
    result = np.empty_like(light)
    images = {"color": light, "albedo": albedo, "normal": normals, "output": result}
    with pyoidn.Filter(device, "RT") as denoise:
        for name, image in images.items():
            denoise.set_image(name, np.ascontiguousarray(image), FLOAT3)
        denoise.set_bool("hdr", True)
        denoise.set_quality(HIGH_QUALITY)
        denoise.commit()
        denoise.execute()
    problem = device.get_error()
    if problem:
        raise HeatproofError(f"the denoiser failed: {problem}. Render with --no-denoise.")
    return result


@cache
def denoiser() -> tuple[ModuleType, Any]:
    """pyoidn, and a device of one thread: several pictures are rendered side by side, and results stay the same."""
    pyoidn = import_without_torch()
    device = pyoidn.Device()
    device.set_int("numThreads", 1)
    device.set_bool("setAffinity", False)
    device.commit()
    return pyoidn, device


def import_without_torch() -> Any:
    """pyoidn imports torch where it can, which costs seconds and is of no use here."""
    absent = "torch" not in sys.modules
    if absent:
        sys.modules["torch"] = None  # type: ignore[assignment]
    try:
        import pyoidn
    finally:
        if absent:
            del sys.modules["torch"]
    return pyoidn
