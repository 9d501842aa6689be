"""Tiny CLEVR worlds for tests: objects drawn as discs and rectangles, and programs that are really executed."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

ATTRIBUTES = {
    "size": ["small", "large"],
    "color": ["gray", "red", "blue", "green", "brown", "purple", "cyan", "yellow"],
    "material": ["rubber", "metal"],
    "shape": ["cube", "sphere", "cylinder"],
}
DIRECTIONS = ("left", "right", "front", "behind")


def draw(rng: random.Random, objects: int, height: int, width: int, pixels: int = 30) -> np.ndarray:
    """An id buffer in which every object has at least `pixels` visible pixels; later objects hide earlier ones."""
    rows, columns = np.mgrid[:height, :width]
    while True:
        ids = np.zeros((height, width), dtype=np.uint8)
        for number in range(1, objects + 1):
            y, x, r = rng.uniform(0, height), rng.uniform(0, width), rng.uniform(0.04, 0.15) * width
            if rng.random() < 0.5:
                inside = (rows - y) ** 2 + (columns - x) ** 2 < r * r
            else:
                inside = (abs(rows - y) < r) & (abs(columns - x) < r * 0.7)
            ids[inside] = number
        if np.bincount(ids.ravel(), minlength=objects + 1)[1:].min() >= pixels:
            return ids


def mask_colours(rng: random.Random, objects: int) -> list[tuple[int, int, int]]:
    """Different 8-bit colours, none of them the background's, no two close to each other."""
    colours: list[tuple[int, int, int]] = []
    while len(colours) < objects:
        colour = (rng.randrange(256), rng.randrange(256), rng.randrange(256))
        others = [*colours, (64, 64, 64)]
        if all(max(abs(a - b) for a, b in zip(colour, other, strict=True)) > 8 for other in others):
            colours.append(colour)
    return colours


def linear(colour: Iterable[int], noise: float = 0.0) -> list[float]:
    """A colour as scenes store it; `noise` stands for what rounding to 8 bits lost."""
    shares = [value / 255 for value in colour]
    return [(((s + 0.055) / 1.055) ** 2.4 if s >= 0.0404482362771082 else s / 12.92) + noise for s in shares]


def flat_picture(ids: np.ndarray, colours: Sequence[tuple[int, int, int]], alpha: bool = False) -> Image.Image:
    table = np.array([(64, 64, 64), *colours], dtype=np.uint8)
    picture = table[ids]
    if alpha:
        picture = np.concatenate([picture, np.full((*ids.shape, 1), 255, np.uint8)], axis=2)
    return Image.fromarray(picture)


def make_scene(rng: random.Random, index: int, objects: int, colours: Sequence[tuple[int, int, int]]) -> dict[str, Any]:
    places = [(rng.random(), rng.random()) for _ in range(objects)]
    sides = {"left": (-1, 0), "right": (1, 0), "front": (0, 1), "behind": (0, -1)}
    return {
        "split": "new",
        "image_index": index,
        "image_filename": f"CLEVR_new_{index:06d}.png",
        "objects": [
            {name: rng.choice(values) for name, values in ATTRIBUTES.items()} | {"mask_color": linear(colour, 1e-4)}
            for colour in colours
        ],
        "relationships": {
            side: [
                [
                    j
                    for j, there in enumerate(places)
                    if (there[0] - here[0]) * dx + (there[1] - here[1]) * dy > 0 and there != here
                ]
                for here in places
            ]
            for side, (dx, dy) in sides.items()
        },
    }


class Asker:
    """Builds one program, executing every node that is added."""

    def __init__(self, rng: random.Random, scene: dict[str, Any]) -> None:
        self.rng, self.scene, self.objects = rng, scene, scene["objects"]
        self.program: list[dict[str, Any]] = []

    def add(self, kind: str, inputs: Sequence[int] = (), value: str | None = None) -> int:
        given = [self.program[i]["_output"] for i in inputs]
        output: Any
        if kind == "scene":
            output = list(range(len(self.objects)))
        elif kind.startswith("filter_"):
            output = [i for i in given[0] if self.objects[i][kind[7:]] == value]
        elif kind == "unique":
            (output,) = given[0]
        elif kind == "relate":
            output = list(self.scene["relationships"][value][given[0]])
        elif kind.startswith("same_"):
            mine = self.objects[given[0]][kind[5:]]
            output = [i for i, thing in enumerate(self.objects) if thing[kind[5:]] == mine and i != given[0]]
        elif kind == "union":
            output = sorted(set(given[0]) | set(given[1]))
        elif kind == "intersect":
            output = sorted(set(given[0]) & set(given[1]))
        elif kind == "count":
            output = len(given[0])
        elif kind == "exist":
            output = len(given[0]) > 0
        elif kind.startswith("query_"):
            output = self.objects[given[0]][kind[6:]]
        elif kind.startswith("equal_"):
            output = given[0] == given[1]
        else:
            output = {"less_than": given[0] < given[1], "greater_than": given[0] > given[1]}[kind]
        node = {"type": kind, "inputs": list(inputs), "value_inputs": [] if value is None else [value]}
        self.program.append(node | {"_output": output})
        return len(self.program) - 1

    def filters(self, node: int, least: int = 1) -> int:
        """`least` to 3 filters, by values that some object has or, now and then, by any values."""
        names = self.rng.sample(list(ATTRIBUTES), self.rng.randint(least, 3))
        model = self.rng.choice(self.objects)
        for name in names:
            value = self.rng.choice(ATTRIBUTES[name]) if self.rng.random() < 0.2 else model[name]
            node = self.add(f"filter_{name}", [node], value)
        return node

    def branch(self) -> int:
        """A set of objects: filters on the scene, then up to three relations while an object can be singled out."""
        node = self.filters(self.add("scene"))
        for _ in range(self.rng.randrange(4)):
            if len(self.program[node]["_output"]) != 1:
                break
            found = self.add("unique", [node])
            if self.rng.random() < 0.7:
                node = self.add("relate", [found], self.rng.choice(DIRECTIONS))
            else:
                node = self.add(f"same_{self.rng.choice(list(ATTRIBUTES))}", [found])
            if self.rng.random() < 0.7:
                node = self.filters(node)
        return node

    def complex(self) -> list[dict[str, Any]]:
        """A program of one of the complex shapes: chain, union, intersection, comparison of counts or attributes."""
        first = self.branch()
        shape = self.rng.randrange(4)
        if shape == 1:
            first = self.add(self.rng.choice(["union", "intersect"]), [first, self.branch()])
            first = self.filters(first, 0)
        elif shape == 2:
            counts = [self.add("count", [first]), self.add("count", [self.branch()])]
            self.add(self.rng.choice(["equal_integer", "less_than", "greater_than"]), counts)
            return self.program
        elif shape == 3:
            second = self.branch()
            if all(len(self.program[node]["_output"]) == 1 for node in (first, second)):
                name = self.rng.choice(list(ATTRIBUTES))
                asked = [self.add(f"query_{name}", [self.add("unique", [node])]) for node in (first, second)]
                self.add(f"equal_{name}", asked)
                return self.program
            first = self.add("intersect", [first, second])
        if len(self.program[first]["_output"]) == 1 and self.rng.random() < 0.5:
            self.add(f"query_{self.rng.choice(list(ATTRIBUTES))}", [self.add("unique", [first])])
        else:
            self.add(self.rng.choice(["count", "exist"]), [first])
        return self.program

    def simple(self) -> list[dict[str, Any]] | None:
        """Filters to one object and a query of another attribute; None if that is not found at once."""
        node = self.filters(self.add("scene"))
        if len(self.program[node]["_output"]) != 1:
            return None
        used = {entry["type"][7:] for entry in self.program if entry["type"].startswith("filter_")}
        asked = self.rng.choice([name for name in ATTRIBUTES if name not in used])
        self.add(f"query_{asked}", [self.add("unique", [node])])
        return self.program


def ask(rng: random.Random, scene: dict[str, Any], name: str, count: int) -> list[list[dict[str, Any]]]:
    programs: list[list[dict[str, Any]]] = []
    for _ in range(50 * count):
        program = Asker(rng, scene).complex() if name == "complex" else Asker(rng, scene).simple()
        if program is not None:
            programs.append(program)
        if len(programs) == count:
            break
    return programs


def make_questions(rng: random.Random, scenes: Iterable[dict[str, Any]], name: str, count: int) -> dict[str, Any]:
    questions: list[dict[str, Any]] = []
    for scene in scenes:
        for program in ask(rng, scene, name, count):
            questions.append(
                {
                    "split": "new",
                    "image_filename": scene["image_filename"],
                    "image_index": scene["image_index"],
                    "image": scene["image_filename"].removesuffix(".png"),
                    "question": f"What about these {len(program)} steps?",
                    "program": program,
                    "answer": program[-1]["_output"],
                    "template_filename": f"{name}.json",
                    "question_family_index": len(program),
                    "question_index": len(questions),
                }
            )
    return {"info": {"split": "new"}, "questions": questions}


def write_world(
    folder: Path,
    scenes: int = 4,
    seed: int = 0,
    size: tuple[int, int] = (48, 72),
    layout: str = "heatproof",
    per_image: int = 5,
    id_buffers: bool = True,
) -> Path:
    """A whole data set of `scenes` scenes in `folder`, of height and width `size`."""
    rng = random.Random(seed)
    prefix = {"heatproof": "CLEVR", "clevr-xai": "CLEVR-XAI"}[layout]
    for name in ("images", "masks", *(["objects"] if id_buffers else [])):
        (folder / name).mkdir(parents=True)
    made = []
    for index in range(scenes):
        objects = rng.randint(3, 10)
        colours = mask_colours(rng, objects)
        scene = make_scene(rng, index, objects, colours)
        ids = draw(rng, objects, *size, pixels=3)
        name = scene["image_filename"]
        if id_buffers:
            Image.fromarray(ids).save(folder / "objects" / name)
        flat_picture(ids, colours, alpha=index % 2 == 1).save(folder / "masks" / name)
        flat_picture(ids, [(200, 10, 10 * k) for k in range(objects)]).save(folder / "images" / name)
        made.append(scene)
    write_json(folder / f"{prefix}_scenes.json", {"info": {"split": "new"}, "scenes": made})
    for name in ("simple", "complex"):
        write_json(folder / f"CLEVR-XAI_{name}_questions.json", make_questions(rng, made, name, per_image))
    return folder


def write_clevr(folder: Path) -> Path:
    """CLEVR v1.0 in small: pictures by split, words as answers, no results in programs, nothing for the test split."""
    world = write_world(folder / "draft")
    scenes = json.loads((world / "CLEVR_scenes.json").read_text())["scenes"]
    questions = json.loads((world / "CLEVR-XAI_simple_questions.json").read_text())["questions"]
    clevr = folder / "CLEVR_v1.0"
    for split in ("train", "val", "test"):
        (clevr / "images" / split).mkdir(parents=True)
        records = json.loads(json.dumps(questions))
        for question in records:
            name = question["image_filename"].replace("new", split)
            Image.open(world / "images" / question["image_filename"]).save(clevr / "images" / split / name)
            question |= {"image_filename": name, "split": split, "answer": str(question["answer"])}
            for node in question["program"]:
                node["function"] = node.pop("type")
                del node["_output"]
            if split == "test":
                del question["program"], question["answer"]
        write_json(clevr / "questions" / f"CLEVR_{split}_questions.json", {"questions": records})
        if split != "test":
            named = [
                scene | {"image_filename": scene["image_filename"].replace("new", split), "split": split}
                for scene in scenes
            ]
            write_json(clevr / "scenes" / f"CLEVR_{split}_scenes.json", {"scenes": named})
    return clevr


def write_json(path: Path, content: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content), encoding="utf-8")


def edit_json(path: Path, change: Any) -> None:
    """Apply `change` to the content of a JSON file."""
    content = json.loads(path.read_text(encoding="utf-8"))
    change(content)
    write_json(path, content)


def flip(path: Path, places: Iterable[int], bits: int = 255) -> None:
    """Change these bytes of a file; `bits` says which of their bits."""
    content = bytearray(path.read_bytes())
    for place in places:
        content[place] ^= bits
    path.write_bytes(content)
