"""CLEVR-XAI's open question: can a method reach 1.0? How near each comes, and what takes the rest of its relevance.

A score of 1 means that all relevance lies on the object that is asked about. What does not, lies on other objects or
between them; the masks of one object and of all objects tell how much. Which other objects, the heatmaps tell.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from heatproof.benchmarks.clevr_xai import OpenedQuestions, open_kept
from heatproof.benchmarks.kept import KeptRun
from heatproof.clevr.files import Question
from heatproof.clevr.ground_truth import resize_objects, single_object
from heatproof.experiments.poster import COLUMN, require_simple
from heatproof.heatmap_files import Heatmaps
from heatproof.lazy import np, pl
from heatproof.progress import Progress, silent
from heatproof.results.glances import BASELINES
from heatproof.results.run import Results

if TYPE_CHECKING:
    from numpy.typing import NDArray

REACHED = 0.99
"""The least score that counts as a whole one."""
OTHERS = "all_objects"

Thing = Mapping[str, Any]
"""An object of a scene."""


def reach(run: Results) -> pl.DataFrame:
    """A line per method, the highest mean first: questions, mean score, share of questions at or above REACHED.

    `others` and `between` are the mean shares of relevance on other objects, and on none.
    """
    require_simple(run)
    column = vars(COLUMN)
    wanted = (pl.col("metric") == column["metric"]) & (pl.col("pooling") == column["pooling"])
    scores = run.score_rows().where(wanted & pl.col("value").is_not_nan())
    both = scores.pivot(on="ground_truth", index=["explainer", "case"], values="value")
    if OTHERS not in both.columns:  # CLEVR-XAI's release may be downloaded without these masks
        both = both.with_columns(pl.lit(None, dtype=pl.Float64).alias(OTHERS))
    own = pl.col(column["ground_truth"])
    methods = [e["explainer"] for e in run.manifest["explainers"] if e["family"] not in BASELINES]
    return (
        both.filter(pl.col("explainer").is_in(methods) & own.is_not_null())
        .group_by("explainer", maintain_order=True)
        .agg(
            n=pl.len(),
            mean=own.mean(),
            reached=(own >= REACHED).mean(),
            highest=own.max(),
            others=(pl.col(OTHERS) - own).mean(),
            between=(1 - pl.col(OTHERS)).mean(),
        )
        .sort("mean", descending=True)
    )


def groups_of(question: Question) -> dict[str, Callable[[Thing], bool]]:
    """Kinds of other objects of a question's scene, by name.

    A near miss has all values that the question names but one.
    """
    assert question.scene is not None
    (own,) = single_object(question.program, len(question.scene["objects"]))
    target = question.scene["objects"][own]
    named = [node["type"].removeprefix("filter_") for node in question.program if node["type"].startswith("filter_")]
    asked = question.program[-1]["type"].removeprefix("query_")
    return {
        "large": lambda thing: thing["size"] == "large",
        "small": lambda thing: thing["size"] == "small",
        "metal": lambda thing: thing["material"] == "metal",
        "rubber": lambda thing: thing["material"] == "rubber",
        "near miss": lambda thing: sum(thing[name] != target[name] for name in named) == 1,
        "farther off": lambda thing: sum(thing[name] != target[name] for name in named) > 1,
        "gives the same answer": lambda thing: thing[asked] == target[asked],
        "gives another": lambda thing: thing[asked] != target[asked],
    }


def takers(run: KeptRun, dataset: Path | None = None, progress: Progress = silent) -> pl.DataFrame:
    """Of each explainer's relevance on other objects, the share on each kind of them (`taken`), and their share of
    the other objects' pixels (`pixels`): a kind that takes no more than its pixels is nothing special."""
    opened = open_kept(run, dataset, poolings=[COLUMN.pooling])
    totals: dict[str, dict[str, NDArray[Any]]] = {entry["explainer"]: {} for entry in run.entries}
    questions = {question.index: question for question in opened.data.questions("simple")}
    asked = opened.asked["question_index"].to_list()
    for place, index in enumerate(asked):
        progress("which objects take the rest", place, len(asked))
        pixels, kinds = others_of(questions[index], opened.space)
        for entry in run.entries:
            heatmap = relevance_of(run.heatmaps[entry["folder"]], opened, index)
            if heatmap is None:
                continue
            found = totals[entry["explainer"]]
            for name, members in kinds.items():
                shares = pixels[members].sum(0) if members else np.zeros(opened.space)
                found[name] = found.get(name, 0.0) + np.array([(heatmap * shares).sum(), shares.sum()])
    progress("which objects take the rest", len(asked), len(asked))
    return pl.concat([shares_of(explainer, found) for explainer, found in totals.items() if found])


def shares_of(explainer: str, found: Mapping[str, NDArray[Any]]) -> pl.DataFrame:
    """The kinds' shares of all relevance on other objects, and of their pixels."""
    whole = found["large"] + found["small"]
    with np.errstate(invalid="ignore"):
        shares = {name: (amount / whole).tolist() for name, amount in found.items()}
    return pl.DataFrame(
        {
            "explainer": explainer,
            "kind": list(shares),
            "taken": [taken for taken, _ in shares.values()],
            "pixels": [pixels for _, pixels in shares.values()],
        }
    )


def others_of(question: Question, space: Sequence[int]) -> tuple[NDArray[np.float64], dict[str, list[int]]]:
    """Which share of each pixel (objects, *space) is each other object's, and the objects of every kind.

    What the asked object's mask covers is nobody else's; what several others cover is shared.
    """
    assert question.scene is not None
    things = question.scene["objects"]
    height, width = space
    masks = resize_objects(question.dataset.object_ids(question.scene), len(things), height, width)
    (own,) = single_object(question.program, len(things))
    pixels = (masks & ~masks[own]).astype(np.float64)
    pixels /= np.maximum(pixels.sum(0), 1)
    others = [place for place in range(len(things)) if place != own]
    kinds = {name: [k for k in others if belongs(things[k])] for name, belongs in groups_of(question).items()}
    return pixels, kinds


def relevance_of(heatmaps: Heatmaps, opened: OpenedQuestions, index: int) -> NDArray[np.float64] | None:
    """A heatmap under the poster's pooling, its sum 1; None if it has none."""
    heatmap, _ = heatmaps.usable(opened.names[index], opened.space)
    if heatmap is None or not np.isfinite(heatmap).all():
        return None
    pooled: NDArray[np.float64] = (np.maximum(heatmap.astype(np.float64), 0) ** 2).sum(0)
    total = float(pooled.sum())
    return pooled / total if total > 0 else None
