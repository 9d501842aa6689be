"""What the VQA network learns from, and its training: literal labels, repeatable, resumed as if never stopped."""

from __future__ import annotations

import random
from dataclasses import asdict, replace
from inspect import signature

import numpy as np
import pytest
import torch

from heatproof.clevr.files import open_dataset
from heatproof.clevr.questions.world import ATTRIBUTES
from heatproof.clevr.rendering.dataset import PictureSettings, render_dataset
from heatproof.clevr.scenes import SceneSettings
from heatproof.clevr.shipped import shipped_dataset
from heatproof.cli import main
from heatproof.cli.train import vqa
from heatproof.errors import HeatproofError
from heatproof.models import training
from heatproof.models.film_network import FilmNetwork
from heatproof.models.relation_network import answers, words
from heatproof.models.vqa_data import (
    MOST_OBJECTS,
    Pictures,
    cell_labels,
    load_pictures,
    moved,
    nearest,
    padded,
    simple_questions,
)
from heatproof.models.vqa_training import Schedule, accuracy, train
from heatproof.models.weights import fingerprint, load_weights
from tiny_datasets import draw, make_scene, mask_colours


def test_finer_ids_are_read_at_the_middle_of_each_pixel():
    """By hand: of three rows the middles of two lie in the first and third, of four columns in the second and last."""
    ids = np.arange(12, dtype=np.uint8).reshape(3, 4)
    assert nearest(ids, 2).tolist() == [[1, 3], [9, 11]]
    assert np.array_equal(nearest(ids[:, :3], 3), ids[:, :3])


def make_pictures(count: int) -> Pictures:
    """Flat coloured shapes in noise, with what they show."""
    rng = random.Random(7)
    generator = torch.Generator().manual_seed(7)
    pixels = torch.randint(0, 60, (count, 3, 128, 128), generator=generator, dtype=torch.uint8)
    ids = torch.zeros(count, 128, 128, dtype=torch.uint8)
    objects = torch.full((count, MOST_OBJECTS + 1, 4), -1)
    scenes = []
    for place in range(count):
        number = rng.randrange(3, 7)
        scene = make_scene(rng, place, number, mask_colours(rng, number))
        ids[place] = torch.from_numpy(draw(rng, number, 128, 128))
        for k, thing in enumerate(scene["objects"], 1):
            objects[place, k] = torch.tensor([ATTRIBUTES[name].index(thing[name]) for name in ATTRIBUTES])
            brightness = 80 + 20 * ATTRIBUTES["color"].index(thing["color"])
            pixels[place, :, ids[place] == k] = brightness
        scenes.append(scene)
    return Pictures(pixels, ids, objects, scenes)


@pytest.fixture(scope="module")
def pictures() -> Pictures:
    return make_pictures(12)


def literal_labels(ids: np.ndarray, objects: np.ndarray) -> np.ndarray:
    """Cell by cell: the object with most of the 64 pixels, if it has at least 16 of them."""
    labels = np.zeros((5, 16, 16), dtype=int)
    for row in range(16):
        for column in range(16):
            cell = ids[8 * row : 8 * row + 8, 8 * column : 8 * column + 8]
            counts = [int((cell == k).sum()) for k in range(1, MOST_OBJECTS + 1)]
            best = counts.index(max(counts))
            if counts[best] >= 16:
                labels[:, row, column] = [*objects[best + 1], 1]
            else:
                labels[:, row, column] = [-1, -1, -1, -1, 0]
    return labels


def test_cells_are_labelled_with_what_covers_most_of_them(pictures):
    labels = cell_labels(pictures.ids[:4], pictures.objects[:4], 16)
    for place in range(4):
        expected = literal_labels(pictures.ids[place].numpy(), pictures.objects[place].numpy())
        assert (labels[place].numpy() == expected).all()
    assert (labels[:, 4] == 1).any()
    assert (labels[:, 4] == 0).any()


def test_moved_pictures_keep_their_edges():
    picture = torch.arange(12).view(1, 3, 4)
    assert moved(picture, 1, 0).tolist() == [[[0, 1, 2, 3], [0, 1, 2, 3], [4, 5, 6, 7]]]
    assert moved(picture, 0, -1).tolist() == [[[1, 2, 3, 3], [5, 6, 7, 7], [9, 10, 11, 11]]]


def test_questions_have_the_answer_that_the_scene_gives(pictures):
    """By reading the words: the one object that has all values named has the answer."""
    said = {"block": "cube", "ball": "sphere", "big": "large", "tiny": "small", "shiny": "metal", "metallic": "metal"}
    said |= {"matte": "rubber"}
    asked = list(simple_questions(pictures, range(12), range(12)))
    assert {question.attribute for question in asked} == set(ATTRIBUTES)
    for question in asked:
        spoken = " ".join(words[token - 1] for token in question.tokens.flip(0).tolist()).replace("how big", "").split()
        named = {said.get(word, word) for word in spoken} & {value for known in ATTRIBUTES.values() for value in known}
        fitting = [
            thing
            for thing in pictures.scenes[question.place]["objects"]
            if named <= {thing[attribute] for attribute in ATTRIBUTES}
        ]
        assert [thing[question.attribute] for thing in fitting] == [answers[question.answer]]
        *said_of_each, asked_for = question.meaning
        meant = {
            known[value] for known, value in zip(ATTRIBUTES.values(), said_of_each, strict=True) if value < len(known)
        }
        assert meant == named
        assert list(ATTRIBUTES)[asked_for] == question.attribute


def test_padded_questions_read_as_encoded_ones(pictures):
    asked = list(simple_questions(pictures, range(3), range(3)))
    tokens = padded(asked)
    for row, question in zip(tokens, asked, strict=True):
        assert row[row != 0].tolist() == question.tokens.tolist()
        assert row[-1] != 0


SHORT = Schedule(seed=3, eye_epochs=2, reader_steps=2, answer_steps=3, whole_steps=3)
TOTAL_STEPS = 10


@pytest.fixture(scope="module")
def briefly_trained(pictures: Pictures) -> str:
    return fingerprint(train(pictures, SHORT))


def test_training_is_repeatable(pictures, briefly_trained):
    assert fingerprint(train(pictures, SHORT)) == briefly_trained
    assert fingerprint(train(pictures, replace(SHORT, seed=4))) != briefly_trained


class StoppedError(Exception):
    pass


@pytest.mark.parametrize("last", [("eye", 1), ("reader", 2), ("answers", 1), ("answers", 3), ("whole", 2)])
def test_interrupted_training_goes_on_as_if_it_had_not_been(pictures, briefly_trained, tmp_path, monkeypatch, last):
    monkeypatch.setattr(training, "KEEP_EVERY", 1)

    def stop(task: str, done: float, total: float) -> None:
        if (task.partition(":")[0], done) == last:
            raise StoppedError

    with pytest.raises(StoppedError):
        train(pictures, SHORT, tmp_path / "checkpoint", stop)
    steps: list[str] = []
    network = train(pictures, SHORT, tmp_path / "checkpoint", lambda task, done, total: steps.append(task))
    assert len(steps) < TOTAL_STEPS
    assert fingerprint(network) == briefly_trained


def test_checkpoints_of_other_trainings_are_refused(pictures, tmp_path):
    train(pictures, Schedule(1, 1, 0, 0, 0), tmp_path / "checkpoint")
    with pytest.raises(HeatproofError, match="another training"):
        train(pictures, Schedule(2, 1, 0, 0, 0), tmp_path / "checkpoint")
    (tmp_path / "checkpoint").write_text("nothing")
    with pytest.raises(HeatproofError, match="no checkpoint of this training"):
        train(pictures, Schedule(1, 1, 0, 0, 0), tmp_path / "checkpoint")


@pytest.mark.parametrize(
    ("stage", "schedule"), [("eye", Schedule(1, 15, 0, 0, 0)), ("reader", Schedule(1, 0, 30, 0, 0))]
)
def test_eye_and_reader_learn_names(pictures, stage, schedule):
    """Loss of naming at the first step and smoothed over all."""
    seen: list[str] = []
    train(pictures, schedule, progress=lambda task, done, total: seen.append(task))
    losses = [float(task.partition("loss ")[2]) for task in seen if task.startswith(stage)]
    assert losses[-1] < 0.95 * losses[0]


def test_other_sizes_are_refused(tmp_path):
    settings = SceneSettings(1, "new", 3, 4, 96, 64)
    render_dataset(tmp_path / "small", 1, settings, PictureSettings(samples=1, denoise=False))
    with pytest.raises(HeatproofError, match=r"is 96x64 with .* --size 128x128"):
        load_pictures(open_dataset(tmp_path / "small"))


def test_the_command_trains_and_measures(tmp_path, monkeypatch, capsys):
    """One step of each stage on the pictures that ship; the weights load and are those that were measured."""
    out = tmp_path / "net.npz"
    words = ["--eye-epochs", "1", "--reader-steps", "1", "--answer-steps", "1", "--whole-steps", "1"]
    data = str(shipped_dataset())
    monkeypatch.setattr("sys.argv", ["heatproof", "train", "vqa", data, "--held-out", data, "--out", str(out), *words])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code in (0, None)
    said = capsys.readouterr().out
    network = FilmNetwork().eval()
    load_weights(network, out)
    for attribute, (right, asked) in accuracy(network, load_pictures(open_dataset(data))).items():
        assert f"{attribute}: {right} of {asked} right" in said


def test_the_commands_defaults_are_the_schedules():
    assert asdict(Schedule()).items() <= {name: p.default for name, p in signature(vqa).parameters.items()}.items()
