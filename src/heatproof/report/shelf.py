"""Where the pictures of a page are: within it, or as files in a folder beside it."""

from __future__ import annotations

import base64
import shutil
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from heatproof.lazy import np
from heatproof.workspace import writable

if TYPE_CHECKING:
    from numpy.typing import NDArray

KINDS = {".png": "image/png", ".webp": "image/webp"}


def files_folder(page: Path | None, key: str) -> Path | None:
    """The folder beside a page for what it has no room for; one for each run where it has several."""
    return None if page is None else beside(page) / key


def beside(page: Path) -> Path:
    """The folder that belongs to a page, if it has one."""
    return page.with_name(f"{page.stem}_files")


class Shelf:
    """Takes pictures and numbers them; `addresses` says where the page finds each."""

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder
        self.addresses: list[str] = []
        self.numbers: dict[bytes, int] = {}

    def put(self, content: bytes, name: str) -> int:
        """The number of a picture; the same picture has the same number."""
        if content not in self.numbers:
            self.numbers[content] = len(self.addresses)
            self.addresses.append(self.store(content, name))
        return self.numbers[content]

    def store(self, content: bytes, name: str) -> str:
        if self.folder is None:
            return f"data:{KINDS[Path(name).suffix]};base64,{base64.b64encode(content).decode()}"
        with writable(self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
            (self.folder / name).write_bytes(content)
        return f"{self.folder.parent.name}/{self.folder.name}/{name}"


def emptied(folder: Path | None) -> None:
    """Remove what an earlier version of a page had beside it."""
    if folder is not None:
        shutil.rmtree(folder, ignore_errors=True)
        if folder.parent.is_dir() and not any(folder.parent.iterdir()):
            folder.parent.rmdir()


def webp(pixels: NDArray[Any], longest: int | None = None) -> bytes:
    """Pixels (H, W, 3) between 0 and 1, compressed with loss; no longer than that, if it is said."""
    from PIL import Image

    image = Image.fromarray(np.rint(255 * pixels).astype("uint8"))
    if longest is not None:
        image.thumbnail((longest, longest))
    file = BytesIO()
    image.save(file, "WEBP", quality=75)
    return file.getvalue()
