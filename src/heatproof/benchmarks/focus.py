"""Focus (Arias-Duart et al. 2022): does relevance for a class lie on its pictures in a mosaic?

A mosaic shows two pictures of a target class and two of others. The classifier is explained for the target class, and
Focus is the share of the positive relevance that lies on the target's pictures: 1 is perfect, 0.5 is chance.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any, ClassVar, get_args

from heatproof.benchmarks.base import Benchmark, register_benchmark, score_rows
from heatproof.benchmarks.focus_alone import accuracy_alone
from heatproof.cases import Batch
from heatproof.clevr.objects import SIDE, shipped_pictures
from heatproof.engine.parts import ScoreRows
from heatproof.engine.plan import TYPICAL_SIZE, Chunk
from heatproof.errors import HeatproofError, require_whole, unknown_name
from heatproof.explainers.base import Explainer, untouched
from heatproof.lazy import np, pl, torch
from heatproof.metrics.heatmap_scores import score_heatmaps
from heatproof.metrics.localisation import best_column, grid_mask
from heatproof.models.classifiers import (
    EMBEDDED,
    load_classifier,
    output_numbers,
    read_labels,
    with_channels_last,
    with_options,
)
from heatproof.models.versions import Randomise, Versions
from heatproof.mosaics.mosaics import Layout, Mosaic, MosaicSettings, assemble, check_files, draw_mosaics, read_mosaics
from heatproof.mosaics.pictures import Fit, find_pictures
from heatproof.pooling import poolings
from heatproof.progress import Progress, silent

PAPER_POOLING = {"smoothgrad": "max_norm"}
"""How the original's code makes one value of three channels; it adds the channels where nothing else is said."""
USUAL_POOLING = "sum_pos"
CHUNK_VALUES = 2**23
"""Values of inputs in a chunk: about 32 MB."""
CHUNK_PASSED = 2**28
"""Values that go through the network for a chunk: what takes minutes for a mosaic is kept mosaic by mosaic."""


@register_benchmark("focus")
@dataclass(kw_only=True, eq=False)
class Focus(Benchmark):
    """The Focus benchmark.

    images             a folder per class, or a CSV (filename, label, subset); default: the pictures that ship
    subset             of the CSV; default: all but `train`
    mosaics            a CSV of mosaics made before, instead of images
    model              a name, file.py:factory, a TorchScript or torch.export file, or a module
    weights, labels    files for the model: its weights; what its outputs mean (CSV: label, index)
    mean, std          preprocessing, (pixel / 255 - mean) / std, in place of the model's own
    mosaics_per_class  and grid, targets, layout, repeats, only: see MosaicSettings
    tile, fit          side of a tile in pixels, how a picture becomes one; default: the model's own, or 224 and crop
    mosaic_seed        seed of the mosaics
    randomise, draws   explain also the model with all weights drawn anew (all), or layer by layer (cascade), so often
    paper_row          compare with one row of the paper's table, such as imagenet/vgg16; default: their mean
    """

    title = "Focus: relevance in mosaics"
    paper = "Arias-Duart et al. 2022, Focus! Rating XAI Methods and Finding Biases"
    dataset = "mosaics"
    metrics = ("focus", "focus_best")
    case_settings = (
        "images", "pictures", "subset", "mosaics", "per_class", "grid", "targets", "layout", "repeats", "only",
        "mosaic_seed", "tile", "fit",
    )  # fmt: skip
    default_explainers = (
        "grad_cam",
        "grad_cam_pp:eps=1e-6,shift=True",
        "lrp:composite=focus",
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
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "quick": {"mosaics_per_class": 10},
        "standard": {"mosaics_per_class": 40},
        "paper": {"mosaics_per_class": 100},
    }
    batch_size = 16
    quantities = ("logit",)

    images: Path | str | None = None
    subset: str | None = None
    mosaics: Path | str | None = None
    model: Any = field(default=EMBEDDED, repr=False)
    weights: Path | str | None = None
    labels: Path | str | Mapping[str, int] | None = None
    mean: Sequence[float] | None = None
    std: Sequence[float] | None = None
    mosaics_per_class: int = 40
    grid: int = 2
    targets: int = 2
    layout: Layout = "random"
    repeats: bool = False
    only: str | None = None
    tile: int | None = None
    fit: Fit | None = None
    limit: int | None = None
    mosaic_seed: int = 0
    randomise: Randomise = "none"
    draws: int = 1
    paper_row: str | None = None

    def __post_init__(self) -> None:
        self.settings = MosaicSettings(
            self.mosaics_per_class, self.grid, self.targets, self.layout, self.repeats, self.only, self.mosaic_seed
        )
        if self.images is not None and self.mosaics is not None:
            raise HeatproofError("give either images or mosaics made before, not both.")
        if self.images is not None and self.model == EMBEDDED:
            raise HeatproofError("images need a model that knows their classes; give one with --model.")
        if self.tile is not None:
            require_whole("tile", self.tile, 16)
        own = self.images is None and self.mosaics is None
        self.side = self.tile or (SIDE if own else 224)
        self.fitted: Fit = self.fit or ("squash" if own else "crop")
        if self.limit is not None:
            require_whole("limit", self.limit, 1)
        if self.fit is not None and self.fit not in get_args(Fit):
            raise unknown_name("fit", str(self.fit), get_args(Fit))
        if self.randomise not in get_args(Randomise):
            raise unknown_name("way to randomise", self.randomise, get_args(Randomise))
        require_whole("draws", self.draws, 1)
        self.reference()

    def draw(self) -> list[Mosaic]:
        """The mosaics, without their pixels; what classes there are does not depend on `limit`."""
        if self.mosaics is not None:
            found = read_mosaics(Path(self.mosaics))
            self.classes = sorted({label for mosaic in found for label in mosaic.labels})
        else:
            place = shipped_pictures() if self.images is None else Path(self.images)
            pictures = find_pictures(place, self.subset)
            found, self.classes = draw_mosaics(pictures, self.settings), sorted(pictures.classes)
        if self.limit is not None and self.limit < len(found):  # evenly, so that every class has its share
            found = [found[i * len(found) // self.limit] for i in range(self.limit)]
        return found

    def prepare(self, progress: Progress = silent) -> None:
        self.open()
        self.pictures = check_files(self.drawn, self.side, self.fitted, progress)
        self.alone = accuracy_alone(self.classifier, self.outputs, self.drawn, self.side, self.fitted, progress)
        self.predicted = {version: self.predict(version, progress) for version in self.versions.names}

    def rehearse(self, progress: Progress = silent) -> None:
        """Only the first mosaics are read, and no predictions are made."""
        self.open()
        self.pictures, self.alone = "", None
        logits = torch.zeros(len(self.drawn), 1 + max(self.outputs.values()))
        self.predicted = dict.fromkeys(self.versions.names, logits)

    def open(self) -> None:
        """Mosaics and model, once they are seen to fit each other."""
        self.drawn = self.draw()
        weights = None if self.weights is None else Path(self.weights)
        labels = read_labels(Path(self.labels)) if isinstance(self.labels, str | Path) else self.labels
        self.classifier = with_options(load_classifier(self.model, weights), self.mean, self.std, labels)
        self.side = self.tile or self.classifier.size or self.side
        self.fitted = self.fit or self.classifier.fit or self.fitted
        sample = self.classifier.inputs(np.stack([assemble(m, self.side, self.fitted) for m in self.drawn[:2]]))
        self.outputs = output_numbers(self.classifier, self.classes, sample)
        self.classifier = with_channels_last(self.classifier, sample)
        name, module = self.classifier.name, self.classifier.module
        self.versions = Versions(name, module, self.randomise, self.draws, self.mosaic_seed)

    def predict(self, version: str, progress: Progress) -> torch.Tensor:
        """The logits of all mosaics under a version of the model."""
        module = self.versions[version]
        found = []
        with torch.no_grad(), untouched(module):
            for start in range(0, len(self.drawn), self.per_chunk):
                progress("predicting", start, len(self.drawn))
                found.append(module(self.inputs(self.drawn[start : start + self.per_chunk])))
        progress("predicting", len(self.drawn), len(self.drawn))
        return torch.cat(found)

    def inputs(self, mosaics: Sequence[Mosaic]) -> torch.Tensor:
        return self.classifier.inputs(np.stack([assemble(mosaic, self.side, self.fitted) for mosaic in mosaics]))

    @property
    def per_chunk(self) -> int:
        """Mosaics in a chunk."""
        return max(1, CHUNK_VALUES // self.values)

    @property
    def values(self) -> int:
        """Values of a mosaic."""
        return 3 * (self.drawn[0].grid * self.side) ** 2

    def configuration(self) -> dict[str, Any]:
        from heatproof.models.weights import fingerprint

        seen = {name: hashlib.sha256(logits.argmax(1).numpy().tobytes()) for name, logits in self.predicted.items()}
        return {
            "images": None if self.images is None else str(self.images),
            "subset": self.subset,
            "mosaics": None if self.mosaics is None else str(self.mosaics),
            **{name: getattr(self.settings, name) for name in ("per_class", "grid", "targets", "layout", "repeats")},
            "only": self.only,
            "mosaic_seed": self.mosaic_seed,
            "limit": self.limit,
            "tile": self.side,
            "fit": self.fitted,
            "pictures": self.pictures,
            "mean": list(self.classifier.mean),
            "std": list(self.classifier.std),
            "outputs": self.outputs,
            "model": fingerprint(self.classifier.module),
            "predictions": {name: digest.hexdigest()[:8] for name, digest in seen.items()},
            "poolings": ["paper", *poolings],
        }

    def chunks(self) -> Sequence[Chunk]:
        return self.chunks_of(self.per_chunk)

    def chunks_for(self, explainer: Explainer) -> Sequence[Chunk]:
        affordable = CHUNK_PASSED // (self.values * (1 + explainer.passes(TYPICAL_SIZE)))
        return self.chunks_of(max(1, min(self.per_chunk, affordable)))

    def chunks_of(self, size: int) -> list[Chunk]:
        return [
            Chunk(f"{start:06d}", name, min(size, len(self.drawn) - start))
            for name in self.versions.names
            for start in range(0, len(self.drawn), size)
        ]

    def chunks_with(self, cases: Collection[str]) -> Sequence[Chunk]:
        wanted = {place // self.per_chunk for place, mosaic in enumerate(self.drawn) if mosaic.name in cases}
        explained = [chunk for chunk in self.chunks() if chunk.model == self.classifier.name]
        return [chunk for place, chunk in enumerate(explained) if place in wanted]

    def load(self, chunk: Chunk) -> Batch:
        rows = slice(int(chunk.name), int(chunk.name) + chunk.cases)
        mosaics = self.drawn[rows]
        target = torch.tensor([self.outputs[mosaic.target] for mosaic in mosaics])
        logits = self.predicted[chunk.model][rows]
        grid = mosaics[0].grid
        space = (grid * self.side, grid * self.side)
        return Batch(
            inputs=self.inputs(mosaics),
            target=target,
            ids=tuple(mosaic.name for mosaic in mosaics),
            masks={"target_quadrants": grid_mask(space, grid, torch.tensor([mosaic.targets for mosaic in mosaics]))},
            facts={
                "target_class": [mosaic.target for mosaic in mosaics],
                "predicted": logits.argmax(1).tolist(),
                "probability": logits.softmax(1).gather(1, target[:, None])[:, 0].tolist(),
                **{f"label_{i}": [mosaic.labels[i] for mosaic in mosaics] for i in range(grid**2)},
            },
        )

    def model_for(self, chunk: Chunk) -> torch.nn.Module:
        return self.versions[chunk.model]

    def score(self, batch: Batch, relevance: torch.Tensor, model: torch.nn.Module) -> pl.DataFrame:
        """Focus, the mass accuracy with the target's tiles as mask, and the share of each single tile."""
        grid = self.drawn[0].grid
        tiles = grid_mask((batch.space[0], batch.space[1]), grid, torch.eye(grid**2, dtype=torch.bool))
        masks = {"target_quadrants": batch.masks["target_quadrants"].numpy()}
        masks |= {
            f"share_{i}": np.broadcast_to(tile, (len(batch), *tile.shape)) for i, tile in enumerate(tiles.numpy())
        }
        scores = score_heatmaps(relevance.cpu().numpy(), masks, ranks=False)
        values: dict[tuple[str, str, str], torch.Tensor] = {}
        for pooling, by_mask in zip(scores.poolings, torch.from_numpy(scores.mass), strict=True):
            values["focus", "target_quadrants", pooling] = by_mask[0]
            if pooling in (USUAL_POOLING, *PAPER_POOLING.values()):
                values |= {(f"share_{i}", "", pooling): share for i, share in enumerate(by_mask[1:])}
        return score_rows(batch, values)

    def summarise(self, scores: ScoreRows) -> pl.DataFrame:
        """Each method under the paper's pooling, and under the one that is best for it."""
        rows = scores.where(pl.col("metric") == "focus")
        frames = [under_paper_pooling(rows).with_columns(pooling=pl.lit("paper"))]
        for _, group in rows.group_by("model", "explainer", "target", maintain_order=True):
            frames.append(
                group.filter(pl.col("pooling") == best_pooling(group)).with_columns(
                    metric=pl.lit("focus_best"), pooling=pl.lit("")
                )
            )
        return pl.concat(frames)

    def columns(self) -> Sequence[Mapping[str, str]]:
        named = {"ground_truth": "target_quadrants"}
        return ({"metric": "focus", "pooling": "paper"} | named, {"metric": "focus_best", "pooling": ""} | named)

    def notes(self, scores: ScoreRows, table: pl.DataFrame) -> list[str]:
        rows = scores.where((pl.col("metric") == "focus") & (pl.col("pooling") != "paper"))
        rows = rows.filter((pl.col("model") == self.classifier.name) & (pl.col("target") != ""))
        best = [
            f"{explainer} {best_pooling(group)}"
            for (explainer, _), group in rows.group_by("explainer", "target", maintain_order=True)
        ]
        named = "" if self.alone is None else f" The model names {self.alone:.1%} of the single pictures right."
        row = "the mean over the paper's twelve networks" if self.paper_row is None else f"its row {self.paper_row}"
        return [
            f"0.5 is chance. The column “paper” is {row}, on other pictures than these.{named}",
            "Focus takes the pooling of the original's code: the largest absolute value over channels for smoothgrad,"
            f" the positive part of their sum for all others. Best poolings here: {', '.join(dict.fromkeys(best))}.",
        ]

    def examples(self) -> frozenset[str]:
        """The first mosaic of each target class, at most six."""
        first = {mosaic.target: mosaic.name for mosaic in reversed(self.drawn)}
        return frozenset(sorted(first.values())[:6])

    def case_title(self, case: str) -> str:
        return next(mosaic.target for mosaic in self.drawn if mosaic.name == case)

    def as_pictures(self, inputs: torch.Tensor) -> torch.Tensor:
        return self.classifier.pictures(inputs)

    def reference(self) -> pl.DataFrame:
        """Table 1 of the paper: one row of it, or the mean over its rows. Its LIME explains the probability."""
        with resources.files("heatproof.results").joinpath("references/focus.csv").open("rb") as file:
            rows = pl.read_csv(file)
        if self.paper_row is not None:
            if self.paper_row not in rows["row"]:
                raise unknown_name("row of the paper's table", self.paper_row, rows["row"].unique(maintain_order=True))
            rows = rows.filter(pl.col("row") == self.paper_row)
        axes = ("explainer", "target", "metric", "ground_truth", "pooling")
        means = rows.group_by(*axes, maintain_order=True).agg(pl.col("reference", "reference_std").mean())
        return pl.concat([means, means.filter(target="probability").with_columns(target=pl.lit("logit"))])


def under_paper_pooling(rows: pl.DataFrame) -> pl.DataFrame:
    """The rows of each explainer's pooling in the original's code."""
    name = pl.col("explainer").str.split(":").list.first()
    wanted = name.replace_strict(PAPER_POOLING, default=USUAL_POOLING, return_dtype=pl.String)
    return rows.filter(pl.col("pooling") == wanted)


def best_pooling(rows: pl.DataFrame) -> str:
    """The pooling with the highest mean, of rows of one method."""
    wide = rows.pivot(on="pooling", index=["model", "case"], values="value")
    names = [name for name in wide.columns if name not in ("model", "case")]
    return names[best_column(torch.as_tensor(wide.select(names).to_numpy(writable=True)))]
