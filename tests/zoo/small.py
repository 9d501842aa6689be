"""Toys for single functions, as rows of the table."""

from __future__ import annotations

from functools import partial

from torch import nn
from torch.nn import functional as F

from zoo import toys
from zoo.kinds import Layer, Network
from zoo.makers import GATED, NO_RECTIFIER, flat_head

RECTIFIERS = [
    Network(
        name,
        "rectifiers",
        partial(toys.with_activation, make),
        (3, 16, 16),
        Layer("activation"),
        partial(toys.with_activation, plain),
    )
    for name, (make, plain) in toys.RECTIFIERS.items()
]
CURVES = [
    Network(
        name,
        "activations",
        partial(toys.with_activation, make),
        (3, 16, 16),
        Layer("activation"),
        refuses=NO_RECTIFIER | (GATED if name == "square" else {}),
    )
    for name, make in toys.CURVES.items()
]
IN_PLACE = [
    Network(
        name,
        "in place",
        partial(toys.InPlace, made),
        (3, 16, 16),
        Layer("last"),
        partial(toys.InPlace, plain),
        quick=name.startswith("relu"),
    )
    for name, (made, plain) in toys.IN_PLACE.items()
] + [
    Network(
        "its own input",
        "in place",
        partial(toys.InputsChanged, True),
        (3, 16, 16),
        Layer("net.activation"),
        partial(toys.InputsChanged, False),
        quick=True,
    ),
]

UNSEEN = dict.fromkeys(("guided", "LRP", "attn_lrp", "deep_lift"), "a function with a backward pass of its own")
MINGLED = dict.fromkeys(
    ("gradients", "guided", "CAMs", "masks", "LRP", "attn_lrp", "attention", "deep_lift", "perturbation"),
    "its cases influence each other",
)
HARD = [
    Network(
        "swish with its own backward pass",
        "hard to see",
        partial(toys.with_activation, lambda: toys.MemorySavingSwish.apply),
        (3, 16, 16),
        Layer("activation"),
        refuses=UNSEEN,
        quick=True,
    ),
    Network(
        "ReLU with its own backward pass",
        "hard to see",
        partial(toys.with_activation, lambda: toys.HandRelu.apply),
        (3, 16, 16),
        Layer("activation"),
        refuses=UNSEEN,
    ),
    Network(
        "instance norm, channels last",
        "hard to see",
        lambda: toys.Normed(nn.InstanceNorm2d(8)),
        (3, 16, 16),
        Layer("dense", "last", then=F.relu, head=flat_head),
        quick=True,
    ),
    Network(
        "batch norm as a function, channels last",
        "hard to see",
        partial(toys.Normed, toys.batch_norm),
        (3, 16, 16),
        Layer("dense", "last", then=F.relu, head=flat_head),
    ),
    Network(
        "batch norm without statistics",
        "hard to see",
        lambda: toys.Normed(nn.BatchNorm2d(8, track_running_stats=False)),
        (3, 16, 16),
        Layer("dense", "last", then=F.relu, head=flat_head),
        refuses=MINGLED,
        not_run={"one output": "it has more", "a sum recovered": "its score is none"},
    ),
]
