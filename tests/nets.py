"""Small float64 networks of every kind that the explainers meet, with seven cases each."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from heatproof.cases import Batch
from heatproof.models.mnist1d_cnn import Mnist1dCnn
from reference.explainers import Net

CASES = 7
CLASSES = 4


class Cut(nn.Module):
    """A classifier made of `features` and `head`."""

    def __init__(self, features: nn.Module, head: nn.Module) -> None:
        super().__init__()
        self.features = features
        self.head = head

    def forward(self, inputs: Tensor) -> Tensor:
        logits: Tensor = self.head(self.features(inputs))
        return logits


class Swish(torch.autograd.Function):
    """An activation that saves memory, as public networks have it."""

    @staticmethod
    def forward(ctx: Any, inputs: Tensor) -> Tensor:
        ctx.save_for_backward(inputs)
        return inputs * torch.sigmoid(inputs)

    @staticmethod
    def backward(ctx: Any, signal: Tensor) -> Tensor:
        (inputs,) = ctx.saved_tensors
        gate = torch.sigmoid(inputs)
        return signal * gate * (1 + inputs * (1 - gate))


class Answerer(nn.Module):
    """Convolutions over a picture, gated by the mean embedding of a question's tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(2, 6, 3, stride=2, padding=1), nn.ReLU())
        self.words = nn.Embedding(5, 6)
        self.pool = nn.AdaptiveAvgPool2d((2, 1))
        self.answer = nn.Sequential(nn.Flatten(), nn.Linear(12, CLASSES))

    def head(self, maps: Tensor, question: Tensor) -> Tensor:
        gate = torch.tanh(self.words(question).mean(1))[:, :, None, None]
        logits: Tensor = self.answer(self.pool(maps) * (1 + gate))
        return logits

    def forward(self, inputs: Tensor, question: Tensor) -> Tensor:
        return self.head(self.features(inputs), question)


class Functional(nn.Module):
    """Functional ReLUs, a convolution that is used twice, a residual sum, a concatenation, a functional pooling."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(2, 4, 3, padding=1)
        self.twice = nn.Conv2d(4, 4, 3, padding=1)
        self.last = nn.Conv2d(8, 5, 3, padding=1)
        self.dense = nn.Linear(10, 10)
        self.out = nn.Linear(10, CLASSES)

    def features(self, inputs: Tensor) -> Tensor:
        stem = F.relu(self.first(inputs))
        once = F.relu(self.twice(stem)) + stem
        joined = torch.cat([once, torch.relu(self.twice(once))], 1)
        return F.relu(self.last(F.avg_pool2d(joined, 2)))

    def head(self, maps: Tensor) -> Tensor:
        vector = F.adaptive_avg_pool2d(maps, (2, 1)).flatten(1)
        logits: Tensor = self.out(self.dense(vector).relu_())
        return logits

    def forward(self, inputs: Tensor) -> Tensor:
        return self.head(self.features(inputs))


class Block(nn.Module):
    """A transformer block with pre-normalisation; attention by torch's function, or by its module."""

    def __init__(self, width: int, heads: int, module: bool) -> None:
        super().__init__()
        self.heads = heads
        self.norm1 = nn.LayerNorm(width)
        self.attn = nn.MultiheadAttention(width, heads, batch_first=True) if module else None
        self.qkv = None if module else nn.Linear(width, 3 * width)
        self.norm2 = nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))

    def attend(self, tokens: Tensor) -> Tensor:
        if self.attn is not None:
            attended: Tensor = self.attn(tokens, tokens, tokens, need_weights=False)[0]
            return attended
        assert self.qkv is not None
        query, key, value = self.qkv(tokens).unflatten(2, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        return F.scaled_dot_product_attention(query, key, value).transpose(1, 2).flatten(2)

    def forward(self, tokens: Tensor) -> Tensor:
        tokens = tokens + self.attend(self.norm1(tokens))
        result: Tensor = tokens + self.mlp(self.norm2(tokens))
        return result


class VisionTransformer(nn.Module):
    """Patches of 3 x 3 as tokens, two blocks; the answer from a class token, or from the mean of all tokens."""

    def __init__(self, class_token: bool = False, module: bool = False, space: tuple[int, int] = (9, 12)) -> None:
        super().__init__()
        self.grid = (space[0] // 3, space[1] // 3)
        self.patches = nn.Conv2d(2, 8, 3, stride=3)
        self.class_token = nn.Parameter(torch.zeros(1, 1, 8)) if class_token else None
        self.places = nn.Parameter(torch.zeros(1, class_token + self.grid[0] * self.grid[1], 8))
        self.blocks = nn.Sequential(*[Block(8, 2, module) for _ in range(2)])
        self.norm = nn.LayerNorm(8)
        self.answer = nn.Linear(8, CLASSES)

    def tokens(self, inputs: Tensor) -> Tensor:
        tokens = self.patches(inputs).flatten(2).transpose(1, 2)
        if self.class_token is not None:
            tokens = torch.cat([self.class_token.expand(len(tokens), -1, -1), tokens], 1)
        normed: Tensor = self.norm(self.blocks(tokens + self.places))
        return normed

    def features(self, inputs: Tensor) -> Tensor:
        """The tokens as maps, where there is no class token."""
        return self.tokens(inputs).transpose(1, 2).unflatten(2, self.grid)

    def head(self, maps: Tensor) -> Tensor:
        logits: Tensor = self.answer(maps.flatten(2).mean(2))
        return logits

    def forward(self, inputs: Tensor) -> Tensor:
        tokens = self.tokens(inputs)
        logits: Tensor = self.answer(tokens.mean(1) if self.class_token is None else tokens[:, 0])
        return logits


def seeded(make: type[nn.Module] | None, seed: int, *parts: nn.Module) -> nn.Module:
    """A float64 model in evaluation mode, its weights drawn anew from `seed`, biases and running statistics too."""
    model = (make(*parts) if make else parts[0]).double().eval()
    generator = torch.Generator().manual_seed(seed)
    for name, values in model.state_dict().items():
        if name.endswith("num_batches_tracked"):
            continue
        fan_in = max(1, values[0].numel()) if values.ndim > 1 else 4
        noise = torch.randn(values.shape, generator=generator, dtype=torch.float64) / fan_in**0.5
        values.copy_(noise.abs() + 0.5 if name.endswith("running_var") else 1.5 * noise)
    return model


def cases(seed: int, *shape: int, context: bool = False) -> Batch:
    """Seven random cases with random targets and a box as the only mask."""
    generator = torch.Generator().manual_seed(seed)
    inputs = torch.randn(CASES, *shape, generator=generator, dtype=torch.float64)
    mask = torch.zeros(CASES, *shape[1:], dtype=torch.bool)
    for case in range(CASES):
        box = tuple(slice(case % 2, case % 2 + 2 + case % 3) for _ in shape[1:])
        mask[(case, *box)] = True
    return Batch(
        inputs=inputs,
        target=torch.randint(0, CLASSES, (CASES,), generator=generator),
        ids=tuple(f"case-{seed}-{i}" for i in range(CASES)),
        context=(torch.randint(0, 5, (CASES, 3), generator=generator),) if context else (),
        masks={"box": mask},
    )


def make_signal_net() -> Net:
    """SVEA's network, random weights: its maps are as long as the signals."""
    model = seeded(None, 1, Mnist1dCnn())
    features = nn.Sequential(model.conv1, model.relu1, model.conv2, model.relu2, model.conv3, model.relu3)
    return Net(model, cases(11, 1, 40), "relu3", features, lambda maps: model.linear(maps.flatten(1)))


def make_strided_signal_net() -> Net:
    """A 1-D network whose maps (9 long) must be up-sampled to the signals (35 long); two channels in."""
    features = nn.Sequential(
        nn.Conv1d(2, 5, 5, stride=2, padding=2), nn.ReLU(), nn.Conv1d(5, 6, 3, stride=2, padding=1), nn.ReLU()
    )
    model = seeded(Cut, 2, features, nn.Sequential(nn.AdaptiveAvgPool1d(3), nn.Flatten(), nn.Linear(18, CLASSES)))
    return Net(model, cases(12, 2, 35), "features.3", model.features, model.head)


def make_picture_net() -> Net:
    """A 2-D network with batch norm and dropout; maps of 3 x 4 for pictures of 11 x 14; the first map is empty."""
    features = nn.Sequential(
        nn.Conv2d(3, 5, 3, stride=2, padding=1),
        nn.BatchNorm2d(5),
        nn.ReLU(),
        nn.Conv2d(5, 6, 3, stride=2, padding=1),
        nn.ReLU(),
    )
    head = nn.Sequential(nn.AdaptiveAvgPool2d((2, 3)), nn.Flatten(), nn.Dropout(0.5), nn.Linear(36, CLASSES))
    model = seeded(Cut, 3, features, head)
    with torch.no_grad():
        model.features[3].bias[0] = -100.0
    return Net(model, cases(13, 3, 11, 14), "features.4", model.features, model.head)


def make_volume_net() -> Net:
    """A 3-D network; maps of 3 x 3 x 4 for volumes of 5 x 6 x 7."""
    features = nn.Sequential(nn.Conv3d(2, 5, 3, stride=2, padding=1), nn.ReLU())
    head = nn.Sequential(nn.AdaptiveAvgPool3d((1, 2, 2)), nn.Flatten(), nn.Linear(20, CLASSES))
    model = seeded(Cut, 4, features, head)
    return Net(model, cases(14, 2, 5, 6, 7), "features.1", model.features, model.head)


def make_question_net() -> Net:
    """A 2-D network that takes a question too."""
    model = seeded(Answerer, 5)
    return Net(model, cases(15, 2, 9, 7, context=True), "features.1", model.features, model.head)


def make_functional_net() -> Net:
    """A 2-D network with functional ReLUs and reused modules; maps of 4 x 4 for pictures of 8 x 9."""
    model = seeded(Functional, 9)
    return Net(model, cases(16, 2, 8, 9), "/relu.4", model.features, model.head)


def make_transformer() -> Net:
    """A vision transformer whose answer is the mean of its tokens; a grid of 3 x 4 for pictures of 9 x 12."""
    model = seeded(VisionTransformer, 7)
    return Net(model, cases(17, 2, 9, 12), "norm", model.features, model.head)


MAKERS = {
    "signal": make_signal_net,
    "strided_signal": make_strided_signal_net,
    "picture": make_picture_net,
    "volume": make_volume_net,
    "question": make_question_net,
    "functional": make_functional_net,
    "transformer": make_transformer,
}
