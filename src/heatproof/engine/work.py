"""What happens in a unit of work, wherever it runs."""

from __future__ import annotations

import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from heatproof.benchmarks.base import Benchmark
from heatproof.cases import Batch
from heatproof.engine.plan import Unit
from heatproof.engine.store import Store
from heatproof.errors import HeatproofError
from heatproof.lazy import np, pl, torch
from heatproof.seeds import CaseRandom


def do_unit(benchmark: Benchmark, unit: Unit, store: Store, seed: int, batch_size: int, keep_all: bool) -> None:
    """Compute one unit and store its part; on failure store why."""
    try:
        rows, heatmaps = compute(benchmark, unit, seed, batch_size, keep_all)
    except Exception as problem:
        message = str(problem) if isinstance(problem, HeatproofError) else f"{type(problem).__name__}: {problem}"
        store.write_failure(unit, message, traceback.format_exc())
        return
    if len(heatmaps["ids"]):
        store.write_heatmaps(unit, heatmaps)
    store.write_part(unit, rows)


def compute(
    benchmark: Benchmark, unit: Unit, seed: int, batch_size: int, keep_all: bool
) -> tuple[pl.DataFrame, dict[str, np.ndarray[Any, Any]]]:
    """The score rows of a unit, and the heatmaps to keep."""
    batch = benchmark.load(unit.chunk)
    model = benchmark.model_to_explain(unit.chunk, unit.explainer)
    shown = replace(batch, inputs=batch.inputs.clone())  # an explainer that changes its inputs must not change scores
    rng = CaseRandom(seed, unit.explainer.name or unit.explainer.label)
    start = time.perf_counter()
    with counted_passes(model) as passes:
        relevance = torch.cat(
            [unit.explainer(model, shown[i : i + batch_size], rng) for i in range(0, len(batch), batch_size)]
        )
    seconds = time.perf_counter() - start
    cost = {"seconds": seconds / len(batch), "passes": passes[0] / len(batch)}
    scores = benchmark.score(batch, relevance, model)
    rows = pl.concat([scores, cost_rows(batch, cost)], how="diagonal").with_columns(
        model=pl.lit(unit.chunk.model), explainer=pl.lit(unit.explainer.label), target=pl.lit(unit.target)
    )
    examples = benchmark.examples()
    kept = [i for i, case in enumerate(batch.ids) if keep_all or case in examples]
    heatmaps = {"ids": np.asarray([batch.ids[i] for i in kept]), "relevance": relevance[kept].cpu().numpy()}
    return rows, heatmaps


def cost_rows(batch: Batch, cost: dict[str, float]) -> pl.DataFrame:
    """What explaining cost per case, as rows like any score."""
    return pl.concat(
        [
            pl.DataFrame({"case": list(batch.ids), "metric": name, "ground_truth": "", "pooling": "", "value": value})
            for name, value in cost.items()
        ]
    )


@contextmanager
def counted_passes(model: torch.nn.Module) -> Iterator[list[int]]:
    """Counts rows that go forward through the model, and backward from its outputs."""
    passes = [0]

    def forward(_module: torch.nn.Module, _args: Any, output: Any) -> None:
        rows = len(output)
        passes[0] += rows
        if output.requires_grad:
            output.register_hook(lambda _gradient: backward(rows))

    def backward(rows: int) -> None:
        passes[0] += rows

    hook = model.register_forward_hook(forward)
    try:
        yield passes
    finally:
        hook.remove()
