"""Our explainers where other libraries ask for one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from heatproof.api import explain
from heatproof.engine.arguments import AnyExplainer
from heatproof.explainers.spec import make_explainer
from heatproof.lazy import np, torch
from heatproof.pooling import pool


def explain_func(
    explainer: AnyExplainer, pooling: str | None = None, seed: int = 0, **parameters: Any
) -> Callable[..., np.ndarray[Any, Any]]:
    """An explainer as Quantus' `explain_func`: `quantus.MaxSensitivity()(..., explain_func=explain_func("rise"))`.

    Relevance has the shape of the inputs; with a `pooling` it is a heatmap (cases, 1, *space) without negative values.
    """
    made = make_explainer(explainer, **parameters)

    def explain_arrays(model: torch.nn.Module, inputs: Any, targets: Any, **_options: Any) -> np.ndarray[Any, Any]:
        given = torch.as_tensor(np.asarray(inputs))
        found = explain(model, given, made, target=torch.as_tensor(np.asarray(targets)).long(), seed=seed)
        found = found.expand_as(given) if pooling is None else pool(found, pooling)[:, None]
        array: np.ndarray[Any, Any] = found.cpu().numpy()
        return array

    return explain_arrays
