"""The Relation Network from pixels (Santoro et al. 2017, arXiv 1706.01427), its public checkpoint and its words.

The sizes, the place of the dropout and the treatment of questions are those of the public training code
mesnico/RelationNetworks-CLEVR, whose checkpoint answers about 93 % of CLEVR's questions.
"""

from __future__ import annotations

import json
import re
from collections import OrderedDict
from importlib import resources
from itertools import islice
from pathlib import Path
from typing import cast

import torch
from torch import Tensor, nn

from heatproof.errors import HeatproofError, unknown_name
from heatproof.models.pair_sum import pair_sum
from heatproof.models.weights import fitted, name_misfit, read_arrays

PICTURE_SIZE = 128
QUESTION_LENGTH = 45  # training padded to the longest question of 640, which is about this
GRID = 8
CHANNELS = 24

_vocabulary: dict[str, list[str]] = json.loads(
    resources.files("heatproof.models").joinpath("vocabulary.json").read_text(encoding="utf-8")
)
words: list[str] = _vocabulary["words"]
"""The word with token k is words[k - 1]; token 0 is the padding."""
answers: list[str] = _vocabulary["answers"]
"""The answer of logit k is answers[k]."""
_tokens = {word: token for token, word in enumerate(words, start=1)}


class RelationNetwork(nn.Module):
    """Pictures (B, 3, 128, 128) in [0, 1] and question tokens (B, L) from `encode` to logits (B, 28).

    Four convolutions make 8 x 8 cells of 24 channels. With its coordinates each cell is an object x_i; with q the
    LSTM's reading of the question, the logits are f(sum_ij g([x_i; x_j; q])) over all 4,096 ordered pairs.

    Two forms give the same values and gradients for less work, and read each different question of a batch once; they
    are off unless asked for. g's first layer need not see every pair, because W [x_i; x_j; q] = A x_i + B x_j + C q:
    `factorised` computes it so, without calling `g.linear1`. It is not for LRP, whose rules tell one linear layer from
    a sum of three. `lean` goes on from there and leaves out what g's ReLUs make zero; no module of g is called. It is
    not for methods that change how ReLUs work either. Where gradients of g's weights are wanted, it does not apply.
    """

    coordinates: Tensor

    def __init__(self, factorised: bool = False, lean: bool = False) -> None:
        super().__init__()
        self.factorised = factorised
        self.lean = lean
        self.convs = nn.Sequential()
        for k in range(1, 5):
            self.convs.add_module(f"conv{k}", nn.Conv2d(3 if k == 1 else CHANNELS, CHANNELS, 3, stride=2, padding=1))
            self.convs.add_module(f"bn{k}", nn.BatchNorm2d(CHANNELS))
            self.convs.add_module(f"relu{k}", nn.ReLU())
        self.embedding = nn.Embedding(len(words) + 1, 32)  # not padding_idx: the padding was trained like a word
        self.lstm = nn.LSTM(32, 128, batch_first=True)
        self.object_size = CHANNELS + 2
        self.g = pair_layers(2 * self.object_size + 128)
        self.f = nn.Sequential(
            OrderedDict(
                linear1=nn.Linear(256, 256),
                relu1=nn.ReLU(),
                linear2=nn.Linear(256, 256),
                dropout=nn.Dropout(),
                relu2=nn.ReLU(),
                linear3=nn.Linear(256, len(answers)),
            )
        )
        self.cells = GRID * GRID
        self.register_buffer("coordinates", places(torch.linspace(-4.0, 4.0, GRID)), persistent=False)

    def forward(self, pictures: Tensor, question: Tensor) -> Tensor:
        objects = self.objects(pictures)
        if not (self.factorised or self.lean):
            relations = self.g(self.pairs(objects, self.read(question))).sum((1, 2))
        else:
            # Methods ask many times about the same question: each different one is read once.
            different, place = question.unique(dim=0, return_inverse=True)
            relations = self.relate(*self.mix(objects, self.read(different)[place]))
        logits: Tensor = self.f(relations)
        return logits

    def answer(self, objects: Tensor, reading: Tensor) -> Tensor:
        """The logits from what `objects` and `read` give, without making pairs."""
        logits: Tensor = self.f(self.relate(*self.mix(objects, reading)))
        return logits

    def relate(self, first: Tensor, second: Tensor) -> Tensor:
        """g summed over all pairs (B, 256), from the two halves of its first layer."""
        learning = torch.is_grad_enabled() and any(parameter.requires_grad for parameter in self.g.parameters())
        if self.lean and not learning:
            return pair_sum(first, second, [layer for layer in islice(self.g, 1, None) if isinstance(layer, nn.Linear)])
        relations = first[:, :, None] + second[:, None]
        for layer in islice(self.g, 1, None):
            relations = layer(relations)
        return relations.sum((1, 2))

    def read(self, question: Tensor) -> Tensor:
        """The LSTM's last state (B, 128) after the question's words."""
        reading: Tensor = self.lstm(self.embedding(question))[1][0][0]
        return reading

    def objects(self, pictures: Tensor) -> Tensor:
        """The cells of the last convolution with their coordinates, (B, cells, 26)."""
        # Through one long row first: its gradient arrives in the usual memory order. That of a mere transpose does not,
        # and torch's batch norm then makes wrong gradients of it for a batch of one.
        features = self.convs(pictures).flatten(1).unflatten(1, (CHANNELS, self.cells))
        where = self.coordinates.expand_as(features[:, :2])
        return torch.cat([features, where], 1).transpose(1, 2)

    def pairs(self, objects: Tensor, reading: Tensor) -> Tensor:
        """[x_i; x_j; q] for all i and j, (B, cells, cells, 180)."""
        cells = self.cells
        first = objects[:, :, None].expand(-1, -1, cells, -1)
        second = objects[:, None, :].expand(-1, cells, -1, -1)
        return torch.cat([first, second, reading[:, None, None].expand(-1, cells, cells, -1)], 3)

    def mix(self, objects: Tensor, reading: Tensor) -> tuple[Tensor, Tensor]:
        """g's first layer without making pairs: what x_i and q add to it, and what x_j adds, (B, cells, 256) each."""
        size = self.object_size
        layer = cast(nn.Linear, self.g[0])
        first = nn.functional.linear(objects, layer.weight[:, :size])
        second = nn.functional.linear(objects, layer.weight[:, size : 2 * size])
        context = nn.functional.linear(reading, layer.weight[:, 2 * size :], layer.bias)
        return first + context[:, None], second


def pair_layers(size: int, width: int = 256) -> nn.Sequential:
    """g: four layers with ReLUs, for pairs of this size."""
    layers = nn.Sequential()
    for k in range(1, 5):
        layers.add_module(f"linear{k}", nn.Linear(size if k == 1 else width, width))
        layers.add_module(f"relu{k}", nn.ReLU())
    return layers


def places(steps: Tensor) -> Tensor:
    """The coordinates of all cells of a square grid, x first: (2, cells)."""
    grid = len(steps)
    across, down = steps.expand(grid, grid), steps[:, None].expand(grid, grid)
    return torch.stack([across, down]).flatten(1)


def encode(question: str, length: int = QUESTION_LENGTH) -> Tensor:
    """Tokens (1, length) of a question: last word first, zeros in front; longer questions are not cut.

    Both rules are how the network was trained: over all kinds of questions it loses 8 points without the zeros and 65
    in the usual order.
    """
    tokens = []
    for word in re.sub(r"([.,;:!?()])", r" \1 ", question).lower().split():
        if word not in _tokens:
            raise unknown_name("word", word, words)
        tokens.append(_tokens[word])
    if not tokens:
        raise HeatproofError("the question has no words.")
    return torch.tensor([[0] * (length - len(tokens)) + tokens[::-1]])


def load_public_checkpoint(path: Path) -> RelationNetwork:
    """The network of `original_fp_epoch_493.pth` of mesnico/RelationNetworks-CLEVR, ready to answer.

    Weight decay has left up to 58 % of a layer's weights denormal, which changes no answer and makes processors ten
    times slower or more: these become zero, so that no thread or process needs a flag of its own.
    """
    arrays = {name.removeprefix("module."): array for name, array in read_arrays(path).items()}
    network = RelationNetwork()
    state = network.state_dict()
    sources = {_public_name(name): name for name in state if not name.endswith("num_batches_tracked")}
    if misfit := name_misfit(sources, arrays):
        raise HeatproofError(f"{path} is not the public checkpoint of the Relation Network: it {misfit}.")
    for source, name in sources.items():
        state[name] = flush_denormals(fitted(path, source, arrays[source], state[name], "needed is"))
    network.load_state_dict(state)
    return network.eval()


def flush_denormals(weights: Tensor) -> Tensor:
    """The weights, with zeros for those nearer to zero than the smallest normal number."""
    return torch.where(weights.abs() < torch.finfo(weights.dtype).tiny, 0.0, weights)


def _public_name(name: str) -> str:
    """What the public checkpoint calls one of our parameters."""
    room, _, rest = name.partition(".")
    number = "".join(filter(str.isdigit, rest.partition(".")[0]))
    kind = rest.rpartition(".")[2]
    if room == "convs":
        return f"conv.{'conv' if rest.startswith('conv') else 'batchNorm'}{number}.{kind}"
    if room == "g":
        return f"rl.g_layers.{int(number) - 1}.{kind}"
    if room == "f":
        return f"rl.f_fc{number}.{kind}"
    return f"text.{'wembedding' if room == 'embedding' else room}.{rest}"
