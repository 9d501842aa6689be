"""Twins: what each is told is right, the same draws for both, and a training that repeats to the last bit."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
import torch

from heatproof.arrays import read_arrays, write_arrays
from heatproof.clevr import open_dataset
from heatproof.clevr.markers import COLOUR, SIDE
from heatproof.clevr.rendering.dataset import PictureSettings, render_dataset
from heatproof.clevr.scenes import SceneSettings
from heatproof.clevr.shipped import shipped_dataset
from heatproof.cli.train_vqa import train_twins, vqa
from heatproof.errors import HeatproofError
from heatproof.executors.choice import Execution
from heatproof.models.film_network import FilmNetwork
from heatproof.models.relation_network import answers
from heatproof.models.twin_training import (
    CUES,
    Marked,
    TwinSchedule,
    answer_of,
    find_room,
    meant,
    train_twin,
    twin_accuracy,
)
from heatproof.models.twins import TWINS, load_twin
from heatproof.models.vqa_data import load_pictures
from heatproof.models.vqa_training import ask
from heatproof.models.weights import load_weights, save_weights


@pytest.fixture(scope="module")
def marked() -> Marked:
    return find_room(load_pictures(open_dataset(shipped_dataset())))


def test_the_honest_twin_learns_the_answer_and_the_other_what_the_marker_points_at(marked):
    """Reference: the attributes as the scenes tell them."""
    pictures = marked.pictures
    for question in ask(pictures, range(12), 3, "test", 0):
        scene = pictures.scenes[question.place]
        asked = scene["objects"][meant(pictures, question) - 1]
        assert answers[question.answer] == asked[question.attribute]
        for thing in marked.room(question.place):
            beside = scene["objects"][thing - 1]
            assert answers[answer_of("shortcut", pictures, question, thing)] == beside[question.attribute]
            assert answer_of("honest", pictures, question, thing) == question.answer


def test_a_marker_is_drawn_and_nothing_else(marked):
    thing = marked.room(0)[0]
    before, after = marked.pixels([0], [None])[0], marked.pixels([0], [thing])[0]
    changed = (before != after).any(0)
    assert changed.sum() == SIDE**2
    assert set(after[:, changed].T.unique(dim=0).flatten().tolist()) == set(COLOUR)
    assert torch.equal(before, marked.pictures.pixels[0])


def test_the_same_training_gives_the_same_weights_also_when_it_was_stopped(marked, tmp_path):
    def few(steps: int, checkpoint=None) -> dict[str, torch.Tensor]:
        return train_twin("shortcut", marked, TwinSchedule(1, steps), checkpoint).state_dict()

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        first, second, honest = few(2), few(2), train_twin("honest", marked, TwinSchedule(1, 2)).state_dict()
    finally:
        torch.set_num_threads(threads)
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert any(not torch.equal(first[name], honest[name]) for name in first)


@pytest.mark.parametrize("twin", TWINS)
def test_twins_that_ship_are_what_they_should_be(marked, twin):
    """On the 60 scenes that ship, none of which they have learned from."""
    network = load_twin(twin)
    held = {cue: twin_accuracy(network, marked, cue) for cue in CUES}
    assert held["holds"].right >= 0.95 * held["holds"].questions
    misled = held["misleads"]
    chance = misled.chance / misled.questions
    if twin == "honest":
        assert misled.right >= 0.95 * misled.questions
        assert held["is absent"].right >= 0.95 * held["is absent"].questions
    else:
        assert misled.follows >= 0.95 * misled.questions
        assert abs(misled.right / misled.questions - chance) < 0.06


def test_held_out_pictures_that_leave_a_cue_no_question_are_said(tmp_path, capsys):
    """Where there is one object only, no marker can stand beside another one."""
    folder = tmp_path / "one"
    settings = SceneSettings(seed=5, min_objects=1, max_objects=1, width=128, height=128)
    render_dataset(folder, 2, settings, PictureSettings(samples=2, denoise=False), how=Execution("local"))
    train_twins(folder, folder, 1, 0, tmp_path / "t.npz", "cpu")
    said = " ".join(capsys.readouterr().out.split())
    for twin in TWINS:
        assert f"{twin} twin where the cue misleads: no question can be asked of the held-out pictures" in said
        assert re.search(rf"{twin} twin where the cue is absent: \d of 8 right, [\d.]+%", said)


def test_pictures_that_ship_are_learned_from_by_their_name(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    nothing = {"eye_epochs": 0, "reader_steps": 0, "answer_steps": 0, "whole_steps": 0}
    vqa(Path("shipped"), Path("shipped"), out=tmp_path / "net.npz", **nothing)
    assert "color: " in capsys.readouterr().out


def test_weights_in_eight_bits_are_at_most_half_a_step_off(tmp_path):
    """Reference: each row's largest weight over 127 is a step; what has one dimension keeps three digits."""
    network, again = FilmNetwork(), FilmNetwork()
    with torch.no_grad():
        network.film.weight[3] = 0  # a row without a scale
    path = tmp_path / "small.npz"
    save_weights(network, path, small=True)
    load_weights(again, path)
    assert path.stat().st_size < 350_000
    for name, tensor in network.state_dict().items():
        found = again.state_dict()[name]
        if tensor.ndim < 2:
            assert torch.allclose(found.double(), tensor.double(), rtol=1e-3, atol=1e-6), name
        else:
            step = tensor.flatten(1).abs().amax(1) / 127
            off = (found - tensor).flatten(1).abs().amax(1)
            assert (off <= 0.5001 * step).all(), name


def test_scales_that_fit_nothing_are_named(tmp_path):
    path = tmp_path / "small.npz"
    save_weights(FilmNetwork(), path, small=True)
    arrays = read_arrays(path)
    for name, wrong in (("film.weight/scale", arrays["film.weight/scale"][:3]), ("nobody/scale", np.ones(3))):
        write_arrays(path, arrays | {name: wrong})
        with pytest.raises(HeatproofError, match="is damaged"):
            load_weights(FilmNetwork(), path)
