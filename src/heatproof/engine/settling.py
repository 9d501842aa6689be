"""A run until it is settled: blocks of cases in a random order, until the order of the methods is known.

A block is a chunk of the benchmark on every model, in whatever pieces explainers take it. Which blocks a run counts
hangs on its seed and scores alone, so that every engine stops at the same one, and a run that is resumed too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations, groupby
from typing import TYPE_CHECKING, Any

from heatproof.cases import Chunk
from heatproof.engine.plan import Task, Unit
from heatproof.engine.sources import Explaining
from heatproof.errors import HeatproofError
from heatproof.lazy import np, pl
from heatproof.results.columns import VARIANT, Columns, Key, gather
from heatproof.results.glances import BASELINES
from heatproof.results.sequential import MARGIN, Race
from heatproof.run_folder import RunFolder
from heatproof.seeds import derive_seed
from heatproof.story import Story

if TYPE_CHECKING:
    from numpy.typing import NDArray

Method = tuple[str, str]
"""Explained quantity and explainer."""


@dataclass(frozen=True)
class UntilSettled:
    """That a run stops once the order of its methods is settled; `margin` is the difference that does not matter."""

    margin: float = MARGIN

    def __post_init__(self) -> None:
        if not 0 <= self.margin < 1:
            raise HeatproofError(
                f"margin must be at least 0 and below 1, a difference of scores such as {MARGIN}; it is {self.margin}."
            )


@dataclass
class Settling:
    """Follows a run: which units belong to which block, which blocks are there, and what their scores say."""

    source: Explaining
    folder: RunFolder
    asked: UntilSettled
    blocks: Sequence[str]
    """In the order in which they are drawn."""
    block_of: Mapping[Chunk, str]
    units: Mapping[str, Sequence[Unit]]
    """By block."""
    race: Race
    methods: Sequence[Method]
    variant: Key | None = None
    """The metric, ground truth and pooling that decide: known from the first block that has any."""
    waits_for: dict[str, set[Unit]] = field(default_factory=dict)

    @classmethod
    def of(cls, source: Explaining, folder: RunFolder, asked: UntilSettled, seed: int) -> Settling:
        whole = source.opened.chunks()
        names = list(dict.fromkeys(chunk.name for chunk in whole))
        drawn = np.random.default_rng(derive_seed(seed, "until settled")).permutation(len(names))
        units = source.units()
        block_of = blocks_of(whole, units)
        by_block: dict[str, list[Unit]] = {name: [] for name in names}
        for unit in units:
            by_block[block_of[unit.chunk]].append(unit)
        methods = [(e["target"], e["explainer"]) for e in source.entries() if e["family"] not in BASELINES]
        race = Race(pairs_of(methods), len(names), source.opened.per_chunk, asked.margin)
        return cls(source, folder, asked, [names[place] for place in drawn], block_of, by_block, race, methods)

    def missing(self) -> list[Task]:
        """The tasks that the folder lacks, block by block; none once it is settled."""
        lacking = {
            name: [
                unit for unit in self.units[name] if not self.folder.has(unit.folder, unit.chunk, self.source.keep_all)
            ]
            for name in self.blocks
        }
        self.waits_for = {name: set(units) for name, units in lacking.items()}
        if self.look():
            return []
        return [task for units in lacking.values() for task in self.source.tasks(units)]

    def arrived(self, units: Iterable[Unit]) -> bool:
        """These units have come to their end, well or not: whether that settles the order."""
        for unit in units:
            self.waits_for[self.block_of[unit.chunk]].discard(unit)
        return self.look()

    def look(self) -> bool:
        """Count the next blocks that are whole; whether the order is settled, before the last of them."""
        race = self.race
        while race.seen < len(self.blocks) and not race.is_settled and not self.waits_for[self.blocks[race.seen]]:
            race.add(*self.scores(self.blocks[race.seen]))
        return race.is_settled and race.seen < len(self.blocks)

    def scores(self, block: str) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """For each pair the sum over the block's cases of the first's score minus the second's, and how many cases."""
        parts = [self.folder.part(unit.folder, unit.chunk) for unit in self.units[block]]
        rows = [self.folder.read_part(path) for path in parts if path.is_file()]
        if self.variant is None:
            self.variant = deciding(self.source.story, rows)
            if self.variant is not None:
                low, high = self.source.story.metric[self.variant[0]].range
                self.race.rescale(high - low if np.isfinite(high - low) else 1.0)
        of_variant = [pl.col(axis) == value for axis, value in zip(VARIANT, self.variant or (), strict=False)]
        chosen = [part.filter(*of_variant) for part in rows] if self.variant else []
        if not any(map(len, chosen)):
            none = np.zeros(len(self.race.pairs))
            return none, none
        assert self.variant is not None
        found = gather((part for part in chosen if len(part)), [self.variant[0]], {})
        return sums(next(found.columns([self.variant[0]])), self.methods, self.race.pairs)

    def told(self) -> dict[str, Any]:
        """What run.json says of it; `chunks` are those that count, where these are not all."""
        stopped = self.race.is_settled and self.race.seen < len(self.blocks)
        counted = self.blocks[: self.race.seen]
        sizes = {chunk.name: chunk.cases for chunk in self.source.opened.chunks()}
        explained = sum(sizes[name] for name in (counted if stopped else self.blocks))
        found: dict[str, Any] = {
            "settled": stopped,
            "margin": self.asked.margin,
            "decided_by": list(self.variant or ()),
            "pairs": len(self.race.pairs),
            "explained": explained,
            "cases": sum(sizes.values()),
            "saved": sum(sizes.values()) - explained,
            "blocks": len(counted) if stopped else len(self.blocks),
            "of_blocks": len(self.blocks),
            "chunks": None,
        }
        if stopped:
            found["chunks"] = {unit.chunk.stem: name for name in counted for unit in self.units[name]}
        return found | {"text": said(found, self.source.story)}


def blocks_of(whole: Sequence[Chunk], units: Sequence[Unit]) -> dict[Chunk, str]:
    """The block that each unit's piece of the cases belongs to: pieces lie within the chunks, in the same order."""
    found: dict[Chunk, str] = {}
    by_folder = sorted(units, key=lambda unit: unit.folder)  # stable: an explainer's pieces stay in their order
    for _, pieces in groupby(by_folder, key=lambda unit: unit.folder):
        found |= zip_pieces(whole, [unit.chunk for unit in pieces])
    return found


def zip_pieces(whole: Sequence[Chunk], pieces: Sequence[Chunk]) -> Iterator[tuple[Chunk, str]]:
    """Each piece with the name of the chunk that it is a piece of."""
    left = iter(pieces)
    for chunk in whole:
        cases = 0
        while cases < chunk.cases:
            piece = next(left)
            cases += piece.cases
            yield piece, chunk.name
        assert cases == chunk.cases, "a piece goes beyond its chunk"


def pairs_of(methods: Sequence[Method]) -> list[tuple[int, int]]:
    """The methods that stand in one contest: those of a quantity, and those that explain none in particular."""
    return [
        (i, j)
        for (i, (one, _)), (j, (other, _)) in combinations(enumerate(methods), 2)
        if one == other or "" in (one, other)
    ]


def deciding(story: Story, rows: Iterable[pl.DataFrame]) -> Key | None:
    """What single cases have a score of: the table's first column, or the first metric that they have at all.

    A score of the whole data set cannot be looked at early.
    """
    there = {variant for part in rows for variant in part.select(*VARIANT).unique().rows()}
    shown = [(column.metric, column.ground_truth, column.pooling) for column in story.columns]
    order = [*story.poolings, ""]
    for words in story.metrics:
        of_metric = sorted(
            (variant for variant in there if variant[0] == words.name),
            key=lambda v: (v not in shown, order.index(v[2]) if v[2] in order else len(order), v[1]),
        )
        if of_metric:
            return of_metric[0]
    return None


def sums(
    columns: Columns, methods: Sequence[Method], pairs: Sequence[tuple[int, int]]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """By pair: the difference of two methods, models by their mean, summed over the cases that both have, and these.

    A method that failed on the block gets what uniform maps would.
    """
    models = sorted({model for model, *_ in columns.keys})
    place = {key: at for at, key in enumerate(columns.keys)}
    whole, uniform = columns.whole, columns.uniform
    by_model = []
    for model in models:
        known = np.fmax.reduce(uniform[:, [at for (of, *_), at in place.items() if of == model]], axis=1)
        by_model.append([whole[:, place[key]] if (key := (model, *method)) in place else known for method in methods])
    values = np.mean(by_model, axis=0)
    first, second = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    apart = values[first] - values[second]
    return np.nansum(apart, axis=1), (~np.isnan(apart)).sum(1).astype(np.float64)


def said(told: Mapping[str, Any], story: Story) -> str:
    """What came of it, in a sentence or two."""
    cases, points = story.words.cases, f"{100 * told['margin']:g} point{'' if told['margin'] == MARGIN else 's'}"
    by = ", ".join(filter(None, told["decided_by"]))
    if not told["pairs"]:
        return f"There are no two methods to be put in order, so all {told['cases']:,} {cases} were explained."
    if not told["settled"]:
        matters = f" (decided by {by}; less than {points} does not matter)" if by else ""
        return f"The order of the methods was not settled before all {told['cases']:,} {cases} were explained{matters}."
    first = story.metrics[0]
    whole = "" if first.name == told["decided_by"][0] else f" {first.title} needs all of them, and is left out."
    return (
        f"Stopped after {told['explained']:,} of {told['cases']:,} {cases}, {told['saved']:,} saved: the order of the"
        f" methods is settled at 95 % (decided by {by}; all pairs are told apart, or less than {points} apart).{whole}"
    )
