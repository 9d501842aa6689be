"""Which object each position of a small picture belongs to, from the ids of a large one: every position to one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from heatproof.lazy import np

if TYPE_CHECKING:
    from numpy.typing import NDArray


def object_regions(ids: NDArray[np.uint8], objects: int, height: int, width: int) -> NDArray[np.uint8]:
    """For each position (height, width) 0 for none, k for object k - 1: the one that covers most of it.

    Covered means by Pillow's bilinear filter, as in CLEVR-XAI's masks; so the regions of all objects together are the
    mask of all objects exactly. Of two that cover it alike, the first.
    """
    from PIL import Image

    if ids.shape == (height, width):
        return ids
    covered = np.zeros((objects + 1, height, width), dtype=np.float32)
    for place in range(1, objects + 1):
        plane = Image.fromarray((ids == place).astype(np.float32))
        covered[place] = np.asarray(plane.resize((width, height), Image.Resampling.BILINEAR))
    found: NDArray[np.uint8] = covered.argmax(0).astype(
        np.uint8
    )  # the background covers nothing: 0 only where no one is
    return found
