"""What CLEVR-XAI knows of a question and makes of its scores: facts, score rows, parts of the questions; no torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from heatproof.benchmarks.clevr_xai.company import Company
from heatproof.benchmarks.clevr_xai.further import EVERYTHING, FURTHER, Asked, further_rows
from heatproof.benchmarks.clevr_xai.further import OBJECTS as OBJECTS_ASKED
from heatproof.benchmarks.references import read_reference
from heatproof.clevr.answers import in_words
from heatproof.clevr.files import Dataset, Question
from heatproof.clevr.ground_truth import KINDS
from heatproof.clevr.mask_files import kinds_there
from heatproof.clevr.question_types import (
    ANSWER_TYPES,
    ATTRIBUTES,
    FAMILIES,
    TYPES,
    answer_type,
    attribute,
    question_type,
)
from heatproof.errors import HeatproofError
from heatproof.harmless import decodable
from heatproof.lazy import np, pl
from heatproof.metrics.heatmap_scores import REASONS, score_heatmaps
from heatproof.metrics.mask_scores import SIGNED, score_signed
from heatproof.metrics.uniform import uniform_column
from heatproof.story import Column, Fact, Words

if TYPE_CHECKING:
    from numpy.typing import NDArray

SCORES = ("mass_accuracy", "rank_accuracy")
"""The paper's, which are made for every pooling."""
METRICS = (*SCORES, *FURTHER, *SIGNED)
BY_RANK = ("rank_accuracy", "rank_selectivity")
SHOWN_POOLINGS = {metric: "max_norm" if metric in BY_RANK else "pos_l2_norm_sq" for metric in METRICS}
"""What the tables show first; that of mass is the reading of the poster that fits it best."""
SHOWN = ("mass_accuracy", "rank_accuracy", "mass_selectivity", "object_top_n", "object_selectivity", "off_objects")
"""The columns of the table; leaderboard.csv has the others too."""
IN_PARTS = (*SCORES, "mass_selectivity", "object_top_n")
"""The metrics that have lines for parts of the questions."""
CONFIDENT, LARGE = 0.99999, 1000
"""The poster's two parts of the questions: predicted probability and pixels of the mask above these."""
OBJECTS = range(3, 11)
MANY = 6
"""From so many objects in the truth on, questions stand together."""
WORDS = Words(cases="questions", truth="the objects that decide the answer", as_published="logit")
FACTS = (
    Fact("answer", "true answer"),
    Fact("predicted", "the network answers"),
    Fact("correct", "the network is", filters=True, words=("right", "wrong")),
    Fact("probability", "its probability"),
    Fact("question_type", "kind of question", filters=True),
    Fact("family", "family", filters=True),
    Fact("attribute", "asks for", filters=True),
    Fact("objects", "objects in the picture", filters=True),
)
PICTURE = "picture"
"""The fact that questions hang together by."""


def question_facts(questions: Sequence[Question]) -> dict[str, list[Any]]:
    """Plain columns about questions, without those that a network's answer decides."""
    return {
        "question_index": [question.index for question in questions],
        PICTURE: [str(question.record["image_filename"]) for question in questions],
        "question": [decodable(question.text) for question in questions],
        "question_type": [question_type(question.program) for question in questions],
        "attribute": [attribute(question.program) for question in questions],
        "family": [family(question) for question in questions],
        "answer_type": [answer_type(question.program) for question in questions],
        "answer": [in_words(question.answer) for question in questions],
        "objects": [len(question.scene["objects"]) if question.scene else 0 for question in questions],
    }


def family(question: Question) -> str:
    """The family of templates that a complex question was made from; empty where that is not told."""
    name = decodable(str(question.record.get("template_filename") or "")).removesuffix(".json")
    return name if question.set == "complex" else ""


def spread(questions: Sequence[Question], limit: int | None) -> Sequence[Question]:
    """So many questions in their order, as few of each picture as that takes: those of one picture hang together."""
    if limit is None or limit >= len(questions):
        return questions
    asked: dict[str, int] = {}
    turns = []
    for place, question in enumerate(questions):
        picture = str(question.record["image_filename"])
        asked[picture] = asked.get(picture, 0) + 1
        turns.append((asked[picture], place))
    return [questions[place] for place in sorted(place for _, place in sorted(turns)[:limit])]


def repeated(questions: Sequence[Question]) -> int:
    """How many of them ask the same of the same picture as another."""
    return len(questions) - len({(question.record["image_filename"], question.text) for question in questions})


def stratum(question: Question, said: str | None = None) -> tuple[bool, str, str]:
    """What kind of question it is, and before that whether the network's answer, if it is known, is wrong."""
    wrong = said is not None and said != in_words(question.answer)
    return wrong, question_type(question.program), attribute(question.program)


def ground_truths(dataset: Dataset, name: str, size: tuple[int, int]) -> list[str]:
    """The kinds of masks that the data set has for these questions, once they are seen to have the right size."""
    if name not in KINDS:
        raise HeatproofError(f"CLEVR-XAI asks simple or complex questions, not {name!r}; choose with --questions.")
    found: list[str] = []
    for kind in KINDS[name]:
        if found and kind not in kinds_there(dataset.folder, name):
            continue  # CLEVR-XAI may be downloaded without some of its kinds, but the first must be there
        shape = dataset.mask_size(name, kind)
        if shape != size:
            raise HeatproofError(
                f"the {kind} masks of {dataset.folder} are {shape[1]}x{shape[0]}, the heatmaps {size[1]}x{size[0]}."
                f" Make masks of that size: heatproof clevr ground-truth {dataset.folder} --size {size[1]}x{size[0]}"
                " (move the folder ground_truth away before)."
            )
        found.append(kind)
    return found


def score_table(
    name: str,
    facts: Mapping[str, Sequence[Any]],
    relevance: NDArray[Any],
    masks: Mapping[str, NDArray[np.bool_]],
    poolings: Sequence[str],
    company: Company,
    problems: Sequence[str] | None = None,
) -> pl.DataFrame:
    """All scores as rows, with the facts of each question, its mask's size and why a score is undefined.

    `name` is that of the question set. `problems` says per case what was wrong with a heatmap that could not be used;
    empty for good ones.
    """
    index = [int(one) for one in facts["question_index"]]
    ids = [case_name(name, one) for one in index]
    scores = score_heatmaps(relevance, masks, poolings)
    known = pl.DataFrame({"case": ids, **{fact: list(column) for fact, column in facts.items()}})
    counts = {kind: company.counts(kind, index) for kind in masks}
    frames = []
    for m, kind in enumerate(scores.ground_truths):
        covered = masks[kind].reshape(len(ids), -1)
        sizes = covered.sum(1)
        uniform = {metric: uniform_column(metric, covered.mean(1)) for metric in SCORES}
        for p, pooling in enumerate(scores.poolings):
            reasons = [REASONS[code] for code in scores.state[p, m]]
            if problems is not None:
                reasons = [problem or reason for problem, reason in zip(problems, reasons, strict=True)]
            for metric, values in zip(SCORES, (scores.mass, scores.rank), strict=True):
                frames.append(
                    known.with_columns(
                        metric=pl.lit(metric),
                        ground_truth=pl.lit(kind),
                        pooling=pl.lit(pooling),
                        value=pl.Series(values[p, m]),
                        uniform=uniform[metric],
                        mask_size=pl.Series(sizes),
                        truth_objects=pl.Series(counts[kind], dtype=pl.Int64),
                        undefined=pl.Series(reasons),
                    )
                )
        frames += signed_rows(known, kind, relevance, masks[kind], counts[kind], problems)
    shown = {metric: shown_pooling(metric, poolings) for metric in FURTHER}
    asked = Asked(name, index, known, masks, counts)
    frames += further_rows(asked, relevance, company, shown, problems)
    # polars tells NaN, a number, from null, no number; scores that are undefined are NaN throughout
    return pl.concat(frames, how="diagonal")


def signed_rows(
    known: pl.DataFrame,
    kind: str,
    relevance: NDArray[Any],
    mask: NDArray[np.bool_],
    counts: Sequence[Any],
    problems: Sequence[str] | None,
) -> list[pl.DataFrame]:
    """Rows of the scores that look at signs, for one ground truth; they have no pooling."""
    covered = mask.reshape(len(mask), -1)
    signed = score_signed(relevance, mask.astype(np.uint8))
    frames = []
    for metric in SIGNED:
        reasons = [REASONS[code] for code in signed.state[metric]]
        if problems is not None:
            reasons = [problem or reason for problem, reason in zip(problems, reasons, strict=True)]
        frames.append(
            known.with_columns(
                metric=pl.lit(metric),
                ground_truth=pl.lit(kind),
                pooling=pl.lit(""),
                value=pl.Series(signed.values[metric]),
                uniform=uniform_column(metric, covered.mean(1)),
                mask_size=pl.Series(covered.sum(1)),
                truth_objects=pl.Series(counts, dtype=pl.Int64),
                undefined=pl.Series(reasons, dtype=pl.String),
            )
        )
    return frames


def parts_of_questions(name: str, probabilities: bool, poolings: Sequence[str]) -> dict[str, pl.Expr]:
    """The parts that get lines of their own, as conditions on score rows.

    Complex questions have so many parts and truths that only the scores under the pooling that is shown have lines.
    """
    parts: dict[str, pl.Expr] = {}
    if probabilities:
        parts[f"probability>{CONFIDENT}"] = pl.col("probability") > CONFIDENT
    parts[f"mask>{LARGE}"] = pl.col("mask_size") > LARGE
    if name == "complex":
        parts |= {f"type:{kind}": pl.col("question_type") == kind for kind in TYPES}
        parts |= {f"family:{word}": pl.col("family") == word for word in FAMILIES}
        parts |= {f"answer:{word}": pl.col("answer_type") == word for word in ANSWER_TYPES}
        parts |= {f"truth objects:{count}": pl.col("truth_objects") == count for count in range(1, MANY)}
        parts[f"truth objects:{MANY}+"] = pl.col("truth_objects") >= MANY
    else:
        parts |= {f"attribute:{word}": pl.col("attribute") == word for word in ATTRIBUTES}
    parts |= {f"objects:{count}": pl.col("objects") == count for count in OBJECTS}
    has_lines = pl.col("metric").is_in(IN_PARTS)
    if name == "complex":
        shown = {metric: shown_pooling(metric, poolings) for metric in IN_PARTS}
        has_lines = pl.any_horizontal(
            (pl.col("metric") == metric) & (pl.col("pooling") == pooling) for metric, pooling in shown.items()
        )
    return {part: condition & has_lines for part, condition in parts.items()}


def shown_pooling(metric: str, poolings: Sequence[str]) -> str:
    """What a metric is shown under: the run's first, if its own is left out."""
    return SHOWN_POOLINGS[metric] if SHOWN_POOLINGS[metric] in poolings else poolings[0]


def shown_columns(kinds: Sequence[str], poolings: Sequence[str], company: Company) -> tuple[Column, ...]:
    """The columns of the table: each metric with its pooling, against the first of the ground truths."""
    truth = {"off_objects": EVERYTHING}
    return tuple(
        Column(metric, truth.get(metric, kinds[0]), shown_pooling(metric, poolings))
        for metric in shown_metrics(company, kinds)
        if metric in SHOWN
    )


def columns_beside(kinds: Sequence[str], poolings: Sequence[str]) -> tuple[Column, ...]:
    """Further columns of mass accuracy where there are several truths to choose from: one for each of the others."""
    metric = SCORES[0]
    return tuple(
        Column(metric, kind, shown_pooling(metric, poolings)) for kind in kinds[1:] if len(kinds) > len(SCORES)
    )


def shown_metrics(company: Company, kinds: Sequence[str]) -> tuple[str, ...]:
    """The metrics that this data set allows."""
    absent = {*(() if company.has_objects else OBJECTS_ASKED), *(() if EVERYTHING in kinds else ("off_objects",))}
    return tuple(metric for metric in METRICS if metric not in absent)


def order_note(table: pl.DataFrame, column: Column) -> list[str]:
    """How the order of the methods agrees with the published one, if three or more of them have a published number.

    Of several readings of a method, the first of the run counts.
    """
    published = pl.coalesce("reference", "reference_elsewhere")
    lines = table.filter(column.condition & (pl.col("subset") == "all")).with_columns(published=published)
    lines = lines.filter(pl.col("published").is_not_null() & pl.col("mean").is_not_null())
    lines = lines.with_columns(name=pl.col("explainer").str.split(":").list.first()).unique(
        "name", keep="first", maintain_order=True
    )
    if len(lines) < 3:
        return []
    correlation = lines.select(pl.corr("mean", "published", method="spearman")).item()
    return [f"Spearman correlation with the poster's order of these {len(lines)} methods: {correlation:.2f}."]


def is_undefined(column: Column) -> pl.Expr:
    """Whether a row of this column has no score although there is a mask."""
    return column.condition & pl.col("value").is_nan() & (pl.col("undefined") != REASONS[1])


def undefined_notes(rows: pl.DataFrame) -> list[str]:
    """Which explainers have cases without a score, how many, and why, from the rows that are undefined."""
    if rows.is_empty():
        return []
    counted = rows.group_by("explainer", "undefined", maintain_order=True).len()
    return [
        f"{explainer}: {count} of the questions have no score, because {reason}; its means are over the others."
        for explainer, reason, count in counted.rows()
    ]


def case_name(questions: str, index: int) -> str:
    return f"{questions}-{index:06d}"


def poster() -> pl.DataFrame:
    """The poster's table: mass accuracy on simple questions. It does not name its pooling; see docs/clevr-xai.md."""
    return read_reference("clevr_xai")
