"""Below the class: which pictures, and which groups of pictures, draw relevance for a class that is not theirs?

A picture's draw is the part of the relevance for the target that lies on it, averaged over the mosaics that it is in.
Pictures differ in that by nature, as dogs differ in how much they look like cats. So two things are named: groups that
a simple fact sets apart (two means along it) and that draw surely more than a quarter more than the others of their
class; and single pictures that lie beyond what the spread within their class gives. Pictures are the units of every
test, not mosaics: what one picture does in several mosaics is one observation of it. Where all pictures are in equally
many mosaics, that is the test of a mixed model with a random effect for each picture. Both are corrected to a false
discovery rate over all that was tested (Benjamini and Hochberg 1995).

Where a whole class draws more than the target itself (`find_pairs`), nobody stands out in it, and no part of it is a
group: then the class is the group, and its pictures are named that draw more than the target's own do.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from heatproof.lazy import np, pl
from heatproof.results.bias_features import Look, look_at, telling_fact

if TYPE_CHECKING:
    from numpy.typing import NDArray

RATE = 0.05
"""False discovery rate."""
MORE = 1.25
"""A group must draw surely more than this many times what the rest of its class draws."""
LEAST_PICTURES, LEAST_GROUP = 10, 4
"""Pictures of a class that a test takes, and of each part of a split."""
POWER = 0.8
SMALL = 0.01
"""Added to draws before logarithms, so that nothing is infinitely little."""
WHOLE, OUTLIER = "the whole class", "beyond the spread of its class"
"""What pictures are named for where it is no fact."""
PAIR = ("target_class", "other_class")


@dataclass(frozen=True, eq=False)
class Drawn:
    """What was found.

    pictures  a row per target and picture of another class, those that draw most first; `named`, and `why`
    groups    a row per pair and fact that splits its pictures; `found` where the group surely draws more
    whole     a row per pair whose whole class draws more than the target does, with the fact that tells the two apart
    visible   by pair, how many times the rest a group of half the pictures must draw to be found four times of five
    looks     by pair with named pictures, how these lie in the network's own features
    unseen    why there are no looks
    """

    pictures: pl.DataFrame
    groups: pl.DataFrame
    whole: pl.DataFrame
    visible: Mapping[tuple[str, str], float]
    looks: Mapping[tuple[str, str], Look] = field(default_factory=dict)
    unseen: str = ""


def tile_draws(shares: pl.DataFrame) -> pl.DataFrame:
    """A row per mosaic and tile that is not of the target: the picture on it, and what it draws. NaN is left out."""
    tiles = sum(name.startswith("picture_") for name in shares.columns)
    frames = [
        shares.select(
            "case",
            "target_class",
            pl.col(f"label_{i}").alias("other_class"),
            pl.col(f"picture_{i}").alias("picture"),
            pl.lit(i).alias("tile"),
            pl.col(f"share_{i}").alias("draw"),
        )
        for i in range(tiles)
    ]
    found = pl.concat(frames)
    return found.filter((pl.col("other_class") != pl.col("target_class")) & pl.col("draw").is_not_nan())


def picture_draws(tiles: pl.DataFrame) -> pl.DataFrame:
    """The mean draw of each picture for each target, its 95 % interval, and in how many mosaics; the highest first.

    Intervals are from the spread within pictures, over all of a pair, because one picture is in few mosaics.
    """
    from scipy.special import stdtrit

    means = tiles.group_by(*PAIR, "picture").agg(
        mosaics=pl.len(), draw=pl.col("draw").mean(), squares=((pl.col("draw") - pl.col("draw").mean()) ** 2).sum()
    )
    parts = []
    for _, group in means.group_by(*PAIR, maintain_order=True):
        freedom = int(group["mosaics"].sum()) - len(group)
        wide = float("nan")
        if freedom:
            wide = float(stdtrit(freedom, 0.975)) * (float(group["squares"].sum()) / freedom) ** 0.5
        half = wide / pl.col("mosaics").sqrt()
        parts.append(group.with_columns(draw_low=pl.col("draw") - half, draw_high=pl.col("draw") + half))
    found = pl.concat(parts) if parts else means.with_columns(draw_low=pl.col("draw"), draw_high=pl.col("draw"))
    return found.drop("squares").sort("draw", "picture", descending=[True, False])


def find_pictures_that_draw(
    shares: pl.DataFrame,
    facts: Mapping[str, Mapping[str, float]],
    rate: float = RATE,
    low_pairs: Collection[tuple[str, str]] = (),
) -> Drawn:
    """Pictures and groups that surely draw more, from the shares of tiles and the facts of pictures, by its name.

    `low_pairs` are those whose whole class draws surely more than the target does.
    """
    pictures = picture_draws(tile_draws(shares))
    groups = split_groups(pictures, facts, rate)
    pictures = with_outliers(pictures, rate)
    members: dict[tuple[str, str, str], str] = {}
    for row in groups.filter("found").iter_rows(named=True):
        for picture in row["members"]:
            members.setdefault((row["target_class"], row["other_class"], picture), row["fact"])
    split = set(groups.filter("found").select(PAIR).rows())
    whole = whole_classes(pictures, own_draws(shares), facts, [pair for pair in low_pairs if pair not in split])
    limits = {(row["target_class"], row["other_class"]): row["rest_draw"] for row in whole.iter_rows(named=True)}
    usual = {key: float(group["draw"].mean()) for key, group in by_pair(pictures)}  # type: ignore[arg-type]
    why = []
    for row in pictures.iter_rows(named=True):
        pair = (row["target_class"], row["other_class"])
        fact = members.get((*pair, row["picture"]))
        if fact is not None and row["draw"] > usual[pair]:
            why.append(fact)
        elif row["draw"] > limits.get(pair, np.inf):
            why.append(WHOLE)
        else:
            why.append(OUTLIER if row["outlier"] else "")
    visible = {key: visible_ratio(group["draw"].to_numpy(), rate) for key, group in by_pair(pictures)}
    said = pl.Series(why, dtype=pl.Utf8)
    return Drawn(pictures.with_columns(named=said != "", why=said), groups, whole, visible)


def with_looks(drawn: Drawn, features: Mapping[str, NDArray[Any]]) -> Drawn:
    """The same with how named pictures lie in the network's own features, which are by picture.

    Where a whole class is named there is nobody to set its pictures apart from.
    """
    whole = set(drawn.whole.select(PAIR).rows())
    looks = {
        pair: look_at(np.stack([features[file] for file in group["picture"]]), group["named"].to_numpy())
        for pair, group in by_pair(drawn.pictures)
        if pair not in whole and group["named"].any() and len(group) >= LEAST_PICTURES
    }
    return replace(drawn, looks=looks)


def own_draws(shares: pl.DataFrame) -> dict[str, tuple[float, list[str]]]:
    """By target: what one of its own pictures draws in the mean, and which these are."""
    tiles = sum(name.startswith("picture_") for name in shares.columns)
    own = pl.concat(
        [
            shares.filter(pl.col(f"label_{i}") == pl.col("target_class")).select(
                "target_class", picture=pl.col(f"picture_{i}"), draw=pl.col(f"share_{i}")
            )
            for i in range(tiles)
        ]
    ).drop_nans("draw")
    return {
        str(target): (float(group["draw"].mean()), sorted(set(group["picture"])))  # type: ignore[arg-type]
        for (target,), group in own.group_by("target_class", maintain_order=True)
    }


def whole_classes(
    pictures: pl.DataFrame,
    own: Mapping[str, tuple[float, list[str]]],
    facts: Mapping[str, Mapping[str, float]],
    low_pairs: Collection[tuple[str, str]],
) -> pl.DataFrame:
    """A row per pair: what its class draws a picture, what the target does, and what tells their pictures apart."""
    rows = []
    for (target, other), group in by_pair(pictures):
        if (target, other) not in low_pairs or target not in own:
            continue
        mine, files = own[target]
        known = [file for file in files if file in facts]
        fact, apart = telling_fact(facts, group["picture"].to_list(), known) if known else ("", 0.5)
        rows.append(
            {"target_class": target, "other_class": other, "pictures": len(group)}
            | {"draw": float(group["draw"].mean()), "rest_draw": mine, "fact": fact, "apart": apart}  # type: ignore[arg-type]
        )
    return pl.DataFrame(rows, schema=WHOLE_SCHEMA)


def by_pair(pictures: pl.DataFrame) -> list[tuple[tuple[str, str], pl.DataFrame]]:
    return [((str(a), str(b)), group) for (a, b), group in pictures.group_by(*PAIR, maintain_order=True)]


def split_groups(pictures: pl.DataFrame, facts: Mapping[str, Mapping[str, float]], rate: float = RATE) -> pl.DataFrame:
    """Each fact's split of the pictures of each pair: the part that draws more, against the rest; surest first."""
    rows: list[dict[str, Any]] = []
    for (target, other), group in by_pair(pictures):
        files, draws = group["picture"].to_list(), group["draw"].to_numpy()
        if len(files) < LEAST_PICTURES:
            continue
        for fact in facts[files[0]]:
            values = np.array([facts[file][fact] for file in files])
            limit = two_means(values)
            if limit is None:
                continue
            high = values > limit
            group_is_high = bool(draws[high].mean() > draws[~high].mean())
            mine = high if group_is_high else ~high
            rows.append(
                {"target_class": target, "other_class": other, "fact": f"{'high' if group_is_high else 'low'} {fact}"}
                | {"pictures": int(mine.sum()), "rest": int((~mine).sum())}
                | {"draw": float(draws[mine].mean()), "rest_draw": float(draws[~mine].mean()), "limit": limit}
                | {
                    "p": p_more(draws[mine], draws[~mine]),
                    "members": [f for f, m in zip(files, mine, strict=True) if m],
                }
            )
    if not rows:
        return pl.DataFrame(schema={**GROUP_SCHEMA, "p_corrected": pl.Float64, "found": pl.Boolean})
    table = pl.DataFrame(rows, schema=GROUP_SCHEMA)
    corrected = benjamini_hochberg(table["p"].to_numpy())
    return table.with_columns(p_corrected=pl.Series(corrected), found=pl.Series(corrected < rate)).sort("p", "fact")


GROUP_SCHEMA: dict[str, Any] = {
    "target_class": str,
    "other_class": str,
    "fact": str,
    "pictures": int,
    "rest": int,
    "draw": float,
    "rest_draw": float,
    "limit": float,
    "p": float,
    "members": list[str],
}


WHOLE_SCHEMA: dict[str, Any] = {
    "target_class": str,
    "other_class": str,
    "pictures": int,
    "draw": float,
    "rest_draw": float,
    "fact": str,
    "apart": float,
}


def two_means(values: NDArray[np.float64]) -> float | None:
    """The limit between two groups along a line that leaves the least squares within them; None where there is none.

    Each group has LEAST_GROUP members at least.
    """
    ordered = np.sort(values)
    best, limit = np.inf, None
    for count in range(LEAST_GROUP, len(ordered) - LEAST_GROUP + 1):
        if ordered[count] - ordered[count - 1] < 1e-12:
            continue
        within = float(ordered[:count].var() * count + ordered[count:].var() * (len(ordered) - count))
        if within < best:
            best, limit = within, float((ordered[count] + ordered[count - 1]) / 2)
    return limit


def p_more(group: NDArray[np.float64], rest: NDArray[np.float64]) -> float:
    """Chance of means this far apart if the group draws at most MORE times the rest: Welch's test, for either side.

    Of logarithms, because what pictures draw by nature spreads in proportion to it.
    """
    from scipy.special import stdtr

    group, rest = np.log(group + SMALL), np.log(rest + SMALL)
    a, b = group.var(ddof=1) / len(group), rest.var(ddof=1) / len(rest)
    gap = group.mean() - rest.mean() - np.log(MORE)
    if a + b <= 0:
        return 0.0 if gap > 0 else 1.0
    freedom = (a + b) ** 2 / (a**2 / (len(group) - 1) + b**2 / (len(rest) - 1))
    return min(1.0, 2 * float(stdtr(freedom, -gap / np.sqrt(a + b))))  # either part could have been the group


def with_outliers(pictures: pl.DataFrame, rate: float = RATE) -> pl.DataFrame:
    """Which pictures draw more than the spread of their class gives: logarithms, by median and its deviation.

    Compared with Student's t, whose tails are wide where few pictures tell the spread.
    """
    from scipy.special import stdtr

    parts, p = [], []
    for _, group in by_pair(pictures):
        parts.append(group)
        logs = np.log(group["draw"].to_numpy() + SMALL)
        spread = 1.4826 * float(np.median(np.abs(logs - np.median(logs))))
        enough = len(group) >= LEAST_PICTURES and spread > 0
        p.append(stdtr(len(group) - 1, -(logs - np.median(logs)) / spread) if enough else np.ones(len(group)))
    every = pl.concat(parts)
    corrected = benjamini_hochberg(np.concatenate(p))
    return every.with_columns(p_outlier=pl.Series(corrected), outlier=pl.Series(corrected < rate)).sort(
        "draw", "picture", descending=[True, False]
    )


def visible_ratio(draws: NDArray[np.float64], rate: float = RATE) -> float:
    """How many times the rest a group of half these pictures must draw to be found four times of five, if alone."""
    from scipy.special import ndtri

    if len(draws) < LEAST_PICTURES:
        return float("inf")
    noise = float(np.log(draws + SMALL).std(ddof=1)) * np.sqrt(2 / (len(draws) // 2))
    return float(MORE * np.exp((ndtri(1 - rate / 2) + ndtri(POWER)) * noise))


def benjamini_hochberg(p_values: NDArray[Any]) -> NDArray[np.float64]:
    """The k-th smallest of m times m / k, never above a later one: those below q have a false discovery rate of q."""
    if not len(p_values):
        return np.zeros(0)
    order = np.argsort(p_values)
    steps = p_values[order] * len(p_values) / np.arange(1, len(p_values) + 1)
    found = np.empty(len(p_values))
    found[order] = np.minimum(1.0, np.minimum.accumulate(steps[::-1])[::-1])
    return found
