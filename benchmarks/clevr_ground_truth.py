"""Masks of 10,000 complex questions about 1,000 pictures, four kinds, in CPU seconds; and reading them back.

Files in, files out: 480x320 id buffers and questions are drawn first, outside the clock.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from benchmarks.workloads import cpu_seconds
from heatproof.clevr.files import Dataset, Question, open_dataset
from heatproof.clevr.ground_truth import KINDS, make_masks

SCENES, PER_SCENE, HEIGHT, WIDTH = 1000, 10, 320, 480
SAMPLE = 200


def write_dataset(folder: Path) -> None:
    """Scenes of 3 to 10 discs, and programs of 11 nodes with drawn results."""
    rng = np.random.default_rng(0)
    rows, columns = np.mgrid[:HEIGHT, :WIDTH]
    (folder / "objects").mkdir()
    scenes: list[dict[str, Any]] = []
    questions: list[dict[str, Any]] = []
    for index in range(SCENES):
        name = f"CLEVR_new_{index:06d}.png"
        count = int(rng.integers(3, 11))
        ids = np.zeros((HEIGHT, WIDTH), dtype=np.uint8)
        while len(np.unique(ids)) <= count:
            for place in range(count):
                y, x, radius = rng.uniform(40, HEIGHT - 40), rng.uniform(40, WIDTH - 40), rng.uniform(12, 45)
                ids[(rows - y) ** 2 + (columns - x) ** 2 < radius**2] = place + 1
        Image.fromarray(ids).save(folder / "objects" / name)
        scenes.append({"image_filename": name, "image_index": index, "objects": [{} for _ in range(count)]})
        for _ in range(PER_SCENE):
            record = {"image_filename": name, "question_index": len(questions), "question": "How many?"}
            questions.append(record | {"program": draw_program(rng, count), "answer": 0})
    (folder / "CLEVR_scenes.json").write_text(json.dumps({"scenes": scenes}))
    (folder / "CLEVR-XAI_complex_questions.json").write_text(json.dumps({"questions": questions}))


def draw_program(rng: np.random.Generator, count: int) -> list[dict[str, Any]]:
    """Three hops: filters, an object, a relation, and so on, down to a count."""
    program: list[dict[str, Any]] = [{"type": "scene", "inputs": [], "value_inputs": [], "_output": list(range(count))}]
    for kind in ("filter_color", "unique", "relate", "filter_size", "unique", "relate", "filter_shape", "unique"):
        objects = sorted(rng.choice(count, int(rng.integers(1, count)), replace=False).tolist())
        output = objects[0] if kind == "unique" else objects
        program.append({"type": kind, "inputs": [len(program) - 1], "value_inputs": [], "_output": output})
    program.append({"type": "same_color", "inputs": [8], "value_inputs": [], "_output": []})
    program.append({"type": "count", "inputs": [9], "value_inputs": [], "_output": 0})
    return program


def literal_masks(dataset: Dataset, questions: Sequence[Question]) -> list[NDArray[np.bool_]]:
    """The masks of these questions, one at a time, as the original code goes about it."""
    masks = []
    for question in questions:
        assert question.scene is not None
        for rule in KINDS["complex"].values():
            ids = np.asarray(Image.open(dataset.folder / "objects" / question.scene["image_filename"]))
            chosen = rule(question.program, len(question.scene["objects"]))
            whole = Image.fromarray(np.isin(ids, [place + 1 for place in chosen]).astype(np.float64))
            masks.append(np.asarray(whole.resize((128, 128), Image.Resampling.BILINEAR)) > 0)
    return masks


def main() -> None:
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        write_dataset(folder)
        whole = cpu_seconds(lambda: make_masks(open_dataset(folder)))
        dataset = open_dataset(folder)
        some = dataset.questions("complex")[:SAMPLE]
        literal = cpu_seconds(lambda: literal_masks(dataset, some)) / SAMPLE * SCENES * PER_SCENE
        masks = dataset.masks("complex", "union")
        order = np.random.default_rng(1).permutation(len(masks)).reshape(-1, 100)
        reading = cpu_seconds(lambda: [masks.batch(indices) for indices in order])
    questions = SCENES * PER_SCENE
    print(f"masks of {questions:,} complex questions, four kinds: {whole:.1f} CPU seconds (must stay under 20)")
    print(f"one question at a time, from {SAMPLE} of them: {literal:.0f}, {literal / whole:.0f} times as long")
    print(f"reading the {questions:,} masks of one kind in batches of 100: {reading:.2f}")
