"""What the CLEVR-XAI benchmark needs of a network that answers questions about pictures."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from torch import Tensor, nn

from heatproof.models import networks


@dataclass(frozen=True, eq=False)
class Vqa:
    """A network `module(pictures, question_tokens) -> logits`, and how to talk to it.

    module   takes pictures (B, 3, size, size) in [0, 1] and tokens (B, L)
    encode   the tokens (1, L) of a question's text; an unknown word is an error
    answers  the answer of each logit, as words: "red", "3", "yes"
    relus    the same function in a quicker form, where there is one, with the ReLUs but not all linear layers of the
             module: for methods that change how gradients pass ReLUs
    fast     one without either: for methods that look at values and gradients only
    """

    name: str
    module: nn.Module
    encode: Callable[[str], Tensor]
    answers: tuple[str, ...]
    size: int = 128
    relus: nn.Module | None = None
    fast: nn.Module | None = None

    def form(self, looks_at: str) -> nn.Module:
        """The quickest form of the network for an explainer that looks at this of it."""
        found = {"values": self.fast or self.relus, "relus": self.relus}.get(looks_at)
        return found or self.module


def at_rest(network: Vqa) -> Vqa:
    """The network on the CPU, in all its forms."""
    relus, fast = (None if form is None else networks.at_rest(form) for form in (network.relus, network.fast))
    return replace(network, module=networks.at_rest(network.module), relus=relus, fast=fast)


def shipped_network() -> Vqa:
    """The network for simple questions that ships with Heatproof."""
    from heatproof.models.film_network import load_film_network
    from heatproof.models.relation_network import answers, encode

    return Vqa("film_vqa", load_film_network(), encode, tuple(answers))


def public_relation_network(path: object) -> Vqa:
    """The Relation Network with its public checkpoint."""
    from heatproof.models.relation_network import RelationNetwork, answers, encode, load_public_checkpoint

    module = load_public_checkpoint(Path(str(path)))
    relus, fast = RelationNetwork(factorised=True).eval(), RelationNetwork(lean=True).eval()
    for form in (relus, fast):
        form.load_state_dict(module.state_dict())
    return Vqa("relation_network", module, encode, tuple(answers), relus=relus, fast=fast)


def trained_relation_network(path: Path) -> Vqa:
    """The Relation Network that `heatproof train relation-network` makes."""
    from heatproof.models.poster_network import PosterNetwork, encode, load_poster_network
    from heatproof.models.relation_network import answers

    module = load_poster_network(path)
    forms = PosterNetwork(factorised=True).eval(), PosterNetwork(lean=True).eval()
    for form in forms:
        form.load_state_dict(module.state_dict())
    return Vqa("poster_network", module, encode, tuple(answers), relus=forms[0], fast=forms[1])
