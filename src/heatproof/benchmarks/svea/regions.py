"""Signals by name, and the ROE test: can a linear SVM name the class from the region of explanation alone? No torch."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from heatproof import mnist1d
from heatproof.executors.threads import each
from heatproof.lazy import np, pl
from heatproof.metrics.understandability import Svm, cut_windows, read_regions, right_readings

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from heatproof.mnist1d import Signals

ROE_LENGTH = 12
CHUNK = 500
DIGITS = 10
CLASSES: tuple[int | str, ...] = tuple(range(DIGITS))
METRICS = ("roe_accuracy", "drop", "increase", "mass_accuracy", "rank_accuracy", "pointing_game")
POOLINGS = ("sum_pos", "sum_abs")
PARTS = ("test", "train")


@dataclass(frozen=True, eq=False)
class Cases:
    """The training and the test signals that are scored, and their places in the data set.

    region     points of a region of explanation
    classes    what the outputs of a network mean, in their order; labels count along it
    noun       what a class is called
    has_masks  whether it is known where the class lies: without, templates are empty
    """

    train: Signals
    test: Signals
    train_places: NDArray[np.int64]
    test_places: NDArray[np.int64]
    region: int = ROE_LENGTH
    classes: tuple[int | str, ...] = CLASSES
    noun: str = "digit"
    has_masks: bool = True

    def part(self, split: str) -> tuple[Signals, NDArray[np.int64]]:
        return (self.test, self.test_places) if split == "test" else (self.train, self.train_places)

    def ids(self, split: str) -> list[str]:
        return [case_name(split, place) for place in self.part(split)[1].tolist()]

    @property
    def counts(self) -> dict[str, int]:
        return {split: len(self.part(split)[0]) for split in PARTS}

    @property
    def fingerprint(self) -> str:
        digest = hashlib.sha256(self.train.x.tobytes() + self.test.x.tobytes())
        if self.classes != CLASSES:  # of signals that are published, classes and templates are known
            for part in (self.train, self.test):
                digest.update(f"{self.classes} {part.x.shape}".encode() + part.y.tobytes() + part.template.tobytes())
        return digest.hexdigest()[:16]

    @property
    def length(self) -> int:
        return int(self.test.x.shape[-1])

    @property
    def channels(self) -> int:
        return int(inputs_of(self.test).shape[1])

    def named(self, labels: Iterable[int]) -> list[int | str]:
        """The classes of these labels."""
        return [self.classes[label] for label in labels]


def inputs_of(part: Signals) -> NDArray[np.float64]:
    """The signals (N, channels, positions)."""
    return part.x if part.x.ndim == 3 else part.x[:, None]


def in_one_row(part: Signals) -> NDArray[np.float64]:
    """The signals (N, channels * positions)."""
    return part.x.reshape(len(part), math.prod(part.x.shape[1:]))


def case_name(split: str, place: int) -> str:
    return f"{split}-{place:04d}"


def first_signals(limit: int | None = None) -> Cases:
    """The published signals, or about `limit` of them, four in five to train the SVM."""
    train, test = mnist1d.published()
    if limit is not None:
        wanted = min(limit, len(train) + len(test))
        tests = math.ceil(wanted / 5)
        train, test = train[: wanted - tests], test[:tests]
    return Cases(train, test, np.arange(len(train)), np.arange(len(test)))


def cases_named(names: Collection[str], every: Cases | None = None) -> Cases:
    """The signals of these names among all or the published ones, in their order; names of none are left out."""
    wanted, every = set(names), every or first_signals()
    found = {}
    for split in PARTS:
        part, known = every.part(split)
        places = np.flatnonzero([name in wanted for name in every.ids(split)])
        found[split] = mnist1d.Signals(part.x[places], part.y[places], part.template[places]), known[places]
    (test, test_places), (train, train_places) = (found[split] for split in PARTS)
    return replace(every, train=train, test=test, train_places=train_places, test_places=test_places)


def roe_rows(cases: Cases, rows: pl.DataFrame, models: Iterable[str], svm: Svm) -> pl.DataFrame:
    """The ROE test of every explainer that has come to its end, and of the raw signals, from where regions start.

    `read` is the label that the SVM reads in a region. A signal without a region (its start is NaN) teaches the SVM
    nothing, and has no score; `uniform` is then what the window in the middle would get.
    """
    ids = {split: cases.ids(split) for split in PARTS}
    known = [name for name in ("split", "label") if name in rows.columns]
    facts = rows.select("case", *known).unique("case")
    groups = [
        (key, dict(zip(group["case"], group["value"], strict=True)))
        for key, group in rows.group_by("model", "explainer", "target", maintain_order=True)
    ]
    whole = [(key, starts) for key, starts in groups if len(starts) == sum(map(len, ids.values()))]

    def readings(starts: Mapping[str, float]) -> NDArray[np.float64] | None:
        (test, there), (train, taught) = (
            regions(cases.part(split)[0], np.array([starts[case] for case in ids[split]]), cases.region)
            for split in PARTS
        )
        read = read_regions(train[taught], cases.train.y[taught], test, svm)
        return None if read is None else np.where(there, read, np.nan)

    blind: NDArray[np.float64] | None = None
    if rows["value"].is_nan().any():
        middle = float((cases.length - cases.region) // 2)
        blind = accuracies(readings({case: middle for part in ids.values() for case in part}), cases.test.y)
    whole_train, whole_test = (in_one_row(part) for part in (cases.train, cases.test))
    raw = read_regions(whole_train, cases.train.y, whole_test, svm)
    found: list[tuple[Any, NDArray[Any] | None]] = [((model, "raw_input", ""), raw) for model in models]
    found += zip([key for key, _ in whole], each(readings, [starts for _, starts in whole]), strict=True)
    return pl.concat(
        pl.DataFrame(
            {
                "case": ids["test"],
                "value": accuracies(read, cases.test.y),
                "read": read_column(read, ids),
                "uniform": pl.Series([None] * len(ids["test"]) if blind is None else blind, dtype=pl.Float64),
            }
        )
        .join(facts, on="case", how="left")
        .with_columns(
            metric=pl.lit("roe_accuracy"),
            ground_truth=pl.lit(""),
            pooling=pl.lit(""),
            model=pl.lit(model),
            explainer=pl.lit(explainer),
            target=pl.lit(target),
        )
        for (model, explainer, target), read in found
    )


def regions(
    part: Signals, starts: NDArray[np.float64], length: int = ROE_LENGTH
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """The points of each region, and whether there is one; where not, those of some other place."""
    there = ~np.isnan(starts)
    return cut_windows(part.x, np.where(there, starts, 0).astype(np.int64), length), there


def accuracies(read: NDArray[Any] | None, labels: NDArray[np.int64]) -> NDArray[np.float64]:
    found = right_readings(read, labels)
    return found if read is None else np.where(np.isnan(read), np.nan, found)


def read_column(read: NDArray[Any] | None, ids: Mapping[str, list[str]]) -> NDArray[np.float64]:
    return np.full(len(ids["test"]), np.nan) if read is None else read.astype(np.float64)
