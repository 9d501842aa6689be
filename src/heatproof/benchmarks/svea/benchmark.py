"""SVEA (Sattarzadeh et al. 2021): short signals, a shallow CNN, and regions of explanation.

Each signal of MNIST-1D is explained for the digit that the network sees in it. The 12 points around the maximum of
the relevance are its region of explanation (ROE). Three scores are the paper's: the ROE test (can a linear SVM name
the digit from the ROE alone?), Drop and Increase (what does the network make of the ROE alone?). Three are ours,
because we know where the digit lies: mass accuracy, rank accuracy and the pointing game against its template.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, get_args

from heatproof import mnist1d
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
from heatproof.benchmarks.svea.examples import FACTS, WORDS, caption, examples_of, marks_of, named_examples
from heatproof.benchmarks.svea.readings import readings_section
from heatproof.benchmarks.svea.regions import (
    CHUNK,
    DIGITS,
    METRICS,
    POOLINGS,
    ROE_LENGTH,
    Cases,
    case_name,
    first_signals,
    roe_rows,
)
from heatproof.benchmarks.svea.words import agreement, performance
from heatproof.cases import Batch, Chunk
from heatproof.errors import HeatproofError, require_whole, unknown_name
from heatproof.explainers.guards import untouched
from heatproof.lazy import np, pl, torch
from heatproof.metrics.fidelity import drop, increase
from heatproof.metrics.localisation import mass_accuracy, pointing_game, rank_accuracy
from heatproof.metrics.understandability import Svm, WindowRule, window_mask, window_starts
from heatproof.pooling import pool
from heatproof.progress import Progress, silent
from heatproof.story import Mark, Story

if TYPE_CHECKING:
    from heatproof.mnist1d import Signals


@register_benchmark("svea")
@dataclass(frozen=True, kw_only=True)
class Svea(Benchmark):
    """SVEA: short signals, a shallow network; about a minute on a laptop.

    Examples:

    heatproof run svea --preset quick

    heatproof run svea --explainers rise:masks=1000,gradient --target logit

    heatproof run svea --explainers gradient,my_method.py:explain --out runs/mine

    heatproof run svea --model my_net.py:build
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
    model: Any = option(
        None, "Your own network (B,1,40) -> (B,10): my_net.py:factory, package:factory; net.onnx or http://ADDRESS."
    )
    weights: Path | str | None = option(None, "Weights (.npz, .pt) for the paper's network.")
    model_seeds: int = option(1, "Explain this many networks, trained from seeds 1, 2, ...; shows their spread.")
    retrain: bool = option(False, "Train networks even where trained ones ship with Heatproof.")
    window: WindowRule = option(
        "clipped", "clipped (reproduces the paper) or literal (equation 1 as printed): where the ROE begins."
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
            "oracle",
        )

    def __post_init__(self) -> None:
        require_limit(self.limit)
        require_whole("model_seeds", self.model_seeds, 1)
        if self.window not in get_args(WindowRule):
            raise unknown_name("window rule", self.window, get_args(WindowRule))
        if self.svm not in get_args(Svm):
            raise unknown_name("SVM", self.svm, get_args(Svm))
        require_poolings(self.poolings)
        if self.examples is not None:
            named_examples(self.examples, first_signals(self.limit).counts["test"])
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

    def open(self, seed: int, progress: Progress = silent) -> OpenedSvea:
        return self.opened(seed, progress, train_missing=True)

    def rehearse(self, seed: int, progress: Progress = silent) -> OpenedSvea:
        """Untrained networks stand in for those that would have to be trained."""
        return self.opened(seed, progress, train_missing=False)

    def opened(self, seed: int, progress: Progress, train_missing: bool) -> OpenedSvea:
        from heatproof.models.weights import fingerprint

        cases = first_signals(self.limit)
        test = cases.test
        networks = {
            name: Network(module, predict(name, module, cases.train), predict(name, module, test))
            for name, module in self.modules(progress, train_missing).items()
        }
        seen = digits_seen(networks)
        first = next(iter(seen.values()))
        names = cases.ids("test")
        drawn = self.examples is None
        shown = named_examples(self.examples, len(test)) if self.examples else examples_of(names, test.y, first, seed)
        known = dict(zip(names, zip(test.y.tolist(), first.tolist(), strict=True), strict=True))
        return OpenedSvea(
            story=Story(
                title=self.title,
                paper=self.paper,
                dataset="mnist1d",
                metrics=metric_words(self.metrics),
                poolings=tuple(self.poolings),
                words=WORDS,
                examples={case: f"digit {known[case][0]}" for case in shown},
                captions={case: said for case in shown if (said := caption(*known[case]))},
                facts=FACTS,
                sections=(performance(seen, test.y),),
                repeats=len(test) - len(np.unique(test.x, axis=0)),
            ),
            settings={
                "limit": self.limit,
                "window": self.window,
                "roe_length": ROE_LENGTH,
                "poolings": list(self.poolings),
                **({} if self.svm == "liblinear" else {"svm": self.svm}),
                **({} if self.examples is None else {"examples": list(self.examples)}),
            },
            fingerprint=cases.fingerprint,
            models={name: fingerprint(network.module) for name, network in networks.items()},
            counts=cases.counts,
            per_chunk=CHUNK,
            sample=SIGNALS if drawn else None,
            recipe=self,
            cases=cases,
            networks=networks,
        )

    def modules(self, progress: Progress, train_missing: bool) -> dict[str, torch.nn.Module]:
        """The networks to explain, by name; untrained ones stand in for those that are missing, if so wished."""
        from heatproof.models.mnist1d_cnn import Mnist1dCnn, trained_network
        from heatproof.models.networks import load_network, returning_logits
        from heatproof.models.weights import load_weights

        if self.model is not None:
            name, module = load_network(self.model)
            return {
                name: returning_logits(module, torch.zeros(1, 1, mnist1d.Settings.length), name=name, what="signals")
            }
        if self.weights is not None:
            network = Mnist1dCnn().eval()
            load_weights(network, Path(self.weights))
            return {Path(self.weights).stem: network}
        return {
            f"mnist1d_cnn-{seed}": trained_network(seed, self.retrain, progress, train_missing)
            for seed in range(1, self.model_seeds + 1)
        }


@dataclass(frozen=True, eq=False)
class Network:
    """A network and its class probabilities for the training and the test signals."""

    module: torch.nn.Module
    train: torch.Tensor
    test: torch.Tensor


@dataclass(frozen=True, eq=False, kw_only=True)
class OpenedSvea(Opened):
    """Signals, networks and what these see in them."""

    recipe: Svea
    cases: Cases
    networks: Mapping[str, Network]

    def chunks_with(self, cases: Collection[str]) -> Sequence[Chunk]:
        parted = [case.partition("-") for case in cases]
        wanted = {(split, int(number) // CHUNK * CHUNK) for split, _, number in parted if number.isdecimal()}
        return [chunk for chunk in super().chunks_with(cases) if chunk_start(chunk) in wanted]

    def load(self, chunk: Chunk) -> Batch:
        split, start = chunk_start(chunk)
        rows = slice(start, start + chunk.cases)
        network = self.networks[chunk.model]
        part = self.cases.part(split)[0][rows]
        probabilities = (network.test if split == "test" else network.train)[rows]
        probability, predicted = probabilities.max(1)
        return Batch(
            inputs=torch.as_tensor(part.x, dtype=torch.float32).unsqueeze(1),
            target=predicted,
            ids=tuple(case_name(split, i) for i in range(rows.start, rows.stop)),
            masks={"template": torch.as_tensor(part.template)},
            facts={
                "split": [split] * len(part),
                "label": part.y.tolist(),
                "predicted": predicted.tolist(),
                "correct": (predicted.cpu().numpy() == part.y).tolist(),
                "probability": probability.tolist(),
                "mask_size": part.template.sum(1).tolist(),
            },
        )

    def model(self, name: str) -> torch.nn.Module:
        return self.networks[name].module

    def score(self, batch: Batch, relevance: torch.Tensor, model: torch.nn.Module) -> pl.DataFrame:
        starts = window_starts(relevance.sum(1), ROE_LENGTH, self.recipe.window)
        values = {("roe_start", "", ""): starts}
        uniform: dict[str, torch.Tensor] = {}
        if batch.facts["split"][0] == "test":
            full = torch.tensor(batch.facts["probability"])
            kept = confidence_within(starts, batch, model)
            values |= {("drop", "", ""): drop(full, kept), ("increase", "", ""): increase(full, kept)}
            middle = torch.full_like(starts, (batch.space[0] - ROE_LENGTH) // 2)
            blind = confidence_within(middle, batch, model)
            uniform = {"drop": drop(full, blind), "increase": increase(full, blind)}
            truth = batch.masks["template"]
            for pooling in self.recipe.poolings:
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
        return Ending(
            notes=[*why_two_targets(rows, table), *agreement(table)],
            marks=marks_of(rows, summary, first, list(self.story.examples)),
            sections=readings_section(self.cases, rows, summary, first, self.recipe.svm),
        )

    def about(self, case: Batch) -> str:
        """The digit, where the network sees another."""
        return "" if case.facts["correct"][0] else f"digit {case.facts['label'][0]}"

    def marks(self, rows: pl.DataFrame) -> list[Mark]:
        """The regions of explanation."""
        return [
            Mark(row["explainer"], row["target"], row["case"], int(row["value"]), ROE_LENGTH)
            for row in rows.filter(pl.col("metric") == "roe_start").iter_rows(named=True)
        ]

    def reference(self) -> Reference:
        """Table 1 of the paper, whose network is ours unless another was given."""
        return Reference(read_reference("svea"), is_about_this=self.recipe.model is None)


def confidence_within(starts: torch.Tensor, batch: Batch, model: torch.nn.Module) -> torch.Tensor:
    """The target's probability where all but a window that begins at `starts` (cases,) is zero."""
    region = window_mask(starts, batch.space[0], ROE_LENGTH)
    with torch.no_grad(), untouched(model):
        outputs = model(batch.inputs * region.unsqueeze(1))
    kept: torch.Tensor = outputs.softmax(1).gather(1, batch.target[:, None])[:, 0]
    return kept


def chunk_start(chunk: Chunk) -> tuple[str, int]:
    """The part of the data that a chunk is of, and the place where it begins."""
    split, start = chunk.name.split("-")
    return split, int(start)


def why_two_targets(rows: pl.DataFrame, table: pl.DataFrame) -> list[str]:
    """Why the table has two targets, with this run's own numbers."""
    probabilities = rows.unique(["model", "case"])["probability"]
    saturated = (probabilities == 1.0).sum() / len(probabilities)
    lines = table.filter((pl.col("metric") == "roe_accuracy") & pl.col("explainer").is_in(["gradient", "grad_cam"]))
    means = {(r["explainer"], r["target"]): r["mean"] for r in lines.iter_rows(named=True)}  # sums of models are last
    changes = [
        f"{name} from {means[name, 'probability']:.1%} to {means[name, 'logit']:.1%}"
        for name in ("gradient", "grad_cam")
        if (means.get((name, "logit")) or 0) > (means.get((name, "probability")) or 1) + 0.02
    ]
    if not changes or saturated < 0.01:
        return []
    return [
        f"Why two targets? {saturated:.1%} of the signals get a probability of exactly 1.0 in float32, so its"
        " gradient cancels and what is left is rounding; methods that read the gradient then point anywhere."
        f" Explaining the logit instead takes {' and '.join(changes)} in the ROE test:"
        " much of the published ranking of gradient and CAM methods is this artefact."
    ]


def digits_seen(networks: Mapping[str, Network]) -> dict[str, np.ndarray[Any, Any]]:
    """The digit that each network sees in each test signal."""
    return {name: network.test.argmax(1).cpu().numpy() for name, network in networks.items()}


def predict(name: str, module: torch.nn.Module, part: Signals) -> torch.Tensor:
    """Class probabilities (N, 10) in float32."""
    from heatproof.explainers.wrapped import reached
    from heatproof.models.networks import ask, check_logits

    module = reached(module)
    signals = torch.as_tensor(part.x, dtype=torch.float32).unsqueeze(1)
    outputs = [
        check_logits(name, ask(name, module, rows, what="signals"), len(rows), DIGITS) for rows in signals.split(CHUNK)
    ]
    return (torch.cat(outputs) if outputs else torch.zeros(0, DIGITS)).softmax(1)
