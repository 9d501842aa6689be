"""A benchmark: a recipe with options, and what it opens into. Here the truth is known by construction.

Signals are noise. The network compares the sums of their two halves, so that each class is spoken for by one half only:
all relevance for a class belongs there.
"""

from dataclasses import dataclass

import torch

import heatproof as hp

LENGTH = 30


def halves(target: torch.Tensor) -> torch.Tensor:
    """The half of each signal that its class looks at (B, LENGTH)."""
    second = torch.arange(LENGTH) >= LENGTH // 2
    return torch.where(target[:, None] == 1, second, ~second)


class OpenedHalves(hp.Opened):
    def load(self, chunk):
        generator = torch.Generator().manual_seed(self.settings["seed"])
        inputs = torch.rand(self.counts[""], 1, LENGTH, generator=generator)
        target = torch.arange(len(inputs)) % 2
        names = tuple(f"signal-{number}" for number in range(len(inputs)))
        masks = {"half": halves(target)}
        return hp.Batch(inputs, target, names, masks=masks)[int(chunk.name) :][: chunk.cases]

    def model(self, name):
        return torch.nn.Sequential(torch.nn.AdaptiveAvgPool1d(2), torch.nn.Flatten())

    def score(self, batch, relevance, model):
        heatmap = hp.pool(relevance, "sum_abs")
        on_half = (heatmap * batch.masks["half"]).sum(1) / heatmap.sum(1)
        return hp.score_rows(batch, {("mass_accuracy", "half", "sum_abs"): on_half})


@dataclass(frozen=True, kw_only=True)
class Halves(hp.Benchmark):
    """Noise, and a network that compares its halves: the right half is known.

    Example: heatproof run halves --signals 50
    """

    title, paper, metrics = "Halves of signals", "", ("mass_accuracy",)
    quantities = ("logit",)  # what raises one class's probability lowers the other's, so both halves speak for that
    default_explainers = ("gradient", "squared_gradient", "random", "oracle")
    signals: int = hp.option(20, "How many signals.")

    def open(self, seed, progress=None):
        examples = {"signal-0": "first half", "signal-1": "second half"}
        story = hp.Story(self.title, "", "noise", hp.metric_words(self.metrics), examples=examples)
        facts = {"settings": {"seed": seed, "signals": self.signals}, "fingerprint": f"halves-{seed}-{self.signals}"}
        return OpenedHalves(story=story, models={"net": "1"}, counts={"": self.signals}, per_chunk=10, **facts)
