"""A run whose classes, files, network and explainers have names that would act, if they were let."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import torch
from PIL import Image

import heatproof

CLASSES = (
    "=cmd|' /C calc'!A0",
    "<script>window.hacked=1</script>",
    "[/bold][link=file:///etc/passwd]x",
    "\x1b[2J\x1b]0;wiped\x07\u202ename",
    "a|b`c`**d** [e](javascript:alert(1)) <img src=x onerror=window.hacked=1>",
    "\\input{x}$_{&%#^~",
)
EXPLAINER = "=HYPERLINK(0)|<b onmouseover=window.hacked=1>`[/red]\x1b[31m$x_{1}$@book{a}"
NETWORK = "=Net[bold]<script>window.hacked=1\x1b[2J"
ACTING = ("\x1b", "\x07", "\u202e", "<script>window", "<img src=x", "<b onmouseover")
"""What must not come out as it is."""


class Network(torch.nn.Sequential):
    """A network whose class has such a name too."""


Network.__name__ = NETWORK


def tiny_network() -> torch.nn.Module:
    torch.manual_seed(0)
    return Network(
        torch.nn.Conv2d(3, 6, 3, padding=1), torch.nn.ReLU(), torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten()
    )


def write_pictures(folder: Path) -> Path:
    """Small pictures of each class, and the CSV that names the classes."""
    folder.mkdir()
    rng = np.random.default_rng(0)
    rows = [["filename", "label"]]
    for place, label in enumerate(CLASSES):
        for number in range(4):
            name = f"{place}-{number}-<script>=1.png"
            Image.fromarray(rng.integers(0, 255, (32, 32, 3), dtype=np.uint8)).save(folder / name)
            rows.append([name, label])
    table = folder / "pictures.csv"
    with table.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows(rows)
    return table


def hostile_run(folder: Path) -> heatproof.Run:
    """Focus on these pictures, with an explainer that is called so too."""

    def explain(model, inputs, target):
        inputs = inputs.detach().requires_grad_()
        (gradient,) = torch.autograd.grad(model(inputs).gather(1, target[:, None]).sum(), inputs)
        return gradient * inputs.detach()

    explain.__name__ = EXPLAINER
    labels = {label: place for place, label in enumerate(sorted(CLASSES))}
    return heatproof.run(
        "focus", images=write_pictures(folder / "pictures"), model=(tiny_network(), {"labels": labels}), tile=32,
        per_class=3, explainers=["gradient", explain, "random"], target="logit", out=folder / "run <i>=1", jobs=1,
    )  # fmt: skip
