"""SVEA: A Small-scale Benchmark for Validating the Usability of Post-hoc Explainable AI Solutions."""

from __future__ import annotations

import json
import re

import numpy as np

from papers.kinds import Done, Line, Reading, percent, published

RUN = "heatproof run svea"
METHODS = {
    "gradient": "Vanilla Gradient",
    "xgrad_cam": "XGrad-CAM",
    "score_cam": "Score-CAM",
    "grad_cam": "Grad-CAM",
    "grad_cam_pp": "Grad-CAM++",
    "sise": "SISE",
    "integrated_gradients": "Integrated Gradients",
    "rise": "RISE",
}
SCORES = {"roe_accuracy": "ROE", "drop": "Drop", "increase": "Increase"}


def of_method(explainer: str) -> Line:
    """A column of Table 1."""
    paper = ", ".join(f"{word} {percent(published('svea', explainer, m))}" for m, word in SCORES.items())

    def ours(done: Done) -> str:
        means = {m: done.mean("svea", explainer, m, target="probability") for m in SCORES}
        return ", ".join(f"{word} {percent(means[m])}" for m, word in SCORES.items())

    return Line("Table 1", f"{METHODS[explainer]}: ROE test, Drop, Increase", RUN, paper, ours)


def best_first(done: Done) -> str:
    lines = done.board("svea", metric="roe_accuracy", target="probability").sort("mean", descending=True)
    names = lines["explainer"].str.split(":").list.first().unique(maintain_order=True).to_list()
    return ", ".join(METHODS[name] for name in names if name in METHODS)


def raw(done: Done) -> str:
    return percent(done.mean("svea", "raw_input", "roe_accuracy"))


def signals(done: Done) -> str:
    found = done.board("svea", explainer="rise", metric="drop", target="probability")["n"][0]
    with np.load(done.place("regions") / "rise@probability.npz") as regions:
        return f"{len(regions['x']):,} signals, {found:,} of them to test"


def regions(done: Done) -> str:
    found = sorted(done.place("regions").glob("*.npz"))
    with np.load(found[0]) as arrays:
        return f"{len(found)} files of regions {arrays['x'].shape}"


def classifiers(done: Done) -> str:
    """Each one's accuracy with its interval, the first columns of the printed table."""
    rows = [re.split(r"\s{2,}", line.strip()) for line in done.printed["classifiers"].splitlines()]
    return "; ".join(f"{row[0]} {row[1]} ({row[2]})" for row in rows if len(row) > 2 and row[1].endswith("%"))


def accuracy(done: Done) -> str:
    """What the run's first section says of its network."""
    section, *_ = json.loads((done.place("svea") / "run.json").read_text())["story"]["sections"]
    return " ".join(block["text"] for block in section["blocks"] if block["kind"] == "paragraph")


def notes(*words: str) -> Reading:
    """The notes of the run that have one of these words."""

    def read(done: Done) -> str:
        said = json.loads((done.place("svea") / "run.json").read_text())["story"]["notes"]
        return " ".join(note for note in said if any(word in note for word in words)).replace("|", "/")

    return read


def literal(done: Done) -> str:
    usual, steps = (done.mean(step, "raw_input", "roe_accuracy") for step in ("fewer", "literal"))
    means = [
        abs(done.mean("literal", name, "roe_accuracy", target="probability") -
            done.mean("fewer", name, "roe_accuracy", target="probability"))
        for name in ("gradient", "integrated_gradients")
    ]  # fmt: skip
    return (
        f"whole signals {percent(steps)} (usual solver {percent(usual)}); regions {percent(max(means))} apart at most"
    )


SVEA = [
    Line("Section 3", "MNIST-1D: 4,000 training and 1,000 test signals of 40 points", RUN, "5,000 signals", signals),
    Line("Figure 3", "how well classifiers of different kinds know the digits", "heatproof svea classifiers",
         "linear SVM 29.7 %, CNN 87.7 %", classifiers),
    Line("Section 4", "the network's accuracy: 13,960 parameters, 200 epochs of SGD", RUN, "87.7 %", accuracy),
    Line("Equation 1", "the region of explanation, as a data set D_g of each method", "heatproof export RUN --to roe",
         "12 of 40 points", regions),
    Line("Section 4", "the linear SVM on whole signals", RUN, "29.7 %", raw),
    Line("Section 4", "the squared hinge by 10,000 gradient steps", "heatproof run svea --svm literal",
         "17.9 seconds for a method", literal),
    *[of_method(explainer) for explainer in METHODS],
    Line("Table 1", "the methods by the ROE test, best first", RUN,
         "RISE, Integrated Gradients, SISE, Grad-CAM++, Grad-CAM, Score-CAM, XGrad-CAM, Vanilla Gradient", best_first),
    Line("Table 1", "the same with the paper's own weights", "heatproof run svea --weights FILE", "as above",
         "the weights are not ours to ship; [what came of them](svea.md#on-the-papers-own-weights)"),
    Line("Section 5.2", "ROE, Drop and Increase order methods alike", RUN, "said in words",
         notes("Spearman", "correlation", "Rank")),
    Line("Figure 6", "signals that are seen right and wrong, with region and template",
         "heatproof show svea --pick wrong --count 4", "a figure", lambda done: "a picture, and the page of the run"),
    Line("supplement", "heatmaps of a network in another framework", "heatproof evaluate DIR --benchmark svea",
         "the authors use TensorFlow", "it takes heatmaps that do not ship; the tests do it without torch"),
]  # fmt: skip
