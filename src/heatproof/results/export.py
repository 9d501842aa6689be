"""A run's table, ready for a paper: methods by metrics, with what can and cannot be told apart."""

from __future__ import annotations

import json
import math
import re
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from heatproof.errors import unknown_name
from heatproof.harmless import csv_frame, latex, markdown_code, markdown_text
from heatproof.lazy import pl
from heatproof.results.bibliography import bibtex
from heatproof.results.run import Results
from heatproof.results.tables import Board, Cell, Line, boards, in_percent
from heatproof.results.verdict import Judged
from heatproof.story import MetricWords

NO_BETTER = "†"
"""Stands behind the score of a method that does not surely beat every floor."""
TIES = 1e-12
HEAD = 14
"""Letters of a heading that are as wide as a score with its interval and marks."""
AS_WIDE_AS_FITS = r"\resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}"
"""In LaTeX: what is wider than the text is made smaller."""


@dataclass(frozen=True)
class Marked:
    """A score and what a contest says of it.

    groups          a letter for each group of methods, in this column, that cannot be told apart from it
    no_better_than  the best floor that it does not surely beat; empty if it beats all
    """

    cell: Cell
    best: bool = False
    groups: str = ""
    no_better_than: str = ""

    @property
    def mean(self) -> str:
        return f"{100 * self.cell.mean:.1f}"

    @property
    def half(self) -> float | None:
        """Half of the 95 % interval; of a single case there is none."""
        low, high = self.cell.low, self.cell.high
        return None if low is None or high is None else (high - low) / 2

    @property
    def marks(self) -> str:
        return self.groups + (NO_BETTER if self.no_better_than else "")

    def plain(self) -> dict[str, Any]:
        """As JSON takes it; all numbers are fractions."""
        cell = self.cell
        return {
            "mean": cell.mean, "half_interval": self.half, "ci_low": cell.low, "ci_high": cell.high, "n": cell.n,
            "undefined": cell.undefined, "mean_all": None if math.isnan(cell.whole) else cell.whole,
            "paper": cell.reference, "best": self.best, "groups": self.groups, "no_better_than": self.no_better_than,
        }  # fmt: skip


@dataclass(frozen=True)
class Row:
    """A method, a floor or a ceiling, and its scores by metric."""

    line: Line
    scores: Mapping[str, Marked]

    @property
    def kind(self) -> str:
        return self.line.family if self.line.is_baseline else "method"

    @property
    def count(self) -> str:
        """How many cases its means rest on; from least to most where metrics differ."""
        counts = sorted({score.cell.n for score in self.scores.values()})
        return "–".join(str(count) for count in (counts if len(counts) < 2 else (counts[0], counts[-1])))

    @property
    def undefined(self) -> float:
        """The share of maps without a score, of the metric that has most of them."""
        return max((score.cell.undefined for score in self.scores.values()), default=0.0)

    @property
    def silence(self) -> str:
        return in_percent(self.undefined)


@dataclass(frozen=True)
class PaperTable:
    """The table of one explained quantity; `under` are the ground truth and pooling of a metric, where it has any."""

    board: Board
    dataset: str
    title: str
    cases: str
    under: Mapping[str, str]
    rows: tuple[Row, ...]

    @property
    def metrics(self) -> tuple[MetricWords, ...]:
        return self.board.metrics

    @property
    def counts(self) -> list[str]:
        """How many cases the rows rest on: a column, if they differ."""
        return sorted({row.count for row in self.rows if row.count})

    @property
    def has_silence(self) -> bool:
        """Whether any row has undefined scores."""
        return any(row.undefined for row in self.rows)

    @property
    def heads(self) -> list[str]:
        """The method, each metric with the paper's number, then what the rows rest on."""
        found = ["method"]
        for metric in self.metrics:
            found += [metric.heading, *(["paper"] if metric.name in self.board.referenced else [])]
        return found + ["n"] * (len(self.counts) > 1) + ["undefined"] * self.has_silence

    def cells(self, row: Row, score: Callable[[Marked], str]) -> Iterator[str]:
        """What stands under the heads behind the method's name; `score` writes a score with its marks."""
        for metric in self.metrics:
            marked = row.scores.get(metric.name)
            yield "–" if marked is None else score(marked)
            if metric.name in self.board.referenced:
                yield "" if marked is None else marked.cell.reference_text
        if len(self.counts) > 1:
            yield row.count
        if self.has_silence:
            yield row.silence

    @property
    def caption(self) -> str:
        """What everything in the table means."""
        said = [f"{self.title}, {self.dataset}, network {self.board.model}."]
        if self.board.target:
            said.append(f"Explained is the {self.board.target.replace('_', '-')}.")
        said += [f"{metric.title}: {self.under[metric.name]}." for metric in self.metrics if self.under[metric.name]]
        of = "networks" if self.board.model.startswith("mean of ") else self.cases
        counted = f"n = {self.counts[0]} {of}" if len(self.counts) == 1 else f"n is the number of {of}"
        said.append(
            f"Percent, mean ± half the 95 % interval (bootstrap over {self.cases}); {counted}, arrows say which way is"
            " better. Bold: the best method."
        )
        rows = [score for row in self.rows for score in row.scores.values()]
        if any(score.groups for score in rows):
            said.append(
                "Methods that share a letter in a column cannot be told apart (Fisher's randomisation test on the same"
                f" {self.cases}, 5 % after Holm's correction over all pairs)."
            )
        if any(score.no_better_than for score in rows):
            said.append(f"{NO_BETTER}: not surely better than the best floor, which knows nothing of the network.")
        if any(row.line.is_baseline for row in self.rows):
            said.append("In italics: floors, ceiling and raw input.")
        if self.has_silence:
            said.append(
                "Undefined is the share of heatmaps without a score, of the metric that has most; tests and order count"
                " them as uniform maps."
            )
        if self.board.referenced:
            said.append("Paper: the published number for this network and these data.")
        return " ".join(said)


def paper_tables(run: Results) -> list[PaperTable]:
    """A table for each explained quantity, best method first."""
    run.require_verdict()
    story = run.story
    return [
        PaperTable(
            board, story.dataset, story.title, story.words.cases,
            {metric.name: under(run.verdict.contests, metric.name) for metric in board.metrics},
            tuple(Row(line, marked_scores(line, board, run.verdict.contests)) for line in board.lines),
        )
        for board in boards(run)
    ]  # fmt: skip


def under(contests: Sequence[Judged], metric: str) -> str:
    """The ground truth and pooling of a metric's scores, in words."""
    judged = next((one for one in contests if one.metric == metric), None)
    kinds = {} if judged is None else {"ground truth": judged.ground_truth, "pooling": judged.pooling}
    return ", ".join(f"{kind} {name}" for kind, name in kinds.items() if name)


def marked_scores(line: Line, board: Board, contests: Sequence[Judged]) -> dict[str, Marked]:
    """The scores of a line with what the contests of the board's quantity say of them."""
    found = {}
    for name, cell in line.cells.items():
        judged = next((one for one in contests if (one.target, one.metric) == (board.target, name)), None)
        methods = judged.methods if judged is not None else []
        mine = next((one for one in methods if (one.explainer, one.target) == (line.explainer, line.target)), None)
        found[name] = (
            Marked(cell)
            if mine is None
            else Marked(cell, abs(mine.mean - methods[0].mean) <= TIES, mine.groups, mine.no_better_than)
        )
    return found


def as_csv(run: Results) -> str:
    """One line per method and explained quantity; scores are fractions."""
    lines = []
    for table in paper_tables(run):
        for row in table.rows:
            line = {"explained": table.board.target, "model": table.board.model, "explainer": row.line.short}
            line |= {"kind": row.kind}
            for metric in table.metrics:
                scores = row.scores[metric.name].plain() if metric.name in row.scores else {}
                line |= {f"{metric.name}_{name}" if name != "mean" else metric.name: v for name, v in scores.items()}
            lines.append(line)
    columns = dict.fromkeys(name for line in lines for name in line)
    return csv_frame(pl.DataFrame(lines, infer_schema_length=None).select(*columns)).write_csv()


def as_json(run: Results) -> str:
    """Everything that the other formats say; scores are fractions."""
    content = {
        "title": run.story.title,
        "benchmark": run.manifest["configuration"]["benchmark"],
        "dataset": run.story.dataset,
        "paper": run.story.paper,
        "verdict": list(run.verdict.sentences),
        "tables": [
            {
                "explained": table.board.target,
                "model": table.board.model,
                "caption": table.caption,
                "metrics": [
                    {"metric": words.name, "title": words.title, "higher_is_better": words.higher_is_better}
                    for words in table.metrics
                ],
                "rows": [
                    {"explainer": row.line.explainer, "short": row.line.short, "kind": row.kind}
                    | {"scores": {name: score.plain() for name, score in row.scores.items()}}
                    for row in table.rows
                ],
            }
            for table in paper_tables(run)
        ],
    }
    return json.dumps(content, indent=2, allow_nan=False) + "\n"


def as_markdown(run: Results) -> str:
    """A table in pipes for each explained quantity, its caption below."""

    def score(marked: Marked) -> str:
        mean = f"**{marked.mean}**" if marked.best else marked.mean
        return " ".join(filter(None, [mean, marked.cell.around, marked.marks]))

    parts = []
    for table in paper_tables(run):
        rows = [[*map(markdown_text, table.heads)], ["---", *["---:"] * (len(table.heads) - 1)]]
        for row in table.rows:
            name = markdown_code(row.line.short)
            rows.append([f"*{name}*" if row.line.is_baseline else name, *table.cells(row, score)])
        pipes = "".join(f"| {' | '.join(row)} |\n" for row in rows)
        parts.append(f"**{markdown_text(table.board.title)}**\n\n{pipes}\n{markdown_text(table.caption)}\n")
    return "\n".join(parts)


def as_latex(run: Results) -> str:
    """A table environment with booktabs' rules for each explained quantity."""

    def score(marked: Marked) -> str:
        mean = f"\\textbf{{{marked.mean}}}" if marked.best else marked.mean
        around = latex(marked.cell.around)
        return " ".join(filter(None, [mean, around])) + (
            f"\\,\\textsuperscript{{{latex(marked.marks)}}}" if marked.marks else ""
        )

    parts = ["% Needs \\usepackage{booktabs,graphicx}.\n"]
    benchmark = str(run.manifest["configuration"]["benchmark"])
    for table in paper_tables(run):
        lines = [" & ".join(map(stacked, table.heads)), "\\midrule"]
        for place, row in enumerate(table.rows):
            if row.line.is_baseline and place and not table.rows[place - 1].line.is_baseline:
                lines.append("\\midrule")
            name = f"\\texttt{{{latex(row.line.short)}}}"
            name = f"\\textit{{{name}}}" if row.line.is_baseline else name
            said = (text if "\\" in text else latex(text) for text in table.cells(row, score))
            lines.append(" & ".join([name, *said]))
        body = "\n".join(f"    {line}" if line.startswith("\\midrule") else f"    {line} \\\\" for line in lines)
        label = re.sub("[^a-z0-9]+", "-", f"{benchmark}-{table.board.target}".lower()).strip("-")
        parts.append(
            "\\begin{table}\n  \\centering\n"
            f"  \\caption{{{latex(table.caption)}}}\n  \\label{{tab:{label}}}\n"
            f"  {AS_WIDE_AS_FITS}{{%\n"
            f"  \\begin{{tabular}}{{l{'r' * (len(table.heads) - 1)}}}\n    \\toprule\n{body}\n    \\bottomrule\n"
            "  \\end{tabular}}\n\\end{table}\n"
        )
    return "\n".join(parts)


def stacked(head: str) -> str:
    """A heading in LaTeX, over several lines where it is wider than the numbers below it."""
    lines = textwrap.wrap(head, HEAD, break_long_words=False, break_on_hyphens=False)
    if len(lines) < 2:
        return latex(head)
    written = r" \\ ".join(map(latex, lines))
    return rf"\shortstack[r]{{{written}}}"


FORMATS: dict[str, Callable[[Results], str]] = {
    "csv": as_csv,
    "latex": as_latex,
    "markdown": as_markdown,
    "json": as_json,
    "bibtex": bibtex,
}


def export(run: Results, to: str) -> str:
    """The run's table, or its references, as the text of a file."""
    if to not in FORMATS:
        raise unknown_name("format of a table", to, FORMATS)
    return FORMATS[to](run)
