"""The network for all of CLEVR's questions: its logic against plain Python, its eye, and what explainers make of it."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

from heatproof import explain
from heatproof.benchmarks.clevr_xai import ClevrXai
from heatproof.benchmarks.clevr_xai.accuracy import accuracy
from heatproof.benchmarks.clevr_xai.answers import pictures
from heatproof.clevr.answers import in_words
from heatproof.clevr.files import open_dataset
from heatproof.clevr.questions.asking import Question, ask
from heatproof.clevr.questions.functions import execute
from heatproof.clevr.questions.grammar import templates
from heatproof.clevr.questions.make import make_questions
from heatproof.clevr.questions.world import ATTRIBUTES, look_at
from heatproof.clevr.scenes import DIRECTIONS, SceneSettings, sample_scene
from heatproof.clevr.shipped import shipped_dataset
from heatproof.errors import HeatproofError
from heatproof.explainers import explainers
from heatproof.models.relation_network import answers
from heatproof.models.scene_eye import SLOTS, VALUES, Slots, find_slots
from heatproof.models.scene_logic import Logic, SceneLogic, load_scene_logic, think
from heatproof.models.scene_steps import MOST_STEPS, WIDTH, as_numbers, encode, from_numbers, steps_of
from heatproof.models.vqa import named_network, scene_logic_network, with_random_weights
from heatproof.models.weights import fingerprint, save_weights
from reference.scene_logic import Plain

SOFTNESS = (0.0, 0.7, 2.0)
QUESTIONS = (
    "What color is the large metal sphere?",
    "How many other things are the same size as the red cube?",
    "Are there more big things left of the cylinder than blue balls?",
)


@pytest.fixture(scope="module")
def scenes() -> Sequence[Mapping[str, Any]]:
    return [sample_scene(SceneSettings(seed=78), index) for index in range(12)]


@pytest.fixture(scope="module")
def asked(scenes) -> Sequence[Question]:
    """A question of every template, and more."""
    found = list(ask(scenes, templates("complex"), seed=6, per_image=30))
    assert len({question.template.name for question in found}) >= 85
    return found


@pytest.fixture(scope="module")
def shipped() -> SceneLogic:
    return load_scene_logic()


def true_slots(scenes: Sequence[Mapping[str, Any]]) -> Slots:
    """What an eye that is sure of everything would see."""
    there, values, places = torch.full((len(scenes), SLOTS), -9.0), torch.full((len(scenes), SLOTS, 15), -7.0), []
    axes = torch.tensor([DIRECTIONS["right"], DIRECTIONS["front"]])
    for row, scene in enumerate(scenes):
        for slot, thing in enumerate(scene["objects"]):
            there[row, slot] = 9.0
            for attribute in ATTRIBUTES:
                values[row, slot, VALUES[thing[attribute]]] = 7.0
        coordinates = [thing["3d_coords"] for thing in scene["objects"]]
        coordinates += [[0.0, 0.0, 0.0]] * (SLOTS - len(coordinates))
        places.append(torch.tensor(coordinates) @ axes.T)
    return Slots(there.double(), values.double(), torch.stack(places).double())


def random_slots(count: int) -> Slots:
    """Scores of any size and sign."""
    draws = torch.Generator().manual_seed(3)
    there, values, places = (
        4 * torch.randn(shape, generator=draws, dtype=torch.float64)
        for shape in ((count, SLOTS), (count, SLOTS, 15), (count, SLOTS, 2))
    )
    return Slots(there, values, places)


@pytest.mark.parametrize("softness", SOFTNESS)
def test_the_logic_is_right_about_what_is_there(scenes, asked, softness):
    """Against the answers that the questions were made with."""
    row = {scene["image_filename"]: place for place, scene in enumerate(scenes)}
    slots = true_slots(scenes).of(torch.tensor([row[question.scene["image_filename"]] for question in asked]))
    logits = think(slots, [steps_of(question.found.program) for question in asked], Logic(softness))
    assert [answers[k] for k in logits.argmax(1)] == [in_words(question.answer) for question in asked]


@pytest.mark.parametrize("softness", SOFTNESS)
def test_programs_run_together_give_what_they_give_alone(asked, softness):
    """Against each program on Python's floats, slot by slot, on slots of any scores, in float64."""
    slots = random_slots(len(asked))
    logits = think(slots, [steps_of(question.found.program) for question in asked], Logic(softness))
    for row, question in enumerate(asked):
        values = [dict(zip(VALUES, scores, strict=True)) for scores in slots.values[row].tolist()]
        plain = Plain(slots.there[row].tolist(), values, slots.places[row].tolist(), softness)
        known, doubt = plain.answers(question.found.program), plain.doubt(question.found.program)
        expected = [known.get(answer, -30) - doubt for answer in answers]
        assert logits[row].tolist() == pytest.approx(expected, rel=1e-9, abs=1e-9)


def test_without_what_a_question_takes_for_granted_all_of_its_logits_fall(asked):
    """On slots that are sure, each object taken out in turn: they fall just where the program then has no result."""
    fell = set()
    for question in asked:
        world = look_at(question.scene)
        things = len(question.scene["objects"])
        slots = true_slots([question.scene]).of(torch.zeros(1 + things, dtype=torch.long))
        slots.there[1:, :things].fill_diagonal_(-9.0)
        logits = think(slots, [steps_of(question.found.program)] * (1 + things), Logic(0.0))
        doubts = -30 - logits.amin(1)
        missing = [execute(world.without(place), question.found.program)[-1] is None for place in range(things)]
        assert doubts[0] == 0
        assert (doubts[1:] > 0).tolist() == missing
        fell.update(missing)
    assert fell == {False, True}


def test_the_order_and_company_of_questions_do_not_matter(asked):
    slots, programs = random_slots(len(asked)), [steps_of(question.found.program) for question in asked]
    together = think(slots, programs, Logic(2.0))
    shuffled = random.Random(1).sample(range(len(asked)), len(asked))
    again = think(slots.of(torch.tensor(shuffled)), [programs[place] for place in shuffled], Logic(2.0))
    assert torch.allclose(again, together[shuffled], rtol=1e-12, atol=1e-12)


def test_an_empty_scene_has_no_objects():
    slots = Slots(torch.full((3, SLOTS), -5.0), *random_slots(3)[1:])
    said = ("How many cubes are there?", "Are any red things visible?", "How many things are there?")
    logits = think(slots, [from_numbers(encode(text))[0] for text in said], Logic())
    assert [answers[k] for k in logits.argmax(1)] == ["0", "no", "0"]


def test_steps_survive_as_numbers(asked):
    programs = [steps_of(question.found.program) for question in asked]
    assert max(map(len, programs)) <= MOST_STEPS
    assert from_numbers(torch.cat([as_numbers(steps) for steps in programs])) == programs


def test_slots_are_the_likeliest_cells_and_one_object_is_one_slot():
    """By hand: three cells stand out; two of them stand on one place of the floor."""
    cells = torch.full((1, 18, 16, 16), -4.0)
    cells[0, 16:] = 10 * torch.rand(2, 16, 16, generator=torch.Generator().manual_seed(0))
    for row, column, score, right in ((3, 4, 6.0, 50.0), (3, 5, 2.0, 50.3), (9, 9, 4.0, 80.0)):
        cells[0, 0, row, column], cells[0, 16, row, column], cells[0, 17, row, column] = score, right, -50.0
    slots = find_slots(cells)
    assert slots.there.shape == (1, SLOTS)
    assert slots.there[0, :3].tolist() == [6.0, 4.0, 2.0 - 20.0]
    assert slots.places[0, :2, 0].tolist() == [50.0, 80.0]


def inputs(count: int = 3) -> tuple[Tensor, Tensor]:
    """Questions about pictures that ship, one each."""
    data = open_dataset(shipped_dataset()).questions("simple")[0 : 4 * count : 4]
    said = [QUESTIONS[place % len(QUESTIONS)] for place in range(count)]
    return pictures(data, 128), torch.cat([encode(text) for text in said])


def test_each_picture_is_looked_at_once(shipped):
    """The lean form against the plain one, and how many pictures its eye sees."""
    images, questions = inputs()
    rows = torch.tensor([0, 0, 0, 1, 2, 2])
    lean, seen = load_scene_logic(lean=True), []
    lean.eye.register_forward_hook(lambda module, given, said: seen.append(len(given[0])))
    with torch.no_grad():
        assert torch.allclose(
            lean(images[rows], questions[rows.flip(0)]), shipped(images[rows], questions[rows.flip(0)]), atol=1e-5
        )
    assert seen == [3]
    lean(images[rows].requires_grad_(), questions[rows])
    assert seen == [3, 6]


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda net, x, q: net(torch.rand(2, 3, 96, 128), q[:2]), r"\(2, 3, 96, 128\); resize"),
        (lambda net, x, q: net(torch.rand(2, 1, 128, 128), q[:2]), r"\(2, 1, 128, 128\)"),
        (lambda net, x, q: net(x, q[:, :45]), rf"\(cases, {MOST_STEPS * WIDTH}\) numbers.*got \(3, 45\)"),
        (lambda net, x, q: SceneLogic(softness=-1), "softness must be a number that is not negative, got -1"),
        (lambda net, x, q: named_network("scene_logic:softness=much"), "scene_logic:softness=2"),
        (lambda net, x, q: named_network("scene_logic:hardness=1"), "scene_logic:softness=2"),
        (lambda net, x, q: named_network("film_vqa:softness=1"), "scene_logic:softness=2"),
        (lambda net, x, q: named_network("scene_logik"), "scene_logic"),
        (lambda net, x, q: as_numbers(from_numbers(q)[0] * 9), "too long; there is room for 16"),
        (lambda net, x, q: encode("What color is the orange cube?"), "'orange'"),
    ],
)
def test_bad_input_is_named(shipped, make, said):
    with pytest.raises(HeatproofError, match=said):
        make(shipped, *inputs())


def test_the_weights_are_small(tmp_path):
    save_weights(SceneLogic(), tmp_path / "net.npz", half=True)
    assert (tmp_path / "net.npz").stat().st_size < 750_000


@pytest.fixture(scope="module")
def complex_questions(tmp_path_factory):
    folder = tmp_path_factory.mktemp("complex")
    for name in ("CLEVR_scenes.json", "images"):
        (folder / name).symlink_to(shipped_dataset() / name)
    make_questions(folder, "complex")
    return open_dataset(folder).questions("complex")


def test_the_shipped_network_answers_both_sets(complex_questions):
    """600 complex and 236 simple questions about pictures of a seed that the training has not seen."""
    network = scene_logic_network()
    for questions in (complex_questions, open_dataset(shipped_dataset()).questions("simple")):
        scores = accuracy(network, questions)
        assert scores["all"].right / scores["all"].questions >= 0.965
        assert sum(score.questions for part, score in scores.items() if part.startswith("family ")) == len(questions)
        assert sum(score.right for part, score in scores.items() if part.startswith("answer ")) == scores["all"].right


def test_an_untrained_eye_answers_as_if_it_guessed(complex_questions):
    scores = accuracy(with_random_weights(scene_logic_network(), 1), complex_questions)
    assert scores["all"].right < 1.15 * scores["all"].guessed


def right_answers(asked: Sequence[Any]) -> tuple[Tensor, Tensor]:
    """Two questions of different families."""
    chosen = [asked[3], asked[57]]
    return pictures(chosen, 128), torch.cat([encode(question.text) for question in chosen])


SMALL = {
    "smoothgrad": "samples=2",
    "vargrad": "samples=2",
    "noised": "samples=2",
    "lime": "samples=12,segments=6",
    "kernel_shap": "samples=12,segments=6,segmenter=blocks",
    "integrated_gradients": "steps=3",
    "rise": "masks=5,cells=3",
    "occlusion": "window=64,stride=64",
    "score_cam": "layer=eye.body.relu1",
    "grad_cam_pp": "layer=eye.body.relu7",
    "layer_cam": "layer=eye.body.relu7",
}
"""Parameters that keep the tests quick."""
NEED_MORE = ("oracle", "other_question")
OF_ALL_NETWORKS = [name for name, cls in explainers.items() if cls.family != "attention" and name not in NEED_MORE]
"""It has no attention, and these cases have neither masks nor other questions."""
ALIKE = {"rtol": 1e-6, "atol": 1e-9}


@pytest.mark.parametrize("name", OF_ALL_NETWORKS)
def test_every_explainer_explains_it(complex_questions, name):
    """Finite, about something, the same in company and alone in float64, and the network stays as it was."""
    network = load_scene_logic().double()
    images, questions = right_answers(complex_questions)
    before = fingerprint(network)
    method = f"{name}:{SMALL[name]}" if name in SMALL else name
    relevance = explain(network, images.double(), method, context=(questions,))
    assert relevance.shape[2:] == (128, 128)
    assert bool(relevance.isfinite().all())
    assert (relevance.flatten(1).abs().amax(1) > 0).all()
    assert fingerprint(network) == before
    alone = explain(network, images[:1].double(), method, context=(questions[:1],))
    torch.testing.assert_close(alone, relevance[:1], **ALIKE)


@pytest.mark.parametrize("method", ClevrXai(questions="complex").default_explainers[:11])
def test_the_runs_methods_explain_it(shipped, complex_questions, method):
    images, questions = right_answers(complex_questions)
    relevance = explain(shipped, images, method, context=(questions,))
    assert bool(relevance.isfinite().all())
    assert (relevance.flatten(1).abs().amax(1) > 0).all()
