"""Pictures of a data set, read with errors that name them."""

from __future__ import annotations

import zlib
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

from heatproof.errors import HeatproofError
from heatproof.lazy import np

if TYPE_CHECKING:
    from numpy.typing import NDArray

PNG_START = b"\x89PNG\r\n\x1a\n"


def read_picture(path: Path, mode: str | None = None) -> tuple[str, NDArray[np.uint8]]:
    """The mode and the pixels of a picture, converted to `mode` if that is given."""
    from PIL import Image

    content = read_whole(path)
    try:
        with Image.open(BytesIO(content)) as picture:
            shown = picture if mode is None else picture.convert(mode)
            return shown.mode, np.asarray(shown)
    except Exception as problem:
        # Pillow has many kinds of errors for damaged files; the buffer's address in its message says nothing
        said = "no known format" if "BytesIO" in str(problem) else problem
        raise HeatproofError(f"{path}: truncated or no picture ({said})") from problem


def read_whole(path: Path) -> bytes:
    """The bytes of a picture; an error if it is a PNG that is not as it was written."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise HeatproofError(f"{path}: missing") from None
    except OSError as problem:
        raise HeatproofError(f"{path}: cannot be read ({problem.strerror or problem})") from problem
    damage = png_damage(content) if content.startswith(PNG_START) else None
    if damage is not None:
        raise HeatproofError(f"{path}: {damage}")
    return content


def png_damage(content: bytes) -> str | None:
    """What is wrong with the chunks of a PNG; each ends with its CRC-32, and Pillow does not look at all of them."""
    place = len(PNG_START)
    while place + 12 <= len(content):
        end = place + 8 + int.from_bytes(content[place : place + 4], "big")
        kind = content[place + 4 : place + 8]
        if end + 4 > len(content):
            break
        if zlib.crc32(content[place + 4 : end]) != int.from_bytes(content[end : end + 4], "big"):
            return f"damaged (the checksum of a chunk {kind.decode('ascii', 'replace')} is wrong)"
        if kind == b"IEND":
            return None
        place = end + 4
    return "truncated or no picture (it has no end)"
