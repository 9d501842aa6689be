"""Drawings as files, in the format that the file's name asks for."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from heatproof.errors import HeatproofError
from heatproof.harmless import visible
from heatproof.report.drawing import Drawing
from heatproof.report.pdf import pdf
from heatproof.report.raster import SCALE, raster
from heatproof.report.svg import svg
from heatproof.workspace import writable, write_whole


def write_svg(drawing: Drawing, path: Path) -> None:
    path.write_text(visible(svg(drawing)), encoding="utf-8")


def write_pdf(drawing: Drawing, path: Path) -> None:
    path.write_bytes(pdf(drawing))


def write_png(drawing: Drawing, path: Path) -> None:
    raster(drawing).save(path, "PNG", optimize=True, dpi=(96 * SCALE, 96 * SCALE))


FORMATS: dict[str, Callable[[Drawing, Path], None]] = {".svg": write_svg, ".pdf": write_pdf, ".png": write_png}


def require_picture_file(path: Path) -> None:
    """Find out before any long work whether the picture can be written, and in which format."""
    if path.suffix.lower() not in FORMATS:
        raise HeatproofError(
            f"cannot tell the format of {str(path)!r}: the picture's name must end in {', '.join(FORMATS)}."
        )
    if path.is_dir():
        raise HeatproofError(f"{path} is a folder; give the picture a name of its own.")
    trial = path.with_name(f".{path.name}.writable")
    with writable(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        trial.touch()
        trial.unlink()


def write_picture(drawing: Drawing, path: Path) -> None:
    write_whole(path, lambda temporary: FORMATS[path.suffix.lower()](drawing, temporary))
