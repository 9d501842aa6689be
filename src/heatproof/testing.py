"""Checks for authors of explainers: does mine keep the contract?"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from heatproof.cases import Batch
from heatproof.errors import HeatproofError
from heatproof.explainers.base import HOOKS
from heatproof.explainers.spec import make_explainer
from heatproof.lazy import torch
from heatproof.seeds import CaseRandom

if TYPE_CHECKING:
    from heatproof.explainers.base import Explainer

CASES, CLASSES, WORDS = 5, 4, 7
M = TypeVar("M", bound="torch.nn.Module")


def check_explainer(
    explainer: str | Explainer | type[Explainer] | Callable[..., Any],
    model: torch.nn.Module | None = None,
    inputs: torch.Tensor | None = None,
) -> None:
    """Raise an error that lists every promise of the explainer contract that is broken; None if all are kept.

    Shape, finite values, repeatable under a seed, independent of the batch size, model and inputs left untouched.
    Without a model, two small convolutional networks on 3 x 12 x 10 pictures are explained; one takes a question too.
    """
    made = make_explainer(explainer)
    if (model is None) != (inputs is None):
        raise HeatproofError("give a model together with inputs for it, or neither.")
    if model is not None and inputs is not None:
        broken = broken_promises(made, model, make_batch(model, inputs))
    else:
        inputs = torch.randn(CASES, 3, 12, 10, generator=torch.Generator().manual_seed(1))
        model = small_network()
        broken = broken_promises(made, model, make_batch(model, inputs)) or broken_with_context(made, inputs)
    if broken:
        raise HeatproofError(f"{made.label} breaks the contract of explainers: " + "; ".join(broken) + ".")


def make_batch(model: torch.nn.Module, inputs: torch.Tensor, *context: torch.Tensor) -> Batch:
    """Cases of all classes with a ground truth of two positions a side."""
    model.eval()
    with torch.no_grad():
        classes = model(inputs, *context).shape[1]
    mask = torch.zeros(len(inputs), *inputs.shape[2:], dtype=torch.bool)
    inside = (slice(None), *[slice(1, 3)] * (inputs.ndim - 2))
    mask[inside] = True
    ids = tuple(f"case-{i}" for i in range(len(inputs)))
    return Batch(inputs, torch.arange(len(inputs)) % classes, ids, context, masks={"truth": mask})


def broken_with_context(made: Explainer, inputs: torch.Tensor) -> list[str]:
    """The promises that are broken on a model that takes a question; not to take it is one of them."""
    model = small_network_with_question()
    batch = make_batch(model, inputs, torch.arange(3 * len(inputs)).view(-1, 3) % WORDS)
    try:
        broken = broken_promises(made, model, batch)
    except TypeError as problem:  # what Python says when an argument is missing, or one too many
        broken = [f"{problem}; call model(inputs, *batch.context)"]
    return [f"on a model that takes a question beside the inputs: {promise}" for promise in broken]


def broken_promises(made: Explainer, model: torch.nn.Module, batch: Batch) -> list[str]:
    return [promise for promise, kept in promises(made, model, batch) if not kept]


def promises(made: Explainer, model: torch.nn.Module, batch: Batch) -> list[tuple[str, bool]]:
    """What an explainer promises, and whether this one keeps it. Shape and values are checked on every call."""
    rng = CaseRandom(0, made.label)
    inputs, state = batch.inputs.clone(), state_of(model)
    whole = made(model, batch, rng)
    again = made(model, batch, rng)
    single = torch.cat([made(model, batch[i : i + 1], rng) for i in range(len(batch))])
    scale = float(whole.abs().max()) or 1.0
    return [
        ("the inputs are changed in place", torch.equal(batch.inputs, inputs)),
        ("the model is changed (weights, modes, flags, gradients or hooks)", state_of(model) == state),
        ("the same seed gives another result; draw from rng.draw(batch.ids, ...)", torch.equal(whole, again)),
        (
            "a case's relevance depends on the other cases of its batch",
            bool(torch.allclose(whole, single, rtol=1e-3, atol=1e-4 * scale)),
        ),
    ]


def state_of(model: torch.nn.Module) -> list[Any]:
    """All that must not change, in a form that compares."""
    modules = [(module.training, [len(getattr(module, name)) for name in HOOKS]) for module in model.modules()]
    tensors = [(name, tensor.tolist()) for name, tensor in model.state_dict().items()]
    flags = [(parameter.requires_grad, parameter.grad is None) for parameter in model.parameters()]
    return [modules, tensors, flags]


def small_network() -> torch.nn.Sequential:
    """Two convolutions and a linear layer with seeded weights; 3 channels in, 4 classes out."""
    nn = torch.nn
    network = nn.Sequential(
        nn.Conv2d(3, 6, 3, padding=1), nn.ReLU(), nn.Conv2d(6, 8, 3, stride=2), nn.ReLU(),
        nn.AdaptiveAvgPool2d((2, 2)), nn.Flatten(), nn.Linear(32, CLASSES),
    )  # fmt: skip
    return seeded(network)


def small_network_with_question() -> torch.nn.Module:
    """The same with a question of word numbers, whose mean embedding gates the picture's features."""
    nn = torch.nn

    class Answerer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            network = small_network()
            self.features, self.answer = network[:-1], network[-1]
            self.words = nn.Embedding(WORDS, 32)

        def forward(self, inputs: torch.Tensor, question: torch.Tensor) -> torch.Tensor:
            gate = self.words(question).mean(1).sigmoid()
            answer: torch.Tensor = self.answer(self.features(inputs) * gate)
            return answer

    return seeded(Answerer())


def seeded(network: M) -> M:
    """The network with weights drawn from a fixed seed."""
    generator = torch.Generator().manual_seed(0)
    for parameter in network.parameters():
        torch.nn.init.normal_(parameter, std=0.3, generator=generator)
    return network
