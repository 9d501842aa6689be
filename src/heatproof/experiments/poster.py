"""CLEVR-XAI's poster beside a run: its three columns as it prints them, its claims, and its open question.

The poster is about the authors' network and 39,761 questions. Its numbers are shown with that said, and a claim is
judged on the run's numbers and on the poster's own, because some do not hold there to the letter.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from heatproof.benchmarks.clevr_xai import rows
from heatproof.errors import HeatproofError
from heatproof.lazy import pl
from heatproof.results.run import Results
from heatproof.story import Column

COLUMN = Column("mass_accuracy", "single_object", "pos_l2_norm_sq")
"""What the poster's table shows, in the reading that fits it best."""
PARTS = {"all": "all", f"probability>{rows.CONFIDENT}": f"p > {rows.CONFIDENT}", f"mask>{rows.LARGE}": "> 1000 px"}
"""The poster's columns by the name of the subset."""
TITLES = {
    "lrp": "LRP",
    "excitation_backprop": "Excitation Backprop",
    "integrated_gradients": "Integrated Gradients",
    "guided_backprop": "Guided Backprop",
    "guided_grad_cam": "Guided Grad-CAM",
    "smoothgrad": "SmoothGrad",
    "vargrad": "VarGrad",
    "gradient": "Gradient",
    "gradient_x_input": "Gradient x Input",
    "deconvnet": "Deconvnet",
    "grad_cam": "Grad-CAM",
}
"""The poster's names, in its order."""
NUMBERS = ("n", "mean", "std", "median", "ci_low", "ci_high")
OF_THE_GRADIENT = ("gradient", "gradient_x_input", "smoothgrad", "vargrad")

Stats = Mapping[str, Mapping[str, Any]]
"""Numbers of each method of a column."""


def poster_table(run: Results) -> pl.DataFrame:
    """A line per method of the poster's names and column of the poster: our numbers, and the poster's behind them.

    Of several readings of a method, the first of the run counts.
    """
    require_simple(run)
    names = {entry["explainer"]: entry["name"] for entry in run.manifest["explainers"]}
    table = run.leaderboard().filter(COLUMN.condition & pl.col("subset").is_in(list(PARTS)) & (pl.col("n") > 0))
    table = table.with_columns(method=pl.col("explainer").replace_strict(names, default=""))
    table = table.filter(pl.col("method").is_in(list(TITLES)))
    first = table.group_by("method", maintain_order=True).agg(pl.col("explainer").first())
    table = table.join(first, on=["method", "explainer"], maintain_order="left")
    if table.is_empty():
        raise HeatproofError(
            f"{run.folder} has no mass accuracy of any of the poster's methods against single_object under"
            f" {COLUMN.pooling}; run clevr-xai with its own explainers and poolings."
        )
    published = rows.poster().rename({"explainer": "method", "reference": "poster_mean"})
    published = published.rename({"reference_std": "poster_std", "reference_median": "poster_median"})
    published = published.select("method", "subset", "poster_mean", "poster_std", "poster_median")
    ours = table.select("method", "explainer", "subset", *NUMBERS)
    order = {name: place for place, name in enumerate(TITLES)}
    parts = {name: place for place, name in enumerate(PARTS)}
    found = ours.join(published, on=["method", "subset"], how="left")
    return found.sort(pl.col("method").replace_strict(order), pl.col("subset").replace_strict(parts))


def require_simple(run: Results) -> None:
    benchmark = run.manifest["configuration"]["benchmark"]
    if benchmark != "clevr-xai":
        raise HeatproofError(f"{run.folder} is a run of {benchmark}; the poster is about clevr-xai.")
    if run.manifest["configuration"]["questions"] != "simple":
        raise HeatproofError(f"{run.folder} asks complex questions; the poster's table is about simple ones.")


def as_printed(mean: float | None, std: float | None, median: float | None) -> str:
    """Mean, standard deviation and median as the poster prints them."""
    if mean is None:
        return "–"
    return f"{mean:.2f} ({std:.2f}) {median:.2f}"


@dataclass(frozen=True)
class Claim:
    """What the poster says, and what becomes of it on the run's numbers and on the poster's own."""

    text: str
    here: str
    there: str


def claims(table: pl.DataFrame) -> list[Claim]:
    """The poster's claims, judged; `table` is `poster_table`'s."""
    ours, theirs = stats(table, ""), stats(table, "poster_")
    judges: Mapping[str, Callable[[Mapping[str, Stats]], str]] = {
        "LRP and Integrated Gradients have the highest means": best,
        "LRP has the lowest variance": steadiest,
        "Deconvnet and Grad-CAM have the lowest means": worst,
        "Methods of the gradient have the highest variance": unsteadiest,
        "Accuracy rises with the network's confidence": lambda found: gains(found, list(PARTS)[1]),
        "Accuracy rises with the object's size": lambda found: gains(found, list(PARTS)[2]),
        "No method reaches 1.0": highest,
    }
    return [Claim(text, judge(ours), judge(theirs)) for text, judge in judges.items()]


def stats(table: pl.DataFrame, prefix: str) -> dict[str, dict[str, dict[str, Any]]]:
    """Ours or the poster's numbers, by subset and method."""
    found: dict[str, dict[str, dict[str, Any]]] = {name: {} for name in PARTS}
    for row in table.iter_rows(named=True):
        numbers = {name: row.get(prefix + name) for name in NUMBERS}
        if numbers["mean"] is not None:
            found[row["subset"]][row["method"]] = numbers
    return found


def by(found: Stats, number: str) -> list[str]:
    """Methods with the highest of a number first."""
    return sorted(found, key=lambda name: -float(found[name][number]))


def listed(found: Stats, names: Sequence[str], number: str) -> str:
    return ", ".join(f"{TITLES[name]} {found[name][number]:.2f}" for name in names)


def verdict(holds: bool, why: str) -> str:
    return f"{'holds' if holds else 'does not hold'}: {why}"


def missing(found: Stats, names: Sequence[str]) -> str:
    """Why a claim about these methods cannot be judged; empty if it can."""
    absent = [TITLES[name] for name in names if name not in found]
    return f"cannot be judged without {' and '.join(absent)}" if absent else ""


def best(found: Mapping[str, Stats]) -> str:
    whole = found["all"]
    first = by(whole, "mean")[:2]
    said = missing(whole, ("lrp", "integrated_gradients"))
    return said or verdict(set(first) == {"lrp", "integrated_gradients"}, listed(whole, by(whole, "mean")[:3], "mean"))


def worst(found: Mapping[str, Stats]) -> str:
    whole = found["all"]
    last = by(whole, "mean")[-2:]
    said = missing(whole, ("deconvnet", "grad_cam"))
    return said or verdict(set(last) == {"deconvnet", "grad_cam"}, listed(whole, by(whole, "mean")[-3:], "mean"))


def steadiest(found: Mapping[str, Stats]) -> str:
    """Of all methods, and of the better half of them: a method that always fails does not vary either."""
    whole = found["all"]
    if said := missing(whole, ("lrp",)):
        return said
    better = by(whole, "mean")[: (len(whole) + 1) // 2]
    steady = [by({name: whole[name] for name in group}, "std")[-1] for group in (whole, better)]
    told = (
        f"standard deviation of LRP {whole['lrp']['std']:.2f}; lowest of all {len(whole)}"
        f" {listed(whole, steady[:1], 'std')}, of the better {len(better)} {listed(whole, steady[1:], 'std')}"
    )
    if steady[1] == "lrp" != steady[0]:
        return f"holds for the better half of the methods only: {told}"
    return verdict(steady[0] == "lrp", told)


def unsteadiest(found: Mapping[str, Stats]) -> str:
    whole = found["all"]
    there = [name for name in OF_THE_GRADIENT if name in whole]
    if len(there) < len(OF_THE_GRADIENT):
        return missing(whole, OF_THE_GRADIENT)
    first = by(whole, "std")[: len(there)]
    return verdict(set(first) == set(there), listed(whole, first, "std"))


def gains(found: Mapping[str, Stats], part: str) -> str:
    """How many methods have a higher mean in a part of the questions; surely: beyond the part's 95 % interval."""
    whole, some = found["all"], found[part]
    both = [name for name in whole if name in some]
    if not both:
        return "cannot be judged: the run has no such questions"
    if is_single(some):
        return "cannot be judged: the run has one such question"
    rise = [name for name in both if some[name]["mean"] > whole[name]["mean"]]
    fall = [name for name in both if some[name]["mean"] < whole[name]["mean"]]
    told = f"rises for {len(rise)} of {len(both)} methods"
    if some[both[0]]["ci_low"] is not None:
        up = [name for name in rise if some[name]["ci_low"] > whole[name]["mean"]]
        down = [name for name in fall if some[name]["ci_high"] < whole[name]["mean"]]
        told += f" ({len(up)} beyond the interval), falls for {len(fall)} ({len(down)})"
        told += f"; at most {max(some[name]['n'] for name in both)} questions"
    if "lrp" in both:
        told += f"; LRP {whole['lrp']['mean']:.2f} to {some['lrp']['mean']:.2f}"
    if len(rise) < len(both) and 2 * len(rise) > len(both):
        return f"holds for most: {told}"
    return verdict(len(rise) == len(both), told)


def is_single(part: Stats) -> bool:
    """Whether a part of a run has one question only: that says nothing of questions. The poster's have no number."""
    return max((numbers["n"] or 2 for numbers in part.values()), default=2) == 1


def highest(found: Mapping[str, Stats]) -> str:
    parts = [part for part in found.values() if not is_single(part)]
    every = [(numbers["mean"], name) for part in parts for name, numbers in part.items()]
    if not every:
        return "cannot be judged: the run has one question"
    mean, name = max(every)
    return verdict(round(mean, 2) < 1, f"the highest mean of any part is {mean:.2f}, of {TITLES[name]}")
