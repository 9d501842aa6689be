"""CLEVR pictures: CPU seconds each, and hours for a set as large as CLEVR-XAI."""

from __future__ import annotations

from functools import partial
from statistics import mean

from benchmarks.workloads import cpu_seconds
from heatproof.clevr.rendering.denoise import can_denoise
from heatproof.clevr.rendering.picture import render
from heatproof.clevr.rendering.tracer import warm_up
from heatproof.clevr.scenes import SceneSettings, sample_scene

PICTURES, FULL_SET = 10, 10_000
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
