"""The bias finder put to the proof: classifiers with a bias that was planted, and the same without.

In training every cube carries a feature that nothing else carries: red paint, or a small yellow sphere beside it. The
pictures that the classifier is judged on have the feature on spheres and on no cube. A finder that works names one
pair: the target cube is seen in spheres. The control is trained on pictures that carry the feature as often in every
class, and judged on the same pictures: a finder that works names nothing.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

from heatproof.api import run
from heatproof.clevr.objects import Look, Looks, render_objects, write_pictures
from heatproof.clevr.rendering import world
from heatproof.errors import HeatproofError, require_whole
from heatproof.experiments.bias import write_bias
from heatproof.harmless import csv_writer
from heatproof.lazy import np, pl
from heatproof.progress import Progress, silent
from heatproof.results.bias import (
    LEVEL,
    chosen_explainer,
    find_pairs,
    lowest_pair,
    means_by,
    pair_rows,
    tile_shares,
)
from heatproof.results.contest import holm
from heatproof.workspace import write_whole

if TYPE_CHECKING:
    from numpy.typing import NDArray

CLASSES = ("rubber_cube", "rubber_sphere", "rubber_cylinder")
PLANTED = ("rubber_cube", "rubber_sphere")
"""Who carries the feature in training, and who carries it where the model is judged: the pair to be found."""
PLAIN_COLOURS = tuple(colour for colour in world.COLOURS if colour not in ("red", "brown"))
"""Brown is too much like red to stand for its absence."""
Feature = Literal["colour", "object"]
Training = Literal["biased", "fair"]
Pairs = list[tuple[str, str]]


@dataclass(frozen=True)
class Planting:
    """One experiment.

    feature         what is planted: red paint (colour), or a small yellow sphere beside the object
    training        biased, or fair: the control
    seed            of everything: pictures, weights, mosaics
    in_target_too   judge on cubes that carry the feature too, so that nothing tells it from the class
    pictures        of each class, to train on
    judged          pictures and mosaics of each class, to judge on
    device          where the classifier is trained and explained
    """

    feature: Feature = "colour"
    training: Training = "biased"
    seed: int = 0
    in_target_too: bool = False
    pictures: int = 200
    epochs: int = 20
    judged: int = 24
    side: int = 32
    device: str = "cpu"

    def render(self, split: str, count: int, carriers: Collection[str] | None) -> dict[str, NDArray[np.uint8]]:
        """Pictures by class, the feature on those of `carriers`; None: on half of all."""
        return render_objects(
            split,
            count,
            seed=self.seed,
            looks=looks_of(self.feature, carriers),
            classes=CLASSES,
            side=self.side,
            samples=8,
            denoise=False,
        )

    @property
    def name(self) -> str:
        return f"{self.feature}-{self.seed}-{self.training}"


def looks_of(feature: Feature, carriers: Collection[str] | None) -> Looks:
    def look(label: str, rng: random.Random) -> Look:
        carried = rng.random() < 0.5 if carriers is None else label in carriers
        if feature == "colour":
            return Look("red" if carried else rng.choice(PLAIN_COLOURS))
        return Look(rng.choice(PLAIN_COLOURS), companion=carried)

    return look


def judge(planting: Planting, out: Path, progress: Progress = silent) -> dict[str, Any]:
    """Train, run Focus, look for pairs: what was found, by our rule and by those that are not taken.

    `accuracy` is on new pictures like those of training, `mistaken` the share of judged spheres called a cube.
    """
    from heatproof.models.object_classifier import accuracy, as_inputs, train

    carriers = PLANTED[:1] if planting.training == "biased" else None
    pictures = planting.render("train", planting.pictures, carriers)
    network = train(pictures, planting.seed, planting.epochs, device=planting.device)
    judged = planting.render("judged", planting.judged, PLANTED if planting.in_target_too else PLANTED[1:])
    shown = out / f"{planting.feature}-{planting.seed}-pictures"
    write_pictures(judged, shown)
    finished = run(
        "focus",
        images=shown,
        model=(network, {"labels": {label: place for place, label in enumerate(CLASSES)}}),
        explainers="grad_cam",
        per_class=planting.judged,
        tile=planting.side,
        fit="squash",
        seed=planting.seed,
        keep_heatmaps=True,
        device=planting.device,
        out=out / planting.name,
        progress=progress,
    )
    table = write_bias(finished.folder, progress=progress).pairs
    pairs = pair_rows(tile_shares(finished, chosen_explainer(finished, "grad_cam")))
    called = network(as_inputs(judged[PLANTED[1]])).argmax(1) == CLASSES.index(PLANTED[0])
    return {
        "feature": planting.feature,
        "training": planting.training,
        "seed": planting.seed,
        "accuracy": accuracy(network, planting.render("test", 20, carriers)),
        "mistaken": float(called.float().mean()),
        "share": float(table.filter(target_class=PLANTED[0], other_class=PLANTED[1])["share"][0]),
        "found": found_in(table),
    } | {name: rule(pairs) for name, rule in REJECTED.items()}


def found_in(table: pl.DataFrame) -> Pairs:
    return table.filter("found").select("target_class", "other_class").rows()


def by_focus(pairs: pl.DataFrame) -> Pairs:
    """Pairs whose mosaics have a Focus significantly below 0.5."""
    return found_in(find_pairs(pairs.with_columns(share="focus")))


def by_comparison(pairs: pl.DataFrame) -> Pairs:
    """Pairs whose share is significantly below that of the target's other pairs (Welch's test), lowest p first."""
    from scipy.stats import ttest_ind

    p: dict[tuple[str, str], float] = {}
    for target, other in pairs.select("target_class", "other_class").unique(maintain_order=True).iter_rows():
        beside = pairs.filter(target_class=target).drop_nans("share")
        this, rest = (beside.filter(choice)["share"] for choice in pair_and_rest(other))
        p[target, other] = float(ttest_ind(this, rest, equal_var=False, alternative="less").pvalue)
    corrected = zip(p, holm(np.array(list(p.values()))), strict=True)
    return sorted([pair for pair, value in corrected if value < LEVEL], key=lambda pair: p[pair])


def by_lowest(pairs: pl.DataFrame) -> Pairs:
    """The paper's way: the class of the lowest mean Focus, and its partner. It always names one pair."""
    return [lowest_pair(pairs, means_by("target_class", pairs.unique("case", maintain_order=True)))]


def pair_and_rest(other: str) -> tuple[pl.Expr, pl.Expr]:
    return pl.col("other_class") == other, pl.col("other_class") != other


REJECTED: Mapping[str, Callable[[pl.DataFrame], Pairs]] = {
    "by_focus": by_focus,
    "by_comparison": by_comparison,
    "by_lowest": by_lowest,
}
"""Rules that name classes which nothing was planted in."""


def validate(
    out: Path, features: Collection[str], seeds: int, progress: Progress = silent, **options: Any
) -> list[dict[str, Any]]:
    """Each feature, planted and not, for seeds 0, 1, ...: planted-bias.csv, and a run folder with page for each."""
    require_whole("seeds", seeds, 1)
    unknown = [feature for feature in features if feature not in get_args(Feature)]
    if unknown or not features:
        raise HeatproofError(f"feature must be {' or '.join(get_args(Feature))}, got {', '.join(unknown) or 'none'}.")
    plan = [
        Planting(feature, training, seed, **options)
        for feature in get_args(Feature)
        if feature in features
        for training in get_args(Training)
        for seed in range(seeds)
    ]
    rows = []
    for done, planting in enumerate(plan):
        progress(f"planted bias: {planting.name}", done, len(plan))
        rows.append(judge(planting, out))
    progress("planted bias: done", len(plan), len(plan))
    table = pl.DataFrame([{k: words(v) if isinstance(v, list) else v for k, v in row.items()} for row in rows])
    write_whole(out / "planted-bias.csv", csv_writer(table))
    return rows


def row_line(row: Mapping[str, Any]) -> str:
    return (
        f"{row['feature']:<6}  {row['training']:<6}  seed {row['seed']:<2}  accuracy {row['accuracy']:.2f}"
        f"  spheres called cubes {row['mistaken']:.2f}  share {row['share']:.2f}  found: {words(row['found']) or '-'}"
    )


def rates(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """How often each rule is right, a line per feature and rule."""
    lines = []
    for feature in dict.fromkeys(row["feature"] for row in rows):
        for rule in ("found", *REJECTED):
            biased, fair = (
                [row[rule] for row in rows if (row["feature"], row["training"]) == (feature, training)]
                for training in get_args(Training)
            )
            first, alone = (sum(pairs[:most] == [PLANTED] for pairs in biased) for most in (1, None))
            lines.append(
                f"{feature:<6}  {rule:<13}  planted pair first {first}/{len(biased)}, it alone {alone}/{len(biased)};"
                f" control: something named {sum(map(bool, fair))}/{len(fair)}"
            )
    return lines


def words(pairs: Pairs) -> str:
    """`cube in sphere, ...`: the target, and the class that it is seen in."""
    return ", ".join(" in ".join(label.removeprefix("rubber_") for label in pair) for pair in pairs)
