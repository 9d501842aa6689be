"""CLEVR-XAI's masks, slowly and literally: one question at a time, from its flat-coloured mask picture."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image


def mask_of_question(question, scene, mask_picture: Path, kind: str, height: int, width: int):
    """The boolean mask (height, width) of one question, or None where the question has none."""
    chosen = chosen_objects(question["program"], len(scene["objects"]), kind)
    if not chosen:
        return None
    opened = Image.open(mask_picture).convert("RGB")
    colours = object_colours(opened, scene["objects"])
    picture = np.array(opened)
    mask = np.zeros(picture.shape[:2], dtype=bool)
    for place in chosen:
        mask |= (picture == colours[place]).all(axis=2)
    if mask.shape == (height, width):
        return mask
    image = Image.fromarray(mask.astype(np.float64))
    assert image.mode == "F"
    return np.array(image.resize((width, height), resample=Image.Resampling.BILINEAR)) > 0


def object_colours(picture, objects):
    """The 8-bit colour of each object: the one nearest to its `mask_color`, once both are linear."""
    distinct = sorted(colour for _, colour in picture.getcolors(maxcolors=picture.width * picture.height))
    assert distinct.count((64, 64, 64)) == 1
    distinct.remove((64, 64, 64))
    found = []
    for thing in objects:
        distances = []
        for colour in distinct:
            linear = [to_linear(value / 255) for value in colour]
            distances.append(sum((a - b) ** 2 for a, b in zip(linear, thing["mask_color"], strict=True)) ** 0.5)
        found.append(distinct[distances.index(min(distances))])
    assert len(set(found)) == len(found)
    return found


def to_linear(share: float) -> float:
    if share >= 0.0404482362771082:
        return ((share + 0.055) / 1.055) ** 2.4
    return share / 12.92


def chosen_objects(program, objects: int, kind: str) -> list[int]:
    """The objects of the mask, sorted."""
    chosen: set[int] = set()
    if kind == "all_objects":
        chosen = set(range(objects))
    if kind == "single_object":
        for node in program[::-1]:
            if node["type"][:7] == "filter_":
                chosen = set(node["_output"])
                break
    if kind in ("unique", "unique_first_nonempty"):
        for node in program:
            if node["type"] == "unique":
                chosen.add(node["_output"])
    if kind == "union":
        for node in program[1:]:
            if is_object_set(node):
                chosen.update(node["_output"])
    if kind == "unique_first_nonempty":
        place = len(program) - 1
        while place >= 0:
            node = program[place]
            if is_object_set(node) and len(node["_output"]) > 0:
                chosen.update(node["_output"])
                break
            if node["type"] in ("union", "intersect"):
                for branch in node["inputs"]:
                    for step in chain_to_scene(program, branch):
                        if is_object_set(program[step]) and len(program[step]["_output"]) > 0:
                            chosen.update(program[step]["_output"])
                            break
                break
            place -= 1
    return sorted(chosen)


def is_object_set(node) -> bool:
    return any(node["type"].startswith(start) for start in ("filter_", "relate", "intersect", "union", "same_"))


def chain_to_scene(program, place: int) -> list[int]:
    """The node and those before it, back to its scene node."""
    if program[place]["type"] == "scene":
        return [place]
    (before,) = program[place]["inputs"]
    return [place, *chain_to_scene(program, before)]
