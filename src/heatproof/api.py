"""The public functions: run a benchmark, say what a run would cost, explain inputs, score heatmaps, open a run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from heatproof.benchmarks import Benchmark
from heatproof.benchmarks.elsewhere import Told
from heatproof.cases import Batch
from heatproof.devices import (
    FULL,
    Precision,
    choose_device,
    computing_on,
    device_name,
    device_of,
    placed,
    require_precision,
    workers_for,
)
from heatproof.engine.arguments import AnyExplainer, explaining, folders_of, prepare_run
from heatproof.engine.closing import Closing
from heatproof.engine.evaluation import evaluation_folder, source_of
from heatproof.engine.forecast import Forecast
from heatproof.engine.manifest import options_of
from heatproof.engine.rehearsal import rehearse
from heatproof.engine.run import run_source
from heatproof.engine.settling import UntilSettled
from heatproof.engine.showing import explain_cases, find, find_case
from heatproof.engine.sources import Explaining
from heatproof.engine.sweeps import swept
from heatproof.engine.wanted import CANDIDATES, Pick, Wanted
from heatproof.errors import HeatproofError, require_whole
from heatproof.executors.choice import Engine, Execution, opening_with
from heatproof.explainers.base import Target, predicted_classes, quantity_of
from heatproof.explainers.guards import as_usual, untouched
from heatproof.explainers.spec import make_explainer
from heatproof.lazy import pl, torch
from heatproof.metrics.spec import MetricLike, load_metrics
from heatproof.metrics.understandability import WindowRule
from heatproof.progress import Progress, silent
from heatproof.report.runs import Comparison, Run
from heatproof.results.compare import compare as compare_results
from heatproof.results.markdown import markdown
from heatproof.results.readme import readme, schema
from heatproof.results.run import Results
from heatproof.results.sequential import MARGIN
from heatproof.run_folder import README, SCHEMA, TABLE, RunFolder, default_folder
from heatproof.seeds import CaseRandom
from heatproof.workspace import write_whole

if TYPE_CHECKING:
    from heatproof.explainers.conservation import Level
    from heatproof.explainers.layers import Layer


def explain(
    model: torch.nn.Module,
    inputs: torch.Tensor,
    explainer: AnyExplainer,
    *,
    target: torch.Tensor | Sequence[int] | int | None = None,
    context: Sequence[torch.Tensor] = (),
    ground_truth: Mapping[str, torch.Tensor] | None = None,
    seed: int = 0,
    device: str | None = None,
    **parameters: Any,
) -> torch.Tensor:
    """Relevance of the inputs (B, C, *space) for a class: `explain(net, x, "integrated_gradients", steps=100)`.

    `target` is a class per case, one class for all, or None for the class that the model predicts. `parameters` are
    those of the explainer; `quantity="probability"` explains the probability instead of the logit. `ground_truth` are
    masks by name, for the oracle. A model that returns its logits among other things (first in a tuple, by the name
    `logits`) is explained too, and one with a single output as a binary classifier: the output speaks for class 1 and
    against class 0. It computes where it is, or on `device` (auto, cpu, cuda, cuda:1, mps); the inputs may be
    elsewhere, and relevance comes back to them. Inputs may be arrays; they get the type of the model's weights.
    """
    from heatproof.models.networks import as_tensor, explainable, fitted, name_of, require_module

    made = make_explainer(explainer, **parameters)
    given, name = as_tensor(inputs), name_of(model)
    module = require_module(name, model)
    place = (device_of(module) or given.device) if device is None else choose_device(device)
    inputs, *context = (fitted(module, as_tensor(tensor)).to(place) for tensor in (given, *context))
    model, inputs = explainable(name, placed(module, place), inputs, *context)
    if target is None:
        with torch.no_grad(), untouched(model):
            outputs = model(inputs, *context)
        quantity_of(outputs, torch.zeros(len(inputs), dtype=torch.long, device=outputs.device), "logit")
        target = predicted_classes(outputs)
    classes = torch.as_tensor(target).to(place)
    batch = Batch(
        inputs=inputs,
        target=classes.expand(len(inputs)) if classes.ndim == 0 else classes,
        ids=tuple(str(i) for i in range(len(inputs))),
        context=tuple(context),
        masks={name: mask.to(place) for name, mask in (ground_truth or {}).items()},
    )
    return made(model, batch, CaseRandom.of(seed, made)).to(given.device)


def run(
    benchmark: str | Benchmark = "svea",
    *,
    explainers: str | Iterable[AnyExplainer] | None = None,
    metrics: str | Sequence[MetricLike] | None = None,
    preset: str = "standard",
    out: Path | str | None = None,
    seed: int = 0,
    target: Target | None = None,
    resume: bool = True,
    batch_size: int | None = None,
    keep_heatmaps: bool = False,
    jobs: int | None = None,
    engine: Engine = "auto",
    address: str | None = None,
    ship: bool = False,
    device: str = "cpu",
    precision: Precision = FULL,
    until_settled: bool = False,
    margin: float = MARGIN,
    progress: Progress = silent,
    **options: Any,
) -> Run:
    """Run a benchmark and return its results: `run("svea", explainers=["rise", my_function])`.

    `options` are those of the benchmark (for SVEA: limit, weights, model, model_seeds ...). `metrics` are scored beside
    the benchmark's own. `target` is what is explained; by default what the benchmark explains (SVEA: probability and
    logit, CLEVR-XAI: logit). What the output folder holds already is not computed again. An explainer that fails costs
    its own scores only: see `Run.failures()`. Where and how many at once (`engine`, `jobs`, `address`, `ship`) changes
    nothing of the scores; see docs/scale.md. Models compute on `device` (auto, cpu, cuda, cuda:1, mps), and are
    explained in `precision` where that changes no score by more than 0.001. With `until_settled`, cases are explained
    in a random order until every two methods are told apart at 95 %, or surely less than `margin` apart; see
    docs/verdict.md.
    """
    require_whole("seed", seed, 0)
    until = UntilSettled(margin) if until_settled else None
    require_place(device, precision)
    made, chosen = prepare_run(benchmark, explainers, preset, target, batch_size, options)
    at_once = jobs if engine == "ray" else jobs or workers_for(device)
    how = Execution(engine, at_once, address, folders_of(made) if ship else (), gpus=int(device != "cpu"))
    extra = [] if metrics is None else load_metrics(metrics)
    folder = RunFolder(Path(out) if out is not None else default_folder(made.called(vars(made)), preset))
    if explainers is None and "limit" not in options and not folder.has_run:
        how.expect_much()  # before this process loads its own libraries
    with folder.held(), as_usual():
        with computing_on(device), opening_with(Execution(engine, jobs, address)):
            opened = made.open(seed, progress)
        opened = opened if keep_heatmaps else opened.sampled()
        source = explaining(made, opened, chosen, extra, seed, batch_size)
        table = run_source(
            replace(source, keep_all=keep_heatmaps, device=device, precision=precision),
            folder,
            name=made.name,
            seed=seed,
            options=options_of(made),
            resume=resume,
            how=how,
            progress=progress,
            until=until,
        )
        return finished(folder, table)


def finished(folder: RunFolder, leaderboard: pl.DataFrame) -> Run:
    """The results of a run that has come to its end, once table and page for people are written."""
    done = Run(folder.folder, leaderboard)
    write_text(folder.path(TABLE), markdown(done))
    done.report()
    write_text(folder.path(README), readme(done))
    write_text(folder.path(SCHEMA), schema())
    return done


def write_text(path: Path, text: str) -> None:
    write_whole(path, lambda temporary: temporary.write_text(text, encoding="utf-8"))


def dry_run(
    benchmark: str | Benchmark = "svea",
    *,
    explainers: str | Iterable[AnyExplainer] | None = None,
    metrics: str | Sequence[MetricLike] | None = None,
    preset: str = "standard",
    seed: int = 0,
    target: Target | None = None,
    batch_size: int | None = None,
    jobs: int | None = None,
    engine: Engine = "auto",
    device: str = "cpu",
    precision: Precision = FULL,
    progress: Progress = silent,
    **options: Any,
) -> Forecast:
    """What `run` with the same arguments would cost in CPU seconds and memory, explainer by explainer.

    Each explainer is tried on a few cases, and tables and page are made of a few; nothing of it is kept. Networks that
    the run would have to train are not, and not counted.
    """
    require_place(device, precision)
    made, chosen = prepare_run(benchmark, explainers, preset, target, batch_size, options)
    extra = [] if metrics is None else load_metrics(metrics)

    def opened() -> Explaining:
        with computing_on(device):
            found = made.rehearse(seed, progress)
        source = explaining(made, found, chosen, extra, seed, batch_size)
        return replace(source, device=device, precision=precision)

    closing = Closing(made.name, seed, options_of(made), finished)
    how = Execution(engine, jobs or workers_for(device))
    return rehearse(opened, closing, how, type(made).rehearse is Benchmark.rehearse, progress)


def show(
    benchmark: str | Benchmark,
    case: str | Sequence[str] = (),
    *,
    pick: Pick | None = None,
    count: int | None = None,
    candidates: int = CANDIDATES,
    explainers: str | Iterable[AnyExplainer] | None = None,
    preset: str = "standard",
    target: Target = "logit",
    out: Path | str = "case.svg",
    seed: int = 0,
    device: str = "cpu",
    progress: Progress = silent,
    say: Callable[[str], object] | None = None,
    **options: Any,
) -> Path:
    """Draw cases of a benchmark under many explainers: `show("svea", "test-0007", explainers=["lrp", "rise"])`.

    `case` is a name, or several; or `pick` chooses `count` cases (4): those that the model gets right or wrong, or the
    best or worst of so many `candidates`, by the first metric that single cases have, under the first explainer. The
    file's name says in which format: svg, pdf or png. How cases were picked stands in the picture, and `say` is told.
    """
    from heatproof.report.gallery import gallery, require_drawable
    from heatproof.report.picture_files import require_picture_file, write_picture

    wanted = Wanted([case] if isinstance(case, str) else list(case), pick, count, candidates)
    choose_device(device)
    made, chosen = prepare_run(benchmark, explainers, preset, target, 1, options)
    require_picture_file(Path(out))
    with computing_on(device):
        opened = made.open(seed, progress)
    source = Explaining(opened, swept(chosen, opened), seed=seed, device=device)
    source.check()
    require_drawable(len(source.probe_batch.space))
    found, heading = find(source, made.name, wanted, progress)
    if say is not None and pick is not None:
        say(heading)
    cases = explain_cases(source, found, progress, "" if heading else f"{made.name} ")
    write_picture(gallery(cases, opened.story.words, heading), Path(out))
    return Path(out)


def layers(model: torch.nn.Module, inputs: torch.Tensor, *, context: Sequence[torch.Tensor] = ()) -> list[Layer]:
    """The layers whose maps class activation maps can read, in the order of the pass: `layers(net, x)`.

    Each has a name for `layer=NAME`, the number and extent of its maps, whether all of the score's gradient passes it,
    and whether it is the one that is read where none is named.
    """
    from heatproof.explainers.layers import all_layers
    from heatproof.models.networks import name_of, require_module, returning_logits

    context = [tensor[:1] for tensor in context]
    network = returning_logits(require_module(name_of(model), model), inputs[:1], *context)
    with torch.no_grad(), untouched(network):
        target = network(inputs[:1], *context).argmax(1)
    return all_layers(network, Batch(inputs[:1], target, ("0",), context=tuple(context)))


def conservation(
    model: torch.nn.Module,
    inputs: torch.Tensor,
    explainer: AnyExplainer = "lrp:composite=attn_lrp",
    *,
    target: int | None = None,
    context: Sequence[torch.Tensor] = (),
) -> list[Level]:
    """Where the relevance of LRP is at each layer that all of it passes, for one case: `conservation(net, x[:1])`.

    From the score down to the inputs: the sum of relevance, what biases have taken on the way, and what went elsewhere.
    """
    from heatproof.explainers.conservation import conservation as look
    from heatproof.models.networks import explainable, name_of, require_module

    network, inputs = explainable(name_of(model), require_module(name_of(model), model), inputs, *context)
    with torch.no_grad(), untouched(network):
        named = network(inputs, *context).argmax(1)
    classes = named if target is None else torch.full_like(named, target)
    batch = Batch(inputs, classes, tuple(map(str, range(len(inputs)))), context=tuple(context))
    return look(make_explainer(explainer), network, batch)


def case_conservation(
    benchmark: str | Benchmark,
    case: str,
    *,
    explainers: str | Iterable[AnyExplainer] | None = None,
    seed: int = 0,
    progress: Progress = silent,
    **options: Any,
) -> dict[str, list[Level]]:
    """The same for a case of a benchmark, under each of these explainers by its label."""
    from heatproof.explainers.conservation import conservation as look

    made, chosen = prepare_run(benchmark, explainers or "lrp:composite=attn_lrp", "standard", "logit", 1, options)
    opened = made.open(seed, progress)
    batch, chunk = find_case(opened, made.name, case)
    return {explainer.label: look(explainer, opened.model(chunk.model), batch) for explainer in chosen}


def benchmark_layers(
    benchmark: str | Benchmark, *, seed: int = 0, progress: Progress = silent, **options: Any
) -> dict[str, list[Layer]]:
    """The same for the networks of a benchmark, by their names."""
    made, _ = prepare_run(benchmark, "gradient", "standard", "logit", 1, options)
    opened = made.open(seed, progress)
    found: dict[str, list[Layer]] = {}
    for chunk in opened.chunks():
        if chunk.model not in found:
            case = opened.load(chunk)[:1]
            found[chunk.model] = layers(opened.model(chunk.model), case.inputs, context=case.context)
    return found


def evaluate(
    heatmaps: Path | str | Sequence[Path | str],
    *,
    dataset: Path | str | None = None,
    questions: str | None = None,
    poolings: Sequence[str] | None = None,
    predictions: Path | str | None = None,
    benchmark: str | None = None,
    mosaics: Path | str | None = None,
    masked_outputs: Path | str | None = None,
    window: WindowRule | None = None,
    masks: Path | str | None = None,
    object_value: int | None = None,
    background_value: int | None = None,
    void_value: int | None = None,
    boxes: bool | None = None,
    tolerance: int | None = None,
    resize: bool | None = None,
    name: str | None = None,
    out: Path | str | None = None,
    resume: bool = True,
    jobs: int | None = None,
    engine: Engine = "auto",
    progress: Progress = silent,
) -> Run:
    """Score heatmaps made elsewhere: `evaluate("maps", dataset="data", predictions="answers.json")`.

    `benchmark` is clevr-xai (which takes dataset, questions, poolings and predictions), svea (poolings, predictions,
    masked_outputs, window), focus (mosaics) or masks (masks, what their pixels mean, boxes, poolings, tolerance,
    resize); without it, masks where these are given, else clevr-xai; see docs/evaluate.md. Several heatmaps at once,
    `evaluate(["a", "b"], masks="masks")`, are compared case by case. A run of CLEVR-XAI that has kept its heatmaps
    (RUN, or RUN/heatmaps/EXPLAINER) knows its data set and answers. `name` is what the tables call them (by default
    their file's name). What the output folder holds already is not computed again.
    """
    paths = [Path(heatmaps)] if isinstance(heatmaps, Path | str) else [Path(path) for path in heatmaps]
    benchmark = benchmark or ("clevr-xai" if masks is None else "masks")
    how = Execution(engine, jobs)
    told = Told(
        dataset=dataset,
        questions=questions,
        poolings=poolings,
        predictions=predictions,
        mosaics=mosaics,
        masked_outputs=masked_outputs,
        window=window,
        masks=masks,
        object_value=object_value,
        background_value=background_value,
        void_value=void_value,
        boxes=boxes or None,
        tolerance=tolerance,
        resize=resize or None,
    )
    folder = RunFolder(Path(out) if out is not None else evaluation_folder(paths))
    with folder.held():
        source, seed = source_of(benchmark, paths, told, name, progress)
        table = run_source(
            source,
            folder,
            name=benchmark,
            seed=seed,
            options={"heatmaps": str(paths[0]) if len(paths) == 1 else [str(path) for path in paths], **told.given},
            resume=resume,
            how=how,
            progress=progress,
        )
        return finished(folder, table)


def compare(runs: Sequence[Results | Path | str], *, seed: int = 0, progress: Progress = silent) -> Comparison:
    """Put runs of one benchmark side by side: `compare(["runs/a", "runs/b"]).table`; see `Comparison.write`.

    The difference of a run to the first is that of the same explainer, case by case, with a 95 % interval from
    resampling cases; of a case explained on several models it takes the mean. Runs of a single explainer each are
    compared whatever its name. Where the cases are not the same, there are means but no differences.
    """
    found = compare_results(runs, seed=seed, progress=progress)
    return Comparison(found.runs, found.table, found.notes)


def report(runs: Results | Path | str | Sequence[Results | Path | str], *, out: Path | str | None = None) -> Path:
    """Write one page over these runs, and return its path: `report(["runs/a", "runs/b"])`.

    By default it is report.html in the run's folder, or for several in the folder that holds them all.
    """
    from heatproof.report.page import common_page, write_page

    given = [runs] if isinstance(runs, Results | Path | str) else list(runs)
    if not given:
        raise HeatproofError("there is no run to report on: give the folder of one at least.")
    found = [run if isinstance(run, Results) else load_run(run) for run in given]
    return write_page(found, common_page(found) if out is None else Path(out))


def publish(runs: Sequence[Results | Path | str], out: Path | str = "site") -> Path:
    """Make a folder that any web server shows, and return its index: `publish(["runs/a", "runs/b"], out="site")`.

    Run again, it replaces its own files and touches nothing else.
    """
    from heatproof.report.site import publish as make_site

    return make_site([run if isinstance(run, Results) else Run(run) for run in runs], out)


def load_run(folder: Path | str) -> Run:
    """The results in a run folder."""
    return Run(folder)


def require_place(device: str, precision: str) -> None:
    """Device and precision must be known, and the device there."""
    device_name(device)
    require_precision(precision)
