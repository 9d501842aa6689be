"""Autograd's graph of a pass, against what is known to have been computed."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from heatproof.errors import HeatproofError
from heatproof.explainers.autograd_graph import (
    function_name,
    is_custom,
    makers,
    nodes_of,
    require_known,
    shape_of,
    taken_shape,
)
from nets import Swish


def carrier() -> Tensor:
    return torch.randn(2, 3, 8, 8, generator=torch.Generator().manual_seed(0)).requires_grad_()


def test_nodes_come_once_and_before_those_that_they_hand_gradients_to() -> None:
    """Reference: the functions of the pass written down; a diamond that meets three times."""
    inputs = carrier()
    start = inputs * 2
    left, right = start.relu(), start.sigmoid()
    nodes = nodes_of((left + right).sum() + start.sum())
    names = [function_name(node) for node in nodes]
    assert sorted(names) == ["AccumulateGrad", "Add", "Add", "Mul", "Relu", "Sigmoid", "Sum", "Sum"]
    assert len(set(nodes)) == len(nodes)
    place = {node: number for number, node in enumerate(nodes)}
    assert all(place[node] < place[maker] for node in nodes for maker in makers(node))


def test_a_long_chain_is_no_problem() -> None:
    values = carrier()
    for _ in range(5000):
        values = values + 1
    assert len(nodes_of(values)) == 5001


def test_outputs_without_a_gradient_have_no_nodes() -> None:
    assert nodes_of(torch.ones(3)) == []


def test_several_outputs_share_their_nodes() -> None:
    """Reference: counted by hand; the second output lies behind the first."""
    inner = carrier() * 2
    outer = inner.relu()
    assert [function_name(node) for node in nodes_of(inner, outer)] == ["Relu", "Mul", "AccumulateGrad"]


def test_shapes_are_those_of_the_tensors() -> None:
    """Reference: the tensors themselves."""
    conv = nn.Conv2d(3, 5, 3, stride=2)
    maps = conv(carrier())
    pooled, places = functional.max_pool2d(maps, 2, return_indices=True)
    assert shape_of(maps.grad_fn) == tuple(maps.shape)
    assert shape_of(pooled.grad_fn) == tuple(pooled.shape) == tuple(places.shape)
    assert taken_shape(pooled.grad_fn) == tuple(maps.shape)
    parts = maps.split([2, 3], 1)
    assert taken_shape((parts[1] * 2).grad_fn) == tuple(parts[1].shape)
    assert taken_shape((maps * torch.ones(())).grad_fn, 1) is None


def test_custom_functions_are_known_by_their_names() -> None:
    """Reference: the class that was applied."""
    made = Swish.apply(carrier())
    assert is_custom(made.grad_fn)
    assert function_name(made.grad_fn) == "Swish"
    assert not is_custom(carrier().relu().grad_fn)
    with pytest.raises(HeatproofError, match=r"lrp cannot see through the custom autograd\.Function Swish; write"):
        require_known(made.sum(), explainer="lrp")
    require_known(made.sum(), explainer="lrp", ours=(Swish,))
    require_known(made.sum(), explainer="lrp", known=lambda node: function_name(node) == "Swish")


def test_checkpoints_are_hidden_only_if_reentrant() -> None:
    """Reference: torch's two kinds of checkpoints around the same function."""
    inner = carrier() * 2
    with pytest.raises(HeatproofError, match="reentrant checkpoints; give use_reentrant=False"):
        require_known(checkpoint(torch.relu, inner, use_reentrant=True), explainer="lrp")
    require_known(checkpoint(torch.relu, inner, use_reentrant=False), explainer="lrp")


def test_fused_kernels_are_hidden() -> None:
    """Reference: torch's LSTM is one node on a CPU with oneDNN, and many without; its cell always is many."""
    sequence = torch.randn(2, 5, 3, requires_grad=True)
    outputs = nn.LSTM(3, 4)(sequence)[0]
    if any("RnnLayer" in node.name() for node in nodes_of(outputs)):
        with pytest.raises(HeatproofError, match="the fused kernel MkldnnRnnLayer; take a method"):
            require_known(outputs, explainer="lrp")
    else:
        require_known(outputs, explainer="lrp")
    require_known(nn.LSTMCell(3, 4)(sequence[0])[0], explainer="lrp")


def test_a_users_hooks_hide_nothing() -> None:
    """Reference: torch puts identities around a layer with a full backward hook."""
    layer = nn.Linear(8, 4)
    layer.register_full_backward_hook(lambda *_: None)
    outputs = layer(carrier())
    assert any(is_custom(node) for node in nodes_of(outputs))
    require_known(outputs, explainer="lrp")


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_compiled_graphs_are_hidden() -> None:
    """Reference: TorchScript runs a graph as one node once it has seen the shapes."""
    script = torch.jit.script(nn.Sequential(nn.Linear(8, 4), nn.ReLU()))
    for _ in range(3):
        outputs = script(carrier())
    with pytest.raises(HeatproofError, match="a compiled graph in the model; give the model as it is before"):
        require_known(outputs, explainer="lrp")


def test_a_signal_goes_back_without_sympy() -> None:
    """Reference: autograd.grad with the same signal, bit by bit; in a process of its own, as imports stay."""
    script = """
import sys, torch
from heatproof.explainers.autograd_graph import pulled_back
x = torch.randn(4, 3, generator=torch.Generator().manual_seed(0), requires_grad=True)
y = x.tanh()
with torch.no_grad():  # as inside of a way back
    found = pulled_back(y, x, y.detach())
assert "sympy" not in sys.modules
y = x.tanh()
assert torch.equal(found, torch.autograd.grad(y, x, y.detach())[0])
assert "sympy" in sys.modules
y = x.tanh()
assert torch.equal(found, pulled_back(y, x, y.detach()))
"""
    paths = os.pathsep.join(sys.path)
    subprocess.run([sys.executable, "-c", script], check=True, env=os.environ | {"PYTHONPATH": paths})
