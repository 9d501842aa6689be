"""Figures of a run for papers and notebooks, with matplotlib: `run.figure("ranks")`.

Colours are those of Okabe and Ito, which people who see few colours tell apart; what matters has its own shape too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from io import BytesIO
from textwrap import fill
from typing import TYPE_CHECKING, Any

from heatproof.errors import HeatproofError, unknown_name
from heatproof.harmless import one_line
from heatproof.lazy import np, pl
from heatproof.report.plots import grouped
from heatproof.results.run import Results
from heatproof.results.verdict import Entrant, Judged
from heatproof.story import MetricWords

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

METHOD, LEADER, FLOOR, CEILING = "#0072B2", "#D55E00", "#8c8c8c", "#009E73"
ROW = 0.3
"""Height of a line of text with its drawing, in inches."""
WIDTH = 7.0
WHISKERS = (5, 95)
LETTERS = 90
"""Of a title, in one line."""
STRONGEST = 0.995
"""The share of a heatmap's values that the colours reach: a few points do not make the others pale."""
SIDE = 1.6
"""Width of a case under one explainer, in inches."""


def figure(run: Results, kind: str, **options: Any) -> Figure:
    """One of the figures, by its name; options are those of the function that draws it."""
    if kind not in FIGURES:
        raise unknown_name("figure", kind, FIGURES)
    try:
        import matplotlib  # noqa: F401
    except ImportError as problem:
        raise HeatproofError("figures need matplotlib: pip install 'heatproof[plot]'.") from problem
    try:
        return FIGURES[kind](run, **options)
    except TypeError as problem:
        if "unexpected keyword" not in str(problem):
            raise
        raise HeatproofError(f"figure {kind!r} has no such option: {problem}.") from problem


def blank(width: float, height: float) -> Figure:
    """A figure that no window knows of, and that shows itself in a notebook."""
    from matplotlib.figure import Figure

    class Shown(Figure):
        def _repr_png_(self) -> bytes:
            file = BytesIO()
            self.savefig(file, format="png", dpi=144)
            return file.getvalue()

    return Shown(figsize=(width, height), layout="constrained")


def contest(
    run: Results,
    *,
    metric: str | None = None,
    target: str | None = None,
    ground_truth: str | None = None,
    pooling: str | None = None,
) -> Judged:
    """The contest of the verdict that is meant; the first where nothing is said."""
    asked = {"metric": metric, "target": target, "ground_truth": ground_truth, "pooling": pooling}
    given = {name: value for name, value in asked.items() if value is not None}
    for judged in run.verdict.contests:
        if all(getattr(judged, name) == value for name, value in given.items()):
            return judged
    for name, value in given.items():
        known = {str(getattr(judged, name)) for judged in run.verdict.contests}
        if value not in known:
            raise unknown_name(f"{name} of the verdict", value, known)
    raise HeatproofError(f"{run.folder} has no contest of {', '.join(f'{k} {v}' for k, v in given.items())} together.")


def distribution(run: Results, judged: Judged) -> Figure:
    """The scores of each explainer over cases: box, median, whiskers from 5 to 95 %, and the mean with its interval.

    Where a case scores 0 or 1 there is nothing between, and only the mean is drawn.
    """
    words = run.story.metric[judged.metric]
    values = case_values(run, judged)
    scores = np.concatenate([*values.values(), np.zeros(0)])
    is_binary = len(np.unique(scores)) <= 2
    entrants = list(judged.entrants)
    made, axes = rows_for(entrants, words, judged)
    for place, entrant in enumerate(entrants):
        colour = colour_of(entrant, entrant in judged.leading)
        shown = values.get((entrant.target, entrant.explainer), np.zeros(0))
        if len(shown) and not is_binary:
            axes.boxplot(
                100 * shown, positions=[place], orientation="horizontal", widths=0.6, whis=WHISKERS, showfliers=False,
                patch_artist=True, manage_ticks=False, boxprops={"facecolor": colour + "40", "edgecolor": colour},
                medianprops={"color": colour, "linewidth": 2}, whiskerprops={"color": colour},
                capprops={"color": colour},
            )  # fmt: skip
        dot(axes, place, entrant.mean, entrant.low, entrant.high, "black" if not is_binary else colour)
    kinds = "means with 95 % intervals" if is_binary else "box, median and mean with its 95 % interval"
    axes.set_xlabel(f"{words.heading} in percent, {judged.cases:,} {run.story.words.cases}\n{kinds}")
    return made


def case_values(run: Results, judged: Judged) -> dict[tuple[str, str], NDArray[np.float64]]:
    """The defined scores by target and explainer."""
    axes = ("metric", "ground_truth", "pooling")
    rows = run.score_rows().where(pl.all_horizontal(pl.col(axis) == getattr(judged, axis) for axis in axes))
    found: dict[tuple[str, str], NDArray[np.float64]] = {}
    for (target, explainer), group in rows.group_by("target", "explainer", maintain_order=True):
        values = group["value"].cast(pl.Float64).fill_null(np.nan).to_numpy()
        found[str(target), str(explainer)] = values[~np.isnan(values)]
    return found


def ranks(run: Results, judged: Judged) -> Figure:
    """The rank of each method with its 95 % interval; bars join those that cannot be told apart."""
    words, methods = run.story.metric[judged.metric], judged.methods
    made, axes = rows_for(methods, words, judged)
    for place, entrant in enumerate(methods):
        colour = colour_of(entrant, entrant in judged.leading)
        low, rank, high = (float(value or 0) for value in (entrant.rank_low, entrant.rank, entrant.rank_high))
        axes.plot([low, high], [place, place], color=colour, linewidth=2)
        axes.plot(rank, place, "o" if entrant in judged.leading else "s", color=colour)
    letters = grouped([entrant.groups for entrant in methods])
    for number, (letter, joined) in enumerate(letters.items()):
        x = len(methods) + 0.8 + 0.35 * number
        for first, last in joined:
            axes.plot([x, x], [first - 0.2, last + 0.2], color="black", linewidth=3, solid_capstyle="butt")
        axes.text(x, joined[-1][1] + 0.45, letter, ha="center", va="center", fontsize=8)
    axes.set_xlim(0.5, len(methods) + 1.2 + 0.35 * len(letters))
    axes.set_xticks(range(1, len(methods) + 1))
    bars = "\na bar joins what cannot be told apart" if letters else ""
    axes.set_xlabel(f"rank by {words.title} with its 95 % interval, {judged.cases:,} {run.story.words.cases}{bars}")
    return made


def pareto(run: Results, judged: Judged) -> Figure:
    """Quality against CPU seconds per case; the line joins methods that no other beats in both."""
    words = run.story.metric[judged.metric]
    priced = [entrant for entrant in judged.methods if entrant.seconds]
    if not priced:
        raise HeatproofError(f"{run.folder} does not know what its explainers cost.")
    made = blank(WIDTH, 4.6)
    axes = made.subplots()
    best = sorted((entrant for entrant in priced if entrant.is_pareto), key=lambda entrant: entrant.seconds or 0.0)
    axes.plot([e.seconds or 0.0 for e in best], [100 * e.mean for e in best], color=LEADER, linewidth=1.2, zorder=1)
    for entrant in priced:
        colour, seconds = LEADER if entrant.is_pareto else METHOD, entrant.seconds or 0.0
        if entrant.low is not None and entrant.high is not None:
            axes.plot([seconds] * 2, [100 * entrant.low, 100 * entrant.high], color=colour, alpha=0.35, zorder=1)
        axes.plot(seconds, 100 * entrant.mean, "o" if entrant.is_pareto else "s", color=colour, zorder=2)
    for family, colour, style in (("floor", FLOOR, "--"), ("ceiling", CEILING, ":")):
        ends = [entrant for entrant in judged.entrants if entrant.family == family]
        if ends:
            axes.axhline(100 * ends[0].mean, color=colour, linestyle=style, zorder=0)
            text = f"{'best floor' if family == 'floor' else 'ceiling'}: {worded(ends[0].short)}"
            axes.annotate(text, (0.01, 100 * ends[0].mean), xycoords=("axes fraction", "data"), xytext=(0, 3),
                          textcoords="offset points", color=colour, fontsize=8)  # fmt: skip
    axes.set_xscale("log")
    axes.margins(x=0.18)
    axes.set_xlabel("CPU seconds per case")
    axes.set_ylabel(f"{words.heading} in percent")
    tidy(made, axes, title_of(judged, words))
    label_apart(made, axes, [(entrant.seconds or 0.0, 100 * entrant.mean, worded(entrant.short)) for entrant in priced])
    return made


def label_apart(made: Figure, axes: Axes, points: Sequence[tuple[float, float, str]]) -> None:
    """Names beside points, each moved up or down until it lies on no other."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    canvas: Any = FigureCanvasAgg(made)
    canvas.draw()
    made.set_layout_engine("none")  # what was measured stays where it is
    taken: list[Any] = []
    for x, y, name in sorted(points, key=lambda point: -point[1]):
        for step in (0, -9, 9, -18, 18, -27, 27, -36, 36):
            said = axes.annotate(name, (x, y), xytext=(6, step - 3), textcoords="offset points", fontsize=8)
            box = said.get_window_extent(canvas.get_renderer())
            if not any(box.overlaps(other) for other in taken) or step == 36:
                taken.append(box)
                break
            said.remove()


def case(
    run: Results, *, case: str | None = None, target: str | None = None, explainers: Sequence[str] | None = None
) -> Figure:
    """A case whose heatmaps are stored, under its explainers: red speaks for the class, blue against it.

    Each heatmap is scaled by itself, white is zero. `explainers` are names or full specifications.
    """
    kept = run.files.examples()
    if not kept:
        raise HeatproofError(f"{run.folder} has no stored cases to draw.")
    ids = [str(name) for name in kept["ids"].tolist()]
    wanted = ids[0] if case is None else case
    if wanted not in ids:
        raise unknown_name("stored case", wanted, ids)
    place = ids.index(wanted)
    inputs = np.asarray(kept["inputs"][place], dtype=np.float64)
    if inputs.ndim not in (2, 3):
        raise HeatproofError(f"cases of {inputs.ndim - 1} dimensions cannot be drawn.")
    truth = next((array[place] for name, array in kept.items() if name.startswith("mask.")), None)
    maps = stored_heatmaps(run, wanted, target, explainers)
    if not maps:
        raise HeatproofError(f"{run.folder} has no stored heatmap of {wanted} by such explainers.")
    is_signal = inputs.ndim == 2
    shown: list[tuple[str, NDArray[Any] | None]] = [("input, and the truth" if truth is not None else "input", None)]
    shown += [(worded(name), heat.sum(0)) for name, heat in maps.items()]
    across = 3 if is_signal else 6
    down = -(-len(shown) // across)
    made = blank(
        min(across, len(shown)) * SIDE * (1.6 if is_signal else 1), down * SIDE * (0.9 if is_signal else 1.2) + 0.4
    )
    grid = made.subplots(down, min(across, len(shown)), squeeze=False).ravel()
    for axes, (name, heat) in zip(grid, shown, strict=False):
        (draw_signal if is_signal else draw_picture)(axes, inputs, heat, truth)
        axes.set_title(name, fontsize=8)
    for axes in grid[len(shown) :]:
        axes.set_axis_off()
    made.suptitle(worded(run.story.examples.get(wanted) or wanted), fontsize=9)
    return made


def stored_heatmaps(
    run: Results, case: str, target: str | None, explainers: Sequence[str] | None
) -> dict[str, NDArray[Any]]:
    """The stored relevance (C, *space) of a case by the explainer's short name, of the first quantity that has any."""
    model = next(iter(run.manifest["models"]))
    found: dict[str, dict[str, NDArray[Any]]] = {}
    for entry in run.manifest["explainers"]:
        if explainers is not None and not {entry["explainer"], entry["short"], entry["name"]} & set(explainers):
            continue
        if target is not None and entry["target"] not in ("", target):
            continue
        heat = run.files.heatmaps(entry["folder"], model).get(case)
        if heat is not None:
            found.setdefault(entry["target"], {})[entry["short"]] = np.asarray(heat, dtype=np.float64)
    quantities = [name for name in found if name]
    return found.get(quantities[0], {}) | found.get("", {}) if quantities else found.get("", {})


def draw_signal(axes: Axes, inputs: NDArray[Any], heat: NDArray[Any] | None, truth: NDArray[Any] | None) -> None:
    """The signal over its heat; without heat, over the true mask."""
    length = inputs.shape[1]
    if heat is not None:
        extent = (-0.5, length - 0.5, float(inputs.min()) - 0.2, float(inputs.max()) + 0.2)
        axes.imshow(heat[None], cmap="RdBu_r", aspect="auto", extent=extent, **centred(heat))
    elif truth is not None:
        for start in np.flatnonzero(truth):
            axes.axvspan(start - 0.5, start + 0.5, color=CEILING, alpha=0.3, linewidth=0)
    for channel in inputs:
        axes.plot(range(length), channel, color="black", linewidth=1)
    axes.set_xlim(-0.5, length - 0.5)
    axes.tick_params(labelsize=6)


def draw_picture(axes: Axes, inputs: NDArray[Any], heat: NDArray[Any] | None, truth: NDArray[Any] | None) -> None:
    """The picture with the outline of the true mask; heat over a pale one."""
    low, high = float(inputs.min()), float(inputs.max())
    picture = np.moveaxis((inputs - low) / max(high - low, 1e-12), 0, -1)
    if heat is None:
        axes.imshow(picture if picture.shape[2] == 3 else picture.mean(2), cmap="gray")
    else:
        axes.imshow(picture.mean(2), cmap="gray", alpha=0.35)
        axes.imshow(heat, cmap="RdBu_r", alpha=0.75, **centred(heat))
    if truth is not None and truth.any() and not truth.all():
        axes.contour(truth, levels=[0.5], colors="black" if heat is not None else CEILING, linewidths=0.8)
    axes.set_axis_off()


def centred(heat: NDArray[Any]) -> dict[str, Any]:
    """Limits of colours that put zero in the middle."""
    sizes = np.abs(heat[np.isfinite(heat)])
    most = float(np.quantile(sizes, STRONGEST)) or float(sizes.max()) if sizes.size else 0.0
    return {"vmin": -(most or 1.0), "vmax": most or 1.0}


def rows_for(entrants: Sequence[Entrant], words: MetricWords, judged: Judged) -> tuple[Figure, Axes]:
    """A figure with a line for each entrant, best on top."""
    made = blank(WIDTH, 1.1 + ROW * len(entrants))
    axes = made.subplots()
    axes.set_yticks(range(len(entrants)), [worded(entrant.short) for entrant in entrants])
    for label, entrant in zip(axes.get_yticklabels(), entrants, strict=True):
        label.set_fontstyle("italic" if entrant.is_baseline else "normal")
    axes.set_ylim(len(entrants) - 0.4, -0.6)
    tidy(made, axes, title_of(judged, words))
    return made, axes


def tidy(made: Figure, axes: Axes, title: str) -> None:
    made.suptitle(fill(title, LETTERS), x=0.01, ha="left", fontsize=10)
    axes.grid(axis="x", color="#dddddd", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)


def title_of(judged: Judged, words: MetricWords) -> str:
    about = [judged.model, *(["explaining the " + judged.target.replace("_", "-")] if judged.target else [])]
    about += [part for part in (judged.ground_truth, judged.pooling) if part]
    return worded(f"{words.title}: {', '.join(about)}")


def dot(axes: Axes, place: int, mean: float, low: float | None, high: float | None, colour: str) -> None:
    """A mean and its interval, in percent."""
    if low is not None and high is not None:
        axes.plot([100 * low, 100 * high], [place, place], color=colour, linewidth=2, zorder=3)
    axes.plot(100 * mean, place, "D", color=colour, markersize=4, zorder=3)


def worded(text: str) -> str:
    """Text from data in a figure: no line breaks, and no formulas, which stand between dollars."""
    return one_line(text).replace("$", r"\$")


def colour_of(entrant: Entrant, leads: bool) -> str:
    if entrant.is_baseline:
        return CEILING if entrant.family == "ceiling" else FLOOR
    return LEADER if leads else METHOD


def of_contest(draw: Callable[[Results, Judged], Figure]) -> Callable[..., Figure]:
    """A figure of the contest that its options name."""
    return lambda run, **options: draw(run, contest(run, **options))


FIGURES: Mapping[str, Callable[..., Figure]] = {
    "distribution": of_contest(distribution),
    "ranks": of_contest(ranks),
    "pareto": of_contest(pareto),
    "case": case,
}
