"""The mosaics behind a found pair and their heatmaps, as picture files: kept ones, or explained once more."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from heatproof.benchmarks.focus import Focus
from heatproof.engine.plan import for_quantities
from heatproof.engine.store import differences
from heatproof.errors import HeatproofError
from heatproof.explainers.spec import make_explainer
from heatproof.lazy import np, pl
from heatproof.mosaics.mosaics import Mosaic, assemble, check_files
from heatproof.progress import Progress
from heatproof.report.bias import picture_name
from heatproof.report.gallery import overlay
from heatproof.results.bias import first_model
from heatproof.results.manifest import is_object
from heatproof.results.run import Run
from heatproof.seeds import CaseRandom
from heatproof.workspace import whole

if TYPE_CHECKING:
    from numpy.typing import NDArray

TARGET, OTHER = (0.16, 0.61, 0.36), (0.88, 0.62, 0.12)
"""Colours of the frames around tiles of the target class and of the other class."""


def write_worst(run: Run, entry: Mapping[str, Any], worst: pl.DataFrame, folder: Path, progress: Progress) -> set[Path]:
    """For every row of `worst` the mosaic and its heatmap, framed, as files in `folder`; returns their paths.

    An error says why there can be none, where pictures or model are not those of the run any more.
    """
    benchmark = reopened(run)
    wanted = set(worst["case"])
    drawn = benchmark.draw()
    if check_files(drawn, benchmark.side, benchmark.fitted, progress) != run.manifest["configuration"]["pictures"]:
        raise HeatproofError("the pictures have changed since the run.")
    mosaics = {mosaic.name: mosaic for mosaic in drawn if mosaic.name in wanted}
    heatmaps = run.store.heatmaps(entry["folder"], first_model(run))
    if not wanted <= set(heatmaps):
        heatmaps = explained_again(benchmark, run, entry, sorted(wanted), progress)
    written = set()
    for row in worst.iter_rows(named=True):
        mosaic = mosaics[row["case"]]
        pixels = assemble(mosaic, benchmark.side, benchmark.fitted) / 255
        heat = overlay(pixels.transpose(2, 0, 1), heatmaps[row["case"]].sum(0))
        for kind, image in (("mosaic", pixels), ("heatmap", heat)):
            path = folder / picture_name(kind, row)
            save(framed(image, mosaic, row["other_class"]), path)
            written.add(path)
    return written


def reopened(run: Run) -> Focus:
    """The benchmark as the run had it, not yet prepared."""
    options = run.manifest.get("options", {})
    try:
        return Focus(**options)
    except TypeError as problem:
        raise HeatproofError(f"the run was made by another version of heatproof ({problem}).") from problem


def explained_again(
    benchmark: Focus, run: Run, entry: Mapping[str, Any], cases: Sequence[str], progress: Progress
) -> dict[str, NDArray[Any]]:
    """Relevance of a few cases, as in the run: same model, explainer and random draws."""
    if is_object(benchmark.model):
        raise HeatproofError("the model was given as a Python object; run with keep_heatmaps=True to have heatmaps.")
    benchmark.prepare(progress)
    configuration = benchmark.configuration()
    stored = {name: run.manifest["configuration"].get(name) for name in configuration}
    if changed := differences(stored, configuration):
        raise HeatproofError("what was explained has changed since the run: " + "; ".join(changed) + ".")
    explainer = for_quantities([make_explainer(entry["explainer"])], [entry["target"] or "logit"])[0]
    rng = CaseRandom(run.manifest["configuration"]["seed"], explainer.name or explainer.label)
    found: dict[str, NDArray[Any]] = {}
    for chunk in benchmark.chunks_with(cases):
        batch = benchmark.load(chunk)
        for place, case in enumerate(batch.ids):
            if case in cases:
                progress("explaining the worst mosaics", len(found), len(cases))
                model = benchmark.model_to_explain(chunk, explainer)
                found[case] = explainer(model, batch[place : place + 1], rng)[0].cpu().numpy()
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
