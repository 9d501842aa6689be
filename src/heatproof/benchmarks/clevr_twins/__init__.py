"""Twins: which explainers show that a network answers by a planted cue, and that its twin does not?"""

from heatproof.benchmarks.clevr_twins.benchmark import ClevrTwins

__all__ = ["ClevrTwins"]
