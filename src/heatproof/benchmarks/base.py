"""What a benchmark is: cases, a model for them, scores, and the paper's table. The engine needs nothing else."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from heatproof.cases import Batch
from heatproof.errors import unknown_name
from heatproof.lazy import pl, torch
from heatproof.progress import Progress, silent
from heatproof.registry import Registry

if TYPE_CHECKING:
    from heatproof.engine.parts import ScoreRows
    from heatproof.engine.plan import Chunk
    from heatproof.explainers.base import Explainer, Quantity

benchmarks: Registry[type[Benchmark]] = Registry("benchmark")

B = TypeVar("B", bound="type[Benchmark]")


def register_benchmark(name: str) -> Callable[[B], B]:
    """Class decorator: the benchmark is known as `name`."""

    def file_under_name(cls: B) -> B:
        cls.name = name
        benchmarks.register(name)(cls)
        return cls

    return file_under_name


class Benchmark(ABC):
    """Puts cases, model and scores together the way one paper does. Its constructor arguments are its options."""

    name: ClassVar[str] = ""
    title: ClassVar[str]
    paper: ClassVar[str]
    dataset: str
    metrics: ClassVar[tuple[str, ...]]
    """The metrics of the table, the one that ranks first."""
    default_explainers: tuple[str, ...]
    presets: ClassVar[Mapping[str, Mapping[str, Any]]]
    """Options by preset name."""
    case_settings: ClassVar[tuple[str, ...]] = ()
    """The parts of `configuration` that decide what a case of a given name is; runs that agree in them share cases."""
    batch_size: ClassVar[int] = 500
    """Cases explained at a time, unless a run says otherwise."""
    quantities: ClassVar[tuple[Quantity, ...]] = ("probability", "logit")
    """What is explained, unless a run says otherwise."""

    @classmethod
    def from_preset(cls, preset: str, **options: Any) -> Benchmark:
        """The benchmark as the preset has it, with the options that are given and not None changed."""
        if preset not in cls.presets:
            raise unknown_name("preset", preset, cls.presets)
        known = inspect.signature(cls).parameters
        for name in options:
            if name not in known:
                raise unknown_name(f"option of {cls.name}", name, known)
        given = {name: value for name, value in options.items() if value is not None}
        return cls(**{**cls.presets[preset], **given})

    @abstractmethod
    def prepare(self, progress: Progress = silent) -> None:
        """Make or load data and models. Bad options are errors here, before any long work."""

    def rehearse(self, progress: Progress = silent) -> None:
        """As much of `prepare` as it takes to say what a run would cost, without long work."""
        self.prepare(progress)

    @abstractmethod
    def configuration(self) -> dict[str, Any]:
        """What the scores depend on, as plain data: options, fingerprints of data and weights."""

    @abstractmethod
    def chunks(self) -> Sequence[Chunk]:
        """The cases, cut into fixed pieces."""

    def chunks_for(self, explainer: Explainer) -> Sequence[Chunk]:
        """The cases as this explainer gets them: smaller pieces where each of its cases costs much."""
        return self.chunks()

    def chunks_with(self, cases: Collection[str]) -> Sequence[Chunk]:
        """The chunks to look for these cases in; all of them, unless a benchmark knows better."""
        return self.chunks()

    @abstractmethod
    def load(self, chunk: Chunk) -> Batch:
        """The cases of a chunk."""

    @abstractmethod
    def model_for(self, chunk: Chunk) -> torch.nn.Module:
        """The model that the cases of a chunk are explained on."""

    def model_to_explain(self, chunk: Chunk, explainer: Explainer) -> torch.nn.Module:
        """The same model in the form that suits this explainer best."""
        return self.model_for(chunk)

    @abstractmethod
    def score(self, batch: Batch, relevance: torch.Tensor, model: torch.nn.Module) -> pl.DataFrame:
        """Score rows: one per case, metric and variant (`score_rows` makes them)."""

    def summarise(self, scores: ScoreRows) -> pl.DataFrame:
        """Further score rows that need the rows of a whole data set."""
        return scores.none()

    def subsets(self) -> Mapping[str, pl.Expr]:
        """Parts of the cases that get lines of their own, each a condition on the score rows."""
        return {}

    def columns(self) -> Sequence[Mapping[str, str]]:
        """What the table shows first: metric, ground truth and pooling of each column. Empty: its metrics."""
        return ()

    def notes(self, scores: ScoreRows, table: pl.DataFrame) -> list[str]:
        """What a reader of the table should know, said with the run's own numbers."""
        return []

    def examples(self) -> frozenset[str]:
        """The cases whose heatmaps are kept for the page."""
        return frozenset()

    def case_title(self, case: str) -> str:
        """What to write over an example; empty for nothing."""
        return ""

    def as_pictures(self, inputs: torch.Tensor) -> torch.Tensor:
        """Inputs as people look at them: pictures between 0 and 1."""
        return inputs

    @abstractmethod
    def reference(self) -> pl.DataFrame:
        """The paper's table: explainer (by name), target, metric, reference; other axes if the number is for one."""


def score_rows(
    batch: Batch, values: Mapping[tuple[str, str, str], torch.Tensor], cases: Sequence[int] | None = None
) -> pl.DataFrame:
    """Long rows from values by (metric, ground truth, pooling), with the facts of each case."""
    chosen = range(len(batch)) if cases is None else cases
    facts = pl.DataFrame(
        {"case": [batch.ids[i] for i in chosen]} | {k: [v[i] for i in chosen] for k, v in batch.facts.items()}
    )
    frames = [
        facts.with_columns(
            metric=pl.lit(metric),
            ground_truth=pl.lit(ground_truth),
            pooling=pl.lit(pooling),
            value=pl.Series(value.double().cpu().numpy()),
        )
        for (metric, ground_truth, pooling), value in values.items()
    ]
    return pl.concat(frames)
