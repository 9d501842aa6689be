"""What a benchmark is: a recipe, and what becomes of it when it is opened. The engine needs nothing else."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import islice
from math import ceil
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from heatproof.cases import Batch, Chunk
from heatproof.errors import HeatproofError, require_whole, unknown_name
from heatproof.harmless import decodable
from heatproof.lazy import np, pl, torch
from heatproof.metrics import Metric, metrics
from heatproof.metrics.uniform import uniform_column
from heatproof.pooling import poolings
from heatproof.progress import Progress, silent
from heatproof.registry import Registry
from heatproof.story import Mark, MetricWords, Section, Story

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from heatproof.explainers.base import Explainer, Quantity

AnyOpened = TypeVar("AnyOpened", bound="OpenedCases")


def admitted(name: str, found: Any) -> type[Benchmark]:
    """The class that a plug-in's entry point names, under that name."""
    if not isinstance(found, type) or not issubclass(found, Benchmark):
        raise HeatproofError(f"it must be a subclass of heatproof.Benchmark, and is {found!r}.")
    if vars(found).get("name", name) != name:
        raise HeatproofError(f"it is registered as {found.name!r}; the entry point must have the same name.")
    found.name = name
    return found


benchmarks: Registry[type[Benchmark]] = Registry("benchmark", "heatproof.benchmarks", admitted)
register_benchmark = benchmarks.register_class
"""Class decorator: the benchmark is known by this name."""


def option(default: Any, text: str, **further: Any) -> Any:
    """A field of a benchmark with its help text; `metavar`, `flag` (for the command line) may be said too."""
    return field(default=default, metadata={"help": text, **further})


@dataclass(frozen=True, kw_only=True)
class Benchmark(ABC):
    """A recipe: its fields are its options. It keeps nothing that it finds out; `open` gives that back.

    The docstring of a benchmark is the help text of its command, examples included.
    """

    name: ClassVar[str] = ""
    title: ClassVar[str]
    paper: ClassVar[str]
    metrics: ClassVar[tuple[str, ...]]
    """The metrics of the table, the one that ranks first."""
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {"standard": {}}
    """Options by preset name."""
    preset_help: ClassVar[str] = ""
    variants: ClassVar[Mapping[str, Mapping[str, Any]]] = {}
    """Options that make another run of it, by what that is called: such runs have folders of their own."""
    batch_size: ClassVar[int] = 500
    """Cases explained at a time, unless a run says otherwise."""
    quantities: ClassVar[tuple[Quantity, ...]] = ("probability", "logit")
    """What is explained, unless a run says otherwise."""
    with_all: ClassVar[bool] = True
    """Whether `heatproof run all` runs it too."""

    @property
    @abstractmethod
    def default_explainers(self) -> tuple[str, ...]:
        """The paper's methods in the reading that we take, floors and ceiling."""

    @classmethod
    def from_preset(cls, preset: str, **options: Any) -> Benchmark:
        """The benchmark as the preset has it, with the options that are given and not None changed."""
        if preset not in cls.presets:
            raise unknown_name("preset", preset, cls.presets)
        known = [f.name for f in fields(cls)]
        for name in options:
            if name not in known:
                raise unknown_name(f"option of {cls.name}", name, known)
        given = {name: value for name, value in options.items() if value is not None}
        return cls(**{**cls.presets[preset], **given})

    @classmethod
    def called(cls, options: Mapping[str, Any]) -> str:
        """Its name, and that of the variant which these options make."""
        made = (name for name, given in cls.variants.items() if given.items() <= options.items())
        return "-".join([cls.name, *made])

    @abstractmethod
    def open(self, seed: int, progress: Progress = silent) -> Opened:
        """Make or load data and models, once; `seed` is the run's. Bad options are errors before any long work."""

    def rehearse(self, seed: int, progress: Progress = silent) -> Opened:
        """As much of `open` as it takes to say what a run would cost, without long work."""
        return self.open(seed, progress)


@dataclass(frozen=True)
class Ending:
    """What can be said only when all scores are there."""

    notes: Sequence[str] = ()
    marks: Sequence[Mark] = ()
    sections: Sequence[Section] = ()


@dataclass(frozen=True, eq=False, kw_only=True)
class OpenedCases(ABC):
    """Cases that were found, and what is said of their scores. Nothing of it changes afterwards.

    story        what a reader needs to know
    settings     what the scores depend on, as plain data; two runs that differ in it are not one
    fingerprint  of the cases, names and content: runs that agree in it can be compared case by case
    models       a fingerprint of the weights of each model, by the model's name
    counts       how many cases there are, by the name of their part; an empty name where there is one part only
    per_chunk    how many cases are scored and stored together
    sample       how many of the story's examples are kept, unless a run keeps all; None for all of them
    ahead        CPU seconds of work that `open` would do and `rehearse` has left out, by what it is
    """

    story: Story
    settings: Mapping[str, Any]
    fingerprint: str
    models: Mapping[str, str]
    counts: Mapping[str, int]
    per_chunk: int
    sample: int | None = None
    ahead: Mapping[str, float] = field(default_factory=dict)

    def sampled(self: AnyOpened) -> AnyOpened:
        """The same with those examples only that are kept unless a run keeps all."""
        examples = dict(islice(self.story.examples.items(), self.sample))
        captions = {case: caption for case, caption in self.story.captions.items() if case in examples}
        companions = {case: pictures for case, pictures in self.story.companions.items() if case in examples}
        story = replace(self.story, examples=examples, captions=captions, companions=companions)
        return replace(self, story=story)

    def chunks(self, most: int | None = None) -> list[Chunk]:
        """The cases of every model in pieces of `per_chunk`, or each of these in even ones of at most `most`."""
        whole = self.per_chunk
        size = ceil(whole / ceil(whole / min(whole, most or whole)))
        return [
            Chunk(f"{part}-{start:06d}" if part else f"{start:06d}", model, min(size, end - start))
            for model in self.models
            for part, count in self.counts.items()
            for first in range(0, count, whole)
            for end in [min(first + whole, count)]
            for start in range(first, end, size)
        ]

    def remembers(self) -> pl.Expr:
        """Which score rows `summarise` and `end` look at; the others are not held."""
        return pl.lit(False)

    def summarise(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Further score rows that need the remembered rows of the whole data set."""
        return rows.clear()

    def load_libraries(self) -> None:
        """Load what `summarise` takes, while others compute."""
        return

    def subsets(self) -> Mapping[str, pl.Expr]:
        """Parts of the cases that get lines of their own, each a condition on the score rows."""
        return {}

    def end(self, rows: pl.DataFrame, table: pl.DataFrame) -> Ending:
        """Notes and marks, from the remembered rows and the leaderboard."""
        return Ending()

    def conclude(self, rows: pl.DataFrame, summary: pl.DataFrame, table: pl.DataFrame) -> Ending:
        """The same for a benchmark that looks at what `summarise` gave, too."""
        return self.end(rows, table)

    def marks(self, rows: pl.DataFrame) -> Sequence[Mark]:
        """The stretches of signals that explainers mark, from score rows of some cases."""
        return ()

    def reference(self) -> Reference:
        """The paper's numbers."""
        return Reference()


@dataclass(frozen=True, eq=False, kw_only=True)
class Opened(OpenedCases):
    """What `open` found: cases, the models that they are explained on, and how relevance is scored."""

    def chunks_with(self, cases: Collection[str]) -> Sequence[Chunk]:
        """The chunks of the first model to look for these cases in; all of them, unless a benchmark knows better."""
        first = next(iter(self.models))
        return [chunk for chunk in self.chunks() if chunk.model == first]

    @abstractmethod
    def load(self, chunk: Chunk) -> Batch:
        """The cases of a chunk."""

    @abstractmethod
    def model(self, name: str) -> torch.nn.Module:
        """The model that the chunks of this name are explained on."""

    def form(self, name: str, explainer: Explainer) -> torch.nn.Module:
        """The same model in the form that suits this explainer best."""
        return self.model(name)

    @abstractmethod
    def score(self, batch: Batch, relevance: torch.Tensor, model: torch.nn.Module) -> pl.DataFrame:
        """Score rows: one per case, metric and variant (`score_rows` makes them)."""

    def about(self, case: Batch) -> str:
        """What to write over a drawing of one case; empty for nothing."""
        return ""

    def as_pictures(self, inputs: torch.Tensor) -> torch.Tensor:
        """Inputs as people look at them: signals as they are, pictures between 0 and 1."""
        return inputs


@dataclass(frozen=True, eq=False, kw_only=True)
class OpenedMasks(OpenedCases):
    """Cases with true masks and no model, for heatmaps that were made elsewhere.

    space      the extent of masks and heatmaps
    size_hint  what to do about heatmaps of another size, as the end of a sentence
    """

    space: tuple[int, ...]
    size_hint: str = ""
    of_these_maps: ClassVar[tuple[str, ...]] = ()
    """Metrics that rest on what was told with the heatmaps, so that no other map has them."""

    resizes: bool = False
    """Whether heatmaps of another size are brought to that of their masks."""
    keeps_float32: ClassVar[bool] = False
    """Whether heatmaps of float32 are scored as they are, which is faster and gives the same."""

    def space_of(self, chunk: Chunk) -> tuple[int, ...]:
        """The extent of masks and heatmaps of a chunk, where these differ from chunk to chunk."""
        return self.space

    @abstractmethod
    def cases(self, chunk: Chunk) -> Sequence[str]:
        """The cases of a chunk, by the names of their heatmaps."""

    @abstractmethod
    def score(self, chunk: Chunk, relevance: NDArray[Any], problems: Sequence[str]) -> pl.DataFrame:
        """Score rows of the chunk's heatmaps (cases, channels, *space).

        `problems` says of each what was wrong with it; empty for good ones.
        """

    def shown(self, cases: Sequence[str]) -> Mapping[str, NDArray[Any]]:
        """`inputs` (cases, channels, *space) as people look at them, and the masks of each kind as `mask.KIND`.

        Empty where there is nothing to look at. Cases are named as in the score rows.
        """
        return {}

    def truth(self, chunk: Chunk) -> NDArray[np.bool_] | None:
        """The true masks (cases, *space) that the tables show first, for the ceiling; None where there are none."""
        return None

    def inputs(self, chunk: Chunk) -> NDArray[Any] | None:
        """The inputs (cases, channels, *space), for floors that look at them; None where they are not at hand."""
        return None


@dataclass(frozen=True, eq=False)
class Reference:
    """The paper's table: explainer (by name), target, metric, reference; other axes if a number is for one.

    `is_about_this`: whether network and data are the paper's. If not, the numbers do not stand beside ours, but in a
    column of their own.
    """

    rows: pl.DataFrame | None = None
    is_about_this: bool = False


def score_rows(
    batch: Batch,
    values: Mapping[tuple[str, str, str], torch.Tensor],
    cases: Sequence[int] | None = None,
    uniform: Mapping[str, torch.Tensor] | None = None,
) -> pl.DataFrame:
    """Long rows from values by (metric, ground truth, pooling), with the facts of each case.

    Each row says what a uniform map would get: an unusable map counts as one. `uniform` has these values (cases,) by
    metric, for those whose registered description does not say.
    """
    chosen = range(len(batch)) if cases is None else cases
    told = {
        name: [decodable(fact) if isinstance(fact := facts[i], str) else fact for i in chosen]
        for name, facts in batch.facts.items()
    }
    facts = pl.DataFrame({"case": [batch.ids[i] for i in chosen]} | told)
    shares = {name: mask.flatten(1).double().mean(1)[list(chosen)].tolist() for name, mask in batch.masks.items()}
    unknown = [0.0] * len(chosen)

    frames = [
        facts.with_columns(
            metric=pl.lit(metric),
            ground_truth=pl.lit(ground_truth),
            pooling=pl.lit(pooling),
            value=pl.Series(value.cpu().double().numpy()),
            uniform=pl.Series(uniform[metric].cpu().double().numpy())
            if uniform and metric in uniform
            else uniform_column(metric, shares.get(ground_truth, unknown)),
        )
        for (metric, ground_truth, pooling), value in values.items()
    ]
    return pl.concat(frames)


KNOWN = ("mask_share", "half")
"""What a uniform map gets by theory, and with it a random one."""


def metric_words(wanted: Iterable[str | Metric]) -> tuple[MetricWords, ...]:
    """What tables need to know of metrics, by name or as they are."""
    found = (metrics[metric] if isinstance(metric, str) else metric for metric in wanted)
    return tuple(
        MetricWords(m.name, m.title, m.summary, m.higher_is_better, m.range, m.paper, m.uniform in KNOWN) for m in found
    )


def require_poolings(names: Sequence[str]) -> None:
    """At least one pooling must be named, and all must be known."""
    if not names:
        raise HeatproofError("poolings is empty; name at least one (heatproof list poolings).")
    for name in names:
        poolings[name]


def require_limit(limit: int | None) -> None:
    if limit is not None:
        require_whole("limit", limit, 1)
