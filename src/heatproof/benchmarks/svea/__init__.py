"""SVEA: regions of explanation on MNIST-1D, with a network or with heatmaps made elsewhere."""

from heatproof.benchmarks.svea.benchmark import OpenedSvea, Svea
from heatproof.benchmarks.svea.heatmaps import OpenedSignals, masked_inputs, open_signals

__all__ = ["OpenedSignals", "OpenedSvea", "Svea", "masked_inputs", "open_signals"]
