"""Blender as a renderer: what it is told, what goes wrong, and, where there is one, what it paints."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from heatproof.clevr.rendering import blender
from heatproof.clevr.rendering.blender import BlenderSession, command
from heatproof.clevr.rendering.dataset import PictureSettings, render_dataset
from heatproof.clevr.rendering.picture import render
from heatproof.clevr.scenes import SceneSettings, sample_scene
from heatproof.errors import HeatproofError
from heatproof.executors.choice import Execution

PYTHON = os.environ.get(blender.PYTHON_VARIABLE, sys.executable)
SCENE = sample_scene(SceneSettings(seed=1), 0)


def has_blender() -> bool:
    return subprocess.run([PYTHON, "-c", "import bpy"], capture_output=True).returncode == 0


@pytest.fixture(scope="module")
def python_with_blender() -> str:
    if not has_blender():
        pytest.skip(f"needs a Python with the package bpy, named in {blender.PYTHON_VARIABLE}")
    return PYTHON


def test_the_order_is_plain_json_with_the_original_numbers():
    """Reference: powers, view and sizes as read in the original's files."""
    order = command(SCENE, 480, 320, 32, True, Path("/tmp/a.png"))
    assert json.loads(json.dumps(order)) == order
    assert {lamp["name"]: round(lamp["watts"], 2) for lamp in order["lamps"]} == {
        "key": 78.54,
        "back": 39.27,
        "fill": 23.56,
    }
    assert [lamp["place"] for lamp in order["lamps"]] == [SCENE["_render"][name] for name in ("key", "back", "fill")]
    assert order["camera"]["place"] == SCENE["_render"]["camera"]
    assert 32 / (2 * order["camera"]["half_view"]) == pytest.approx(35)  # mm, from a sensor of 32 mm
    assert order["pixel_aspect"] == pytest.approx(1)
    assert command(SCENE, 128, 128, 1, False, Path("a"))["pixel_aspect"] == pytest.approx(1.5)
    for told, thing in zip(order["objects"], SCENE["objects"], strict=True):
        assert told["radius"] == {"large": 0.7, "small": 0.35}[thing["size"]]
        assert told["rounding"] == pytest.approx(
            {"cube": 0.177, "cylinder": 0.054, "sphere": 0}[thing["shape"]] * told["radius"]
        )
        assert (told["place"], told["turn"]) == (thing["3d_coords"], thing["rotation"])


def test_a_python_without_blender():
    if find_spec("bpy") is not None:
        pytest.skip("this Python has bpy")
    with pytest.raises(HeatproofError, match=r"has no package bpy: pip install .*HEATPROOF_BLENDER_PYTHON"):
        BlenderSession(None, sys.executable)


def test_no_such_python():
    with pytest.raises(HeatproofError, match="cannot start /nowhere/python"):
        BlenderSession(None, "/nowhere/python")


def test_assets_that_lack_files(tmp_path):
    (tmp_path / "shapes").mkdir()
    (tmp_path / "shapes" / "Sphere.blend").touch()
    with pytest.raises(HeatproofError, match=r"lacks shapes/SmoothCube_v2.blend, .*base_scene.blend"):
        BlenderSession(tmp_path, sys.executable)


def test_a_worker_that_dies_is_reported(tmp_path, monkeypatch):
    """A stand-in for Blender that says it is ready and then ends."""
    worker = tmp_path / "worker.py"
    worker.write_text("print('noise')\nprint('heatproof:{\"ready\": true}', flush=True)\n")
    monkeypatch.setattr(blender, "WORKER", worker)
    session = BlenderSession(None, sys.executable)
    with pytest.raises(HeatproofError, match="Blender failed: it ended"):
        session.render(SCENE, 48, 32, 1, False, tmp_path / "a.png")
    session.process.wait()


STAND_IN = """
import json
import sys
print('heatproof:{"ready": true}', flush=True)
for line in sys.stdin:
    order = json.loads(line)
    if order["seed"] == 1:
        break
    with open(order["path"], "wb") as file:
        file.write(b"picture %d, IEND\\xaeB`\\x82" % order["seed"])
    print('heatproof:{"done": true}', flush=True)
"""


@pytest.mark.parametrize("engine", ["local", "processes"])
def test_a_data_set_by_a_blender_that_dies_of_one_picture(engine, tmp_path, monkeypatch):
    """The others are made, by another Blender, and come back from wherever they were written to."""
    worker = tmp_path / "stand_in"
    worker.write_text("#!/bin/sh\nexec " + sys.executable + " -c '" + STAND_IN.replace("'", "'\\''") + "'\n")
    worker.chmod(0o755)
    monkeypatch.setenv(blender.PYTHON_VARIABLE, str(worker))
    monkeypatch.setattr(blender, "_sessions", {})
    settings, how = SceneSettings(width=60, height=40), Execution(engine, 2 if engine == "processes" else None)
    with pytest.raises(HeatproofError, match=r"1 of 3 .*\n  CLEVR_new_000001: Blender failed: it ended"):
        render_dataset(tmp_path / "set", 3, settings, PictureSettings("blender"), how=how)
    for session in blender._sessions.values():
        session.close()
    made = {path.name: path.read_bytes() for path in (tmp_path / "set" / "images").iterdir()}
    assert made == {f"CLEVR_new_{i:06d}.png": b"picture %d, IEND\xaeB`\x82" % i for i in (0, 2)}


def psnr(a: np.ndarray, b: np.ndarray) -> float:
    return 10 * math.log10(255**2 / ((a.astype(float) - b) ** 2).mean())


@pytest.mark.slow
@pytest.mark.parametrize("size", [(240, 160), (128, 128)])
def test_blender_paints_what_the_tracer_paints(size, tmp_path, python_with_blender):
    session = BlenderSession(None, python_with_blender)
    session.render(SCENE, *size, 32, True, tmp_path / "a.png")
    session.close()
    painted = np.asarray(Image.open(tmp_path / "a.png").convert("RGB"))
    assert psnr(painted, render(SCENE, *size, samples=64).image) > 34


MAKE_ASSETS = """
import json
import sys
sys.path.insert(0, sys.argv[1])
import bpy
import blender_worker as worker

folder = sys.argv[2]
shapes = {"SmoothCube_v2": ("cube", 0.177), "Sphere": ("sphere", 0), "SmoothCylinder": ("cylinder", 0.054)}
for name, (shape, rounding) in shapes.items():
    bpy.ops.wm.read_factory_settings(use_empty=True)
    item = worker.build_shape(bpy, {"shape": shape, "radius": 1.0, "rounding": rounding})
    item.name = name
    bpy.data.libraries.write(f"{folder}/shapes/{name}.blend", {item})
for name in ("Rubber", "MyMetal"):
    bpy.ops.wm.read_factory_settings(use_empty=True)
    group = bpy.data.node_groups.new(name, "ShaderNodeTree")
    group.interface.new_socket("Color", in_out="INPUT", socket_type="NodeSocketColor")
    group.interface.new_socket("Shader", in_out="OUTPUT", socket_type="NodeSocketShader")
    kinds = ("ShaderNodeBsdfDiffuse", "NodeGroupInput", "NodeGroupOutput")
    diffuse, begin, end = (group.nodes.new(kind) for kind in kinds)
    group.links.new(begin.outputs[0], diffuse.inputs["Color"])
    group.links.new(diffuse.outputs[0], end.inputs[0])
    group.use_fake_user = True
    bpy.data.libraries.write(f"{folder}/materials/{name}.blend", {group})
order = json.loads(sys.argv[3])
worker.set_stage(bpy, order)
for lamp in ("key", "back", "fill"):
    bpy.data.objects[lamp].name = f"Lamp_{lamp.capitalize()}"
    bpy.data.objects[f"Lamp_{lamp.capitalize()}"].location = (0, 0, 9)
bpy.data.objects["Camera"].location = (0, 0, 9)
bpy.ops.wm.save_as_mainfile(filepath=f"{folder}/base_scene.blend")
"""


@pytest.mark.slow
def test_own_assets_are_loaded(tmp_path, python_with_blender):
    """A folder laid out as the original's: our shapes, plain matt materials, camera and lamps that must be moved."""
    for name in ("shapes", "materials"):
        (tmp_path / name).mkdir()
    order = json.dumps(command(SCENE, 48, 32, 1, False, tmp_path / "x.png"))
    words = [python_with_blender, "-c", MAKE_ASSETS, str(blender.WORKER.parent), str(tmp_path), order]
    subprocess.run(words, check=True, capture_output=True)
    matt = SCENE | {"objects": [thing | {"material": "rubber"} for thing in SCENE["objects"]]}
    session = BlenderSession(tmp_path, python_with_blender)
    session.render(matt, 120, 80, 32, True, tmp_path / "a.png")
    session.close()
    painted = np.asarray(Image.open(tmp_path / "a.png").convert("RGB"))
    assert psnr(painted, render(matt, 120, 80, samples=64).image) > 30
