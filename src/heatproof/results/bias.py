"""Which class does the model see in pictures of which other? Found in the scores of a run of Focus.

The paper takes the class of the lowest mean Focus and the partner beside which that is lowest, and shows their mosaics
to an expert: `lowest_pair`. What follows is a test of ours, which says which pairs are low beyond chance.

For a mosaic and another class in it, the pair's share is t / (t + o), with t and o the positive relevance for the
target on a tile of the target and on a tile of the other class. At 0.5 the model sees as much of the target in
pictures of the other class as in its own. A pair is found where the mean share is significantly below that.

Why not the Focus of the mosaics that show the pair: a class that draws relevance to itself lowers the Focus of every
mosaic that it is in, and so of innocent classes beside it. Why below 0.5 and not below the target's other pairs:
classes that look alike differ in that without any bias. `heatproof focus planted-bias` measures both rules beside ours.
"""

from __future__ import annotations

from math import isnan, nan
from typing import Any

from heatproof.errors import HeatproofError, unknown_name
from heatproof.lazy import np, pl
from heatproof.mosaics.published import under_paper_pooling
from heatproof.progress import Progress, silent
from heatproof.results.contest import holm
from heatproof.results.run import Results
from heatproof.results.statistics import mean_interval

BELOW, LEVEL = 0.5, 0.05
LEAST = 5
"""Mosaics that a pair must have for a test."""
MEASURED = ("focus", "other_part", "remaining_part", "share")
PARTS = (0.0, 1.0)
"""Between these lies everything that is measured."""


def chosen_explainer(run: Results, explainer: str) -> dict[str, Any]:
    """The entry of run.json for an explainer, by name, by label (`lrp:composite=focus`) or by folder."""
    require_focus(run)
    entries: list[dict[str, Any]] = run.manifest["explainers"]
    for field in ("folder", "explainer", "name"):
        found = [entry for entry in entries if entry[field] == explainer]
        if len(found) == 1:
            return found[0]
        if found:
            named = ", ".join(entry["folder"] for entry in found)
            raise HeatproofError(f"{run.folder} has several of {explainer}; name one of them: {named}.")
    labels = ", ".join(entry["explainer"] for entry in entries)
    raise HeatproofError(f"{run.folder} has no scores of {explainer}; it has: {labels}.")


def require_focus(run: Results) -> None:
    if run.manifest["configuration"]["benchmark"] != "focus":
        raise HeatproofError(f"{run.folder} is a run of {run.manifest['configuration']['benchmark']}, not of focus.")
    setting = run.manifest["configuration"].get("setting")
    if setting is not None:
        raise HeatproofError(f"{run.folder} has grids of setting {setting}; biases show in mosaics of setting focus.")


def tile_shares(run: Results, entry: dict[str, Any]) -> pl.DataFrame:
    """A row per mosaic of one explainer on the run's first model: facts, and the share of relevance of each tile."""
    run.leaderboard()  # an error where the run was interrupted: some pairs would lack mosaics
    parts = run.files.scores([entry["folder"]])
    if not parts.paths:
        raise HeatproofError(
            f"{run.folder} has no scores of {entry['explainer']} yet: it failed or was interrupted. Run it again."
        )
    scores = parts.where(pl.col("metric").str.starts_with("share_") & (pl.col("model") == first_model(run)))
    facts = [name for name in scores.columns if name.startswith(("label_", "picture_"))]
    return under_paper_pooling(scores).pivot(on="metric", index=["case", "target_class", *facts], values="value")


def first_model(run: Results) -> str:
    """The classifier itself, where its randomised versions were explained too."""
    return str(next(iter(run.manifest["models"])))


def pair_rows(shares: pl.DataFrame) -> pl.DataFrame:
    """A row per mosaic and other class in it: the parts of relevance on target, other and remaining tiles; the share.

    All are NaN where a mosaic has no positive relevance; the share also where there is none on the pair's tiles.
    """
    tiles = range(sum(name.startswith("label_") for name in shares.columns))
    rows: list[dict[str, Any]] = []
    for row in shares.iter_rows(named=True):
        target = row["target_class"]
        values = [(row[f"label_{i}"], row[f"share_{i}"]) for i in tiles]
        mine = [share for label, share in values if label == target]
        for other in sorted({label for label, _ in values} - {target}):
            theirs = [share for label, share in values if label == other]
            t, o = sum(mine) / len(mine), sum(theirs) / len(theirs)
            rest = [share for label, share in values if label not in (target, other)]
            rows.append(
                {"case": row["case"], "target_class": target, "other_class": other, "focus": sum(mine)}
                | {"other_part": sum(theirs), "remaining_part": nan if isnan(t) else sum(rest)}
                | {"share": t / (t + o) if t + o > 0 else nan}
            )
    return pl.DataFrame(rows)


def find_pairs(
    pairs: pl.DataFrame, below: float = BELOW, level: float = LEVEL, seed: int = 0, progress: Progress = silent
) -> pl.DataFrame:
    """Every pair with its means and intervals, lowest share first; `found` where the share is significantly low.

    One-sided tests of mean share < `below`, corrected by Holm's method for the number of pairs tested. Of a pair with
    too few mosaics for a test there is no p.
    """
    for name, value in (("below", below), ("level", level)):
        if not 0 < value < 1:
            raise HeatproofError(f"{name} must lie between 0 and 1, got {value}.")
    lines = []
    groups = pairs.partition_by("target_class", "other_class", as_dict=True)
    for done, ((target, other), group) in enumerate(groups.items(), 1):
        progress("testing pairs", done, len(groups))
        values = group.sort("case").select(MEASURED).to_numpy()
        values = values[~np.isnan(values).any(1)]
        if not len(values):
            continue
        line: dict[str, Any] = {"target_class": target, "other_class": other, "n": len(values)}
        for place, name in enumerate(MEASURED):
            line[name] = values[:, place].mean()
            if name in ("focus", "share"):
                line |= dict(zip((f"{name}_low", f"{name}_high"), bounds(values[:, place], seed), strict=True))
        lines.append(line | {"p": p_below(values[:, -1], below) if len(values) >= LEAST else None})
    if not lines:
        raise HeatproofError("no mosaic has positive relevance, so there is nothing to compare.")
    kinds = {f"{name}_{end}": pl.Float64 for name in ("focus", "share") for end in ("low", "high")}
    table = pl.DataFrame(lines, schema_overrides=kinds, infer_schema_length=None)
    table = table.sort("share", "target_class", "other_class")
    tested = table["p"].is_not_null().to_numpy()
    corrected = np.full(len(table), np.nan)
    corrected[tested] = holm(table["p"].drop_nulls().to_numpy().astype(np.float64))
    return table.with_columns(
        p=pl.col("p").cast(pl.Float64),
        p_corrected=pl.Series(corrected).fill_nan(None),
        found=pl.Series(corrected < level),
    )


def p_below(values: np.ndarray[Any, Any], below: float) -> float:
    """Chance of a mean this low if the true mean is not below `below`; 1 for too few values to tell.

    A t-test with Hall's correction for skewness (1992): without it, few values with a long upper tail are called low
    far too often. Values that are all the same have no spread: then the sign test.
    """
    from scipy.special import stdtr

    n = len(values)
    if n < LEAST:
        return 1.0
    if np.ptp(values) < 1e-9:
        return float(0.5**n) if values[0] < below else 1.0
    skewness = ((values - values.mean()) ** 3).mean() / values.std() ** 3
    distance = (values.mean() - below) / values.std(ddof=1)
    straight = distance + skewness * distance**2 / 3 + skewness**2 * distance**3 / 27 + skewness / (6 * n)
    return float(stdtr(n - 1, n**0.5 * straight))


def class_means(shares: pl.DataFrame, seed: int = 0) -> pl.DataFrame:
    """Mean Focus of each target class with its interval, lowest first."""
    return means_by("target_class", pair_rows(shares).unique("case", maintain_order=True), seed)


def partner_means(pairs: pl.DataFrame, target: str, seed: int = 0) -> pl.DataFrame:
    """Mean Focus of a target's mosaics that show each other class, with its interval, lowest first."""
    return means_by("other_class", pairs.filter(target_class=target), seed)


def means_by(name: str, mosaics: pl.DataFrame, seed: int = 0) -> pl.DataFrame:
    """Mean Focus with its interval of the mosaics that agree in a column, lowest first; what has none is left out."""
    lines = []
    for (value,), group in mosaics.group_by(name, maintain_order=True):
        values = group["focus"].drop_nans().to_numpy()
        if len(values):
            low, high = bounds(values, seed)
            lines.append(
                {name: value, "n": len(values), "focus": float(values.mean()), "focus_low": low, "focus_high": high}
            )
    kinds = {"focus_low": pl.Float64, "focus_high": pl.Float64}
    return pl.DataFrame(lines, schema_overrides=kinds).sort("focus", name)


def bounds(values: np.ndarray[Any, Any], seed: int) -> tuple[float | None, float | None]:
    """The 95 % interval of a mean; of a single mosaic there is none."""
    low, high = (float(end[0]) for end in mean_interval(values[:, None], seed, ends=PARTS))
    return (low, high) if len(values) > 1 else (None, None)


def lowest_pair(
    pairs: pl.DataFrame, classes: pl.DataFrame, target: str | None = None, partner: str | None = None
) -> tuple[str, str]:
    """The class of the lowest mean Focus and, of its mosaics, the other class with which that is lowest.

    This is Section 6 of the paper. Either may be said instead. There is a lowest pair in every network.
    """
    targets = classes["target_class"].to_list()
    known = sorted({*pairs["target_class"], *pairs["other_class"]})
    for name, given in (("target", target), ("partner", partner)):
        if given is not None and given not in known:
            raise unknown_name(f"class for {name}", given, known)
    if target is not None and target not in targets:
        raise HeatproofError(
            f"no mosaic of target {target} has positive relevance, or there is none; targets: {', '.join(targets)}."
        )
    if target is not None and target == partner:
        raise HeatproofError(f"target and partner are both {target}; a partner is another class.")
    target = target or targets[0]
    partners = partner_means(pairs, target)["other_class"].to_list()
    if partner is not None and partner not in partners:
        raise HeatproofError(
            f"no mosaic of target {target} shows {partner} and has positive relevance; beside it are shown:"
            f" {', '.join(partners)}."
        )
    return target, partner or partners[0]


def pair_mosaics(pairs: pl.DataFrame, target: str, partner: str) -> pl.DataFrame:
    """The rows of all mosaics of a pair that have a Focus, lowest Focus first."""
    return pairs.filter(target_class=target, other_class=partner).drop_nans("focus").sort("focus", "case")


def over_all_classes(shares: pl.DataFrame, seed: int = 0) -> dict[str, Any]:
    """Mean Focus of all mosaics, what chance gives, and whether the heatmaps surely beat chance.

    Heatmaps that do not, such as edges, lie on whatever is conspicuous; pairs are then found that are no bias.
    """
    labels = [name for name in shares.columns if name.startswith("label_")]
    mosaics = pair_rows(shares).unique("case", maintain_order=True).select("case", "focus").drop_nans()
    chance = pl.mean_horizontal(pl.col(name) == pl.col("target_class") for name in labels)
    values = mosaics.join(shares.select("case", chance=chance), on="case").select("focus", "chance").to_numpy()
    low, _ = mean_interval(values[:, :1] - values[:, 1:], seed)
    focus, chances = values.mean(0).tolist()
    return {"focus": focus, "chance": chances, "follows_class": bool(low[0] > 0)}


def worst_mosaics(pairs: pl.DataFrame, found: pl.DataFrame, count: int) -> pl.DataFrame:
    """The mosaics of lowest share of each pair in `found`, in its order: the rows of `pairs`, the lowest first."""
    frames = [
        pairs.filter(target_class=target, other_class=other).drop_nans("share").sort("share", "case").head(count)
        for target, other in found.select("target_class", "other_class").iter_rows()
    ]
    return pl.concat(frames) if frames else pairs.clear()
