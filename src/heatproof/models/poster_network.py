"""The Relation Network that CLEVR-XAI's authors probably explained, without its weights, which are not published.

The sizes are those of a network of the same institute that is judged on CLEVR-XAI: convolutions without padding, batch
norm behind the ReLU, 7x7 cells. That it is the poster's is inferred. `heatproof train relation-network` trains it.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from pathlib import Path

import torch
from torch import Tensor, nn

from heatproof.errors import HeatproofError
from heatproof.models import relation_network
from heatproof.models.relation_network import (
    CHANNELS,
    QUESTION_LENGTH,
    RelationNetwork,
    answers,
    pair_layers,
    places,
)
from heatproof.models.weights import load_weights

GRID = 7
words = [word for word in relation_network.words if word.isalpha()]
"""The word with token k is words[k - 1]; punctuation is none. Token 0 is the padding, the last any other word."""
VOCABULARY = len(words) + 2
UNKNOWN = VOCABULARY - 1
_tokens = {word: token for token, word in enumerate(words, start=1)}


class PosterNetwork(RelationNetwork):
    """Pictures (B, 3, 128, 128) in [0, 1] and question tokens (B, L) from `encode` to logits (B, 28).

    Four convolutions of stride 2 without padding, each with ReLU and then batch norm, make 7x7 cells of 24 channels;
    the last row and column of the picture are never seen. `width` is that of g and f. All else is as in the public
    network.
    """

    def __init__(self, factorised: bool = False, lean: bool = False, width: int = 256) -> None:
        super().__init__(factorised, lean)
        self.convs = nn.Sequential()
        for k in range(1, 5):
            self.convs.add_module(f"conv{k}", nn.Conv2d(3 if k == 1 else CHANNELS, CHANNELS, 3, stride=2))
            self.convs.add_module(f"relu{k}", nn.ReLU())
            self.convs.add_module(f"bn{k}", nn.BatchNorm2d(CHANNELS))
        self.embedding = nn.Embedding(VOCABULARY, 32, padding_idx=0)
        self.g = pair_layers(2 * self.object_size + 128, width)
        self.f = nn.Sequential(
            OrderedDict(
                linear1=nn.Linear(width, width),
                relu1=nn.ReLU(),
                linear2=nn.Linear(width, width),
                relu2=nn.ReLU(),
                dropout=nn.Dropout(),
                linear3=nn.Linear(width, len(answers)),
            )
        )
        self.cells = GRID * GRID
        steps = torch.arange(GRID, dtype=torch.float32)
        spread = steps.std(correction=0)
        self.register_buffer("coordinates", places((steps - steps.mean()) / spread), persistent=False)


def encode(question: str, length: int = QUESTION_LENGTH) -> Tensor:
    """Tokens (1, length) of a question: small letters, no punctuation, in the given order, zeros in front.

    With the zeros in front the last state that the LSTM gives is that after the last word.
    """
    found = re.sub(r"[^\w\s]", " ", question).lower().split()
    if not found:
        raise HeatproofError("the question has no words.")
    return torch.tensor([[0] * (length - len(found)) + [_tokens.get(word, UNKNOWN) for word in found]])


def load_poster_network(path: Path) -> PosterNetwork:
    """The network with the weights of a file that `heatproof train relation-network` wrote, ready to answer."""
    network = PosterNetwork()
    load_weights(network, path)
    return network.eval()
