"""The VQA network that ships with Heatproof: its layers, its accuracy, and what explainers make of it."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch
from torch import Tensor, nn

from heatproof import explain
from heatproof.benchmarks.clevr_xai import ClevrXai
from heatproof.benchmarks.clevr_xai.answers import pictures
from heatproof.clevr.answers import in_words
from heatproof.clevr.files import Question, open_dataset
from heatproof.clevr.questions.make import make_questions
from heatproof.clevr.shipped import shipped_dataset
from heatproof.models.film_network import FilmNetwork, Reader, load_film_network
from heatproof.models.relation_network import answers, encode
from heatproof.models.weights import fingerprint, load_weights, save_weights

QUESTIONS = ("What color is the large metal sphere?", "There is a tiny thing; what shape is it?")


@pytest.fixture(scope="module")
def shipped() -> FilmNetwork:
    return load_film_network()


def test_the_weights_are_small(tmp_path):
    save_weights(FilmNetwork(), tmp_path / "net.npz", half=True)
    assert (tmp_path / "net.npz").stat().st_size < 5_000_000


def test_each_cell_sees_55_pixels():
    """By the gradient of one cell, not by counting layers."""
    eye = FilmNetwork().eye.eval()
    picture = torch.rand(1, 3, 128, 128).requires_grad_()
    eye(picture)[0, :, 8, 8].sum().backward()
    rows = picture.grad.abs().sum((0, 1, 3)).nonzero()
    assert rows.max() - rows.min() + 1 <= 55
    assert rows.max() - rows.min() + 1 > 49


def test_padding_changes_nothing():
    """Against the GRU run on the words alone, in their order."""
    torch.manual_seed(0)
    reader = Reader()
    question = "What color is the large metal sphere?"
    tokens = encode(question, 0)
    literal = reader.gru(reader.embedding(tokens.flip(1)))[1][0]
    for length in (0, 20, 45):
        assert torch.allclose(reader(encode(question, length)), literal, atol=1e-6)
    both = reader(torch.cat([encode(text) for text in QUESTIONS]))
    assert torch.allclose(both[:1], literal, atol=1e-6)


def test_half_precision_survives_the_disk(tmp_path):
    network, copy = FilmNetwork(), FilmNetwork()
    save_weights(network, tmp_path / "net.npz", half=True)
    load_weights(copy, tmp_path / "net.npz")
    for name, tensor in network.state_dict().items():
        assert torch.allclose(copy.state_dict()[name].double(), tensor.double(), rtol=1e-3, atol=1e-6)


def share_right(network: FilmNetwork, asked: Sequence[Question]) -> float:
    right = 0
    for question in asked:
        with torch.no_grad():
            said = network(pictures([question], 128), encode(question.text)).argmax().item()
        right += answers[int(said)] == in_words(question.answer)
    return right / len(asked)


def test_shipped_network_answers_the_shipped_questions(shipped):
    """236 questions about pictures of a seed that the training has not seen."""
    assert share_right(shipped, open_dataset(shipped_dataset()).questions("simple")) >= 0.97


@pytest.mark.slow
def test_complex_questions_are_beyond_it(shipped, tmp_path):
    """As docs/vqa-network.md says; where this fails, the default run could ask complex questions too."""
    for name in ("CLEVR_scenes.json", "images"):
        (tmp_path / name).symlink_to(shipped_dataset() / name)
    make_questions(tmp_path, "complex")
    asked = open_dataset(tmp_path).questions("complex")
    assert len(asked) == 600
    assert share_right(shipped, asked) == pytest.approx(0.11, abs=0.02)


def inputs() -> tuple[Tensor, Tensor]:
    """Three shipped questions about different pictures."""
    asked = open_dataset(shipped_dataset()).questions("simple")[0:12:4]
    return pictures(asked, 128), torch.cat([encode(question.text) for question in asked])


@pytest.mark.parametrize("method", [*ClevrXai().default_explainers[:11], "lrp", "grad_cam", "rise:masks=20"])
def test_explainers_explain_it(shipped, method):
    images, tokens = inputs()
    before = fingerprint(shipped)
    relevance = explain(shipped, images, method, context=(tokens,))
    assert relevance.shape[2:] == (128, 128)
    assert bool(relevance.isfinite().all())
    assert (relevance.flatten(1).abs().amax(1) > 0).all()
    assert fingerprint(shipped) == before


@pytest.mark.parametrize("method", ["gradient", "guided_backprop", "deconvnet", "lrp", "grad_cam:layer=eye.relu6"])
def test_explained_alone_in_single_precision_it_is_the_same(shipped, method):
    """Against double precision and all at once: torch's batch norm is wrong about some batches of one."""
    images, tokens = inputs()
    exact = explain(load_film_network().double(), images.double(), method, context=(tokens,))
    for case in range(3):
        alone = explain(shipped, images[case : case + 1], method, context=(tokens[case : case + 1],))
        scale = exact[case].abs().max()
        assert torch.allclose(alone[0].double() / scale, exact[case] / scale, atol=1e-3)


def test_lrp_conserves_relevance():
    """With epsilon everywhere and every bias at zero, what goes in at the logit arrives at the pixels."""
    network = load_film_network().double()
    for module in network.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.running_mean.zero_()
        if getattr(module, "bias", None) is not None and isinstance(module.bias, nn.Parameter):
            module.bias.data.zero_()
    network.film.weight.data[:].view(3, 2, 64, -1)[:, 1] = 0  # the question's shifts are biases too
    images, tokens = (tensor.double() if tensor.is_floating_point() else tensor for tensor in inputs())
    logits = network(images, tokens)
    target = logits.argmax(1)
    relevance = explain(network, images, "lrp:composite=epsilon,epsilon=1e-12", target=target, context=(tokens,))
    expected = logits.gather(1, target[:, None])[:, 0]
    assert torch.allclose(relevance.sum((1, 2, 3)), expected, rtol=1e-4)
