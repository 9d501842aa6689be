"""A benchmark in one small file: where in a signal does the relevance lie? One dimension, no masks, its own metric."""

from dataclasses import dataclass

import torch

from heatproof import Batch, Benchmark, Opened, Story, register_benchmark, register_metric
from heatproof.benchmarks.base import metric_words, option, score_rows


@register_metric("lateness", title="Lateness", needs=(), paper="nobody yet")
def lateness(heatmap: torch.Tensor) -> torch.Tensor:
    """Where the relevance lies on average: 0 at the beginning of a signal, 1 at its end."""
    return (heatmap.double() * torch.linspace(0, 1, heatmap.shape[1]).double()).sum(1) / heatmap.double().sum(1)


@register_benchmark("toy")
@dataclass(frozen=True, kw_only=True)
class Toy(Benchmark):
    """Toy: random signals and a random network."""

    title, paper, metrics, default_explainers = "Toy signals", "", ("lateness",), ("gradient", "random")
    signals: int = option(20, "How many signals.")

    def open(self, seed, progress=None):
        inputs = torch.rand(self.signals, 1, 30, generator=torch.Generator().manual_seed(seed))
        story = Story(self.title, self.paper, "noise", metric_words(self.metrics), examples={"3": "three", "4": "four"})
        plain = {"settings": {"signals": self.signals}, "fingerprint": f"{seed}-{self.signals}", "models": {"net": "1"}}
        return OpenedToy(story=story, counts={"": self.signals}, per_chunk=8, inputs=inputs, **plain)


@dataclass(frozen=True, eq=False, kw_only=True)
class OpenedToy(Opened):
    inputs: torch.Tensor

    def load(self, chunk):
        cases = range(int(chunk.name), int(chunk.name) + chunk.cases)
        return Batch(self.inputs[list(cases)], torch.zeros(len(cases), dtype=torch.long), tuple(map(str, cases)))

    def model(self, name):
        network = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(30, 2, bias=False))
        network[1].weight.data = torch.linspace(-1, 1, 60).view(2, 30)
        return network

    def score(self, batch, relevance, model):
        return score_rows(batch, {("lateness", "", ""): lateness(relevance.abs().sum(1))})
