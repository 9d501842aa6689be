"""How long the papers' sizes would take on 1 to 1,000 cores, from what is measured here of a single one.

Each of the three is rehearsed (as `--dry-run` does), which gives the CPU seconds of explaining, opening, tables; the
overheads are those of a Ray cluster on this machine that is told to have as many cores. The driver opens the data, then
hands out tasks and stores parts while the others explain, then makes tables and page, all on one core of its own:

    hours = opening + the longer of (explaining / cores, handing out and storing) + tables and page

Pictures of CLEVR go the same way: others draw, the driver hands out, takes the files and writes them.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

import heatproof
from heatproof.benchmarks.focus import Focus
from heatproof.cases import Chunk
from heatproof.clevr.objects import CLASSES, shipped_pictures
from heatproof.clevr.rendering.dataset import Painter, PictureSettings, Plan
from heatproof.clevr.scenes import SceneSettings
from heatproof.engine.forecast import Forecast
from heatproof.engine.manifest import processor
from heatproof.executors.base import Deliver
from heatproof.executors.cluster import Cluster, need_ray
from heatproof.executors.set_up import keep_memory
from heatproof.executors.start import start_of_process
from heatproof.lazy import np, pl
from heatproof.models.image_classifiers import make_classifier
from heatproof.run_folder import RunFolder

CORES = (1, 10, 100, 1000)
MOSAICS = 10_000
SCENES, PICTURES = 10_000, 5
"""Pictures of CLEVR-XAI, and how many of them are drawn to see how long one takes."""
HOUR = 3600.0


@dataclass(frozen=True)
class Done:
    """Tasks without any work, which give what was made before."""

    made: Any = None

    def compute(self, task: int, /) -> Any:
        return self.made


def per_task(cores: int, made: Any = None, deliver: Deliver = lambda place, outcome: None) -> float:
    """CPU seconds of the driver for a task that does nothing, where as many are under way as so many cores take."""
    count = max(500, 4 * cores)
    cluster = Cluster(jobs=cores)
    cluster.run(Done(made), [0, 1], deliver, lambda running: None)  # processes start
    start = time.process_time()
    cluster.run(Done(made), list(range(count)), deliver, lambda running: None)
    return (time.process_time() - start) / count


def per_part(cases: int = 32, scores: int = 42, parts: int = 50) -> float:
    """CPU seconds to store a part as CLEVR-XAI has them."""
    rows = pl.DataFrame(
        {
            "case": [f"simple-{case:06d}" for case in range(cases) for _ in range(scores)],
            "question": ["What colour is the small thing left of the rubber cube?"] * (cases * scores),
            "value": np.random.default_rng(0).random(cases * scores),
        }
    )
    with tempfile.TemporaryDirectory() as place:
        folder = RunFolder(place)
        folder.write_manifest({})
        start = time.process_time()
        for part in range(parts):
            folder.write_part("gradient", Chunk(f"{part:06d}", "net", cases), rows, {"ids": np.asarray([])}, "here")
        return (time.process_time() - start) / parts


def simple() -> Forecast:
    return heatproof.dry_run("clevr-xai", preset="paper", engine="processes")


def complicated() -> Forecast:
    return heatproof.dry_run("clevr-xai", preset="paper", questions="complex", engine="processes")


def mosaics() -> Forecast:
    """Pictures that ship, of 448 x 448 pixels as mosaics, on VGG16 with random weights: these cost what others do."""
    torch.manual_seed(0)
    network = make_classifier("vgg16", len(CLASSES)).eval()
    drawn = Focus(images=shipped_pictures(), model=network, tile=224, per_class=MOSAICS, limit=MOSAICS, repeats=True)
    return heatproof.dry_run(drawn, engine="processes")


WORKLOADS: dict[str, Callable[[], Forecast]] = {
    "CLEVR-XAI, 39,761 simple questions": simple,
    "CLEVR-XAI, 100,000 complex questions": complicated,
    "Focus, 10,000 mosaics, VGG16": mosaics,
}


@dataclass(frozen=True)
class Wall:
    """Hours of a run by what takes them; at `handing` and `storing` the driver works while the others explain."""

    opening: float
    explaining: float
    handing: float
    storing: float
    tables: float

    @property
    def driver(self) -> float:
        return self.opening + self.handing + self.storing + self.tables

    @property
    def total(self) -> float:
        return self.opening + max(self.explaining, self.handing + self.storing) + self.tables


@dataclass(frozen=True)
class Drawing:
    """CPU seconds of a picture with its ids and masks: to make it, and of the driver to get it back and to write it."""

    making: float
    handing: Mapping[int, float]
    """By the number of cores."""

    @classmethod
    def measured(cls, width: int = 480, height: int = 320) -> Drawing:
        painter = Painter(SceneSettings(width=width, height=height), PictureSettings(), (height, width))
        with tempfile.TemporaryDirectory() as place:
            plan = Plan(Path(place), painter)
            wanted = [lacking for index in range(PICTURES + 1) if (lacking := plan.lacking(index))]
            made = painter.compute(wanted.pop())  # what is loaded once is not counted
            start = time.process_time()
            for lacking in wanted:
                painter.compute(lacking)
            making = (time.process_time() - start) / PICTURES
            return cls(making, {cores: per_task(cores, made, plan.write) for cores in CORES})

    def wall(self, cores: int, pictures: int) -> Wall:
        hours = pictures / HOUR
        return Wall(0, hours * self.making / cores, hours * self.handing[cores], 0, 0)


def project(found: Forecast, cores: int, task: float, part: float) -> Wall:
    """The run on so many cores, the driver's not counted."""
    run = found.with_workers(cores)
    work = sum(line.seconds for line in run.lines) + run.besides["loading"] + run.workers * run.begun.cpu_seconds
    parts = sum(line.units for line in run.lines)
    tables = max(0.0, run.end.seconds - parts * part)  # which has the parts in it
    hours = (run.opening, work / cores, len(run.tasks) * task, parts * part, tables)
    return Wall(*(seconds / HOUR for seconds in hours))


def in_words(seconds: Mapping[int, float]) -> str:
    return ", ".join(f"{1000 * each:.1f} ms ({cores:,} cores)" for cores, each in seconds.items())


def main() -> None:
    keep_memory()
    ray = need_ray()
    os.environ["PYTHONPATH"] = os.pathsep.join([str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="error")
    tasks = {cores: per_task(cores) for cores in CORES}
    drawing = Drawing.measured()
    ray.shutdown()
    part = per_part()
    print(f"{processor()}, CPU seconds:")
    print(f"  start of a process {start_of_process().cpu_seconds:.1f}, a part stored {1000 * part:.1f} ms,")
    print("  a task on Ray " + in_words(tasks))
    print(f"  a picture {drawing.making:.2f}, to get it from Ray and to write it " + in_words(drawing.handing))
    print(f"\n{'hours on so many cores':<38}" + "".join(f"{f'{cores:,}':>10}" for cores in CORES) + "    driver")
    row("clevr render, 10,000 pictures", [drawing.wall(cores, SCENES) for cores in CORES])
    for name, measure in WORKLOADS.items():
        found = measure()
        row(name, [project(found, cores, tasks[cores], part) for cores in CORES])
        for line in found.lines:
            if line.failure:
                print(f"  {line.explainer} fails: {line.failure}")
    print("\n* more than half of it is the driver, which works alone; its hours are those with 1,000 cores")


def row(name: str, walls: Sequence[Wall]) -> None:
    """A line of the table: hours on so many cores, and the driver's on most of them."""
    shown = "".join(f"{wall.total:>9.2f}{'*' if wall.driver > wall.total / 2 else ' '}" for wall in walls)
    print(f"{name:<38}{shown}{walls[-1].driver:>10.2f}", flush=True)
