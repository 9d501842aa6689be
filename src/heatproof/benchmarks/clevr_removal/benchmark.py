"""A network answers a question about a rendered scene. Which objects does the answer hang on? Take each out, and ask.

The scene is rendered once more without the object, with the same camera, lamps and random streams; what the answer's
logit (or probability) loses is the object's effect. A heatmap is scored by whether the relevance on objects follows
their effects, and by how much of it lies on objects without any, or on no object at all.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, get_args

from heatproof.benchmarks.base import (
    Benchmark,
    Ending,
    Opened,
    metric_words,
    option,
    register_benchmark,
    require_limit,
    require_poolings,
)
from heatproof.benchmarks.clevr_removal import rows, words
from heatproof.benchmarks.clevr_removal.effects import TRUTHS, Asked, as_input, measure, seconds_to_ask, truth_of
from heatproof.benchmarks.clevr_removal.painted import ObjectBatch
from heatproof.benchmarks.clevr_xai import rows as questions_of
from heatproof.benchmarks.clevr_xai.answers import BLACK, tokens
from heatproof.benchmarks.clevr_xai.benchmark import methods_on, open_network, our_network
from heatproof.benchmarks.sample import pictures_kept, pictures_shown, stratified
from heatproof.cases import Batch, Chunk
from heatproof.clevr.answers import in_words
from heatproof.clevr.changed_pictures import (
    Look,
    Wanted,
    folder_of,
    lacking,
    look_of,
    make_changed,
    seconds_to_make,
    wanted_of,
)
from heatproof.clevr.files import Dataset, Question, open_dataset
from heatproof.clevr.ground_truth import KINDS
from heatproof.clevr.interventions import INTERVENTIONS
from heatproof.clevr.mask_files import kinds_there
from heatproof.clevr.object_regions import object_regions
from heatproof.clevr.question_types import ATTRIBUTES
from heatproof.clevr.shipped import folder_named
from heatproof.clevr.words import Intervention, QuestionSet
from heatproof.errors import HeatproofError, require_whole, unknown_name
from heatproof.executors.choice import opening_execution
from heatproof.explainers.base import Explainer
from heatproof.lazy import np, pl, torch
from heatproof.pooling import poolings
from heatproof.progress import Progress, silent
from heatproof.story import Story

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from heatproof.models.vqa import Vqa

PAINTED = "heatproof.benchmarks.clevr_removal.painted"
CHUNK = 32


@register_benchmark("clevr-removal")
@dataclass(frozen=True, kw_only=True)
class ClevrRemoval(Benchmark):
    """CLEVR without each object: does the relevance follow what objects really do?

    Examples:

    heatproof run clevr-removal --preset quick

    heatproof run clevr-removal --dataset data --weights relation-network --questions complex

    heatproof run clevr-removal --intervene recolour
    """

    title = "CLEVR without each object: what does the answer hang on?"
    paper = "Heatproof; after FunnyBirds (Hesse et al. 2023), which takes parts out of rendered birds"
    metrics = rows.METRICS
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "quick": {"scenes": 15, "limit": 30},
        "standard": {},
    }
    preset_help = "quick: 30 questions about 15 scenes. standard: all questions of the data set."
    batch_size = 4
    quantities = ("logit",)
    with_all = False  # its pictures have to be rendered first

    dataset: Path | str | None = option(
        None, "Folder of heatproof clevr render, with questions. Default: shipped, 60 scenes."
    )
    questions: QuestionSet = option("simple", "simple: about one object. complex: CLEVR's own kinds.")
    intervene: Intervention = option(
        "remove",
        "remove: without the object. hide: painted over with the empty room. recolour, rematerial: with another"
        " colour or material.",
    )
    model: Any = option(None, "Your own network, as a heatproof.models.vqa.Vqa: my_net.py:factory.")
    weights: Path | str | None = option(
        None, "relation-network (after heatproof fetch relation-network) or its file. Default: a network that ships."
    )
    scenes: int | None = option(None, "Use so many scenes only.")
    limit: int | None = option(None, "Use so many questions only, as few of each picture as that takes.")
    correct_only: bool = option(True, "Explain wrongly answered questions too.", flag="--every-answer")
    poolings: Sequence[str] = option(tuple(poolings), "Poolings to score. Default: all ten.")

    def __post_init__(self) -> None:
        require_limit(self.limit)
        if self.scenes is not None:
            require_whole("scenes", self.scenes, 1)
        if self.questions not in get_args(QuestionSet):
            raise unknown_name("question set", self.questions, get_args(QuestionSet))
        if self.intervene not in INTERVENTIONS:
            raise unknown_name("intervention", self.intervene, INTERVENTIONS)
        require_poolings(self.poolings)
        if self.weights is not None and self.model is not None:
            raise HeatproofError("give either weights (for the Relation Network) or a model, not both.")

    @property
    def default_explainers(self) -> tuple[str, ...]:
        """CLEVR-XAI's methods; floors, one of which knows how large objects are; and two ceilings."""
        methods = methods_on(our_network(self.model, self.weights, self.questions))
        ceilings = (f"{PAINTED}:TrueEffects", f"{PAINTED}:TrueEffects:over=sum")
        return (*methods, f"{PAINTED}:ObjectSize", *ceilings)

    def open(self, seed: int, progress: Progress = silent) -> OpenedRemoval:
        network, data, asked, look = self.found(progress)
        folder = folder_of(data)
        wanted = wanted_of(scenes_of(asked), self.intervene)
        make_changed(wanted, folder, look, opening_execution(), progress)
        measured = measure(network, asked, folder, self.intervene, progress)
        right = [one for one in measured if one.is_right(network)]
        chosen = right if self.correct_only else measured
        if not chosen:
            raise HeatproofError(f"the network answers none of the {len(asked)} {self.questions} questions right.")
        fingerprint = hashlib.blake2b(data.fingerprint(self.questions, asked, progress).encode(), digest_size=16)
        for one in wanted:
            fingerprint.update(one.recipe(look).encode())
        return self.opened(seed, network, data, measured, chosen, fingerprint.hexdigest())

    def rehearse(self, seed: int, progress: Progress = silent) -> OpenedRemoval:
        """No picture is made: every object has the effect 1, and all questions count as answered right."""
        network, data, asked, look = self.found(progress)
        measured = [imagined(network, question) for question in asked]
        missing = lacking(wanted_of(scenes_of(asked), self.intervene), folder_of(data), look)
        opened = self.opened(seed, network, data, measured, measured, "")
        return replace(opened, ahead=work_ahead(network, measured, missing, look))

    def found(self, progress: Progress) -> tuple[Vqa, Dataset, Sequence[Question], Look]:
        """Network, data set, questions, and how the data set's pictures are painted."""
        network = open_network(self.weights, self.model, self.questions)
        data = open_dataset(folder_named(self.dataset))
        progress("reading questions", 0, 1)
        every = data.questions(self.questions)
        progress("reading questions", 1, 1)
        if self.scenes is not None:
            names = dict.fromkeys(str(question.record["image_filename"]) for question in every)
            kept = set(islice(names, self.scenes))
            every = tuple(question for question in every if question.record["image_filename"] in kept)
        asked = questions_of.spread(every, self.limit)
        wanted_of(scenes_of(asked), self.intervene)  # scenes that cannot be rendered are an error before any long work
        data.require_object_folder()
        return network, data, asked, look_of(data)

    def opened(
        self,
        seed: int,
        network: Vqa,
        data: Dataset,
        measured: Sequence[Asked],
        chosen: Sequence[Asked],
        fingerprint: str,
    ) -> OpenedRemoval:
        from heatproof.models.weights import fingerprint as weights_of

        name = self.questions
        shape = (network.size, network.size)
        there = kinds_there(data.folder, name)
        kinds = [kind for kind in KINDS[name] if kind in there and data.mask_size(name, kind) == shape]
        cases = {questions_of.case_name(name, one.question.index): one for one in chosen}
        strata = {case: questions_of.stratum(one.question, network.answers[one.answer]) for case, one in cases.items()}
        shown = {case: cases[case] for case in stratified(strata, pictures_shown(*shape), seed)}
        return OpenedRemoval(
            story=Story(
                title=self.title,
                paper=self.paper,
                dataset=data.folder.resolve().name,
                # effects are the truth here, so that the best map is not the mask
                metrics=tuple(replace(metric, localises=False) for metric in metric_words(self.metrics)),
                columns=rows.shown_columns(self.poolings, kinds[0] if kinds else ""),
                poolings=(*self.poolings, rows.SIGNED),
                words=words.WORDS,
                examples={case: f"{one.question.text} {in_words(one.question.answer)}" for case, one in shown.items()},
                captions={case: words.caption(one, self.intervene) for case, one in shown.items()},
                companions={
                    case: words.companions(network, one, self.intervene)
                    for case, one in islice(shown.items(), pictures_kept(*shape) if fingerprint else 0)
                },
                facts=words.FACTS,
                cluster=questions_of.PICTURE,
                repeats=questions_of.repeated([one.question for one in chosen]),
                sections=words.sections(network, measured, list(shown.values()), self.intervene) if fingerprint else (),
            ),
            settings={
                "questions": name,
                "intervene": self.intervene,
                "scenes": self.scenes,
                "limit": self.limit,
                "correct_only": self.correct_only,
                "poolings": list(self.poolings),
                "ground_truths": kinds,
            },
            fingerprint=fingerprint,
            models={network.name: weights_of(network.module)},
            counts={name: len(chosen)},
            per_chunk=CHUNK,
            sample=pictures_kept(*shape),
            recipe=self,
            network=network,
            data=data,
            measured=measured,
            chosen=chosen,
            kinds=kinds,
        )


def scenes_of(questions: Sequence[Question]) -> list[Mapping[str, Any]]:
    """The scenes that questions are about, each once."""
    found: dict[str, Mapping[str, Any]] = {}
    for question in questions:
        name = str(question.record["image_filename"])
        if question.scene is None:
            raise HeatproofError(f"question {question.index} is about {name}, of which the data set has no scene.")
        found.setdefault(name, question.scene)
    return list(found.values())


def imagined(network: Vqa, question: Question) -> Asked:
    """A question that nobody has asked yet."""
    from PIL import Image

    assert question.scene is not None
    picture = Image.fromarray(question.picture()).resize((network.size, network.size))
    effects = np.ones(len(question.scene["objects"]))
    return Asked(question, np.asarray(picture), 0, 1.0, {"logit": effects, "probability": effects}, ())


def work_ahead(network: Vqa, imagined: Sequence[Asked], missing: Sequence[Wanted], look: Look) -> dict[str, float]:
    """About how many CPU seconds it takes to make the missing pictures, and to ask after every change."""
    changes = sum(len(one.effects["logit"]) for one in imagined)
    found = {f"rendering {len(missing):,} pictures": seconds_to_make(missing, look)} if missing else {}
    if changes:
        found[f"asking of {changes:,} changes"] = changes * seconds_to_ask(network, imagined[0])
    return found


@dataclass(frozen=True, eq=False, kw_only=True)
class OpenedRemoval(Opened):
    """Questions with the effect of each object of their pictures, and those of them that enter."""

    recipe: ClevrRemoval
    network: Vqa
    data: Dataset
    measured: Sequence[Asked]
    chosen: Sequence[Asked]
    kinds: Sequence[str]

    def case_name(self, one: Asked) -> str:
        return questions_of.case_name(self.recipe.questions, one.question.index)

    def chunks_with(self, cases: Collection[str]) -> Sequence[Chunk]:
        wanted = {place // CHUNK for place, one in enumerate(self.chosen) if self.case_name(one) in cases}
        return [chunk for place, chunk in enumerate(self.chunks()) if place in wanted]

    def load(self, chunk: Chunk) -> Batch:
        start = int(chunk.name.rpartition("-")[2])
        some = self.chosen[start : start + chunk.cases]
        questions = [one.question for one in some]
        index = [question.index for question in questions]
        answered = [self.network.answers[one.answer] for one in some]
        facts = questions_of.question_facts(questions)
        width = max(1, *facts["objects"])  # a scene may have none
        masks = {kind: self.data.masks(self.recipe.questions, kind).batch(index) for kind in self.kinds}
        return ObjectBatch(
            inputs=torch.stack([as_input(one.picture) for one in some]),
            target=torch.as_tensor([one.answer for one in some]),
            ids=tuple(self.case_name(one) for one in some),
            context=(tokens(self.network, questions),),
            masks={kind: torch.as_tensor(mask) for kind, mask in masks.items()},
            facts=facts
            | {
                "predicted": answered,
                "correct": [one.is_right(self.network) for one in some],
                "probability": [one.probability for one in some],
                "largest_effect": [float(np.abs(one.effects["logit"]).max(initial=0.0)) for one in some],
            },
            black=BLACK,
            regions=torch.as_tensor(np.stack([self.regions(question) for question in questions])),
            truths={name: torch.as_tensor(truth_of(some, name, width)) for name in TRUTHS},
        )

    def regions(self, question: Question) -> NDArray[np.uint8]:
        """Which object each position of the picture belongs to."""
        assert question.scene is not None
        ids = self.data.object_ids(question.scene)
        return object_regions(ids, len(question.scene["objects"]), self.network.size, self.network.size)

    def model(self, name: str) -> torch.nn.Module:
        return self.network.module

    def form(self, name: str, explainer: Explainer) -> torch.nn.Module:
        """The quickest form that gives this explainer the same relevance."""
        return self.network.form(explainer.looks_at)

    def score(self, batch: Batch, relevance: torch.Tensor, model: torch.nn.Module) -> pl.DataFrame:
        assert isinstance(batch, ObjectBatch)
        return rows.score_table(batch, relevance, self.recipe.poolings)

    def about(self, case: Batch) -> str:
        return f"{case.facts['question'][0]} {case.facts['answer'][0]}"

    def subsets(self) -> Mapping[str, pl.Expr]:
        """Kinds of questions; of the many scores, only those that are shown first."""
        if self.recipe.questions == "complex":
            kinds = dict.fromkeys(questions_of.stratum(one.question)[1] for one in self.chosen)
            parts = {f"type:{kind}": pl.col("question_type") == kind for kind in kinds}
        else:
            parts = {f"attribute:{word}": pl.col("attribute") == word for word in ATTRIBUTES}
        return {name: condition & self.story.shown for name, condition in parts.items()}

    def end(self, rows_: pl.DataFrame, table: pl.DataFrame) -> Ending:
        return Ending(
            [
                words.entered(self.network, self.measured, self.chosen, self.recipe.questions),
                *words.silence(self.chosen),
                *words.agreement(table, self.story.columns),
            ]
        )
