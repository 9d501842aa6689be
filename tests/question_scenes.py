"""Scenes for tests of questions: objects with attributes and places, no pictures."""

from __future__ import annotations

import random
from typing import Any

SIZES = ["small", "large"]
COLORS = ["gray", "red", "blue", "green", "brown", "purple", "cyan", "yellow"]
MATERIALS = ["rubber", "metal"]
SHAPES = ["cube", "sphere", "cylinder"]


def scene_of(*objects: str, index: int = 0, depths: list[int] | None = None) -> dict[str, Any]:
    """A scene of objects such as 'small red metal cube', from left to right; a greater depth is further back."""
    depths = depths or list(range(len(objects)))
    things = [dict(zip(("size", "color", "material", "shape"), words.split(), strict=True)) for words in objects]
    everyone = range(len(objects))
    return {
        "split": "new",
        "image_index": index,
        "image_filename": f"CLEVR_new_{index:06d}.png",
        "objects": things,
        "relationships": {
            "left": [[j for j in everyone if j < i] for i in everyone],
            "right": [[j for j in everyone if j > i] for i in everyone],
            "front": [[j for j in everyone if depths[j] < depths[i]] for i in everyone],
            "behind": [[j for j in everyone if depths[j] > depths[i]] for i in everyone],
        },
    }


def random_scenes(count: int, seed: int = 0, least: int = 3, most: int = 10) -> list[dict[str, Any]]:
    """Scenes with CLEVR's numbers of objects and uniform attributes, in uniform random orders on both axes.

    Questions see no more of a scene than this; only the order from left to right within 'objects' is not random here,
    and nothing depends on the order of objects.
    """
    rng = random.Random(seed)
    scenes = []
    for index in range(count):
        size = rng.randint(least, most)
        objects = [" ".join(rng.choice(values) for values in (SIZES, COLORS, MATERIALS, SHAPES)) for _ in range(size)]
        scenes.append(scene_of(*objects, index=index, depths=rng.sample(range(size), size)))
    return scenes
