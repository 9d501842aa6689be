"""One cell of the matrix: what an identity finds on a network."""

from __future__ import annotations

import time
import warnings
from dataclasses import dataclass

import torch

from heatproof.errors import HeatproofError
from zoo.identities import IDENTITIES, Identity, Subject
from zoo.kinds import Network
from zoo.networks import NETWORKS

RIGHT, REFUSED, WRONG, TRACEBACK, NOT_RUN = "right", "refuses", "wrong", "traceback", "not run"


@dataclass(frozen=True)
class Cell:
    """What was found, what the table says must be, and the words of a refusal or of what is off."""

    network: str
    identity: str
    family: str
    found: str
    expected: str
    words: str = ""
    seconds: float = 0.0

    @property
    def surprising(self) -> bool:
        return self.found != self.expected


def cells(network: Network) -> list[Cell]:
    """All identities on one network."""
    subject = Subject(network)
    return [cell(subject, identity) for identity in IDENTITIES]


def of_number(number: int) -> list[Cell]:
    """All identities on the network of that number; a process of its own works on one core."""
    torch.set_num_threads(1)
    return cells(NETWORKS[number])


def cell(subject: Subject, identity: Identity) -> Cell:
    network = subject.network
    expected = expectation(network, identity)
    start = time.process_time()
    if expected == NOT_RUN:
        found, words = NOT_RUN, ""
    else:
        found, words = outcome(subject, identity)
    seconds = time.process_time() - start
    return Cell(network.name, identity.name, identity.family, found, expected, words, seconds)


def outcome(subject: Subject, identity: Identity) -> tuple[str, str]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            identity.check(subject)
    except HeatproofError as refusal:
        return REFUSED, str(refusal)
    except AssertionError as problem:
        return WRONG, str(problem)
    except Exception as problem:
        return TRACEBACK, f"{type(problem).__name__}: {str(problem).splitlines()[0] if str(problem) else ''}"
    return RIGHT, ""


def expectation(network: Network, identity: Identity) -> str:
    """What the table says: a family's line holds for its identities, unless they have one of their own."""
    for key in (identity.name, identity.family):
        if key in network.not_run:
            return NOT_RUN
        if key in network.refuses:
            return REFUSED if network.refuses[key] else RIGHT
    if network.layer is None and identity.name in ("automatic layer", "named layer", "guided maps", "masks"):
        return REFUSED
    if identity.family == "attention" and not network.attends:
        return REFUSED
    return RIGHT
