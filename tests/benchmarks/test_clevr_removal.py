"""CLEVR without each object, on scenes that ship: effects, score rows, the page, and what is refused."""

from __future__ import annotations

import json
import shutil

import numpy as np
import polars as pl
import pytest
import torch

import heatproof
from heatproof.benchmarks.clevr_removal import ClevrRemoval
from heatproof.benchmarks.clevr_removal.benchmark import PAINTED
from heatproof.benchmarks.clevr_removal.effects import ask_each, measure
from heatproof.benchmarks.clevr_removal.painted import ObjectBatch
from heatproof.benchmarks.clevr_removal.rows import shown_columns
from heatproof.benchmarks.clevr_removal.words import agreement, asked_changes, consistency
from heatproof.clevr import open_dataset
from heatproof.clevr.changed_pictures import folder_of, look_of, make_changed, wanted_of
from heatproof.clevr.ground_truth import make_masks
from heatproof.clevr.shipped import shipped_dataset
from heatproof.errors import HeatproofError
from heatproof.experiments.effects import measure_truth, uncovered, weighted_medians
from heatproof.models.vqa import film_network
from heatproof.testing import check_benchmark

SCENES = 2
KEPT = ("CLEVR_scenes.json", "CLEVR-XAI_simple_questions.json")


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """Two of the scenes that ship, with their pictures without each object."""
    folder, source = tmp_path_factory.mktemp("removal") / "world", shipped_dataset()
    folder.mkdir()
    scenes = json.loads((source / KEPT[0]).read_text())
    scenes["scenes"] = scenes["scenes"][:SCENES]
    names = [scene["image_filename"] for scene in scenes["scenes"]]
    questions = json.loads((source / KEPT[1]).read_text())
    questions["questions"] = [entry for entry in questions["questions"] if entry["image_filename"] in names]
    for name, content in zip(KEPT, (scenes, questions), strict=True):
        (folder / name).write_text(json.dumps(content))
    for kind in ("images", "objects"):
        (folder / kind).mkdir()
        for name in names:
            shutil.copy(source / kind / name, folder / kind / name)
    data = open_dataset(folder)
    make_masks(data, (128, 128))
    make_changed(wanted_of(data.scenes.values()), folder_of(data), look_of(data))
    return folder


@pytest.fixture(scope="module")
def recipe(world) -> ClevrRemoval:
    return ClevrRemoval(dataset=str(world))


@pytest.fixture(scope="module")
def run(recipe, tmp_path_factory) -> heatproof.Run:
    ceilings = [f"{PAINTED}:TrueEffects", f"{PAINTED}:TrueEffects:over=sum", f"{PAINTED}:ObjectSize"]
    return heatproof.run(
        recipe, explainers=["gradient", "constant", *ceilings], out=tmp_path_factory.mktemp("run") / "r"
    )


def test_effects_are_what_the_logit_loses(recipe, world):
    """Reference: the network asked by hand about the files of the pictures, in a batch."""
    from PIL import Image

    opened = recipe.open(0)
    network, one = opened.network, opened.measured[0]
    stem = str(one.question.record["image_filename"]).removesuffix(".png")
    files = [world / "images" / f"{stem}.png", *sorted((world / "interventions" / "remove").glob(f"{stem}_*.png"))]
    assert len(files) == 1 + len(one.question.scene["objects"])
    pictures = np.stack([np.asarray(Image.open(file).convert("RGB")) for file in files])
    inputs = torch.as_tensor(pictures.transpose(0, 3, 1, 2).astype(np.float32) / 255)
    with torch.no_grad():
        logits = network.module(inputs, network.encode(one.question.text).expand(len(files), -1)).double()
    assert one.answer == logits[0].argmax()
    said = logits[:, one.answer]
    assert one.effects["logit"] == pytest.approx((said[0] - said[1:]).numpy(), abs=1e-4)
    chance = logits.softmax(1)[:, one.answer]
    assert one.effects["probability"] == pytest.approx((chance[0] - chance[1:]).numpy(), abs=1e-5)
    assert list(one.others) == logits[1:].argmax(1).tolist()


def test_what_cannot_be_seen_has_an_effect_of_exactly_zero(recipe):
    opened = recipe.open(0)
    one = opened.measured[0]
    found = ask_each(opened.network, one.question, [one.picture, one.picture.copy(), 255 - one.picture])
    assert found.effects["logit"][0] == 0.0
    assert found.effects["probability"][0] == 0.0
    assert found.effects["logit"][1] != 0.0


def test_the_benchmark_keeps_the_contract(recipe):
    check_benchmark(recipe)


def test_ceilings_score_one_where_they_must(run):
    table = run.leaderboard().filter((pl.col("subset") == "all") & (pl.col("ground_truth") == "logit_abs"))
    for over, label in (("mean", "true_effects"), ("sum", "true_effects:over=sum")):
        lines = table.filter((pl.col("explainer") == label) & pl.col("metric").str.ends_with(f"_{over}"))
        assert lines["metric"].n_unique() == 3
        assert set(lines.filter(pl.col("pooling") != "signed")["mean"]) == {1.0}
    uniform = table.filter((pl.col("explainer") == "constant") & (pl.col("metric") == "effect_kendall_mean"))
    assert uniform["mean"].is_null().all()
    assert set(uniform["mean_all"]) == {0.0}


def test_every_score_is_there_for_all_poolings(run, recipe):
    table = run.leaderboard().filter((pl.col("subset") == "all") & (pl.col("explainer") == "gradient"))
    for metric in recipe.metrics:
        lines = table.filter(pl.col("metric") == metric)
        assert set(recipe.poolings) <= set(lines["pooling"]), metric


def test_the_page_shows_pictures_without_each_object(run):
    page = run.report().read_text(encoding="utf-8")
    assert "What if it were not there?" in page
    assert "without large green rubber sphere" in page
    assert page.count("data:image/webp") >= 5
    assert "Do the masks tell the truth?" in page
    assert "data:image" not in (run.folder / "leaderboard.md").read_text(encoding="utf-8")


def test_every_case_has_its_changed_pictures_beside_its_heatmaps(run, recipe):
    """Reference: the effects as they were measured; a picture as it is, and one without each object."""
    story = run.story
    assert set(story.companions) == set(story.examples)
    measured = {f"simple-{one.question.index:06d}": one for one in recipe.open(0).measured}
    for case, pictures in story.companions.items():
        lost = -measured[case].effects["logit"]
        assert len(pictures) == 1 + len(lost)
        assert pictures[0][0].startswith("as it is")
        told = [
            float(text.partition("logit ")[2].partition(",")[0].replace("\N{MINUS SIGN}", "-"))
            for text, _ in pictures[1:]
        ]
        assert told == pytest.approx(sorted(lost, key=abs, reverse=True), abs=0.006)
    page = run.report().read_text(encoding="utf-8")
    assert page.count('"beside":[[') == len(story.examples)


def test_objects_go_along_with_slices_of_a_batch(recipe):
    opened = recipe.open(0)
    batch = opened.load(opened.chunks()[0])
    assert isinstance(batch, ObjectBatch)
    part = batch[1:3]
    assert torch.equal(part.regions, batch.regions[1:3])
    assert torch.equal(part.truths["logit"].nan_to_num(9), batch.truths["logit"][1:3].nan_to_num(9))


def test_masks_are_held_against_effects(recipe):
    """Reference: counted by hand, question by question."""
    truth = measure_truth(recipe)
    opened = recipe.open(0)
    hits = [int(np.abs(one.effects["logit"]).argmax()) in one.marked()["single_object"] for one in opened.measured]
    line = truth.table().row(0, named=True)
    assert (line["mask"], line["questions_of"], line["questions"]) == ("single_object", "all", len(hits))
    assert line["hit"] == pytest.approx(np.mean(hits))
    assert line["hit_low"] <= line["hit"] <= line["hit_high"]
    marked = [abs(one.effects["logit"][place]) for one in opened.measured for place in one.marked()["single_object"]]
    assert line["marked"] == pytest.approx(np.median(marked))
    assert len(truth.failures("single_object")) == len(hits) - sum(hits)
    supports = [int(one.effects["logit"].argmax()) in one.marked()["single_object"] for one in opened.measured]
    assert line["support"] == pytest.approx(np.mean(supports))
    sides = [split(np.abs(one.effects["logit"]), one.marked()["single_object"]) for one in opened.measured]
    assert line["above"] == pytest.approx(np.mean([np.mean(inside) > np.mean(outside) for inside, outside in sides]))
    assert line["each"] == pytest.approx(np.mean([min(inside) > max(outside) for inside, outside in sides]))
    families = truth.table(by="family")
    assert families["questions_of"].to_list() == ["all", *sorted(truth.objects["family"].unique())]


def split(effects: np.ndarray, marked: frozenset[int]) -> tuple[list[float], list[float]]:
    """The effects of marked objects, and of the others."""
    return [effects[place] for place in sorted(marked)], [e for place, e in enumerate(effects) if place not in marked]


def test_what_hides_another_object_uncovers_it():
    """Reference: in the shipped scene 10 a large yellow cube stands before a small brown one, and nothing else does."""
    data = open_dataset(shipped_dataset())
    scene = data.scenes["CLEVR_val_000010.png"]
    things = [f"{thing['color']} {thing['shape']}" for thing in scene["objects"]]
    found = uncovered(scene)
    yellow, brown = things.index("yellow cube"), things.index("brown cube")
    assert found[yellow, brown] > 1
    found[yellow, brown] = 0
    assert np.abs(found).max() < 0.1


def test_weighted_medians_are_medians_of_repeated_values():
    rng = np.random.default_rng(0)
    values, weights = rng.normal(size=9), rng.integers(0, 4, (30, 9)).astype(float)
    found = weighted_medians(values, weights)
    for row, median in zip(weights, found, strict=True):
        repeated = np.sort(np.repeat(values, row.astype(int)))
        assert median == repeated[(len(repeated) - 1) // 2]


def test_orders_of_methods_agree_or_not_with_an_interval():
    """Reference: SciPy's rank correlation; floors and ceilings are left out."""
    from scipy.stats import spearmanr

    columns = shown_columns(("l1_norm",), "single_object")
    rng = np.random.default_rng(1)
    names = [*"abcde", "random", "true_effects:over=sum"]
    lines = [
        {"subset": "all", "explainer": name, "target": "logit", "mean": rng.random(), **vars(column)}
        for column in columns
        for name in names
    ]
    table = pl.DataFrame(lines)
    (told,) = agreement(table, columns)
    assert "over 5 methods" in told
    mass, mine = (
        table.filter(pl.col("metric") == metric, pl.col("explainer").is_in(names[:5]))["mean"]
        for metric in ("mass_accuracy", "effect_mass")
    )
    words = told.partition("effect_mass ")[2].split()
    assert float(words[0]) == pytest.approx(spearmanr(mass, mine).statistic, abs=0.006)
    assert float(words[1].strip("(")) <= float(words[0]) <= float(words[3].strip("),."))


def test_a_recoloured_object_is_answered_with_its_new_colour(world, tmp_path):
    """The questions that ask for the colour, and for nothing that the colour finds."""
    data, network = open_dataset(world), film_network()
    asked = [question for question in data.questions("simple") if question.program[-1]["type"] == "query_color"]
    wanted = wanted_of(data.scenes.values(), "recolour")
    make_changed(wanted, tmp_path, look_of(data))
    measured = measure(network, asked, tmp_path, "recolour")
    changes = list(asked_changes(measured, "recolour"))
    assert len(changes) == len(asked) > 0
    for one, place, value in changes:
        assert value != one.question.answer
        assert one.question.scene["objects"][place]["color"] == one.question.answer
    assert f"Of {len(asked)} questions that ask for the color" in consistency(network, measured, "recolour")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"intervene": "explode"}, "explode"),
        ({"scenes": 0}, "scenes"),
        ({"limit": 0}, "limit"),
        ({"poolings": ()}, "poolings is empty"),
    ],
)
def test_bad_options_are_named(options, said):
    with pytest.raises(HeatproofError, match=said):
        ClevrRemoval(**options)


def test_scenes_of_somebody_else_are_refused_before_any_work(world, tmp_path):
    folder = tmp_path / "theirs"
    shutil.copytree(world, folder)
    scenes = json.loads((folder / KEPT[0]).read_text())
    for scene in scenes["scenes"]:
        del scene["_render"]
    (folder / KEPT[0]).write_text(json.dumps(scenes))
    with pytest.raises(HeatproofError, match="does not say where camera, key, back, fill stood"):
        ClevrRemoval(dataset=str(folder)).rehearse(0)
