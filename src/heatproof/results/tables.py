"""The leaderboard as people read it: one line per explainer, in percent, floors and ceiling beside it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from heatproof.lazy import pl
from heatproof.results.glances import BASELINES
from heatproof.results.verdict import Entrant, Judged
from heatproof.story import Column, MetricWords

if TYPE_CHECKING:
    from heatproof.results.run import Results

TARGET_TITLES = {
    "probability": "Explaining the probability",
    "logit": "Explaining the logit",
    "log_probability": "Explaining the log-probability",
}


@dataclass(frozen=True)
class Cell:
    """A mean with its interval, and the paper's number where there is one; all fractions.

    `elsewhere` is the paper's number for another network or other data. Of a single case there is no interval.
    `undefined` is the share of unusable maps, and `whole` the mean that counts each of them as a uniform map; it ranks.
    """

    mean: float
    low: float | None
    high: float | None
    n: int
    reference: float | None = None
    elsewhere: float | None = None
    undefined: float = 0.0
    whole: float = math.nan
    skill: float | None = None
    skill_low: float | None = None
    skill_high: float | None = None

    @property
    def text(self) -> str:
        return f"{self.score_text}{self.silence}"

    @property
    def score_text(self) -> str:
        """The mean and what lies around it, in percent."""
        return " ".join(filter(None, [f"{100 * self.mean:.1f}", self.around]))

    @property
    def sides(self) -> tuple[float, float] | None:
        """How far the interval reaches below the mean and above it, in percent; of a single case there is none."""
        return None if self.low is None or self.high is None else (100 * (self.mean - self.low),
                                                                   100 * (self.high - self.mean))  # fmt: skip

    @property
    def around(self) -> str:
        """Half the interval, or its one side where the mean is as low or as high as there is."""
        if self.sides is None:
            return ""
        below, above = self.sides
        if is_nothing(below) != is_nothing(above):
            return f"+0/−{below:.1f}" if is_nothing(above) else f"+{above:.1f}/−0"
        return f"±{(below + above) / 2:.1f}"

    @property
    def about(self) -> str:
        """The interval in percent, and how many scores it rests on."""
        around = [] if self.low is None or self.high is None else [f"{100 * self.low:.1f} to {100 * self.high:.1f}"]
        return ", ".join([*around, f"n = {self.n}{self.silence}"])

    @property
    def silence(self) -> str:
        """How many maps had no score, where any had none."""
        return f" ({in_percent(self.undefined)} undefined)" if self.undefined else ""

    @property
    def share_text(self) -> str:
        """The share of maps without a score, where there are any."""
        return in_percent(self.undefined) if self.undefined else ""

    @property
    def misleads(self) -> bool:
        """Whether the mean of what is defined differs from that of all maps by more than its interval."""
        return self.low is not None and self.high is not None and not self.low <= self.whole <= self.high

    @property
    def reference_text(self) -> str:
        return "" if self.reference is None else f"{100 * self.reference:.1f}"

    @property
    def elsewhere_text(self) -> str:
        return "" if self.elsewhere is None else f"{100 * self.elsewhere:.1f}"

    @property
    def skill_text(self) -> str:
        """Skill with its interval; empty where there is no scale."""
        return self.bare_skill + (f" ({self.skill_ends})" if self.skill_ends else "")

    @property
    def bare_skill(self) -> str:
        return "" if self.skill is None else in_hundredths(self.skill)

    @property
    def skill_ends(self) -> str:
        """The interval of the skill, where there is one."""
        if self.skill_low is None or self.skill_high is None:
            return ""
        return f"{in_hundredths(self.skill_low)} to {in_hundredths(self.skill_high)}"


@dataclass(frozen=True)
class Line:
    """An explainer (for one explained quantity) and its scores by metric; `short` is what people read.

    `memory` is the most that explaining took at once, in bytes.

    `entrant` is what the contest of the metric that ranks says of it, and `floor` what is said where it does not surely
    beat every floor.
    """

    explainer: str
    short: str
    target: str
    family: str
    cells: dict[str, Cell]
    seconds: float | None
    passes: float | None
    memory: float | None = None
    entrant: Entrant | None = None
    floor: str = ""
    beside: Mapping[Column, Cell] = field(default_factory=dict)
    """Scores under other truths and poolings, by the column that shows them."""

    @property
    def is_baseline(self) -> bool:
        """Whether it is not judged, but judged by: a floor, the ceiling, or no explainer at all."""
        return self.family in BASELINES

    @property
    def rank_text(self) -> str:
        """The rank, and the interval that it lies in where that says more."""
        return self.bare_rank + (f" ({self.rank_ends})" if self.rank_ends else "")

    @property
    def bare_rank(self) -> str:
        return "" if self.entrant is None or self.entrant.rank is None else f"{self.entrant.rank:g}"

    @property
    def rank_ends(self) -> str:
        """The interval of the rank, where it says more."""
        low, high = (None, None) if self.entrant is None else (self.entrant.rank_low, self.entrant.rank_high)
        return "" if low is None or high is None or low == high else f"{low:g} to {high:g}"


@dataclass(frozen=True)
class Board:
    """The lines of one explained quantity, best first, then the baselines: those of this quantity and of none."""

    target: str
    title: str
    model: str
    metrics: tuple[MetricWords, ...]
    lines: tuple[Line, ...]
    shown: tuple[Column, ...] = ()
    beside: tuple[Column, ...] = ()

    @property
    def referenced(self) -> tuple[str, ...]:
        """The metrics for which the paper has numbers about this network and data."""
        return self.having(lambda cell: cell.reference)

    @property
    def referenced_elsewhere(self) -> tuple[str, ...]:
        """The metrics for which it has numbers about others."""
        return self.having(lambda cell: cell.elsewhere)

    def having(self, number: Callable[[Cell], float | None]) -> tuple[str, ...]:
        methods = [line for line in self.lines if not line.is_baseline]
        return tuple(
            metric.name
            for metric in self.metrics
            if any(number(line.cells[metric.name]) is not None for line in methods if metric.name in line.cells)
        )

    def columns(self, elsewhere: bool = False) -> list[tuple[str, Callable[[Line], str]]]:
        """Heading and text of each column: a metric, and the paper's number behind it where there is any.

        `elsewhere` adds the paper's numbers for another network or other data.
        """
        found: list[tuple[str, Callable[[Line], str]]] = []
        for metric in self.metrics:
            found.append((self.column_heading(metric), cell_text(metric.name, "text", "–")))
            if metric.name in self.referenced:
                found.append(("paper", cell_text(metric.name, "reference_text")))
            if elsewhere and metric.name in self.referenced_elsewhere:
                found.append(("paper, other network", cell_text(metric.name, "elsewhere_text")))
            for column in self.beside:
                if column.metric == metric.name:
                    found.append((self.column_heading(metric, column), beside_text(column)))
        first = self.metrics[0].name
        if any(line.cells[first].skill is not None for line in self.lines if first in line.cells):
            found.append(("skill", cell_text(first, "skill_text")))
        if any(line.rank_text for line in self.lines):
            found.append(("rank", lambda line: line.rank_text))
        if self.same_n is None:
            found.append(("n", cell_text(first, "n")))
        return found

    def column_heading(self, metric: MetricWords, column: Column | None = None) -> str:
        """That of a metric; where several columns show it, with what tells this one from the others."""
        return f"{metric.heading} {self.told_by(metric, column)}".rstrip()

    def told_by(self, metric: MetricWords, column: Column | None = None) -> str:
        """A column's truth, or pooling where the truth is the same; empty where no other column shows the metric."""
        shown = [one for one in (*self.shown, *self.beside) if one.metric == metric.name]
        if len(shown) < 2:
            return ""
        this = column or shown[0]
        same_truth = all(one.ground_truth == this.ground_truth for one in shown)
        return this.pooling if same_truth else this.ground_truth

    @property
    def same_n(self) -> int | None:
        """How many scores every number of the board rests on; None where they differ."""
        counts = {cell.n for line in self.lines for cell in line.cells.values()}
        return counts.pop() if len(counts) == 1 else None

    @property
    def heading(self) -> str:
        """The title, with what is true of all numbers."""
        return self.title if self.same_n is None else f"{self.title}, n = {self.same_n}"


def is_nothing(percent: float) -> bool:
    """Whether it is shown as 0.0."""
    return percent < 0.05


def in_hundredths(value: float) -> str:
    """Two digits, and no minus before nothing."""
    return f"{round(value, 2) + 0.0:.2f}"


def in_percent(share: float) -> str:
    """A share in whole percent, and never as none or all where it is neither."""
    return "<1 %" if 0 < share < 0.01 else ">99 %" if 0.99 < share < 1 else f"{100 * share:.0f} %"


def cell_text(metric: str, kind: str, otherwise: str = "") -> Callable[[Line], str]:
    """What a line's cell says; `otherwise` where there is none."""
    return lambda line: str(getattr(line.cells[metric], kind)) if metric in line.cells else otherwise


def beside_text(column: Column) -> Callable[[Line], str]:
    return lambda line: line.beside[column].text if column in line.beside else "–"


def boards(run: Results) -> list[Board]:
    """One board per explained quantity. Several models are shown by their mean, poolings by the first of the run."""
    lines_of_all = shown_lines(run)
    model = lines_of_all["model"][0]
    shown = lines_of_all.filter(run.story.shown)
    found = tuple(metric for metric in run.story.metrics if metric.name in shown["metric"])
    families = {entry["explainer"]: entry["family"] for entry in run.manifest["explainers"]}
    lines = [
        read_line(str(explainer), run.short.get(str(explainer), str(explainer)), str(target), families, group)
        for (explainer, target), group in shown.group_by("explainer", "target", maintain_order=True)
    ]
    lines = [replace(line, beside=cells_beside(line, lines_of_all, run.story.beside)) for line in lines]
    targets = [target for target in TARGET_TITLES if any(line.target == target for line in lines)]
    published = run.story.words.as_published if len(targets) > 1 else ""
    return [
        Board(
            target,
            target_title(target, published),
            model,
            found,
            board_lines([line for line in lines if line.target in (target, "")], found, contest_of(run, target, found)),
            run.story.columns,
            run.story.beside,
        )
        for target in (targets or [""])
    ]


def board_lines(lines: Sequence[Line], metrics: Sequence[MetricWords], judged: Judged | None) -> tuple[Line, ...]:
    """Methods best first, then baselines best first, each with what the contest says of it."""
    entrants = {} if judged is None else {(e.target, e.explainer): e for e in judged.entrants}
    known = []
    for line in lines:
        entrant = entrants.get((line.target, line.explainer))
        said = judged.against_floor(entrant, metrics[0].higher_is_better) if judged and entrant else ""
        known.append(replace(line, entrant=entrant, floor=said))
    methods, baselines = ([line for line in known if line.is_baseline == wanted] for wanted in (False, True))
    return (*ranked(methods, metrics), *ranked(baselines, metrics))


def contest_of(run: Results, target: str, metrics: Sequence[MetricWords]) -> Judged | None:
    """The contest of the metric that ranks, for one explained quantity."""
    for judged in run.verdict.contests:
        if judged.target == target and metrics and judged.metric == metrics[0].name:
            return judged
    return None


def target_title(target: str, published: str) -> str:
    """What a board is called; where there are several, the one of the paper says so."""
    return TARGET_TITLES.get(target, "Scores") + (" (as published)" if target and target == published else "")


def shown_lines(run: Results) -> pl.DataFrame:
    """The leaderboard's lines over all cases, of the sum of its models or of the only one."""
    table = run.leaderboard()
    models = table["model"].unique(maintain_order=True).to_list()
    summed = [model for model in models if model.startswith("mean of ")]
    return table.filter((pl.col("model") == (summed or models)[0]) & (pl.col("subset") == "all"))


def read_line(explainer: str, short: str, target: str, families: Mapping[str, str], group: pl.DataFrame) -> Line:
    rows = [row for row in group.iter_rows(named=True) if row["mean"] is not None]
    cells = {row["metric"]: read_cell(row) for row in rows}
    first: dict[str, Any] = group.row(0, named=True)
    family = families.get(explainer, "raw")
    costs = (first[name] for name in ("seconds_per_case", "passes_per_case", "peak_memory"))
    return Line(explainer, short, target, family, cells, *costs)


def read_cell(row: Mapping[str, Any]) -> Cell:
    """The cell of a line of the leaderboard."""
    return Cell(
        row["mean"],
        row["ci_low"],
        row["ci_high"],
        row["n"],
        row["reference"],
        row["reference_elsewhere"],
        row["undefined"],
        row["mean_all"],
        row["skill"],
        row["skill_low"],
        row["skill_high"],
    )


def cells_beside(line: Line, table: pl.DataFrame, beside: Sequence[Column]) -> dict[Column, Cell]:
    """The cells of a line's further columns."""
    own = table.filter(pl.col("mean").is_not_null(), explainer=line.explainer, target=line.target) if beside else table
    found = {column: own.filter(column.condition).to_dicts() for column in beside}
    return {column: read_cell(rows[0]) for column, rows in found.items() if rows}


def ranked(lines: Sequence[Line], metrics: Sequence[MetricWords]) -> list[Line]:
    """Best first by the first metric that a line has a score for; lines without one last."""

    def rank(line: Line) -> tuple[int, float]:
        for place, metric in enumerate(metrics):
            if metric.name in line.cells:
                sign = -1 if metric.higher_is_better else 1
                return place, sign * line.cells[metric.name].whole
        return len(metrics), 0.0

    return sorted(lines, key=rank)


def silent_lines(run: Results) -> list[str]:
    """A sentence for each explainer whose means are others once the maps count that it did not make."""
    found = []
    for board in boards(run):
        for line in board.lines:
            cells = [(metric.title, line.cells[metric.name]) for metric in board.metrics if metric.name in line.cells]
            other = [(title, cell) for title, cell in cells if cell.misleads]
            if other:
                share = in_percent(max(cell.undefined for _, cell in other))
                means = ", ".join(f"{title} {100 * c.whole:.1f} instead of {100 * c.mean:.1f}" for title, c in other)
                found.append(
                    f"{line.short}{f' ({line.target})' if line.target else ''}: {share} of its maps are undefined."
                    f" Counted as uniform maps, they give {means}; this is what ranks it."
                )
    return list(dict.fromkeys(found))


def failure_lines(run: Results) -> list[str]:
    """One line per failed unit."""
    return [
        f"{f['explainer']}{' (' + f['target'] + ')' if f['target'] else ''}, {f['chunk']}: {f['message']}"
        for f in run.failures()
    ]
