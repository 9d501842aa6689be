"""A comparison in words, written from its numbers."""

from __future__ import annotations

from collections.abc import Iterator

from heatproof.lazy import pl
from heatproof.results.compare import ALIKE, BETTER, WORSE, Comparison
from heatproof.results.sentences import NAMED, listed


def sentences(found: Comparison) -> Iterator[str]:
    """What has changed since the first run, how surely, and what could not be told."""
    for name in list(found.runs)[1:]:
        tested = found.tested.filter(run=name)
        if tested.is_empty():
            yield f"Nothing of {name} could be compared with {found.first}, so nothing is said of better or worse."
            continue
        yield counted(found, name, tested)
        for said in (WORSE, BETTER):
            yield from named(found, tested.filter(said=said), said)


def counted(found: Comparison, name: str, tested: pl.DataFrame) -> str:
    """How many scores are better, worse, and neither."""
    sums = {said: len(tested.filter(said=said)) for said in (BETTER, WORSE, ALIKE)}
    methods, metrics = (tested[name].n_unique() for name in ("explainer", "metric"))
    of = f"Of {len(tested)} scores" if len(tested) > 1 else "Of the one score"
    parts = [
        f"{count} {'is' if count == 1 else 'are'} {said}" for said, count in sums.items() if count and said != ALIKE
    ]
    if alike := sums[ALIKE]:
        parts.append(f"{alike} cannot be told apart")
    return (
        f"{name} against {found.first}: {of[0].lower()}{of[1:]} ({counting(methods, 'method')},"
        f" {counting(metrics, 'metric')}), {listed(parts, all_of_them=True)}{reach(tested)}."
    )


def reach(tested: pl.DataFrame) -> str:
    """How large the differences may be of what cannot be told apart: how much could have been missed."""
    alike = tested.filter(said=ALIKE)
    if not (alike["difference"] != 0).any() and (alike["superior"] == 0.5).all():
        return " (the same in both)" if len(alike) else ""
    halves = ((alike["difference_high"] - alike["difference_low"]) / 2).drop_nulls()
    if halves.is_empty():
        return ""
    middle = float(halves.median() or 0.0)  # type: ignore[arg-type]
    return f" (their 95 % intervals reach {100 * middle:.1f} points to either side, at the median)"


def named(found: Comparison, lines: pl.DataFrame, said: str) -> Iterator[str]:
    """The scores of which this is said, largest differences first."""
    lines = lines.sort(pl.col("difference").abs(), descending=True)
    words = found.runs[found.first].story.metric
    for line in lines.head(NAMED).iter_rows(named=True):
        explainer = found.short(line["explainer"])
        about = ", ".join(word for word in (line["target"], line["ground_truth"], line["pooling"]) if word)
        span = f"95 % interval {100 * line['difference_low']:+.1f} to {100 * line['difference_high']:+.1f}; "
        yield (
            f"{explainer}{f' ({about})' if about else ''} is {said}: {words[line['metric']].title}"
            f" {100 * line['difference']:+.1f} points ({span}{line['cases']:,} cases, better on"
            f" {100 * line['superior']:.0f} % of them)."
        )
    if len(lines) > NAMED:
        yield f"{len(lines) - NAMED} more scores are {said}."


def counting(count: int, word: str) -> str:
    return f"{count} {word}" if count == 1 else f"{count} {word}s"
