"""What each parameter of an explainer does, in words: from the columns of its docstring, or from this list.

A docstring has a line for what is peculiar to its method (`summary  over the copies: mean, ...`). What several methods
share, or what a formula says already, is said here once.
"""

from __future__ import annotations

import inspect
import re

from heatproof.explainers.base import Explainer

COLUMN = re.compile(r"^(\w+(?:, \w+)*)\s{2,}(\S.*)$")
"""A line that describes one or more parameters: names, at least two blanks, words."""

SHARED = {
    "quantity": "the score that is explained: logit, probability or log_probability; in a run, --target says it",
    "layer": "the layer that is read, by name; without it the last one with places (heatproof show svea --layers)",
    "relus": "which ReLUs pass back positive signals only: all, or convs, those behind convolutions",
    "gradients": "all, or positive: only those above zero count",
    "samples": "how many noisy copies",
    "sigma": "the noise's standard deviation, as a share of the input's range",
    "of": "the other explainer, with its parameters",
    "mask": "the name of the ground truth; without it there must be exactly one",
    "masks": "how many random masks",
    "cells": "cells of a mask's grid along each dimension",
    "p": "how likely a cell is kept",
    "mu": "maps whose mean gradient is at most mu times the largest are left out",
    "biases": "whether biases take their share",
    "epsilon": "keeps quotients from growing where their denominators are small",
}
OWN = {
    ("chefer", "weights"): "attention itself, or its relevance by LRP, which takes two more passes",
    ("true_effects", "truth"): "which effects: logit or probability, with their sign, or _abs behind it for their size",
    ("true_effects", "over"): "mean: all of each object is painted; sum: as many places of each as the smallest has",
    ("grad_cam_pp", "alpha"): "plain, or normalised: divided by its sum over space",
    ("lime", "samples"): "how many inputs with hidden segments are asked about",
    ("lime", "width"): "how fast samples lose weight with their distance from showing everything",
    ("lime", "alpha"): "the ridge penalty",
    ("lrp", "gamma"): "in the rule gamma, contributions of the output's own sign count 1 + gamma times",
    ("lrp", "low"): "the least value that inputs can have, for the rule box",
    ("lrp", "high"): "the largest value that inputs can have, for the rule box",
    ("kernel_shap", "samples"): "how many coalitions are asked about, at most",
}


def parameter_words(cls: type[Explainer], name: str) -> str:
    """What this parameter does; empty where nobody has said it."""
    return OWN.get((cls.name, name)) or columns(cls).get(name) or SHARED.get(name, "")


def columns(cls: type[Explainer]) -> dict[str, str]:
    """The parameters that the docstring describes in columns; a line that is set in goes on with the one before."""
    found: dict[str, str] = {}
    names: list[str] = []
    for line in inspect.cleandoc(cls.__doc__ or "").splitlines():
        match = COLUMN.match(line)
        if match:
            names = match[1].split(", ")
            found.update(dict.fromkeys(names, match[2]))
        elif names and line.startswith("  "):
            found.update({name: f"{found[name]} {line.strip()}" for name in names})
        else:
            names = []
    return found
