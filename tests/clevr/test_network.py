"""The public Relation Network sees our pictures as its own world: `pytest -m slow -s tests/clevr/test_network.py`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from heatproof.clevr import open_dataset
from heatproof.clevr.answers import in_words
from heatproof.clevr.files import Question
from heatproof.clevr.questions.make import make_questions
from heatproof.clevr.rendering.dataset import PictureSettings, render_dataset
from heatproof.clevr.scenes import SceneSettings
from heatproof.models.relation_network import RelationNetwork, answers, encode, load_public_checkpoint

PICTURES, QUESTIONS = 80, 300


@pytest.fixture(scope="module")
def network(shared_data: Callable[[str], Path]) -> RelationNetwork:
    model = load_public_checkpoint(shared_data("relation_network/original_fp_epoch_493.pth"))
    model.factorised = True
    return model


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Eighty of our pictures with simple and complex questions."""
    pytest.importorskip("pyoidn", reason="needs pyoidn: the network has seen denoised pictures only")
    folder = tmp_path_factory.mktemp("worlds") / "data"
    render_dataset(folder, PICTURES, SceneSettings(seed=5, width=128, height=128), PictureSettings(samples=64))
    for name in ("simple", "complex"):
        make_questions(folder, name, seed=5)
    return folder


def accuracy(network: RelationNetwork, questions: list[Question]) -> dict[str, list[bool]]:
    """Whether each question is answered, by the last function of its program."""
    right: dict[str, list[bool]] = {}
    for start in range(0, len(questions), 10):
        batch = questions[start : start + 10]
        pictures = np.stack([question.picture() for question in batch])
        inputs = torch.as_tensor(pictures).permute(0, 3, 1, 2).float() / 255
        with torch.no_grad():
            logits = network(inputs, torch.cat([encode(question.text) for question in batch]))
        for question, answer in zip(batch, logits.argmax(1).tolist(), strict=True):
            kind = question.program[-1]["type"]
            right.setdefault(kind, []).append(answers[answer] == in_words(question.answer))
    return right


@pytest.mark.slow
@pytest.mark.parametrize(("name", "wanted"), [("simple", 0.94), ("complex", 0.88)])
def test_the_relation_network_answers_about_our_pictures(
    network: RelationNetwork, folder: Path, name: str, wanted: float
) -> None:
    """Reference: a network trained on CLEVR's own pictures, which reaches 93 % on those."""
    questions = list(open_dataset(folder).questions(name))
    chosen = questions[:: max(1, len(questions) // QUESTIONS)][:QUESTIONS]
    assert len(chosen) == QUESTIONS
    right = accuracy(network, chosen)
    every = [answered for group in right.values() for answered in group]
    print(f"\n{name}: {np.mean(every):.1%} of {len(every)}")
    for kind, group in sorted(right.items()):
        print(f"  {kind:<22} {np.mean(group):6.1%} of {len(group)}")
    assert np.mean(every) >= wanted
