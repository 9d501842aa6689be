"""SVEA without a network: signals and templates, for heatmaps that were made elsewhere. Needs no torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from heatproof.arrays import write_arrays
from heatproof.benchmarks.base import Ending, OpenedMasks, Reference, metric_words, require_poolings
from heatproof.benchmarks.references import read_reference
from heatproof.benchmarks.sample import SIGNALS
from heatproof.benchmarks.svea import regions
from heatproof.benchmarks.svea.examples import FACTS, WORDS, caption, examples_of, marks_of
from heatproof.benchmarks.svea.outputs import Outputs, read_outputs
from heatproof.benchmarks.svea.regions import (
    CHUNK,
    METRICS,
    POOLINGS,
    ROE_LENGTH,
    Cases,
    case_name,
    cases_named,
    first_signals,
)
from heatproof.benchmarks.svea.words import performance
from heatproof.cases import Chunk
from heatproof.errors import HeatproofError, unknown_name
from heatproof.heatmap_files import Heatmaps, archive_of, few, open_ordered
from heatproof.lazy import np, pl
from heatproof.metrics.fidelity import drops, increases
from heatproof.metrics.heatmap_scores import REASONS, points, pooled, score_heatmaps
from heatproof.metrics.understandability import WindowRule, starts_around
from heatproof.metrics.uniform import uniform_column
from heatproof.story import Story

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from heatproof.mnist1d import Signals

MODEL = "elsewhere"
NOT_FINITE = REASONS[2]
CHANCE = 0.2
"""Below this accuracy, predictions are hardly those of a network that learnt."""


def open_signal_maps(path: Path) -> Heatmaps:
    """Heatmaps of the published signals, by name or in their order: training signals first."""
    every = first_signals()
    train, test = every.train, every.test
    heatmaps = open_ordered(path, {split: every.ids(split) for split in ("train", "test")}, (test.x.shape[1],))
    check_labels(path, {"train": train.y, "test": test.y, "": np.concatenate([train.y, test.y])})
    return heatmaps


def check_labels(path: Path, labels: Mapping[str, NDArray[np.int64]]) -> None:
    """Digits that a .npz gives beside its heatmaps (labels, or train_labels and test_labels) must be the data set's."""
    if path.suffix != ".npz" or not path.is_file():
        return
    archive = archive_of(path)
    for part, known in labels.items():
        name = f"{part}_labels" if part else "labels"
        if name in archive.files and not np.array_equal(archive[name], known):
            raise HeatproofError(
                f"{path}: {name} are not the digits of the data set in its order, so its heatmaps are in another order"
                " too; see heatproof.mnist1d.published()."
            )


def cases_of(heatmaps: Heatmaps) -> tuple[Cases, list[tuple[str, list[str]]]]:
    """The signals that have a heatmap; which have none, and which heatmaps are for no signal."""
    there = set(heatmaps.names)
    cases, known = cases_named(there), first_signals()
    for split, count in cases.counts.items():
        if not count:
            raise HeatproofError(
                f"{heatmaps.source} has no heatmap for any {split} signal, called like {case_name(split, 0)}; the ROE"
                f" test needs both parts. Its heatmaps: {few(sorted(there))}."
            )
    names = [*known.ids("train"), *known.ids("test")]
    return cases, [
        ("Signals without a heatmap, left out", [name for name in names if name not in there]),
        ("Heatmaps for no signal, left out", sorted(there - set(names))),
    ]


def open_signals(
    heatmaps: Heatmaps,
    *,
    poolings: Sequence[str] | None = None,
    predictions: Path | None = None,
    masked_outputs: Path | None = None,
    window: WindowRule = "clipped",
) -> OpenedSignals:
    """The signals that these heatmaps are about, and what the network that was explained says of them.

    Without its outputs on the masked signals there is no Drop and no Increase.
    """
    chosen = POOLINGS if poolings is None else tuple(poolings)
    require_poolings(chosen)
    if window not in get_args(WindowRule):
        raise unknown_name("window rule", window, get_args(WindowRule))
    cases, left_out = cases_of(heatmaps)
    outputs = None if predictions is None else read_outputs(predictions, "predictions", cases)
    masked = None
    if masked_outputs is not None:
        masked = read_outputs(masked_outputs, "masked outputs", cases)
        if outputs is None:
            raise HeatproofError(
                "Drop and Increase compare with the whole signals: give the network's probabilities for these with"
                " --predictions."
            )
        for found, path in ((outputs, predictions), (masked, masked_outputs)):
            if not found.has_probabilities:
                raise HeatproofError(f"{path} holds classes; Drop and Increase need the probabilities (N, 10).")
    scored = METRICS if masked is not None else tuple(m for m in METRICS if m not in ("drop", "increase"))
    seen = None if outputs is None else outputs.predicted["test"]
    names, digits = cases.ids("test"), cases.test.y
    shown = examples_of(names, digits, seen, seed=0)[:SIGNALS]
    read = digits if seen is None else seen
    known = dict(zip(names, zip(digits.tolist(), read.tolist(), strict=True), strict=True))
    return OpenedSignals(
        story=Story(
            title="SVEA: heatmaps made elsewhere",
            paper="Sattarzadeh et al. 2021, SVEA",
            dataset="mnist1d",
            metrics=metric_words(scored),
            poolings=chosen,
            words=WORDS,
            examples={case: f"digit {known[case][0]}" for case in shown},
            captions={case: said for case in shown if seen is not None and (said := caption(*known[case]))},
            facts=FACTS,
            sections=() if outputs is None else (performance({MODEL: outputs.predicted["test"]}, cases.test.y),),
        ),
        settings={
            "window": window,
            "roe_length": ROE_LENGTH,
            "poolings": list(chosen),
            "predictions": None if outputs is None else outputs.stamp,
            "masked_outputs": None if masked is None else masked.stamp,
            "cases": cases.counts,
        },
        fingerprint=cases.fingerprint,
        models={MODEL: ""},
        counts=cases.counts,
        per_chunk=CHUNK,
        space=(cases.test.x.shape[1],),
        signals=cases,
        left_out=left_out,
        outputs=outputs,
        masked=masked,
    )


@dataclass(frozen=True, eq=False, kw_only=True)
class OpenedSignals(OpenedMasks):
    """Signals with templates, and what the explained network says of them where that is given."""

    of_these_maps = ("drop", "increase")

    signals: Cases
    left_out: Sequence[tuple[str, Sequence[str]]]
    outputs: Outputs | None
    masked: Outputs | None

    def rows_of(self, chunk: Chunk) -> tuple[str, slice]:
        split, start = chunk.name.split("-")
        return split, slice(int(start), int(start) + chunk.cases)

    def cases(self, chunk: Chunk) -> list[str]:
        split, rows = self.rows_of(chunk)
        return self.signals.ids(split)[rows]

    def score(self, chunk: Chunk, relevance: NDArray[Any], problems: Sequence[str]) -> pl.DataFrame:
        split, rows = self.rows_of(chunk)
        part = self.signals.part(split)[0][rows]
        finite = np.isfinite(relevance).all((1, 2))
        reasons = [p or ("" if ok else NOT_FINITE) for p, ok in zip(problems, finite, strict=True)]
        facts = self.facts(chunk, part)
        found = [("roe_start", "", "", region_starts(relevance, self.settings["window"]), reasons)]
        if split == "test":
            found += [*self.fidelity(rows, finite, reasons), *self.localisation(part, relevance, reasons)]
        shares = part.template.mean(1)
        return pl.concat(
            facts.with_columns(
                metric=pl.lit(metric),
                ground_truth=pl.lit(truth),
                pooling=pl.lit(pooling),
                value=pl.Series(values),
                uniform=uniform_column(metric, shares),
                undefined=pl.Series(why),
            )
            for metric, truth, pooling, values, why in found
        )

    def truth(self, chunk: Chunk) -> NDArray[np.bool_]:
        split, rows = self.rows_of(chunk)
        return self.signals.part(split)[0][rows].template

    def inputs(self, chunk: Chunk) -> NDArray[np.float64]:
        split, rows = self.rows_of(chunk)
        return self.signals.part(split)[0][rows].x[:, None]

    def facts(self, chunk: Chunk, part: Signals) -> pl.DataFrame:
        split, rows = self.rows_of(chunk)
        known: dict[str, Any] = {
            "case": self.cases(chunk),
            "split": [split] * len(part),
            "label": part.y.tolist(),
            "mask_size": part.template.sum(1).tolist(),
        }
        if self.outputs is not None and (predicted := self.outputs.predicted.get(split)) is not None:
            known |= {"predicted": predicted[rows].tolist(), "correct": (predicted[rows] == part.y).tolist()}
            if self.outputs.has_probabilities:
                known["probability"] = self.outputs.probabilities[split][rows].max(1).tolist()
        return pl.DataFrame(known)

    def fidelity(self, rows: slice, finite: NDArray[np.bool_], reasons: list[str]) -> list[Any]:
        """Drop and Increase of test signals, for the digit that the network sees in the whole signal."""
        if self.outputs is None or self.masked is None:
            return []
        seen = self.outputs.predicted["test"][rows, None]
        full, kept = (
            np.take_along_axis(outputs.probabilities["test"][rows], seen, axis=1)[:, 0]
            for outputs in (self.outputs, self.masked)
        )
        kept = np.where(finite, kept, np.nan)
        return [("drop", "", "", drops(full, kept), reasons), ("increase", "", "", increases(full, kept), reasons)]

    def localisation(self, part: Signals, relevance: NDArray[Any], reasons: list[str]) -> list[Any]:
        """The scores against the template, under each pooling."""
        found = []
        for pooling in self.settings["poolings"]:
            scores = score_heatmaps(relevance, {"template": part.template}, [pooling])
            why = [reason or REASONS[code] for reason, code in zip(reasons, scores.state[0, 0], strict=True)]
            pointing = points(pooled(relevance, pooling), part.template)
            for metric, values in (
                ("mass_accuracy", scores.mass[0, 0]),
                ("rank_accuracy", scores.rank[0, 0]),
                ("pointing_game", pointing),
            ):
                found.append((metric, "template", pooling, values, why))
        return found

    def shown(self, cases: Sequence[str]) -> dict[str, NDArray[Any]]:
        names = self.signals.ids("test")
        places = [names.index(case) for case in cases]
        test = self.signals.test
        return {"inputs": test.x[places, None].astype(np.float32), "mask.template": test.template[places]}

    def remembers(self) -> pl.Expr:
        return pl.col("metric") == "roe_start"

    def load_libraries(self) -> None:
        import sklearn.svm  # noqa: F401

    def summarise(self, rows: pl.DataFrame) -> pl.DataFrame:
        return regions.roe_rows(self.signals, rows, self.models, "liblinear")

    def end(self, rows: pl.DataFrame, table: pl.DataFrame) -> Ending:
        counts = self.signals.counts
        said = [f"Heatmaps of {counts['train']:,} training and {counts['test']:,} test signals scored."]
        said += [f"{what}: {len(names):,} ({few(names)})." for what, names in self.left_out if names]
        bad = rows.filter(pl.col("value").is_nan()).select("case", "undefined").rows()
        if bad:
            reasons = few([f"{case}: {reason}" for case, reason in bad], "; ")
            said.append(
                f"Signals whose heatmap cannot be used: {len(bad):,} ({reasons}). They have no region: those to train"
                " with are left out, those to test have no score."
            )
        return Ending(said + self.about_outputs())

    def conclude(self, rows: pl.DataFrame, summary: pl.DataFrame, table: pl.DataFrame) -> Ending:
        """The same, and the regions of the examples."""
        there = rows.filter(pl.col("value").is_not_nan())
        return Ending(
            self.end(rows, table).notes, marks_of(there, summary, MODEL, list(self.story.examples), self.signals)
        )

    def about_outputs(self) -> list[str]:
        if self.outputs is None:
            return ["Without the network's outputs on masked signals there is no Drop and no Increase."]
        right = float((self.outputs.predicted["test"] == self.signals.test.y).mean())
        said = [f"The predictions name {right:.1%} of the test digits right."]
        if right < CHANCE:
            said.append("That is hardly more than chance: are they, and the heatmaps, in the order of the data set?")
        return said

    def reference(self) -> Reference:
        """Table 1 of the paper, which is about the probability."""
        return Reference(read_reference("svea").with_columns(target=pl.lit("")))


def region_starts(relevance: NDArray[Any], window: WindowRule) -> NDArray[np.float64]:
    """Where the region of each heatmap (B, C, positions) begins; NaN for one that is not finite."""
    summed = relevance.sum(1)
    starts = starts_around(summed.argmax(1), summed.shape[1], ROE_LENGTH, window)
    return np.where(np.isfinite(relevance).all((1, 2)), starts, np.nan)


def masked_inputs(path: Path, out: Path, window: WindowRule = "clipped") -> tuple[int, list[str]]:
    """Write the test signals with zeros outside the region of explanation, to ask a network about.

    An .npz with `test` (N, 40), `case` and `starts`. Returns how many, and what was wrong with heatmaps that have no
    region; of these the whole signal is zero.
    """
    opened = open_signals(heatmaps := open_signal_maps(path), window=window)
    cases = opened.signals
    problems: list[str] = []
    starts = np.full(len(cases.test), np.nan)
    for place, name in enumerate(cases.ids("test")):
        heatmap, problem = heatmaps.usable(name, opened.space)
        if heatmap is not None:
            (starts[place],) = region_starts(heatmap[None], window)
            problem = NOT_FINITE if np.isnan(starts[place]) else ""
        problems += [f"{name}: {problem}"] if problem else []
    offset = np.arange(opened.space[0]) - starts[:, None]
    kept = np.where((offset >= 0) & (offset < ROE_LENGTH), cases.test.x, 0.0)
    write_arrays(out, {"test": kept, "case": np.asarray(cases.ids("test")), "starts": starts})
    return len(kept), problems
