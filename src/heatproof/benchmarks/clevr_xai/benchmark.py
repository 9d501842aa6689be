"""A network answers a question about a rendered scene, and the pixels that matter are known.

The question's program says which objects the answer rests on: GT Single Object (what a simple question asks about) and
GT All Objects; for complex questions Unique, Unique First-non-empty and Union. Each heatmap is pooled over colours in
ten ways, and scored by relevance mass accuracy and relevance rank accuracy. Only correctly answered questions enter, by
default.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, get_args

from heatproof.benchmarks.base import (
    Benchmark,
    Ending,
    Opened,
    Reference,
    metric_words,
    option,
    register_benchmark,
    require_limit,
    require_poolings,
)
from heatproof.benchmarks.clevr_xai import rows
from heatproof.benchmarks.clevr_xai.answers import BLACK, Answers, answer, other_answers, pictures, tokens
from heatproof.benchmarks.clevr_xai.company import NOBODY, Company, find_company
from heatproof.benchmarks.sample import pictures_kept, pictures_shown, stratified
from heatproof.cases import Batch, Chunk
from heatproof.clevr.answers import in_words
from heatproof.clevr.files import Dataset, Question, open_dataset
from heatproof.clevr.release import default_dataset, released_dataset
from heatproof.clevr.shipped import folder_named
from heatproof.clevr.words import QuestionSet
from heatproof.downloads import downloads, fetched
from heatproof.errors import HeatproofError, unknown_name
from heatproof.explainers.base import Explainer
from heatproof.lazy import np, pl, torch
from heatproof.pooling import poolings
from heatproof.progress import Progress, silent
from heatproof.story import Story

if TYPE_CHECKING:
    from heatproof.models.vqa import Vqa

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
)
"""The poster's eleven in the plainest reading (docs/clevr-xai.md), and four floors; two more come behind them."""
CAMS = ("grad_cam", "guided_grad_cam")
EYES = {"film_vqa": "eye.relu6", "scene_logic": "eye.body.relu7"}
"""Where CAMs read our networks: the last layer before the question comes in, as in the poster's network."""
RELATION_NETWORK = "relation-network"
SHIPPED = {"simple": "film_vqa", "complex": "scene_logic"}
"""The network that ships for each set of questions."""
TITLE_OF_COMPLEX = "CLEVR-XAI, complex questions: chains of objects, with those that decide"
CHUNK = 32


@register_benchmark("clevr-xai")
@dataclass(frozen=True, kw_only=True)
class ClevrXai(Benchmark):
    """CLEVR-XAI: questions about pictures, with the objects that decide them.

    Examples:

    heatproof run clevr-xai --preset quick

    heatproof run clevr-xai --dataset data --questions complex

    heatproof run clevr-xai --dataset data --model relation-network

    heatproof run clevr-xai --dataset data --model my_net.py:build --questions complex
    """

    title = "CLEVR-XAI: questions about pictures, with the objects that decide them"
    paper = (
        "Arras, Osman and Samek 2022, CLEVR-XAI: A benchmark dataset for the ground truth evaluation of neural network"
        " explanations"
    )
    metrics = rows.METRICS
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "quick": {"limit": 40},
        "standard": {"limit": 400},
        "paper": {"as_released": True},
    }
    preset_help = "quick: 40 questions. standard: 400. paper: CLEVR-XAI's release."
    variants: ClassVar[Mapping[str, Mapping[str, Any]]] = {"complex": {"questions": "complex"}}
    batch_size = 4
    quantities = ("logit",)

    dataset: Path | str | None = option(
        None, "Folder with pictures, questions and masks: ours or CLEVR-XAI's release. Default: shipped, 60 scenes."
    )
    questions: QuestionSet = option("simple", "simple: about one object. complex: CLEVR's own kinds.")
    model: Any = option(
        None,
        "scene_logic, film_vqa or relation-network, or your own as a heatproof.models.vqa.Vqa: my_net.py:factory."
        " Default: film_vqa for simple questions, scene_logic for complex ones.",
    )
    weights: Path | str | None = option(
        None,
        "Weights of one of these: relation-network (after heatproof fetch relation-network) or its file, or the .npz"
        " of heatproof train. Without a model: of the Relation Network.",
    )
    limit: int | None = option(None, "Use so many questions only, as few of each picture as that takes.")
    correct_only: bool = option(True, "Explain wrongly answered questions too.", flag="--every-answer")
    poolings: Sequence[str] = option(tuple(poolings), "Poolings to score. Default: all ten.")
    as_released: bool = option(False, "Ask as many questions as CLEVR-XAI's release has; give its folder.", hidden=True)

    def __post_init__(self) -> None:
        require_limit(self.limit)
        if self.questions not in get_args(QuestionSet):
            raise unknown_name("question set", self.questions, get_args(QuestionSet))
        require_poolings(self.poolings)
        if self.weights is not None and self.model is not None and not isinstance(self.model, str):
            raise HeatproofError("a model of your own comes with its weights; give weights with one of ours, by name.")

    @property
    def is_imagined(self) -> bool:
        """Whether it is about CLEVR-XAI's release, which is not at hand."""
        return self.as_released and self.dataset is None and released_dataset() is None

    @property
    def default_explainers(self) -> tuple[str, ...]:
        truth = {"simple": "single_object", "complex": "unique"}[self.questions]
        methods = methods_on(our_network(self.model, self.weights, self.questions))
        return (*methods, f"other_question:{METHODS[0]}", f"oracle:mask={truth}")

    def open(self, seed: int, progress: Progress = silent) -> OpenedClevrXai:
        if self.is_imagined:
            raise HeatproofError(
                "preset paper asks the questions of CLEVR-XAI's release, which does not ship with Heatproof: get it"
                " with heatproof fetch clevr-xai, or give its folder with --dataset DIR; --dry-run says what it would"
                " cost."
            )
        network, data, asked = self.found(self.questions, progress)
        fingerprint = data.fingerprint(self.questions, progress=progress)
        answers = answer(network, asked, fingerprint, progress)
        right = [
            place
            for place, question in enumerate(asked)
            if network.answers[answers.answer[place]] == in_words(question.answer)
        ]
        chosen = right if self.correct_only else list(range(len(asked)))
        if not chosen:
            raise HeatproofError(f"the network answers none of the {len(asked)} {self.questions} questions right.")
        company = self.company(seed, network, data, asked, chosen, progress)
        others = other_answers(network, data, asked, chosen, company, fingerprint, progress)
        return self.opened(
            seed, network, data, asked, answers, chosen, fingerprint, len(right) / len(asked), company, others
        )

    def rehearse(self, seed: int, progress: Progress = silent) -> OpenedClevrXai:
        """All questions count as answered right, and only the first chunk is really asked."""
        network, data, asked = self.found(self.questions, progress)
        first = answer(network, asked[:CHUNK], None, progress)
        repeat = -(-len(asked) // len(first.answer))
        answers = Answers(np.tile(first.answer, repeat)[: len(asked)], np.tile(first.probability, repeat)[: len(asked)])
        wanted = min(RELEASED[self.questions], self.limit or RELEASED[self.questions])
        chosen = [place % len(asked) for place in range(wanted if self.is_imagined else len(asked))]
        company = self.company(seed, network, data, asked, chosen, progress)
        others = {index: (asked[0].text, 0) for kind in company.others.values() for index in kind.values()}
        return self.opened(seed, network, data, asked, answers, chosen, "", 1.0, company, others)

    def company(
        self,
        seed: int,
        network: Vqa,
        data: Dataset,
        asked: Sequence[Question],
        chosen: Sequence[int],
        progress: Progress,
    ) -> Company:
        """The other questions and the objects that those which enter are compared with."""
        name, size = asked[0].set, (network.size, network.size)
        wanted = {asked[place].index for place in chosen}
        return find_company(data, name, rows.ground_truths(data, name, size), size, seed, wanted, progress)

    def found(self, questions: str, progress: Progress) -> tuple[Vqa, Dataset, Sequence[Question]]:
        """Network, data set and questions."""
        network = open_network(self.weights, self.model, self.questions)
        data = open_dataset(folder_named(self.dataset or default_dataset(self.as_released)))
        progress("reading questions", 0, 1)
        asked = rows.spread(data.questions(questions), self.limit)
        progress("reading questions", 1, 1)
        return network, data, asked

    def opened(
        self,
        seed: int,
        network: Vqa,
        data: Dataset,
        asked: Sequence[Question],
        answers: Answers,
        chosen: Sequence[int],
        fingerprint: str,
        accuracy: float,
        company: Company,
        others: Mapping[int, tuple[str, int]],
    ) -> OpenedClevrXai:
        """What was found; `others` has the other questions and what the network answers to them."""
        from heatproof.models.weights import fingerprint as weights_of

        name = asked[0].set
        kinds = list(company.truths)
        entering = {rows.case_name(name, asked[place].index): place for place in chosen[: len(asked)]}
        strata = {
            case: rows.stratum(asked[place], network.answers[answers.answer[place]]) for case, place in entering.items()
        }
        most = pictures_shown(network.size, network.size)
        shown = {case: asked[entering[case]] for case in stratified(strata, most, seed)}
        return OpenedClevrXai(
            story=Story(
                title=self.title if name == "simple" else TITLE_OF_COMPLEX,
                paper=self.paper,
                dataset=data.folder.resolve().name,
                metrics=metric_words(rows.shown_metrics(company, kinds)),
                columns=rows.shown_columns(kinds, self.poolings, company),
                beside=rows.columns_beside(kinds, self.poolings),
                poolings=tuple(self.poolings),
                words=rows.WORDS,
                examples={case: f"{q.text} {in_words(q.answer)}" for case, q in shown.items()},
                facts=rows.FACTS,
                cluster=rows.PICTURE,
                repeats=rows.repeated([asked[place] for place in chosen[: len(asked)]]),
            ),
            settings={
                "questions": self.questions,
                "limit": self.limit,
                "correct_only": self.correct_only,
                "poolings": list(self.poolings),
                "ground_truths": kinds,
                "metrics": list(rows.shown_metrics(company, kinds)),
            },
            fingerprint=fingerprint,
            models={network.name: weights_of(network.module)},
            counts={name: len(chosen)},
            per_chunk=CHUNK,
            sample=pictures_kept(network.size, network.size),
            recipe=self,
            network=network,
            data=data,
            asked=asked,
            answers=answers,
            chosen=chosen,
            kinds=kinds,
            accuracy=accuracy,
            company=company,
            others=others,
        )


@dataclass(frozen=True, eq=False, kw_only=True)
class OpenedClevrXai(Opened):
    """The questions, what the network answers, and those of them that enter.

    kinds   ground truths
    others  the other question of each that enters and what the network answers to it, by its index
    """

    recipe: ClevrXai
    network: Vqa
    data: Dataset
    asked: Sequence[Question]
    answers: Answers
    chosen: Sequence[int]
    kinds: Sequence[str]
    accuracy: float
    company: Company
    others: Mapping[int, tuple[str, int]]

    @property
    def question_set(self) -> str:
        return next(iter(self.counts))

    def chunks_with(self, cases: Collection[str]) -> Sequence[Chunk]:
        name = self.question_set
        wanted = {
            place // CHUNK
            for place, i in enumerate(self.chosen[: len(self.asked)])
            if rows.case_name(name, self.asked[i].index) in cases
        }
        return [chunk for place, chunk in enumerate(self.chunks()) if place in wanted]

    def load(self, chunk: Chunk) -> Batch:
        start = int(chunk.name.rpartition("-")[2])
        places = self.chosen[start : start + chunk.cases]
        questions = [self.asked[place] for place in places]
        index = [question.index for question in questions]
        target = torch.as_tensor(self.answers.answer[places])
        answered = [self.network.answers[k] for k in target.tolist()]
        facts = rows.question_facts(questions)
        masks = {kind: self.data.masks(self.question_set, kind).batch(index) for kind in self.kinds}
        return Batch(
            inputs=pictures(questions, self.network.size),
            target=target,
            ids=tuple(rows.case_name(self.question_set, i) for i in index),
            context=(tokens(self.network, questions),),
            masks={kind: torch.as_tensor(mask) for kind, mask in masks.items()},
            facts=facts
            | {
                "predicted": answered,
                "correct": [said == truth for said, truth in zip(answered, facts["answer"], strict=True)],
                "probability": self.answers.probability[places].tolist(),
            },
            black=BLACK,
            other=self.asked_otherwise(questions),
        )

    def asked_otherwise(self, questions: Sequence[Question]) -> tuple[torch.Tensor, tuple[torch.Tensor, ...]]:
        """What is explained of the other question of each; of one that has none, nothing."""
        others = self.company.any_other([question.index for question in questions])
        told = [self.others.get(i, (q.text, NOBODY)) for i, q in zip(others, questions, strict=True)]
        encoded = torch.cat([self.network.encode(text) for text, _ in told])
        return torch.tensor([said for _, said in told]), (encoded,)

    def model(self, name: str) -> torch.nn.Module:
        return self.network.module

    def form(self, name: str, explainer: Explainer) -> torch.nn.Module:
        """The quickest form that gives this explainer the same relevance."""
        return self.network.form(explainer.looks_at)

    def score(self, batch: Batch, relevance: torch.Tensor, model: torch.nn.Module) -> pl.DataFrame:
        masks = {kind: mask.cpu().numpy() for kind, mask in batch.masks.items()}
        return rows.score_table(
            self.question_set, batch.facts, relevance.cpu().numpy(), masks, self.recipe.poolings, self.company
        )

    def about(self, case: Batch) -> str:
        return f"{case.facts['question'][0]} {case.facts['answer'][0]}"

    def subsets(self) -> Mapping[str, pl.Expr]:
        return rows.parts_of_questions(self.question_set, True, self.recipe.poolings)

    def remembers(self) -> pl.Expr:
        return rows.is_undefined(self.story.columns[0])

    def end(self, rows_: pl.DataFrame, table: pl.DataFrame) -> Ending:
        entered = f"{len(self.chosen):,} of {len(self.asked):,} {self.question_set} questions enter"
        shown = ", ".join(sorted({column.pooling for column in self.story.columns}))
        return Ending(
            [
                f"The network answers {self.accuracy:.1%} of the questions right; {entered}."
                f" Shown first: {shown} against {self.kinds[0]}.",
                *rows.order_note(table, self.story.columns[0]),
                *rows.undefined_notes(rows_),
            ]
        )

    def reference(self) -> Reference:
        """The poster's, which is about a Relation Network and all questions of the release."""
        about = self.recipe.weights is not None and len(self.asked) == RELEASED["simple"]
        return Reference(rows.poster(), is_about_this=about)


def our_network(model: Any, weights: Path | str | None, questions: str) -> str:
    """Which of ours is explained, by its name; empty if it is none of them that has an eye."""
    name = (SHIPPED[questions] if weights is None else "") if model is None else model
    return name.partition(":")[0] if isinstance(name, str) else ""


def methods_on(network: str) -> list[str]:
    """The methods, of which CAMs read the eye of our networks."""
    layer = f":layer={EYES[network]}" if network in EYES else ""
    return [name + layer if name in CAMS else name for name in METHODS]


def open_network(weights: Path | str | None, model: Any, questions: str = "simple") -> Vqa:
    """The network to explain."""
    from heatproof.models.networks import make_from
    from heatproof.models.vqa import Vqa, at_rest, is_named, named_network

    if model is None:
        model = SHIPPED[questions] if weights is None else RELATION_NETWORK
    if is_named(model):
        weights = RELATION_NETWORK if weights is None and model == RELATION_NETWORK else weights
        return named_network(model, None if weights is None else weights_file(weights))
    if weights is not None:
        raise HeatproofError("a model of your own comes with its weights; give weights with one of ours, by name.")
    made = make_from(model)[1] if isinstance(model, str) else model
    made = made() if callable(made) and not isinstance(made, Vqa) else made
    if not isinstance(made, Vqa):
        raise HeatproofError(f"model must be a heatproof.models.vqa.Vqa or a factory for one, got {made!r}.")
    return at_rest(made)


def weights_file(weights: Path | str) -> Path:
    """The file that is meant: a path, or the name of a download that is in the cache."""
    path = Path(weights)
    return fetched(str(weights)) if str(weights) in downloads and not path.exists() else path
