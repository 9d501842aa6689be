"""Runs of one benchmark side by side, with paired differences where their cases are the same."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from heatproof.errors import HeatproofError
from heatproof.lazy import np, pl
from heatproof.progress import Progress, silent
from heatproof.results.columns import VARIANT, gather
from heatproof.results.run import Results
from heatproof.results.statistics import bootstrap_means, interval
from heatproof.results.tables import shown_lines

if TYPE_CHECKING:
    from numpy.typing import NDArray

Line: TypeAlias = "tuple[str, str]"
"""An explainer and what it explains."""
Variant: TypeAlias = "tuple[str, ...]"

COLUMNS = (*VARIANT, "explainer", "target", "run", "n", "mean", "ci_low", "ci_high",
           "against", "cases", "difference", "difference_low", "difference_high", "undefined", "mean_all")  # fmt: skip


SHOWN = ("n", "mean", "ci_low", "ci_high", "undefined", "mean_all")
"""What comes from the leaderboards."""


@dataclass(frozen=True, eq=False)
class Comparison:
    """Runs by name, and one row per variant, explainer and run: its mean, and its difference to the first run."""

    runs: Mapping[str, Results]
    table: pl.DataFrame
    notes: Sequence[str]

    @property
    def first(self) -> str:
        return next(iter(self.runs))


def compare(runs: Sequence[Results | Path | str], *, seed: int = 0, progress: Progress = silent) -> Comparison:
    """Put runs of one benchmark side by side: `compare(["runs/a", "runs/b"]).table`.

    The difference of a run to the first is that of the same explainer, case by case, with a 95 % interval from
    resampling cases; of a case explained on several models it takes the mean. Runs of a single explainer each are
    compared whatever its name. Where the cases are not the same, there are means but no differences.
    """
    opened = named_runs([run if isinstance(run, Results) else Results(run) for run in runs])
    check_comparable(opened)
    notes: list[str] = []
    frames: list[pl.DataFrame] = []
    base_name, base = next(iter(opened.items()))
    base_scores = case_scores(base)
    for place, (name, run) in enumerate(opened.items()):
        progress("comparing", place, len(opened))
        lines = shown_lines(run).select(*COLUMNS[: COLUMNS.index("run")], *SHOWN)
        lines = lines.with_columns(run=pl.lit(name))
        if failed := run.failures():
            notes.append(f"{name}: {len(failed)} unit(s) of work failed, so some of its means rest on fewer cases.")
        if why := other_cases(base, run):
            notes.append(f"{name} has other cases than {base_name} ({why}), so there are no differences case by case.")
        elif run is not base:
            found = differences(base_scores, case_scores(run), seed)
            lines = lines.join(found, on=[*VARIANT, "explainer", "target"], how="left", maintain_order="left")
            if found.is_empty():
                notes.append(f"{name} and {base_name} have no explainer, or no case, in common.")
        frames.append(lines)
    progress("comparing", len(opened), len(opened))
    table = pl.concat(frames, how="diagonal")
    missing = [pl.lit(None, dtype=DIFFERENCE[name]).alias(name) for name in DIFFERENCE if name not in table.columns]
    return Comparison(opened, table.with_columns(missing).select(*COLUMNS), notes)


def in_words(line: Line) -> str:
    """An explainer and what it explains, if that is known."""
    return ", ".join(filter(None, line))


def named_runs(runs: Sequence[Results]) -> dict[str, Results]:
    """The runs by the name of their folder, with its parent's where two are alike."""
    if len(runs) < 2:
        raise HeatproofError("give at least two runs to compare: heatproof compare RUN RUN")
    folders = [run.folder.resolve() for run in runs]
    for folder in folders:
        if folders.count(folder) > 1:
            raise HeatproofError(f"{folder} is given twice.")
    short = [folder.name for folder in folders]
    names = [f.name if short.count(f.name) == 1 else f"{f.parent.name}/{f.name}" for f in folders]
    return dict(zip(names if len(set(names)) == len(names) else map(str, folders), runs, strict=True))


def check_comparable(runs: Mapping[str, Results]) -> None:
    """All of one benchmark, and all finished."""
    kinds = {name: str(run.manifest["configuration"].get("benchmark")) for name, run in runs.items()}
    if len(set(kinds.values())) > 1:
        raise HeatproofError(
            "only runs of one benchmark can be compared: "
            + ", ".join(f"{name} is a run of {kind}" for name, kind in kinds.items())
            + "."
        )
    for run in runs.values():
        run.leaderboard()


def other_cases(base: Results, run: Results) -> str:
    """Why two runs have no cases in common, in words; empty if a case of one name is the same case in both."""
    there, here = base.manifest, run.manifest
    if there["cases"] == here["cases"]:
        return ""
    settings = {**there["configuration"], **here["configuration"]}
    differing = [
        f"{name} {here['configuration'].get(name)!r}, not {there['configuration'].get(name)!r}"
        for name in settings
        if here["configuration"].get(name) != there["configuration"].get(name)
    ]
    return ", ".join(differing) or "their content differs"


@dataclass(frozen=True, eq=False)
class CaseScores:
    """Scores of a run by variant and line, each with the names of its cases; several models by their mean."""

    names: NDArray[np.str_]
    """Of all cases, sorted."""
    explainers: frozenset[str]
    """Of the run, by their full specification: a line of another name, such as raw inputs, is none."""
    values: Mapping[Variant, tuple[NDArray[np.int64], Mapping[Line, NDArray[np.float64]]]]
    """By variant: the places of its cases in `names`, and the values of each line."""

    @property
    def lines(self) -> list[Line]:
        return list(dict.fromkeys(line for _, lines in self.values.values() for line in lines))

    @property
    def methods(self) -> list[Line]:
        return [line for line in self.lines if line[0] in self.explainers]


def case_scores(run: Results) -> CaseScores:
    metrics = [metric.name for metric in run.story.metrics]
    gathered = gather(run.score_rows(), metrics, {})
    values = {}
    for columns in gathered.columns(metrics):
        lines: dict[Line, list[int]] = {}
        for place, (_, target, explainer) in enumerate(columns.keys):
            lines.setdefault((explainer, target), []).append(place)
        whole = columns.whole  # whoever is silent on a case gains nothing by it
        means = {line: mean_of(whole[:, chosen]) for line, chosen in lines.items()}
        values[columns.variant] = (columns.cases, means)
    return CaseScores(np.array(sorted(gathered.cases)), frozenset(run.short), values)


def mean_of(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """The mean over the second axis of what is defined; NaN where nothing is."""
    count = (~np.isnan(values)).sum(1)
    with np.errstate(invalid="ignore"):
        mean: NDArray[np.float64] = np.nansum(values, 1) / np.where(count, count, np.nan)
    return mean


DIFFERENCE: dict[str, Any] = {
    "against": pl.String,
    "cases": pl.Int64,
    "difference": pl.Float64,
    "difference_low": pl.Float64,
    "difference_high": pl.Float64,
}


def differences(base: CaseScores, other: CaseScores, seed: int) -> pl.DataFrame:
    """The differences of `other` to `base` over their common cases: a row per variant and line that both have."""
    partners = {line: found for line in other.lines if (found := partner(line, other, base)) is not None}
    batches: dict[bytes, list[tuple[dict[str, str], NDArray[np.float64]]]] = {}
    for named, common, pair in paired(base, other, partners):
        batches.setdefault(common.tobytes(), []).append((named, pair))
    rows = []
    for batch in batches.values():
        columns = np.stack([pair for _, pair in batch], 1)
        low, high = interval(bootstrap_means(columns, seed))
        for place, (named, pair) in enumerate(batch):
            defined = pair[~np.isnan(pair)]
            if len(defined):
                numbers = (len(defined), float(defined.mean()), float(low[place]), float(high[place]))
                rows.append(named | dict(zip(tuple(DIFFERENCE)[1:], numbers, strict=True)))
    words = dict.fromkeys((*VARIANT, "explainer", "target"), pl.String)
    return pl.DataFrame(rows, schema={**words, **DIFFERENCE})


def paired(
    base: CaseScores, other: CaseScores, partners: Mapping[Line, Line]
) -> Iterator[tuple[dict[str, str], NDArray[np.str_], NDArray[np.float64]]]:
    """For each variant and line of both: its names, the common cases, and the differences on these."""
    for variant, (cases, lines) in other.values.items():
        base_cases, base_lines = base.values.get(variant, (np.zeros(0, np.int64), {}))
        common, ours, theirs = np.intersect1d(other.names[cases], base.names[base_cases], return_indices=True)
        for line, values in lines.items():
            match = partners.get(line)
            if match is not None and match in base_lines and len(common):
                named = dict(zip(VARIANT, variant, strict=True)) | {"explainer": line[0], "target": line[1]}
                named["against"] = in_words(match)
                yield named, common, values[ours] - base_lines[match][theirs]


def partner(line: Line, other: CaseScores, base: CaseScores) -> Line | None:
    """The line of the first run that this one is compared with: the same explainer, or the only ones of both runs."""
    if line in base.lines:
        return line
    alike = [found for found in base.lines if found[0] == line[0] and "" in (found[1], line[1])]
    if len(alike) == 1:
        return alike[0]
    return base.methods[0] if other.methods == [line] and len(base.methods) == 1 else None
