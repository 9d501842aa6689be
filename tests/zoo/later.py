"""Small networks that were tried once the methods were done: writes into slices, cuts, operators by hand, spectra."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from zoo.kinds import Layer, Network
from zoo.own import CLASSES, conv
from zoo.strange import LAST, NO_RULE, SMALL, SOME_RULES
from zoo.unusual import End, Middle

Net = Callable[["Steps", Tensor], Tensor]
UNSEEN_STEPS = dict.fromkeys(("LRP", "attn_lrp", "deep_lift"), "its steps are not seen")


class Steps(nn.Module):
    """Two convolutions and some numbers, put together by a function."""

    def __init__(self, steps: Net, width: int = 8) -> None:
        super().__init__()
        self.first, self.second, self.steps = conv(8, width), conv(8, 8), steps
        self.numbers = nn.Parameter(torch.randn(8, 16, 16))
        self.looks = nn.Conv2d(8, 2, 3, padding=1)

    def forward(self, maps: Tensor) -> Tensor:
        return self.steps(self, maps)


def written(net: Steps, x: Tensor) -> Tensor:
    y = net.first(x)
    y[:, ::2].mul_(2)
    y[..., 1:] += y[..., :-1].clone()
    y[:, 3] = y[:, 2] * 0.5
    return y


def written_plain(net: Steps, x: Tensor) -> Tensor:
    factors = torch.ones(8, 1, 1, dtype=x.dtype)
    factors[::2] = 2
    y = net.first(x) * factors
    y = y + F.pad(y, (1, 0))[..., :-1]
    return torch.cat([y[:, :3], y[:, 2:3] * 0.5, y[:, 4:]], 1)


def shifted(net: Steps, x: Tensor) -> Tensor:
    """Some channels a place to the left, some to the right, as networks for films have it."""
    moved = torch.zeros_like(x)
    moved[:, :2, :, 1:] = x[:, :2, :, :-1]
    moved[:, 2:4, :, :-1] = x[:, 2:4, :, 1:]
    moved[:, 4:] = x[:, 4:]
    made: Tensor = net.first(moved)
    return made


def shifted_plain(net: Steps, x: Tensor) -> Tensor:
    parts = [F.pad(x[:, :2], (1, 0))[..., :-1], F.pad(x[:, 2:4], (0, 1))[..., 1:], x[:, 4:]]
    made: Tensor = net.first(torch.cat(parts, 1))
    return made


def zeroed(net: Steps, x: Tensor) -> Tensor:
    y = net.first(x)
    y[y < 0] = 0.0
    made: Tensor = net.second(y)
    return made


def by_operators(net: Steps, x: Tensor) -> Tensor:
    made: Tensor = net.second(torch.ops.aten.relu.default(torch.ops.aten.add.Tensor(net.first(x), x)))
    return made


def by_functions(net: Steps, x: Tensor) -> Tensor:
    made: Tensor = net.second(F.relu(net.first(x) + x))
    return made


def rectified(net: Steps, x: Tensor) -> Tensor:
    made: Tensor = net.second(F.relu(net.first(x)))
    return made


def put_together(net: Steps, x: Tensor) -> Tensor:
    y = net.first(x)
    made: Tensor = net.second((y + y.abs()) / 2)
    return made


def in_frequencies(net: Steps, x: Tensor) -> Tensor:
    return torch.fft.ifft2(torch.fft.fft2(net.first(x)) * net.numbers).real


def in_pairs(net: Steps, x: Tensor) -> Tensor:
    """Each two channels are a complex number, and are turned."""
    pairs = net.first(x).unflatten(1, (4, 2)).movedim(2, -1).contiguous()
    turned = torch.view_as_complex(pairs) * torch.complex(net.numbers[:4], net.numbers[4:])
    return torch.view_as_real(turned).movedim(-1, 2).flatten(1, 2)


def where_it_looks(net: Steps, x: Tensor) -> Tensor:
    """Each place looks beside itself, as the maps say, as deformable convolutions do."""
    grid = F.affine_grid(torch.eye(2, 3, dtype=x.dtype).expand(len(x), 2, 3), list(x.shape), align_corners=False)
    beside = torch.tanh(net.looks(x)).permute(0, 2, 3, 1) * 0.2
    return F.grid_sample(net.first(x), grid + beside, align_corners=False, padding_mode="border")


def mapped(net: Steps, x: Tensor) -> Tensor:
    return torch.vmap(lambda one: F.relu(net.first(one[None]))[0])(x)


def mapped_plain(net: Steps, x: Tensor) -> Tensor:
    return F.relu(net.first(x))


def collected(net: Steps, x: Tensor) -> Tensor:
    return torch.zeros_like(x).index_add(1, torch.tensor([0, 0, 1, 2, 3, 3, 3, 7]), net.first(x))


def chosen_straight_through(net: Steps, x: Tensor) -> Tensor:
    share = net.first(x).softmax(1)
    chosen = F.one_hot(share.argmax(1), 8).movedim(-1, 1).to(share)
    return x * (chosen - share.detach() + share)


def steps(name: str, step: Net, plain: Net | None = None, **more: object) -> Network:
    twin = None if plain is None else lambda: Middle(Steps(plain))
    return Network(name, "later", lambda: Middle(Steps(step)), SMALL, LAST, twin, **more)  # type: ignore[arg-type]


class Halves(nn.Module):
    """The left half and the right half through the same layers, and how far they differ."""

    def __init__(self) -> None:
        super().__init__()
        self.tower = nn.Sequential(conv(3, 8), nn.ReLU(), nn.MaxPool2d(2), conv(8, 8), nn.ReLU())
        self.out = nn.Linear(8, CLASSES)

    def forward(self, inputs: Tensor) -> Tensor:
        one, other = inputs.tensor_split(2, -1)
        logits: Tensor = self.out((self.tower(one) - self.tower(other)).abs().mean((2, 3)))
        return logits


def middle_only(maps: Tensor) -> Tensor:
    return maps[..., 2:6, 2:6].mean((2, 3))


LATER = [
    steps("writes into slices", written, written_plain),
    steps("shifts by slices", shifted, shifted_plain),
    steps("what is below is set to zero", zeroed, rectified),
    steps("operators by hand", by_operators, by_functions),
    steps("a ReLU put together", put_together, refuses={"guided": "no single function is a rectifier"}, quick=True),
    steps("filter of frequencies in pictures", in_frequencies, refuses=NO_RULE),
    steps("complex numbers", in_pairs, refuses=NO_RULE),
    steps(
        "looks beside itself",
        where_it_looks,
        refuses=NO_RULE,
        not_run={"deep_lift": "where it looks is followed by an integral, to one in a thousand"},
    ),
    steps("vmap within", mapped, mapped_plain, refuses=UNSEEN_STEPS),
    steps("index_add", collected, refuses=NO_RULE),
    steps("a straight-through choice", chosen_straight_through, refuses=SOME_RULES),
    Network("the middle only", "later", lambda: End(middle_only), SMALL, Layer("convs"), quick=True),
    Network("two halves", "later", Halves, SMALL, quick=True),
]
