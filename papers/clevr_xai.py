"""CLEVR-XAI: Ground Truth Evaluation of Neural Network Explanations, as its poster has it."""

from __future__ import annotations

import json

import polars as pl

from heatproof.benchmarks.references import read_reference
from heatproof.experiments.poster import TITLES
from papers.kinds import Done, Line, Reading

RUN = "heatproof run clevr-xai"
SUBSETS = {"all": "all", "probability>0.99999": "confident", "mask>1000": "large"}
CHOSEN = {"metric": "mass_accuracy", "ground_truth": "single_object", "pooling": "pos_l2_norm_sq"}


def of_method(explainer: str) -> Line:
    """A row of the poster's table: all questions, confident answers, large objects."""

    def words(table: pl.DataFrame, mean: str, std: str, median: str) -> str:
        found = []
        for subset, name in SUBSETS.items():
            rows = table.filter(subset=subset)
            if len(rows) and rows[mean][0] is not None:
                row = rows.row(0, named=True)
                # The poster's own lines have no number of questions.
                count = f" of {row['n']}" if row.get("n") else ""
                found.append(f"{name}{count} {row[mean]:.2f} ({row[std]:.2f}) {row[median]:.2f}")
        return ", ".join(found)

    paper = read_reference("clevr_xai").filter(explainer=explainer)

    def ours(done: Done) -> str:
        lines = pl.concat([done.board("clevr", **CHOSEN, subset=subset) for subset in SUBSETS])
        lines = lines.filter(pl.col("explainer").str.split(":").list.first() == explainer)
        return words(lines, "mean", "std", "median")

    return Line(
        "table",
        f"{TITLES[explainer]}: relevance mass on the object, mean (standard deviation) median",
        RUN,
        words(paper, "reference", "reference_std", "reference_median"),
        ours,
    )


def claim(words: str) -> Line:
    """One of the poster's sentences, and whether it holds."""

    def read(done: Done) -> str:
        lines = done.printed["poster"].splitlines()
        place = lines.index(words)
        return lines[place + 1].strip().removeprefix("here it ")

    return Line("claim", words, "heatproof clevr poster RUN", "holds, by its authors", read)


def reach(done: Done) -> str:
    found = pl.read_csv(done.place("clevr") / "sections" / "poster" / "reach.csv")
    words = []
    for column, what in (("mean", "highest mean"), ("reached", "most questions at .99 or more")):
        row = found.sort(column, descending=True).row(0, named=True)
        words.append(f"{what} {row[column]:.2f} ({row['explainer'].partition(':')[0]})")
    return "; ".join(words)


def poolings(done: Done) -> str:
    found = done.board("clevr", metric="mass_accuracy", ground_truth="single_object")["pooling"].n_unique()
    return f"{found}"


def same_scores(done: Done) -> str:
    keys = ["explainer", "metric", "ground_truth", "pooling"]
    both = done.board("clevr").join(done.board("again"), on=keys)
    gap = (both["mean"] - both["mean_right"]).abs().max()
    return f"{len(both)} means, greatest difference {gap:.0e}"


def questions(kind: str) -> Reading:
    def read(done: Done) -> str:
        found = json.loads(done.printed["stats"])
        count = found["sets"][kind]["questions"]
        return f"{count / found['scenes']:.2f} for each of {found['scenes']} scenes"

    return read


def masks(kind: str) -> Reading:
    """How many questions have a mask, as `ground-truth` printed it."""

    def read(done: Done) -> str:
        line = next(line for line in done.printed["truth"].splitlines() if f"/{kind}.npy" in line)
        have, _, of = line.partition(": ")[2].split()[:3]
        return f"{100 * int(have) / int(of):.1f} % of {of}"

    return read


RENDER = "heatproof clevr render DIR --num-images 10000"
ASK = "heatproof clevr ask DIR --set {}"
TRUTH = "heatproof clevr ground-truth DIR"
CLEVR_XAI = [
    Line("data set", "scenes of 3 to 10 objects, pictures and object masks", RENDER, "10,000 scenes, 480 x 320",
         lambda done: done.printed["render"].partition(": ")[2].partition(" made")[0]),
    Line("data set", "simple questions", ASK.format("simple"), "39,761, 3.98 for a scene", questions("simple")),
    Line("data set", "complex questions", ASK.format("complex"), "100,000, 10 for a scene", questions("complex")),
    Line("ground truth", "Single Object", TRUTH, "100 %", masks("simple_single_object")),
    Line("ground truth", "All Objects", TRUTH, "100 %", masks("complex_all_objects")),
    Line("ground truth", "Unique", TRUTH, "89.9 %", masks("complex_unique")),
    Line("ground truth", "Unique First-non-empty", TRUTH, "99.8 %", masks("complex_unique_first_nonempty")),
    Line("ground truth", "Union", TRUTH, "99.8 %", masks("complex_union")),
    Line("methods", "poolings of three channels into one value", RUN, "10", poolings),
    Line("network", "a Relation Network trained on CLEVR", "heatproof train relation-network DIR",
         "accuracy not published", "a GPU's work; what a short training reaches is in [the networks](clevr-xai.md)"),
    *[of_method(explainer) for explainer in TITLES],
    *[claim(words) for words in (
        "LRP and Integrated Gradients have the highest means", "LRP has the lowest variance",
        "Deconvnet and Grad-CAM have the lowest means", "Methods of the gradient have the highest variance",
        "Accuracy rises with the network's confidence", "Accuracy rises with the object's size",
        "No method reaches 1.0")],
    Line("open question", "can a method reach 1.0?", "heatproof clevr poster RUN", "asked", reach),
    Line("code", "heatmaps that were stored give the same scores", "heatproof evaluate RUN",
         "the authors' script scores files", same_scores),
    Line("data set", "the released questions and masks themselves", RUN + " --dataset DIR --weights FILE",
         "see the table", "the release and the paper's network do not ship"),
]  # fmt: skip
