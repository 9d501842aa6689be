"""The mosaics of a pair of classes and their heatmaps, as picture files: kept ones, or explained once more."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from heatproof.benchmarks.focus import Focus
from heatproof.engine.manifest import is_object
from heatproof.engine.plan import for_quantities
from heatproof.engine.resume import changed_models, differences, identity, probe
from heatproof.engine.showing import find_case
from heatproof.engine.sources import Explaining
from heatproof.errors import HeatproofError
from heatproof.explainers.spec import make_explainer
from heatproof.lazy import np, pl
from heatproof.mosaics.mosaics import Mosaic, assemble, check_files
from heatproof.progress import Progress
from heatproof.report.gallery import overlay
from heatproof.results.bias import first_model
from heatproof.results.run import Results
from heatproof.workspace import whole

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from PIL.Image import Image

TARGET, OTHER, REST = (0.16, 0.61, 0.36), (0.88, 0.62, 0.12), (0.35, 0.39, 0.43)
"""Colours of the frames around tiles of the target class and of the other class, and of what the rest is called."""
READABLE = 160
"""Pixels of a tile that a class can be named on."""


@dataclass(frozen=True, eq=False)
class Shown:
    """A mosaic with its pixels (H, W, 3) between 0 and 1, and the relevance (H, W) for its target."""

    mosaic: Mosaic
    pixels: NDArray[Any]
    relevance: NDArray[Any]

    def pictures(self, other: str) -> dict[str, NDArray[Any]]:
        """The mosaic, and the heat over it, with frames around the tiles of target and other class."""
        heat = overlay(self.pixels.transpose(2, 0, 1), self.relevance)
        return {kind: framed(image, self.mosaic, other) for kind, image in (("mosaic", self.pixels), ("heatmap", heat))}


def look_up(
    run: Results,
    entry: Mapping[str, Any],
    cases: Iterable[str],
    progress: Progress,
    names: Mapping[str, str] | None = None,
) -> dict[str, Shown]:
    """These mosaics with their heatmaps: kept ones, or explained once more. `names` are what classes are called.

    An error says why there can be none, where pictures or model are not those of the run any more.
    """
    recipe = recipe_of(run)
    wanted = set(cases)
    drawn, _ = recipe.draw(run.manifest["configuration"]["seed"])
    side, fit = (run.manifest["configuration"][name] for name in ("tile", "fit"))
    if check_files(drawn, side, fit, progress) != run.manifest["cases"]:
        raise HeatproofError("the pictures have changed since the run.")
    heatmaps = run.files.heatmaps(entry["folder"], first_model(run))
    if not wanted <= set(heatmaps):
        heatmaps = explained_again(recipe, run, entry, sorted(wanted), progress)
    return {
        mosaic.name: Shown(
            renamed(mosaic, names or {}), assemble(mosaic, side, fit) / 255, heatmaps[mosaic.name].sum(0)
        )
        for mosaic in drawn
        if mosaic.name in wanted
    }


def renamed(mosaic: Mosaic, names: Mapping[str, str]) -> Mosaic:
    labels = tuple(names.get(label, label) for label in mosaic.labels)
    return replace(mosaic, labels=labels, target=names.get(mosaic.target, mosaic.target))


def write_worst(shown: Mapping[str, Shown], worst: pl.DataFrame, folder: Path) -> None:
    """For every row of `worst` the mosaic and its heatmap, framed, as files in `folder`."""
    for row in worst.iter_rows(named=True):
        for kind, image in shown[row["case"]].pictures(row["other_class"]).items():
            save(as_image(image), folder / picture_name(kind, row))


def write_named(shown: Mapping[str, Shown], mosaics: pl.DataFrame, folder: Path) -> None:
    """For every row of `mosaics` the same, large enough to name the class of every tile on it."""
    for place, row in enumerate(mosaics.iter_rows(named=True), 1):
        one = shown[row["case"]]
        for kind, image in one.pictures(row["other_class"]).items():
            save(labelled(image, one.mosaic, row["other_class"]), folder / numbered_name(place, kind, row))


def picture_name(kind: str, row: Mapping[str, Any]) -> str:
    """The file of a mosaic or its heatmap: with the pair's name, because a mosaic may be among the worst of two."""
    return plain_name(kind, *(row[name] for name in ("case", "target_class", "other_class"))) + ".webp"


def numbered_name(place: int, kind: str, row: Mapping[str, Any]) -> str:
    """The same in the folder of one pair, which is to be looked through in its order."""
    return plain_name(f"{place:02d}", row["case"], kind) + ".jpg"


def plain_name(*words: str) -> str:
    """A name that every file system takes."""
    return "".join(letter if letter.isalnum() or letter in "_-" else "-" for letter in "-".join(words))


def recipe_of(run: Results) -> Focus:
    """The benchmark as the run had it."""
    options = run.manifest["options"]
    if "heatmaps" in options:
        raise HeatproofError(
            f"the heatmaps were made elsewhere ({options['heatmaps']}), and so were the mosaics ({options['mosaics']})."
        )
    try:
        return Focus(**options)
    except TypeError as problem:
        raise HeatproofError(f"the run was made by another version of heatproof ({problem}).") from problem


def explained_again(
    recipe: Focus, run: Results, entry: Mapping[str, Any], cases: Sequence[str], progress: Progress
) -> dict[str, NDArray[Any]]:
    """Relevance of a few cases, as in the run: same model, explainer and random draws."""
    if is_object(recipe.model):
        raise HeatproofError("the model was given as a Python object; run with keep_heatmaps=True to have heatmaps.")
    seed = run.manifest["configuration"]["seed"]
    opened = recipe.rehearse(seed, progress)  # without predictions, which no heatmap hangs on
    now = {**opened.settings, "models": dict(opened.models)}
    then = {name: value for name, value in identity(run.manifest).items() if name in now}
    explainer = for_quantities([make_explainer(entry["explainer"])], [entry["target"] or "logit"])[0]
    source = Explaining(opened, [explainer], seed=seed)
    changed = differences(then, now) + changed_models(run.manifest["probe"], probe(source))
    if changed:
        raise HeatproofError("what was explained has changed since the run: " + "; ".join(changed) + ".")
    found: dict[str, NDArray[Any]] = {}
    for place, case in enumerate(cases):
        progress("explaining mosaics to look at", place, len(cases))
        one, chunk = find_case(opened, recipe.name, case)
        found[case] = source.relevance(explainer, source.form(chunk.model, explainer), one)[0].cpu().numpy()
    progress("explaining mosaics to look at", len(cases), len(cases))
    return found


def framed(pixels: NDArray[Any], mosaic: Mosaic, other: str) -> NDArray[Any]:
    """The picture (H, W, 3) with a frame around the tiles of the target and of the other class."""
    image: NDArray[Any] = pixels.copy()
    side = len(pixels) // mosaic.grid
    width = max(1, side // 32)
    for place, label in enumerate(mosaic.labels):
        if label in (mosaic.target, other):
            top, left = (side * number for number in divmod(place, mosaic.grid))
            tile = image[top : top + side, left : left + side]
            inside = tile[width:-width, width:-width].copy()
            tile[:] = TARGET if label == mosaic.target else OTHER
            tile[width:-width, width:-width] = inside
    return image


def labelled(pixels: NDArray[Any], mosaic: Mosaic, other: str) -> Image:
    """The picture with the class of each tile in its upper left corner, enlarged if that takes it."""
    from PIL import ImageDraw, ImageFont
    from PIL.Image import Resampling

    image = as_image(pixels)
    larger = -(-READABLE // (image.width // mosaic.grid))
    image = image.resize((larger * image.width, larger * image.height), Resampling.BICUBIC)
    side = image.width // mosaic.grid
    font = ImageFont.load_default(max(12, side // 16))
    draw = ImageDraw.Draw(image)
    for place, label in enumerate(mosaic.labels):
        top, left = (side * number for number in divmod(place, mosaic.grid))
        colour = {mosaic.target: TARGET, other: OTHER}.get(label, REST)
        shown = label
        while font.getlength(shown) > side - 12 and len(shown) > 1:
            shown = shown.rstrip("…")[:-1] + "…"
        box = draw.textbbox((left + 6, top + 4), shown, font)
        draw.rectangle((left, top, box[2] + 6, box[3] + 4), tuple(round(255 * part) for part in colour))
        draw.text((left + 6, top + 4), shown, "white", font)
    return image


def as_image(pixels: NDArray[Any]) -> Image:
    from PIL.Image import fromarray

    return fromarray(np.rint(255 * pixels).astype("uint8"))


def save(image: Image, path: Path) -> None:
    """WebP for pages; JPEG, which every program opens, for people."""
    how: dict[str, Any] = {"quality": 92, "subsampling": 0} if path.suffix == ".jpg" else {"quality": 85}
    with whole(path) as temporary:
        image.save(temporary, "JPEG" if path.suffix == ".jpg" else "WEBP", **how)
