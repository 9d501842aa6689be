"""A benchmark in one small file: where in a signal does the relevance lie? One dimension, no masks, its own metric."""

from dataclasses import dataclass

import torch

import heatproof as hp


@hp.register_metric("lateness", title="Lateness", needs=(), paper="nobody yet")
def lateness(heatmap: torch.Tensor) -> torch.Tensor:
    """Where the relevance lies on average: 0 at the beginning of a signal, 1 at its end."""
    return (heatmap.double() * torch.linspace(0, 1, heatmap.shape[1]).double()).sum(1) / heatmap.double().sum(1)


class OpenedToy(hp.Opened):
    def load(self, chunk):
        inputs = torch.rand(self.counts[""], 1, 30, generator=torch.Generator().manual_seed(self.settings["seed"]))
        names = tuple(map(str, range(len(inputs))))
        return hp.Batch(inputs, torch.zeros(len(inputs)).long(), names)[int(chunk.name) :][: chunk.cases]

    def model(self, name):
        return torch.nn.Sequential(torch.nn.Tanh(), torch.nn.AdaptiveAvgPool1d(2), torch.nn.Flatten())

    def score(self, batch, relevance, model):
        return hp.score_rows(batch, {("lateness", "", ""): lateness(relevance.abs().sum(1))})


@hp.register_benchmark("toy")
@dataclass(frozen=True, kw_only=True)
class Toy(hp.Benchmark):
    """Toy: random signals and a network that compares their halves."""

    title, paper, metrics, default_explainers = "Toy signals", "", ("lateness",), ("gradient", "random")
    signals: int = hp.option(20, "How many signals.")

    def open(self, seed, progress=None):
        story = hp.Story(self.title, "", "noise", hp.metric_words(self.metrics), examples={"3": "three", "4": "four"})
        facts = {"settings": {"seed": seed, "signals": self.signals}, "fingerprint": f"{seed}-{self.signals}"}
        return OpenedToy(story=story, models={"net": "1"}, counts={"": self.signals}, per_chunk=8, **facts)
