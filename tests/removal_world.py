"""A small data set of scenes that ship, for tests that take objects out of them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from heatproof.clevr import open_dataset
from heatproof.clevr.ground_truth import make_masks
from heatproof.clevr.shipped import shipped_dataset

SCENES = "CLEVR_scenes.json"
QUESTIONS = ("CLEVR-XAI_simple_questions.json", "CLEVR-XAI_complex_questions.json")


def small_world(folder: Path, scenes: int = 2, questions: tuple[str, ...] = QUESTIONS[:1]) -> Path:
    """The first scenes that ship, with pictures, questions, ids of objects and masks."""
    source = shipped_dataset()
    folder.mkdir(parents=True)
    content = json.loads((source / SCENES).read_text())
    content["scenes"] = content["scenes"][:scenes]
    (folder / SCENES).write_text(json.dumps(content))
    names = [scene["image_filename"] for scene in content["scenes"]]
    for file in questions:
        asked = json.loads((source / file).read_text())
        asked["questions"] = [entry for entry in asked["questions"] if entry["image_filename"] in names]
        (folder / file).write_text(json.dumps(asked))
    for kind in ("images", "objects"):
        (folder / kind).mkdir()
        for name in names:
            shutil.copy(source / kind / name, folder / kind / name)
    make_masks(open_dataset(folder), (128, 128))
    return folder
