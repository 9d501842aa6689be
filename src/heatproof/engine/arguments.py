"""What a run's arguments mean: benchmark, explainers, and what is explained and scored."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, TypeAlias, get_args

from heatproof.benchmarks import Benchmark, benchmarks
from heatproof.benchmarks.base import Opened
from heatproof.engine.plan import for_quantities
from heatproof.engine.sources import Explaining
from heatproof.engine.sweeps import swept
from heatproof.errors import HeatproofError, require_whole, unknown_name
from heatproof.explainers.base import Explainer, Quantity, Target
from heatproof.explainers.spec import make_explainers
from heatproof.metrics.base import Metric

AnyExplainer: TypeAlias = "str | Explainer | type[Explainer] | Callable[..., Any]"


def prepare_run(
    benchmark: str | Benchmark,
    explainers: str | Iterable[AnyExplainer] | None,
    preset: str,
    target: Target | None,
    batch_size: int | None,
    options: Mapping[str, Any],
) -> tuple[Benchmark, list[Explainer]]:
    """Benchmark and explainers from a run's arguments; what is wrong with these is said before any work."""
    if target is not None and target not in get_args(Target):
        raise unknown_name("target", str(target), get_args(Target))
    if batch_size is not None:
        require_whole("batch_size", batch_size, 1)
    if isinstance(benchmark, str):
        benchmark = benchmarks[benchmark].from_preset(preset, **options)
    elif options:
        raise HeatproofError(f"{benchmark.name} is made already; give {', '.join(options)} where it is made.")
    quantities: tuple[Quantity, ...] = ("probability", "logit")
    if target != "both":
        quantities = benchmark.quantities if target is None else (target,)
    specs = benchmark.default_explainers if explainers is None else explainers
    return benchmark, for_quantities(make_explainers(specs), quantities)


def explaining(
    made: Benchmark,
    opened: Opened,
    chosen: Sequence[Explainer],
    extra: Sequence[Metric],
    seed: int,
    batch_size: int | None,
) -> Explaining:
    """What a run of a benchmark explains and scores."""
    return Explaining(
        opened,
        swept(chosen, opened),
        seed=seed,
        batch_size=batch_size or made.batch_size,
        extra=[metric for metric in extra if metric.name not in made.metrics],
        usual=frozenset(explainer.label for explainer in make_explainers(made.default_explainers)),
    )


def folders_of(benchmark: Benchmark) -> list[Path]:
    """The folders that a benchmark's options name, to be sent to a cluster; `shipped` is there already."""
    named = (getattr(benchmark, f.name) for f in fields(benchmark) if f.name in ("dataset", "images", "mosaics"))
    paths = [path for value in named if value is not None and (path := Path(value)).exists()]
    return [path if path.is_dir() else path.parent for path in paths]
