"""SVEA (Sattarzadeh et al. 2021): short signals, a shallow CNN, and regions of explanation.

Each signal of MNIST-1D is explained for the digit that the network sees in it. The 12 points around the maximum of
the relevance are its region of explanation (ROE). Three scores are the paper's: the ROE test (can a linear SVM name
the digit from the ROE alone?), Drop and Increase (what does the network make of the ROE alone?). Three are ours,
because we know where the digit lies: mass accuracy, rank accuracy and the pointing game against its template.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, get_args

from heatproof.benchmarks.base import (
    Benchmark,
    Ending,
    Opened,
    Reference,
    metric_words,
    option,
    register_benchmark,
    require_limit,
    require_poolings,
    score_rows,
)
from heatproof.benchmarks.references import read_reference
from heatproof.benchmarks.sample import SIGNALS
from heatproof.benchmarks.svea.examples import (
    caption,
    examples_of,
    facts_of,
    marks_of,
    named_examples,
    words_of,
)
from heatproof.benchmarks.svea.networks import Network, classes_seen, confidence_within, predict
from heatproof.benchmarks.svea.own import centring, has_masks, own_signals
from heatproof.benchmarks.svea.readings import readings_section
from heatproof.benchmarks.svea.regions import (
    CHUNK,
    METRICS,
    POOLINGS,
    ROE_LENGTH,
    Cases,
    first_signals,
    inputs_of,
    roe_rows,
)
from heatproof.benchmarks.svea.words import agreement, performance, why_two_targets
from heatproof.cases import Batch, Chunk
from heatproof.errors import HeatproofError, require_whole, unknown_name
from heatproof.lazy import np, pl, torch
from heatproof.metrics.fidelity import drop, increase
from heatproof.metrics.localisation import mass_accuracy, pointing_game, rank_accuracy
from heatproof.metrics.understandability import Svm, WindowRule, window_starts
from heatproof.pooling import pool
from heatproof.progress import Progress, silent
from heatproof.story import Mark, Story

CHUNK_VALUES = 2**22
"""Values of inputs in a chunk of long signals."""
WITHOUT_MASKS = ("roe_accuracy", "drop", "increase")
"""Scores that need not know where the class lies."""


@register_benchmark("svea")
@dataclass(frozen=True, kw_only=True)
class Svea(Benchmark):
    """SVEA: short signals, a shallow network; about a minute on a laptop.

    Examples:

    heatproof run svea --preset quick

    heatproof run svea --explainers rise:masks=1000,gradient --target logit

    heatproof run svea --explainers gradient,my_method.py:explain --out runs/mine

    heatproof run svea --model my_net.py:build

    heatproof run svea --signals ecg.npz --model my_net.py:build --region 40
    """

    title = "SVEA: regions of explanation on MNIST-1D"
    paper = (
        "Sattarzadeh et al. 2021, SVEA: A Small-scale Benchmark for Validating the Usability of Post-hoc Explainable AI"
        " Solutions in Image and Signal Recognition"
    )
    metrics = METRICS
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "quick": {"limit": 1000},
        "standard": {},
        "paper": {"model_seeds": 3},
    }
    preset_help = "quick: 1,000 signals. standard: all 5,000. paper: all, on three networks."

    limit: int | None = option(None, "Use about this many signals only, four in five to train the SVM.")
    signals: Path | str | None = option(
        None,
        "Signals of your own: a .npz with x_train, y_train, x_test, y_test, and mask_test where it is known what"
        " matters; with --model or --weights (heatproof train signals).",
    )
    model: Any = option(
        None,
        "Your own network (B,1,40) -> (B,10), or from your signals to their classes: my_net.py:factory,"
        " package:factory; net.onnx or http://ADDRESS.",
    )
    weights: Path | str | None = option(None, "Weights (.npz, .pt) for the paper's network.")
    model_seeds: int = option(1, "Explain this many networks, trained from seeds 1, 2, ...; shows their spread.")
    retrain: bool = option(False, "Train networks even where trained ones ship with Heatproof.")
    region: int | None = option(
        None, "Points of a region of explanation (ROE). Default: 12; of your own signals three tenths, as in the paper."
    )
    window: WindowRule = option(
        "clipped",
        "Where the ROE lies. clipped (around the maximum; reproduces the paper), literal (equation 1 as printed), after"
        " or before (it begins or ends with the maximum).",
    )
    svm: Svm = option(
        "liblinear", "liblinear, or literal (the paper's 10,000 gradient steps): how the SVM of the ROE test learns."
    )
    poolings: Sequence[str] = option(
        POOLINGS, "How signed relevance becomes non-negative for the scores against the template."
    )
    examples: Sequence[str] | None = option(
        None,
        "Test signals on the page, such as test-0003,test-0017. Default: some of each digit, seen right and wrong.",
    )

    @property
    def default_explainers(self) -> tuple[str, ...]:
        known = self.signals is None or has_masks(Path(self.signals))
        return (
            "gradient",
            "gradient_x_input",
            "smoothgrad",
            "integrated_gradients",
            "grad_cam",
            "grad_cam_pp",
            "grad_cam_pp:alpha=normalised",
            "xgrad_cam",
            "score_cam",
            "rise",
            "sise",
            "random",
            "centre",
            "input_magnitude",
            *(["oracle"] if known else []),
        )

    def __post_init__(self) -> None:
        require_limit(self.limit)
        require_whole("model_seeds", self.model_seeds, 1)
        if self.window not in get_args(WindowRule):
            raise unknown_name("window rule", self.window, get_args(WindowRule))
        if self.svm not in get_args(Svm):
            raise unknown_name("SVM", self.svm, get_args(Svm))
        require_poolings(self.poolings)
        if self.region is not None:
            require_whole("region", self.region, 1)
        if self.examples is not None:
            named_examples(self.examples, self.cases().ids("test"))
        if self.signals is not None and self.weights is None and self.model is None:
            raise HeatproofError(
                f"signals: say with --model which network knows the classes of {self.signals}, or train the paper's on"
                f" them (heatproof train signals {self.signals} --out net.npz) and give it with --weights net.npz."
            )
        if self.weights is not None and self.model is not None:
            raise HeatproofError("give either weights (for the paper's network) or a model, not both.")
        if (self.model_seeds > 1 or self.retrain) and (self.weights is not None or self.model is not None):
            raise HeatproofError("model_seeds and retrain train networks; leave them out with weights or a model.")

    @classmethod
    def from_preset(cls, preset: str, **options: Any) -> Benchmark:
        """A network that is given takes the place of those that the preset would train."""
        if options.get("weights") is not None or options.get("model") is not None:
            options["model_seeds"] = options.get("model_seeds") or 1
        return super().from_preset(preset, **options)

    def cases(self) -> Cases:
        """The signals to explain."""
        if self.signals is not None:
            return own_signals(Path(self.signals), self.region, self.limit)
        cases = first_signals(self.limit)
        if self.region is not None and self.region > cases.length:
            raise HeatproofError(f"region: {self.region} points do not fit signals of {cases.length}.")
        return cases if self.region is None else replace(cases, region=self.region)

    @property
    def is_published(self) -> bool:
        """Whether signals and regions are the paper's."""
        return self.signals is None and self.region in (None, ROE_LENGTH)

    def open(self, seed: int, progress: Progress = silent) -> OpenedSvea:
        return self.opened(seed, progress, train_missing=True)

    def rehearse(self, seed: int, progress: Progress = silent) -> OpenedSvea:
        """Untrained networks stand in for those that would have to be trained."""
        return self.opened(seed, progress, train_missing=False)

    def opened(self, seed: int, progress: Progress, train_missing: bool) -> OpenedSvea:
        from heatproof.models.weights import fingerprint

        cases = self.cases()
        test = cases.test
        per_chunk = max(1, min(CHUNK, CHUNK_VALUES // (cases.channels * cases.length)))
        networks = {
            name: Network(module, *(predict(name, module, cases, split, per_chunk) for split in ("train", "test")))
            for name, module in self.modules(cases, progress, train_missing).items()
        }
        seen = classes_seen(networks)
        first = next(iter(seen.values()))
        names = cases.ids("test")
        drawn = self.examples is None
        shown = named_examples(self.examples, names) if self.examples else examples_of(names, test.y, first, seed)
        known = dict(zip(names, zip(cases.named(test.y), cases.named(first), strict=True), strict=True))
        return OpenedSvea(
            story=Story(
                title=self.title if self.signals is None else "SVEA: regions of explanation on signals of your own",
                paper=self.paper,
                dataset="mnist1d" if self.signals is None else Path(self.signals).stem,
                metrics=metric_words(metric for metric in METRICS if cases.has_masks or metric in WITHOUT_MASKS),
                poolings=tuple(self.poolings) if cases.has_masks else (),
                words=words_of(cases),
                examples={case: f"{cases.noun} {known[case][0]}" for case in shown},
                captions={case: said for case in shown if (said := caption(*known[case]))},
                facts=facts_of(cases),
                sections=(performance(seen, test.y, cases.classes, cases.noun),),
                repeats=len(test) - len(np.unique(test.x, axis=0)),
            ),
            settings={
                "limit": self.limit,
                "window": self.window,
                "roe_length": cases.region,
                "poolings": list(self.poolings),
                **({} if self.svm == "liblinear" else {"svm": self.svm}),
                **({} if self.examples is None else {"examples": list(self.examples)}),
            },
            fingerprint=cases.fingerprint,
            models={name: fingerprint(network.module) for name, network in networks.items()},
            counts=cases.counts,
            per_chunk=per_chunk,
            sample=SIGNALS if drawn else None,
            recipe=self,
            cases=cases,
            networks=networks,
        )

    def modules(self, cases: Cases, progress: Progress, train_missing: bool) -> dict[str, torch.nn.Module]:
        """The networks to explain, by name; untrained ones stand in for those that are missing, if so wished."""
        from heatproof.models.mnist1d_cnn import Mnist1dCnn, trained_network
        from heatproof.models.networks import load_network, returning_logits
        from heatproof.models.weights import load_weights

        if self.model is not None:
            name, module = load_network(self.model)
            sample = torch.as_tensor(inputs_of(cases.test)[:1], dtype=torch.float32)
            return {name: returning_logits(module, sample, name=name, what="signals")}
        if self.weights is not None:
            network = Mnist1dCnn(cases.length, len(cases.classes), inputs=cases.channels).eval()
            load_weights(network, Path(self.weights))
            return {Path(self.weights).stem: network}
        return {
            f"mnist1d_cnn-{seed}": trained_network(seed, self.retrain, progress, train_missing)
            for seed in range(1, self.model_seeds + 1)
        }


@dataclass(frozen=True, eq=False, kw_only=True)
class OpenedSvea(Opened):
    """Signals, networks and what these see in them."""

    recipe: Svea
    cases: Cases
    networks: Mapping[str, Network]

    def chunks_with(self, cases: Collection[str]) -> Sequence[Chunk]:
        wanted = {
            (split, place // self.per_chunk * self.per_chunk)
            for split in self.cases.counts
            for place, name in enumerate(self.cases.ids(split))
            if name in cases
        }
        return [chunk for chunk in super().chunks_with(cases) if chunk_start(chunk) in wanted]

    def load(self, chunk: Chunk) -> Batch:
        split, start = chunk_start(chunk)
        rows = slice(start, start + chunk.cases)
        network = self.networks[chunk.model]
        part = self.cases.part(split)[0][rows]
        probabilities = (network.test if split == "test" else network.train)[rows]
        probability, predicted = probabilities.max(1)
        return Batch(
            inputs=torch.as_tensor(inputs_of(part), dtype=torch.float32),
            target=predicted,
            ids=tuple(self.cases.ids(split)[rows]),
            masks={"template": torch.as_tensor(part.template)} if self.cases.has_masks else {},
            facts={
                "split": [split] * len(part),
                "label": self.cases.named(part.y),
                "predicted": self.cases.named(predicted.tolist()),
                "correct": (predicted.cpu().numpy() == part.y).tolist(),
                "probability": probability.tolist(),
                **({"mask_size": part.template.sum(1).tolist()} if self.cases.has_masks else {}),
            },
        )

    def model(self, name: str) -> torch.nn.Module:
        return self.networks[name].module

    def score(self, batch: Batch, relevance: torch.Tensor, model: torch.nn.Module) -> pl.DataFrame:
        region = self.cases.region
        starts = window_starts(relevance.sum(1), region, self.recipe.window)
        values = {("roe_start", "", ""): starts}
        uniform: dict[str, torch.Tensor] = {}
        if batch.facts["split"][0] == "test":
            full = torch.tensor(batch.facts["probability"])
            kept = confidence_within(starts, batch, model, region)
            values |= {("drop", "", ""): drop(full, kept), ("increase", "", ""): increase(full, kept)}
            middle = torch.full_like(starts, (batch.space[0] - region) // 2)
            blind = confidence_within(middle, batch, model, region)
            uniform = {"drop": drop(full, blind), "increase": increase(full, blind)}
            for pooling in self.recipe.poolings if self.cases.has_masks else ():
                truth = batch.masks["template"]
                heatmap = pool(relevance, pooling)
                values |= {
                    ("mass_accuracy", "template", pooling): mass_accuracy(heatmap, truth),
                    ("rank_accuracy", "template", pooling): rank_accuracy(heatmap, truth),
                    ("pointing_game", "template", pooling): pointing_game(heatmap, truth),
                }
        return score_rows(batch, values, uniform=uniform)

    def remembers(self) -> pl.Expr:
        return pl.col("metric") == "roe_start"

    def load_libraries(self) -> None:
        import sklearn.svm  # noqa: F401

    def summarise(self, rows: pl.DataFrame) -> pl.DataFrame:
        """The ROE test of every explainer whose regions are complete, and of the raw signals."""
        return roe_rows(self.cases, rows, self.networks, self.recipe.svm)

    def conclude(self, rows: pl.DataFrame, summary: pl.DataFrame, table: pl.DataFrame) -> Ending:
        """Notes, the regions of the examples with what the SVM reads in them, and what it goes by."""
        first = next(iter(self.networks))
        own_world = self.recipe.signals is not None
        return Ending(
            notes=[
                *why_two_targets(rows, table, not own_world),
                *agreement(table),
                *(centring(self.cases) if own_world else []),
            ],
            marks=marks_of(rows, summary, first, list(self.story.examples), self.cases),
            sections=readings_section(self.cases, rows, summary, first, self.recipe.svm),
        )

    def about(self, case: Batch) -> str:
        """The class, where the network sees another."""
        return "" if case.facts["correct"][0] else f"{self.cases.noun} {case.facts['label'][0]}"

    def marks(self, rows: pl.DataFrame) -> list[Mark]:
        """The regions of explanation."""
        return [
            Mark(row["explainer"], row["target"], row["case"], int(row["value"]), self.cases.region)
            for row in rows.filter(pl.col("metric") == "roe_start").iter_rows(named=True)
        ]

    def reference(self) -> Reference:
        """Table 1 of the paper, whose network is ours unless another was given; none on other signals."""
        if self.recipe.signals is not None:
            return Reference()
        return Reference(read_reference("svea"), is_about_this=self.recipe.model is None and self.recipe.is_published)


def chunk_start(chunk: Chunk) -> tuple[str, int]:
    """The part of the data that a chunk is of, and the place where it begins."""
    split, start = chunk.name.split("-")
    return split, int(start)
