"""Twins: two networks of one architecture, of which one answers by a planted cue; both ship."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, get_args

from heatproof.models.film_network import FilmNetwork, load_film_network
from heatproof.models.weights import load_shipped

Twin = Literal["shortcut", "honest"]
TWINS: tuple[Twin, ...] = get_args(Twin)


def load_twin(twin: Twin, path: Path | None = None) -> FilmNetwork:
    """A trained twin, ready to answer: the one that ships, or what `heatproof train vqa --shortcut marker` wrote."""
    if path is not None:
        return load_film_network(path)
    network = FilmNetwork()
    load_shipped(network, f"film_marker_{twin}")
    return network.eval()
