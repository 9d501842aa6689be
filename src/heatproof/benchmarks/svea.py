"""SVEA (Sattarzadeh et al. 2021): short signals, a shallow CNN, and regions of explanation.

Each signal of MNIST-1D is explained for the digit that the network sees in it. The 12 points around the maximum of
the relevance are its region of explanation (ROE). Three scores are the paper's: the ROE test (can a linear SVM name
the digit from the ROE alone?), Drop and Increase (what does the network make of the ROE alone?). Three are ours,
because we know where the digit lies: mass accuracy, rank accuracy and the pointing game against its template.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, get_args

from heatproof import mnist1d
from heatproof.benchmarks.base import Benchmark, register_benchmark, score_rows
from heatproof.cases import Batch
from heatproof.engine.parts import ScoreRows
from heatproof.engine.plan import Chunk
from heatproof.errors import HeatproofError, require_whole, unknown_name
from heatproof.explainers.base import untouched
from heatproof.lazy import np, pl, torch
from heatproof.loading import load_object
from heatproof.metrics.fidelity import drop, increase
from heatproof.metrics.localisation import mass_accuracy, pointing_game, rank_accuracy
from heatproof.metrics.understandability import WindowRule, cut_windows, roe_accuracy, window_mask, window_starts
from heatproof.pooling import pool, poolings
from heatproof.progress import Progress, silent
from heatproof.workspace import workspace

if TYPE_CHECKING:
    from heatproof.mnist1d import Signals
    from heatproof.models.mnist1d_cnn import Mnist1dCnn

ROE_LENGTH = 12
CHUNK = 500


@register_benchmark("svea")
@dataclass(kw_only=True, eq=False)
class Svea(Benchmark):
    """The SVEA benchmark.

    limit        use about this many signals, four in five for training the SVM (default: all 5,000)
    weights      explain the paper's network with the weights of this file
    model        explain this network instead: a module (B, 1, 40) -> (B, 10), or `file.py:factory`
    model_seeds  explain this many networks, trained from seeds 1, 2, ...
    retrain      train them even where weights ship with the package
    window       where the ROE begins: "clipped" (reproduces the paper) or "literal" (equation 1 as printed)
    poolings     how signed relevance becomes non-negative for the scores against the template
    """

    title = "SVEA: regions of explanation on MNIST-1D"
    paper = (
        "Sattarzadeh et al. 2021, SVEA: A Small-scale Benchmark for Validating the Usability of Post-hoc Explainable AI"
        " Solutions in Image and Signal Recognition"
    )
    dataset = "mnist1d"
    metrics = ("roe_accuracy", "drop", "increase", "mass_accuracy", "rank_accuracy", "pointing_game")
    case_settings = ("data",)
    default_explainers = (
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
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "quick": {"limit": 1000},
        "standard": {},
        "paper": {"model_seeds": 3},
    }

    limit: int | None = None
    weights: Path | str | None = None
    model: Any = field(default=None, repr=False)
    model_seeds: int = 1
    retrain: bool = False
    window: WindowRule = "clipped"
    poolings: Sequence[str] = ("sum_pos", "sum_abs")

    def __post_init__(self) -> None:
        if self.limit is not None:
            require_whole("limit", self.limit, 1)
        require_whole("model_seeds", self.model_seeds, 1)
        if self.window not in get_args(WindowRule):
            raise unknown_name("window rule", self.window, get_args(WindowRule))
        if not self.poolings:
            raise HeatproofError("poolings is empty; name at least one (heatproof list poolings).")
        for name in self.poolings:
            poolings[name]
        if self.weights is not None and self.model is not None:
            raise HeatproofError("give either weights (for the paper's network) or a model, not both.")
        if (self.model_seeds > 1 or self.retrain) and (self.weights is not None or self.model is not None):
            raise HeatproofError("model_seeds and retrain train networks; leave them out with weights or a model.")
        self.networks: dict[str, Network] = {}

    @classmethod
    def from_preset(cls, preset: str, **options: Any) -> Benchmark:
        """A network that is given takes the place of those that the preset would train."""
        if options.get("weights") is not None or options.get("model") is not None:
            options["model_seeds"] = options.get("model_seeds") or 1
        return super().from_preset(preset, **options)

    def rehearse(self, progress: Progress = silent) -> None:
        self.prepare(progress, train_missing=False)

    def prepare(self, progress: Progress = silent, train_missing: bool = True) -> None:
        train, test = signals()
        if self.limit is not None:
            tests = ceil(min(self.limit, len(train) + len(test)) / 5)
            train, test = train[: min(self.limit, len(train) + len(test)) - tests], test[:tests]
        self.train, self.test = train, test
        self.networks = {
            name: Network(module, predict(name, module, train), predict(name, module, test))
            for name, module in self.modules(progress, train_missing).items()
        }

    def modules(self, progress: Progress, train_missing: bool) -> dict[str, torch.nn.Module]:
        """The networks to explain, by name; untrained ones stand in for those that are missing, if so wished."""
        from heatproof.models.mnist1d_cnn import Mnist1dCnn
        from heatproof.models.weights import load_weights

        if self.model is not None:
            return dict([user_network(self.model)])
        if self.weights is not None:
            network = Mnist1dCnn().eval()
            load_weights(network, Path(self.weights))
            return {Path(self.weights).stem: network}
        return {
            f"mnist1d_cnn-{seed}": trained_network(seed, self.retrain, progress, train_missing)
            for seed in range(1, self.model_seeds + 1)
        }

    def configuration(self) -> dict[str, Any]:
        digest = hashlib.sha256(b"".join(part.x.round(9).tobytes() for part in (self.train, self.test)))
        return {
            "limit": self.limit,
            "window": self.window,
            "roe_length": ROE_LENGTH,
            "poolings": list(self.poolings),
            "data": digest.hexdigest()[:16],
            "models": {name: network.fingerprint() for name, network in self.networks.items()},
        }

    def chunks(self) -> Sequence[Chunk]:
        return [
            Chunk(f"{split}-{start:04d}", name, min(CHUNK, len(part) - start))
            for name in self.networks
            for split, part in (("test", self.test), ("train", self.train))
            for start in range(0, len(part), CHUNK)
        ]

    def load(self, chunk: Chunk) -> Batch:
        split, start = chunk.name.split("-")
        rows = slice(int(start), int(start) + chunk.cases)
        network = self.networks[chunk.model]
        part = (self.test if split == "test" else self.train)[rows]
        probabilities = (network.test if split == "test" else network.train)[rows]
        probability, predicted = probabilities.max(1)
        return Batch(
            inputs=torch.as_tensor(part.x, dtype=torch.float32).unsqueeze(1),
            target=predicted,
            ids=tuple(f"{split}-{i:04d}" for i in range(rows.start, rows.stop)),
            masks={"template": torch.as_tensor(part.template)},
            facts={
                "split": [split] * len(part),
                "label": part.y.tolist(),
                "predicted": predicted.tolist(),
                "correct": (predicted.numpy() == part.y).tolist(),
                "probability": probability.tolist(),
                "mask_size": part.template.sum(1).tolist(),
            },
        )

    def model_for(self, chunk: Chunk) -> torch.nn.Module:
        return self.networks[chunk.model].module

    def score(self, batch: Batch, relevance: torch.Tensor, model: torch.nn.Module) -> pl.DataFrame:
        starts = window_starts(relevance.sum(1), ROE_LENGTH, self.window)
        values = {("roe_start", "", ""): starts}
        if batch.facts["split"][0] == "test":
            region = window_mask(starts, batch.space[0], ROE_LENGTH)
            with torch.no_grad(), untouched(model):
                outputs = model(batch.inputs * region.unsqueeze(1))
            kept = outputs.softmax(1).gather(1, batch.target[:, None])[:, 0]
            full = torch.tensor(batch.facts["probability"])
            values |= {("drop", "", ""): drop(full, kept), ("increase", "", ""): increase(full, kept)}
            truth = batch.masks["template"]
            for pooling in self.poolings:
                heatmap = pool(relevance, pooling)
                values |= {
                    ("mass_accuracy", "template", pooling): mass_accuracy(heatmap, truth),
                    ("rank_accuracy", "template", pooling): rank_accuracy(heatmap, truth),
                    ("pointing_game", "template", pooling): pointing_game(heatmap, truth),
                }
        return score_rows(batch, values)

    def summarise(self, scores: ScoreRows) -> pl.DataFrame:
        """The ROE test of every explainer whose regions are complete, and of the raw signals."""
        train_ids = [f"train-{i:04d}" for i in range(len(self.train))]
        test_ids = [f"test-{i:04d}" for i in range(len(self.test))]
        starts = scores.where(pl.col("metric") == "roe_start")
        facts = starts.select("case", "split", "label").unique("case")
        tested = []

        def add(model: str, explainer: str, target: str, correct: np.ndarray[Any, Any]) -> None:
            frame = pl.DataFrame({"case": test_ids, "value": correct}).join(facts, on="case", how="left")
            tested.append(
                frame.with_columns(
                    metric=pl.lit("roe_accuracy"),
                    ground_truth=pl.lit(""),
                    pooling=pl.lit(""),
                    model=pl.lit(model),
                    explainer=pl.lit(explainer),
                    target=pl.lit(target),
                )
            )

        raw = roe_accuracy(self.train.x, self.train.y, self.test.x, self.test.y)
        for model in self.networks:
            add(model, "raw_input", "", raw)
        for (model, explainer, target), group in starts.group_by("model", "explainer", "target", maintain_order=True):
            start = dict(zip(group["case"], group["value"].cast(pl.Int64), strict=True))
            if len(start) < len(train_ids) + len(test_ids):
                continue
            train = cut_windows(self.train.x, np.array([start[case] for case in train_ids], dtype=int), ROE_LENGTH)
            test = cut_windows(self.test.x, np.array([start[case] for case in test_ids], dtype=int), ROE_LENGTH)
            add(str(model), str(explainer), str(target), roe_accuracy(train, self.train.y, test, self.test.y))
        return pl.concat(tested)

    def notes(self, scores: ScoreRows, table: pl.DataFrame) -> list[str]:
        """Why the table has two targets, with this run's own numbers."""
        probabilities = scores.where(pl.col("metric") == "roe_start").unique(["model", "case"])["probability"]
        saturated = (probabilities == 1.0).sum() / len(probabilities)
        rows = table.filter((pl.col("metric") == "roe_accuracy") & pl.col("explainer").is_in(["gradient", "grad_cam"]))
        means = {
            (r["explainer"], r["target"]): r["mean"] for r in rows.iter_rows(named=True)
        }  # sums of models are last
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

    def examples(self) -> frozenset[str]:
        """The first test signal of each digit."""
        first = np.unique(self.test.y, return_index=True)[1]
        return frozenset(f"test-{i:04d}" for i in first)

    def reference(self) -> pl.DataFrame:
        with resources.files("heatproof.results").joinpath("references/svea.csv").open("rb") as file:
            return pl.read_csv(file).with_columns(pl.col(pl.String).fill_null(""))


@dataclass(frozen=True, eq=False)
class Network:
    """A network and its class probabilities for the training and the test signals."""

    module: torch.nn.Module
    train: torch.Tensor
    test: torch.Tensor

    def fingerprint(self) -> str:
        """Of the weights, and of the digits seen, because code decides as much as weights do."""
        from heatproof.models.weights import fingerprint

        seen = torch.cat([self.train, self.test]).argmax(1).numpy().tobytes()
        return f"{fingerprint(self.module)}-{hashlib.sha256(seen).hexdigest()[:8]}"


@cache
def signals() -> tuple[Signals, Signals]:
    """The published data set."""
    return mnist1d.make()


def predict(name: str, module: torch.nn.Module, part: Signals) -> torch.Tensor:
    """Class probabilities (N, 10) in float32."""
    outputs = []
    with torch.no_grad(), untouched(module):
        for rows in torch.as_tensor(part.x, dtype=torch.float32).unsqueeze(1).split(CHUNK):
            try:
                logits = module(rows)
            except Exception as problem:
                raise HeatproofError(
                    f"model {name} fails on signals of shape {tuple(rows.shape)}: {type(problem).__name__}: {problem}"
                ) from problem
            if not isinstance(logits, torch.Tensor) or not logits.is_floating_point() or logits.shape[1:] != (10,):
                found = f"{logits.dtype} {tuple(logits.shape)}" if isinstance(logits, torch.Tensor) else type(logits)
                raise HeatproofError(f"model {name} must return float logits (cases, 10), one per digit; got {found}.")
            if not bool(logits.isfinite().all()):
                raise HeatproofError(f"model {name} returns NaN or infinite logits for signals of this data set.")
            outputs.append(logits)
    return (torch.cat(outputs) if outputs else torch.zeros(0, 10)).softmax(1)


def user_network(model: Any) -> tuple[str, torch.nn.Module]:
    """A user's network with a name: a module, or `file.py:factory` that makes one."""
    name = type(model).__name__
    if isinstance(model, str):
        name = model.rpartition(":")[2]
        made = load_object(model)
        try:
            model = made if isinstance(made, torch.nn.Module) else made()
        except Exception as problem:
            raise HeatproofError(f"{model} fails to make a network: {type(problem).__name__}: {problem}") from problem
    if not isinstance(model, torch.nn.Module):
        raise HeatproofError(f"model must be a torch.nn.Module or the name of a factory for one, got {model!r}.")
    return name, model


def trained_network(seed: int, retrain: bool, progress: Progress, train_missing: bool = True) -> Mnist1dCnn:
    """The paper's network trained from `seed`: shipped with the package, kept from before, or trained now."""
    from heatproof.models.mnist1d_cnn import Mnist1dCnn, train
    from heatproof.models.weights import load_weights, save_weights

    shipped = resources.files("heatproof.models").joinpath(f"pretrained/mnist1d_cnn-{seed}.npz")
    kept = workspace("models", f"mnist1d_cnn-{seed}.npz")
    network = Mnist1dCnn().eval()
    if shipped.is_file() and not retrain:
        with resources.as_file(shipped) as path:
            load_weights(network, path)
    elif kept.is_file():
        load_weights(network, kept)
    elif train_missing:
        network = train(signals()[0], seed, progress=progress, task=f"training network {seed}")
        save_weights(network, kept)
    return network
