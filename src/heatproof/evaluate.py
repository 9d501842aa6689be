"""Score heatmaps made elsewhere, in any framework, against a CLEVR-XAI data set. Needs no torch.

Heatmaps come as a folder of `QUESTION_INDEX.npy`, as a `.npz` whose names are question indices, or as a Zarr or HDF5
group that holds `heatmaps` (N, ...) and `question_index` (N,). They are read a few at a time. One that cannot be used
costs its own scores, and its rows say why.
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from heatproof.benchmarks import clevr_xai_rows as rows
from heatproof.benchmarks.base import Benchmark
from heatproof.clevr.files import Question, open_dataset
from heatproof.clevr.ground_truth import KINDS
from heatproof.engine.plan import Chunk, Unit
from heatproof.engine.store import Store
from heatproof.errors import HeatproofError, unknown_name
from heatproof.explainers.base import Explainer
from heatproof.lazy import np, pl
from heatproof.pooling import poolings
from heatproof.progress import Progress, silent
from heatproof.results.finish import finish_run
from heatproof.results.manifest import make_manifest
from heatproof.results.run import Run

if TYPE_CHECKING:
    import torch
    from numpy.typing import NDArray

    from heatproof.cases import Batch
    from heatproof.seeds import CaseRandom

CHUNK = 128
SHOWN = 5


@dataclass(frozen=True)
class Heatmaps:
    """Heatmaps by question index; `read` gives one, whatever its shape, and may fail for that one alone."""

    index: tuple[int, ...]
    read: Callable[[int], NDArray[Any]] = field(repr=False)


@dataclass(frozen=True, kw_only=True)
class Elsewhere(Explainer):
    """Stands in the tables for whatever made the heatmaps."""

    family = "other"
    cost = "unknown"
    called: str = "heatmaps"

    @property
    def label(self) -> str:
        return self.called

    def explain(self, model: torch.nn.Module, batch: Batch, rng: CaseRandom) -> torch.Tensor:
        raise HeatproofError("these heatmaps were made elsewhere; there is nothing to explain.")


@dataclass(kw_only=True, eq=False)
class Evaluation(Benchmark):
    """CLEVR-XAI without its network: questions, masks and the scores of given heatmaps."""

    name = "clevr-xai"
    title = "CLEVR-XAI: heatmaps made elsewhere"
    paper = "Arras, Osman and Samek 2022, CLEVR-XAI"
    metrics = rows.METRICS
    default_explainers = ()
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {}

    heatmaps: Heatmaps
    folder: Path
    questions: str
    poolings: Sequence[str]
    predictions: Path | None

    def prepare(self, progress: Progress = silent) -> None:
        self.data = open_dataset(self.folder)
        self.dataset = self.folder.resolve().name
        known = {question.index: question for question in self.data.questions(self.questions)}
        extra = sorted(set(self.heatmaps.index) - set(known))
        if extra:
            raise HeatproofError(
                f"{len(extra)} heatmap(s) are for {self.questions} questions that {self.folder} does not have:"
                f" {named(extra)}."
            )
        right = None if self.predictions is None else correct_answers(self.predictions, known)
        self.asked = [known[index] for index in sorted(self.heatmaps.index) if right is None or index in right]
        wanted = set(known) if right is None else right
        self.missing = sorted(wanted - set(self.heatmaps.index))
        if not self.asked:
            raise HeatproofError("no heatmap is left: none belongs to a correctly answered question.")
        self.size = mask_size(self.data, self.questions)
        self.kinds = rows.ground_truths(self.data, self.questions, self.size)

    def configuration(self) -> dict[str, Any]:
        return {
            "dataset": self.data.fingerprint(self.questions),
            "questions": self.questions,
            "poolings": list(self.poolings),
            "ground_truths": self.kinds,
            "predictions": None if self.predictions is None else str(self.predictions),
            "cases": len(self.asked),
        }

    def chunks(self) -> Sequence[Chunk]:
        return [
            Chunk(f"{self.questions}-{start:06d}", "elsewhere", min(CHUNK, len(self.asked) - start))
            for start in range(0, len(self.asked), CHUNK)
        ]

    def load(self, chunk: Chunk) -> Batch:
        raise HeatproofError("heatmaps made elsewhere have no inputs here.")

    def model_for(self, chunk: Chunk) -> torch.nn.Module:
        raise HeatproofError("heatmaps made elsewhere have no model here.")

    def score(self, batch: Batch, relevance: torch.Tensor, model: torch.nn.Module) -> pl.DataFrame:
        raise HeatproofError("heatmaps made elsewhere are scored chunk by chunk.")

    def score_chunk(self, chunk: Chunk) -> pl.DataFrame:
        """The rows of a chunk; a heatmap that cannot be used counts as NaN."""
        start = int(chunk.name.rpartition("-")[2])
        questions = self.asked[start : start + chunk.cases]
        found = [self.usable(question.index) for question in questions]
        channels = max([len(heatmap) for heatmap, _ in found if heatmap is not None], default=1)
        relevance = np.full((len(found), channels, *self.size), np.nan)
        for place, (heatmap, _) in enumerate(found):
            if heatmap is not None:
                relevance[place] = 0.0
                relevance[place, : len(heatmap)] = heatmap
        index = [question.index for question in questions]
        masks = {kind: self.data.masks(self.questions, kind).batch(index) for kind in self.kinds}
        ids = [f"{self.questions}-{question.index:06d}" for question in questions]
        problems = [problem for _, problem in found]
        return rows.score_table(ids, rows.question_facts(questions), relevance, masks, self.poolings, problems)

    def usable(self, index: int) -> tuple[NDArray[Any] | None, str]:
        """The heatmap (C, H, W), or None and what is wrong with it."""
        try:
            heatmap = np.asarray(self.heatmaps.read(index))
        except Exception as problem:  # damaged files fail in many ways, by their format
            return None, f"the heatmap cannot be read: {type(problem).__name__}: {problem}"
        if not (np.issubdtype(heatmap.dtype, np.floating) or np.issubdtype(heatmap.dtype, np.integer)):
            return None, f"the heatmap holds {heatmap.dtype}, not numbers"
        if heatmap.ndim == 2:
            heatmap = heatmap[None]
        if heatmap.ndim != 3 or len(heatmap) < 1 or heatmap.shape[1:] != self.size:
            height, width = self.size
            return None, (
                f"the heatmap has shape {heatmap.shape}, not (channels, {height}, {width}) or ({height}, {width});"
                " masks of another size: heatproof clevr ground-truth DATASET --size WxH"
            )
        return heatmap.astype(np.float64, copy=False), ""

    def subsets(self) -> Mapping[str, pl.Expr]:
        return rows.parts_of_questions(self.questions, probabilities=False)

    def columns(self) -> Sequence[Mapping[str, str]]:
        return rows.shown_columns(self.kinds[0], self.poolings)

    def notes(self, scores: pl.DataFrame, table: pl.DataFrame) -> list[str]:
        said = [f"{len(self.asked):,} heatmaps scored against {self.questions} questions."]
        if self.missing:
            said.append(f"{len(self.missing):,} questions have no heatmap: {named(self.missing)}.")
        bad = scores.filter(pl.col("undefined") != "").unique("case", maintain_order=True)
        if len(bad):
            reasons = [f"{row['question_index']}: {row['undefined']}" for row in bad.head(SHOWN).iter_rows(named=True)]
            said.append(f"{len(bad):,} questions have an undefined score: {'; '.join(reasons)}.")
        return said

    def reference(self) -> pl.DataFrame:
        return rows.poster().with_columns(target=pl.lit(""))


def evaluate(
    heatmaps: Path | str,
    *,
    dataset: Path | str,
    questions: str = "simple",
    poolings: Sequence[str] | None = None,
    predictions: Path | str | None = None,
    name: str | None = None,
    out: Path | str | None = None,
    progress: Progress = silent,
) -> Run:
    """Score heatmaps made elsewhere: `evaluate("maps", dataset="data", predictions="answers.json")`.

    `name` is what the tables call them (by default their file's name). What the output folder holds already is not
    computed again.
    """
    source = Path(heatmaps)
    chosen = list(known_poolings(poolings))
    made = Evaluation(
        heatmaps=open_heatmaps(source),
        folder=Path(dataset),
        questions=questions,
        poolings=chosen,
        predictions=None if predictions is None else Path(predictions),
    )
    explainer = Elsewhere(called=name or source.stem)
    store = Store(Path(out) if out is not None else Path("runs") / f"evaluate-{source.stem}")
    store.check_writable()
    made.prepare(progress)
    store.open(make_manifest(made, [explainer], 0), resume=True)
    units = store.missing([Unit(explainer, chunk) for chunk in made.chunks()])
    for done, unit in enumerate(units):
        progress("scoring heatmaps", done, len(units))
        scored = made.score_chunk(unit.chunk).with_columns(
            model=pl.lit(unit.chunk.model), explainer=pl.lit(explainer.label), target=pl.lit("")
        )
        store.write_part(unit, scored)
    progress("scoring heatmaps", len(units), len(units))
    return finish_run(made, store, 0, progress)


def known_poolings(names: Sequence[str] | None) -> Collection[str]:
    """The poolings of these names, all ten by default."""
    if names is not None and not names:
        raise HeatproofError("no pooling is named; leave --pooling out for all (heatproof list poolings).")
    for name in names or ():
        poolings[name]
    return names or list(poolings)


def open_heatmaps(path: Path) -> Heatmaps:
    """The heatmaps of a folder, a .npz archive, or a Zarr or HDF5 group; none is read yet."""
    if path.suffix in (".h5", ".hdf5"):
        return open_group(path, "h5py")
    if path.suffix == ".zarr":
        return open_group(path, "zarr")
    if path.is_dir():
        files = {entry.stem: entry for entry in path.iterdir() if entry.suffix == ".npy"}
        index = question_indices(path, files)
        return Heatmaps(index, lambda wanted: load_npy(path / f"{wanted}.npy"))
    if path.suffix == ".npz" and path.is_file():
        try:
            archive = np.load(path, allow_pickle=False)
        except (OSError, ValueError, zipfile.BadZipFile) as problem:
            raise HeatproofError(f"{path} is damaged or no .npz archive ({problem}).") from problem
        return Heatmaps(question_indices(path, archive.files), lambda wanted: archive[str(wanted)])
    said = "does not exist" if not path.exists() else "is neither a folder nor a .npz, .zarr, .h5 or .hdf5"
    raise HeatproofError(f"{path} {said}; give a folder of QUESTION_INDEX.npy, or an archive of heatmaps.")


def load_npy(path: Path) -> NDArray[Any]:
    loaded: NDArray[Any] = np.load(path, allow_pickle=False)
    return loaded


def open_group(path: Path, library: str) -> Heatmaps:
    """The arrays `heatmaps` and `question_index` of a Zarr or HDF5 group."""
    import importlib

    try:
        module: Any = importlib.import_module(library)
    except ImportError:
        raise HeatproofError(f"to read {path}, install {library}: pip install {library}") from None
    try:
        group = module.File(path, "r") if library == "h5py" else module.open_group(str(path), mode="r")
        index = [int(entry) for entry in np.asarray(group["question_index"])]
        array = group["heatmaps"]
    except Exception as problem:  # by library and version
        raise HeatproofError(
            f"{path} cannot be read as a group with heatmaps and question_index ({type(problem).__name__}: {problem})."
        ) from problem
    if len(index) != array.shape[0] or len(set(index)) != len(index):
        raise HeatproofError(f"{path}: question_index must name each of the {array.shape[0]} heatmaps once.")
    place = {entry: k for k, entry in enumerate(index)}
    return Heatmaps(tuple(index), lambda wanted: np.asarray(array[place[wanted]]))


def question_indices(path: Path, names: Collection[str]) -> tuple[int, ...]:
    strange = sorted(name for name in names if not name.isdecimal())
    if strange:
        raise HeatproofError(f"{path}: heatmaps are called by their question_index, not {strange[0]!r}.")
    if not names:
        raise HeatproofError(f"{path} holds no heatmaps (QUESTION_INDEX.npy).")
    return tuple(int(name) for name in names)


def correct_answers(path: Path, known: Mapping[int, Question]) -> set[int]:
    """The questions that are answered right by `[{"question_index": ..., "answer": ...}]`."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as problem:
        raise HeatproofError(f"{path} cannot be read as predictions ({problem}).") from problem
    if not isinstance(content, list):
        raise HeatproofError(f'{path} must be a list of {{"question_index": ..., "answer": ...}}.')
    right = set()
    for place, entry in enumerate(content):
        if not isinstance(entry, dict) or not isinstance(entry.get("question_index"), int) or "answer" not in entry:
            raise HeatproofError(f"{path}: entry {place} lacks question_index or answer.")
        if entry["question_index"] not in known:
            raise HeatproofError(f"{path}: there is no question {entry['question_index']} in the data set.")
        if rows.answer_word(entry["answer"]) == rows.answer_word(known[entry["question_index"]].answer):
            right.add(entry["question_index"])
    return right


def mask_size(data: Any, questions: str) -> tuple[int, int]:
    """The size of the data set's masks for these questions."""
    if questions not in KINDS:
        raise unknown_name("question set", questions, KINDS)
    masks = data.masks(questions, next(iter(KINDS[questions])))
    height, width = masks.batch([int(masks.question_index[np.flatnonzero(masks.available)[0]])]).shape[1:]
    return int(height), int(width)


def named(indices: Sequence[int]) -> str:
    """The first few, and that there are more."""
    return ", ".join(map(str, indices[:SHOWN])) + (" ..." if len(indices) > SHOWN else "")
