"""Score heatmaps made elsewhere, in any framework, against a CLEVR-XAI data set. Needs no torch.

Heatmaps come as a folder of `QUESTION_INDEX.npy`, as a `.npz` whose names are question indices, or as a Zarr or HDF5
group that holds `heatmaps` (N, ...) and `question_index` (N,). They are read a few at a time. One that cannot be used
costs its own scores, and its rows say why.
"""

from __future__ import annotations

import hashlib
import json
import zipfile
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from heatproof.benchmarks import clevr_xai_rows as rows
from heatproof.benchmarks.base import Benchmark
from heatproof.clevr.answers import in_words
from heatproof.clevr.files import Dataset, open_dataset
from heatproof.clevr.ground_truth import KINDS
from heatproof.engine.parts import ScoreRows
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
READ_AT_ONCE = 1000
SHOWN = 5


@dataclass(frozen=True)
class Heatmaps:
    """Heatmaps by question index; `read` gives one, whatever its shape, and may fail for that one alone."""

    index: tuple[int, ...]
    read: Callable[[int], NDArray[Any]] = field(repr=False)
    stamp: str
    """Changes when the files do, so that scores of changed heatmaps are not taken for theirs."""


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
        facts = question_table(self.data, self.questions)
        known = dict(facts.select("question_index", "answer").rows())
        there = set(self.heatmaps.index)
        if not there & set(known):
            raise HeatproofError(
                f"none of the {len(there):,} heatmaps is for one of the {self.questions} questions of {self.folder}:"
                f" their questions are {named(sorted(there))}. Is it the right data set, and --questions?"
            )
        self.left_out = [
            ("Heatmaps for questions that the data set does not have, left out", sorted(there - set(known)))
        ]
        wanted = set(known)
        if self.predictions is not None:
            answers = read_predictions(self.predictions)
            wanted = {k for k in wanted & set(answers) if in_words(answers[k]) == known[k]}
            self.left_out += [
                (
                    "Predictions for questions that the data set does not have, left out",
                    sorted(set(answers) - set(known)),
                ),
                ("Heatmaps of questions without a prediction, left out", sorted(there & set(known) - set(answers))),
            ]
            if not wanted & there:
                raise HeatproofError(f"no heatmap is left: {self.predictions} answers none of their questions right.")
        self.asked = facts.filter(pl.col("question_index").is_in(list(wanted & there))).sort("question_index")
        self.missing = sorted(wanted - there)
        self.size = mask_size(self.data, self.questions)
        self.kinds = rows.ground_truths(self.data, self.questions, self.size)

    def configuration(self) -> dict[str, Any]:
        return {
            "dataset": self.data.fingerprint(self.questions),
            "questions": self.questions,
            "poolings": list(self.poolings),
            "ground_truths": self.kinds,
            "predictions": None if self.predictions is None else hash_of(self.predictions.read_bytes()),
            "heatmaps": self.heatmaps.stamp,
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
        index = questions["question_index"].to_list()
        found = [self.usable(question) for question in index]
        channels = max([len(heatmap) for heatmap, _ in found if heatmap is not None], default=1)
        relevance = np.full((len(found), channels, *self.size), np.nan)
        for place, (heatmap, _) in enumerate(found):
            if heatmap is not None:
                relevance[place] = 0.0
                relevance[place, : len(heatmap)] = heatmap
        masks = {kind: self.data.masks(self.questions, kind).batch(index) for kind in self.kinds}
        ids = [f"{self.questions}-{question:06d}" for question in index]
        problems = [problem for _, problem in found]
        return rows.score_table(ids, questions.to_dict(as_series=False), relevance, masks, self.poolings, problems)

    def usable(self, index: int) -> tuple[NDArray[Any] | None, str]:
        """The heatmap (C, H, W), or None and what is wrong with it."""
        try:
            heatmap = np.asarray(self.heatmaps.read(index))
        except Exception as problem:  # damaged files fail in many ways, by their format
            return None, f"the heatmap cannot be read: {type(problem).__name__}: {problem}"
        if heatmap.dtype.kind not in "bfiu":  # truth values, floats and integers
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

    def notes(self, scores: ScoreRows, table: pl.DataFrame) -> list[str]:
        said = [f"{len(self.asked):,} heatmaps scored against {self.questions} questions."]
        listed = [*self.left_out, ("Questions without a heatmap", self.missing)]
        said += [f"{what}: {len(index):,} ({named(index)})." for what, index in listed if index]
        bad: dict[int, str] = {}
        for part in scores:
            undefined = part.filter(pl.col("undefined") != "").unique("case", maintain_order=True)
            bad |= undefined.select("question_index", "undefined").rows()
        if bad:
            reasons = [f"{index}: {reason}" for index, reason in bad.items()]
            said.append(f"Questions with an undefined score: {len(bad):,} ({named(reasons, '; ')}).")
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
    resume: bool = True,
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
    store.open(make_manifest(made, [explainer], 0), resume)
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
        files = by_question(path, [entry.stem for entry in path.iterdir() if entry.suffix == ".npy"])
        return Heatmaps(tuple(files), lambda wanted: load_npy(path / f"{files[wanted]}.npy"), stamp(path))
    if path.suffix == ".npz" and path.is_file():
        try:
            archive = np.load(path, allow_pickle=False)
        except (OSError, ValueError, zipfile.BadZipFile) as problem:
            raise HeatproofError(f"{path} is damaged or no .npz archive ({problem}).") from problem
        names = by_question(path, archive.files)
        return Heatmaps(tuple(names), lambda wanted: archive[names[wanted]], stamp(path))
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
    return Heatmaps(tuple(index), lambda wanted: np.asarray(array[place[wanted]]), stamp(path))


def by_question(path: Path, names: Collection[str]) -> dict[int, str]:
    """Names by the question index that they are; `7` and `007` are the same."""
    if not names:
        raise HeatproofError(f"{path} holds no heatmaps (QUESTION_INDEX.npy).")
    found: dict[int, str] = {}
    for name in sorted(names):
        if not name.isdecimal():
            raise HeatproofError(f"{path}: heatmaps are called by their question_index, not {name!r}.")
        if int(name) in found:
            raise HeatproofError(f"{path} has two heatmaps for question {int(name)}: {found[int(name)]} and {name}.")
        found[int(name)] = name
    return found


def stamp(path: Path) -> str:
    """A hash of names, sizes and dates of a file, or of all files in a folder."""
    files = sorted(entry for entry in path.rglob("*") if entry.is_file()) if path.is_dir() else [path]
    about = [(str(file.relative_to(path)), file.stat().st_size, file.stat().st_mtime_ns) for file in files]
    return hash_of(repr(about).encode())


def hash_of(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]


def read_predictions(path: Path) -> dict[int, Any]:
    """Answers by question index, from `[{"question_index": ..., "answer": ...}]`."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as problem:
        raise HeatproofError(f"{path} cannot be read as predictions ({problem}).") from problem
    if not isinstance(content, list):
        raise HeatproofError(f'{path} must be a list of {{"question_index": ..., "answer": ...}}.')
    answers: dict[int, Any] = {}
    for place, entry in enumerate(content):
        if not isinstance(entry, dict) or not isinstance(entry.get("question_index"), int) or "answer" not in entry:
            raise HeatproofError(f"{path}: entry {place} lacks question_index or answer.")
        if entry["question_index"] in answers:
            raise HeatproofError(f"{path}: question {entry['question_index']} is answered twice.")
        answers[entry["question_index"]] = entry["answer"]
    return answers


def question_table(data: Dataset, name: str) -> pl.DataFrame:
    """What is known of each question, a row each; their programs are not kept, which take most of the memory."""
    frames, questions = [], data.each_question(name)
    while some := list(islice(questions, READ_AT_ONCE)):
        frames.append(pl.DataFrame(rows.question_facts(some)))
    return pl.concat(frames)


def mask_size(data: Dataset, questions: str) -> tuple[int, int]:
    """The size of the data set's masks for these questions."""
    if questions not in KINDS:
        raise unknown_name("question set", questions, KINDS)
    kind = next(iter(KINDS[questions]))
    masks = data.masks(questions, kind)
    there = np.flatnonzero(masks.available)
    if not len(there):
        raise HeatproofError(f"no {questions} question of {data.folder} has a {kind} mask.")
    height, width = masks.batch([int(masks.question_index[there[0]])]).shape[1:]
    return int(height), int(width)


def named(entries: Sequence[object], between: str = ", ") -> str:
    """The first few, and that there are more."""
    return between.join(map(str, entries[:SHOWN])) + f"{between}..." * (len(entries) > SHOWN)
