"""What stays the same on another processor: this one made to work like older ones, and everything computed under each.

`python -m benchmarks.processors tables` prints the tables of docs/reproducibility.md, or those of seeded, pictures or
scores that are named behind it;
`python -m benchmarks.processors NAME COMMAND ...` runs a command under one of the settings host, avx2 and sse.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

SCENES, PICTURES = 1000, 20
RUNS = {
    "SVEA": ["svea", "--preset", "quick"],
    "Focus": ["focus", "--preset", "quick"],
    "CLEVR-XAI": ["clevr-xai", "--preset", "quick"],
}
TURNED = 0.5
"""A score that is 0 or 1 and changes by this much was decided the other way."""
LIBM = "glibc.cpu.hwcaps=-AVX2,-FMA,-FMA4,-AVX512F"


def numpy_features(*without: str) -> str:
    """The instruction sets for which NumPy has code of its own, but for those with one of these words in their name."""
    from numpy._core._multiarray_umath import __cpu_dispatch__, __cpu_features__

    return " ".join(
        name for name in __cpu_dispatch__ if __cpu_features__.get(name) and not any(word in name for word in without)
    )


def settings() -> dict[str, dict[str, str]]:
    """Environment variables by which BLAS, NumPy, Numba, torch, oneDNN, MKL and the C library forget instructions."""
    return {
        "host": {},
        "avx2": {
            "OPENBLAS_CORETYPE": "Haswell",
            "NUMBA_CPU_NAME": "haswell",
            "NUMBA_CPU_FEATURES": "",
            "ATEN_CPU_CAPABILITY": "avx2",
            "ONEDNN_MAX_CPU_ISA": "AVX2",
            "NPY_DISABLE_CPU_FEATURES": numpy_features("V3", "AVX2", "FMA", "AVX", "F16C", "SSE", "POPCNT")
            + " " + " ".join(name for name in numpy_features().split() if "512" in name),
        },
        "sse": {
            "OPENBLAS_CORETYPE": "Nehalem",
            "NUMBA_CPU_NAME": "nehalem",
            "NUMBA_CPU_FEATURES": "",
            "ATEN_CPU_CAPABILITY": "default",
            "ONEDNN_MAX_CPU_ISA": "SSE41",
            "MKL_ENABLE_INSTRUCTIONS": "SSE4_2",
            "NPY_DISABLE_CPU_FEATURES": numpy_features(),
            "GLIBC_TUNABLES": LIBM,
        },
    }  # fmt: skip


def environment(name: str) -> dict[str, str]:
    """This environment under a setting, with a cache of its own for what Numba compiles."""
    known = settings()
    if name not in known:
        sys.exit(f"unknown setting {name}; there is: {', '.join(known)}")
    cache = Path(tempfile.gettempdir()) / f"heatproof-numba-{name}"
    return {**os.environ, **known[name], "NUMBA_CACHE_DIR": str(cache)}


def seeded(scenes: int) -> Iterator[tuple[str, bytes]]:
    """Everything that is made from a seed, as bytes."""
    import torch

    from heatproof import mnist1d
    from heatproof.clevr.files import open_dataset
    from heatproof.clevr.ground_truth import make_masks
    from heatproof.clevr.objects import shipped_pictures
    from heatproof.clevr.questions.make import make_questions
    from heatproof.clevr.rendering.dataset import render_dataset
    from heatproof.exact import normal
    from heatproof.mosaics.mosaics import MosaicSettings, draw_mosaics
    from heatproof.mosaics.pictures import find_pictures

    train, test = mnist1d.make()
    yield "MNIST-1D", b"".join(part.x.tobytes() + part.template.tobytes() for part in (train, test))
    generator = torch.Generator().manual_seed(1)
    yield "random draws", normal((100, 3, 64, 64), generator).numpy().tobytes()
    drawn = draw_mosaics(find_pictures(shipped_pictures(), None), MosaicSettings(per_class=40))
    yield "mosaics", repr([(m.name, [file.name for file in m.files], m.labels, m.target) for m in drawn]).encode()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "data"
        render_dataset(folder, scenes)
        content = json.loads((folder / "CLEVR_scenes.json").read_text())["scenes"]
        yield "scenes and relations", json.dumps(content).encode()
        for kind in ("simple", "complex"):
            make_questions(folder / "CLEVR_scenes.json", kind)
        data = open_dataset(folder)
        yield "object ids", b"".join(data.object_ids(scene).tobytes() for scene in data.scenes.values())
        for kind in data.sets:
            asked = json.loads(data.layout.questions[kind].read_text())["questions"]
            yield f"{kind} questions and programs", json.dumps(asked).encode()
        made = make_masks(data)
        yield "masks", b"".join(path.read_bytes() for path in made.values())


def hashes(scenes: int) -> dict[str, str]:
    return {name: hashlib.sha256(content).hexdigest()[:16] for name, content in seeded(scenes)}


def render_pictures(out: str) -> None:
    """Some pictures and their ids, with one thread and with two."""
    from heatproof.clevr.rendering.picture import render
    from heatproof.clevr.scenes import SceneSettings, sample_scene

    scenes = [sample_scene(SceneSettings(60, "val", 3, 10, 128, 128), index) for index in range(PICTURES)]
    for threads in (1, 2):
        made = [render(scene, 128, 128, denoise=False, threads=threads) for scene in scenes]
        np.savez(f"{out}-{threads}.npz", ids=[m.objects for m in made], pictures=[m.image for m in made])


def under(name: str, *command: str) -> str:
    """What a command prints under a setting."""
    print(f"  {name}: {' '.join(command)}", file=sys.stderr)
    return subprocess.check_output([sys.executable, *command], text=True, env=environment(name))


def hashes_under(name: str, scenes: int) -> dict[str, str]:
    """`hashes` as another process finds them under a setting."""
    found: dict[str, str] = json.loads(under(name, "-m", "benchmarks.processors", "hashes", str(scenes)))
    return found


def compare_seeded(_folder: Path) -> None:
    found = {name: hashes_under(name, SCENES) for name in settings()}
    print(f"| from a seed ({SCENES:,} scenes) | " + " | ".join(found) + " |\n|---|" + "---|" * len(found))
    for what in found["host"]:
        print(f"| {what} | " + " | ".join(f"`{each[what]}`" for each in found.values()) + " |")
    assert len({json.dumps(each) for each in found.values()}) == 1, "something seeded hangs on the processor"


def compare_pictures(folder: Path) -> None:
    for name in settings():
        under(name, "-m", "benchmarks.processors", "pictures", str(folder / name))
    host = np.load(folder / "host-1.npz")
    print(f"\n| {PICTURES} pictures of 128x128 | object ids that differ | grey values that differ by 1 | by more |")
    print("|---|---:|---:|---:|")
    for name in settings():
        for threads in (1, 2):
            made = np.load(folder / f"{name}-{threads}.npz")
            gap = np.abs(made["pictures"].astype(int) - host["pictures"])
            print(
                f"| {name}, {threads} thread(s) | {(made['ids'] != host['ids']).sum()} | {(gap == 1).mean():.4%}"
                f" | {(gap > 1).mean():.4%} |"
            )


def compare_scores(folder: Path) -> None:
    import heatproof

    heads = ("benchmark", "setting", "scores", "that differ by more than 1e-6", "greatest difference of a score")
    print("\n| " + " | ".join((*heads, "of a mean", "decisions that turned", "where")) + " |")
    print("|---|---|---:|---:|---:|---:|---:|---|")
    for title, arguments in RUNS.items():
        for name in settings():
            under(name, "-m", "heatproof", "run", *arguments, "--out", str(folder / f"{title}-{name}"))
        runs = {name: heatproof.load_run(folder / f"{title}-{name}") for name in settings()}
        for name in list(runs)[1:]:
            print(f"| {title} | {name} | " + " | ".join(differences(runs["host"], runs[name])) + " |")


AXES = ["model", "explainer", "target", "metric", "ground_truth", "pooling"]


def differences(one: Any, other: Any) -> list[str]:
    """How many scores two runs share, and how far apart they are."""
    import polars as pl

    names = [metric.name for metric in one.story.metrics]
    scores = [run.scores().filter(pl.col("metric").is_in(names)) for run in (one, other)]
    pairs = scores[0].join(scores[1], on=["case", *AXES], nulls_equal=True)
    gap = (pl.col("value") - pl.col("value_right")).abs().fill_nan(0).fill_null(0)
    gaps = pairs.select(gap).to_series()
    turned = pairs.filter(gap >= TURNED)
    where = turned.group_by("explainer", "target", maintain_order=True).len().sort("len", descending=True)
    named = [f"{explainer} of the {target} {count}" for explainer, target, count in where.head(3).rows()]
    tables = [run.leaderboard() for run in (one, other)]
    means = tables[0].join(tables[1], on=[*AXES, "subset"], nulls_equal=True)
    shift = (means["mean"] - means["mean_right"]).abs()
    numbers = [f"{len(pairs):,}", f"{(gaps > 1e-6).mean():.3%}", f"{gaps.max():.2g}", f"{shift.max():.2g}"]
    return [*numbers, str(len(turned)), ", ".join(named)]


def main(*chosen: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        for name in chosen or COMPARED:
            COMPARED[name](Path(folder))


COMPARED: Mapping[str, Callable[[Path], None]] = {
    "seeded": compare_seeded,
    "pictures": compare_pictures,
    "scores": compare_scores,
}


TASKS: Mapping[str, Any] = {
    "tables": main,
    "hashes": lambda scenes: print(json.dumps(hashes(int(scenes)))),
    "pictures": render_pictures,
}

if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    if sys.argv[1] in TASKS:
        TASKS[sys.argv[1]](*sys.argv[2:])
    else:
        sys.exit(subprocess.call(sys.argv[2:], env=environment(sys.argv[1])))
