"""A cross-section of the zoo, and that its page is about the same networks; `make zoo` runs all of it."""

from __future__ import annotations

import pytest

from zoo import matrix
from zoo.cells import cells
from zoo.identities import FAMILIES, IDENTITIES
from zoo.kinds import Network
from zoo.networks import NETWORKS

QUICK = [network for network in NETWORKS if network.quick]


@pytest.mark.parametrize("network", QUICK, ids=[network.name for network in QUICK])
def test_every_method_is_right_or_refuses(network: Network) -> None:
    """References: those of each identity. What a method does must also be what the table says."""
    surprises = [cell for cell in cells(network) if cell.surprising]
    assert not surprises, "\n".join(f"{c.identity}: {c.found}, not {c.expected}. {c.words}" for c in surprises)


def test_the_zoo_is_wide() -> None:
    assert len(NETWORKS) >= 60
    assert len({network.family for network in NETWORKS}) >= 12
    assert len({network.name for network in NETWORKS}) == len(NETWORKS)


def test_the_table_names_families_and_identities_only() -> None:
    known = {*FAMILIES, *(identity.name for identity in IDENTITIES)}
    for network in NETWORKS:
        assert {*network.refuses, *network.not_run} <= known, network.name


def test_the_page_has_the_same_networks() -> None:
    assert matrix.written() == [network.name for network in NETWORKS], "make zoo writes the page"
