"""Focus without a network: mosaics and their target tiles, for heatmaps that were made elsewhere. Needs no torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from heatproof.benchmarks.base import Ending, OpenedMasks, Reference, metric_words
from heatproof.benchmarks.floors import FAMILIES
from heatproof.benchmarks.references import read_reference
from heatproof.benchmarks.sample import pictures_kept, stratified
from heatproof.cases import Chunk
from heatproof.errors import HeatproofError
from heatproof.heatmap_files import Heatmaps, few, open_ordered
from heatproof.lazy import np, pl
from heatproof.metrics.heatmap_scores import REASONS, score_heatmaps, tile_masks
from heatproof.metrics.mask_scores import SIGNED, score_signed
from heatproof.metrics.uniform import uniform_column
from heatproof.mosaics.mosaics import Mosaic, assemble, check_files, read_mosaics
from heatproof.mosaics.published import PAPER_POOLING, USUAL_POOLING, under_paper_pooling
from heatproof.pooling import poolings
from heatproof.progress import Progress, silent
from heatproof.story import Column, Fact, Story, Words

if TYPE_CHECKING:
    from numpy.typing import NDArray

MODEL = "elsewhere"
TRUTH = "target_quadrants"
METRICS = ("focus", "focus_best", *SIGNED)
CHUNK_VALUES = 2**23
"""Values of heatmaps in a chunk: about 64 MB."""
FACTS = (
    Fact("target_class", "target class", filters=True),
    Fact("names_target", "the network names", filters=True, words=("the target class", "another class")),
    Fact("probability", "probability of the target class"),
)
COLUMNS = (Column("focus", TRUTH, "paper"), Column("focus_best", TRUTH, ""))


def open_mosaic_maps(heatmaps: Path, mosaics: Path, progress: Progress = silent) -> tuple[Heatmaps, OpenedMosaics]:
    """Heatmaps by the names of mosaics or in the order of their CSV, and the mosaics that have one."""
    every = read_mosaics(mosaics)
    names = [mosaic.name for mosaic in every]
    stored = open_ordered(heatmaps, {"heatmaps": names})
    there = set(stored.names)
    drawn = [mosaic for mosaic in every if mosaic.name in there]
    if not drawn:
        raise HeatproofError(
            f"none of the heatmaps of {heatmaps} ({few(sorted(there))}) is called like a mosaic of {mosaics}"
            f" ({few(names)})."
        )
    space = heatmap_size(stored, [mosaic.name for mosaic in drawn])
    grid = drawn[0].grid
    targets = {mosaic.name: mosaic.target for mosaic in drawn}
    opened = OpenedMosaics(
        story=Story(
            title="Focus: heatmaps made elsewhere",
            paper="Arias-Duart et al. 2022, Focus! Rating XAI Methods and Finding Biases",
            dataset="mosaics",
            metrics=metric_words(METRICS),
            columns=COLUMNS,
            poolings=("paper", *poolings),
            words=Words(cases="mosaics", truth="the tiles of the target class"),
            examples={name: targets[name] for name in stratified(targets, pictures_kept(*space), seed=0)},
            facts=FACTS,
        ),
        settings={"grid": grid, "size": list(space), "cases": len(drawn)},
        fingerprint=check_files(drawn, min(space) // grid, "squash", progress),
        models={MODEL: ""},
        counts={"": len(drawn)},
        per_chunk=max(1, CHUNK_VALUES // (3 * space[0] * space[1])),
        space=space,
        size_hint=", the size of the first",
        drawn=drawn,
        left_out=[
            ("Mosaics without a heatmap, left out", [name for name in names if name not in there]),
            ("Heatmaps for no mosaic, left out", sorted(there - set(names))),
        ],
    )
    return stored, opened


def heatmap_size(heatmaps: Heatmaps, names: Sequence[str]) -> tuple[int, int]:
    """Height and width of the first heatmap that can be read; Focus does not ask for the mosaic's own size."""
    for name in names:
        try:
            shape = np.asarray(heatmaps.read(name)).shape
        except Exception:  # its row will say why
            continue
        if len(shape) in (2, 3) and min(shape) > 0:
            return shape[-2], shape[-1]
    raise HeatproofError(f"{heatmaps.source} holds no heatmap (channels, height, width) or (height, width).")


@dataclass(frozen=True, eq=False, kw_only=True)
class OpenedMosaics(OpenedMasks):
    """Mosaics that have a heatmap."""

    drawn: Sequence[Mosaic]
    left_out: Sequence[tuple[str, Sequence[str]]]

    def mosaics(self, chunk: Chunk) -> Sequence[Mosaic]:
        return self.drawn[int(chunk.name) : int(chunk.name) + chunk.cases]

    def cases(self, chunk: Chunk) -> list[str]:
        return [mosaic.name for mosaic in self.mosaics(chunk)]

    def score(self, chunk: Chunk, relevance: NDArray[Any], problems: Sequence[str]) -> pl.DataFrame:
        mosaics = self.mosaics(chunk)
        grid = mosaics[0].grid
        truth = tile_masks((self.space[0], self.space[1]), grid, np.array([mosaic.targets for mosaic in mosaics]))
        facts = pl.DataFrame(
            {
                "case": self.cases(chunk),
                "target_class": [mosaic.target for mosaic in mosaics],
                **{f"label_{i}": [mosaic.labels[i] for mosaic in mosaics] for i in range(grid**2)},
            }
        )
        shares = truth.reshape(len(mosaics), -1).mean(1)
        return pl.concat(
            facts.with_columns(
                metric=pl.lit(metric),
                ground_truth=pl.lit(kind),
                pooling=pl.lit(pooling),
                value=pl.Series(scored.values),
                uniform=uniform_column(metric, shares),
                undefined=pl.Series(
                    [problem or REASONS[code] for problem, code in zip(problems, scored.state, strict=True)]
                ),
            )
            for (metric, kind, pooling), scored in focus_scores(relevance, truth, grid).items()
        )

    def shown(self, cases: Sequence[str]) -> dict[str, NDArray[Any]]:
        by_name = {mosaic.name: mosaic for mosaic in self.drawn}
        mosaics = [by_name[case] for case in cases]
        size = (self.space[0], self.space[1])
        truth = tile_masks(size, mosaics[0].grid, np.array([mosaic.targets for mosaic in mosaics]))
        return {"inputs": self.pictures(mosaics), f"mask.{TRUTH}": truth}

    def pictures(self, mosaics: Sequence[Mosaic]) -> NDArray[np.float32]:
        """The mosaics (mosaics, 3, *space) in the size of the heatmaps."""
        from PIL import Image

        height, width = self.space
        side = max(1, max(height, width) // mosaics[0].grid)
        pixels = [
            np.asarray(Image.fromarray(assemble(mosaic, side, "squash")).resize((width, height)), dtype=np.float32)
            for mosaic in mosaics
        ]
        return np.stack(pixels).transpose(0, 3, 1, 2) / np.float32(255)

    def inputs(self, chunk: Chunk) -> NDArray[Any]:
        return self.pictures(self.mosaics(chunk))

    def truth(self, chunk: Chunk) -> NDArray[np.bool_]:
        mosaics = self.mosaics(chunk)
        targets = np.array([mosaic.targets for mosaic in mosaics])
        return np.asarray(tile_masks((self.space[0], self.space[1]), mosaics[0].grid, targets), dtype=np.bool_)

    def remembers(self) -> pl.Expr:
        return pl.col("metric") == "focus"

    def summarise(self, rows: pl.DataFrame) -> pl.DataFrame:
        return under_poolings(rows)

    def end(self, rows: pl.DataFrame, table: pl.DataFrame) -> Ending:
        rows = rows.filter(~pl.col("explainer").is_in(list(FAMILIES)))
        said = [f"Heatmaps of {len(self.drawn):,} mosaics scored; 0.5 is chance. Best pooling: {best_pooling(rows)}."]
        said += [f"{what}: {len(names):,} ({few(names)})." for what, names in self.left_out if names]
        bad = under_paper_pooling(rows).filter(pl.col("value").is_nan()).select("case", "undefined").rows()
        if bad:
            reasons = few([f"{case}: {reason}" for case, reason in bad], "; ")
            said.append(f"Mosaics with an undefined score: {len(bad):,} ({reasons}).")
        return Ending(said)

    def reference(self) -> Reference:
        """The mean over the twelve networks of the paper's table."""
        axes = ("explainer", "metric", "ground_truth", "pooling")
        rows = read_reference("focus").group_by(*axes, maintain_order=True).agg(pl.col("reference").mean())
        return Reference(rows.with_columns(target=pl.lit("")))


@dataclass(frozen=True, eq=False)
class Scored:
    """A score of each mosaic, and why it is undefined where it is: an index of REASONS."""

    values: NDArray[np.float64]
    state: NDArray[np.int8]


def focus_scores(relevance: NDArray[Any], truth: NDArray[np.bool_], grid: int) -> Mapping[tuple[str, str, str], Scored]:
    """Focus of relevance (B, C, H, W), the mass accuracy with the target's tiles as mask, and the share of each tile.

    By metric, ground truth and pooling; shares only for the poolings of the paper. Scores that look at signs are of the
    summed channels, without a pooling.
    """
    tiles = tile_masks((truth.shape[1], truth.shape[2]), grid, np.eye(grid**2, dtype=np.bool_))
    masks = {TRUTH: truth}
    masks |= {f"share_{i}": np.broadcast_to(tile, truth.shape) for i, tile in enumerate(tiles)}
    scores = score_heatmaps(relevance, masks, ranks=False)
    found: dict[tuple[str, str, str], Scored] = {}
    for pooling, by_mask, states in zip(scores.poolings, scores.mass, scores.state, strict=True):
        scored = [Scored(values, state) for values, state in zip(by_mask, states, strict=True)]
        found["focus", TRUTH, pooling] = scored[0]
        if pooling in (USUAL_POOLING, *PAPER_POOLING.values()):
            found |= {(f"share_{i}", "", pooling): share for i, share in enumerate(scored[1:])}
    signed = score_signed(relevance, truth.astype(np.uint8))
    found |= {(metric, TRUTH, ""): Scored(signed.values[metric], signed.state[metric]) for metric in SIGNED}
    return found


def under_poolings(rows: pl.DataFrame) -> pl.DataFrame:
    """Each method's Focus under the paper's pooling, and under the one that is best for it."""
    frames = [under_paper_pooling(rows).with_columns(pooling=pl.lit("paper"))]
    for _, group in rows.group_by("model", "explainer", "target", maintain_order=True):
        frames.append(
            group.filter(pl.col("pooling") == best_pooling(group)).with_columns(
                metric=pl.lit("focus_best"), pooling=pl.lit("")
            )
        )
    return pl.concat(frames)


def best_pooling(rows: pl.DataFrame) -> str:
    """The pooling with the highest mean, of rows of one method; the first of equals."""
    wide = rows.pivot(on="pooling", index=["model", "case"], values="value").drop("model", "case")
    means = wide.select(pl.all().fill_nan(None).mean()).row(0)
    return wide.columns[max(range(len(means)), key=lambda k: -np.inf if means[k] is None else means[k])]
