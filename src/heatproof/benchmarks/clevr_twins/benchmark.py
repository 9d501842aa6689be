"""Two networks of one architecture give the same right answer; one of them because a marker points at the object.

Both twins learned on the same pictures, markers and questions. The honest one answers the question; the shortcut one
names the attribute of the object beside the marker. Here the marker stands beside the object that is asked about, so
both are right, and all that differs is why. A method that tells puts relevance on the marker for the one and not for
the other.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

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
from heatproof.benchmarks.clevr_twins import words
from heatproof.benchmarks.clevr_twins.pairs import Pair, ask_twins, inputs_of
from heatproof.benchmarks.clevr_twins.rows import METRICS, RAW, SHOWN_POOLING, TRUTH, pair_rows, raw_rows
from heatproof.benchmarks.clevr_xai import rows as questions_of
from heatproof.benchmarks.clevr_xai.answers import BLACK, tokens
from heatproof.benchmarks.clevr_xai.benchmark import methods_on
from heatproof.benchmarks.sample import pictures_kept, pictures_shown, stratified
from heatproof.cases import Batch, Chunk
from heatproof.clevr.answers import in_words
from heatproof.clevr.files import Dataset, open_dataset
from heatproof.clevr.shipped import folder_named
from heatproof.errors import HeatproofError
from heatproof.explainers.base import Explainer
from heatproof.lazy import np, pl, torch
from heatproof.pooling import poolings
from heatproof.progress import Progress, silent
from heatproof.story import Column, Story

if TYPE_CHECKING:
    from heatproof.models.vqa import Vqa

CHUNK = 32
QUESTIONS = "simple"
USED = "used"
"""The mask of what a twin goes by: the marker, or the object that is asked about."""


@register_benchmark("clevr-twins")
@dataclass(frozen=True, kw_only=True)
class ClevrTwins(Benchmark):
    """Twins of which one answers by a planted cue: which methods show it?

    Examples:

    heatproof run clevr-twins --preset quick

    heatproof run clevr-twins --explainers gradient,lrp,my_method.py:explain

    heatproof run clevr-twins --shortcut twin_shortcut.npz --honest twin_honest.npz
    """

    title = "CLEVR twins: which methods show that a network goes by a planted cue?"
    paper = "Heatproof; after Adebayo et al. 2022, who ask whether methods show spurious cues"
    metrics = METRICS
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {"quick": {"limit": 40}, "standard": {}}
    preset_help = "quick: 40 questions. standard: all questions of the data set."
    batch_size = 4
    quantities = ("logit",)
    with_all = False  # it is about methods on two networks of ours, not about one of the papers

    dataset: Path | str | None = option(
        None, "Folder of heatproof clevr render, with simple questions. Default: shipped, 60 scenes."
    )
    shortcut: Path | str | None = option(
        None, "Weights of the twin that goes by the marker (heatproof train vqa --shortcut marker). Default: shipped."
    )
    honest: Path | str | None = option(None, "Weights of its honest twin. Default: shipped.")
    limit: int | None = option(None, "Use so many questions only, as few of each picture as that takes.")
    poolings: Sequence[str] = option(tuple(poolings), "Poolings to score. Default: all ten.")

    def __post_init__(self) -> None:
        require_limit(self.limit)
        require_poolings(self.poolings)
        if (self.shortcut is None) != (self.honest is None):
            raise HeatproofError(
                "shortcut and honest are two twins of one training; give the weights of both, or none."
            )

    @property
    def default_explainers(self) -> tuple[str, ...]:
        """CLEVR-XAI's methods, its floors, and the ceiling: what each twin goes by, painted."""
        return (*methods_on("film_vqa"), f"oracle:mask={USED}")

    def open(self, seed: int, progress: Progress = silent) -> OpenedTwins:
        networks = self.networks()
        data = open_dataset(folder_named(self.dataset))
        data.require_object_folder()
        asked = questions_of.spread(data.questions(QUESTIONS), self.limit)
        pairs = ask_twins(networks, data, asked, progress)
        chosen = [pair for pair in pairs if pair.is_right(networks)]
        if not chosen:
            raise HeatproofError(f"the twins answer none of the {len(asked)} questions with a marker both right.")
        return self.opened(seed, networks, data, pairs, chosen, data.fingerprint(QUESTIONS, asked, progress))

    def networks(self) -> dict[str, Vqa]:
        """Both twins, the one that goes by the cue first."""
        from heatproof.models.relation_network import answers, encode
        from heatproof.models.twins import TWINS, load_twin
        from heatproof.models.vqa import Vqa

        given = {"shortcut": self.shortcut, "honest": self.honest}
        return {
            twin: Vqa(
                f"film_{twin}", load_twin(twin, None if (p := given[twin]) is None else Path(p)), encode, tuple(answers)
            )
            for twin in TWINS
        }

    def opened(
        self,
        seed: int,
        networks: Mapping[str, Vqa],
        data: Dataset,
        pairs: Sequence[Pair],
        chosen: Sequence[Pair],
        fingerprint: str,
    ) -> OpenedTwins:
        from heatproof.models.weights import fingerprint as weights_of

        size = next(iter(networks.values())).size
        cases = {questions_of.case_name(QUESTIONS, pair.question.index): pair for pair in chosen}
        strata = {case: questions_of.stratum(pair.question) for case, pair in cases.items()}
        shown = {case: cases[case] for case in stratified(strata, pictures_shown(size, size), seed)}
        pooling = SHOWN_POOLING if SHOWN_POOLING in self.poolings else self.poolings[0]
        return OpenedTwins(
            story=Story(
                title=self.title,
                paper=self.paper,
                dataset=data.folder.resolve().name,
                metrics=tuple(replace(metric, localises=False) for metric in metric_words(METRICS)),
                columns=tuple(Column(metric, TRUTH, pooling) for metric in METRICS),
                poolings=tuple(self.poolings),
                words=words.WORDS,
                examples={c: f"{pair.question.text} {in_words(pair.question.answer)}" for c, pair in shown.items()},
                captions={case: words.caption(pair) for case, pair in shown.items()},
                companions={
                    case: words.companions(networks, pair)
                    for case, pair in islice(shown.items(), pictures_kept(size, size))
                },
                facts=words.FACTS,
                cluster=questions_of.PICTURE,
                repeats=questions_of.repeated([pair.question for pair in chosen]),
                sections=words.sections(networks, pairs, list(shown.values())),
            ),
            settings={"limit": self.limit, "poolings": list(self.poolings)},
            fingerprint=fingerprint,
            models={network.name: weights_of(network.module) for network in networks.values()},
            counts={QUESTIONS: len(chosen)},
            per_chunk=CHUNK,
            sample=pictures_kept(size, size),
            recipe=self,
            networks={network.name: network for network in networks.values()},
            twins={network.name: twin for twin, network in networks.items()},
            pairs=pairs,
            chosen=chosen,
        )


@dataclass(frozen=True, eq=False, kw_only=True)
class OpenedTwins(Opened):
    """Questions that both twins answer right, and the twins: networks by name, and which twin each is."""

    recipe: ClevrTwins
    networks: Mapping[str, Vqa]
    twins: Mapping[str, str]
    pairs: Sequence[Pair]
    chosen: Sequence[Pair]

    @property
    def names(self) -> dict[str, str]:
        """The networks' names by twin."""
        return {twin: name for name, twin in self.twins.items()}

    def chunks_with(self, cases: Collection[str]) -> Sequence[Chunk]:
        known = [questions_of.case_name(QUESTIONS, pair.question.index) for pair in self.chosen]
        wanted = {place // CHUNK for place, case in enumerate(known) if case in cases}
        return [chunk for place, chunk in enumerate(super().chunks_with(cases)) if place in wanted]

    def load(self, chunk: Chunk) -> Batch:
        start = int(chunk.name.rpartition("-")[2])
        some = self.chosen[start : start + chunk.cases]
        network, twin = self.networks[chunk.model], self.twins[chunk.model]
        questions = [pair.question for pair in some]
        used = [pair.marker if twin == "shortcut" else pair.thing for pair in some]
        return Batch(
            inputs=inputs_of(some),
            target=torch.as_tensor([pair.twins[twin].answers["holds"] for pair in some]),
            ids=tuple(questions_of.case_name(QUESTIONS, question.index) for question in questions),
            context=(tokens(network, questions),),
            masks={
                TRUTH: torch.as_tensor(np.stack([pair.marker for pair in some])),
                USED: torch.as_tensor(np.stack(used)),
            },
            facts=questions_of.question_facts(questions)
            | {
                "predicted": [in_words(question.answer) for question in questions],
                "correct": [True] * len(some),
                "probability": [pair.twins[twin].probability for pair in some],
                "effect_shortcut": [pair.twins["shortcut"].effect for pair in some],
                "effect_honest": [pair.twins["honest"].effect for pair in some],
            },
            black=BLACK,
        )

    def model(self, name: str) -> torch.nn.Module:
        return self.networks[name].module

    def form(self, name: str, explainer: Explainer) -> torch.nn.Module:
        return self.networks[name].form(explainer.looks_at)

    def score(self, batch: Batch, relevance: torch.Tensor, model: torch.nn.Module) -> pl.DataFrame:
        return raw_rows(batch, relevance, self.recipe.poolings)

    def remembers(self) -> pl.Expr:
        return pl.col("metric") == RAW

    def summarise(self, rows: pl.DataFrame) -> pl.DataFrame:
        """The scores, once a method has explained both twins."""
        return pair_rows(rows, self.names["shortcut"], self.names["honest"])

    def about(self, case: Batch) -> str:
        return f"{case.facts['question'][0]} {case.facts['answer'][0]}"

    def end(self, rows: pl.DataFrame, table: pl.DataFrame) -> Ending:
        return Ending([words.entered(self.pairs, self.chosen)])
