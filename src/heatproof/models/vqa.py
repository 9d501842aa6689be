"""What the CLEVR-XAI benchmark needs of a network that answers questions about pictures."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor, nn


@dataclass(frozen=True, eq=False)
class Vqa:
    """A network `module(pictures, question_tokens) -> logits`, and how to talk to it.

    module   takes pictures (B, 3, size, size) in [0, 1] and tokens (B, L)
    encode   the tokens (1, L) of a question's text; an unknown word is an error
    answers  the answer of each logit, as words: "red", "3", "yes"
    fast     the same function in a form that is quicker to differentiate, where there is one; for methods that look
             at values and gradients only, not for those that treat single layers by rules of their own
    """

    name: str
    module: nn.Module
    encode: Callable[[str], Tensor]
    answers: tuple[str, ...]
    size: int = 128
    fast: nn.Module | None = None


def shipped_network() -> Vqa:
    """The network for simple questions that ships with Heatproof."""
    from heatproof.models.film_network import load_film_network
    from heatproof.models.relation_network import answers, encode

    return Vqa("film_vqa", load_film_network(), encode, tuple(answers))


def public_relation_network(path: object) -> Vqa:
    """The Relation Network with its public checkpoint."""
    from pathlib import Path

    from heatproof.models.relation_network import RelationNetwork, answers, encode, load_public_checkpoint

    module = load_public_checkpoint(Path(str(path)))
    fast = RelationNetwork(factorised=True).eval()
    fast.load_state_dict(module.state_dict())
    return Vqa("relation_network", module, encode, tuple(answers), fast=fast)
