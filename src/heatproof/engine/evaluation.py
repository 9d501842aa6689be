"""Heatmaps that are there already as a source of rows: made elsewhere, or kept by a run."""

from __future__ import annotations

from pathlib import Path

from heatproof.benchmarks.clevr_xai import OpenedQuestions, open_kept
from heatproof.benchmarks.elsewhere import Told, check_told, open_elsewhere
from heatproof.benchmarks.kept import KeptRun, find_kept
from heatproof.engine.kept import Kept
from heatproof.engine.sources import Source
from heatproof.engine.stored import Stored
from heatproof.errors import HeatproofError
from heatproof.lazy import pl
from heatproof.progress import Progress
from heatproof.results.run import Results


def source_of(benchmark: str, path: Path, told: Told, name: str | None, progress: Progress) -> tuple[Source, int]:
    """The heatmaps of a path as a source of rows, and the seed of the run that made them, if one did."""
    called = path.stem if name is None else name
    if not called or called.startswith(".") or set(called) & set("/\\\0"):
        raise HeatproofError(
            f"{called!r} cannot be the name of a folder, which tables and scores need; give --name NAME."
        )
    kept = find_kept(path) if benchmark == "clevr-xai" else None
    if kept is None:
        stored, opened = open_elsewhere(benchmark, path, told, progress)
        return Stored(opened, stored, called), 0
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


def evaluation_folder(heatmaps: Path) -> Path:
    """The folder of a run that scores stored heatmaps, unless another is given."""
    kept = find_kept(heatmaps)
    if kept is None:
        return Path("runs") / f"evaluate-{heatmaps.stem}"
    run = kept.files.folder.resolve().name
    return Path("runs") / f"evaluate-{run}{'' if kept.is_whole else '-' + kept.entries[0]['folder']}"
