"""CLEVR without each object, on scenes that ship: effects, score rows, the page, and what is refused."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest
import torch
from PIL import Image
from scipy.ndimage import binary_dilation

import heatproof
from heatproof.benchmarks.clevr_removal import ClevrRemoval
from heatproof.benchmarks.clevr_removal.benchmark import PAINTED, imagined
from heatproof.benchmarks.clevr_removal.effects import ask_each
from heatproof.benchmarks.clevr_removal.painted import ObjectBatch
from heatproof.benchmarks.clevr_removal.rows import score_table, shown_columns
from heatproof.benchmarks.clevr_removal.words import agreement
from heatproof.clevr import open_dataset
from heatproof.clevr.changed_pictures import folder_of, look_of, make_changed, wanted_of
from heatproof.clevr.object_regions import object_regions
from heatproof.clevr.rendering.picture import render
from heatproof.clevr.rendering.tracer import seen_objects
from heatproof.clevr.shipped import shipped_dataset
from heatproof.cli.clevr_effects import effects
from heatproof.errors import HeatproofError
from heatproof.executors.choice import Execution
from heatproof.experiments.effects import measure_truth, object_rows, uncovered, weighted_medians
from heatproof.explainers.spec import make_explainer
from heatproof.seeds import CaseRandom
from heatproof.testing import check_benchmark
from removal_world import QUESTIONS, SCENES, small_world


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """Two of the scenes that ship, with their pictures without each object."""
    folder = small_world(tmp_path_factory.mktemp("removal") / "world")
    data = open_dataset(folder)
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


def test_each_kind_of_mask_is_told_what_hides_its_own_objects():
    """Reference: in the shipped scene 10 the large yellow cube uncovers the brown one and nothing else."""
    data = open_dataset(shipped_dataset())
    asked = [q for q in data.questions("complex") if q.record["image_filename"] == "CLEVR_val_000010.png"]
    things = [f"{thing['color']} {thing['shape']}" for thing in asked[0].scene["objects"]]
    yellow, brown = things.index("yellow cube"), things.index("brown cube")
    network = SimpleNamespace(size=128, answers=("yes",))
    measured = [replace(imagined(network, question), others=(0,) * len(things)) for question in asked]
    rows = object_rows(network, measured)
    seen = set()
    for one in measured:
        marked = one.marked()
        for kind in ("unique", "unique_first_nonempty", "union"):
            found = rows.filter(pl.col("question_index") == one.question.index)[f"uncovers_{kind}"].to_list()
            assert [place for place, more in enumerate(found) if more > 0.1] == [yellow] * (brown in marked[kind])
        seen.add((brown in marked["unique"], brown in marked["union"]))
    assert (False, True) in seen, "or the kinds would not be told apart"


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
    scenes = json.loads((folder / SCENES).read_text())
    for scene in scenes["scenes"]:
        del scene["_render"]
    (folder / SCENES).write_text(json.dumps(scenes))
    with pytest.raises(HeatproofError, match="does not say where camera, key, back, fill stood"):
        ClevrRemoval(dataset=str(folder)).rehearse(0)


def test_a_scene_without_objects_has_no_truth_for_anybody(world, tmp_path):
    """Its question enters, and every score that needs objects is undefined."""
    folder = tmp_path / "bare"
    shutil.copytree(world, folder, ignore=shutil.ignore_patterns("interventions", "ground_truth"))
    scenes = json.loads((folder / SCENES).read_text())
    scenes["scenes"] = scenes["scenes"][:1]
    scenes["scenes"][0]["objects"] = []
    (folder / SCENES).write_text(json.dumps(scenes))
    name = scenes["scenes"][0]["image_filename"]
    Image.fromarray(np.zeros((128, 128), np.uint8)).save(folder / "objects" / name)
    questions = json.loads((folder / QUESTIONS[0]).read_text())
    steps = [("scene", [], [], []), ("filter_shape", [0], ["cube"], []), ("count", [1], [], 0)]
    program = [dict(zip(("type", "inputs", "value_inputs", "_output"), step, strict=True)) for step in steps]
    asked = questions["questions"][0] | {"question": "How many cubes are there?", "program": program, "answer": 0}
    (folder / QUESTIONS[0]).write_text(json.dumps(questions | {"questions": [asked]}))
    bare = ClevrRemoval(dataset=str(folder), correct_only=False)
    explainers = ["gradient", f"{PAINTED}:TrueEffects", f"{PAINTED}:TrueEffects:over=sum", f"{PAINTED}:ObjectSize"]
    run = heatproof.run(bare, explainers=explainers, out=tmp_path / "r")
    assert run.failures() == []
    rows = run.scores().filter(pl.col("explainer") == "gradient")
    assert rows["largest_effect"].drop_nulls().unique().to_list() == [0.0]
    of_effects = rows.filter(pl.col("metric").str.starts_with("effect_") | (pl.col("metric") == "idle_share"))
    assert of_effects["value"].is_nan().all()
    assert rows.filter(pl.col("metric") == "no_object_share")["value"].unique().to_list() == [1.0]
    with pytest.raises(HeatproofError, match="no scene has an object"):
        measure_truth(bare)


def test_pictures_are_rendered_where_the_run_is_told(recipe, tmp_path, monkeypatch):
    seen = []

    def watched(wanted, folder, look, how, progress):
        seen.append(how)
        raise HeatproofError("that is enough")

    monkeypatch.setattr("heatproof.benchmarks.clevr_removal.benchmark.make_changed", watched)
    told = ({}, {"engine": "local"}, {"engine": "processes", "jobs": 3}, {"engine": "ray", "address": "10.0.0.1:6379"})
    for how in told:
        with pytest.raises(HeatproofError, match="that is enough"):
            heatproof.run(recipe, explainers="constant", out=tmp_path / "r", **how)
    assert seen == [Execution(**how) for how in told]


def test_a_dry_run_counts_pictures_to_render_and_questions_to_ask(recipe):
    """Reference: the objects of the scenes; of those without an object all pictures are there.

    All that are painted over in one scene are put together from two pictures.
    """
    opened = recipe.open(0)
    scenes = {one.question.record["image_filename"]: one.question.scene for one in opened.measured}
    objects = sum(len(scene["objects"]) for scene in scenes.values())
    asked = f"asking of {sum(len(one.others) for one in opened.measured):,} changes"
    rendering = f"rendering {objects:,} pictures"
    for intervene, rendered in (("remove", 0), ("recolour", objects), ("hide", 2 * len(scenes))):
        found = heatproof.dry_run(replace(recipe, intervene=intervene), explainers="constant", engine="local")
        ahead = [name for name in found.besides if name.startswith(("rendering", "asking"))]
        assert ahead == [*([rendering] if rendered else []), asked]
        assert all(found.besides[name] > 0 for name in ahead)
        assert found.seconds >= sum(found.besides.values())
        assert found.besides.get(rendering, 0) == pytest.approx(rendered * look_of(opened.data).seconds)


def test_what_is_painted_over_is_asked_about_and_said(recipe, world, capsys):
    """Reference: pictures put together by hand from the empty room and the objects' ids, asked about by hand."""
    effects(world, intervene="hide", quiet=True)
    said = " ".join(capsys.readouterr().out.split())
    assert "an unmarked object has the largest effect" in said
    assert "is seen" not in said, "nothing is uncovered by painting over"
    opened = replace(recipe, intervene="hide").open(0)
    network, one = opened.network, opened.measured[0]
    scene = one.question.scene
    empty = render(scene | {"objects": []}, 128, 128, samples=look_of(opened.data).pictures.samples, denoise=True).image
    whole, ids = np.asarray(opened.data.picture(scene)), seen_objects(scene, 128, 128)
    painted = []
    for place in range(len(scene["objects"])):
        rim = binary_dilation(ids == place + 1, np.ones((3, 3))) & (ids == 0)
        painted.append(np.where((rim | (ids == place + 1))[..., None], empty, whole))
    inputs = torch.as_tensor(np.stack([whole, *painted]).transpose(0, 3, 1, 2).astype(np.float32) / 255)
    with torch.no_grad():
        logits = network.module(inputs, network.encode(one.question.text).expand(len(inputs), -1)).double()
    lost = (logits[0, one.answer] - logits[1:, one.answer]).numpy()
    assert one.effects["logit"] == pytest.approx(lost, abs=1e-4)
    assert not np.allclose(one.effects["logit"], recipe.open(0).measured[0].effects["logit"], atol=0.01)
    case = next(iter(opened.story.companions))
    assert opened.story.captions[case].startswith("The answer's logit hiding ")
    assert all(text.startswith("hiding ") for text, _ in opened.story.companions[case][1:])
    assert opened.story.sections[0].title == "What if it were not there?"


def test_masks_that_cannot_be_judged_are_said(recipe, monkeypatch, capsys):
    truth = measure_truth(recipe)
    still = replace(truth, objects=truth.objects.with_columns(matters=pl.lit(False)))
    monkeypatch.setattr("heatproof.experiments.effects.measure_truth", lambda *_: still)
    effects(quiet=True)
    said = " ".join(capsys.readouterr().out.split())
    assert said.endswith("or no object changes the logit by 0.1 or more.")
    assert "largest marked" not in said


def test_random_relevance_orders_objects_by_their_size_and_by_nothing_else():
    """By density it is within its sampling error of 0; by sum it follows whatever follows the objects' areas."""
    data = open_dataset(shipped_dataset())
    scenes = list(data.scenes.values())
    regions = torch.as_tensor(
        np.stack([object_regions(data.object_ids(scene), len(scene["objects"]), 128, 128) for scene in scenes])
    )
    width = max(len(scene["objects"]) for scene in scenes)
    areas = torch.stack([(regions == place + 1).sum((1, 2)) for place in range(width)], 1).double()
    areas[areas == 0] = torch.nan
    chance = torch.as_tensor(np.random.default_rng(0).random(areas.shape)).where(areas > 0, torch.nan)
    batch = ObjectBatch(
        inputs=torch.zeros(len(scenes), 3, 128, 128),
        target=torch.zeros(len(scenes), dtype=torch.long),
        ids=tuple(map(str, range(len(scenes)))),
        regions=regions,
        truths={"logit_abs": areas, "probability_abs": chance},
    )
    explainer = make_explainer("random")
    relevance = explainer(torch.nn.Identity(), batch, CaseRandom.of(0, explainer))
    table = score_table(batch, relevance, ("l1_norm",)).filter(pl.col("pooling") == "l1_norm")

    def scores(metric: str, truth: str) -> np.ndarray:
        return table.filter(metric=metric, ground_truth=truth)["value"].to_numpy()

    for metric, truth in (
        ("effect_kendall_mean", "logit_abs"),
        ("effect_kendall_mean", "probability_abs"),
        ("effect_kendall_sum", "probability_abs"),
    ):
        values = scores(metric, truth)
        assert abs(values.mean()) < 3 * values.std(ddof=1) / np.sqrt(len(values)), (metric, truth)
    assert scores("effect_kendall_sum", "logit_abs").mean() > 0.95
