"""CLEVR-XAI (Arras, Osman and Samek 2022): questions about pictures whose answer rests on known objects."""

from heatproof.benchmarks.clevr_xai.benchmark import ClevrXai
from heatproof.benchmarks.clevr_xai.heatmaps import OpenedQuestions, open_masks
from heatproof.benchmarks.clevr_xai.kept import open_kept

__all__ = ["ClevrXai", "OpenedQuestions", "open_kept", "open_masks"]
