"""Benchmarks: each reads top-down like the paper that it implements."""

from heatproof.benchmarks import clevr_removal, clevr_twins, clevr_xai, focus, masks, svea, svea_removal
from heatproof.benchmarks.base import Benchmark, benchmarks, register_benchmark

__all__ = [
    "Benchmark",
    "benchmarks",
    "clevr_removal",
    "clevr_twins",
    "clevr_xai",
    "focus",
    "masks",
    "register_benchmark",
    "svea",
    "svea_removal",
]
