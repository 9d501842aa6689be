"""Whatever is explained stays on its device. Reference: the same on the processor, to the last bit."""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace

import pytest
import torch
from test_contract import fits, make
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

import heatproof
from elsewhere import Elsewhere, brought_home, elsewhere
from heatproof.cases import Batch
from heatproof.errors import HeatproofError
from heatproof.explainers import Explainer, explainers
from heatproof.explainers.spec import make_explainer
from heatproof.seeds import CaseRandom
from nets import MAKERS
from reference.explainers import Net
from reference.libraries import import_zennit


def test_the_second_device_is_one():
    """It computes as the first does, and refuses to meet it."""
    here = torch.rand(3, 4)
    with elsewhere() as device:
        there = here.to(device)
        assert torch.equal((there @ there.T).cpu(), here @ here.T)
        assert torch.zeros(2, device=device).device == device
        with pytest.raises(RuntimeError, match="two devices meet"):
            there + here
        with pytest.raises(RuntimeError, match="two devices meet"):
            there.gather(1, torch.zeros(3, 1, dtype=torch.long))
        with pytest.raises((RuntimeError, TypeError)):
            there.numpy()


def test_the_predicted_class_is_found_where_the_model_is():
    net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(30, 4))
    inputs = torch.rand(5, 1, 30)
    with elsewhere() as device:
        found = heatproof.explain(copy.deepcopy(net).to(device), inputs.to(device), "gradient", target=None)
        assert isinstance(found, Elsewhere)
    assert torch.equal(found.held, heatproof.explain(net, inputs, "gradient", target=net(inputs).argmax(1)))


@pytest.mark.parametrize(
    ("net", "name"), [(net, name) for net in MAKERS for name in explainers if fits(name, net)], indirect=["net"]
)
def test_explained_there_as_here(net: Net, name: str) -> None:
    with sdpa_kernel(SDPBackend.MATH):
        with elsewhere() as device:
            model, batch = copy.deepcopy(net.model).to(device), net.batch.to(device)
            there = make(name, net.model)(model, batch, CaseRandom(0, name))
            assert isinstance(there, Elsewhere)
        assert torch.equal(there.held, make(name, net.model)(net.model, net.batch, CaseRandom(0, name)))


LOOKS_ON_THE_CPU = {"lime", "sise"}
"""What scikit-image has to see: superpixels are found, and Otsu's threshold."""


@pytest.mark.parametrize(
    ("net", "name"),
    [("transformer" if cls.family == "attention" else "picture", name) for name, cls in explainers.items()],
    indirect=["net"],
)
def test_explained_there_without_float64(net: Net, name: str) -> None:
    """As on Apple's devices. Nothing goes to the CPU on the way but what has to."""
    model, batch = copy.deepcopy(net.model).float(), net.batch.to(dtype=torch.float32)
    with sdpa_kernel(SDPBackend.MATH):
        with elsewhere(doubles=False) as device:
            there = make(name, net.model)(copy.deepcopy(model).to(device), batch.to(device), CaseRandom(0, name))
            assert isinstance(there, Elsewhere)
        here = make(name, net.model)(model, batch, CaseRandom(0, name))
    assert torch.equal(there.held, here)


@pytest.mark.parametrize("name", explainers)
def test_numbers_stay_there(nets: dict[str, Net], name: str) -> None:
    net = nets["picture" if fits(name, "picture") else "transformer"]
    explainer = make(name)
    with elsewhere() as device:
        model, batch = copy.deepcopy(net.model).to(device), net.batch.to(device)
        before = len(brought_home())
        explainer(model, batch, CaseRandom(0, name))
        gone = len(brought_home()) - before
    if name == "randomised":  # its weights are drawn on the CPU
        assert gone <= 2 * len(net.model.state_dict())
    else:
        assert (gone > 0) == (name in LOOKS_ON_THE_CPU)


@dataclass(frozen=True, kw_only=True)
class Careless(Explainer):
    """Makes its tensors where torch makes them by default."""

    name = "careless"
    how: str = "index"

    def explain(self, model: nn.Module, batch: Batch, rng: CaseRandom) -> Tensor:
        if self.how == "index":
            return batch.inputs[torch.arange(len(batch)).flip(0)]
        if self.how == "mask":
            return batch.inputs * torch.ones(batch.inputs.shape)
        return torch.from_numpy(batch.inputs.numpy())


@pytest.mark.parametrize("how", ["index", "mask", "numpy"])
def test_a_hidden_tensor_of_the_cpu_is_found(picture_net: Net, how: str) -> None:
    """The tests above can fail: an explainer that is careless is caught, whatever it is careless about."""
    Careless(how=how)(picture_net.model, picture_net.batch, CaseRandom(0, "careless"))
    with elsewhere() as device:
        model, batch = copy.deepcopy(picture_net.model).to(device), picture_net.batch.to(device)
        with pytest.raises((RuntimeError, TypeError), match=r"index of another device|two devices meet|numpy"):
            Careless(how=how)(model, batch, CaseRandom(0, "careless"))


@pytest.mark.parametrize("target", [-1, 4])
def test_a_class_that_is_not_there_is_named_in_time(picture_net: Net, target: int) -> None:
    """Before the device sees it: CUDA would not survive it, and Apple's would not notice."""
    wrong = replace(picture_net.batch, target=torch.full_like(picture_net.batch.target, target))
    with elsewhere() as device:
        model = copy.deepcopy(picture_net.model).to(device)
        with pytest.raises(
            HeatproofError, match=rf"between 0 and 3, the model has 4 outputs; got {target} to {target}"
        ):
            make("gradient")(model, wrong.to(device), CaseRandom(0, "gradient"))


def test_a_target_that_was_left_behind_is_not_taken_for_a_wrong_one(picture_net: Net) -> None:
    with elsewhere() as device:
        model, batch = copy.deepcopy(picture_net.model).to(device), picture_net.batch.to(device)
        with pytest.raises(RuntimeError, match="two devices meet"):
            make("gradient")(model, replace(batch, target=picture_net.batch.target), CaseRandom(0, "gradient"))


# What others have written


def noisy(model: nn.Module, inputs: Tensor, target: Tensor) -> Tensor:
    return inputs * torch.rand_like(inputs)


def test_a_function_that_draws_there_does_not_depend_on_the_batch(picture_net: Net) -> None:
    """It draws from the device's own stream, which comes from the case's seed and goes on afterwards as it was."""
    explainer, rng = make_explainer(noisy), CaseRandom(0, "noisy")
    with elsewhere() as device:
        model, batch = copy.deepcopy(picture_net.model).to(device), picture_net.batch.to(device)
        before, state = torch.rand(3, device=device).cpu(), torch.get_rng_state()
        together = explainer(model, batch, rng)
        alone = torch.cat([explainer(model, batch[i : i + 1], rng) for i in range(len(batch))])
        after = torch.rand(3, device=device).cpu()
        assert torch.equal(together.cpu(), alone.cpu())
        assert torch.equal(torch.get_rng_state(), state)
    with elsewhere() as device:
        expected = torch.rand(3, device=device).cpu(), torch.rand(3, device=device).cpu()
    assert torch.equal(before, expected[0])
    assert torch.equal(after, expected[1])


@pytest.mark.parametrize("spec", ["captum:Saliency", "captum:IntegratedGradients:n_steps=4", "zennit:EpsilonPlus"])
def test_libraries_explain_there_as_here(picture_net: Net, spec: str) -> None:
    if spec.startswith("zennit"):
        import_zennit()
    explainer, rng = make_explainer(spec), CaseRandom(0, spec)
    with elsewhere() as device:
        model, batch = copy.deepcopy(picture_net.model).to(device), picture_net.batch.to(device)
        there = explainer(model, batch, rng)
        assert isinstance(there, Elsewhere)
    assert torch.equal(there.held, explainer(picture_net.model, picture_net.batch, rng))
