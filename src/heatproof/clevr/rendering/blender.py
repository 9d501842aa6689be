"""Blender's Cycles as a second renderer of the same scenes, in a process of its own.

Nothing of Blender is imported here: `blender_worker.py` runs under a Python that has the package `bpy` (the extra
`blender`; this Python, or the one that HEATPROOF_BLENDER_PYTHON names) and is told what to do in lines of JSON.
"""

from __future__ import annotations

import atexit
import json
import math
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from heatproof.clevr.rendering import world
from heatproof.clevr.rendering.camera import HALF_VIEW
from heatproof.clevr.rendering.checks import check_scene
from heatproof.errors import HeatproofError

MARK = "heatproof:"
PYTHON_VARIABLE = "HEATPROOF_BLENDER_PYTHON"
WORKER = Path(__file__).with_name("blender_worker.py")
ASSETS = {
    "cube": "shapes/SmoothCube_v2.blend",
    "sphere": "shapes/Sphere.blend",
    "cylinder": "shapes/SmoothCylinder.blend",
    "rubber": "materials/Rubber.blend",
    "metal": "materials/MyMetal.blend",
    "scene": "base_scene.blend",
}
"""The original generator's files; shapes and materials carry the names of their files."""


def command(
    scene: Mapping[str, Any], width: int, height: int, samples: int, denoise: bool, path: Path
) -> dict[str, Any]:
    """All that Blender needs to know to write the scene's picture to `path`, in plain numbers and words."""
    scene = check_scene(scene)
    stands = scene["_render"]
    return {
        "path": str(path),
        "width": width,
        "height": height,
        "pixel_aspect": HALF_VIEW[0] / HALF_VIEW[1] * height / width,
        "samples": samples,
        "denoise": denoise,
        "seed": scene.get("image_index", 0),
        "camera": {"place": list(stands["camera"]), "half_view": HALF_VIEW[0]},
        "lamps": [lamp(name, stands[name]) for name in world.LAMPS],
        "sun": {"direction": list(world.SUN_DIRECTION), "strength": world.SUN_STRENGTH, "radius": world.SUN_RADIUS},
        "backdrop": {
            "axis": list(world.BACKDROP_AXIS),
            "profile": [list(point) for point in world.BACKDROP],
            "half_width": world.BACKDROP_HALF_WIDTH,
            "begin": world.BACKDROP_BEGIN,
            "grey": world.BACKDROP_GREY,
        },
        "objects": [thing(each) for each in scene["objects"]],
    }


def lamp(name: str, place: Sequence[float]) -> dict[str, Any]:
    """A square lamp: its power in watts is what gives its surface the world's light."""
    light, side = world.LAMP_LIGHT[name], world.LAMP_SIDE[name]
    brightest = max(light)
    return {
        "name": name,
        "place": list(place),
        "side": side,
        "watts": math.pi * side**2 * brightest,
        "tint": [value / brightest for value in light],
    }


def thing(each: Mapping[str, Any]) -> dict[str, Any]:
    radius = world.SIZES[each["size"]]
    return {
        "shape": each["shape"],
        "radius": radius,
        "rounding": world.EDGE_ROUNDING.get(each["shape"], 0.0) * radius,
        "place": list(each["3d_coords"]),
        "turn": each["rotation"],
        "material": each["material"],
        "colour": [value / 255 for value in world.COLOURS[each["color"]]],
    }


def check_assets(folder: Path | None) -> None:
    """Name the files that a folder of the user's own assets lacks."""
    lacking = [name for name in ASSETS.values() if folder is not None and not (folder / name).is_file()]
    if lacking:
        raise HeatproofError(f"{folder} lacks {', '.join(lacking)}, which the original CLEVR assets have.")


class BlenderSession:
    """A running Blender, which renders one scene after the other."""

    def __init__(self, assets: Path | None, python: str) -> None:
        check_assets(assets)
        self.python = python
        words = [
            python,
            str(WORKER),
            json.dumps({name: str(assets / file) for name, file in ASSETS.items()} if assets else {}),
        ]
        try:
            self.process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)  # nosec B603
        except OSError as problem:
            raise HeatproofError(f"cannot start {python} for Blender: {problem.strerror}.") from problem
        if self.answer() != {"ready": True}:
            raise HeatproofError(
                f"{python} has no package bpy: pip install 'heatproof[blender]' (bpy needs Python 3.11), "
                f"or name a Python that has it in {PYTHON_VARIABLE}."
            )

    def render(
        self, scene: Mapping[str, Any], width: int, height: int, samples: int, denoise: bool, path: Path
    ) -> None:
        """Write the scene's picture to `path`."""
        assert self.process.stdin is not None
        order = json.dumps(command(scene, width, height, samples, denoise, path.resolve()))
        try:
            self.process.stdin.write(order + "\n")
            self.process.stdin.flush()
            answer = self.answer()
        except BrokenPipeError:
            answer = {}
        if not answer.get("done") or not path.is_file():
            raise HeatproofError(f"Blender failed: {answer.get('problem', 'it ended')}.")

    def answer(self) -> dict[str, Any]:
        """Blender's next answer, skipping all else that it prints; empty if it has ended."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith(MARK):
                found: dict[str, Any] = json.loads(line[len(MARK) :])
                return found
        return {}

    def close(self) -> None:
        assert self.process.stdin is not None
        with suppress(BrokenPipeError):  # it ended by itself
            self.process.stdin.close()
        self.process.wait()


_sessions: dict[Path | None, BlenderSession] = {}


def blender_session(assets: Path | None) -> BlenderSession:
    """This process's Blender, started when first asked for, and anew where it has ended."""
    session = _sessions.get(assets)
    if session is None or session.process.poll() is not None:
        session = _sessions[assets] = BlenderSession(assets, os.environ.get(PYTHON_VARIABLE, sys.executable))
        atexit.register(session.close)
    return session
