"""The pictures that ship: each object of Focus's in a field of four, the others of other classes, and where it is."""

from __future__ import annotations

import random
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

from heatproof.clevr.objects import MASK_SHEET, SHEET, SIDE, read_sheet
from heatproof.lazy import np
from heatproof.mosaics.mosaics import join_tiles
from heatproof.seeds import derive_seed
from heatproof.workspace import whole, workspace, write_whole

if TYPE_CHECKING:
    from numpy.typing import NDArray

FIELD = 2 * SIDE
"""Side of a picture."""


def shipped_fields() -> tuple[Path, Path]:
    """The folders of pictures and of masks, a folder per class each, in the cache folder; made once."""
    sheets = [resources.files("heatproof.clevr").joinpath(name).read_bytes() for name in (SHEET, MASK_SHEET)]
    folder = workspace("masks", f"fields-{derive_seed(*sheets) % 16**8:08x}")
    if not (folder / ".whole").exists():
        from PIL import Image

        for label, number, pixels, mask in make_fields():
            for kind, array in (("images", pixels), ("masks", mask)):
                with whole(folder / kind / label / f"{number:04d}.png") as temporary:
                    Image.fromarray(array).save(temporary, "PNG")
        write_whole(folder / ".whole", lambda temporary: temporary.touch())
    return folder / "images", folder / "masks"


def make_fields() -> list[tuple[str, int, NDArray[np.uint8], NDArray[np.uint8]]]:
    """Class, number, picture and mask of every field: each object that ships is the one that is looked for, once."""
    pictures, masks = read_sheet(), read_sheet(MASK_SHEET)
    found = []
    for label, stack in pictures.items():
        for number in range(len(stack)):
            rng = random.Random(derive_seed("field", label, number))
            others = rng.sample([other for other in pictures if other != label], 3)
            tiles = [(stack[number], masks[label][number])]
            for other in others:
                shown = pictures[other][rng.randrange(len(pictures[other]))]
                tiles.append((shown, np.zeros((SIDE, SIDE), np.uint8)))
            rng.shuffle(tiles)
            pixels = join_tiles([picture for picture, _ in tiles], 2)
            mask = np.block([[tiles[0][1], tiles[1][1]], [tiles[2][1], tiles[3][1]]])
            found.append((label, number, pixels, mask))
    return found
