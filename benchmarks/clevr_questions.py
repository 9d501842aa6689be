"""Questions about 1,000 scenes, from scenes in memory to files on disk, in CPU seconds."""

from __future__ import annotations

import json
import random
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.workloads import cpu_seconds
from heatproof.clevr.questions import Tally, make_questions
from heatproof.clevr.questions.world import ATTRIBUTES

SCENES, GOALS = 1000, {"simple": 5, "complex": 30}


def scene(index: int) -> dict[str, Any]:
    """What questions see of a scene with CLEVR's 3 to 10 objects: attributes, and a random order on either axis."""
    rng = random.Random(index)
    count = rng.randint(3, 10)
    across, deep = (rng.sample(range(count), count) for _ in range(2))

    def those(order: list[int], sign: int) -> list[list[int]]:
        return [[j for j in range(count) if sign * (order[j] - order[i]) > 0] for i in range(count)]

    return {
        "split": "new",
        "image_index": index,
        "image_filename": f"CLEVR_new_{index:06d}.png",
        "objects": [{name: rng.choice(values) for name, values in ATTRIBUTES.items()} for _ in range(count)],
        "relationships": {
            "left": those(across, -1),
            "right": those(across, 1),
            "front": those(deep, -1),
            "behind": those(deep, 1),
        },
    }


def main() -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder, "CLEVR_scenes.json")
        path.write_text(json.dumps({"info": {}, "scenes": [scene(index) for index in range(SCENES)]}))
        for question_set, goal in GOALS.items():
            tallies: list[Tally | None] = []
            seconds = cpu_seconds(lambda: tallies.append(make_questions(path, question_set).tally))  # noqa: B023
            (tally,) = tallies
            assert tally is not None
            print(
                f"{question_set} questions, {SCENES:,} scenes: {tally.questions:,} in {seconds:.1f} CPU seconds "
                f"(goal {goal}); {tally.stopped.total()} searches given up; "
                f"10,000 scenes: {seconds * 10_000 / SCENES / 60:.1f} minutes"
            )
