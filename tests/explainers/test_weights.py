"""An explainer that changes the model is named, and the model is set back bit for bit."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass

import pytest
import torch
from torch import Tensor, nn

import heatproof
from heatproof.cases import Batch
from heatproof.errors import HeatproofError
from heatproof.explainers.base import Explainer
from heatproof.explainers.spec import make_explainer
from heatproof.seeds import CaseRandom

RNG = CaseRandom(0, "changer")
INPUTS = torch.randn(3, 1, 8, generator=torch.Generator().manual_seed(0))
BATCH = Batch(INPUTS, torch.tensor([0, 1, 2]), ("a", "b", "c"))
Change = Callable[[nn.Module, Tensor], object]


class Small(nn.Module):
    """A network with a norm, a recurrent layer and a weight that is not a number."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv1d(1, 4, 3, padding=1)
        self.norm = nn.BatchNorm1d(4)
        self.recurrent = nn.GRU(4, 5, batch_first=True)
        self.answer = nn.Linear(5, 3)
        self.unused = nn.Parameter(torch.tensor([torch.nan, -0.0]))

    def forward(self, inputs: Tensor) -> Tensor:
        maps = self.norm(self.conv(inputs)).relu().transpose(1, 2)
        logits: Tensor = self.answer(self.recurrent(maps)[0][:, -1])
        return logits


@pytest.fixture
def model() -> nn.Module:
    torch.manual_seed(0)
    return Small().eval()


def in_place(model: nn.Module, _inputs: Tensor) -> None:
    with torch.no_grad():
        model.conv.weight.add_(1)


def other_data(model: nn.Module, _inputs: Tensor) -> None:
    model.conv.weight.data = model.conv.weight.data * 2


def in_place_data(model: nn.Module, _inputs: Tensor) -> None:
    model.conv.weight.data.add_(1)


def loaded(model: nn.Module, _inputs: Tensor) -> None:
    model.load_state_dict({name: values + 1 for name, values in model.state_dict().items()})


def trained_norm(model: nn.Module, inputs: Tensor) -> None:
    model.train()
    model(inputs)


def other_parameter(model: nn.Module, _inputs: Tensor) -> None:
    model.recurrent.weight_ih_l0 = nn.Parameter(torch.zeros_like(model.recurrent.weight_ih_l0))


def plain_attribute(model: nn.Module, _inputs: Tensor) -> None:
    del model.answer.bias
    model.answer.bias = torch.zeros(3)


def other_precision(model: nn.Module, _inputs: Tensor) -> None:
    model.half()


def other_layer(model: nn.Module, _inputs: Tensor) -> None:
    model.answer = nn.Linear(5, 3)


def new_buffer(model: nn.Module, _inputs: Tensor) -> None:
    model.norm.register_buffer("extra", torch.zeros(2))


CHANGES: list[tuple[Change, str]] = [
    (in_place, "conv.weight"),
    (other_data, "conv.weight"),
    (in_place_data, "conv.weight"),
    (loaded, r"conv.weight, conv.bias \.\.\."),
    (trained_norm, "norm.running_mean, norm.running_var, norm.num_batches_tracked"),
    (other_parameter, "recurrent.weight_ih_l0"),
    (plain_attribute, "answer.bias"),
    (other_precision, r"\.\.\."),
    (other_layer, "answer"),
    (new_buffer, "norm.extra"),
]
every_change = pytest.mark.parametrize(("change", "names"), CHANGES, ids=[change.__name__ for change, _ in CHANGES])


def bits(model: nn.Module) -> dict[str, list[int]]:
    return {name: values.flatten().view(torch.uint8).tolist() for name, values in model.state_dict().items()}


def identities(model: nn.Module) -> list[int]:
    return [id(thing) for thing in (*model.parameters(), *model.buffers(), *model.modules())]


def places(model: nn.Module) -> list[int]:
    return [tensor.data_ptr() for tensor in (*model.parameters(), *model.buffers())]


@every_change
def test_a_function_that_changes_the_model_is_named(model: nn.Module, change: Change, names: str) -> None:
    """Reference: the bits, objects, memory, modes and answers of before."""

    def changer(_model: nn.Module, inputs: Tensor, _target: Tensor) -> Tensor:
        change(model, inputs)
        return inputs

    before = bits(model), identities(model), places(model), model(INPUTS).tolist()
    with pytest.raises(HeatproofError, match=rf"changer changes the model's weights.*{names}"):
        make_explainer(changer)(model, BATCH, RNG)
    assert (bits(model), identities(model), places(model), model(INPUTS).tolist()) == before
    assert not any(module.training for module in model.modules())


@every_change
def test_the_model_is_set_back_when_it_raises(model: nn.Module, change: Change, names: str) -> None:
    """The error is the function's own."""

    def changer(_model: nn.Module, inputs: Tensor, _target: Tensor) -> Tensor:
        change(model, inputs)
        raise ValueError("lost")

    before = bits(model), identities(model), places(model)
    with pytest.raises(ValueError, match="lost"):
        make_explainer(changer)(model, BATCH, RNG)
    assert (bits(model), identities(model), places(model)) == before


@dataclass(frozen=True, kw_only=True)
class Changer(Explainer):
    """A user's class."""

    name = "changer"

    def explain(self, model: nn.Module, batch: Batch, rng: CaseRandom) -> Tensor:
        in_place_data(model, batch.inputs)
        return batch.inputs


def test_a_class_of_a_user_is_watched_and_ours_are_not(model: nn.Module) -> None:
    """Ours are held to it by test_contract.py, and need no copy of the weights."""
    with pytest.raises(HeatproofError, match="changer changes the model's weights"):
        Changer()(model, BATCH, RNG)
    assert not Changer().is_ours
    assert not make_explainer(lambda model, inputs, target: inputs).is_ours
    assert make_explainer("gradient").is_ours


def test_what_is_undone_is_no_change(model: nn.Module) -> None:
    """The same values in another tensor, as libraries leave them that merge norms and undo it; the tensor is back."""

    def undone(_model: nn.Module, inputs: Tensor, _target: Tensor) -> Tensor:
        model.conv.weight = nn.Parameter(model.conv.weight.detach().clone())
        model.answer.weight.data = model.answer.weight.data.clone()
        return inputs

    before = bits(model), identities(model), places(model)
    assert torch.equal(make_explainer(undone)(model, BATCH, RNG), INPUTS)
    assert (bits(model), identities(model), places(model)) == before


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_change_of_a_compiled_model_is_noticed() -> None:
    """TorchScript; reference: the bits of before."""
    script = torch.jit.trace(nn.Sequential(nn.Flatten(), nn.Linear(8, 3)), INPUTS)

    def changer(_model: nn.Module, inputs: Tensor, _target: Tensor) -> Tensor:
        for parameter in script.parameters():
            parameter.data.add_(1)
        return inputs

    before = bits(script)
    with pytest.raises(HeatproofError, match="changes the model's weights"):
        make_explainer(changer)(script, BATCH, RNG)
    assert bits(script) == before


def test_a_copy_may_be_changed(model: nn.Module) -> None:
    def careful(_model: nn.Module, inputs: Tensor, _target: Tensor) -> Tensor:
        in_place(copy.deepcopy(model), inputs)
        return inputs

    assert torch.equal(make_explainer(careful)(model, BATCH, RNG), INPUTS)


@pytest.mark.parametrize("target", [None, 0])
def test_a_model_that_is_no_module_is_refused(target: int | None) -> None:
    def network(inputs: Tensor) -> Tensor:
        return inputs.flatten(1)

    with pytest.raises(HeatproofError, match=r"model network must be a torch\.nn\.Module; got function"):
        heatproof.explain(network, INPUTS, "gradient", target=target)  # type: ignore[arg-type]
