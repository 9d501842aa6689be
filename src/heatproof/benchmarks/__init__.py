"""Benchmarks: each reads top-down like the paper that it implements."""

from heatproof.benchmarks import svea
from heatproof.benchmarks.base import Benchmark, benchmarks, register_benchmark

__all__ = ["Benchmark", "benchmarks", "register_benchmark", "svea"]
