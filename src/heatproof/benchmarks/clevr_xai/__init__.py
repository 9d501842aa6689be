"""CLEVR-XAI (Arras, Osman and Samek 2022): questions about pictures whose answer rests on known objects."""

from heatproof.benchmarks.clevr_xai.benchmark import ClevrXai
from heatproof.benchmarks.clevr_xai.heatmaps import open_masks

__all__ = ["ClevrXai", "open_masks"]
