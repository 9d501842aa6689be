"""Checks for authors of explainers, metrics and benchmarks: does mine keep the contract?"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from heatproof.cases import Batch, Chunk
from heatproof.errors import HeatproofError
from heatproof.explainers.guards import HOOKS, untouched
from heatproof.explainers.spec import make_explainer, make_explainers
from heatproof.lazy import torch
from heatproof.metrics.scoring import call_metric, values_problem
from heatproof.metrics.spec import load_metric
from heatproof.seeds import CaseRandom

if TYPE_CHECKING:
    from heatproof.benchmarks.base import Benchmark, Opened
    from heatproof.explainers.base import Explainer
    from heatproof.metrics.base import Metric
    from heatproof.metrics.spec import MetricLike

CASES, CLASSES, WORDS = 5, 4, 7
M = TypeVar("M", bound="torch.nn.Module")


def check_explainer(
    explainer: str | Explainer | type[Explainer] | Callable[..., Any],
    model: torch.nn.Module | None = None,
    inputs: torch.Tensor | None = None,
) -> None:
    """Raise an error that lists every promise of the explainer contract that is broken; None if all are kept.

    Shape, finite values, repeatable under a seed, independent of the batch size, model and inputs left untouched.
    Without a model, two small convolutional networks on 3 x 12 x 10 pictures are explained, one of which takes a
    question too, and a small transformer, which an explainer may refuse by a HeatproofError. One of the family
    `attention` is checked on the transformer alone.
    """
    made = make_explainer(explainer)
    if (model is None) != (inputs is None):
        raise HeatproofError("give a model together with inputs for it, or neither.")
    if model is not None and inputs is not None:
        broken = broken_promises(made, model, make_batch(model, inputs))
    else:
        inputs = torch.randn(CASES, 3, 12, 10, generator=torch.Generator().manual_seed(1))
        broken = broken_without_model(made, inputs)
    if broken:
        raise HeatproofError(f"{made.label} breaks the contract of explainers: " + "; ".join(broken) + ".")


def broken_without_model(made: Explainer, inputs: torch.Tensor) -> list[str]:
    """The promises that are broken on the first of our small networks where any is."""
    transformer = small_transformer()
    if made.family == "attention":
        return broken_promises(made, transformer, make_batch(transformer, inputs))
    model = small_network()
    broken = broken_promises(made, model, make_batch(model, inputs)) or broken_with_context(made, inputs)
    if broken:
        return broken
    try:
        broken = broken_promises(made, transformer, make_batch(transformer, inputs))
    except HeatproofError:  # what it gives has passed on other networks: it has no rule for this one, and says so
        return []
    return [f"on a transformer: {promise}" for promise in broken]


def make_batch(model: torch.nn.Module, inputs: torch.Tensor, *context: torch.Tensor) -> Batch:
    """Cases of all classes with a ground truth of two positions a side."""
    model.eval()
    with torch.no_grad():
        classes = model(inputs, *context).shape[1]
    mask = torch.zeros(len(inputs), *inputs.shape[2:], dtype=torch.bool)
    inside = (slice(None), *[slice(1, 3)] * (inputs.ndim - 2))
    mask[inside] = True
    ids = tuple(f"case-{i}" for i in range(len(inputs)))
    return Batch(inputs, torch.arange(len(inputs)) % classes, ids, context, masks={"truth": mask})


def broken_with_context(made: Explainer, inputs: torch.Tensor) -> list[str]:
    """The promises that are broken on a model that takes a question; not to take it is one of them."""
    model = small_network_with_question()
    batch = make_batch(model, inputs, torch.arange(3 * len(inputs)).view(-1, 3) % WORDS)
    try:
        broken = broken_promises(made, model, batch)
    except TypeError as problem:  # what Python says when an argument is missing, or one too many
        broken = [f"{problem}; call model(inputs, *batch.context)"]
    return [f"on a model that takes a question beside the inputs: {promise}" for promise in broken]


def broken_promises(made: Explainer, model: torch.nn.Module, batch: Batch) -> list[str]:
    return [promise for promise, kept in promises(made, model, batch) if not kept]


def promises(made: Explainer, model: torch.nn.Module, batch: Batch) -> list[tuple[str, bool]]:
    """What an explainer promises, and whether this one keeps it. Shape and values are checked on every call."""
    rng = CaseRandom(0, made.label)
    inputs, state = batch.inputs.clone(), state_of(model)
    whole = made(model, batch, rng)
    again = made(model, batch, rng)
    single = torch.cat([made(model, batch[i : i + 1], rng) for i in range(len(batch))])
    scale = float(whole.abs().max()) or 1.0
    return [
        ("the inputs are changed in place", torch.equal(batch.inputs, inputs)),
        ("the model is changed (weights, modes, flags, gradients or hooks)", state_of(model) == state),
        ("the same seed gives another result; draw from rng.draw(batch.ids, ...)", torch.equal(whole, again)),
        (
            "a case's relevance depends on the other cases of its batch",
            bool(torch.allclose(whole, single, rtol=1e-3, atol=1e-4 * scale)),
        ),
    ]


def state_of(model: torch.nn.Module) -> list[Any]:
    """All that must not change, in a form that compares."""
    modules = [(module.training, [len(getattr(module, name)) for name in HOOKS]) for module in model.modules()]
    tensors = [(name, tensor.tolist()) for name, tensor in model.state_dict().items()]
    flags = [(parameter.requires_grad, parameter.grad is None) for parameter in model.parameters()]
    return [modules, tensors, flags]


def small_network() -> torch.nn.Sequential:
    """Two convolutions and a linear layer with seeded weights; 3 channels in, 4 classes out."""
    nn = torch.nn
    network = nn.Sequential(
        nn.Conv2d(3, 6, 3, padding=1), nn.ReLU(), nn.Conv2d(6, 8, 3, stride=2), nn.ReLU(),
        nn.AdaptiveAvgPool2d((2, 2)), nn.Flatten(), nn.Linear(32, CLASSES),
    )  # fmt: skip
    return seeded(network)


def small_network_with_question() -> torch.nn.Module:
    """The same with a question of word numbers, whose mean embedding gates the picture's features."""
    nn = torch.nn

    class Answerer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            network = small_network()
            self.features, self.answer = network[:-1], network[-1]
            self.words = nn.Embedding(WORDS, 32)

        def forward(self, inputs: torch.Tensor, question: torch.Tensor) -> torch.Tensor:
            gate = self.words(question).mean(1).sigmoid()
            answer: torch.Tensor = self.answer(self.features(inputs) * gate)
            return answer

    return seeded(Answerer())


def small_transformer() -> torch.nn.Module:
    """Patches of 2 x 2 pixels, a class token, positions, and two blocks of torch's own with two heads."""
    nn = torch.nn

    class Transformer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.patches = nn.Conv2d(3, 8, 2, stride=2)
            self.class_token = nn.Parameter(torch.zeros(1, 1, 8))
            self.places = nn.Parameter(torch.zeros(1, 31, 8))
            block = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, activation="gelu", batch_first=True)
            self.blocks = nn.TransformerEncoder(block, 2, enable_nested_tensor=False)
            self.answer = nn.Linear(8, CLASSES)

        def forward(self, inputs: torch.Tensor) -> torch.Tensor:
            patches = self.patches(inputs).flatten(2).transpose(1, 2)
            tokens = torch.cat([self.class_token.expand(len(patches), -1, -1), patches], 1) + self.places
            answer: torch.Tensor = self.answer(self.blocks(tokens)[:, 0])
            return answer

    return seeded(Transformer())


def seeded(network: M) -> M:
    """The network with weights drawn from a fixed seed."""
    generator = torch.Generator().manual_seed(0)
    for parameter in network.parameters():
        torch.nn.init.normal_(parameter, std=0.3, generator=generator)
    return network


# Metrics


def check_metric(metric: MetricLike) -> None:
    """Raise an error that lists every promise of the metric contract that is broken; None if all are kept.

    Pure and repeatable; one float64 value per case, within the range; NaN, never a silent 0, for a heatmap that is all
    zero, NaN or infinite and for an empty mask; each case for itself; the same for float32 and for any scale.
    """
    made = load_metric(metric)
    if not made.generic:
        raise HeatproofError(
            f"metric {made.name} needs {', '.join(made.needs)}: only metrics that need nothing, a mask or a model"
            " can be checked."
        )
    broken = [said for promise, kept in metric_promises(made) if (said := broken_promise(promise, kept))]
    if broken:
        raise HeatproofError(f"{made.name} breaks the contract of metrics: " + "; ".join(broken) + ".")


def broken_promise(promise: str, kept: Callable[[], bool]) -> str:
    """The promise, if it is broken or cannot be tried; empty if it is kept."""
    try:
        return "" if kept() else promise
    except Exception as problem:  # whatever an author's function may raise: the other promises are still tried
        return f"{promise} ({type(problem).__name__}: {problem})"


def metric_promises(metric: Metric) -> list[tuple[str, Callable[[], bool]]]:
    """What is wrong if a promise is broken, and whether this metric keeps it: all that our own metrics promise."""
    model, batch, heatmap = small_network().eval(), metric_batch(), metric_heatmaps()

    def values(maps: torch.Tensor, cases: Batch = batch) -> Any:
        return call_metric(metric, maps.clone(), cases.masks["truth"].clone(), model, cases)

    def same(one: Any, other: Any) -> bool:
        return torch.allclose(one, other, rtol=1e-5, atol=1e-8, equal_nan=True)

    def leaves_its_arguments() -> bool:
        given, mask, state = heatmap.clone(), batch.masks["truth"].clone(), state_of(model)
        inputs = batch.inputs.clone()
        call_metric(metric, given, mask, model, batch)
        untouched = torch.equal(given, heatmap) and torch.equal(mask, batch.masks["truth"])
        return untouched and torch.equal(batch.inputs, inputs) and state_of(model) == state

    def gives_scores() -> bool:
        problem = values_problem(metric, values(heatmap), batch.ids)
        if problem:
            raise HeatproofError(problem)
        return True

    def undefined(maps: torch.Tensor, cases: Batch = batch) -> bool:
        """The first case, which is spoilt, is NaN, and the others are what they were."""
        found = values(maps, cases)
        return bool(found[0].isnan()) and same(found[1:], values(heatmap)[1:])

    def spoilt(value: float, place: Any) -> torch.Tensor:
        changed = heatmap.clone()
        changed[0][place] = value
        return changed

    def alone() -> torch.Tensor:
        return torch.cat([values(heatmap[i : i + 1], batch[i : i + 1]) for i in range(len(batch))])

    empty = {"truth": batch.masks["truth"].clone()}
    empty["truth"][0] = False
    promises = [
        ("its arguments are changed in place", leaves_its_arguments),
        ("its values are no scores", gives_scores),
        ("ordinary cases are undefined", lambda: not bool(values(heatmap).isnan().any())),
        ("the same call gives another result", lambda: torch.equal(values(heatmap), values(heatmap))),
        (
            "a heatmap that is zero everywhere must score NaN, and no other case change",
            lambda: undefined(spoilt(0.0, ...)),
        ),
        ("a heatmap with NaN must score NaN, and no other case change", lambda: undefined(spoilt(torch.nan, (4, 5)))),
        (
            "a heatmap with an infinite value must score NaN, and no other case change",
            lambda: undefined(spoilt(torch.inf, (4, 5))),
        ),
        ("a case's score depends on the other cases of its batch", lambda: same(values(heatmap), alone())),
        (
            "a case's score depends on the order of the cases",
            lambda: same(values(heatmap).flip(0), values(heatmap.flip(0), reversed_cases(batch))),
        ),
        (
            "float32 and float64 heatmaps score differently",
            lambda: same(values(heatmap.float().double()), values(heatmap.float())),
        ),
        ("a positive factor of the heatmap changes the score", lambda: same(values(heatmap), values(0.125 * heatmap))),
    ]
    if "mask" in metric.needs:
        promises.append(
            (
                "an empty mask must score NaN, and no other case change",
                lambda: undefined(heatmap, replace(batch, masks=empty)),
            ),
        )
    return promises


def metric_batch() -> Batch:
    """Five pictures, each with a ground truth of its own."""
    generator = torch.Generator().manual_seed(2)
    mask = torch.rand(CASES, 12, 10, generator=generator) < 0.3
    inputs = torch.randn(CASES, 3, 12, 10, generator=generator)
    ids = tuple(f"case-{i}" for i in range(CASES))
    return Batch(inputs, torch.arange(CASES) % CLASSES, ids, masks={"truth": mask})


def metric_heatmaps() -> torch.Tensor:
    """Heatmaps for these pictures: none negative, of different scales, the second with ties and zeros."""
    heatmap = torch.rand(CASES, 12, 10, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    heatmap[1] = (3 * heatmap[1]).floor()
    return heatmap * torch.tensor([1.0, 8.0, 0.01, 300.0, 1.0], dtype=torch.float64)[:, None, None]


def reversed_cases(batch: Batch) -> Batch:
    """The same cases, the last one first."""
    masks = {name: mask.flip(0) for name, mask in batch.masks.items()}
    return Batch(batch.inputs.flip(0), batch.target.flip(0), batch.ids[::-1], masks=masks)


# Benchmarks


def check_benchmark(benchmark: Benchmark | type[Benchmark], seed: int = 0) -> None:
    """Raise an error that lists every promise of the benchmark contract that is broken; None if all are kept.

    It is opened twice, and the first cases of every model are loaded and scored with random relevance.
    """
    recipe = benchmark() if isinstance(benchmark, type) else benchmark
    first, again = recipe.open(seed), recipe.open(seed)
    broken = [promise for promise, kept in opened_promises(recipe, first, again) if not kept]
    if not broken:
        broken = [promise for chunk in one_chunk_each(first) for promise in chunk_problems(first, chunk)]
    if broken:
        name = recipe.name or type(recipe).__name__
        raise HeatproofError(f"{name} breaks the contract of benchmarks: " + "; ".join(dict.fromkeys(broken)) + ".")


def opened_promises(recipe: Benchmark, first: Opened, again: Opened) -> list[tuple[str, bool]]:
    """What a benchmark promises of itself and of what `open` gives back."""
    chunks = first.chunks()
    cases = [case for chunk in chunks if chunk.model == next(iter(first.models)) for case in first.load(chunk).ids]
    return [
        ("it is not a frozen dataclass, so its options may change", is_frozen(recipe)),
        ("what it opens is not a frozen dataclass", is_frozen(first)),
        ("its default explainers cannot be made", can_be_made(recipe.default_explainers)),
        ("settings are no plain data", is_plain(first.settings)),
        ("its story is no plain data", is_plain(first.story.plain())),
        ("opened twice, it has other cases", first.fingerprint == again.fingerprint and chunks == again.chunks()),
        ("opened twice, it has other models", first.models == again.models),
        ("there are no cases, or no models", bool(chunks) and bool(first.models)),
        ("chunks do not have as many cases as they say", len(cases) == sum(first.counts.values())),
        ("two cases have one name", len(set(cases)) == len(cases)),
        ("there are examples that are no cases", set(first.story.examples) <= set(cases)),
        ("the story names no metric", bool(first.story.metrics)),
    ]


def is_frozen(thing: object) -> bool:
    parameters = getattr(type(thing), "__dataclass_params__", None)
    return parameters is not None and bool(parameters.frozen)


def is_plain(content: object) -> bool:
    try:
        return bool(json.dumps(content))
    except TypeError:
        return False


def can_be_made(specs: Sequence[str]) -> bool:
    try:
        return bool(make_explainers(specs))
    except HeatproofError:
        return False


def one_chunk_each(opened: Opened) -> list[Chunk]:
    """The first chunk of every part and model, of a few cases."""
    found: dict[tuple[str, str], Chunk] = {}
    for chunk in opened.chunks(CASES):
        found.setdefault((chunk.model, chunk.name.rpartition("-")[0]), chunk)
    return list(found.values())


def chunk_problems(opened: Opened, chunk: Chunk) -> list[str]:
    """What is wrong with the cases of a chunk, its model or its scores."""
    batch, again, model = opened.load(chunk), opened.load(chunk), opened.model(chunk.model)
    problems = []
    if not torch.equal(batch.inputs, again.inputs) or batch.ids != again.ids:
        problems.append("a chunk that is loaded twice has other cases")
    with torch.no_grad(), untouched(model):
        logits = model(batch.inputs, *batch.context)
    if logits.shape[:1] != batch.target.shape or logits.ndim != 2 or int(batch.target.max()) >= logits.shape[1]:
        problems.append("the model does not give logits (cases, classes) with the classes to explain")
    generator = torch.Generator().manual_seed(0)
    relevance = torch.rand(batch.inputs.shape, generator=generator)
    rows = opened.score(batch, relevance, model)
    if missing := {"case", "metric", "ground_truth", "pooling", "value"} - set(rows.columns):
        return [*problems, f"score rows lack {', '.join(sorted(missing))}"]
    if set(rows["case"]) - set(batch.ids):
        problems.append("there are scores of cases that are not in the chunk")
    if rows.select("case", "metric", "ground_truth", "pooling").is_duplicated().any():
        problems.append("a case has two scores of one metric and variant")
    single = opened.score(batch[:1], relevance[:1], model)
    same = rows.filter(rows["case"] == batch.ids[0]).join(single, on=["case", "metric", "ground_truth", "pooling"])
    if not bool(((same["value"] - same["value_right"]).abs().fill_nan(0) < 1e-6).all()):
        problems.append("a case's scores depend on the other cases of its chunk")
    return problems
