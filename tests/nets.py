"""Small float64 networks of every kind that the explainers meet, with seven cases each."""

from __future__ import annotations

import torch
from torch import Tensor, nn

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


class Answerer(nn.Module):
    """Convolutions over a picture, gated by the mean embedding of a question's tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(2, 6, 3, stride=2, padding=1), nn.ReLU())
        self.words = nn.Embedding(5, 6)
        self.answer = nn.Sequential(nn.AdaptiveAvgPool2d((2, 1)), nn.Flatten(), nn.Linear(12, CLASSES))

    def head(self, maps: Tensor, question: Tensor) -> Tensor:
        gate = torch.tanh(self.words(question).mean(1))[:, :, None, None]
        logits: Tensor = self.answer(maps * (1 + gate))
        return logits

    def forward(self, inputs: Tensor, question: Tensor) -> Tensor:
        return self.head(self.features(inputs), question)


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


MAKERS = {
    "signal": make_signal_net,
    "strided_signal": make_strided_signal_net,
    "picture": make_picture_net,
    "volume": make_volume_net,
    "question": make_question_net,
}
