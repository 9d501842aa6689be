"""The mosaics behind a found pair and their heatmaps, as picture files: kept ones, or explained once more."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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

TARGET, OTHER = (0.16, 0.61, 0.36), (0.88, 0.62, 0.12)
"""Colours of the frames around tiles of the target class and of the other class."""


def write_worst(run: Results, entry: Mapping[str, Any], worst: pl.DataFrame, folder: Path, progress: Progress) -> None:
    """For every row of `worst` the mosaic and its heatmap, framed, as files in `folder`.

    An error says why there can be none, where pictures or model are not those of the run any more.
    """
    recipe = recipe_of(run)
    seed = run.manifest["configuration"]["seed"]
    wanted = set(worst["case"])
    drawn, _ = recipe.draw(seed)
    side, fit = (run.manifest["configuration"][name] for name in ("tile", "fit"))
    if check_files(drawn, side, fit, progress) != run.manifest["cases"]:
        raise HeatproofError("the pictures have changed since the run.")
    mosaics = {mosaic.name: mosaic for mosaic in drawn if mosaic.name in wanted}
    heatmaps = run.files.heatmaps(entry["folder"], first_model(run))
    if not wanted <= set(heatmaps):
        heatmaps = explained_again(recipe, run, entry, sorted(wanted), progress)
    for row in worst.iter_rows(named=True):
        mosaic = mosaics[row["case"]]
        pixels = assemble(mosaic, side, fit) / 255
        heat = overlay(pixels.transpose(2, 0, 1), heatmaps[row["case"]].sum(0))
        for kind, image in (("mosaic", pixels), ("heatmap", heat)):
            save(framed(image, mosaic, row["other_class"]), folder / picture_name(kind, row))


def picture_name(kind: str, row: Mapping[str, Any]) -> str:
    """The file of a mosaic or its heatmap: with the pair's name, because a mosaic may be among the worst of two."""
    words = "-".join(str(row[name]) for name in ("case", "target_class", "other_class"))
    return kind + "-" + "".join(letter if letter.isalnum() or letter in "_-" else "-" for letter in words) + ".webp"


def recipe_of(run: Results) -> Focus:
    """The benchmark as the run had it."""
    try:
        return Focus(**run.manifest["options"])
    except TypeError as problem:
        raise HeatproofError(f"the run was made by another version of heatproof ({problem}).") from problem


def explained_again(
    recipe: Focus, run: Results, entry: Mapping[str, Any], cases: Sequence[str], progress: Progress
) -> dict[str, NDArray[Any]]:
    """Relevance of a few cases, as in the run: same model, explainer and random draws."""
    if is_object(recipe.model):
        raise HeatproofError("the model was given as a Python object; run with keep_heatmaps=True to have heatmaps.")
    seed = run.manifest["configuration"]["seed"]
    opened = recipe.open(seed, progress)
    now = {**opened.settings, "cases": opened.fingerprint, "models": dict(opened.models)}
    then = {name: value for name, value in identity(run.manifest).items() if name in now}
    explainer = for_quantities([make_explainer(entry["explainer"])], [entry["target"] or "logit"])[0]
    source = Explaining(opened, [explainer], seed=seed)
    changed = differences(then, now) + changed_models(run.manifest["probe"], probe(source))
    if changed:
        raise HeatproofError("what was explained has changed since the run: " + "; ".join(changed) + ".")
    found: dict[str, NDArray[Any]] = {}
    for place, case in enumerate(cases):
        progress("explaining the worst mosaics", place, len(cases))
        one, chunk = find_case(opened, recipe.name, case)
        found[case] = source.relevance(explainer, source.form(chunk.model, explainer), one)[0].cpu().numpy()
    progress("explaining the worst mosaics", len(cases), len(cases))
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


def save(pixels: NDArray[Any], path: Path) -> None:
    from PIL import Image

    image = Image.fromarray(np.rint(255 * pixels).astype("uint8"))
    with whole(path) as temporary:
        image.save(temporary, "WEBP", quality=85)
