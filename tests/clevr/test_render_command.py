"""`heatproof clevr render`."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import mlcroissant
import pytest

from heatproof.clevr.rendering.dataset import PictureSettings, render_dataset
from heatproof.clevr.scenes import SceneSettings
from heatproof.executors.choice import Execution


def render(*words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    script = "from heatproof.cli import main; main()"
    command = [sys.executable, "-c", script, "clevr", "render", *words]
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, env=os.environ | {"NO_COLOR": "1"})


def test_a_data_set_from_nothing(tmp_path):
    words = ["set", "--size", "60x40", "--samples", "1", "--no-denoise", "--jobs", "1", "--split", "val"]
    first = render(*words, "--num-images", "2", cwd=tmp_path)
    assert first.returncode == 0, first.stderr
    assert "2 pictures made" in first.stdout
    again = render(*words, "--num-images", "3", cwd=tmp_path)
    assert "1 pictures made" in again.stdout
    assert "2 were there" in again.stdout
    scenes = json.loads((tmp_path / "set" / "CLEVR_scenes.json").read_text())["scenes"]
    assert [scene["image_filename"] for scene in scenes] == [f"CLEVR_val_{index:06d}.png" for index in range(3)]
    described = mlcroissant.Dataset(jsonld=str(tmp_path / "set" / "croissant.json"))
    assert not described.metadata.ctx.issues.errors
    assert [record["CLEVR_scenes/image_index"] for record in described.records("CLEVR_scenes")] == [0, 1, 2]
    other = render(*words, "--num-images", "3", "--seed", "1", cwd=tmp_path)
    assert other.returncode == 2
    assert "seed: 0 there, 1 now" in other.stderr
    assert "Traceback" not in other.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--size", "480"], "size must be WIDTHxHEIGHT"),
        (["--max-objects", "100"], "100 objects cannot be placed"),
        (["--renderer", "povray"], "povray"),
        (["--blender-assets", "nowhere"], "with --renderer blender only"),
        (["--address", "auto"], "give engine ray (--engine ray)"),
        (
            ["--renderer", "blender", "--blender-assets", "nowhere", "--jobs", "1"],
            "nowhere lacks shapes/SmoothCube_v2.blend",
        ),
    ],
)
def test_bad_arguments_are_named(words, said, tmp_path):
    result = render("set", "--num-images", "1", *words, cwd=tmp_path)
    assert result.returncode == 2, result.stderr
    assert said in result.stderr
    assert "Traceback" not in result.stderr


def test_help_imports_nothing_heavy():
    script = (
        "import sys\nfrom heatproof.cli import main\nsys.argv = ['heatproof', 'clevr', 'render', '--help']\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "loaded = {'numba', 'numpy', 'PIL', 'torch', 'pyoidn'} & set(sys.modules)\nassert not loaded, loaded\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True, capture_output=True)


def test_torch_is_not_loaded_for_pictures(tmp_path):
    """It takes seconds and much memory. Workers would find the one here that cannot be loaded, too."""
    (tmp_path / "torch.py").write_text("raise RuntimeError('torch is not needed here')")
    words = "clevr render set --num-images 2 --size 60x40 --samples 1 --engine processes --jobs 2"
    command = [sys.executable, "-c", "from heatproof.cli import main; main()", *words.split()]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])}
    result = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=environment)
    assert result.returncode == 0, result.stderr


@pytest.mark.skipif(os.name != "posix", reason="needs signals")
@pytest.mark.parametrize("engine", ["local", "processes"])
def test_interrupted_it_keeps_what_is_made_says_how_to_go_on_and_goes_on(engine, tmp_path):
    words = ["set", "--size", "60x40", "--samples", "8", "--no-denoise", "--jobs", "2", "--quiet"]
    script = "from heatproof.cli import main; main()"
    command = [sys.executable, "-c", script, "clevr", "render", *words, "--num-images", "500", "--engine", engine]
    with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True, start_new_session=True) as process:
        while process.poll() is None and len(list((tmp_path / "set").glob("images/*.png"))) < 5:
            time.sleep(0.05)
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does: every process gets it
        _, said = process.communicate(timeout=60)
    assert process.returncode == 130, said
    assert "Traceback" not in said
    assert "go on with:\n  heatproof clevr render set --size 60x40" in said
    made = sorted((tmp_path / "set" / "images").iterdir())
    assert 5 <= len(made) < 500
    assert all(path.read_bytes().endswith(b"IEND\xaeB`\x82") for path in made)
    count = int(made[-1].stem[-6:]) + 3
    result = render(*words, "--num-images", str(count), cwd=tmp_path)
    assert (result.returncode, result.stderr) == (0, "")
    plain = PictureSettings(samples=8, denoise=False)
    render_dataset(tmp_path / "whole", count, SceneSettings(width=60, height=40), plain, how=Execution("local"))
    for path in (tmp_path / "whole").glob("*/*"):
        assert (tmp_path / "set" / path.parent.name / path.name).read_bytes() == path.read_bytes()
