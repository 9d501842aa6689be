"""Masks: any pictures with object masks, any picture classifier, or heatmaps made elsewhere."""

from heatproof.benchmarks.masks.benchmark import Masks, OpenedObjects

__all__ = ["Masks", "OpenedObjects"]
