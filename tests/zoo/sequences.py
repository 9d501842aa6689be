"""Small networks over signals and volumes in less usual styles: cells, gates, transforms, attention by hand."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from zoo.own import CLASSES, Cut
from zoo.signals import signal_end


class Cells(nn.Module):
    """A loop over a cell (LSTM, GRU), time by time."""

    def __init__(self, cell: nn.Module, width: int = 8) -> None:
        super().__init__()
        self.cell, self.out, self.width = cell, nn.Linear(width, CLASSES), width

    def forward(self, inputs: Tensor) -> Tensor:
        state = inputs.new_zeros(len(inputs), self.width)
        memory = torch.zeros_like(state)
        for time in range(inputs.shape[2]):
            if isinstance(self.cell, nn.LSTMCell):
                state, memory = self.cell(inputs[:, :, time], (state, memory))
            else:
                state = self.cell(inputs[..., time], state)
        logits: Tensor = self.out(state)
        return logits


class HandGates(nn.Module):
    """A gated recurrent unit written out, with one product for all gates."""

    def __init__(self) -> None:
        super().__init__()
        self.gates, self.new, self.out = nn.Linear(11, 16), nn.Linear(11, 8), nn.Linear(8, CLASSES)

    def forward(self, inputs: Tensor) -> Tensor:
        state = inputs.new_zeros(len(inputs), 8)
        for value in inputs.unbind(2):
            reset, update = torch.sigmoid(self.gates(torch.cat((value, state), 1))).chunk(2, 1)
            state = torch.lerp(torch.tanh(self.new(torch.cat((value, reset * state), 1))), state, update)
        logits: Tensor = self.out(state)
        return logits


class Packed(nn.Module):
    """A recurrent layer over sequences that are packed by their lengths."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.out = nn.LSTM(3, 6, num_layers=2, batch_first=True), nn.Linear(6, CLASSES)

    def forward(self, inputs: Tensor) -> Tensor:
        lengths = torch.full((len(inputs),), inputs.shape[2])
        packed = pack_padded_sequence(inputs.transpose(1, 2), lengths, batch_first=True)
        states, _ = pad_packed_sequence(self.layer(packed)[0], batch_first=True)
        logits: Tensor = self.out(states[:, -1])
        return logits


class Projected(nn.Module):
    """Both directions and a projection of the state."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.LSTM(3, 6, proj_size=4, bidirectional=True, batch_first=True)
        self.out = nn.Linear(8, CLASSES)

    def forward(self, inputs: Tensor) -> Tensor:
        logits: Tensor = self.out(self.layer(inputs.transpose(1, 2))[0].mean(1))
        return logits


class Wave(nn.Module):
    """WaveNet's blocks: tanh times sigmoid, dilated, with skips that are summed."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv1d(3, 8, 1)
        self.filters = nn.ModuleList(nn.Conv1d(8, 8, 2, dilation=2**k) for k in range(3))
        self.gates = nn.ModuleList(nn.Conv1d(8, 8, 2, dilation=2**k) for k in range(3))
        self.skips = nn.ModuleList(nn.Conv1d(8, 8, 1) for _ in range(3))
        self.last, self.out = nn.ReLU(), nn.Linear(8, CLASSES)

    def forward(self, inputs: Tensor) -> Tensor:
        maps, total = self.stem(inputs), torch.zeros((), dtype=inputs.dtype)
        for number, (tangent, gate, skip) in enumerate(zip(self.filters, self.gates, self.skips, strict=True)):
            before = F.pad(maps, (2**number, 0))
            made = torch.tanh(tangent(before)) * torch.sigmoid(gate(before))
            total, maps = total + skip(made), maps + made
        logits: Tensor = self.out(self.last(total).mean(2))
        return logits


class Spectrum(nn.Module):
    """A filter in the frequency domain: there, times weights, and back."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.mixed = nn.Conv1d(3, 8, 3, padding=1), nn.Conv1d(8, 8, 3, padding=1)
        self.weight = nn.Parameter(torch.randn(8, 21))
        self.last, self.out = nn.ReLU(), nn.Linear(8, CLASSES)

    def forward(self, inputs: Tensor) -> Tensor:
        frequencies = torch.fft.rfft(F.relu(self.stem(inputs)), dim=2)
        maps = self.last(self.mixed(torch.fft.irfft(frequencies * self.weight, n=inputs.shape[2], dim=2)))
        logits: Tensor = self.out(maps.mean(2))
        return logits


class Strength(nn.Module):
    """The absolute values of a short-time Fourier transform, read by convolutions."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.last, self.out = nn.Conv1d(9, 8, 3, padding=1), nn.ReLU(), nn.Linear(8, CLASSES)
        self.register_buffer("window", torch.hann_window(16, dtype=torch.float64), persistent=False)

    def forward(self, inputs: Tensor) -> Tensor:
        found = torch.stft(inputs[:, 0], 16, 4, window=self.window.to(inputs), return_complex=True).abs()
        logits: Tensor = self.out(self.last(self.conv(found)).mean(2))
        return logits


class Bands(nn.Module):
    """Convolutions over the strength of each frequency: nothing of it has a place in time."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.last, self.out = nn.Conv1d(3, 8, 3, padding=1), nn.ReLU(), nn.Linear(8, CLASSES)

    def forward(self, inputs: Tensor) -> Tensor:
        logits: Tensor = self.out(self.last(self.conv(torch.fft.rfft(inputs).abs())).mean(2))
        return logits


class Windows(nn.Module):
    """Windows that overlap, each read by a dense layer: more of them than cells of any grid."""

    def __init__(self) -> None:
        super().__init__()
        self.dense, self.out = nn.Linear(21, 8), nn.Linear(8, CLASSES)

    def forward(self, inputs: Tensor) -> Tensor:
        windows = inputs.unfold(2, 7, 3).permute(0, 2, 1, 3).flatten(2)
        logits: Tensor = self.out(F.relu(self.dense(windows)).mean(1))
        return logits


class Queries(nn.Module):
    """A learned query reads all places: attention by einsum, in heads."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv1d(3, 8, 3, padding=1), nn.ReLU())
        self.query, self.both = nn.Parameter(torch.randn(2, 4)), nn.Conv1d(8, 16, 1)
        self.out = nn.Linear(8, CLASSES)

    def forward(self, inputs: Tensor) -> Tensor:
        keys, values = self.both(self.stem(inputs)).unflatten(1, (2, 2, 4)).unbind(1)
        share = torch.einsum("hc,bhct->bht", self.query, keys).softmax(2)
        logits: Tensor = self.out(torch.einsum("bht,bhct->bhc", share, values).flatten(1))
        return logits


class Mixed(nn.Module):
    """A state space: x' = A x + B u over time with constant matrices, by matmul; all is linear but the end."""

    def __init__(self) -> None:
        super().__init__()
        self.move, self.take = nn.Parameter(torch.randn(8, 8) / 4), nn.Parameter(torch.randn(8, 3))
        self.last, self.out = nn.ReLU(), nn.Linear(8, CLASSES)

    def forward(self, inputs: Tensor) -> Tensor:
        state = inputs.new_zeros(len(inputs), 8)
        states = []
        for value in inputs.unbind(-1):
            state = state @ self.move.T + value @ self.take.mT
            states.append(state)
        logits: Tensor = self.out(self.last(torch.stack(states, 2)).amax(2))
        return logits


class Remembering(nn.Module):
    """A convolutional LSTM over the pictures of a film."""

    def __init__(self) -> None:
        super().__init__()
        self.gates, self.out = nn.Conv2d(1 + 4, 16, 3, padding=1), nn.Linear(4, CLASSES)

    def forward(self, inputs: Tensor) -> Tensor:
        state = inputs.new_zeros(len(inputs), 4, *inputs.shape[3:])
        memory = state
        for picture in inputs.unbind(2):
            take, keep, give, new = self.gates(torch.cat([picture, state], 1)).split(4, 1)
            memory = keep.sigmoid() * memory + take.sigmoid() * new.tanh()
            state = give.sigmoid() * memory.tanh()
        logits: Tensor = self.out(state.mean((2, 3)))
        return logits


def grouped_volumes() -> nn.Module:
    """Grouped 3-D convolutions, group norms, an average pool, dilations."""
    layers = [
        nn.Conv3d(2, 8, 3, padding=1, groups=2),
        nn.GroupNorm(4, 8),
        nn.ReLU(),
        nn.AvgPool3d(2),
        nn.Conv3d(8, 8, 3, padding=2, dilation=2, groups=8),
        nn.BatchNorm3d(8),
        nn.ReLU(True),
    ]
    return Cut(nn.Sequential(*layers), nn.Sequential(nn.AdaptiveAvgPool3d(1), nn.Flatten(), nn.Linear(8, CLASSES)))


def causal() -> nn.Module:
    """Padding on one side only, strides and a learned up-sampling."""
    layers = [
        nn.ConstantPad1d((4, 0), 0.5),
        nn.Conv1d(3, 8, 5, stride=2),
        nn.PReLU(),
        nn.ConvTranspose1d(8, 8, 4, stride=2),
        nn.ReflectionPad1d(1),
        nn.Conv1d(8, 8, 3),
        nn.ReLU(),
    ]
    return Cut(nn.Sequential(*layers), signal_end(8))
