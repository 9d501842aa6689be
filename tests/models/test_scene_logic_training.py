"""How the scene-logic network learns: a literal loss, bit by bit repeatable, resumed as if never stopped."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from inspect import signature
from typing import Any

import pytest
import torch

from heatproof.clevr.files import open_dataset
from heatproof.clevr.questions.world import ATTRIBUTES
from heatproof.clevr.scenes import DIRECTIONS
from heatproof.clevr.shipped import shipped_dataset
from heatproof.cli import main
from heatproof.cli.train import scene_logic
from heatproof.errors import HeatproofError
from heatproof.models import training
from heatproof.models.scene_eye import VALUES
from heatproof.models.scene_logic import load_scene_logic
from heatproof.models.scene_logic_training import Objects, Schedule, naming_loss, objects_of, train
from heatproof.models.vqa_data import Pictures, load_pictures
from heatproof.models.weights import fingerprint

SHORT = Schedule(seed=3, steps=4, batch=4)


@pytest.fixture(scope="module")
def pictures() -> Pictures:
    return load_pictures(open_dataset(shipped_dataset()))[:12]


@pytest.fixture(scope="module")
def briefly_trained(pictures: Pictures) -> str:
    return fingerprint(train(pictures, SHORT))


def entropy(score: float, is_true: bool) -> float:
    return math.log1p(math.exp(-score if is_true else score))


def literal_loss(cells: torch.Tensor, scenes: Sequence[Mapping[str, Any]]) -> float:
    """Cell by cell, object by object."""
    finding, values, weights = 0.0, 0.0, 0.0
    for said, scene in zip(cells.tolist(), scenes, strict=True):
        for row in range(16):
            for column in range(16):
                here = [said[k][row][column] for k in range(18)]
                far = [
                    max(
                        abs(8 * column + 4 - thing["pixel_coords"][0] - 0.5),
                        abs(8 * row + 4 - thing["pixel_coords"][1] - 0.5),
                    )
                    for thing in scene["objects"]
                ]
                nearest = min(far)
                if nearest <= 4 or nearest > 5:
                    finding += entropy(here[0], nearest <= 4)
                if nearest > 9:
                    continue
                weight = 1.0 if nearest <= 4 else 0.3
                thing = scene["objects"][far.index(nearest)]
                weights += weight
                loss = sum(entropy(here[1 + k], value in thing.values()) for value, k in VALUES.items())
                for name, known in ATTRIBUTES.items():
                    scores = {value: here[1 + VALUES[value]] for value in known}
                    loss += 0.5 * (math.log(sum(map(math.exp, scores.values()))) - scores[thing[name]])
                for k, way in enumerate(("right", "front")):
                    off = abs(
                        here[16 + k] - sum(a * b for a, b in zip(DIRECTIONS[way], thing["3d_coords"][:2], strict=False))
                    )
                    loss += 2 * (off**2 / 0.4 if off < 0.2 else off - 0.1)
                values += weight * loss
    return 40 * finding / cells[:, 0].numel() + values / weights


def test_the_loss_is_what_cells_get_wrong(pictures):
    """Against a literal version."""
    cells = torch.randn(3, 18, 16, 16, generator=torch.Generator().manual_seed(0))
    objects = objects_of(pictures[:3])
    found = naming_loss(cells, objects)
    assert float(found) == pytest.approx(literal_loss(cells, pictures.scenes[:3]), rel=1e-5)


def test_cells_that_are_right_have_no_loss(pictures):
    objects = objects_of(pictures[:1])
    one = Objects(*(part[:, :1] for part in (objects.middles, objects.values, objects.places)))
    cells = torch.full((1, 18, 16, 16), -20.0)
    column, row = (one.middles[0, 0] // 8).int().tolist()
    cells[0, 0, row, column] = 20.0
    for value in one.values[0, 0].tolist():
        cells[0, 1 + value] = 20.0
    cells[0, 16:] = one.places[0, 0][:, None, None]
    assert float(naming_loss(cells, one)) < 1e-5


def test_training_is_repeatable(pictures, briefly_trained):
    assert fingerprint(train(pictures, SHORT)) == briefly_trained
    assert fingerprint(train(pictures, replace(SHORT, seed=4))) != briefly_trained


class StoppedError(Exception):
    pass


@pytest.mark.parametrize("last", [1, 3])
def test_interrupted_training_goes_on_to_the_same_bits(pictures, briefly_trained, tmp_path, monkeypatch, last):
    monkeypatch.setattr(training, "KEEP_EVERY", 1)

    def stop(task: str, done: float, total: float) -> None:
        if done == last:
            raise StoppedError

    with pytest.raises(StoppedError):
        train(pictures, SHORT, tmp_path / "checkpoint", stop)
    steps: list[float] = []
    eye = train(pictures, SHORT, tmp_path / "checkpoint", lambda task, done, total: steps.append(done))
    assert steps == list(range(last + 1, 5))
    assert fingerprint(eye) == briefly_trained
    with pytest.raises(HeatproofError, match="another training"):
        train(pictures, replace(SHORT, seed=5), tmp_path / "checkpoint")


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_it_learns_in_both_precisions(pictures, precision):
    """The smoothed loss at the first step and after twelve."""
    seen: list[float] = []
    schedule = Schedule(seed=1, steps=12, batch=4, precision=precision)
    eye = train(pictures, schedule, progress=lambda task, done, total: seen.append(float(task.partition("loss ")[2])))
    assert seen[-1] < 0.95 * seen[0]
    assert {weight.dtype for weight in eye.parameters()} == {torch.float32}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"steps": -1}, "steps"),
        ({"batch": 0}, "batch"),
        ({"rate": 0.0}, "rate must be a positive number"),
        ({"precision": "float8"}, "precision"),
    ],
)
def test_bad_schedules_are_named(options, said):
    with pytest.raises(HeatproofError, match=said):
        Schedule(**options)


def test_the_command_trains_and_measures(tmp_path, monkeypatch, capsys):
    """One step on the pictures that ship; what it wrote loads, and was measured."""
    out, data = tmp_path / "net.npz", str(shipped_dataset())
    words = ["--held-out", data, "--out", str(out), "--steps", "1", "--batch", "4"]
    monkeypatch.setattr("sys.argv", ["heatproof", "train", "scene-logic", data, *words])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code in (0, None)
    assert "simple, family unique_query:" in capsys.readouterr().out
    load_scene_logic(out)
    monkeypatch.setattr("sys.argv", ["heatproof", "clevr", "answer", data, "--questions", "simple", "--limit", "8"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code in (0, None)
    assert "by guessing" in capsys.readouterr().out


def test_the_commands_defaults_are_the_schedules():
    defaults = {name: parameter.default for name, parameter in signature(scene_logic).parameters.items()}
    assert {name: value for name, value in asdict(Schedule()).items() if name != "decay"}.items() <= defaults.items()
