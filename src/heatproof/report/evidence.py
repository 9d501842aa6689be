"""The figures of one run, each with its title and a line of words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from heatproof.lazy import pl
from heatproof.report.charts import SQUARE, agreement_matrix, agreement_rows, pareto_plot
from heatproof.report.plots import Label, Spread, box_plot, dot_plot, rank_plot, skill_plot
from heatproof.results.agreement import Standing
from heatproof.results.leaderboard import AXES, QUANTILES
from heatproof.results.sentences import AXIS_WORDS
from heatproof.results.tables import Board, ranked
from heatproof.results.verdict import Judged
from heatproof.story import MetricWords

if TYPE_CHECKING:
    from markupsafe import Markup

    from heatproof.results.run import Results

LEVELS = ("least", "percentile_20", "median", "percentile_80", "most")


@dataclass(frozen=True)
class Figure:
    title: str
    text: str
    drawing: Markup


def score_figures(boards: Sequence[Board]) -> list[Figure]:
    """Means with intervals, metric by metric."""
    metrics = boards[0].metrics
    return [Figure(metric.heading, metric.summary, dot_plot(boards, metric)) for metric in metrics]


def standing_figures(run: Results, boards: Sequence[Board]) -> Iterator[Figure]:
    """Skill, ranks in groups, and score against cost, of the metric that ranks."""
    metric = boards[0].metrics[0]
    if (skill := skill_plot(boards, metric)) is not None:
        said = "0 is the best floor on the same cases, 1 the ceiling; lines are 95 % intervals."
        yield Figure(f"Skill in {metric.title}", said, skill)
    for judged in first_contests(run, metric):
        explained = f", {judged.target.replace('_', '-')} explained" if judged.target else ""
        if len(judged.methods) > 1:
            said = (
                f"Mean rank of each method over {judged.cases:,} {run.story.words.cases}, 1 is best. A bar joins"
                " methods that cannot be told apart at 5 % over all pairs (Fisher's randomisation test, Holm)."
            )
            yield Figure(f"Who can be told apart: {metric.title}{explained}", said, rank_plot(judged))
        if (drawing := pareto_plot(judged, metric)) is not None:
            named = ", ".join(entrant.short for entrant in judged.methods if entrant.is_pareto)
            better = "higher" if metric.higher_is_better else "lower"
            said = f"Further left is cheaper, {better} is better. Nobody is both better and cheaper than {named}."
            yield Figure(f"Score against cost: {metric.title}{explained}", said, drawing)


def first_contests(run: Results, metric: MetricWords) -> list[Judged]:
    """The contests of a metric, one for each explained quantity."""
    found: dict[str, Judged] = {}
    for judged in run.verdict.contests:
        if judged.metric == metric.name:
            found.setdefault(judged.target, judged)
    return list(found.values())


def distribution_figures(run: Results, boards: Sequence[Board]) -> list[Figure]:
    """How the scores of single cases lie, for the metrics that are not only right or wrong; of the first network."""
    table = run.statistics()
    if table.is_empty():
        return []
    model = run.leaderboard().filter(~pl.col("model").str.starts_with("mean of "))["model"][0]
    wanted = ["mean", "median"]
    lines = run.leaderboard().filter(run.story.shown & (pl.col("model") == model) & (pl.col("subset") == "all"))
    lines = lines.select(*AXES, *wanted).join(table.select(*AXES, *QUANTILES), on=AXES)
    found = []
    for metric in boards[0].metrics:
        spreads = spreads_of(boards, metric, lines.filter(pl.col("metric") == metric.name))
        levels = {level for spread in spreads for level in spread.levels}
        if levels - {0.0, 0.5, 1.0}:  # of hits and misses the median may lie halfway, and no box says anything
            said = "Box: 20th to 80th percentile; line: median; dot: mean; whiskers: least and most."
            about = f" Network {model}." if len(run.manifest["models"]) > 1 else ""
            drawing = box_plot(f"Distribution of {metric.title} over cases", spreads)
            found.append(Figure(f"{metric.heading} over {run.story.words.cases}", said + about, drawing))
    return found


def spreads_of(boards: Sequence[Board], metric: MetricWords, lines: pl.DataFrame) -> list[Spread]:
    """In the order of the boards: each explained quantity of a method is a row of its own."""
    found = {(line["target"], line["explainer"]): line for line in lines.drop_nulls(["mean", *LEVELS]).to_dicts()}
    several = len([board for board in boards if board.target]) > 1
    unique = {(line.target, line.explainer): line for board in boards for line in board.lines}
    shown = [line for line in unique.values() if (line.target, line.explainer) in found]
    methods, baselines = ([line for line in shown if line.is_baseline == wanted] for wanted in (False, True))
    return [
        Spread(
            Label(
                f"{line.short}, {line.target}" if several and line.target else line.short,
                line.explainer,
                line.is_baseline,
            ),
            line.target,
            tuple(found[line.target, line.explainer][level] for level in LEVELS),
            found[line.target, line.explainer]["mean"],
        )
        for line in (*ranked(methods, [metric]), *ranked(baselines, [metric]))
    ]


def agreement_figures(run: Results) -> list[Figure]:
    """How well the order of methods agrees along each axis."""
    found = []
    for agreement in run.verdict.agreements:
        where = AXIS_WORDS[agreement.axis]
        said = (
            f"Mean {agreement.mean:.2f} (95 % interval {agreement.low:.2f} to {agreement.high:.2f}) over"
            f" {agreement.explainers} methods; least, {agreement.least:.2f}, between {' and '.join(agreement.apart)}. 1"
            " is the same order, 0 orders that have nothing to do with each other, −1 the reverse."
        )
        title = f"Rank correlation {where}"
        if len(agreement.readings) > SQUARE:
            said += f" Shown is each of {len(agreement.readings) - 1} against {agreement.readings[0]}."
            found.append(Figure(title, said, agreement_rows(agreement, title)))
        else:
            found.append(Figure(title, said, agreement_matrix(agreement, title)))
    return found


def standings(run: Results) -> list[tuple[str, Standing]]:
    """The ranks of every method over all readings, best mean first, by the name that people read."""
    return [(run.short.get(standing.explainer, standing.explainer), standing) for standing in run.verdict.standings]
