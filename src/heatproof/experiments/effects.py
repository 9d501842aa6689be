"""Do masks tell the truth? What each object does to the answer, against the objects that the question's mask marks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from heatproof.benchmarks.clevr_removal.benchmark import ClevrRemoval
from heatproof.benchmarks.clevr_removal.effects import Asked
from heatproof.benchmarks.clevr_removal.following import right_answer
from heatproof.benchmarks.clevr_removal.words import thing_in_words
from heatproof.benchmarks.clevr_xai.rows import family, stratum
from heatproof.clevr.answers import in_words
from heatproof.clevr.files import Question
from heatproof.clevr.questions.world import look_at
from heatproof.clevr.scenes import JUDGED_SIZE
from heatproof.errors import HeatproofError
from heatproof.lazy import np, pl
from heatproof.progress import Progress, silent
from heatproof.results.statistics import case_weights, quantiles

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from heatproof.models.vqa import Vqa

RESAMPLES = 1000
HIDING = 0.1
"""An object hides another if so much more of that, as a share, is seen without it."""
FIGURES = {
    "questions": "questions that it marks some but not all objects of",
    "hit": "share of them whose object with the largest effect is marked",
    "support": "share of them whose object that supports the answer most is marked",
    "chance": "the same for an object drawn at random",
    "above": "share of them whose marked objects have, on average, larger effects than the others",
    "each": "share of them in which every marked object has a larger effect than every other",
    "support_above": "the same as above for effects with their sign: the marked ones speak more for the answer",
    "right_above": "the same as above for a reasoner that makes no mistake: an object has effect 1 or 0 (`needed`)",
    "right_each": "the same as each for that reasoner",
    "above_where_right": "share of above among the questions of right_above",
    "each_where_right": "share of each among the questions of right_each",
    "on_marked": "share of all effects that marked objects have",
    "marked": "median effect of marked objects",
    "unmarked": "median effect of unmarked objects",
}


@dataclass(frozen=True, eq=False)
class Truth:
    """What was measured: a row per question and object, and the network that was asked."""

    objects: pl.DataFrame
    network: str
    accuracy: float

    def table(self, seed: int = 0, by: str = "asks") -> pl.DataFrame:
        """For every kind of mask, over all questions and by a column (`asks`, `family`): FIGURES, with 95 % intervals.

        Pictures are drawn anew, not questions: those of one picture hang together.
        """
        found = []
        kinds = [name.removeprefix("in_") for name in self.objects.columns if name.startswith("in_")]
        for kind in kinds:
            for part in ("all", *self.objects[by].unique().sort()):
                rows = self.objects if part == "all" else self.objects.filter(pl.col(by) == part)
                if figures := mask_figures(rows, kind, seed):
                    found.append({"mask": kind, "questions_of": part, **figures})
        return pl.DataFrame(found)

    def failures(self, kind: str) -> pl.DataFrame:
        """The questions whose most effective object this kind of mask does not mark, worst first."""
        rows = judged(self.objects, kind)
        sizes = rows.group_by("question_index", maintain_order=True).agg(
            pl.first("picture", "question", "answer", "predicted"),
            marked=pl.col("object").filter(f"in_{kind}"),
            marked_effect=pl.col("effect").abs().filter(f"in_{kind}").max(),
            unmarked=pl.col("object").sort_by(pl.col("effect").abs() * ~pl.col(f"in_{kind}"), descending=True).first(),
            unmarked_effect=pl.col("effect").abs().filter(~pl.col(f"in_{kind}")).max(),
            uncovers=pl.col(f"uncovers_{kind}")
            .sort_by(pl.col("effect").abs() * ~pl.col(f"in_{kind}"), descending=True)
            .first(),
        )
        worse = sizes.filter(pl.col("unmarked_effect") > pl.col("marked_effect"))
        return worse.sort(pl.col("marked_effect") - pl.col("unmarked_effect"))


def measure_truth(recipe: ClevrRemoval, progress: Progress = silent) -> Truth:
    """Take every object out of every picture, and ask; right and wrong answers count alike."""
    opened = recipe.open(0, progress)
    right = sum(one.is_right(opened.network) for one in opened.measured)
    rows = object_rows(opened.network, opened.measured)
    if rows.is_empty():
        raise HeatproofError("no scene has an object to take out.")
    return Truth(rows, opened.network.name, right / len(opened.measured))


def object_rows(network: Vqa, measured: Sequence[Asked]) -> pl.DataFrame:
    """A row per question and object: its effects, and which masks it is in."""
    rows: list[dict[str, Any]] = []
    hidden: dict[str, NDArray[np.float64]] = {}
    for one in measured:
        picture = str(one.question.record["image_filename"])
        if picture not in hidden:
            assert one.question.scene is not None
            hidden[picture] = uncovered(one.question.scene)
        marked = {kind: objects for kind, objects in one.marked().items() if kind != "all_objects"}
        if not marked:
            raise HeatproofError(
                f"question {one.question.index} has no results in its program, so nobody knows what its masks mark; ask"
                " in the default format (heatproof clevr ask)."
            )
        _, kind, attribute = stratum(one.question)
        for place, effect in enumerate(one.effects["logit"]):
            rows.append(
                {
                    "question_index": one.question.index,
                    "picture": picture,
                    "question": one.question.text,
                    "answer": in_words(one.question.answer),
                    "predicted": network.answers[one.answer],
                    "asks": attribute or kind,
                    "family": family(one.question) or kind,
                    "matters": one.matters("logit"),
                    "place": place,
                    "object": thing_in_words(one, place),
                    "effect": float(effect),
                    "effect_probability": float(one.effects["probability"][place]),
                    "answer_after": network.answers[one.others[place]],
                    "needed": is_needed(one.question, place),
                    **{f"in_{kind}": place in objects for kind, objects in marked.items()},
                    **{
                        f"uncovers_{kind}": float(hidden[picture][place, sorted(objects)].max(initial=0.0))
                        for kind, objects in marked.items()
                    },
                }
            )
    return pl.DataFrame(rows)


def is_needed(question: Question, place: int) -> bool:
    """Whether the question has another right answer without the object, or none."""
    assert question.scene is not None
    world = look_at(question.scene)
    return right_answer(question.program, world.without(place)) != right_answer(question.program, world)


def uncovered(scene: Mapping[str, Any]) -> NDArray[np.float64]:
    """How much more is seen of each object (columns) when another one (rows) is gone, as a share of what was seen."""
    from heatproof.clevr.interventions import changed
    from heatproof.clevr.rendering.checks import check_scene
    from heatproof.clevr.rendering.tracer import seen_objects

    count = len(scene["objects"])

    def seen(one: Mapping[str, Any], objects: int) -> NDArray[np.float64]:
        ids = seen_objects(check_scene(one), *JUDGED_SIZE)
        return np.bincount(ids.ravel(), minlength=objects + 1)[1:].astype(np.float64)

    before = seen(scene, count)
    found = np.zeros((count, count))
    for place in range(count):
        others = [other for other in range(count) if other != place]
        after = seen(changed(scene, place, "remove"), count - 1)
        found[place, others] = (after - before[others]) / np.maximum(before[others], 1)
    return found


def judged(rows: pl.DataFrame, kind: str) -> pl.DataFrame:
    """The rows of questions in which something matters, and of which the mask marks some objects but not all."""
    share = pl.col(f"in_{kind}").mean().over("question_index")
    return rows.filter(pl.col("matters") & (share > 0) & (share < 1))


def mask_figures(rows: pl.DataFrame, kind: str, seed: int) -> dict[str, Any]:
    """FIGURES of one kind of mask, each with `_low` and `_high` where it is measured; empty without questions."""
    chosen = judged(rows, kind).with_columns(size=pl.col("effect").abs(), mask=pl.col(f"in_{kind}"))
    if chosen.is_empty():
        return {}
    needed = pl.col("needed").cast(pl.Float64)
    by_question = chosen.group_by("question_index", maintain_order=True).agg(
        pl.first("picture"),
        hit=pl.col("mask").get(pl.col("size").arg_max()).cast(pl.Float64),
        support=pl.col("mask").get(pl.col("effect").arg_max()).cast(pl.Float64),
        above=above(pl.col("size")),
        each=each_above(pl.col("size")),
        support_above=above(pl.col("effect")),
        right_above=above(needed),
        right_each=each_above(needed),
        chance=pl.col("mask").mean(),
        on_marked=pl.col("size").filter("mask").sum() / pl.col("size").sum(),
    )
    pictures = {name: place for place, name in enumerate(by_question["picture"].unique().sort())}
    weights = case_weights(len(pictures), seed, RESAMPLES)
    found: dict[str, Any] = {"questions": len(by_question), "pictures": len(pictures)}
    owner = by_question["picture"].replace_strict(pictures).to_numpy()
    for name in (
        *("hit", "support", "above", "each", "support_above"),
        "right_above",
        "right_each",
        "chance",
        "on_marked",
    ):
        values = by_question[name].to_numpy()
        drawn = weights[:, owner]
        found |= with_interval(name, float(values.mean()), (drawn * values).sum(1) / drawn.sum(1))
    for name in ("above", "each"):
        found[f"{name}_where_right"] = by_question.filter(pl.col(f"right_{name}") == 1)[name].mean()
    for name, side in (("marked", chosen.filter("mask")), ("unmarked", chosen.filter(~pl.col("mask")))):
        values, owner_of = side["size"].to_numpy(), side["picture"].replace_strict(pictures).to_numpy()
        found |= with_interval(name, float(np.median(values)), weighted_medians(values, weights[:, owner_of]))
    return found


def above(effect: pl.Expr) -> pl.Expr:
    """1 if marked objects have, on average, larger effects than the others, else 0."""
    return (effect.filter("mask").mean() > effect.filter(~pl.col("mask")).mean()).cast(pl.Float64)


def each_above(effect: pl.Expr) -> pl.Expr:
    """1 if every marked object has a larger effect than every other, else 0."""
    return (effect.filter("mask").min() > effect.filter(~pl.col("mask")).max()).cast(pl.Float64)


def with_interval(name: str, value: float, drawn: NDArray[np.float64]) -> Mapping[str, float]:
    low, high = quantiles(np.sort(drawn[np.isfinite(drawn)])[:, None], (0.025, 0.975))
    return {name: value, f"{name}_low": float(low[0]), f"{name}_high": float(high[0])}


def weighted_medians(values: NDArray[np.float64], weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """The median of the values under each row of weights (resamples, values); NaN where none has weight."""
    order = np.argsort(values, kind="stable")
    below = np.cumsum(weights[:, order], axis=1)
    total = below[:, -1:]
    middle = (below >= total / 2).argmax(1)
    return np.where(total[:, 0] > 0, values[order][middle], np.nan)


def write_truth(truth: Truth, path: Path) -> None:
    """The rows as CSV."""
    from heatproof.workspace import write_whole

    write_whole(path, truth.objects.write_csv)
