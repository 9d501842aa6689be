"""Networks in less usual styles, as rows of the table."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from torch import Tensor, nn

from zoo import folded, sequences, toys, unusual
from zoo.kinds import Layer, Network
from zoo.makers import ATTENTION, GATED, NO_RECTIFIER, RECURRENT
from zoo.own import conv
from zoo.unusual import End, Middle

SMALL = (3, 16, 16)
LAST, CONVS = Layer("last"), Layer("convs")
NO_RULE = dict.fromkeys(("LRP", "attn_lrp"), "it has functions without a rule")
SOME_RULES = {"LRP": "it has functions with rules in the composites for attention only"}
NOT_HELD = {"attn_lrp": "no transformer: the reference of these rules does not know its functions"}
MIXED_PLACES = dict.fromkeys(("CAMs", "guided maps", "masks"), "each value holds all places: no layer to name")


def middle(name: str, make: Callable[[], nn.Module], **more: Any) -> Network:
    return Network(name, "unusual layers", lambda: Middle(make()), SMALL, LAST, **more)


def curve(name: str, step: Callable[[Tensor], Tensor], **more: Any) -> Network:
    make = partial(toys.with_activation, lambda: step)
    return Network(name, "unusual layers", make, SMALL, Layer("activation"), **more)


def end(name: str, step: Callable[[Tensor], Tensor], layer: Layer = CONVS, **more: Any) -> Network:
    return Network(name, "unusual ends", lambda: End(step), SMALL, layer, **more)


LAYERS = [
    middle("CReLU", unusual.Doubled, twin=lambda: Middle(unusual.Doubled(True))),
    middle("maxout", unusual.Maxout, quick=True),
    middle("F.glu", unusual.GatedUnit, refuses=SOME_RULES, twin=lambda: Middle(unusual.GatedUnit(True))),
    curve("hard swish by hand", unusual.hand_hard_swish, refuses=GATED),
    curve("squared ReLU", unusual.squared_relu, refuses=NO_RULE),
    curve("snake", unusual.snake, refuses=NO_RULE | NO_RECTIFIER),
    curve("GELU by hand", unusual.hand_gelu, refuses=NO_RULE | NO_RECTIFIER),
    curve("softplus by hand", unusual.hand_softplus, refuses=NO_RULE | NO_RECTIFIER),
    middle("weights standardised", lambda: unusual.Standardised(8, 8, 3, padding=1)),
    middle("low-rank adapter", unusual.adapted, quick=True),
    middle("spectral norm", unusual.spectral),
    middle("orthogonal weights over places", unusual.orthogonal, not_run=MIXED_PLACES),
    middle("pruned weights", unusual.pruned),
    middle("convolution by unfold", unusual.Unfolded, twin=lambda: Middle(unusual.Unfolded(True)), quick=True),
    middle("a kernel for each case", unusual.ByCases, refuses=NO_RULE),
    middle("shared norm", unusual.Shared, quick=True),
    middle("experts by index", unusual.Experts, refuses=NO_RULE),
    middle("a loop until it settles", unusual.UntilSettled),
    middle("case by case", unusual.CaseByCase, quick=True),
    middle("root mean square norm", unusual.ResponseNorm, refuses=SOME_RULES, not_run=NOT_HELD),
    middle("global response norm", unusual.GlobalResponse, refuses=NO_RULE),
    middle("norm by constants", unusual.Whitened, not_run=NOT_HELD),
    middle(
        "local response norm",
        lambda: nn.Sequential(conv(8, 8), nn.LocalResponseNorm(3)),
        refuses=SOME_RULES,
        not_run=NOT_HELD,
    ),
    middle("pixel unshuffle", lambda: nn.Sequential(nn.PixelUnshuffle(2), nn.Conv2d(32, 8, 1))),
    middle("circular padding", lambda: nn.Conv2d(8, 8, 3, padding=1, padding_mode="circular")),
    middle("lp pool", lambda: nn.Sequential(conv(8, 8), nn.LPPool2d(2, 2)), refuses=NO_RULE),
    middle(
        "softmax over channels",
        lambda: nn.Sequential(conv(8, 8), nn.Softmax2d(), conv(8, 8)),
        refuses=SOME_RULES,
        not_run=NOT_HELD,
    ),
]
ENDS = [
    end("soft maximum", unusual.soft_maximum, refuses=NO_RULE),
    end(
        "generalised mean",
        unusual.generalised_mean,
        Layer("convs", then=unusual.raised, head=unusual.generalised_head),
        refuses=NO_RULE,
    ),
    end("largest few", unusual.largest_few),
    end("standard deviation", unusual.spread, refuses=NO_RULE),
    end("attention over places", unusual.attended, refuses=ATTENTION),
    end(
        "bilinear pooling",
        unusual.in_pairs,
        Layer("convs", then=unusual.first_few, head=unusual.paired_head),
        refuses=GATED,
    ),
    end("unit length", unusual.unit_length, refuses=SOME_RULES, not_run=NOT_HELD),
    Network("prototypes", "unusual ends", unusual.Prototypes, SMALL, CONVS, refuses=NO_RULE),
    Network(
        "spatial transformer",
        "unusual ends",
        unusual.Transformed,
        SMALL,
        Layer("net.features"),
        refuses=NO_RULE,
        not_run={"deep_lift": "where it looks is followed by an integral, to one in ten thousand"},
    ),
]
CELLS = RECURRENT | NO_RECTIFIER
SEQUENCES = [
    Network("LSTM cells", "unusual signals", lambda: sequences.Cells(nn.LSTMCell(3, 8)), (3, 10), refuses=CELLS),
    Network("GRU cells", "unusual signals", lambda: sequences.Cells(nn.GRUCell(3, 8)), (3, 10), refuses=CELLS),
    Network("gates by hand", "unusual signals", sequences.HandGates, (3, 10), refuses=CELLS),
    Network("packed sequences", "unusual signals", sequences.Packed, (3, 10), refuses=CELLS),
    Network("projected LSTM", "unusual signals", sequences.Projected, (3, 10), refuses=CELLS),
    Network("WaveNet", "unusual signals", sequences.Wave, (3, 24), LAST, refuses=GATED),
    Network("filter of frequencies", "unusual signals", sequences.Spectrum, (3, 40), LAST, refuses=NO_RULE),
    Network("strength in frames", "unusual signals", sequences.Strength, (1, 40), LAST, refuses=NO_RULE, quick=True),
    Network("strength of frequencies", "unusual signals", sequences.Bands, (3, 40), refuses=NO_RULE, quick=True),
    Network("windows that overlap", "unusual signals", sequences.Windows, (3, 40), quick=True),
    Network("learned queries", "unusual signals", sequences.Queries, (3, 20), Layer("both"), refuses=ATTENTION),
    Network("state space", "unusual signals", sequences.Mixed, (3, 12), LAST),
    Network(
        "convolutional LSTM", "unusual signals", sequences.Remembering, (1, 3, 12, 12), refuses=GATED | NO_RECTIFIER
    ),
    Network("grouped volumes", "unusual signals", sequences.grouped_volumes, (2, 8, 8, 8), Layer("features")),
    Network(
        "causal and transposed",
        "unusual signals",
        sequences.causal,
        (3, 24),
        Layer("features"),
        not_run={"relevance kept": "what it pads with takes its share"},
    ),
]

ENCODER = ATTENTION | NO_RECTIFIER
WITHIN, NORM = Layer("net.features"), Layer("layers.norm", "tokens", (4, 4))
FOLDED = [
    Network("patches as cases", "unusual ways", folded.Patches, SMALL, quick=True),
    Network("frames as cases", "unusual ways", folded.Frames, (2, 4, 8, 8), quick=True),
    Network("mirror images as cases", "unusual ways", folded.Mirrored, SMALL, quick=True),
    Network("ensemble", "unusual ways", folded.Ensemble, SMALL),
    Network("pyramid", "unusual ways", folded.Pyramid, SMALL, LAST),
    Network(
        "multiple instances",
        "unusual ways",
        folded.Instances,
        SMALL,
        Layer("weighted", "tokens", (8, 8)),
        refuses=ATTENTION,
    ),
    Network("colours normalised within", "unusual ways", folded.Normalises, SMALL, WITHIN),
    Network(
        "probabilities",
        "unusual ways",
        lambda: folded.Normalises(nn.Softmax(1)),
        SMALL,
        WITHIN,
        refuses=SOME_RULES,
        not_run=NOT_HELD,
    ),
    Network(
        "log-probabilities", "unusual ways", lambda: folded.Normalises(nn.LogSoftmax(1)), SMALL, WITHIN, refuses=NO_RULE
    ),
    *[
        Network(name, "unusual ways", partial(folded.Encoder, first), SMALL, NORM, refuses=ENCODER, attends=True)
        for name, first in {"encoder, norms behind": False, "encoder, norms first": True}.items()
    ],
    Network(
        "rare pools",
        "unusual ways",
        folded.rare_pools,
        (3, 17, 17),
        Layer("features"),
        refuses={"deep_lift": "what is put back may have been elsewhere in the baseline"},
        quick=True,
    ),
    Network("rare norms", "unusual ways", folded.rare_norms, SMALL, Layer("features")),
    Network("shrinking activations", "unusual ways", folded.shrunk, SMALL, Layer("features"), refuses=NO_RECTIFIER),
]
