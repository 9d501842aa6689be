"""CLEVR-XAI without a network: questions and masks, for heatmaps that were made elsewhere. Needs no torch."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from heatproof.benchmarks.base import Ending, OpenedMasks, Reference, metric_words, require_poolings
from heatproof.benchmarks.clevr_xai import rows
from heatproof.benchmarks.clevr_xai.company import Company, find_company
from heatproof.benchmarks.floors import FAMILIES
from heatproof.benchmarks.sample import pictures_kept, stratified
from heatproof.cases import Chunk
from heatproof.clevr.answers import in_words
from heatproof.clevr.files import Dataset, open_dataset
from heatproof.clevr.ground_truth import KINDS
from heatproof.clevr.shipped import folder_named
from heatproof.errors import HeatproofError, unknown_name
from heatproof.heatmap_files import Heatmaps, few
from heatproof.lazy import np, pl
from heatproof.pooling import poolings as every_pooling
from heatproof.progress import Progress, silent
from heatproof.story import Story

if TYPE_CHECKING:
    from numpy.typing import NDArray

CHUNK = 128
READ_AT_ONCE = 1000
MODEL = "elsewhere"


def open_masks(
    heatmaps: Heatmaps,
    dataset: Path,
    questions: str = "simple",
    poolings: Sequence[str] | None = None,
    predictions: Path | None = None,
    progress: Progress = silent,
    said: Mapping[int, Prediction] | None = None,
    seed: int = 0,
) -> OpenedQuestions:
    """The questions that these heatmaps are about; with `predictions`, those of them that are answered right.

    `said` are answers that are known already, and leave no question out. `seed` draws the other questions.
    """
    chosen = tuple(every_pooling) if poolings is None else tuple(poolings)
    require_poolings(chosen)
    if questions not in KINDS:
        raise unknown_name("question set", questions, KINDS)
    data = open_dataset(folder_named(dataset))
    facts = question_table(data, questions)
    known = dict(facts.select("question_index", "answer").rows())
    there = by_question(heatmaps, questions)
    if not set(there) & set(known):
        raise HeatproofError(
            f"none of the {len(there):,} heatmaps is for one of the {questions} questions of {dataset}:"
            f" their questions are {few(sorted(there))}. Is it the right data set, and --questions?"
        )
    left_out = [("Heatmaps for questions that the data set does not have, left out", sorted(set(there) - set(known)))]
    wanted, answers = set(known), dict(said or {})
    if predictions is not None:
        answers = read_predictions(predictions)
        wanted = {k for k in wanted & set(answers) if answers[k].answer == known[k]}
        left_out += [
            ("Predictions for questions that the data set does not have, left out", sorted(set(answers) - set(known))),
            ("Heatmaps of questions without a prediction, left out", sorted(set(there) & set(known) - set(answers))),
        ]
        if not wanted & set(there):
            raise HeatproofError(f"no heatmap is left: {predictions} answers none of their questions right.")
    if answers:
        facts = facts.join(prediction_table(answers), on="question_index", how="left", maintain_order="left")
    asked = facts.filter(pl.col("question_index").is_in(list(wanted & set(there)))).sort("question_index")
    if predictions is not None and 0 < asked["probability"].null_count() < len(asked):
        unsure = asked.filter(pl.col("probability").is_null())["question_index"].to_list()
        left_out.append(("Predictions without a probability, in no part of the questions that asks for it", unsure))
    space = data.mask_size(questions, next(iter(KINDS[questions])))
    kinds = rows.ground_truths(data, questions, space)
    company = find_company(data, questions, kinds, space, seed, asked["question_index"].to_list(), progress)
    left_out.append(("Questions without a heatmap", sorted(wanted - set(there))))
    return OpenedQuestions(
        story=Story(
            title="CLEVR-XAI: heatmaps made elsewhere",
            paper="Arras, Osman and Samek 2022, CLEVR-XAI",
            dataset=dataset.resolve().name,
            metrics=metric_words(rows.shown_metrics(company, kinds)),
            columns=rows.shown_columns(kinds, chosen, company),
            beside=rows.columns_beside(kinds, chosen),
            poolings=chosen,
            words=rows.WORDS,
            examples=examples_of(asked, questions, pictures_kept(*space)),
            facts=rows.FACTS,
            cluster=rows.PICTURE,
        ),
        settings={
            "questions": questions,
            "poolings": list(chosen),
            "ground_truths": kinds,
            "predictions": None if predictions is None else short_hash(predictions.read_bytes()),
            "cases": len(asked),
            "metrics": list(rows.shown_metrics(company, kinds)),
        },
        fingerprint=data.fingerprint(questions, progress=progress),
        models={MODEL: ""},
        counts={questions: len(asked)},
        per_chunk=CHUNK,
        space=space,
        size_hint="; masks of another size: heatproof clevr ground-truth DATASET --size WxH",
        data=data,
        asked=asked,
        names=there,
        kinds=kinds,
        company=company,
        left_out=left_out,
        published=Reference(rows.poster().with_columns(target=pl.lit(""))),
    )


@dataclass(frozen=True, eq=False, kw_only=True)
class OpenedQuestions(OpenedMasks):
    """Questions with masks, and the names of their heatmaps."""

    data: Dataset
    asked: pl.DataFrame
    names: Mapping[int, str]
    kinds: Sequence[str]
    company: Company
    left_out: Sequence[tuple[str, Sequence[int]]]
    published: Reference

    def questions(self, chunk: Chunk) -> pl.DataFrame:
        start = int(chunk.name.rpartition("-")[2])
        return self.asked[start : start + chunk.cases]

    def cases(self, chunk: Chunk) -> list[str]:
        return [self.names[index] for index in self.questions(chunk)["question_index"]]

    def score(self, chunk: Chunk, relevance: NDArray[Any], problems: Sequence[str]) -> pl.DataFrame:
        questions = self.questions(chunk)
        (name,) = self.counts
        index = questions["question_index"].to_list()
        masks = {kind: self.data.masks(name, kind).batch(index) for kind in self.kinds}
        facts = questions.to_dict(as_series=False)
        return rows.score_table(name, facts, relevance, masks, self.settings["poolings"], self.company, problems)

    def shown(self, cases: Sequence[str]) -> dict[str, NDArray[Any]]:
        """The pictures, squashed to the size of the masks; nothing where the data set has scenes only."""
        (name,) = self.counts
        index = [int(case.rpartition("-")[2]) for case in cases]
        files = dict(self.asked.select("question_index", rows.PICTURE).rows())
        try:
            inputs = [self.picture(files[question]) for question in index]
        except HeatproofError:  # masks are enough to score, and the page can do without
            return {}
        masks = {f"mask.{kind}": self.data.masks(name, kind).batch(index) for kind in self.kinds}
        return {"inputs": np.stack(inputs), **masks}

    def picture(self, file: str) -> NDArray[Any]:
        from PIL import Image

        found = self.data.picture(self.data.scenes.get(file) or {"image_filename": file})
        height, width = self.space
        pixels = Image.fromarray(found).resize((width, height), Image.Resampling.BILINEAR)
        return np.asarray(pixels, dtype=np.float32).transpose(2, 0, 1) / np.float32(255)

    @cached_property
    def has_pictures(self) -> bool:
        """Whether the data set has pictures, and not scenes and masks only."""
        try:
            self.picture(self.asked[rows.PICTURE][0])
        except HeatproofError:
            return False
        return True

    def inputs(self, chunk: Chunk) -> NDArray[Any] | None:
        if not self.has_pictures:
            return None
        files = self.questions(chunk)[rows.PICTURE].to_list()
        pictures = {file: self.picture(file) for file in dict.fromkeys(files)}
        return np.stack([pictures[file] for file in files])

    def truth(self, chunk: Chunk) -> NDArray[np.bool_]:
        (name,) = self.counts
        index = self.questions(chunk)["question_index"].to_list()
        return np.asarray(self.data.masks(name, self.kinds[0]).batch(index), dtype=np.bool_)

    def subsets(self) -> Mapping[str, pl.Expr]:
        told = "probability" in self.asked.columns and self.asked["probability"].is_not_null().any()
        return rows.parts_of_questions(next(iter(self.counts)), told, self.settings["poolings"])

    def remembers(self) -> pl.Expr:
        return self.story.columns[0].condition & (pl.col("undefined") != "")

    def end(self, rows_: pl.DataFrame, table: pl.DataFrame) -> Ending:
        (name,) = self.counts
        said = [f"{len(self.asked):,} heatmaps scored against {name} questions."]
        said += [f"{what}: {len(index):,} ({few(index)})." for what, index in self.left_out if index]
        bad = (
            rows_.filter(~pl.col("explainer").is_in(list(FAMILIES)))
            .unique("case", maintain_order=True)
            .select("question_index", "undefined")
            .rows()
        )
        if bad:
            reasons = [f"{index}: {reason}" for index, reason in bad]
            said.append(f"Questions with an undefined score: {len(bad):,} ({few(reasons, '; ')}).")
        return Ending(said)

    def reference(self) -> Reference:
        return self.published

    def beside_poster(self, about: bool) -> OpenedQuestions:
        """The same with explainers of the logit beside the poster, which is `about` their network or another."""
        return replace(self, published=Reference(rows.poster(), is_about_this=about))


def examples_of(asked: pl.DataFrame, questions: str, count: int) -> dict[str, str]:
    """The questions that a page shows, of every kind in turn; question and answer are the title."""
    said = pl.col("predicted") != pl.col("answer") if "predicted" in asked.columns else pl.lit(False)
    columns = asked.select("question_index", said.fill_null(False), "question_type", "attribute", "question", "answer")
    found = {rows.case_name(questions, index): about for index, *about in columns.iter_rows()}
    chosen = stratified({case: tuple(about[:3]) for case, about in found.items()}, count, seed=0)
    return {case: " ".join(found[case][3:]) for case in chosen}


def by_question(heatmaps: Heatmaps, questions: str) -> dict[int, str]:
    """Names by the question index that they are; `7`, `007` and a run's `simple-000007` are the same."""
    found: dict[int, str] = {}
    for name in heatmaps.names:
        kind, _, number = name.rpartition("-")
        if kind in KINDS and kind != questions:
            raise HeatproofError(f"{heatmaps.source} is about {kind} questions: give --questions {kind}.")
        if kind not in ("", questions) or not number.isdecimal():
            raise HeatproofError(f"{heatmaps.source}: heatmaps are called by their question_index, not {name!r}.")
        index = int(number)
        if index in found:
            raise HeatproofError(f"{heatmaps.source} has two heatmaps for question {index}: {found[index]} and {name}.")
        found[index] = name
    return found


@dataclass(frozen=True)
class Prediction:
    """What a network answers, in words, and how sure it is of it."""

    answer: str
    probability: float | None = None


def prediction_table(predictions: Mapping[int, Prediction]) -> pl.DataFrame:
    """Predictions as columns of the questions' table."""
    return pl.DataFrame(
        {
            "question_index": list(predictions),
            "predicted": [one.answer for one in predictions.values()],
            "probability": [one.probability for one in predictions.values()],
        },
        schema_overrides={"probability": pl.Float64},
    )


def read_predictions(path: Path) -> dict[int, Prediction]:
    """Answers by question index, from `[{"question_index": ..., "answer": ..., "probability": ...}]`.

    The probability may be left out, of all of them or of some.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as problem:
        raise HeatproofError(f"{path} cannot be read as predictions ({problem}).") from problem
    if not isinstance(content, list):
        raise HeatproofError(f'{path} must be a list of {{"question_index": ..., "answer": ...}}.')
    answers: dict[int, Prediction] = {}
    for place, entry in enumerate(content):
        if not isinstance(entry, dict) or not isinstance(entry.get("question_index"), int) or "answer" not in entry:
            raise HeatproofError(f"{path}: entry {place} lacks question_index or answer.")
        if entry["question_index"] in answers:
            raise HeatproofError(f"{path}: question {entry['question_index']} is answered twice.")
        probability = entry.get("probability")
        if probability is not None and not is_probability(probability):
            raise HeatproofError(
                f"{path}: the probability of question {entry['question_index']} must be a number between 0 and 1, got"
                f" {probability!r}."
            )
        answers[entry["question_index"]] = Prediction(in_words(entry["answer"]), probability)
    return answers


def is_probability(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 1


def question_table(data: Dataset, name: str) -> pl.DataFrame:
    """What is known of each question, a row each; their programs are not kept, which take most of the memory."""
    frames, questions = [], data.each_question(name)
    while some := list(islice(questions, READ_AT_ONCE)):
        frames.append(pl.DataFrame(rows.question_facts(some)))
    return pl.concat(frames)


def short_hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]
