"""Story: what a reader of a run needs to know, as plain data that goes into the run folder.

A benchmark fills it; tables and pages read it, and know no benchmark by name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import TYPE_CHECKING, Any

from heatproof.lazy import pl

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True)
class MetricWords:
    """A metric as the tables show it."""

    name: str
    title: str
    summary: str
    higher_is_better: bool = True
    range: tuple[float, float] = (0.0, 1.0)
    paper: str = ""
    localises: bool = False
    """Whether theory knows its ends: random maps score as uniform ones, and the true mask is best."""

    @property
    def best(self) -> float:
        """The best value that there is."""
        return self.range[1 if self.higher_is_better else 0]

    @property
    def heading(self) -> str:
        """The title with the direction in which it is better."""
        return f"{self.title} {'↑' if self.higher_is_better else '↓'}"


@dataclass(frozen=True)
class Column:
    """What a column of the table shows first."""

    metric: str
    ground_truth: str = ""
    pooling: str = ""

    @property
    def condition(self) -> pl.Expr:
        """Whether a row of scores, or a line of the leaderboard, is of it."""
        return pl.all_horizontal(pl.col(axis) == value for axis, value in vars(self).items())


@dataclass(frozen=True)
class Mark:
    """A marked stretch of a signal under one explainer: from `start`, `length` positions long; `text` is said of it."""

    explainer: str
    target: str
    case: str
    start: int
    length: int
    text: str = ""


@dataclass(frozen=True)
class Fact:
    """What the page says of each case: a column of the score rows, and what it is called.

    filters  whether people choose cases by it
    words    what is said of true and of false
    """

    column: str
    title: str
    filters: bool = False
    words: tuple[str, str] = ("yes", "no")


@dataclass(frozen=True)
class Words:
    """What things are called on the page."""

    cases: str = "cases"
    """What is explained, in the plural."""
    favour: str = "for the class"
    """What red means in a heatmap."""
    against: str = "against it"
    """What blue means."""
    truth: str = "the true mask"
    mark: str = ""
    """What a marked stretch is; empty if nothing is marked."""
    as_published: str = ""
    """The explained quantity that the paper explains."""


@dataclass(frozen=True)
class Paragraph:
    """Plain text; `tone` is good, bad, or soft for small print. What `lead` says stands before it in bold."""

    text: str
    lead: str = ""
    tone: str = ""
    kind: str = "paragraph"


@dataclass(frozen=True)
class Cell:
    """A cell of a section's table.

    value   what it is sorted by
    title   what is said when one points at it
    bar     between 0 and 1: the length of a bar in front of the text
    shade   between -1 (low, red) and 1 (high, blue)
    part    1, 2 or 3: the part of a whole that it belongs to, in the colour that a panel gives it
    """

    text: str = ""
    value: float | None = None
    title: str = ""
    bar: float | None = None
    shade: float | None = None
    framed: bool = False
    part: int | None = None


@dataclass(frozen=True)
class Table:
    """Rows of a name and cells under heads; `matrix` is close-packed and coloured, not sorted."""

    title: str
    heads: Sequence[str]
    rows: Sequence[tuple[str, Sequence[Cell]]]
    matrix: bool = False
    note: str = ""
    kind: str = "table"


@dataclass(frozen=True)
class Panel:
    """Something found: text, the parts of a whole (share, words), and figures (caption, files of pictures)."""

    title: str
    text: str
    parts: Sequence[tuple[float, str]] = ()
    figures: Sequence[tuple[str, Sequence[str]]] = ()
    kind: str = "panel"


@dataclass(frozen=True)
class Plate:
    """One case looked at closely: pictures (caption, file) side by side, and rows of cells for what lies where."""

    title: str
    text: str
    pictures: Sequence[tuple[str, str]]
    places: Sequence[Sequence[Cell]] = ()
    heading: str = ""
    kind: str = "plate"


@dataclass(frozen=True)
class Section:
    """A further section of the page, made after the run by whoever has more to say about it."""

    title: str
    blocks: Sequence[Paragraph | Table | Panel | Plate]

    def plain(self) -> dict[str, Any]:
        """As JSON takes it."""
        return asdict(self)


@dataclass(frozen=True, eq=False)
class Case:
    """A case as it is drawn.

    inputs    (C, *space)
    heatmaps  relevance (C, *space) by the explainer's name
    truth     the true mask (*space); one that is empty is not drawn
    marks     the stretch (start, length) that an explainer marks, by its name
    full      what names are short for
    """

    title: str
    inputs: NDArray[Any]
    heatmaps: Mapping[str, NDArray[Any]]
    truth: NDArray[Any] | None = None
    marks: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    full: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_signal(self) -> bool:
        return self.inputs.ndim == 2


@dataclass(frozen=True)
class Story:
    """All that a table and a page say beside numbers.

    metrics    those of the table, the one that ranks first
    columns    what the table shows first; empty: every metric without ground truth and pooling, or under the first
    beside     further columns of these metrics that tables of text show beside them, under other truths or poolings
    poolings   in the order in which tables show them; empty: that of the scores
    examples   titles of the cases whose heatmaps are kept, in the order of the page
    captions   further lines under an example's title, by case
    companions further pictures of an example (caption, address), by case: what stands beside its heatmaps
    facts      what else is said of each of them
    marks      stretches of examples that explainers mark
    notes      what a reader of the table should know, said with the run's own numbers
    sections   further sections of the page and of the table for people, which the benchmark itself has to say
    figures    numbers about the network that no explainer changes, by name, such as its accuracy
    cluster    the column of the score rows that says which cases hang together; empty where each stands alone
    repeats    how many cases repeat another; None where nobody looked
    """

    title: str
    paper: str
    dataset: str
    metrics: tuple[MetricWords, ...]
    columns: tuple[Column, ...] = ()
    beside: tuple[Column, ...] = ()
    poolings: tuple[str, ...] = ()
    words: Words = field(default_factory=Words)
    examples: Mapping[str, str] = field(default_factory=dict)
    captions: Mapping[str, str] = field(default_factory=dict)
    companions: Mapping[str, Sequence[tuple[str, str]]] = field(default_factory=dict)
    facts: tuple[Fact, ...] = ()
    marks: tuple[Mark, ...] = ()
    notes: tuple[str, ...] = ()
    sections: tuple[Section, ...] = ()
    figures: Mapping[str, float] = field(default_factory=dict)
    cluster: str = ""
    repeats: int | None = None

    @property
    def metric(self) -> dict[str, MetricWords]:
        """The metrics by name."""
        return {words.name: words for words in self.metrics}

    @property
    def shown(self) -> pl.Expr:
        """Which scores are shown first: its own choice, or those under the first of its poolings.

        Where it names none, that is the first which the scores have.
        """
        if self.columns:
            return pl.any_horizontal(column.condition for column in self.columns)
        pooling = pl.col("pooling")
        first = pl.lit(self.poolings[0]) if self.poolings else pooling.filter(pooling != "").first()
        names = [words.name for words in self.metrics]
        return pl.col("metric").is_in(names) & ((pooling == "") | (pooling == first).fill_null(False))

    def plain(self) -> dict[str, Any]:
        """As JSON takes it."""
        return asdict(self)


def read_story(content: Mapping[str, Any]) -> Story:
    """The story from plain data; what a later version may have added is left out."""
    parts: dict[str, Any] = {key: value for key, value in content.items() if key in {f.name for f in fields(Story)}}
    parts["metrics"] = tuple(MetricWords(**entry | {"range": tuple(entry["range"])}) for entry in content["metrics"])
    parts["columns"] = tuple(Column(**entry) for entry in content["columns"])
    parts["beside"] = tuple(Column(**entry) for entry in content.get("beside", ()))
    parts["marks"] = tuple(Mark(**entry) for entry in content["marks"])
    facts = (Fact(**entry | {"words": tuple(entry["words"])}) for entry in content.get("facts", ()))
    parts["facts"] = tuple(facts)
    parts["words"] = Words(**content["words"])
    parts["poolings"], parts["notes"] = tuple(content["poolings"]), tuple(content["notes"])
    parts["sections"] = tuple(read_section(entry) for entry in content.get("sections", ()))
    return Story(**parts)


def read_section(content: Mapping[str, Any]) -> Section:
    """A section from plain data."""
    kinds: dict[str, Any] = {"paragraph": Paragraph, "table": read_table, "panel": Panel, "plate": read_plate}
    return Section(content["title"], [kinds[block["kind"]](**block) for block in content["blocks"]])


def read_table(rows: Sequence[Any], **parts: Any) -> Table:
    return Table(rows=[(name, [Cell(**cell) for cell in cells]) for name, cells in rows], **parts)


def read_plate(places: Sequence[Any], **parts: Any) -> Plate:
    return Plate(places=[[Cell(**cell) for cell in row] for row in places], **parts)
