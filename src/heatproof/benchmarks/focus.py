"""Focus (Arias-Duart et al. 2022): does relevance for a class lie on its pictures in a mosaic?

A mosaic shows two pictures of a target class and two of others. The classifier is explained for the target class, and
Focus is the share of the positive relevance that lies on the target's pictures: 1 is perfect, 0.5 is chance.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, get_args

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
from heatproof.benchmarks.classifying import ClassifierOptions
from heatproof.benchmarks.focus_alone import Alone, accuracy_alone
from heatproof.benchmarks.focus_grids import NOTES, PAPERS, TITLES, TRUTHS
from heatproof.benchmarks.focus_heatmaps import (
    COLUMNS,
    FACTS,
    METRICS,
    TRUTH,
    best_pooling,
    focus_scores,
    under_poolings,
)
from heatproof.benchmarks.focus_seen import Seen
from heatproof.benchmarks.references import read_reference
from heatproof.benchmarks.sample import pictures_kept, pictures_shown, stratified
from heatproof.cases import Batch, Chunk
from heatproof.clevr.objects import SIDE, shipped_pictures
from heatproof.errors import HeatproofError, require_whole, unknown_name
from heatproof.lazy import np, pl, torch
from heatproof.metrics.localisation import grid_mask
from heatproof.models.classifiers import SHIPPED, TRANSFORMER
from heatproof.models.sizes import sized
from heatproof.models.versions import Versions
from heatproof.mosaics.datasets import DATASETS, Dataset, held_out_pictures, with_paper_count
from heatproof.mosaics.grids import ONE_CELL, Setting, cases_of, cells_of, draw_grids
from heatproof.mosaics.mosaics import Mosaic, MosaicSettings, assemble, check_files, draw_mosaics, read_mosaics
from heatproof.mosaics.pictures import Fit, find_pictures
from heatproof.pooling import poolings
from heatproof.progress import Progress, silent
from heatproof.story import Story, Words

if TYPE_CHECKING:
    from heatproof.models.classifiers import Classifier

MOST_SIDE = 4096
"""Pixels along a side of a tile."""
CHUNK_VALUES = 2**21
"""Values of inputs in a chunk, 8 MB: few and many mosaics take the same memory."""


@register_benchmark("focus")
@dataclass(frozen=True, kw_only=True)
class Focus(Benchmark, MosaicSettings, ClassifierOptions):
    """Focus: does relevance for a class lie on its pictures in a mosaic?

    Examples:

    heatproof run focus --preset quick

    heatproof run focus --images photos --model my_net.py:build --labels labels.csv

    heatproof run focus --setting difull --grid 2
    """

    title = "Focus: relevance in mosaics"
    paper = "Arias-Duart et al. 2022, Focus! Rating XAI Methods and Finding Biases"
    metrics = METRICS
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "quick": {"per_class": 10},
        "standard": {"per_class": 40},
        "paper": {"per_class": 100},
        "bias": {"per_class": 40, "design": "balanced"},
    }
    preset_help = (
        "quick, standard, paper: 10, 40, 100 mosaics of each class; bias: 40 or more, every picture equally often, for"
        " heatproof focus bias."
    )
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
    setting: Setting = option(
        "focus",
        "focus (two tiles of the target class), grid (GridPG: distinct classes, each explained), difull or dipart (the"
        " head sees one cell only, so relevance elsewhere is wrong).",
    )
    cut: str | None = option(
        None, "difull and dipart: the module behind which the head begins. Default: the last that returns maps."
    )
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
        if self.setting not in get_args(Setting):
            raise unknown_name("setting", self.setting, get_args(Setting))
        if self.cut is not None and self.setting not in ONE_CELL:
            raise HeatproofError(f"cut says where the head begins in difull and dipart; setting is {self.setting}.")
        if self.setting != "focus" and (self.layout != "random" or self.targets != 2 or self.paper_row is not None):
            raise HeatproofError("layout, targets and paper_row are of setting focus; leave them out.")
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
            draw = draw_mosaics if self.setting == "focus" else draw_grids
            found, classes = draw(pictures, self, seed), sorted(pictures.classes)
        if self.setting != "focus":
            found = cases_of(self.setting, found, self.only)
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
        if self.setting in ONE_CELL:
            classifier = replace(classifier, module=self.with_one_cell(classifier, drawn[0].grid, sample))
            versions = Versions(classifier.name, classifier.module, self.randomise, self.draws, seed, sample[:1])
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
                title=TITLES.get(self.setting, self.title),
                paper=PAPERS.get(self.setting, self.paper),
                dataset="mosaics",
                metrics=metric_words(self.metrics),
                columns=COLUMNS,
                poolings=("paper", *poolings),
                words=Words(cases="mosaics", truth=TRUTHS.get(self.setting, TRUTHS["focus"]), as_published="logit"),
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
                **({} if self.setting == "focus" else {"setting": self.setting, "cut": self.cut}),
                **({} if self.design == "random" else {"design": self.design}),
            },
            fingerprint=pictures,
            models=dict.fromkeys(versions.names, weights_of),
            counts=cells_of(drawn),
            per_chunk=per_chunk,
            sample=pictures_kept(size, size),
            recipe=self,
            seen=seen,
            versions=versions,
            predicted=predicted,
            alone=alone,
        )

    def with_one_cell(self, classifier: Classifier, grid: int, sample: torch.Tensor) -> torch.nn.Module:
        from heatproof.models.one_cell import one_cell

        return one_cell(classifier.name, classifier.module, grid, sample, self.setting == "difull", self.cut)

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


@dataclass(frozen=True, eq=False, kw_only=True)
class OpenedFocus(Opened):
    """Mosaics, the classifier, and what it makes of them."""

    recipe: Focus
    seen: Seen
    versions: Versions
    predicted: Mapping[str, torch.Tensor]
    alone: Alone | None

    def chunks_with(self, cases: Collection[str]) -> Sequence[Chunk]:
        names = [mosaic.name for mosaic in self.seen.drawn]
        return [chunk for chunk in super().chunks_with(cases) if not set(cases).isdisjoint(names[self.rows(chunk)])]

    def rows(self, chunk: Chunk) -> slice:
        """Where the mosaics of a chunk are among all."""
        part, _, number = chunk.name.rpartition("-")
        parts = list(self.counts)
        start = sum(self.counts[before] for before in parts[: parts.index(part)]) + int(number)
        return slice(start, start + chunk.cases)

    def load(self, chunk: Chunk) -> Batch:
        rows = self.rows(chunk)
        mosaics = self.seen.drawn[rows]
        target = torch.tensor([self.seen.outputs[mosaic.target] for mosaic in mosaics])
        logits = self.predicted[chunk.model][rows]
        inputs, grid = self.seen.inputs(mosaics), mosaics[0].grid
        tiles = torch.tensor([mosaic.targets for mosaic in mosaics])
        return Batch(
            inputs=inputs,
            context=self.seen.cells(mosaics),
            target=target,
            ids=tuple(mosaic.name for mosaic in mosaics),
            masks={TRUTH: grid_mask((inputs.shape[2], inputs.shape[3]), grid, tiles)},
            facts={
                "target_class": [mosaic.target for mosaic in mosaics],
                "predicted": logits.argmax(1).tolist(),
                "names_target": (logits.argmax(1) == target).tolist(),
                "probability": logits.softmax(1).gather(1, target[:, None])[:, 0].tolist(),
                **{f"label_{i}": [mosaic.labels[i] for mosaic in mosaics] for i in range(grid**2)},
                **{f"picture_{i}": [str(mosaic.files[i]) for mosaic in mosaics] for i in range(grid**2)},
            },
            black=self.seen.classifier.black,
        )

    def model(self, name: str) -> torch.nn.Module:
        return self.versions[name]

    def score(self, batch: Batch, relevance: torch.Tensor, model: torch.nn.Module) -> pl.DataFrame:
        """Focus, the mass accuracy with the target's tiles as mask, and the share of each single tile."""
        truth = batch.masks[TRUTH].cpu().numpy()
        scores = focus_scores(relevance.cpu().numpy(), truth, self.seen.drawn[0].grid)
        values = {key: torch.from_numpy(scored.values) for key, scored in scores.items()}
        if self.recipe.setting == "focus":
            return score_rows(batch, values)
        return score_rows(batch, values, uniform={"focus": batch.masks[TRUTH].double().mean((1, 2))})

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
        if self.recipe.setting != "focus":
            return Ending([f"{NOTES[self.recipe.setting]}{named}"])
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
        if self.recipe.setting != "focus":
            return Reference()
        return Reference(self.recipe.published(), is_about_this=self.recipe.paper_row is not None)
