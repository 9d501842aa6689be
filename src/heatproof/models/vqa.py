"""What the CLEVR-XAI benchmark needs of a network that answers questions about pictures."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from heatproof.devices import seeded
from heatproof.errors import HeatproofError, unknown_name
from heatproof.models import networks
from heatproof.seeds import derive_seed


@dataclass(frozen=True, eq=False)
class Vqa:
    """A network `module(pictures, question_tokens) -> logits`, and how to talk to it.

    module   takes pictures (B, 3, size, size) in [0, 1] and tokens (B, L)
    encode   the tokens (1, L) of a question's text; an unknown word is an error
    answers  the answer of each logit, as words: "red", "3", "yes"
    relus    the same function in a quicker form, where there is one, with the ReLUs but not all linear layers of the
             module: for methods that change how gradients pass ReLUs
    fast     one without either: for methods that look at values and gradients only
    at_once  questions that are answered together
    """

    name: str
    module: nn.Module
    encode: Callable[[str], Tensor]
    answers: tuple[str, ...]
    size: int = 128
    relus: nn.Module | None = None
    fast: nn.Module | None = None
    at_once: int = 8

    def form(self, looks_at: str) -> nn.Module:
        """The quickest form of the network for an explainer that looks at this of it."""
        found = {"values": self.fast or self.relus, "relus": self.relus}.get(looks_at)
        return found or self.module


def at_rest(network: Vqa) -> Vqa:
    """The network on the CPU, in all its forms."""
    relus, fast = (None if form is None else networks.at_rest(form) for form in (network.relus, network.fast))
    return replace(network, module=networks.at_rest(network.module), relus=relus, fast=fast)


def with_random_weights(network: Vqa, seed: int) -> Vqa:
    """The same network before it learned anything."""
    modules = [form for form in (network.module, network.relus, network.fast) if form is not None]
    fresh = [copy.deepcopy(form) for form in modules]
    for form in fresh:
        with seeded(derive_seed(seed, "weights")):
            for part in form.modules():
                if callable(reset := getattr(part, "reset_parameters", None)):
                    reset()
    found = dict(zip(map(id, modules), fresh, strict=True))
    module, relus, fast = (found.get(id(form)) for form in (network.module, network.relus, network.fast))
    assert module is not None
    return replace(network, name=f"{network.name}, untrained", module=module, relus=relus, fast=fast)


def film_network(path: Path | None = None) -> Vqa:
    """The small network for simple questions: the one that ships, or what `heatproof train vqa` wrote."""
    from heatproof.models.film_network import load_film_network
    from heatproof.models.relation_network import answers, encode

    return Vqa("film_vqa", load_film_network(path), encode, tuple(answers))


def scene_logic_network(path: Path | None = None, softness: float | None = None) -> Vqa:
    """The network for all questions: the one that ships, or what `heatproof train scene-logic` wrote."""
    from heatproof.models.relation_network import answers
    from heatproof.models.scene_logic import SOFTNESS, load_scene_logic
    from heatproof.models.scene_steps import encode

    name = "scene_logic" if softness is None else f"scene_logic:softness={softness:g}"
    forms = [load_scene_logic(path, SOFTNESS if softness is None else softness, lean) for lean in (False, True)]
    return Vqa(name, forms[0], encode, tuple(answers), fast=forms[1], at_once=64)


def public_relation_network(path: object) -> Vqa:
    """The Relation Network with its public checkpoint."""
    from heatproof.models.relation_network import RelationNetwork, answers, encode, load_public_checkpoint

    module = load_public_checkpoint(Path(str(path)))
    relus, fast = RelationNetwork(factorised=True).eval(), RelationNetwork(lean=True).eval()
    for form in (relus, fast):
        form.load_state_dict(module.state_dict())
    return Vqa("relation_network", module, encode, tuple(answers), relus=relus, fast=fast)


def relation_network(path: Path | None) -> Vqa:
    """The Relation Network: the public checkpoint, or what `heatproof train relation-network` wrote."""
    if path is None:
        raise HeatproofError("the Relation Network does not ship; give its file of weights.")
    return trained_relation_network(path) if path.suffix == ".npz" else public_relation_network(path)


def trained_relation_network(path: Path) -> Vqa:
    """The Relation Network that `heatproof train relation-network` makes."""
    from heatproof.models.poster_network import PosterNetwork, encode, load_poster_network
    from heatproof.models.relation_network import answers

    module = load_poster_network(path)
    forms = PosterNetwork(factorised=True).eval(), PosterNetwork(lean=True).eval()
    for form in forms:
        form.load_state_dict(module.state_dict())
    return Vqa("poster_network", module, encode, tuple(answers), relus=forms[0], fast=forms[1])


NAMED: dict[str, Callable[..., Vqa]] = {
    "scene_logic": scene_logic_network,
    "film_vqa": film_network,
    "relation-network": relation_network,
}
"""Networks that are known by name; each takes a file of weights."""


def is_named(model: object) -> bool:
    """Whether a model is the name of one of ours, with or without parameters."""
    return isinstance(model, str) and not (":" in model and model.partition(":")[0] not in NAMED)


def named_network(name: str, weights: Path | None = None) -> Vqa:
    """One of ours by its name; scene_logic:softness=2 has a parameter."""
    word, colon, rest = name.partition(":")
    if word not in NAMED:
        raise unknown_name("network for questions", word, NAMED)
    return NAMED[word](weights, **(parameters(name, rest) if colon else {}))


def parameters(name: str, text: str) -> dict[str, Any]:
    """The one parameter that there is."""
    key, _, value = text.partition("=")
    try:
        if name.startswith("scene_logic:") and key == "softness":
            return {"softness": float(value)}
    except ValueError:
        pass
    raise HeatproofError(f"cannot read {name!r}; write scene_logic:softness=2, or the name of a network alone.")
