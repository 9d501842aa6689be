"""The public functions: run a benchmark, say what a run would cost, explain inputs, open a run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

from heatproof.benchmarks import Benchmark, benchmarks
from heatproof.cases import Batch
from heatproof.engine.estimate import Estimate, estimate
from heatproof.engine.local import run_units
from heatproof.engine.plan import Unit, explained_quantity, for_quantities, make_plan
from heatproof.engine.store import Store, default_folder
from heatproof.engine.work import do_unit
from heatproof.errors import HeatproofError, require_whole, unknown_name
from heatproof.explainers.base import Explainer, Quantity, quantity_of, untouched
from heatproof.explainers.spec import make_explainer, make_explainers
from heatproof.lazy import torch
from heatproof.progress import Progress, silent
from heatproof.results.finish import finish_run
from heatproof.results.manifest import make_manifest
from heatproof.results.run import Run
from heatproof.seeds import CaseRandom
from heatproof.workspace import write_whole

AnyExplainer: TypeAlias = "str | Explainer | type[Explainer] | Callable[..., Any]"
Target = Literal["probability", "logit", "log_probability", "both"]


def explain(
    model: torch.nn.Module,
    inputs: torch.Tensor,
    explainer: AnyExplainer,
    *,
    target: torch.Tensor | Sequence[int] | int | None = None,
    context: Sequence[torch.Tensor] = (),
    ground_truth: Mapping[str, torch.Tensor] | None = None,
    seed: int = 0,
    **parameters: Any,
) -> torch.Tensor:
    """Relevance of the inputs (B, C, *space) for a class: `explain(net, x, "integrated_gradients", steps=100)`.

    `target` is a class per case, one class for all, or None for the class that the model predicts. `parameters` are
    those of the explainer; `quantity="probability"` explains the probability instead of the logit. `ground_truth` are
    masks by name, for the oracle.
    """
    made = make_explainer(explainer, **parameters)
    inputs = torch.as_tensor(inputs)
    if target is None:
        with torch.no_grad(), untouched(model):
            outputs = model(inputs, *context)
        quantity_of(outputs, torch.zeros(len(inputs), dtype=torch.long), "logit")
        target = outputs.argmax(1)
    classes = torch.as_tensor(target, device=inputs.device)
    batch = Batch(
        inputs=inputs,
        target=classes.expand(len(inputs)) if classes.ndim == 0 else classes,
        ids=tuple(str(i) for i in range(len(inputs))),
        context=tuple(context),
        masks=ground_truth or {},
    )
    return made(model, batch, CaseRandom(seed, made.name or made.label))


def run(
    benchmark: str | Benchmark = "svea",
    *,
    explainers: str | Iterable[AnyExplainer] | None = None,
    preset: str = "standard",
    out: Path | str | None = None,
    seed: int = 0,
    target: Target | None = None,
    resume: bool = True,
    batch_size: int | None = None,
    keep_heatmaps: bool = False,
    progress: Progress = silent,
    **options: Any,
) -> Run:
    """Run a benchmark and return its results: `run("svea", explainers=["rise", my_function])`.

    `options` are those of the benchmark (for SVEA: limit, weights, model, model_seeds ...). `target` is what is
    explained; by default what the benchmark explains (SVEA: probability and logit, CLEVR-XAI: logit). What the output
    folder holds already is not computed again. An explainer that fails costs its own scores only: see
    `Run.failures()`.
    """
    require_whole("seed", seed, 0)
    made, chosen = prepare_run(benchmark, explainers, preset, target, batch_size, options)
    store = Store(Path(out) if out is not None else default_folder(made.name, preset))
    store.check_writable()
    made.prepare(progress)
    store.open(make_manifest(made, chosen, seed), resume)

    def do(unit: Unit) -> None:
        do_unit(made, unit, store, seed, batch_size or made.batch_size, keep_heatmaps)

    run_units(store.missing(make_plan(made, chosen)), do, progress)
    return finish_run(made, store, seed, progress)


def dry_run(
    benchmark: str | Benchmark = "svea",
    *,
    explainers: str | Iterable[AnyExplainer] | None = None,
    preset: str = "standard",
    target: Target | None = None,
    batch_size: int | None = None,
    progress: Progress = silent,
    **options: Any,
) -> list[Estimate]:
    """What `run` with the same arguments would cost, explainer by explainer. Explains nothing and writes nothing."""
    made, chosen = prepare_run(benchmark, explainers, preset, target, batch_size, options)
    made.rehearse(progress)
    return estimate(made, make_plan(made, chosen), batch_size or made.batch_size)


def show(
    benchmark: str | Benchmark,
    case: str,
    *,
    explainers: str | Iterable[AnyExplainer] | None = None,
    preset: str = "standard",
    target: Target = "logit",
    out: Path | str = "case.svg",
    seed: int = 0,
    progress: Progress = silent,
    **options: Any,
) -> Path:
    """Draw one case of a benchmark under many explainers: `show("svea", "test-0007", explainers=["lrp", "rise"])`."""
    from heatproof.report.gallery import Case, gallery

    made, chosen = prepare_run(benchmark, explainers, preset, target, 1, options)
    made.prepare(progress)
    one, model = find_case(made, case)
    heatmaps = {}
    for place, explainer in enumerate(chosen):
        progress("explaining", place, len(chosen))
        relevance = explainer(model, one, CaseRandom(seed, explainer.name or explainer.label))
        quantity = explained_quantity(explainer) if target == "both" else ""
        heatmaps[explainer.label + f", {quantity}" * bool(quantity)] = relevance[0].cpu().numpy()
    progress("explaining", len(chosen), len(chosen))
    truth = next((mask[0].cpu().numpy() for mask in one.masks.values()), None)
    about = f": {title}" if (title := made.case_title(case)) else f", class {int(one.target)} explained"
    drawn = gallery(Case(f"{made.name} {case}{about}", made.as_pictures(one.inputs)[0].cpu().numpy(), truth), heatmaps)
    path = Path(out)
    write_whole(path, lambda temporary: temporary.write_text(drawn, encoding="utf-8"))
    return path


def find_case(benchmark: Benchmark, case: str) -> tuple[Batch, torch.nn.Module]:
    """The batch of one case, and the model that it is explained on."""
    first: list[str] = []
    for chunk in benchmark.chunks_with([case]) or benchmark.chunks()[:1]:
        batch = benchmark.load(chunk)
        if case in batch.ids:
            place = batch.ids.index(case)
            return batch[place : place + 1], benchmark.model_for(chunk)
        first += batch.ids[:1]
    raise HeatproofError(f"{benchmark.name} has no case {case!r}; its cases are called like {', '.join(first[:3])}.")


def load_run(folder: Path | str) -> Run:
    """The results in a run folder."""
    return Run(folder)


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
