"""How well classifiers of different kinds know MNIST-1D: Figure 3 of the SVEA paper."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from heatproof import mnist1d
from heatproof.harmless import csv_writer
from heatproof.lazy import np, pl
from heatproof.metrics.understandability import read_regions
from heatproof.progress import Progress, silent
from heatproof.results.statistics import mean_interval
from heatproof.workspace import write_whole

if TYPE_CHECKING:
    import torch
    from numpy.typing import NDArray

    from heatproof.mnist1d import Signals

PUBLISHED = {"linear SVM": 0.297, "CNN": 0.877}
"""What the paper says in numbers; the figure's other bars have none."""


@dataclass(frozen=True)
class Judged:
    """A classifier: its numbers to learn, its accuracy on the test signals with a 95 % interval, and what it took."""

    classifier: str
    parameters: int
    accuracy: float
    ci_low: float
    ci_high: float
    seconds: float
    paper: float | None


def judge_classifiers(seed: int = 0, out: Path | None = None, progress: Progress = silent) -> list[Judged]:
    """Logistic regression and the linear SVM on raw signals, a perceptron, a GRU and SVEA's network; classifiers.csv.

    The network is the shipped one, which was trained before; the others are trained now, from `seed`.
    """
    from heatproof.models.mnist1d_classifiers import Perceptron, Recurrent, fit
    from heatproof.models.mnist1d_cnn import trained_network

    train, test = mnist1d.published()
    linear = (train.x.shape[1] + 1) * len(np.unique(train.y))
    kinds: dict[str, Callable[[], tuple[NDArray[Any], int]]] = {
        "logistic regression": lambda: (logistic(train, test), linear),
        "linear SVM": lambda: (np.asarray(read_regions(train.x, train.y, test.x)), linear),
        "MLP": lambda: seen_by(fit(Perceptron, train, seed, progress=progress), test),
        "GRU": lambda: seen_by(fit(Recurrent, train, seed, progress=progress), test),
        "CNN": lambda: seen_by(trained_network(1), test),
    }
    found = []
    for name, classify in kinds.items():
        start = time.process_time()
        seen, parameters = classify()
        seconds = time.process_time() - start
        right = (seen == test.y).astype(np.float64)
        low, high = mean_interval(right[:, None], seed, ends=(0.0, 1.0))
        found.append(
            Judged(name, parameters, float(right.mean()), float(low[0]), float(high[0]), seconds, PUBLISHED.get(name))
        )
    if out is not None:
        write_whole(out, csv_writer(pl.DataFrame([asdict(judged) for judged in found])))
    return found


def logistic(train: Signals, test: Signals) -> NDArray[Any]:
    from sklearn.linear_model import LogisticRegression

    return np.asarray(LogisticRegression(max_iter=1000).fit(train.x, train.y).predict(test.x))


def seen_by(network: torch.nn.Module, test: Signals) -> tuple[NDArray[Any], int]:
    """The digit that a network sees in each test signal, and how many numbers it has learnt."""
    import torch

    with torch.no_grad():
        seen = network(torch.as_tensor(test.x, dtype=torch.float32).unsqueeze(1)).argmax(1).cpu().numpy()
    return seen, sum(parameter.numel() for parameter in network.parameters())
