"""The network of the poster's authors, as far as it is known, and its training: literal, repeatable, resumed."""

from __future__ import annotations

from dataclasses import asdict, replace
from inspect import signature

import numpy as np
import pytest
import torch
from scipy.ndimage import map_coordinates
from torch import Tensor, nn

import heatproof
from elsewhere import elsewhere
from heatproof.clevr.files import open_dataset
from heatproof.clevr.shipped import shipped_dataset
from heatproof.cli import main
from heatproof.cli.train import relation_network
from heatproof.devices import device_of
from heatproof.errors import HeatproofError
from heatproof.models import relation_training, training
from heatproof.models.film_network import FilmNetwork
from heatproof.models.poster_network import UNKNOWN, VOCABULARY, PosterNetwork, encode, load_poster_network, words
from heatproof.models.relation_network import answers
from heatproof.models.relation_training import (
    Lesson,
    Schedule,
    accuracy,
    guessing,
    learn,
    load_lesson,
    moved,
    open_lesson,
    train,
)
from heatproof.models.weights import fingerprint, save_weights
from tiny_datasets import edit_json, write_clevr, write_world


def make_network() -> PosterNetwork:
    """Random weights in double precision, and batch norms that do something."""
    torch.manual_seed(3)
    network = PosterNetwork().double().eval()
    for module in network.modules():
        if isinstance(module, nn.BatchNorm2d):
            for tensor in (module.weight.data, module.running_var):
                tensor.uniform_(0.5, 2)
            for tensor in (module.bias.data, module.running_mean):
                tensor.normal_(std=0.3)
    return network


def make_inputs() -> tuple[Tensor, Tensor]:
    pictures = torch.rand(2, 3, 128, 128, generator=torch.Generator().manual_seed(4), dtype=torch.float64)
    return pictures, torch.cat([encode("What color is the big cube?"), encode("How many tiny things are there?")])


def test_sizes_are_those_that_are_known():
    """7x7 cells of 24 channels from 63, 31, 15; 82 words with the padding and any other; 28 answers."""
    network = make_network()
    values, seen = make_inputs()[0], []
    for layer in network.convs:
        values = layer(values)
        seen.append((type(layer), values.shape[-1]))
    one = (nn.Conv2d, nn.ReLU, nn.BatchNorm2d)
    assert seen == [(kind, side) for side in (63, 31, 15, 7) for kind in one]
    assert VOCABULARY == 82
    assert network.embedding.num_embeddings == 82
    assert network(*make_inputs()).shape == (2, 28)


def test_equals_the_formula_pair_by_pair():
    network = make_network()
    pictures, question = make_inputs()
    with torch.no_grad():
        features = network.convs(pictures)[0]
        reading = network.lstm(network.embedding(question))[0][0, -1]
        objects = [
            torch.cat([features[:, row, column], torch.tensor([(column - 3) / 2, (row - 3) / 2], dtype=torch.float64)])
            for row in range(7)
            for column in range(7)
        ]
        total = torch.zeros(256, dtype=torch.float64)
        for first in objects:
            for second in objects:
                total += network.g(torch.cat([first, second, reading]))
        expected = network.f[5](network.f[1:4](network.f[0](total)))
        torch.testing.assert_close(network(pictures, question)[0], expected, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("form", ["factorised", "lean"])
def test_quicker_forms_agree(form):
    """Reference: the plain network, values and gradients in double precision."""
    network, found = make_network(), []
    for wanted in (False, True):
        setattr(network, form, wanted)
        pictures, question = make_inputs()
        pictures.requires_grad_()
        logits = network.requires_grad_(not wanted)(pictures, question)
        found.append((logits, torch.autograd.grad(logits[:, 3].sum(), pictures)[0]))
    for plain, quick in zip(*found, strict=True):
        torch.testing.assert_close(quick, plain, rtol=1e-8, atol=1e-10)


def test_the_last_row_and_column_are_not_seen():
    pictures, question = make_inputs()
    pictures.requires_grad_()
    (gradient,) = torch.autograd.grad(make_network()(pictures, question).sum(), pictures)
    assert (gradient[:, :, 127] == 0).all()
    assert (gradient[:, :, :, 127] == 0).all()
    assert (gradient[:, :, 126, :127] != 0).any()


def test_questions_are_read_in_their_order_without_punctuation():
    tokens = encode("There is a Thing; what color is it, gnu?")[0].tolist()
    said = ["there", "is", "a", "thing", "what", "color", "is", "it"]
    assert tokens == [0] * (45 - 9) + [words.index(word) + 1 for word in said] + [UNKNOWN]
    with pytest.raises(HeatproofError, match="has no words"):
        encode("?")


@pytest.fixture(scope="module")
def lesson() -> Lesson:
    return open_lesson(shipped_dataset(), None, "train")[:12]


SHORT = Schedule(seed=3, epochs=3, batch=4, rate=1e-4, double_every=2, width=16, precision="float32")
STEPS = 9


def test_the_rate_doubles_up_to_its_highest():
    """The public code's: 5e-6 for 20 epochs, twice that for 20 ..., 5e-4 from the seventh doubling on."""
    rates = [Schedule().rate_of(epoch) for epoch in (0, 19, 20, 39, 119, 139, 140, 349, 10**6)]
    assert rates == pytest.approx([5e-6, 5e-6, 1e-5, 1e-5, 1.6e-4, 3.2e-4, 5e-4, 5e-4, 5e-4])


def test_parts_of_a_batch_have_the_gradients_of_the_whole(lesson, monkeypatch):
    """Reference: torch's gradient of the mean loss of the plain network, batch norm and all, in double precision."""
    monkeypatch.setattr(relation_training, "AT_ONCE", 3)
    monkeypatch.setattr(relation_training, "as_input", lambda pixels: pixels.double() / 255)
    torch.manual_seed(0)
    network = PosterNetwork(width=16).double().train()
    network.f.dropout.p = 0.0
    chosen = torch.tensor([3, 1, 7, 2, 11, 0, 5, 9])
    loss = learn(network, lesson, chosen, replace(SHORT, moved=False), 0)
    found = {name: weight.grad.clone() for name, weight in network.named_parameters()}
    network.zero_grad()
    logits = network(lesson.pixels[lesson.place[chosen]].double() / 255, lesson.tokens[chosen].long())
    expected = nn.functional.cross_entropy(logits, lesson.answers[chosen])
    expected.backward()
    assert loss == pytest.approx(expected.item())
    for name, weight in network.named_parameters():
        torch.testing.assert_close(found[name], weight.grad, rtol=1e-8, atol=1e-10)


def test_pairs_in_half_precision_have_nearly_the_same_gradients(lesson):
    """Reference: the same step in float32. Eight bits of the mantissa leave about a hundredth of a gradient open."""
    chosen, found = torch.arange(8), []
    for precision in ("float32", "bfloat16"):
        torch.manual_seed(0)
        network = PosterNetwork(width=64).train()
        network.f.dropout.p = 0.0
        learn(network, lesson, chosen, replace(SHORT, moved=False, precision=precision), 0)
        found.append(torch.cat([weight.grad.flatten() for weight in network.parameters()]))
        assert found[-1].dtype == torch.float32
    assert 0 < (found[1] - found[0]).norm() < 0.05 * found[0].norm()


def test_pictures_are_shifted_and_turned_each_by_itself():
    """Reference: SciPy's linear interpolation at the places that the same draws name, black outside."""
    pictures = torch.rand(2, 1, 128, 128, generator=torch.Generator().manual_seed(1))
    found = moved(pictures, torch.Generator().manual_seed(5))
    draws = torch.rand(3, 2, generator=torch.Generator().manual_seed(5)) * 2 - 1
    rows, columns = np.mgrid[:128, :128]
    for picture, result, (turn, across, down) in zip(pictures, found, draws.T.tolist(), strict=True):
        angle = np.deg2rad(2.8 * turn)
        x, y = columns - 63.5, rows - 63.5
        there_x = np.cos(angle) * x - np.sin(angle) * y + 8 * across + 63.5
        there_y = np.sin(angle) * x + np.cos(angle) * y + 8 * down + 63.5
        expected = map_coordinates(picture[0].numpy(), [there_y, there_x], order=1, mode="grid-constant")
        assert np.abs(result[0].numpy() - expected).max() < 1e-3


@pytest.fixture(scope="module")
def briefly_trained(lesson: Lesson) -> str:
    return fingerprint(train(lesson, SHORT))


def test_training_is_repeatable(lesson, briefly_trained):
    assert fingerprint(train(lesson, SHORT)) == briefly_trained
    assert fingerprint(train(lesson, replace(SHORT, seed=4))) != briefly_trained
    assert fingerprint(train(lesson, replace(SHORT, moved=False))) != briefly_trained


class StoppedError(Exception):
    pass


@pytest.mark.parametrize("last", [1, 4, 9])
def test_interrupted_training_goes_on_to_the_same_bits(lesson, briefly_trained, tmp_path, monkeypatch, last):
    monkeypatch.setattr(training, "KEEP_EVERY", 1)

    def stop(task: str, done: float, total: float) -> None:
        if done == last:
            raise StoppedError

    with pytest.raises(StoppedError):
        train(lesson, SHORT, tmp_path / "checkpoint", stop)
    torch.rand(7)  # what others draw in between plays no part
    steps: list[float] = []
    network = train(lesson, SHORT, tmp_path / "checkpoint", lambda task, done, total: steps.append(done))
    assert steps == list(range(last + 1, STEPS + 1))
    assert fingerprint(network) == briefly_trained


def test_more_epochs_go_on_to_the_same_bits(lesson, briefly_trained, tmp_path):
    train(lesson, replace(SHORT, epochs=1), tmp_path / "checkpoint")
    assert fingerprint(train(lesson, SHORT, tmp_path / "checkpoint")) == briefly_trained


def test_checkpoints_that_do_not_fit_are_refused(lesson, tmp_path):
    path = tmp_path / "checkpoint"
    train(lesson, replace(SHORT, epochs=1), path)
    with pytest.raises(HeatproofError, match="another training"):
        train(lesson, replace(SHORT, epochs=1, seed=4), path)
    with pytest.raises(HeatproofError, match="another training"):
        train(lesson[:8], replace(SHORT, epochs=1), path)
    with pytest.raises(HeatproofError, match="has learned for 3 steps already, and 0 are asked for"):
        train(lesson, replace(SHORT, epochs=0), path)
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises(HeatproofError, match="no checkpoint of this training; move it away"):
        train(lesson, replace(SHORT, epochs=1), path)


@pytest.mark.filterwarnings("ignore:TF32")  # of which torch speaks where it is not
def test_it_trains_on_a_second_device(lesson):
    """Up to rounding: gradients of a recurrent layer are added up in another order there."""
    schedule = replace(SHORT, epochs=1, moved=False)
    here = train(lesson, schedule)
    with elsewhere():
        there = train(lesson, schedule, device="meta")
    assert device_of(there) == torch.device("cpu")
    for name, weights in here.state_dict().items():
        torch.testing.assert_close(there.state_dict()[name], weights, rtol=0, atol=1e-4)


def learnt_by_heart(lesson: Lesson, schedule: Schedule, calm_steps: int) -> int:
    """How many questions are answered once the training is over and what is left has been learned calmly.

    The rate of the training only rises, and dropout and batches keep shaking it: where it ends hangs on rounding.
    """
    network = train(lesson, schedule).train()
    network.f.dropout.p = 0.0
    optimiser = torch.optim.Adam(network.parameters(), 2e-4)
    for step in range(calm_steps):
        optimiser.zero_grad()
        learn(network, lesson, torch.arange(len(lesson)), schedule, step)
        optimiser.step()
    return right_of(network.eval(), lesson)


def test_it_learns_a_few_questions_by_heart(lesson):
    """Eight questions, a narrow network; sixty-four are learned by the slow test."""
    assert learnt_by_heart(lesson[:8], Schedule(1, 200, 8, 1e-3, 1, 1e-3, moved=False, width=16), 200) == 8


@pytest.mark.slow
def test_it_learns_64_questions_by_heart():
    """A network with 32 units a layer, in a minute; the whole one has 256."""
    lesson = open_lesson(shipped_dataset(), "simple", "train")[:64]
    assert learnt_by_heart(lesson, Schedule(1, 200, 32, 1e-3, 1, 1e-3, moved=False, width=32), 60) == 64


def right_of(network: PosterNetwork, lesson: Lesson) -> int:
    return sum(right for right, _ in accuracy(network, lesson).values())


def test_accuracy_counts_right_answers_by_what_is_asked(lesson):
    """Reference: the network asked question by question."""
    torch.manual_seed(0)
    network = PosterNetwork(width=16).eval()
    expected: dict[str, list[bool]] = {}
    with torch.no_grad():
        for place in range(len(lesson)):
            picture = lesson.pixels[lesson.place[place]][None].float() / 255
            said = network(picture, lesson.tokens[place][None].long()).argmax()
            expected.setdefault(lesson.kinds[place], []).append(bool(said == lesson.answers[place]))
    assert accuracy(network, lesson) == {kind: (sum(found), len(found)) for kind, found in expected.items()}
    assert set(expected) == {"color", "material", "shape", "size"}


def test_guessing_gives_the_most_frequent_answer_for_what_is_asked(lesson):
    said = replace(lesson, answers=torch.arange(12) % 2, kinds=["color"] * 5 + ["shape"] * 7)
    assert guessing(said) == 3 + 4  # of 0 1 0 1 0 and of 1 0 1 0 1 0 1


def test_lessons_come_from_any_data_set(tmp_path):
    """CLEVR's own layout, whose pictures are squashed and whose train questions are taken; and ours with both sets."""
    clevr = write_clevr(tmp_path)
    found = open_lesson(clevr, None, "train")
    questions = open_dataset(clevr, ["train"]).questions("train")
    assert [answers[k] for k in found.answers.tolist()] == [question.answer for question in questions]
    assert found.pixels.shape[1:] == (3, 128, 128)
    assert len(found.pixels) == len({question.record["image_filename"] for question in questions})
    with pytest.raises(HeatproofError, match="have no answers to learn from"):
        open_lesson(clevr, "test", "train")
    with pytest.raises(HeatproofError, match="unknown question set"):
        open_lesson(clevr, "trian", "train")
    world = write_world(tmp_path / "world", scenes=2)
    both = open_lesson(world, None, "train")
    data = open_dataset(world)
    assert len(both) == len(data.questions("simple")) + len(data.questions("complex"))
    edit_json(world / "CLEVR-XAI_simple_questions.json", lambda content: content["questions"][0].update(answer="teal"))
    with pytest.raises(HeatproofError, match="unknown answer of question 0 'teal'"):
        load_lesson(open_dataset(world), ["simple"])


@pytest.mark.parametrize(("name", "value"), [("batch", 1), ("rate", 0.0), ("clip", float("nan")), ("epochs", -1)])
def test_bad_schedules_are_named(name, value):
    with pytest.raises(HeatproofError, match=f"{name} must be"):
        Schedule(**{name: value})
    with pytest.raises(HeatproofError, match="unknown precision 'float8'"):
        Schedule(precision="float8")


def test_the_command_trains_measures_and_its_network_is_explained(tmp_path, monkeypatch, capsys):
    """From the command to a run: every kind of explainer finds its way through batch norms behind ReLUs."""
    out = tmp_path / "net.npz"
    monkeypatch.chdir(tmp_path)
    given = ["--limit", "4", "--epochs", "1", "--batch", "2", "--out", str(out)]
    monkeypatch.setattr("sys.argv", ["heatproof", "train", "relation-network", "shipped", *given])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code in (0, None)
    right = right_of(load_poster_network(out), open_lesson(shipped_dataset(), None, "train")[:4])
    assert f"learned questions: {right} of 4 right" in capsys.readouterr().out
    explainers = ["lrp:composite=relation_network,low=0.0,high=1.0", "excitation_backprop", "gradient", "deconvnet"]
    run = heatproof.run(
        "clevr-xai",
        weights=out,
        limit=2,
        correct_only=False,
        explainers=[*explainers, "grad_cam"],
        out=tmp_path / "run",
    )
    assert not run.failures()
    assert set(run.leaderboard()["model"]) == {"poster_network"}
    save_weights(FilmNetwork(), tmp_path / "film.npz")
    with pytest.raises(HeatproofError, match="does not hold weights of PosterNetwork"):
        load_poster_network(tmp_path / "film.npz")


def test_the_commands_defaults_are_the_schedules():
    given = {name: parameter.default for name, parameter in signature(relation_network).parameters.items()}
    for name, value in asdict(Schedule()).items():
        if name not in ("decay", "clip", "width"):
            assert given[name] == value, name
