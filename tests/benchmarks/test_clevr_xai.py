"""CLEVR-XAI on a small made-up world: what enters, what is scored, which lines there are."""

from __future__ import annotations

import re

import numpy as np
import polars as pl
import pytest
import torch
from scipy.stats import spearmanr

import heatproof
from heatproof.benchmarks.clevr_xai import ClevrXai, rows
from heatproof.clevr import open_dataset
from heatproof.clevr.answers import in_words
from heatproof.clevr.ground_truth import make_masks
from heatproof.errors import HeatproofError
from heatproof.metrics.heatmap_scores import REASONS
from heatproof.metrics.mask_scores import SIGNED
from heatproof.models.relation_network import RelationNetwork
from heatproof.story import Column
from small_vqa import ANSWERS, Net, make_vqa
from tiny_datasets import write_world


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    folder = write_world(tmp_path_factory.mktemp("world") / "world", scenes=6, per_image=6)
    make_masks(open_dataset(folder), (32, 32))
    return folder


@pytest.fixture(scope="module")
def run(world, tmp_path_factory) -> heatproof.Run:
    explainers = ["gradient", "grad_cam", "random", "oracle:mask=single_object"]
    made = ClevrXai(dataset=str(world), model=make_vqa(), correct_only=False)
    return heatproof.run(made, explainers=explainers, out=tmp_path_factory.mktemp("run") / "r")


def test_every_pooling_ground_truth_and_metric_is_scored(run):
    every = run.leaderboard().filter(pl.col("subset") == "all")
    table = every.filter(pl.col("pooling") != "")
    assert table["pooling"].n_unique() == 10
    assert set(table["ground_truth"]) == {"single_object", "all_objects"}
    assert set(table["metric"]) == {*rows.SCORES, *rows.FURTHER}
    published = table.filter(pl.col("metric").is_in(rows.SCORES))
    assert len(published) == 4 * 10 * 2 * 2
    further = table.filter(~pl.col("metric").is_in(rows.SCORES))
    assert len(further) == 4 * len(rows.FURTHER)  # each against one truth, under the pooling that it is shown in
    assert set(table["target"]) == {"logit", ""}
    signed = every.filter(pl.col("pooling") == "")
    assert set(signed["metric"]) == set(SIGNED)
    assert len(signed) == 4 * 2 * len(SIGNED)


def test_attribution_precision_is_mass_accuracy_of_the_positive_part(run):
    scores = run.scores().filter(pl.col("ground_truth") == "single_object")
    mass = scores.filter(metric="mass_accuracy", pooling="sum_pos").sort("explainer", "case")["value"]
    precision = scores.filter(metric="attribution_precision").sort("explainer", "case")["value"]
    np.testing.assert_allclose(precision, mass, rtol=1e-9)


def test_the_oracle_scores_one_and_noise_the_share_of_the_mask(run):
    """Theory: the true mask scores 1; uniform noise the mask's share, on average."""
    scores = run.scores().filter((pl.col("ground_truth") == "single_object") & (pl.col("pooling") == "sum_pos"))
    oracle = scores.filter(pl.col("explainer").str.starts_with("oracle"))
    assert oracle["value"].to_list() == pytest.approx([1.0] * len(oracle))
    random = scores.filter((pl.col("explainer") == "random") & (pl.col("metric") == "mass_accuracy"))
    assert random["value"].mean() == pytest.approx(random["mask_size"].mean() / 32**2, abs=0.01)


def test_parts_are_what_their_names_say(run):
    """Reference: the rows filtered by hand."""
    scores = run.scores().filter(
        (pl.col("explainer") == "gradient")
        & (pl.col("metric") == "mass_accuracy")
        & (pl.col("ground_truth") == "all_objects")
        & (pl.col("pooling") == "l2_norm")
    )
    lines = run.leaderboard().filter(
        (pl.col("explainer") == "gradient")
        & (pl.col("metric") == "mass_accuracy")
        & (pl.col("ground_truth") == "all_objects")
        & (pl.col("pooling") == "l2_norm")
    )
    seen = 0
    for name, column in (("attribute", "attribute"), ("objects", "objects")):
        for (value,), group in scores.group_by(column):
            line = lines.filter(pl.col("subset") == f"{name}:{value}")
            if len(line):
                seen += 1
                assert line["mean"][0] == pytest.approx(group["value"].mean())
                assert line["n"][0] == len(group)
                low, mean, high = (line[name][0] for name in ("ci_low", "mean", "ci_high"))
                assert (low is None) == (high is None) == (group["picture"].n_unique() == 1)
                assert low is None or low - 1e-12 <= mean <= high + 1e-12
    assert seen >= 5


def test_further_statistics_equal_numpys(run):
    """Reference: polars' linear quantiles of the same rows."""
    further = pl.read_csv(run.folder / "statistics.csv")
    chosen = {
        "explainer": "gradient",
        "metric": "rank_accuracy",
        "ground_truth": "single_object",
        "pooling": "max_norm",
    }
    condition = pl.all_horizontal(*[pl.col(name) == value for name, value in chosen.items()])
    values = run.scores().filter(condition)["value"]
    line = further.filter(condition & (pl.col("subset") == "all")).row(0, named=True)
    assert line["percentile_20"] == pytest.approx(values.quantile(0.2, "linear"))
    assert line["percentile_80"] == pytest.approx(values.quantile(0.8, "linear"))


def test_the_page_has_the_pictures_and_the_tables(run):
    page = (run.folder / "report.html").read_text(encoding="utf-8")
    shown = run.scores().filter(pl.col("case").is_in(list(run.story.examples)))
    pictures = set(re.findall(r'data:image/webp;base64,[^"]+', page))
    assert len(pictures) == shown["picture"].drop_nulls().n_unique()
    assert page.count('{"id":"simple-') == len(run.story.examples)
    assert "Mass accuracy by pooling" in page
    assert "by pooling (single_object)" in (run.folder / "leaderboard.md").read_text(encoding="utf-8")


def test_only_correct_answers_enter(world):
    """Reference: the network asked question by question."""
    every = ClevrXai(dataset=str(world), model=make_vqa(), correct_only=False).open(0)
    right = ClevrXai(dataset=str(world), model=make_vqa()).open(0)
    made = make_vqa()
    expected = []
    for question in open_dataset(world).questions("simple"):
        from heatproof.benchmarks.clevr_xai.answers import pictures

        with torch.no_grad():
            logits = made.module(pictures([question], 32), made.encode(question.text))
        if ANSWERS[int(logits.argmax())] == in_words(question.answer):
            expected.append(question.index)
    found = [index for chunk in right.chunks() for index in right.load(chunk).facts["question_index"]]
    assert 0 < len(expected) < len(every.asked)
    assert found == expected
    assert all(right.load(right.chunks()[0]).facts["correct"])


def test_a_heatmap_of_zeros_is_undefined_not_zero(world):
    """Grad-CAM maps can be zero everywhere: NaN with the reason, never 0."""
    made = ClevrXai(dataset=str(world), model=make_vqa(), correct_only=False).open(0)
    batch = made.load(made.chunks()[0])
    scored = made.score(batch, torch.zeros(len(batch), 1, 32, 32), made.network.module)
    assert scored["value"].is_nan().all()
    assert "the heatmap is zero everywhere" in set(scored["undefined"])


def test_the_fast_form_equals_the_plain_network_and_reads_each_question_once():
    """Reference: the plain network, values and gradients to 1e-5; calls of the LSTM counted."""
    torch.manual_seed(0)
    plain, fast = RelationNetwork().eval(), RelationNetwork(factorised=True).eval()
    fast.load_state_dict(plain.state_dict())
    pictures, question = torch.rand(3, 3, 128, 128), torch.randint(0, 80, (2, 45))[[0, 1, 0]]
    read: list[int] = []
    fast.lstm.register_forward_hook(lambda _module, args, _output: read.append(len(args[0])))
    outputs = []
    for model in (plain, fast):
        inputs = pictures.clone().requires_grad_()
        logits = model(inputs, question)
        outputs.append((logits, torch.autograd.grad(logits[:, 3].sum(), inputs)[0]))
    torch.testing.assert_close(outputs[1][0], outputs[0][0], rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(outputs[1][1], outputs[0][1], rtol=1e-4, atol=1e-5)
    assert read == [2]


def test_rules_for_layers_get_the_plain_network(world):
    from dataclasses import replace

    from heatproof.explainers.spec import make_explainer

    relus, fast = Net(), Net()
    made = ClevrXai(dataset=str(world), model=replace(make_vqa(), relus=relus, fast=fast)).open(0)
    name_of_model = made.network.name
    for name in ("lrp", "excitation_backprop"):
        assert made.form(name_of_model, make_explainer(name)) is made.network.module
    for name in ("guided_backprop", "deconvnet", "guided_grad_cam"):
        assert made.form(name_of_model, make_explainer(name)) is relus
    for name in ("gradient", "grad_cam", "integrated_gradients"):
        assert made.form(name_of_model, make_explainer(name)) is fast
    plain = ClevrXai(dataset=str(world), model=make_vqa()).open(0)
    assert plain.form(name_of_model, make_explainer("gradient")) is plain.network.module


def test_complex_questions_are_scored_against_all_their_ground_truths(world, tmp_path):
    """Where a question singles nothing out, `unique` has no score; against all objects every question has one."""
    made = ClevrXai(dataset=str(world), model=make_vqa(), questions="complex", correct_only=False)
    run = heatproof.run(made, explainers=["gradient", "oracle:mask=all_objects"], out=tmp_path / "r")
    whole = run.leaderboard().filter((pl.col("subset") == "all") & (pl.col("pooling") == "l2_norm"))
    counts = {kind: set(group["n"]) for (kind,), group in whole.group_by("ground_truth")}
    available = {
        kind: {int(open_dataset(world).masks("complex", kind).available.sum())}
        for kind in ("unique", "unique_first_nonempty", "union", "all_objects")
    }
    assert counts == available
    assert 0 < counts["unique"].pop() < counts["all_objects"].pop()
    types = set(run.leaderboard()["subset"])
    assert any(name.startswith("type:") for name in types)


def test_the_notes_say_how_the_order_agrees_and_what_has_no_score():
    """Reference: SciPy's Spearman correlation; a second reading of a method does not count."""
    means = [0.7, 0.6, 0.65, 0.2, 0.3]
    published = [0.9, 0.8, 0.5, 0.4, 0.1]
    shown = Column("mass_accuracy", "single_object", "pos_l2_norm_sq")
    column = vars(shown)
    table = (
        pl.DataFrame(
            {
                "explainer": ["a:x=1", "b", "c", "d", "e"],
                "mean": means,
                "reference_elsewhere": published,
                "subset": "all",
            }
        )
        .with_columns(reference=pl.lit(None, dtype=pl.Float64))
        .with_columns(**{name: pl.lit(value) for name, value in column.items()})
    )
    again = table[:1].with_columns(explainer=pl.lit("a:x=2"), mean=pl.lit(0.0))
    floor = table[:1].with_columns(explainer=pl.lit("random"), reference_elsewhere=pl.lit(None, dtype=pl.Float64))
    expected = spearmanr(means, published).statistic
    (note,) = rows.order_note(pl.concat([table, again, floor]), shown)
    assert f"these 5 methods: {expected:.2f}" in note
    assert rows.order_note(table[:2], shown) == []
    scores = pl.DataFrame(
        {"explainer": "e", "value": [0.5, float("nan"), float("nan")], "undefined": ["", "zero", REASONS[1]]}
    ).with_columns(**{name: pl.lit(value) for name, value in column.items()})
    (said,) = rows.undefined_notes(scores.filter(rows.is_undefined(shown)))
    assert said.startswith("e: 1 of the questions have no score, because zero")


def test_the_poster_is_complete():
    """Eleven methods in three parts, as published."""
    table = rows.poster()
    assert len(table) == 33
    assert table.filter((pl.col("explainer") == "lrp") & (pl.col("subset") == "mask>1000"))["reference"].item() == 0.91


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"questions": "hard"}, "unknown question set"),
        ({"poolings": []}, "poolings is empty"),
        ({"limit": 0}, "limit must be a whole number"),
        ({"model": make_vqa(), "weights": "net.npz"}, "comes with its weights"),
    ],
)
def test_bad_options_are_named(world, options, message):
    with pytest.raises(HeatproofError, match=message):
        ClevrXai(**{"dataset": str(world), **options})


def test_masks_of_another_size_name_the_command(world):
    from dataclasses import replace

    made = ClevrXai(dataset=str(world), model=replace(make_vqa(), size=64))
    with pytest.raises(HeatproofError, match=r"ground-truth .* --size 64x64"):
        made.open(0)


def test_without_arguments_it_runs_on_what_ships(tmp_path):
    """End to end on a few questions: no data set, no weights."""
    explainers = ["gradient", "random", "oracle:mask=single_object"]
    run = heatproof.run("clevr-xai", preset="quick", limit=6, explainers=explainers, out=tmp_path / "run")
    assert not run.failures()
    assert (run.folder / "report.html").is_file()
    table = run.leaderboard().filter(
        (pl.col("subset") == "all")
        & (pl.col("metric") == "mass_accuracy")
        & (pl.col("ground_truth") == "single_object")
        & (pl.col("pooling") == "pos_l2_norm_sq")
    )
    assert set(table["dataset"]) == {"shipped"}
    assert set(table["model"]) == {"film_vqa"}
    means = dict(zip(table["explainer"], table["mean"], strict=True))
    assert means["random"] < means["gradient"] < means["oracle:mask=single_object"] == pytest.approx(1.0)


@pytest.mark.parametrize(("questions", "cases"), [("simple", 39_761), ("complex", 100_000)])
def test_the_papers_size_can_be_estimated_without_its_data(questions, cases):
    explainers = ("gradient", {"simple": "oracle:mask=single_object", "complex": "oracle:mask=unique"}[questions])
    found = heatproof.dry_run("clevr-xai", preset="paper", questions=questions, explainers=explainers, jobs=2)
    line = next(line for line in found.lines if line.explainer == "gradient")
    assert line.cases == cases
    assert line.passes == 2 * cases
    assert line.units == -(-cases // 32)
    assert found.processes == 3
    assert not any(line.failure for line in found.lines)
    assert not found.notes


def test_the_papers_size_cannot_be_run_without_its_data(tmp_path):
    with pytest.raises(HeatproofError, match="fetch clevr-xai, or give its folder with --dataset DIR; --dry-run says"):
        heatproof.run("clevr-xai", preset="paper", out=tmp_path / "run")


def test_the_papers_preset_takes_all_of_a_given_data_set(world):
    made = ClevrXai.from_preset("paper", dataset=str(world), model=make_vqa(), correct_only=False).open(0)
    assert sum(chunk.cases for chunk in made.chunks()) == len(open_dataset(world).questions("simple"))
