"""Heatmaps that are there already as a source of rows: made elsewhere, or kept by a run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from heatproof.benchmarks.clevr_xai import OpenedQuestions, open_kept
from heatproof.benchmarks.elsewhere import Told, check_told, open_elsewhere, open_several
from heatproof.benchmarks.kept import KeptRun, find_kept
from heatproof.engine.kept import Kept
from heatproof.engine.sources import Source
from heatproof.engine.stored import Stored
from heatproof.errors import HeatproofError
from heatproof.lazy import pl
from heatproof.progress import Progress
from heatproof.results.run import Results


def source_of(
    benchmark: str, paths: Sequence[Path], told: Told, name: str | None, progress: Progress
) -> tuple[Source, int]:
    """The heatmaps of some paths as a source of rows, and the seed of the run that made them, if one did."""
    if benchmark == "masks":
        called = named_paths(paths, None if name is None else [word.strip() for word in name.split(",")])
        stored_by_name, opened_masks = open_several(called, told, progress)
        return Stored(opened_masks, stored_by_name), 0
    if len(paths) != 1:
        raise HeatproofError(
            f"--benchmark {benchmark} scores one set of heatmaps at a time; only --masks takes several."
        )
    (path,) = paths
    called_alone = path.stem if name is None else name
    require_folder_name(called_alone)
    kept = find_kept(path) if benchmark == "clevr-xai" else None
    if kept is None:
        stored, opened = open_elsewhere(benchmark, path, told, progress)
        return Stored(opened, {called_alone: stored}), 0
    check_told(benchmark, told)
    kept.require_as_written()
    dataset, answers = (None if place is None else Path(place) for place in (told.dataset, told.predictions))
    opened_again = open_kept(kept, dataset, told.questions, told.poolings, answers, progress)
    return kept_source(kept, name, opened_again), kept.seed


def kept_source(kept: KeptRun, name: str | None, opened: OpenedQuestions) -> Kept:
    """The heatmaps of a run, beside the paper's numbers that stood beside them in the run."""
    table = Results(kept.files.folder).leaderboard()
    about = bool(table["reference"].is_not_null().any())
    if name is not None:
        return Kept(opened.beside_poster(about), kept.called(name), {name})
    has_number = pl.any_horizontal(pl.col("reference", "reference_elsewhere").is_not_null())
    return Kept(opened.beside_poster(about), kept, set(table.filter(has_number)["explainer"]))


def named_paths(paths: Sequence[Path], names: Sequence[str] | None) -> dict[str, Path]:
    """What tables call the heatmaps of each path: its name, with its folder's where two have the same."""
    if not paths:
        raise HeatproofError("name at least one folder or archive of heatmaps.")
    if names is not None and (len(names) != len(paths) or len(set(names)) != len(names) or not all(names)):
        raise HeatproofError(
            f"--name must be {len(paths)} different names with commas between, got {','.join(names)!r}."
        )
    if names is None:
        stems = [path.resolve().stem for path in paths]
        whole = [f"{path.resolve().parent.name}-{path.resolve().stem}" for path in paths]
        names = stems if len(set(stems)) == len(stems) else whole
    if len(set(names)) != len(names):
        raise HeatproofError(f"two sets of heatmaps are called {names[0]}; say what to call each with --name a,b.")
    for name in names:
        require_folder_name(name)
    return dict(zip(names, paths, strict=True))


def require_folder_name(name: str) -> None:
    """Refuse a name that scores cannot be stored under."""
    if not name or name.startswith(".") or set(name) & set("/\\\0"):
        raise HeatproofError(f"{name!r} cannot be the name of a folder, which scores need; give --name NAME.")


def evaluation_folder(heatmaps: Path | Sequence[Path]) -> Path:
    """The folder of a run that scores stored heatmaps, unless another is given."""
    if not isinstance(heatmaps, Path):
        if len(heatmaps) != 1:
            return Path("runs") / ("evaluate-" + "-".join(path.resolve().stem for path in heatmaps[:3]))
        (heatmaps,) = heatmaps
    kept = find_kept(heatmaps)
    if kept is None:
        return Path("runs") / f"evaluate-{heatmaps.stem}"
    run = kept.files.folder.resolve().name
    return Path("runs") / f"evaluate-{run}{'' if kept.is_whole else '-' + kept.entries[0]['folder']}"
