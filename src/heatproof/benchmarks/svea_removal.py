"""A network names the digit in a short signal. Does it go by the digit? Take that out of the signal, or the noise.

The generator is ours, so each signal can be made once more without its template (the noise that was drawn for those
places is seen there instead) or without noise. What the logit of the network's class loses is the part's effect. A
heatmap is scored by whether its relevance lies on the two parts as their effects do.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, get_args

from heatproof import mnist1d
from heatproof.benchmarks.base import (
    Benchmark,
    Ending,
    Opened,
    metric_words,
    option,
    register_benchmark,
    require_limit,
    require_poolings,
)
from heatproof.benchmarks.clevr_removal import rows
from heatproof.benchmarks.clevr_removal.painted import ObjectBatch
from heatproof.benchmarks.sample import SIGNALS
from heatproof.benchmarks.svea.benchmark import Svea
from heatproof.benchmarks.svea.examples import examples_of
from heatproof.benchmarks.svea.regions import POOLINGS, Cases, case_name, inputs_of
from heatproof.cases import Batch, Chunk
from heatproof.lazy import np, pl, torch
from heatproof.mnist1d import Part, Signals
from heatproof.progress import Progress, silent
from heatproof.story import Cell, Column, Fact, Paragraph, Section, Story, Table, Words

if TYPE_CHECKING:
    from numpy.typing import NDArray

PARTS: tuple[Part, ...] = get_args(Part)
METRICS = ("effect_mass", "effect_top1_mean", "effect_top1_sum", "mass_accuracy")
LEAST = 0.1
"""Where neither part changes the logit by as much, there is nothing to find."""
PAINTED = "heatproof.benchmarks.clevr_removal.painted"
CHUNK = 500
TRUTH = "logit_abs"


@dataclass(frozen=True, eq=False)
class Effects:
    """What a network sees in signals as they are and without each part.

    seen    (N,) the class that it sees in the whole signal
    effect  (N, 2) what the logit of that class loses without the template, and without the noise
    after   (N, 2) the class that it sees then
    """

    seen: NDArray[np.int64]
    probability: NDArray[np.float64]
    effect: NDArray[np.float64]
    after: NDArray[np.int64]

    def __getitem__(self, part: slice) -> Effects:
        return Effects(*(values[part] for values in vars(self).values()))

    @property
    def matters(self) -> NDArray[np.bool_]:
        """Whether either part matters."""
        found: NDArray[np.bool_] = np.abs(self.effect).max(1) >= LEAST
        return found


def measure(name: str, network: torch.nn.Module, whole: Signals, others: Mapping[Part, Signals]) -> Effects:
    """Ask the network about every signal, as it is and without each part."""
    from heatproof.explainers.wrapped import reached
    from heatproof.models.networks import ask, check_logits

    module = reached(network)

    def logits(signals: Signals) -> NDArray[np.float64]:
        inputs = torch.as_tensor(inputs_of(signals), dtype=torch.float32)
        outputs = [ask(name, module, part, what="signals") for part in inputs.split(CHUNK)]
        found = check_logits(name, torch.cat(outputs), len(signals), len(mnist1d.TEMPLATES))
        return np.asarray(found.cpu().double().numpy())

    before = logits(whole)
    after = [logits(others[part]) for part in PARTS]
    seen = before.argmax(1)
    places = np.arange(len(seen))
    chances = np.exp(before - before.max(1, keepdims=True))
    return Effects(
        seen,
        chances[places, seen] / chances.sum(1),
        np.stack([before[places, seen] - values[places, seen] for values in after], 1),
        np.stack([values.argmax(1) for values in after], 1),
    )


@register_benchmark("svea-removal")
@dataclass(frozen=True, kw_only=True)
class SveaRemoval(Benchmark):
    """MNIST-1D without the digit, and without the noise: does the relevance follow what these really do?

    Examples:

    heatproof run svea-removal --preset quick

    heatproof run svea-removal --explainers rise,gradient,my_method.py:explain

    heatproof run svea-removal --weights net.npz
    """

    title = "MNIST-1D without the digit: what does the network go by?"
    paper = "Heatproof; after FunnyBirds (Hesse et al. 2023), which takes parts out of rendered birds"
    metrics = METRICS
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {"quick": {"limit": 200}, "standard": {}}
    preset_help = "quick: 200 test signals. standard: all 1,000."
    batch_size = 500
    quantities = ("logit",)
    with_all = False  # it asks what SVEA asks, by other means

    limit: int | None = option(None, "Use so many test signals only.")
    model: Any = option(None, "Your own network (B,1,40) -> (B,10): my_net.py:factory, package:factory.")
    weights: Path | str | None = option(None, "Weights (.npz, .pt) for the paper's network.")
    poolings: Sequence[str] = option(POOLINGS, "How signed relevance becomes non-negative.")

    def __post_init__(self) -> None:
        require_limit(self.limit)
        require_poolings(self.poolings)
        Svea(model=self.model, weights=self.weights)  # what SVEA refuses is refused here

    @property
    def svea(self) -> Svea:
        """The benchmark that has the same signals and networks."""
        return Svea(model=self.model, weights=self.weights)

    @property
    def default_explainers(self) -> tuple[str, ...]:
        """SVEA's methods and floors; the ceilings paint each part with its effect."""
        methods = [name for name in self.svea.default_explainers if name != "oracle"]
        return (*methods, f"{PAINTED}:ObjectSize", f"{PAINTED}:TrueEffects", f"{PAINTED}:TrueEffects:over=sum")

    def open(self, seed: int, progress: Progress = silent) -> OpenedSveaRemoval:
        from heatproof.models.weights import fingerprint

        every = self.svea.cases()
        count = len(every.test) if self.limit is None else min(self.limit, len(every.test))
        test = every.test[:count]
        cases = replace(every, test=test, test_places=every.test_places[:count])
        ((name, network),) = self.svea.modules(every, progress, train_missing=True).items()
        others = {part: mnist1d.published(part)[1][:count] for part in PARTS}
        effects = measure(name, network, test, others)
        names = cases.ids("test")
        shown = examples_of(names, test.y, effects.seen, seed)
        places = {case: place for place, case in enumerate(names)}
        return OpenedSveaRemoval(
            story=Story(
                title=self.title,
                paper=self.paper,
                dataset="mnist1d",
                metrics=tuple(replace(metric, localises=False) for metric in metric_words(METRICS)),
                columns=tuple(column(metric, self.poolings[0]) for metric in METRICS),
                poolings=tuple(self.poolings),
                words=Words(cases="signals", truth="the template of the digit", as_published="logit"),
                examples={case: f"digit {test.y[places[case]]}" for case in shown},
                captions={case: caption(effects, places[case]) for case in shown},
                facts=(Fact("label", "digit", filters=True), Fact("predicted", "the network sees"), *EFFECT_FACTS),
                sections=(health(test, effects, others),),
                repeats=count - len(np.unique(test.x, axis=0)),
            ),
            settings={"limit": self.limit, "poolings": list(self.poolings)},
            fingerprint=cases.fingerprint,
            models={name: fingerprint(network)},
            counts={"test": count},
            per_chunk=CHUNK,
            sample=SIGNALS,
            recipe=self,
            network=network,
            cases=cases,
            effects=effects,
        )


EFFECT_FACTS = tuple(Fact(f"effect_{part}", f"effect of the {part}") for part in PARTS)


def column(metric: str, pooling: str) -> Column:
    return Column(metric, "template" if metric == "mass_accuracy" else TRUTH, pooling)


def caption(effects: Effects, place: int) -> str:
    """What the class's logit becomes without each part."""
    told = [
        f"{-effect:+.2f} without the {part} (then {after})".replace("-", "\N{MINUS SIGN}")
        for part, effect, after in zip(PARTS, effects.effect[place], effects.after[place], strict=True)
    ]
    return f"The network sees {effects.seen[place]}; its logit {', '.join(told)}"


def health(test: Signals, effects: Effects, others: Mapping[Part, Signals]) -> Section:
    """Whether the network goes by the digit: without it there is nothing to be right about."""
    lines = [("as it is", [Cell(f"{(effects.seen == test.y).mean():.1%}"), Cell(""), Cell("")])]
    for place, part in enumerate(PARTS):
        effect, after = effects.effect[:, place], effects.after[:, place]
        larger = (np.abs(effect) > np.abs(effects.effect[:, 1 - place])).mean()
        right = (after == others[part].y).mean()
        lines.append(
            (
                f"without the {part}",
                [
                    Cell(f"{value:{form}}", float(value))
                    for value, form in ((right, ".1%"), (np.median(effect), ".2f"), (larger, ".1%"))
                ],
            )
        )
    heads = ("signal", "right", "median effect on the logit", "the larger effect of the two")
    note = f"{len(test):,} test signals; guessing is right in {1 / len(mnist1d.TEMPLATES):.0%}."
    return Section(
        "What if the digit were not there?",
        [
            Paragraph("Noise that was drawn for the template's places is seen there once the template is out."),
            Table("What the network sees in signals without a part of them", heads, lines, note=note),
        ],
    )


@dataclass(frozen=True, eq=False, kw_only=True)
class OpenedSveaRemoval(Opened):
    """Test signals, a network, and what each part of a signal does to the class that it sees."""

    recipe: SveaRemoval
    network: torch.nn.Module
    cases: Cases
    effects: Effects

    def chunks_with(self, cases: Collection[str]) -> Sequence[Chunk]:
        wanted = {place // CHUNK for place, name in enumerate(self.cases.ids("test")) if name in cases}
        return [chunk for place, chunk in enumerate(self.chunks()) if place in wanted]

    def load(self, chunk: Chunk) -> Batch:
        start = int(chunk.name.rpartition("-")[2])
        some = slice(start, start + chunk.cases)
        part, effects = self.cases.test[some], self.effects[some]
        template = torch.as_tensor(part.template)
        truth = torch.as_tensor(np.where(effects.matters[:, None], effects.effect, np.nan))
        return ObjectBatch(
            inputs=torch.as_tensor(inputs_of(part), dtype=torch.float32),
            target=torch.as_tensor(effects.seen),
            ids=tuple(case_name("test", place) for place in self.cases.test_places[some].tolist()),
            masks={"template": template},
            facts={
                "label": part.y.tolist(),
                "predicted": effects.seen.tolist(),
                "correct": (effects.seen == part.y).tolist(),
                "probability": effects.probability.tolist(),
                **{f"effect_{name}": effects.effect[:, place].tolist() for place, name in enumerate(PARTS)},
            },
            regions=torch.where(template, 1, 2),
            truths={"logit": truth, TRUTH: truth.abs()},
        )

    def model(self, name: str) -> torch.nn.Module:
        return self.network

    def score(self, batch: Batch, relevance: torch.Tensor, model: torch.nn.Module) -> pl.DataFrame:
        assert isinstance(batch, ObjectBatch)
        found = rows.score_table(batch, relevance, self.recipe.poolings)
        return found.filter(pl.col("metric").is_in(METRICS) & (pl.col("pooling") != rows.SIGNED))

    def about(self, case: Batch) -> str:
        return "" if case.facts["correct"][0] else f"digit {case.facts['label'][0]}"

    def end(self, rows_: pl.DataFrame, table: pl.DataFrame) -> Ending:
        silent_ones = int((~self.effects.matters).sum())
        return Ending(
            [f"In {silent_ones:,} of {len(self.effects.seen):,} signals neither part changes the logit by {LEAST:g}."]
            if silent_ones
            else []
        )
