"""Focus (Arias-Duart et al. 2022): does relevance for a class lie on its pictures in a mosaic?

A mosaic shows two pictures of a target class and two of others. The classifier is explained for the target class, and
Focus is the share of the positive relevance that lies on the target's pictures: 1 is perfect, 0.5 is chance.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from heatproof.benchmarks.base import (
    Benchmark,
    Ending,
    Opened,
    Reference,
    metric_words,
    option,
    register_benchmark,
    require_limit,
    score_rows,
)
from heatproof.benchmarks.classifying import ClassifierOptions, predicted_logits
from heatproof.benchmarks.focus_alone import Alone, accuracy_alone
from heatproof.benchmarks.focus_heatmaps import (
    COLUMNS,
    FACTS,
    METRICS,
    TRUTH,
    best_pooling,
    focus_scores,
    under_poolings,
)
from heatproof.benchmarks.references import read_reference
from heatproof.benchmarks.sample import pictures_kept, pictures_shown, stratified
from heatproof.cases import Batch, Chunk
from heatproof.clevr.objects import SIDE, shipped_pictures
from heatproof.errors import HeatproofError, require_whole, unknown_name
from heatproof.lazy import np, pl, torch
from heatproof.metrics.localisation import grid_mask
from heatproof.models.classifiers import SHIPPED, TRANSFORMER
from heatproof.models.sizes import Sizes, sized
from heatproof.mosaics.datasets import DATASETS, Dataset, held_out_pictures, with_paper_count
from heatproof.mosaics.mosaics import Mosaic, MosaicSettings, assemble, check_files, draw_mosaics, read_mosaics
from heatproof.mosaics.pictures import Fit, find_pictures
from heatproof.pooling import poolings
from heatproof.progress import Progress, silent
from heatproof.story import Story, Words

if TYPE_CHECKING:
    from heatproof.models.classifiers import Classifier
    from heatproof.models.versions import Versions

MOST_SIDE = 4096
"""Pixels along a side of a tile."""
CHUNK_VALUES = 2**23
"""Values of inputs in a chunk: about 32 MB."""


@register_benchmark("focus")
@dataclass(frozen=True, kw_only=True)
class Focus(Benchmark, MosaicSettings, ClassifierOptions):
    """Focus: does relevance for a class lie on its pictures in a mosaic?

    Examples:

    heatproof run focus --preset quick

    heatproof run focus --images photos --model my_net.py:build --labels labels.csv
    """

    title = "Focus: relevance in mosaics"
    paper = "Arias-Duart et al. 2022, Focus! Rating XAI Methods and Finding Biases"
    metrics = METRICS
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "quick": {"per_class": 10},
        "standard": {"per_class": 40},
        "paper": {"per_class": 100},
    }
    preset_help = "quick, standard, paper: 10, 40, 100 mosaics of each class."
    batch_size = 16
    quantities = ("logit",)

    images: Path | str | None = option(
        None, "A folder per class, or a CSV (filename, label, subset). Default: those shipped."
    )
    dataset: Dataset | None = option(
        None,
        "What the folder of images is, as distributed: dogs-vs-cats, mame, mit67 or imagenet. Held-out pictures only,"
        " and unless --per-class says otherwise the paper's number of mosaics.",
    )
    subset: str | None = option(None, "Subset of the CSV or of the data set. Default: all but train; val.")
    mosaics: Path | str | None = option(None, "A CSV of mosaics made before, instead of images.")
    tile: int | None = option(None, "Side of a tile in pixels. Default: the model's, or 224.")
    fit: Fit | None = option(None, "How a picture becomes a tile: crop (original), squash or centre.")
    limit: int | None = option(None, "Use this many mosaics only, of all classes evenly.")
    paper_row: str | None = option(
        None, "What is explained is this row of the paper's table, such as imagenet/vgg16: show its numbers."
    )

    @classmethod
    def from_preset(cls, preset: str, **options: Any) -> Benchmark:
        return super().from_preset(preset, **(options if preset == "quick" else with_paper_count(options)))

    @property
    def default_explainers(self) -> tuple[str, ...]:
        transformer = isinstance(self.model, str) and self.model == TRANSFORMER
        return (
            "grad_cam",
            "grad_cam_pp:eps=1e-6,shift=True",
            *(("lrp:composite=attn_lrp_gamma", "chefer", "le_grad") if transformer else ("lrp:composite=focus",)),
            "smoothgrad:samples=10,sigma=0.2",
            "integrated_gradients:steps=30,rule=gauss_legendre",
            "lime:top=5",
            "gradient",
            "randomised:grad_cam",
            "edges",
            "centre",
            "random",
            "oracle",
        )

    def __post_init__(self) -> None:
        MosaicSettings.__post_init__(self)
        if self.images is not None and self.mosaics is not None:
            raise HeatproofError("give either images or mosaics made before, not both.")
        if self.dataset is not None and self.dataset not in DATASETS:
            raise unknown_name("data set", self.dataset, DATASETS)
        if self.dataset is not None and self.images is None:
            raise HeatproofError(f"say with --images in which folder {self.dataset} is.")
        if self.images is not None and isinstance(self.model, str) and self.model in SHIPPED:
            raise HeatproofError("images need a model that knows their classes; give one with --model.")
        if self.tile is not None:
            require_whole("tile", self.tile, 16, MOST_SIDE)
        require_limit(self.limit)
        self.check_classifier(self.fit)
        self.published()

    def shape(self, classifier: Classifier | None = None) -> tuple[int, Fit]:
        """Side of a tile and how a picture becomes one: as the user says, as the model says, or as is usual."""
        own = self.images is None and self.mosaics is None
        size, fit = (None, None) if classifier is None else (classifier.size, classifier.fit)
        return self.tile or size or (SIDE if own else 224), self.fit or fit or ("squash" if own else "crop")

    def draw(self, seed: int) -> tuple[list[Mosaic], list[str]]:
        """The mosaics, without their pixels, and all classes; which these are does not depend on `limit`."""
        if self.mosaics is not None:
            found = read_mosaics(Path(self.mosaics))
            classes = sorted({label for mosaic in found for label in mosaic.labels})
        else:
            place = shipped_pictures() if self.images is None else Path(self.images)
            if self.dataset is None:
                pictures = find_pictures(place, self.subset)
            else:
                pictures = held_out_pictures(self.dataset, place, self.subset)
            found, classes = draw_mosaics(pictures, self, seed), sorted(pictures.classes)
        if self.limit is not None and self.limit < len(found):  # evenly, so that every class has its share
            found = [found[i * len(found) // self.limit] for i in range(self.limit)]
        return found, classes

    def open(self, seed: int, progress: Progress = silent) -> OpenedFocus:
        return self.opened(seed, progress, look=True)

    def rehearse(self, seed: int, progress: Progress = silent) -> OpenedFocus:
        """Only the first mosaics are read, and no predictions are made."""
        return self.opened(seed, progress, look=False)

    def opened(self, seed: int, progress: Progress, look: bool) -> OpenedFocus:
        from heatproof.models.weights import fingerprint

        drawn, classes = self.draw(seed)
        classifier = self.load_classifier()
        side, fit = self.shape(classifier)
        classifier, sizes = sized(classifier, side, drawn[0].grid, self.tile is not None)
        side = sizes.tile
        sample = classifier.inputs(np.stack([assemble(mosaic, side, fit) for mosaic in drawn[:2]]))
        classifier, outputs, versions = self.ready(classifier, sample, classes, seed)
        per_chunk = max(1, CHUNK_VALUES // (3 * (drawn[0].grid * side) ** 2))
        seen = Seen(drawn, classifier, outputs, sizes, fit)
        logits = torch.zeros(len(drawn), 1 + max(outputs.values()))
        predicted = dict.fromkeys(versions.names, logits)
        pictures, alone = "", None
        if look:
            pictures = check_files(drawn, side, fit, progress)
            alone = accuracy_alone(classifier, outputs, drawn, sizes, fit, progress)
            predicted = {name: seen.predict(versions[name], per_chunk, progress) for name in versions.names}
        named = predicted[classifier.name].argmax(1).tolist()
        strata = {m.name: (named[k] != outputs[m.target], m.target) for k, m in enumerate(drawn)}
        targets = {mosaic.name: mosaic.target for mosaic in drawn}
        size = drawn[0].grid * side
        weights_of = fingerprint(classifier.module)
        return OpenedFocus(
            story=Story(
                title=self.title,
                paper=self.paper,
                dataset="mosaics",
                metrics=metric_words(self.metrics),
                columns=COLUMNS,
                poolings=("paper", *poolings),
                words=Words(cases="mosaics", truth="the tiles of the target class", as_published="logit"),
                examples={case: targets[case] for case in stratified(strata, pictures_shown(size, size), seed)},
                facts=FACTS,
                figures={} if alone is None else alone.figures,
                repeats=len(drawn) - len({(mosaic.picture, mosaic.files, mosaic.target) for mosaic in drawn}),
            ),
            settings={
                **{name: getattr(self, name) for name in ("per_class", "grid", "targets", "layout", "repeats", "only")},
                "subset": self.subset,
                "limit": self.limit,
                "tile": side,
                **({"alone": sizes.alone} if sizes.alone != side else {}),
                **({"interpolated": True} if classifier.interpolates else {}),
                "fit": fit,
                "mean": [float(value) for value in classifier.mean],
                "std": [float(value) for value in classifier.std],
                "outputs": outputs,
            },
            fingerprint=pictures,
            models=dict.fromkeys(versions.names, weights_of),
            counts={"": len(drawn)},
            per_chunk=per_chunk,
            sample=pictures_kept(size, size),
            recipe=self,
            seen=seen,
            versions=versions,
            predicted=predicted,
            alone=alone,
        )

    def published(self) -> pl.DataFrame:
        """Table 1 of the paper: one row of it, or the mean over its rows. Its LIME explains the probability."""
        rows = read_reference("focus")
        if self.paper_row is not None:
            if self.paper_row not in rows["row"]:
                raise unknown_name("row of the paper's table", self.paper_row, rows["row"].unique(maintain_order=True))
            rows = rows.filter(pl.col("row") == self.paper_row)
        axes = ("explainer", "target", "metric", "ground_truth", "pooling")
        means = rows.group_by(*axes, maintain_order=True).agg(pl.col("reference", "reference_std").mean())
        return pl.concat([means, means.filter(target="probability").with_columns(target=pl.lit("logit"))])


@dataclass(frozen=True, eq=False)
class Seen:
    """Mosaics as a classifier sees them."""

    drawn: Sequence[Mosaic]
    classifier: Classifier
    outputs: Mapping[str, int]
    sizes: Sizes
    fit: Fit

    @property
    def side(self) -> int:
        """Of a tile."""
        return self.sizes.tile

    def inputs(self, mosaics: Sequence[Mosaic]) -> torch.Tensor:
        return self.classifier.inputs(np.stack([assemble(mosaic, self.side, self.fit) for mosaic in mosaics]))

    def predict(self, module: torch.nn.Module, at_once: int, progress: Progress) -> torch.Tensor:
        """The logits of all mosaics."""

        def inputs(start: int, end: int) -> torch.Tensor:
            return self.inputs(self.drawn[start:end])

        return predicted_logits(module, inputs, len(self.drawn), at_once, progress)


@dataclass(frozen=True, eq=False, kw_only=True)
class OpenedFocus(Opened):
    """Mosaics, the classifier, and what it makes of them."""

    recipe: Focus
    seen: Seen
    versions: Versions
    predicted: Mapping[str, torch.Tensor]
    alone: Alone | None

    def chunks_with(self, cases: Collection[str]) -> Sequence[Chunk]:
        places = {place // self.per_chunk for place, mosaic in enumerate(self.seen.drawn) if mosaic.name in cases}
        return [chunk for place, chunk in enumerate(super().chunks_with(cases)) if place in places]

    def load(self, chunk: Chunk) -> Batch:
        rows = slice(int(chunk.name), int(chunk.name) + chunk.cases)
        mosaics = self.seen.drawn[rows]
        target = torch.tensor([self.seen.outputs[mosaic.target] for mosaic in mosaics])
        logits = self.predicted[chunk.model][rows]
        inputs, grid = self.seen.inputs(mosaics), mosaics[0].grid
        tiles = torch.tensor([mosaic.targets for mosaic in mosaics])
        return Batch(
            inputs=inputs,
            target=target,
            ids=tuple(mosaic.name for mosaic in mosaics),
            masks={TRUTH: grid_mask((inputs.shape[2], inputs.shape[3]), grid, tiles)},
            facts={
                "target_class": [mosaic.target for mosaic in mosaics],
                "predicted": logits.argmax(1).tolist(),
                "names_target": (logits.argmax(1) == target).tolist(),
                "probability": logits.softmax(1).gather(1, target[:, None])[:, 0].tolist(),
                **{f"label_{i}": [mosaic.labels[i] for mosaic in mosaics] for i in range(grid**2)},
            },
            black=self.seen.classifier.black,
        )

    def model(self, name: str) -> torch.nn.Module:
        return self.versions[name]

    def score(self, batch: Batch, relevance: torch.Tensor, model: torch.nn.Module) -> pl.DataFrame:
        """Focus, the mass accuracy with the target's tiles as mask, and the share of each single tile."""
        truth = batch.masks[TRUTH].cpu().numpy()
        scores = focus_scores(relevance.cpu().numpy(), truth, self.seen.drawn[0].grid)
        return score_rows(batch, {key: torch.from_numpy(scored.values) for key, scored in scores.items()})

    def remembers(self) -> pl.Expr:
        return pl.col("metric") == "focus"

    def summarise(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Each method under the paper's pooling, and under the one that is best for it."""
        return under_poolings(rows)

    def end(self, rows: pl.DataFrame, table: pl.DataFrame) -> Ending:
        rows = rows.filter((pl.col("model") == self.seen.classifier.name) & (pl.col("target") != ""))
        best = [
            f"{explainer} {best_pooling(group)}"
            for (explainer, _), group in rows.group_by("explainer", "target", maintain_order=True)
        ]
        named = (
            "" if self.alone is None else f" The model names {self.alone.accuracy:.1%} of the single pictures right."
        )
        row = self.recipe.paper_row
        whose = "the mean over its twelve networks" if row is None else f"its row {row}"
        return Ending(
            [
                f"0.5 is chance. The paper's numbers are {whose}, on other pictures than these.{named}",
                *[self.seen.sizes.note] * bool(self.seen.sizes.note),
                "Focus takes the pooling of the original's code: the largest absolute value over channels for"
                " smoothgrad, the positive part of their sum for all others. Best poolings here:"
                f" {', '.join(dict.fromkeys(best))}.",
            ]
        )

    def about(self, case: Batch) -> str:
        return str(case.facts["target_class"][0])

    def as_pictures(self, inputs: torch.Tensor) -> torch.Tensor:
        return self.seen.classifier.pictures(inputs)

    def reference(self) -> Reference:
        return Reference(self.recipe.published(), is_about_this=self.recipe.paper_row is not None)
