"""Scores as numbers in columns: what the leaderboard needs of the rows, in a small part of their memory."""

from __future__ import annotations

import math
import os
import tempfile
from array import array
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from heatproof.lazy import np, pl

if TYPE_CHECKING:
    from numpy.typing import NDArray

KEY = ("model", "target", "explainer")
VARIANT = ("metric", "ground_truth", "pooling")

Key = tuple[str, ...]

FACTS = ("correct", "probability")
"""Columns about cases that health checks look at."""
HELD = 2**23
"""Bytes of scores that are held in memory; what is more goes to a file."""


@dataclass(frozen=True, eq=False)
class Columns:
    """The scores of one variant: `values` (cases, keys), cases in the order of their names, keys as they came.

    `flags` (subsets, cases, keys) says which of them belong to each subset. `uniform` (cases, keys) is what a uniform
    map of the case would get, NaN where that is not known or the truth is missing. `clusters` (cases,) numbers what
    cases hang together by; None where each stands alone.
    """

    variant: Key
    keys: Sequence[Key]
    cases: NDArray[np.int64]
    values: NDArray[np.float64]
    flags: NDArray[np.bool_]
    uniform: NDArray[np.float64]
    clusters: NDArray[np.int64] | None = None

    @property
    def whole(self) -> NDArray[np.float64]:
        """The scores, with unusable and missing maps counted as uniform ones."""
        return np.where(np.isnan(self.values), self.uniform, self.values)

    @property
    def unusable(self) -> NDArray[np.bool_]:
        """Which maps (cases, keys) have no score although the case has a truth: others have one, or could."""
        defined = ~np.isnan(self.values)
        return ~defined & (defined.any(1, keepdims=True) | ~np.isnan(self.uniform))

    def of_subset(self, place: int) -> Columns:
        """The scores of the subset that stands at this place of `flags`; all others are as if they were not there."""
        inside = self.flags[place]
        values, uniform = (np.where(inside, whole, np.nan) for whole in (self.values, self.uniform))
        return replace(self, values=values, uniform=uniform)

    def of_model(self, model: str) -> Columns:
        """The scores on one of the models."""
        here = [place for place, (of, *_) in enumerate(self.keys) if of == model]
        return replace(
            self,
            keys=[self.keys[place] for place in here],
            values=self.values[:, here],
            flags=self.flags[:, :, here],
            uniform=self.uniform[:, here],
        )


class Stack:
    """Scores by variant, laid aside as they come: in memory while they are few, else in a file of the system's own.

    A score is the code of its case, that of its key, its value, one bit per subset, and what a uniform map would get.
    """

    FIELDS = (("case", "u4"), ("key", "u2"), ("value", "f8"), ("bits", "u8"), ("uniform", "f8"))

    def __init__(self, held: int = HELD) -> None:
        self.file = tempfile.SpooledTemporaryFile(held)  # noqa: SIM115  # it goes with this object
        self.places: dict[Key, array[int]] = {}
        """Where a variant's scores begin, and how many bytes they are, in turns."""

    def add(self, variant: Key, **columns: NDArray[Any]) -> None:
        rows = np.empty(len(columns["case"]), list(self.FIELDS))
        for name, column in columns.items():
            rows[name] = column
        content = rows.tobytes()
        start = self.file.seek(0, os.SEEK_END)
        self.file.write(content)
        self.places.setdefault(variant, array("q")).extend((start, len(content)))

    def rows(self, variant: Key) -> NDArray[Any]:
        """All scores of a variant, in the order in which they came."""
        parts = []
        places = self.places[variant]
        for start, length in zip(places[::2], places[1::2], strict=True):
            self.file.seek(start)
            parts.append(self.file.read(length))
        return np.frombuffer(b"".join(parts), list(self.FIELDS))


@dataclass(frozen=True, eq=False)
class Gathered:
    """All scores of a run, of which a bounded part is in memory."""

    stack: Stack
    cases: Mapping[str, int]
    keys: Mapping[Key, int]
    models: frozenset[str]
    costs: pl.DataFrame
    """Seconds and passes per case, and the peak of memory in bytes, by target and explainer."""
    subsets: Sequence[str] = field(default=())
    facts: pl.DataFrame = field(default_factory=pl.DataFrame)
    """What is known of each case on each model: those of FACTS that the rows have."""
    clusters: Mapping[str, str] = field(default_factory=dict)
    """What a case hangs together with others by, by case; empty where each stands alone."""

    @property
    def variants(self) -> Collection[Key]:
        return self.stack.places.keys()

    def numbered(self, cases: NDArray[np.int64]) -> NDArray[np.int64] | None:
        """The clusters of cases, given by their places in the order of names, as numbers."""
        if not self.clusters:
            return None
        names = sorted(self.cases)
        numbers: dict[str, int] = {}
        return np.array(
            [
                numbers.setdefault(self.clusters.get(names[place], names[place]), len(numbers))
                for place in cases.tolist()
            ]
        )

    def columns(self, metrics: Sequence[str], variants: Collection[Key] | None = None) -> Iterator[Columns]:
        """Variant by variant, in the order of the metrics, then of ground truth and pooling; all, or some of them."""
        places = np.empty(len(self.cases), np.int64)
        places[np.argsort(np.array(list(self.cases), dtype=object))] = np.arange(len(self.cases))
        keys = list(self.keys)
        wanted = [variant for variant in self.variants if variants is None or variant in variants]
        for variant in sorted(wanted, key=lambda v: (list(metrics).index(v[0]), *v[1:])):
            rows = self.stack.rows(variant)
            key, bits = rows["key"], rows["bits"]
            cases, row = np.unique(places[rows["case"]], return_inverse=True)
            first = np.unique(key, return_index=True)[1]
            present = key[np.sort(first)]
            column = np.empty(len(keys), np.int64)
            column[present] = np.arange(len(present))
            values = np.full((len(cases), len(present)), np.nan)
            values[row, column[key]] = rows["value"]
            flags = np.zeros((len(self.subsets), *values.shape), dtype=np.bool_)
            for place in range(len(self.subsets)):
                flags[place, row, column[key]] = bits >> np.uint64(place) & np.uint64(1)
            expected = np.full(values.shape, np.nan)
            expected[row, column[key]] = rows["uniform"]
            found = [keys[k] for k in present]
            known_for_all(found, expected, flags)
            yield Columns(variant, found, cases, values, flags, expected, self.numbered(cases))


def known_for_all(keys: Sequence[Key], uniform: NDArray[np.float64], flags: NDArray[np.bool_]) -> None:
    """What is known of a case on a model holds for explainers that failed on it too: filled in, in place."""
    models = np.array([model for model, *_ in keys])
    for model in set(models.tolist()):
        here = np.flatnonzero(models == model)
        known = uniform[:, here]
        uniform[:, here] = np.where(np.isnan(known), np.fmax.reduce(known, axis=1)[:, None], known)
        flags[:, :, here] |= flags[:, :, here].any(2, keepdims=True)


def gather(
    parts: Iterable[pl.DataFrame], metrics: Sequence[str], subsets: Mapping[str, pl.Expr], cluster: str = ""
) -> Gathered:
    """The scores of these metrics, from frames of rows that are looked at one after the other.

    `cluster` is the column that says which cases hang together; rows without it stand alone.
    """
    assert len(subsets) <= 64, "a score has 64 bits for the subsets that it belongs to"
    stack = Stack()
    cases: dict[str, int] = {}
    keys: dict[Key, int] = {}
    models: set[str] = set()
    costs = Costs()
    clusters: dict[str, str] = {}
    facts: dict[tuple[str, str], pl.DataFrame] = {}
    for part in parts:
        if cluster in part.columns:
            clusters.update(part.select("case", pl.col(cluster).cast(pl.String)).drop_nulls().unique().rows())
        costs.add(part)
        wanted = {name for condition in subsets.values() for name in condition.meta.root_names()}
        rows = with_columns(part.filter(pl.col("metric").is_in(list(metrics))), {*wanted, "uniform"})
        models.update(rows["model"].unique())  # one that has no score of its own is not summed up with others
        if len(rows) and (rows["model"][0], rows["case"][0]) not in facts:
            there = [name for name in FACTS if name in rows.columns]
            facts[rows["model"][0], rows["case"][0]] = rows.select("model", "case", *there).unique(["model", "case"])
        flagged = [condition.fill_null(False).alias(f"in {name}") for name, condition in subsets.items()]
        rows = rows.select("case", *KEY, *VARIANT, pl.col("value", "uniform").cast(pl.Float64), *flagged)
        coded = np.array([cases.setdefault(case, len(cases)) for case in rows["case"]], np.uint32)
        value, uniform = (rows[name].to_numpy().astype(np.float64) for name in ("value", "uniform"))
        bits = np.zeros(len(rows), np.uint64)
        for place, name in enumerate(subsets):
            bits |= rows[f"in {name}"].to_numpy().astype(np.uint64) << np.uint64(place)
        together = rows.with_row_index("row").group_by(*VARIANT, *KEY, maintain_order=True).agg("row")
        for *named, row in together.select(*VARIANT, *KEY, "row").iter_rows():
            words, here = tuple(str(word) for word in named), np.array(row)
            variant, key = words[: len(VARIANT)], words[len(VARIANT) :]
            code = np.full(len(here), keys.setdefault(key, len(keys)), np.uint16)
            chosen = {"case": coded[here], "value": value[here], "bits": bits[here], "uniform": uniform[here]}
            stack.add(variant, key=code, **chosen)
    return Gathered(
        stack, cases, keys, frozenset(models), costs.means, list(subsets), all_facts(facts.values()), clusters
    )


def all_facts(frames: Iterable[pl.DataFrame]) -> pl.DataFrame:
    """One row per case and model; parts of other explainers may have had the same cases, in pieces of another size."""
    found = list(frames)
    return pl.concat(found, how="diagonal").unique(["model", "case"]).drop_nulls() if found else pl.DataFrame()


def with_columns(rows: pl.DataFrame, wanted: Collection[str]) -> pl.DataFrame:
    """The rows with empty columns for what is wanted and they do not have."""
    return rows.with_columns(pl.lit(None).alias(name) for name in sorted({*wanted} - set(rows.columns)))


class Costs:
    """What explaining cost: sums over cases and the most of each, as numbers, for small frames take much memory."""

    def __init__(self) -> None:
        self.sums: dict[tuple[str, str], dict[str, tuple[float, int, float]]] = {}

    def add(self, part: pl.DataFrame) -> None:
        measured = part.filter(pl.col("metric").is_in(["seconds", "passes", "memory"]))
        value = pl.col("value")
        found = measured.group_by("target", "explainer", "metric").agg(value.sum(), pl.len(), value.max().alias("most"))
        for target, explainer, metric, total, count, most in found.rows():
            sums = self.sums.setdefault((target, explainer), {})
            before, counted, highest = sums.get(metric, (0.0, 0, -math.inf))
            sums[metric] = before + total, counted + count, highest if most is None else max(highest, most)

    @property
    def means(self) -> pl.DataFrame:
        """Seconds and passes per case, and the peak of memory; nothing where it was not measured."""
        rows = [
            {
                "target": target,
                "explainer": explainer,
                **{f"{name}_per_case": per_case(sums.get(name)) for name in ("seconds", "passes")},
                "peak_memory": sums["memory"][2] if "memory" in sums else None,
            }
            for (target, explainer), sums in self.sums.items()
        ]
        numbers = dict.fromkeys(("seconds_per_case", "passes_per_case", "peak_memory"), pl.Float64)
        return pl.DataFrame(rows, schema={"target": pl.String, "explainer": pl.String, **numbers})


def per_case(sums: tuple[float, int, float] | None) -> float | None:
    return None if sums is None else sums[0] / sums[1]
