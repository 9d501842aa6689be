"""The regions of explanation of a run as data sets of their own: D_g of the SVEA paper, for classifiers elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from heatproof.api import load_run
from heatproof.arrays import write_arrays
from heatproof.benchmarks.svea.own import own_signals
from heatproof.benchmarks.svea.regions import PARTS, Cases, cases_named, first_signals, regions
from heatproof.errors import HeatproofError, unknown_name
from heatproof.lazy import np, pl

KINDS = ("roe",)


@dataclass(frozen=True)
class Exported:
    """A file of regions: how many, the cases that have none, and whether these are all that the run is about."""

    path: Path
    regions: int
    without: Sequence[str]
    is_whole: bool


def export(run: Path | str, to: str = "roe", out: Path | str | None = None) -> list[Exported]:
    """Write the regions of each explainer of a run of SVEA (on each network) as .npz, and say which files.

    x (N, 12) the points inside the region (of several channels one after the other), y (N,) the digit or class, starts
    (N,) where the region begins in its signal, split (N,) train or test, case (N,) the name of the signal. Training
    signals come first. A signal without a region (its heatmap could not be used) is left out.
    """
    if to not in KINDS:
        raise unknown_name("kind of export", to, KINDS)
    finished = load_run(run)
    if finished.manifest["configuration"]["benchmark"] != "svea":
        named = finished.manifest["configuration"]["benchmark"]
        raise HeatproofError(f"{run} is a run of {named}; regions of explanation are what a run of svea has.")
    rows = finished.score_rows().where(pl.col("metric") == "roe_start")
    if rows.is_empty():
        raise HeatproofError(f"{run} has no scores yet: the run was interrupted. Run it again to go on.")
    folders = {(entry["explainer"], entry["target"]): entry["folder"] for entry in finished.manifest["explainers"]}
    several = len(finished.manifest["models"]) > 1
    place = finished.folder / "roe" if out is None else Path(out)
    every = signals_of(finished.manifest)
    found = []
    for key, group in rows.group_by("explainer", "target", "model", maintain_order=True):
        explainer, target, model = map(str, key)
        name = folders[explainer, target] + (f".{model}" if several else "")
        found.append(write_regions(place / f"{name}.npz", group, finished.manifest["cases"], every))
    return found


def signals_of(manifest: dict[str, Any]) -> Cases:
    """All signals that a run may be about: the published ones, or those of the file that it was given."""
    options, region = manifest.get("options") or {}, int(manifest["configuration"]["roe_length"])
    if not options.get("signals"):
        return replace(first_signals(), region=region)
    path = Path(options["signals"])
    if not path.is_file():
        raise HeatproofError(f"there is no file {path} any more, whose signals this run explained; put it back.")
    return own_signals(path, region)


def write_regions(path: Path, rows: pl.DataFrame, fingerprint: str, every: Cases) -> Exported:
    """The regions of one explainer on one network, from where they start."""
    cases = cases_named(rows["case"].to_list(), every)
    known = dict(zip(rows["case"], rows["value"], strict=True))
    parts = []
    for split in reversed(PARTS):
        part, ids = cases.part(split)[0], cases.ids(split)
        starts = np.array([known[case] for case in ids])
        x, there = regions(part, starts, cases.region)
        parts.append(
            (
                x,
                np.array(cases.named(part.y)),
                np.nan_to_num(starts).astype(np.int64),
                np.full(len(ids), split),
                ids,
                there,
            )
        )
    *columns, case, there = (np.concatenate(column) for column in zip(*parts, strict=True))
    arrays = dict(zip(("x", "y", "starts", "split", "case"), (*columns, case), strict=True))
    write_arrays(path, {name: array[there] for name, array in arrays.items()})
    return Exported(path, int(there.sum()), case[~there].tolist(), cases.fingerprint == fingerprint)
