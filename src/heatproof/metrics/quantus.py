"""Metrics of Quantus by the names they have there, on our cases: `quantus:Sparseness`, `quantus:AUC:abs=True`.

They see what ours see: a pooled heatmap of one case at a time, its mask, and the model where they ask for one. Those
that explain again (robustness, randomisation) or need signed relevance (axioms) are refused. A heatmap that is all
zero, NaN or infinite and an empty mask are undefined here as everywhere, whatever Quantus would say.
"""

from __future__ import annotations

import contextlib
import importlib
import inspect
import math
import random
import warnings
from collections.abc import Callable, Iterator
from typing import Any

from heatproof.cases import Batch
from heatproof.errors import HeatproofError, unknown_name
from heatproof.lazy import np, torch
from heatproof.metrics.base import Metric
from heatproof.seeds import derive_seed
from heatproof.specs import read_literal, split_parameters

NEEDS: dict[str, tuple[str, ...]] = {"Localisation": ("mask",), "Complexity": (), "Faithfulness": ("model",)}
"""What metrics of a category are called with beside the heatmap."""
REFUSED = {
    "Robustness": "explains changed inputs again, and a metric sees finished heatmaps only",
    "Randomisation": "explains a changed model again, and a metric sees finished heatmaps only",
    "Axiomatic": "needs relevance with its sign, and metrics see pooled heatmaps",
}
QUIET = {"disable_warnings": True, "display_progressbar": False, "return_aggregate": False}


def quantus_metric(spec: str) -> Metric:
    """The metric that `quantus:NAME` or `quantus:NAME:key=value,...` names."""
    name, assignments = split_parameters(spec)
    word = name.partition(":")[2]
    kind = class_of(word)
    options = {key: read_literal(value) for key, value in assignments.items()}
    taken = inspect.signature(kind.__init__).parameters
    for key in options:
        if key not in taken:
            raise unknown_name(
                f"argument of {name}", key, [known for known in taken if known not in ("self", "kwargs")]
            )
    if "return_auc_per_sample" in taken:  # else a curve per case
        options.setdefault("return_auc_per_sample", True)
    category = str(kind.evaluation_category.value)
    if category not in NEEDS:
        raise HeatproofError(f"{name} cannot score heatmaps: it {REFUSED.get(category, f'is one of {category}')}.")
    summary = (inspect.getdoc(kind) or word).split("\n")[0]
    function = scorer(spec, kind, options, NEEDS[category])
    function.__doc__ = f"{summary} (Quantus)"
    return Metric(
        name=spec,
        title=f"{word} (Quantus)",
        function=function,
        higher_is_better=kind.score_direction.value != "lower",
        needs=NEEDS[category],
        paper="Hedström et al. 2023",
        range=(-math.inf, math.inf),
    )


def class_of(name: str) -> Any:
    """Quantus' class of that name."""
    try:
        quantus = importlib.import_module("quantus")
    except (ImportError, RuntimeError) as problem:  # torchvision, which it imports, raises the latter
        raise HeatproofError(
            f"quantus cannot be imported ({problem}); install it: pip install heatproof[quantus]."
        ) from problem
    known = {
        key: cls
        for key, cls in vars(quantus).items()
        if isinstance(cls, type) and hasattr(cls, "evaluation_category") and not inspect.isabstract(cls)
    }
    if name not in known:
        raise unknown_name("metric of quantus", name, known)
    return known[name]


def scorer(spec: str, kind: Any, options: dict[str, Any], needs: tuple[str, ...]) -> Callable[..., torch.Tensor]:
    """A function as our metrics are: heatmaps and what it needs in, one value per case out."""

    def values(heatmap: torch.Tensor, mask: torch.Tensor | None, model: Any, batch: Batch | None) -> torch.Tensor:
        found = torch.full((len(heatmap),), torch.nan, dtype=torch.float64)
        flat = heatmap.flatten(1)
        usable = flat.isfinite().all(1) & (flat != 0).any(1)
        if mask is not None:
            usable &= mask.flatten(1).any(1)
        for case in usable.nonzero()[:, 0].tolist():
            one = None if batch is None else batch[case : case + 1]
            seen = None if mask is None else mask[case : case + 1]
            found[case] = ask(spec, kind, options, heatmap[case : case + 1], seen, model, one)
        return found

    if needs == ("mask",):
        return lambda heatmap, mask: values(heatmap, mask, None, None)
    if needs == ("model",):
        return lambda heatmap, model, batch: values(heatmap, None, model, batch)
    return lambda heatmap: values(heatmap, None, None, None)


def ask(
    spec: str,
    kind: Any,
    options: dict[str, Any],
    heatmap: torch.Tensor,
    mask: torch.Tensor | None,
    model: Any,
    batch: Batch | None,
) -> float:
    """What Quantus says of a single case; what it draws at random comes from a seed of the metric and the case."""
    relevance = heatmap[:, None].double().cpu().numpy()
    inputs = relevance if batch is None else batch.inputs.cpu().numpy()
    with seeded(derive_seed(0, spec, "" if batch is None else batch.ids[0])), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            scores = kind(**QUIET | options)(
                model=torch.nn.Identity() if batch is None else WithContext(model, batch.context),
                x_batch=inputs,
                y_batch=np.zeros(1, dtype=int) if batch is None else batch.target.cpu().numpy(),
                a_batch=relevance,
                s_batch=None if mask is None else mask[:, None].cpu().numpy(),
                channel_first=True,
                device="cpu" if batch is None else str(batch.inputs.device),
            )
        except Exception as problem:  # whatever it raises about such cases
            raise HeatproofError(f"{spec} fails: {type(problem).__name__}: {problem}") from problem
    values = np.asarray(scores, dtype=np.float64).ravel()
    if values.size != 1:
        raise HeatproofError(f"{spec} gives {values.size} values per case; a metric gives one.")
    return float(values[0]) if np.isfinite(values[0]) else math.nan


def WithContext(model: torch.nn.Module, context: tuple[torch.Tensor, ...]) -> torch.nn.Module:  # noqa: N802
    """The model as a function of its inputs alone; all rows have the context of the one case."""

    class Asked(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, inputs: torch.Tensor) -> Any:
            inputs = inputs.to(next((p.dtype for p in model.parameters()), inputs.dtype))
            return model(inputs, *(tensor.expand(len(inputs), *tensor.shape[1:]) for tensor in context))

    return Asked().eval()


@contextlib.contextmanager
def seeded(seed: int) -> Iterator[None]:
    """NumPy's and Python's random numbers from this seed, and afterwards as they were."""
    states = np.random.get_state(), random.getstate()
    np.random.seed(seed % 2**32)
    random.seed(seed)
    try:
        yield
    finally:
        np.random.set_state(states[0])
        random.setstate(states[1])
