"""A question to look at: its picture, and the picture under each kind of ground-truth mask."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

from heatproof.clevr.files import Question
from heatproof.clevr.ground_truth import KINDS, mask_of_question
from heatproof.clevr.rendering.world import COLOURS
from heatproof.errors import HeatproofError
from heatproof.lazy import np

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from PIL.Image import Image

WIDTH = 300
"""Of each picture, in pixels."""

LINE, MARGIN, FONT = 20, 10, 14


def panel(question: Question, size: tuple[int, int] = (128, 128)) -> Image:
    """The question, its answer, its picture, and what each kind of mask of this (height, width) leaves of it."""
    from PIL import Image, ImageDraw, ImageFont

    if question.scene is None or question.set not in KINDS:
        raise HeatproofError(f"{question.set} questions have no ground truth; choose simple or complex ones.")
    picture = base_picture(question)
    height = round(WIDTH * picture.shape[0] / picture.shape[1])
    tiles = [("picture", picture)]
    for kind in KINDS[question.set]:
        mask = mask_of_question(question, kind, size)
        said = f"{kind}: {int(mask.sum())} px" if mask.any() else f"{kind}: no mask"
        tiles.append((said, under_mask(picture, mask)))
    columns = min(len(tiles), 3)
    title = textwrap.wrap(f"{question.text} {str(question.answer).lower()}", columns * WIDTH // 8)
    top = MARGIN + LINE * len(title) + MARGIN
    rows = -(-len(tiles) // columns)
    step_x, step_y = WIDTH + MARGIN, height + LINE + MARGIN
    sheet = Image.new("RGB", (columns * step_x + MARGIN, top + rows * step_y), "white")
    pen, font = ImageDraw.Draw(sheet), ImageFont.load_default(size=FONT)
    pen.text((MARGIN, MARGIN), "\n".join(title), fill="black", font=font, spacing=LINE - FONT)
    for place, (said, tile) in enumerate(tiles):
        x, y = MARGIN + place % columns * step_x, top + place // columns * step_y
        pen.text((x, y), said, fill="black", font=font)
        sheet.paste(Image.fromarray(tile).resize((WIDTH, height), Image.Resampling.LANCZOS), (x, y + LINE))
    return sheet


def base_picture(question: Question) -> NDArray[np.uint8]:
    """The picture, or for scenes without pictures the objects in their colours."""
    assert question.scene is not None
    if question.dataset.has_pictures:
        return question.picture()
    ids = question.dataset.object_ids(question.scene)
    colours = [(225, 225, 225), *(COLOURS.get(thing.get("color"), (0, 0, 0)) for thing in question.scene["objects"])]
    flat: NDArray[np.uint8] = np.asarray(colours, dtype=np.uint8)[ids]
    return flat


def under_mask(picture: NDArray[np.uint8], mask: NDArray[np.bool_]) -> NDArray[np.uint8]:
    """The picture where the mask is, faded to white elsewhere; the mask's own pixels stay visible as blocks."""
    rows = np.arange(picture.shape[0]) * mask.shape[0] // picture.shape[0]
    columns = np.arange(picture.shape[1]) * mask.shape[1] // picture.shape[1]
    inside = mask[np.ix_(rows, columns)][..., None]
    faded = 255 - (255 - picture.astype(np.float64)) * 0.15
    return np.where(inside, picture, faded.astype(np.uint8))
