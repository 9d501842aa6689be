"""A reasoner that makes no mistake: which objects its answer needs, and how masks fare by that."""

from __future__ import annotations

import json
from itertools import product
from types import SimpleNamespace

import numpy as np
import pytest

from heatproof.benchmarks.clevr_removal.effects import Asked
from heatproof.clevr import open_dataset
from heatproof.clevr.ground_truth import KINDS
from heatproof.clevr.questions.world import ATTRIBUTES, look_at
from heatproof.clevr.shipped import shipped_dataset
from heatproof.cli.clevr_effects import effects, without_mistakes
from heatproof.experiments.effects import Truth, is_needed, object_rows
from reference import clevr_programs


def literal_needed(question) -> set[int]:
    """The scene's JSON without each object, and the program executed on that by lists and loops."""
    scene = json.loads(json.dumps(question.scene))
    right = clevr_programs.outputs(question.program, scene)[-1]
    needed = set()
    for gone in range(len(scene["objects"])):
        kept = [place for place in range(len(scene["objects"])) if place != gone]
        rows = scene["relationships"].items()
        related = {name: [[kept.index(k) for k in row[place] if k != gone] for place in kept] for name, row in rows}
        less = {"objects": [scene["objects"][place] for place in kept], "relationships": related}
        try:
            answer = clevr_programs.outputs(question.program, less)[-1]
        except clevr_programs.InvalidError:
            answer = "none"
        if answer != right:
            needed.add(gone)
    return needed


@pytest.mark.parametrize("name", ["simple", "complex"])
def test_an_object_is_needed_if_the_right_answer_is_another_without_it(name):
    """Reference: every question that ships, literally."""
    questions = open_dataset(shipped_dataset()).questions(name)
    found = [{k for k in range(len(q.scene["objects"])) if is_needed(q, k)} for q in questions]
    assert found == [literal_needed(question) for question in questions]
    assert any(not objects for objects in found) == (name == "complex")
    if name == "simple":
        marked = [KINDS["simple"]["single_object"](q.program, len(q.scene["objects"])) for q in questions]
        assert found == marked, "a simple question needs the one object that it asks about"


def test_descriptions_fit_what_is_left():
    """Reference: every description that fits, object by object."""
    scene = open_dataset(shipped_dataset()).questions("complex")[0].scene
    things = [tuple(thing[name] for name in ATTRIBUTES) for thing in scene["objects"]]
    for gone in range(len(things)):
        expected: dict = {}
        for place, thing in enumerate(things):
            for left_open in product((True, False), repeat=len(thing)) if place != gone else ():
                told = tuple(None if is_open else value for is_open, value in zip(left_open, thing, strict=True))
                expected[told] = expected.get(told, 0) | 1 << place
        assert look_at(scene).without(gone).descriptions == expected


@pytest.fixture(scope="module")
def measured() -> list[Asked]:
    """Complex questions about ten scenes, with effects at random."""
    rng, found = np.random.default_rng(0), []
    for question in open_dataset(shipped_dataset()).questions("complex")[:100]:
        count = len(question.scene["objects"])
        logit = rng.normal(size=count) + 2 * np.isin(range(count), list(literal_needed(question)))
        found.append(Asked(question, np.zeros(1), 0, 1.0, {"logit": logit, "probability": logit}, (0,) * count))
    return found


def test_masks_are_held_against_what_is_needed(measured):
    """Reference: counted by hand, question by question."""
    network = SimpleNamespace(name="by chance", answers=("yes",))
    truth = Truth(object_rows(network, measured), "by chance", 0.5)
    lines = {row["mask"]: row for row in truth.table().iter_rows(named=True) if row["questions_of"] == "all"}
    assert set(lines) == {"unique", "unique_first_nonempty", "union"}
    for kind, line in lines.items():
        passed = {"above": [], "each": [], "support_above": [], "support_each": [], "right_above": [], "right_each": []}
        for one in measured:
            marked = one.marked()[kind]
            if not 0 < len(marked) < len(one.others) or max(abs(one.effects["logit"])) < 0.1:
                continue
            needed = literal_needed(one.question)
            for prefix, sizes in (
                ("", abs(one.effects["logit"])),
                ("support_", one.effects["logit"]),
                ("right_", [float(place in needed) for place in range(len(one.others))]),
            ):
                inside = [sizes[place] for place in range(len(one.others)) if place in marked]
                outside = [sizes[place] for place in range(len(one.others)) if place not in marked]
                passed[f"{prefix}above"].append(np.mean(inside) > np.mean(outside))
                passed[f"{prefix}each"].append(min(inside) > max(outside))
        assert line["questions"] == len(passed["above"]) > 50
        del passed["support_each"]
        for name, hits in passed.items():
            assert line[name] == pytest.approx(np.mean(hits))
        for name in ("above", "each"):
            where = [hit for hit, right in zip(passed[name], passed[f"right_{name}"], strict=True) if right]
            assert line[f"{name}_where_right"] == pytest.approx(np.mean(where))


def test_the_command_says_what_can_be_asked_of_a_network(measured, monkeypatch, capsys):
    network = SimpleNamespace(name="by chance", answers=("yes",))
    truth = Truth(object_rows(network, measured), "by chance", 0.5)
    monkeypatch.setattr("heatproof.experiments.effects.measure_truth", lambda *_: truth)
    effects(questions="complex", show=0, quiet=True)
    said = " ".join(capsys.readouterr().out.split())
    for line in truth.table().iter_rows(named=True):
        assert (without_mistakes(line) in said) == (line["questions_of"] == "all")
    shares = {"support_above": 0.25, "right_above": 0.75, "above_where_right": 0.5, "right_each": 0.0}
    assert without_mistakes({"mask": "m", "each_where_right": None} | shares) == (
        "m: marked above, effects with their sign: 25.0%; a reasoner that makes no mistake: marked above 75.0%"
        " (there, the network: 50.0%), each above 0.0%."
    )
