"""What if it were not there: how much each object matters, found by taking it out of the scene."""

from heatproof.benchmarks.clevr_removal.benchmark import ClevrRemoval

__all__ = ["ClevrRemoval"]
