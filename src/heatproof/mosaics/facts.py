"""Simple facts of pictures: what sets those apart that draw relevance, in words that people see at a glance."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from heatproof.lazy import np

if TYPE_CHECKING:
    from numpy.typing import NDArray

EDGE = 16
"""A border is this part of the side wide, on each side."""
CORNER = 5
"""A corner is this part of the side wide and high."""
CORNERS = ("top left", "top right", "bottom left", "bottom right")


def picture_facts(pixels: NDArray[np.uint8]) -> dict[str, float]:
    """Facts of a picture (H, W, 3), by what they are called; all between -1 and 1."""
    values = pixels.astype(np.float64) / 255
    height, width = values.shape[:2]
    inside = np.zeros((height, width), dtype=np.bool_)
    rows, columns = max(1, height // EDGE), max(1, width // EDGE)
    inside[rows:-rows, columns:-columns] = True
    facts = {f"{name} of the picture": value for name, value in colour_facts(values.reshape(-1, 3)).items()}
    facts |= {f"{name} of the border": value for name, value in colour_facts(values[~inside]).items()}
    down, across = max(1, height // CORNER), max(1, width // CORNER)
    for place, name in enumerate(CORNERS):
        below, right = divmod(place, 2)
        part = values[height - down :] if below else values[:down]
        part = part[:, width - across :] if right else part[:, :across]
        found = colour_facts(part.reshape(-1, 3))
        facts |= {f"{kind} of the {name} corner": found[kind] for kind in ("colourfulness", "redness", "evenness")}
    return facts


def colour_facts(pixels: NDArray[Any]) -> dict[str, float]:
    """Of pixels (N, 3): means of light and colours, and how little the light varies."""
    red, green, blue = pixels.mean(0).tolist()
    light = pixels.mean(1)
    return {
        "brightness": float(light.mean()),
        "colourfulness": float((pixels.max(1) - pixels.min(1)).mean()),
        "redness": red - (green + blue) / 2,
        "greenness": green - (red + blue) / 2,
        "evenness": 1 - 2 * float(light.std()),
    }
