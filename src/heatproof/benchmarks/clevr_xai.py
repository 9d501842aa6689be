"""CLEVR-XAI (Arras, Osman and Samek 2022): questions about pictures whose answer rests on known objects.

A network answers a question about a rendered scene. The question's program says which objects the answer rests on, so
the pixels that matter are known: GT Single Object (what a simple question asks about) and GT All Objects; for complex
questions Unique, Unique First-non-empty and Union. Each heatmap is pooled over colours in ten ways, and scored by
relevance mass accuracy and relevance rank accuracy. Only correctly answered questions enter, by default.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, get_args

from heatproof.benchmarks import clevr_xai_rows as rows
from heatproof.benchmarks.base import Benchmark, register_benchmark
from heatproof.cases import Batch
from heatproof.clevr.answers import in_words
from heatproof.clevr.files import Question, open_dataset
from heatproof.clevr.shipped import shipped_dataset
from heatproof.downloads import downloads, fetched
from heatproof.engine.parts import ScoreRows
from heatproof.engine.plan import Chunk
from heatproof.errors import HeatproofError, require_whole, unknown_name
from heatproof.explainers.base import Explainer, untouched
from heatproof.lazy import np, pl, torch
from heatproof.loading import load_object
from heatproof.pooling import poolings
from heatproof.progress import Progress, silent
from heatproof.workspace import workspace, write_whole

if TYPE_CHECKING:
    from heatproof.models.vqa import Vqa

QuestionSet = Literal["simple", "complex"]
RELEASED = {"simple": 39_761, "complex": 100_000}
"""How many questions CLEVR-XAI's release has."""
METHODS: tuple[str, ...] = (
    "lrp:composite=relation_network,low=0.0,high=1.0",
    "excitation_backprop",
    "integrated_gradients:steps=20,baseline=0.463/0.460/0.453",
    "guided_backprop",
    "guided_grad_cam",
    "smoothgrad:samples=20,sigma=0.05",
    "vargrad:samples=20,sigma=0.05",
    "gradient",
    "gradient_x_input",
    "deconvnet",
    "grad_cam",
    "constant",
    "random",
    "centre",
    "edges",
    "oracle",
)
"""The poster's eleven in the plainest reading (docs/clevr-xai.md), four floors and the ceiling."""
CAMS = ("grad_cam", "guided_grad_cam")
EYE_OF_SHIPPED = "eye.relu6"
"""Where CAMs read the network that ships: the last layer before the question comes in, as in the poster's network."""
CHUNK = 32
EXAMPLES = 6


@register_benchmark("clevr-xai")
@dataclass(kw_only=True, eq=False)
class ClevrXai(Benchmark):
    """The CLEVR-XAI benchmark.

    dataset       folder of a data set with pictures, questions and masks: ours or CLEVR-XAI's release; by default the
                  small one that ships with Heatproof
    questions     simple or complex
    weights       the Relation Network's public checkpoint: its file, or `relation-network` once it is fetched
    model         another network: a `heatproof.models.vqa.Vqa`, or `file.py:factory` that makes one; without weights
                  and model, the network for simple questions that ships with Heatproof
    limit         use only the first so many questions
    correct_only  leave out the questions that the network answers wrongly
    poolings      the poolings to score; default all ten
    as_released   as many questions as CLEVR-XAI's release has; its data set must be given, except for a rehearsal
    """

    title = "CLEVR-XAI: questions about pictures, with the objects that decide them"
    paper = (
        "Arras, Osman and Samek 2022, CLEVR-XAI: A benchmark dataset for the ground truth evaluation of neural network"
        " explanations"
    )
    metrics = rows.METRICS
    case_settings = ("dataset",)
    default_explainers = METHODS
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "quick": {"limit": 40},
        "standard": {"limit": 400},
        "paper": {"as_released": True},
    }
    batch_size = 4
    quantities = ("logit",)

    dataset: str = ""
    questions: QuestionSet = "simple"
    weights: Path | str | None = None
    model: Any = field(default=None, repr=False)
    limit: int | None = None
    correct_only: bool = True
    poolings: Sequence[str] = tuple(poolings)
    as_released: bool = False

    def __post_init__(self) -> None:
        if self.limit is not None:
            require_whole("limit", self.limit, 1)
        if self.questions not in get_args(QuestionSet):
            raise unknown_name("question set", self.questions, get_args(QuestionSet))
        if not self.poolings:
            raise HeatproofError("poolings is empty; name at least one (heatproof list poolings).")
        for name in self.poolings:
            poolings[name]
        self.is_imagined = self.as_released and not self.dataset
        if self.questions == "complex" and self.weights is None and self.model is None and not self.is_imagined:
            raise HeatproofError(
                "the network that ships answers simple questions only; for complex ones give another: --weights FILE"
                " with the Relation Network's public checkpoint, or --model file.py:factory."
            )
        self.folder = Path(self.dataset) if self.dataset else shipped_dataset()
        self.dataset = self.folder.resolve().name
        truth = {"simple": "single_object", "complex": "unique"}[self.questions]
        layer = f":layer={EYE_OF_SHIPPED}" if self.weights is None and self.model is None else ""
        named = (name + layer if name in CAMS else name for name in METHODS[:-1])
        self.default_explainers = (*named, f"oracle:mask={truth}")

    def prepare(self, progress: Progress = silent) -> None:
        if self.is_imagined:
            raise HeatproofError(
                "preset paper asks the questions of CLEVR-XAI's release, which does not ship with Heatproof: give its"
                " folder with --dataset DIR, or see with --dry-run what it would cost."
            )
        self.open(progress)
        self.predictions = predict(self.network, self.asked, self.data.fingerprint(self.questions), progress)
        right = [
            place
            for place, question in enumerate(self.asked)
            if self.network.answers[self.predictions.answer[place]] == in_words(question.answer)
        ]
        self.accuracy = len(right) / len(self.asked)
        self.chosen = right if self.correct_only else list(range(len(self.asked)))
        if not self.chosen:
            raise HeatproofError(f"the network answers none of the {len(self.asked)} {self.questions} questions right.")

    def rehearse(self, progress: Progress = silent) -> None:
        """All questions count as answered right, and only the first chunk is really asked."""
        wanted = min(RELEASED[self.questions], self.limit or RELEASED[self.questions]) if self.is_imagined else None
        if self.is_imagined:
            self.questions = "simple"  # which ship; a pass costs the same whatever is asked
        self.open(progress)
        first = predict(self.network, self.asked[:CHUNK], None, progress)
        repeat = -(-len(self.asked) // len(first.answer))
        self.predictions = Predictions(
            np.tile(first.answer, repeat)[: len(self.asked)], np.tile(first.probability, repeat)[: len(self.asked)]
        )
        self.chosen = list(range(wanted or len(self.asked)))
        self.accuracy = 1.0

    def open(self, progress: Progress) -> None:
        """Data set, masks and network."""
        self.network = open_network(self.weights, self.model)
        self.data = open_dataset(self.folder)
        progress("reading questions", 0, 1)
        self.asked: Sequence[Question] = self.data.questions(self.questions)[: self.limit]
        progress("reading questions", 1, 1)
        self.kinds = rows.ground_truths(self.data, self.questions, (self.network.size, self.network.size))

    def configuration(self) -> dict[str, Any]:
        from heatproof.models.weights import fingerprint

        return {
            "dataset": self.data.fingerprint(self.questions),
            "questions": self.questions,
            "limit": self.limit,
            "correct_only": self.correct_only,
            "poolings": list(self.poolings),
            "ground_truths": self.kinds,
            "model": fingerprint(self.network.module),
        }

    def chunks(self) -> Sequence[Chunk]:
        return [
            Chunk(f"{self.questions}-{start:06d}", self.network.name, min(CHUNK, len(self.chosen) - start))
            for start in range(0, len(self.chosen), CHUNK)
        ]

    def chunks_with(self, cases: Collection[str]) -> Sequence[Chunk]:
        wanted = {place // CHUNK for place, i in enumerate(self.chosen) if self.case_name(i) in cases}
        return [chunk for place, chunk in enumerate(self.chunks()) if place in wanted]

    def case_name(self, place: int) -> str:
        return f"{self.questions}-{self.asked[place].index:06d}"

    def load(self, chunk: Chunk) -> Batch:
        start = int(chunk.name.rpartition("-")[2])
        places = self.chosen[start : start + chunk.cases]
        questions = [self.asked[place] for place in places]
        index = [question.index for question in questions]
        target = torch.as_tensor(self.predictions.answer[places])
        answered = [self.network.answers[k] for k in target.tolist()]
        facts = rows.question_facts(questions)
        return Batch(
            inputs=pictures(questions, self.network.size),
            target=target,
            ids=tuple(self.case_name(place) for place in places),
            context=(torch.cat([self.network.encode(question.text) for question in questions]),),
            masks={kind: torch.as_tensor(self.data.masks(self.questions, kind).batch(index)) for kind in self.kinds},
            facts=facts
            | {
                "predicted": answered,
                "correct": [said == truth for said, truth in zip(answered, facts["answer"], strict=True)],
                "probability": self.predictions.probability[places].tolist(),
            },
        )

    def model_for(self, chunk: Chunk) -> torch.nn.Module:
        return self.network.module

    def model_to_explain(self, chunk: Chunk, explainer: Explainer) -> torch.nn.Module:
        """The quickest form that gives this explainer the same relevance."""
        return self.network.form(explainer.looks_at)

    def score(self, batch: Batch, relevance: torch.Tensor, model: torch.nn.Module) -> pl.DataFrame:
        masks = {kind: mask.numpy() for kind, mask in batch.masks.items()}
        return rows.score_table(batch.ids, batch.facts, relevance.cpu().numpy(), masks, self.poolings)

    def subsets(self) -> Mapping[str, pl.Expr]:
        return rows.parts_of_questions(self.questions, probabilities=True)

    def columns(self) -> Sequence[Mapping[str, str]]:
        return rows.shown_columns(self.kinds[0], self.poolings)

    def notes(self, scores: ScoreRows, table: pl.DataFrame) -> list[str]:
        entered = f"{len(self.chosen):,} of {len(self.asked):,} {self.questions} questions enter"
        return [
            f"The network answers {self.accuracy:.1%} of the questions right; {entered}."
            f" Shown first: {', '.join(sorted({c['pooling'] for c in self.columns()}))} against {self.kinds[0]}.",
            *rows.order_note(table, self.columns()[0]),
            *rows.undefined_notes(scores, self.columns()[0]),
        ]

    def examples(self) -> frozenset[str]:
        """The first questions about different pictures."""
        first: dict[str, int] = {}
        for place in self.chosen:
            first.setdefault(str(self.asked[place].record["image_filename"]), place)
        return frozenset(self.case_name(place) for place in list(first.values())[:EXAMPLES])

    def case_title(self, case: str) -> str:
        question = next(question for question in self.asked if question.index == int(case.rpartition("-")[2]))
        return f"{question.text} {in_words(question.answer)}"

    def reference(self) -> pl.DataFrame:
        return rows.poster()


@dataclass(frozen=True, eq=False)
class Predictions:
    """The answer (an index) to each question and its probability."""

    answer: np.ndarray[Any, np.dtype[np.int64]]
    probability: np.ndarray[Any, np.dtype[np.float64]]


def open_network(weights: Path | str | None, model: Any) -> Vqa:
    """The network to explain."""
    from heatproof.models.vqa import Vqa, public_relation_network, shipped_network

    if weights is not None and model is not None:
        raise HeatproofError("give either weights (for the Relation Network) or a model, not both.")
    if weights is not None:
        return public_relation_network(weights_file(weights))
    if model is None:
        return shipped_network()
    made = load_object(model) if isinstance(model, str) else model
    made = made() if callable(made) and not isinstance(made, Vqa) else made
    if not isinstance(made, Vqa):
        raise HeatproofError(f"model must be a heatproof.models.vqa.Vqa or a factory for one, got {made!r}.")
    return made


def weights_file(weights: Path | str) -> Path:
    """The file that is meant: a path, or the name of a download that is in the cache."""
    path = Path(weights)
    return fetched(str(weights)) if str(weights) in downloads and not path.exists() else path


def pictures(questions: Sequence[Question], size: int) -> torch.Tensor:
    """The pictures (B, 3, size, size) of questions in [0, 1], squashed bilinearly where they have another size."""
    from PIL import Image

    drawn: dict[str, np.ndarray[Any, Any]] = {}
    for question in questions:
        name = str(question.record["image_filename"])
        if name not in drawn:
            picture = Image.fromarray(question.picture())
            if picture.size != (size, size):
                picture = picture.resize((size, size), Image.Resampling.BILINEAR)
            drawn[name] = np.asarray(picture, dtype=np.float32).transpose(2, 0, 1) / np.float32(255)
    return torch.as_tensor(np.stack([drawn[str(question.record["image_filename"])] for question in questions]))


def predict(network: Vqa, questions: Sequence[Question], source: str | None, progress: Progress) -> Predictions:
    """What the network answers; kept in the workspace under the hash of data and weights, if `source` is given."""
    from heatproof.models.weights import fingerprint

    kept = None
    if source is not None:
        key = f"{fingerprint(network.module)} {source} {len(questions)} {[q.index for q in questions[:1]]}"
        kept = workspace("answers", hashlib.sha256(key.encode()).hexdigest()[:24] + ".npz")
        if kept.is_file():
            with np.load(kept, allow_pickle=False) as arrays:
                return Predictions(arrays["answer"], arrays["probability"])
    module = network.form("values")
    answers, probabilities = [], []
    with torch.no_grad(), untouched(module):
        for start in range(0, len(questions), 8):
            progress("answering questions", start, len(questions))
            part = questions[start : start + 8]
            tokens = torch.cat([network.encode(question.text) for question in part])
            logits = module(pictures(part, network.size), tokens)
            if logits.shape != (len(part), len(network.answers)) or not bool(logits.isfinite().all()):
                raise HeatproofError(
                    f"model {network.name} must return finite logits (questions, {len(network.answers)}),"
                    f" one per answer; got shape {tuple(logits.shape)}."
                )
            probability, answer = logits.double().softmax(1).max(1)
            answers.append(answer)
            probabilities.append(probability)
    progress("answering questions", len(questions), len(questions))
    found = Predictions(torch.cat(answers).numpy(), torch.cat(probabilities).numpy())
    if kept is not None:

        def write(temporary: Path) -> None:
            with temporary.open("wb") as file:
                np.savez(file, answer=found.answer, probability=found.probability)

        write_whole(kept, write)
    return found
