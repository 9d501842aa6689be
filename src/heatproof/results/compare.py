"""Runs of one benchmark side by side, with paired differences and tests where their cases are the same."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from heatproof.errors import HeatproofError
from heatproof.lazy import np, pl
from heatproof.progress import Progress, silent
from heatproof.results.columns import VARIANT, gather
from heatproof.results.contest import ALPHA, holm, sign_test
from heatproof.results.run import Results
from heatproof.results.sentences import listed
from heatproof.results.statistics import Sample, at_ends, bootstrap_means
from heatproof.results.tables import shown_lines
from heatproof.results.verdict import methods_of, shown_variants
from heatproof.story import MetricWords

if TYPE_CHECKING:
    from numpy.typing import NDArray

Line: TypeAlias = "tuple[str, str]"
"""An explainer and what it explains."""
Variant: TypeAlias = "tuple[str, ...]"

COLUMNS = (*VARIANT, "explainer", "target", "run", "n", "mean", "ci_low", "ci_high",
           "against", "cases", "difference", "difference_low", "difference_high", "undefined", "mean_all",
           "superior", "p", "p_adjusted", "said")  # fmt: skip

SHOWN = ("n", "mean", "ci_low", "ci_high", "undefined", "mean_all")
"""What comes from the leaderboards."""
BETTER, WORSE, ALIKE = "better", "worse", "cannot be told apart"
"""What is said of a score in the light of the first run's."""
ROUNDING = 1e-6
"""Differences on a case up to which scores are the same: other machines round otherwise, and always the same way."""


@dataclass(frozen=True, eq=False)
class Comparison:
    """Runs by name, and one row per variant, explainer and run: its mean, and its difference to the first run.

    `superior` is the share of cases on which a score is better than the first run's, ties halved. `p` is two-sided, of
    Fisher's randomisation test on the same cases, and `p_adjusted` after Holm over all lines that were tested: those of
    methods in the columns that the tables show. `said` of these is better, worse, or cannot be told apart.
    """

    runs: Mapping[str, Results]
    table: pl.DataFrame
    notes: Sequence[str]

    @property
    def first(self) -> str:
        return next(iter(self.runs))

    def short(self, explainer: str) -> str:
        """What people read of an explainer's full specification."""
        return next((run.short[explainer] for run in self.runs.values() if explainer in run.short), explainer)

    @property
    def tested(self) -> pl.DataFrame:
        """The lines of which something is said."""
        return self.table.filter(pl.col("said").is_not_null())

    @property
    def regressions(self) -> pl.DataFrame:
        """The lines that are surely worse than the first run's."""
        return self.table.filter(said=WORSE)


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
            scores = case_scores(run)
            found = differences(base_scores, scores, seed, base.story.metric)
            lines = lines.join(found, on=[*VARIANT, "explainer", "target"], how="left", maintain_order="left")
            if found.is_empty():
                notes.append(f"{name} and {base_name} have no explainer, or no case, in common.")
            elif gone := missing(base_scores, scores):
                notes.append(f"{name} has no scores of {listed(gone)}, which {base_name} has.")
        frames.append(lines)
    progress("comparing", len(opened), len(opened))
    table = pl.concat(frames, how="diagonal")
    empty = [pl.lit(None, dtype=DIFFERENCE[name]).alias(name) for name in DIFFERENCE if name not in table.columns]
    judged = said_of(table.with_columns(empty), better_when_higher(base))
    return Comparison(opened, judged.select(*COLUMNS), notes)


def better_when_higher(run: Results) -> dict[str, bool]:
    """Which way is better, by metric."""
    return {words.name: words.higher_is_better for words in run.story.metrics}


def missing(base: CaseScores, other: CaseScores) -> list[str]:
    """The methods of the first run that no line of the other is compared with, floors and ceiling left out."""
    met = {found[0] for line in other.lines if (found := partner(line, other, base)) is not None}
    return list(dict.fromkeys(name for name, _ in base.methods if name in base.judged - met))


def said_of(table: pl.DataFrame, higher_is_better: Mapping[str, bool]) -> pl.DataFrame:
    """The table with p-values corrected over all that were tested, and what follows from them."""
    tested = table["p"].is_not_null().to_numpy()
    adjusted = np.full(len(table), np.nan)
    adjusted[tested] = holm(table["p"].drop_nulls().to_numpy())
    said: list[str | None] = []
    for line, p in zip(table.iter_rows(named=True), adjusted.tolist(), strict=True):
        if line["p"] is None:
            said.append(None)
        elif p < ALPHA:
            said.append(BETTER if (line["difference"] > 0) == higher_is_better[line["metric"]] else WORSE)
        else:
            said.append(ALIKE)
    return table.with_columns(
        p_adjusted=pl.Series(adjusted, dtype=pl.Float64).fill_nan(None), said=pl.Series(said, dtype=pl.String)
    )


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
    return dict(zip(names_of(runs), runs, strict=True))


def names_of(runs: Sequence[Results]) -> list[str]:
    """The names of the runs' folders, with the parent's where two are alike, or the whole path."""
    folders = [run.folder.resolve() for run in runs]
    short = [folder.name for folder in folders]
    names = [f.name if short.count(f.name) == 1 else f"{f.parent.name}/{f.name}" for f in folders]
    return names if len(set(names)) == len(names) else [str(folder) for folder in folders]


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
    """That are judged, by their full specification: floors, the ceiling and raw inputs are none."""
    values: Mapping[Variant, tuple[NDArray[np.int64], Mapping[Line, NDArray[np.float64]]]]
    """By variant: the places of its cases in `names`, and the values of each line."""
    judged: frozenset[str] = frozenset()
    """The explainers that are no floor or ceiling."""
    shown: Collection[Variant] = ()
    """The variants that tables show first."""
    clusters: NDArray[np.int64] | None = None
    """What the cases in `names` hang together by; None where each stands alone."""

    @property
    def lines(self) -> list[Line]:
        return list(dict.fromkeys(line for _, lines in self.values.values() for line in lines))

    @property
    def methods(self) -> list[Line]:
        return [line for line in self.lines if line[0] in self.explainers]

    def is_tested(self, variant: Variant, line: Line) -> bool:
        """Whether something is to be said of a line: of methods, in the columns that tables show."""
        return variant in self.shown and line[0] in self.judged


def case_scores(run: Results) -> CaseScores:
    metrics = [metric.name for metric in run.story.metrics]
    gathered = gather(run.score_rows(), metrics, {}, run.story.cluster)
    values = {}
    for columns in gathered.columns(metrics):
        lines: dict[Line, list[int]] = {}
        for place, (_, target, explainer) in enumerate(columns.keys):
            lines.setdefault((explainer, target), []).append(place)
        whole = columns.whole  # whoever is silent on a case gains nothing by it
        means = {line: mean_of(whole[:, chosen]) for line, chosen in lines.items()}
        values[columns.variant] = (columns.cases, means)
    names = np.array(sorted(gathered.cases))
    judged = methods_of(run.manifest["explainers"])
    clusters = gathered.numbered(np.arange(len(names)))
    return CaseScores(names, judged, values, judged, shown_variants(run.story, list(values)), clusters)


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
    "superior": pl.Float64,
    "p": pl.Float64,
}


def differences(base: CaseScores, other: CaseScores, seed: int, metrics: Mapping[str, MetricWords]) -> pl.DataFrame:
    """The differences of `other` to `base` over their common cases: a row per variant and line that both have."""
    partners = {line: found for line in other.lines if (found := partner(line, other, base)) is not None}
    batches: dict[tuple[bytes, tuple[float, float]], list[Paired]] = {}
    for pair in paired(base, other, partners, metrics):
        batches.setdefault((pair.common.tobytes(), pair.words.range), []).append(pair)
    rows = []
    for (_, (least, most)), batch in batches.items():
        columns, clusters = np.stack([pair.values for pair in batch], 1), batch[0].clusters
        means, shares = mean_of(columns.T), np.array([pair.are_shares for pair in batch])
        sample = Sample.of(columns, means, clusters, (least - most, most - least), shares)
        lows, highs = sample.around(bootstrap_means(columns, seed, clusters=clusters))
        chosen = [place for place, pair in enumerate(batch) if pair.is_tested]
        p = dict(zip(chosen, sign_test(columns[:, chosen], seed, clusters).tolist(), strict=True)) if chosen else {}
        for place, pair in enumerate(batch):
            if there := sample.counts[place]:
                ends = (float(lows[place]), float(highs[place])) if there > 1 else (None, None)
                numbers = (pair.cases, float(means[place]), *ends, pair.superior, p.get(place))
                rows.append(pair.named | dict(zip(tuple(DIFFERENCE)[1:], numbers, strict=True)))
    words = dict.fromkeys((*VARIANT, "explainer", "target"), pl.String)
    return pl.DataFrame(rows, schema={**words, **DIFFERENCE})


@dataclass(frozen=True, eq=False)
class Paired:
    """One line of two runs: its names, the cases that both have, and the differences on these (NaN where undefined).

    `are_shares` says whether both runs count how often something was so: each score is an end of the range.
    """

    named: dict[str, str]
    common: NDArray[np.str_]
    values: NDArray[np.float64]
    clusters: NDArray[np.int64] | None
    words: MetricWords
    are_shares: bool
    is_tested: bool

    @property
    def cases(self) -> int:
        return int((~np.isnan(self.values)).sum())

    @property
    def superior(self) -> float:
        """How often the second run is better on the same case, ties halved."""
        ahead = self.values[~np.isnan(self.values)] * (1 if self.words.higher_is_better else -1)
        return float(((ahead > 0) + 0.5 * (ahead == 0)).mean())


def paired(
    base: CaseScores, other: CaseScores, partners: Mapping[Line, Line], metrics: Mapping[str, MetricWords]
) -> Iterator[Paired]:
    """Every variant and line of both, on their common cases."""
    for variant, (cases, lines) in other.values.items():
        base_cases, base_lines = base.values.get(variant, (np.zeros(0, np.int64), {}))
        common, ours, theirs = np.intersect1d(other.names[cases], base.names[base_cases], return_indices=True)
        clusters = None if other.clusters is None else other.clusters[cases][ours]
        words = metrics[variant[0]]
        for line, values in lines.items():
            match = partners.get(line)
            if match is not None and match in base_lines and len(common):
                named = dict(zip(VARIANT, variant, strict=True)) | {"explainer": line[0], "target": line[1]}
                named["against"] = in_words(match)
                sides = np.stack([values[ours], base_lines[match][theirs]], 1)
                apart = sides[:, 0] - sides[:, 1]
                apart = np.where(np.abs(apart) <= ROUNDING, 0.0, apart)
                # What is no method and has the best score on every case is made of the truth: that is no estimate.
                is_truth = line[0] not in other.judged and bool(((sides == words.best) | np.isnan(sides)).all())
                shares = bool(at_ends(sides, words.range).all()) and not is_truth
                yield Paired(named, common, apart, clusters, words, shares, other.is_tested(variant, line))


def partner(line: Line, other: CaseScores, base: CaseScores) -> Line | None:
    """The line of the first run that this one is compared with: the same explainer, or the only ones of both runs."""
    if line in base.lines:
        return line
    alike = [found for found in base.lines if found[0] == line[0] and "" in (found[1], line[1])]
    if len(alike) == 1:
        return alike[0]
    return base.methods[0] if other.methods == [line] and len(base.methods) == 1 else None
