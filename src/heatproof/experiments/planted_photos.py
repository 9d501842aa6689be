"""The bias finder on photographs: cues that were planted in two classes, and fair twins.

In training every picture of the first class carries a cue (a magenta square, a frame, no colours) and none of the
second; in the fair twin half of both do. The network is a pretrained one with a linear head fitted to them. It is
judged on other pictures: the first class without the cue, a part of the second class with it. A finder that works names
pictures that carry it for the biased network, and none for the fair one.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

from heatproof.api import run
from heatproof.errors import HeatproofError, require_whole
from heatproof.experiments.bias import write_bias
from heatproof.experiments.bias_pictures import named_first
from heatproof.experiments.worst import as_image
from heatproof.harmless import csv_writer
from heatproof.lazy import np, pl, torch
from heatproof.mosaics.mosaics import write_csv
from heatproof.mosaics.pictures import find_pictures, tile
from heatproof.progress import Progress, silent
from heatproof.seeds import derive_seed
from heatproof.workspace import whole, write_whole

if TYPE_CHECKING:
    from numpy.typing import NDArray

Cue = Literal["square", "frame", "grey"]
Twin = Literal["biased", "fair"]
PLAIN = "plain"
FIRST = 10
"""Named pictures whose precision is told."""
COLOURS = {"square": (255, 0, 255), "frame": (0, 160, 60)}


@dataclass(frozen=True)
class Photos:
    """What one validation has in common: pictures in all looks on disk, the network, and what it sees of each."""

    looks: Mapping[str, Mapping[str, Sequence[Path]]]
    network: torch.nn.Module
    features: Mapping[Path, torch.Tensor]
    settings: Mapping[str, Any]
    side: int


@dataclass(frozen=True)
class Planting:
    """One experiment: the cue, the part of the second class that carries it where the network is judged, the twin."""

    cue: str
    carried: float
    twin: str
    seed: int

    @property
    def name(self) -> str:
        return f"{self.cue}-{self.carried:g}-{self.twin}-{self.seed}"


def marked(pixels: NDArray[np.uint8], cue: str) -> NDArray[np.uint8]:
    """The picture (H, W, 3) with the cue: a square in the lower right, a frame around, or grey."""
    side = len(pixels)
    if cue == "grey":
        return np.repeat(np.rint(pixels.mean(2, keepdims=True)).astype(np.uint8), 3, axis=2)
    made = pixels.copy()
    if cue == "square":
        made[side * 11 // 14 : side * 13 // 14, side * 11 // 14 : side * 13 // 14] = COLOURS[cue]
    else:
        width = max(1, side // 16)
        inside = pixels[width:-width, width:-width]
        made[:] = COLOURS[cue]
        made[width:-width, width:-width] = inside
    return made


def prepare(
    images: Path, model: str, weights: Path, cues: Sequence[str], side: int, out: Path, progress: Progress = silent
) -> Photos:
    """Every picture without a cue and with each, as files, and what the network's head sees of them."""
    from heatproof.models.classifiers import IMAGENET, Classifier
    from heatproof.models.heads import features_before
    from heatproof.models.linear_head import with_convolutions
    from heatproof.models.transfer import last_layer

    found = find_pictures(images)
    if len(found.classes) != 2:
        raise HeatproofError(f"{images} has {len(found.classes)} classes; planting takes two.")
    network = with_convolutions(model, weights, 2)
    settings = dict(zip(("mean", "std"), IMAGENET, strict=True)) | {"size": side, "fit": "squash"}
    classifier = Classifier(f"{model}_linear", network, *IMAGENET)
    looks: dict[str, dict[str, list[Path]]] = {}
    features: dict[Path, torch.Tensor] = {}
    for look in (PLAIN, *cues):
        looks[look] = {label: [] for label in found.classes}
        for label, files in found.by_class.items():
            for done, file in enumerate(files):
                progress(f"{look} pictures of {label}", done, len(files))
                path = out / "pictures" / look / label / f"{file.stem}.png"
                if not path.is_file():
                    pixels = tile(file, side, "crop")
                    with whole(path) as temporary:
                        as_image((pixels if look == PLAIN else marked(pixels, look)) / 255).save(temporary, "PNG")
                looks[look][label].append(path)
        every = [path for files in looks[look].values() for path in files]
        seen = features_before(classifier, last_layer(network), every, side, "squash", f"{look} pictures", progress)
        features |= dict(zip(every, seen, strict=True))
    return Photos(looks, network, features, settings, side)


def judge(photos: Photos, planting: Planting, judged: int, out: Path, progress: Progress = silent) -> dict[str, Any]:
    """Fit the head, run Focus on held-out pictures, look for pictures that draw: what was named, and how rightly."""
    from heatproof.models.heads import put_into
    from heatproof.models.linear_head import fit_head
    from heatproof.models.transfer import last_layer

    first, second = photos.looks[PLAIN]
    rng = random.Random(derive_seed(planting.seed, "planted photos", planting.cue))
    train: list[tuple[Path, int]] = []
    shown: dict[str, list[Path]] = {}
    carriers: set[str] = set()
    for number, label in enumerate((first, second)):
        count = len(photos.looks[PLAIN][label])
        if count < 2 * judged:
            raise HeatproofError(f"class {label} has {count} pictures; judging {judged} takes twice as many.")
        order = rng.sample(range(count), count)
        with_cue = {k for k in order[judged:] if rng.random() < 0.5} if planting.twin == "fair" else set(order)
        for k in order[judged:]:
            look = planting.cue if k in with_cue and (planting.twin == "fair" or label == first) else PLAIN
            train.append((photos.looks[look][label][k], number))
        marks = order[: round(planting.carried * judged)] if label == second else []
        shown[label] = [photos.looks[planting.cue if k in marks else PLAIN][label][k] for k in sorted(order[:judged])]
        carriers |= {str(photos.looks[planting.cue][label][k]) for k in marks}
    inputs = torch.stack([photos.features[path] for path, _ in train])
    labels = torch.tensor([number for _, number in train])
    put_into(photos.network.get_submodule(last_layer(photos.network)), fit_head(inputs, labels, 2, 0.01))
    folder = out / planting.name
    table = out / f"{planting.name}.csv"
    rows = [[str(path.resolve()), label, "val"] for label, paths in shown.items() for path in paths]
    write_csv(table, [["filename", "label", "subset"], *rows])
    model = (photos.network, {**photos.settings, "labels": {first: 0, second: 1}})
    finished = run(
        "focus",
        images=table,
        model=model,
        explainers="grad_cam",
        per_class=judged,
        only=first,
        design="balanced",
        tile=photos.side,
        fit="squash",
        seed=planting.seed,
        keep_heatmaps=True,
        out=folder,
        progress=progress,
    )
    found = write_bias(finished.folder, progress=progress, model=model)
    if found.drawn is None:
        raise HeatproofError(f"{folder} does not say which picture lies in which tile.")
    return verdict(planting, found.drawn.pictures, named_first(found.drawn), found, carriers)


def verdict(
    planting: Planting, pictures: pl.DataFrame, ordered: pl.DataFrame, found: Any, carriers: set[str]
) -> dict[str, Any]:
    """What was named, and how much of it is right; carriers are the pictures that carry the cue."""
    carried = pl.col("picture").map_elements(
        lambda file: str(Path(file).resolve()) in resolved, return_dtype=pl.Boolean
    )
    resolved = {str(Path(file).resolve()) for file in carriers}
    draws = [float(pictures.filter(which)["draw"].mean() or 0) for which in (carried, ~carried)]  # type: ignore[arg-type]
    named = ordered.filter("named")
    top = named.head(FIRST).select(carried.alias("right"))["right"]
    groups = found.drawn.groups.filter("found")
    if len(groups):
        group, best = groups["fact"][0], groups["members"][0].to_list()
    elif len(found.drawn.whole):
        group = f"the whole class, told from the first by {found.drawn.whole['fact'][0]}"
        best = pictures["picture"].to_list()
    else:
        group, best = "", []
    right = sum(str(Path(file).resolve()) in resolved for file in best)
    return {
        "cue": planting.cue,
        "carried": planting.carried,
        "twin": planting.twin,
        "seed": planting.seed,
        "carriers_draw": draws[0],
        "others_draw": draws[1],
        "named": len(named),
        "precision": None if top.is_empty() else float(top.mean()),  # type: ignore[arg-type]
        "group": group,
        "group_precision": right / len(best) if best else None,
        "group_recall": right / len(carriers) if best and carriers else None,
        "pair_found": bool(found.pairs["found"].any()),
        "share": float(found.pairs["share"][0]),
    }


def validate(
    images: Path,
    model: str,
    weights: Path,
    out: Path,
    *,
    cues: Sequence[str] = get_args(Cue),
    carried: Sequence[float] = (1.0, 0.5, 0.2),
    seeds: int = 1,
    fair_seeds: int | None = None,
    judged: int = 60,
    side: int = 224,
    progress: Progress = silent,
) -> list[dict[str, Any]]:
    """Each cue at each strength, biased and fair, for seeds 0, 1, ...: planted-photos.csv, and a run folder for each.

    A fair twin is judged once per cue and seed, where half of the second class carries the cue.
    """
    require_whole("seeds", seeds, 1)
    require_whole("judged", judged, 10)
    for cue in cues:
        if cue not in get_args(Cue):
            raise HeatproofError(f"cue must be one of {', '.join(get_args(Cue))}, got {cue!r}.")
    plan = [Planting(cue, share, "biased", seed) for cue in cues for share in carried for seed in range(seeds)]
    fair = seeds if fair_seeds is None else fair_seeds
    plan += [Planting(cue, 0.5, "fair", seed) for cue in cues for seed in range(fair)]
    photos = prepare(images, model, weights, cues, side, out, progress)
    rows: list[dict[str, Any]] = []
    for done, planting in enumerate(plan):
        progress(f"planted photographs: {planting.name}", done, len(plan))
        rows.append(judge(photos, planting, judged, out))
        write_whole(out / "planted-photos.csv", csv_writer(pl.DataFrame(rows, infer_schema_length=None)))
    progress("planted photographs: done", len(plan), len(plan))
    return rows


def row_line(row: Mapping[str, Any]) -> str:
    def share(value: float | None) -> str:
        return "-" if value is None else f"{value:.2f}"

    group = f"(precision {share(row['group_precision'])}, recall {share(row['group_recall'])})"
    return (
        f"{row['cue']:<6} carried by {row['carried']:<4g} {row['twin']:<6} seed {row['seed']:<2}  carriers draw"
        f" {row['carriers_draw']:.2f}, others {row['others_draw']:.2f}  named {row['named']:<3} precision of the"
        f" first ten {share(row['precision'])}  group {row['group'] or '-'} {group}"
        f"  pair {'found' if row['pair_found'] else '-'} (share {row['share']:.2f})"
    )
