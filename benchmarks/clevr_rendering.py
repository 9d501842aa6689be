"""CLEVR pictures: CPU seconds each, how much two processes gain over one, and hours for a set as large as CLEVR-XAI."""

from __future__ import annotations

import os
import tempfile
import time
from functools import partial
from pathlib import Path
from statistics import mean

from benchmarks.workloads import cpu_seconds
from heatproof.clevr.rendering.dataset import PictureSettings, render_dataset
from heatproof.clevr.rendering.denoise import can_denoise
from heatproof.clevr.rendering.picture import render
from heatproof.clevr.rendering.tracer import warm_up
from heatproof.clevr.scenes import SceneSettings, sample_scene

PICTURES, PICTURES_SIDE_BY_SIDE, FULL_SET = 10, 200, 10_000
CASES = {(480, 320, 32): 2.0, (128, 128, 64): 0.4}
"""Width, height and samples; CPU seconds that are the goal."""


def main() -> None:
    print(f"compile or load the tracer: {cpu_seconds(warm_up):.1f} CPU seconds")
    sampling = cpu_seconds(lambda: [sample_scene(SceneSettings(), index) for index in range(200)])
    print(f"sample 1,000 scenes: {5 * sampling:.1f} CPU seconds")
    scenes = [sample_scene(SceneSettings(), index) for index in range(PICTURES)]
    finish = "denoised" if can_denoise() else "not denoised, for want of pyoidn"
    for (width, height, samples), goal in CASES.items():
        render(scenes[0], width, height, samples=1)  # what is loaded once is not counted
        draw = partial(render, width=width, height=height, samples=samples)
        seconds = mean(cpu_seconds(partial(draw, scene)) for scene in scenes)
        print(
            f"{width}x{height}, {samples} samples, {finish}: {seconds:.2f} CPU seconds a picture (goal {goal}); "
            f"{FULL_SET:,} pictures: {FULL_SET * seconds / 3600:.1f} CPU hours"
        )
    (one, work_of_one), (two, work_of_two) = (side_by_side(jobs) for jobs in (1, 2))
    print(
        f"{PICTURES_SIDE_BY_SIDE} pictures of 128x128, 64 samples: {one:.1f} s with one job, {two:.1f} s with two: "
        f"{one / two:.2f} times; in CPU seconds {work_of_one:.1f} and {work_of_two:.1f}, so on two idle cores about "
        f"{2 * work_of_one / work_of_two:.2f} times"
    )


def side_by_side(jobs: int) -> tuple[float, float]:
    """Seconds by the clock, and CPU seconds of this process and its children; starting processes included."""
    with tempfile.TemporaryDirectory() as folder:
        start, work = time.perf_counter(), cpu_of_all()
        scenes = SceneSettings(width=128, height=128)
        render_dataset(Path(folder, "set"), PICTURES_SIDE_BY_SIDE, scenes, PictureSettings(samples=64), jobs=jobs)
        return time.perf_counter() - start, cpu_of_all() - work


def cpu_of_all() -> float:
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system
