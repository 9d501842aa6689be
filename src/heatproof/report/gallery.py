"""One input under many explainers, as an SVG picture that stands on its own."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from io import BytesIO
from typing import TYPE_CHECKING, Any

from markupsafe import escape

from heatproof.errors import HeatproofError
from heatproof.lazy import np
from heatproof.report.figures import short, signal

if TYPE_CHECKING:
    from numpy.typing import NDArray

STYLE = """
text { font: 12px system-ui, sans-serif; fill: #1c2733; }
.title { font-weight: 600; } .soft { fill: #5b6875; }
.line { fill: none; stroke: #1c2733; stroke-width: 1.3; vector-effect: non-scaling-stroke; }
.for { fill: #d6453d; } .against { fill: #3567c4; } .truth { fill: #2c8f58; }
.frame { fill: none; stroke: #d5dbe1; }
"""
LABEL, STRIP, ROW = 190, 520, 56
TILE, GAP, PER_ROW, LETTERS = 150, 14, 5, 24
FULL = 0.99
"""Heat at this quantile, of those pixels that have any, and above is drawn in full colour."""


@dataclass(frozen=True)
class Case:
    """An input (C, *space) with its name, and the true mask (*space) where there is one."""

    title: str
    inputs: NDArray[Any]
    truth: NDArray[Any] | None = None


def gallery(case: Case, heatmaps: Mapping[str, NDArray[Any]]) -> str:
    """The input, and under each explainer's name its relevance (C, *space): red for the class, blue against it.

    Channels are added up. Each heatmap is scaled by itself: a signal's by its largest value, a picture's so that a
    hundredth of its pixels has the full colour.
    """
    heats = {name: relevance.sum(0) for name, relevance in heatmaps.items()}
    dimensions = case.inputs.ndim - 1
    if dimensions == 1:
        return strips(case, heats)
    if dimensions == 2:
        return tiles(case, heats)
    raise HeatproofError(f"a picture can be drawn of signals and of pictures, not of {dimensions} space dimensions.")


def strips(case: Case, heats: Mapping[str, NDArray[Any]]) -> str:
    """A row for each explainer of a signal."""
    parts = [f'<text class="title" x="0" y="18">{escape(case.title)}</text>']
    for place, (name, heat) in enumerate(heats.items()):
        y = 30 + ROW * place
        drawn = str(signal(case.inputs[0], heat, case.truth, None))
        strip = f'<svg x="{LABEL}" y="{y}" width="{STRIP}" height="{ROW - 10}"'
        parts.append(f'<text x="0" y="{y + 28}">{escape(name)}</text>')
        parts.append(drawn.replace("<svg", strip, 1))
    return document(LABEL + STRIP, 30 + ROW * len(heats), parts)


def tiles(case: Case, heats: Mapping[str, NDArray[Any]]) -> str:
    """The picture, then a tile for each explainer."""
    height = round(TILE * case.inputs.shape[1] / case.inputs.shape[2])
    pictures = {"input": picture(case.inputs)} | {name: overlay(case.inputs, heat) for name, heat in heats.items()}
    step = height + 34
    parts = [f'<text class="title" x="0" y="18">{escape(case.title)}</text>']
    for place, (name, pixels) in enumerate(pictures.items()):
        x, y = (TILE + GAP) * (place % PER_ROW), 30 + step * (place // PER_ROW)
        parts.append(f'<image x="{x}" y="{y}" width="{TILE}" height="{height}" href="{png(pixels)}"/>')
        parts.append(f'<rect class="frame" x="{x}" y="{y}" width="{TILE}" height="{height}"/>')
        shown = short(name, LETTERS)
        tip = f"<title>{escape(name)}</title>" * (shown != name)
        parts.append(f'<text x="{x}" y="{y + height + 16}">{tip}{escape(shown)}</text>')
    width = (TILE + GAP) * min(PER_ROW, len(pictures)) - GAP
    return document(width, 30 + step * -(-len(pictures) // PER_ROW), parts)


def document(width: int, height: int, parts: list[str]) -> str:
    size = f'width="{width + 24}" height="{height + 12}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="-12 -6 {width + 24} {height + 12}" {size}>'
    back = f'<rect x="-12" y="-6" {size} fill="#fff"/>'
    return "\n".join([head, f"<style>{STYLE}</style>", back, *parts, "</svg>\n"])


def picture(inputs: NDArray[Any]) -> NDArray[Any]:
    """Inputs (C, H, W) as colours (H, W, 3) between 0 and 1; what is not three channels becomes grey."""
    colours = inputs if len(inputs) == 3 else np.repeat(inputs.mean(0, keepdims=True), 3, 0)
    low, high = colours.min(), colours.max()
    scaled: NDArray[Any] = ((colours - low) / ((high - low) or 1.0)).transpose(1, 2, 0)
    return scaled


def overlay(inputs: NDArray[Any], heat: NDArray[Any]) -> NDArray[Any]:
    """The heat over the picture in pale grey; a few pixels of extreme heat do not make the others invisible."""
    grey = 0.6 + 0.4 * picture(inputs).mean(2, keepdims=True)
    size = np.abs(heat)
    peak = np.quantile(size[size > 0], FULL) if (size > 0).any() else 1.0
    strength = np.minimum(size / peak, 1.0)[:, :, None]
    colour = np.where(heat[:, :, None] > 0, [0.84, 0.27, 0.24], [0.21, 0.40, 0.77])
    blended: NDArray[Any] = grey * (1 - strength) + colour * strength
    return blended


def within(inputs: NDArray[Any], truth: NDArray[Any]) -> NDArray[Any]:
    """The picture where the mask is, and pale elsewhere."""
    colours = picture(inputs)
    pale = 0.75 + 0.25 * colours.mean(2, keepdims=True)
    shown: NDArray[Any] = np.where(truth[:, :, None], colours, pale)
    return shown


def png(pixels: NDArray[Any]) -> str:
    """Pixels (H, W, 3) between 0 and 1 as a data address."""
    from PIL import Image

    file = BytesIO()
    Image.fromarray(np.rint(255 * pixels).astype("uint8")).save(file, "PNG", optimize=True)
    return "data:image/png;base64," + base64.b64encode(file.getvalue()).decode()


def small(pixels: NDArray[Any]) -> str:
    """The same, compressed with loss: for pages with many."""
    from PIL import Image

    file = BytesIO()
    Image.fromarray(np.rint(255 * pixels).astype("uint8")).save(file, "WEBP", quality=75)
    return "data:image/webp;base64," + base64.b64encode(file.getvalue()).decode()
