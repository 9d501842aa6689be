"""A run that goes on must prove that it may: what is stored is what would come out today."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import torch
from PIL import Image

import heatproof
from heatproof.clevr import open_dataset
from heatproof.clevr.ground_truth import make_masks
from heatproof.engine.resume import same_logits, same_scores
from heatproof.errors import HeatproofError
from heatproof.report.sections import write_section
from heatproof.story import Paragraph, Section
from run_files import part_lines
from tiny_datasets import write_world

SMALL = {"limit": 60, "target": "logit"}


def mass(run: heatproof.Run, explainer: str) -> float:
    table = run.leaderboard().filter(explainer=explainer, metric="mass_accuracy", pooling="sum_abs")
    return float(table["mean"][0])


POWER = {"of": 1}


def to_a_power(model: torch.nn.Module, inputs: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    return inputs.abs() ** POWER["of"]


def test_a_changed_global_behind_an_explainer_is_noticed(tmp_path, monkeypatch):
    """Its code is the same to the letter; reference: a run of its own."""
    out = tmp_path / "r"
    first = heatproof.run("svea", explainers=[to_a_power, "random"], out=out, **SMALL)
    stored = {path: path.stat().st_mtime_ns for path in out.glob("scores/*/*.parquet")}
    monkeypatch.setitem(POWER, "of", 4)
    again = heatproof.run("svea", explainers=[to_a_power, "random"], out=out, **SMALL)
    fresh = heatproof.run("svea", explainers=[to_a_power], out=tmp_path / "fresh", **SMALL)
    assert mass(again, "to_a_power") == mass(fresh, "to_a_power") != mass(first, "to_a_power")
    assert all(path.stat().st_mtime_ns == at for path, at in stored.items() if "random" in path.parts[-2])
    assert again.manifest["said"] == ["to_a_power@logit gives other scores than are stored, so they are computed anew."]
    assert "gives other scores than are stored" in (out / "report.html").read_text()


def factory(folder: Path, scale: float) -> str:
    path = folder / "net.py"
    path.write_text(
        "import torch\n\n\n"
        "class Net(torch.nn.Module):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        torch.manual_seed(0)\n"
        "        first, last = torch.nn.Conv1d(1, 8, 5, padding=2), torch.nn.Linear(320, 10)\n"
        "        self.layers = torch.nn.Sequential(first, torch.nn.ReLU(), torch.nn.Flatten(), last)\n\n"
        "    def forward(self, signals):\n"
        f"        return {scale} * self.layers(signals) ** 3\n"
    )
    return f"{path}:Net"


def test_a_forward_that_gives_other_logits_is_noticed(tmp_path):
    """Weights and predicted digits are the same; the logits are not. Reference: a run of its own."""
    out = tmp_path / "r"
    options = {"limit": 60, "target": "probability", "explainers": "gradient_x_input"}
    first = heatproof.run("svea", model=factory(tmp_path, 1.0), out=out, **options)
    again = heatproof.run("svea", model=factory(tmp_path, 40.0), out=out, **options)
    fresh = heatproof.run("svea", model=factory(tmp_path, 40.0), out=tmp_path / "fresh", **options)
    assert mass(again, "gradient_x_input") == mass(fresh, "gradient_x_input") != mass(first, "gradient_x_input")
    assert again.manifest["said"][0].startswith("model Net answers otherwise than when this run began")


def test_what_was_said_of_a_model_goes_with_its_scores(tmp_path):
    """A section (the biases of a classifier) is made from scores; it must not outlive them."""
    out = tmp_path / "r"
    options = {"limit": 60, "target": "logit", "explainers": "gradient_x_input"}
    first = heatproof.run("svea", model=factory(tmp_path, 1.0), out=out, **options)
    place = write_section(
        first.files, first.manifest["explainers"][0]["folder"], Section("Biases", (Paragraph("cats look like dogs"),))
    )
    assert "cats look like dogs" in first.report().read_text()
    again = heatproof.run("svea", model=factory(tmp_path, 40.0), out=out, **options)
    assert not place.exists()
    assert "cats look like dogs" not in again.report().read_text()


def test_what_is_the_same_is_not_computed_again(tmp_path):
    out = tmp_path / "r"
    for _ in range(2):
        run = heatproof.run("svea", explainers="smoothgrad:samples=4,grad_cam,random", out=out, **SMALL)
        written = {path: path.stat().st_mtime_ns for path in out.glob("scores/*/*.parquet")}
    run = heatproof.run("svea", explainers="smoothgrad:samples=4,grad_cam,random", out=out, **SMALL)
    assert {path: path.stat().st_mtime_ns for path in out.glob("scores/*/*.parquet")} == written
    assert run.manifest["said"] == []


def test_rounding_of_another_processor_is_no_change():
    """A run begun on one processor goes on on another."""
    logits = np.random.RandomState(0).randn(4, 10) * 8
    stored = {"cases": ["a"], "logits": logits.tolist()}
    assert same_logits(stored, stored | {"logits": (logits * (1 + 3e-6)).tolist()})
    assert not same_logits(stored, stored | {"logits": (logits * 1.01).tolist()})
    assert not same_logits(stored, stored | {"cases": ["b"]})
    rows = pl.DataFrame({"case": "a", "metric": ["m", "n"], "ground_truth": "", "pooling": "", "value": [0.5, np.nan]})
    assert same_scores(rows, rows.with_columns(value=pl.col("value") + 1e-5))
    assert not same_scores(rows, rows.with_columns(value=pl.col("value") + 0.01))
    assert not same_scores(rows, rows.with_columns(value=pl.lit(0.5)))


def test_every_part_says_on_what_it_was_made(tmp_path):
    run = heatproof.run("svea", explainers="random", out=tmp_path / "r", **SMALL)
    lines = part_lines(tmp_path / "r")
    assert {line["machine"] for line in lines} == set(run.manifest["machines"])
    (machine,) = run.manifest["machines"].values()
    assert machine["processor"]
    assert machine["torch"] == torch.__version__.partition("+")[0] or machine["torch"] == torch.__version__
    assert machine["instructions"] == torch.backends.cpu.get_cpu_capability()


def test_a_run_over_two_machines_is_one_run(tmp_path, monkeypatch):
    """The second machine has another processor; what the first one made is kept, and run.json names both."""
    from heatproof.engine import manifest

    out = tmp_path / "r"
    heatproof.run("svea", explainers="random", out=out, **SMALL)
    monkeypatch.setattr(manifest, "processor", lambda: "another processor")
    run = heatproof.run("svea", explainers="random,centre", out=out, **SMALL)
    lines = part_lines(out)
    made = {line["part"].split("/")[1]: line["machine"] for line in lines}
    assert len(run.manifest["machines"]) == 2
    assert made["random"] != made["centre"]
    assert run.manifest["machines"][made["centre"]]["processor"] == "another processor"


@pytest.mark.parametrize("name", ["run*", "v[2]", "what?", "a b"])
def test_names_of_folders_are_not_patterns(name, tmp_path):
    """Beside a folder that the name would match if it were one."""
    heatproof.run("svea", explainers="centre", out=tmp_path / "runs", **SMALL)
    heatproof.run("svea", explainers="centre", out=tmp_path / "v2", **SMALL)
    run = heatproof.run("svea", explainers="random", out=tmp_path / name, **SMALL)
    assert set(run.scores()["explainer"]) == {"random", "raw_input"}
    run = heatproof.run("svea", explainers="random", out=tmp_path / name, **SMALL)
    assert run.manifest["said"] == []


def test_flipped_bytes_in_a_part_are_noticed(tmp_path):
    out = tmp_path / "r"
    before = heatproof.run("svea", explainers="gradient", out=out, **SMALL).leaderboard()
    part = next(out.glob("scores/*/*.parquet"))
    content = bytearray(part.read_bytes())
    content[len(content) // 2] ^= 0xFF
    part.write_bytes(content)
    with pytest.raises(HeatproofError, match="is damaged"):
        heatproof.load_run(out).scores()
    after = heatproof.run("svea", explainers="gradient", out=out, **SMALL).leaderboard()
    assert after["mean"].to_list() == pytest.approx(before["mean"].to_list())


def test_a_run_of_an_older_version_says_so(tmp_path):
    out = tmp_path / "r"
    heatproof.run("svea", explainers="random", out=out, **SMALL)
    manifest = json.loads((out / "run.json").read_text())
    del manifest["format"]
    (out / "run.json").write_text(json.dumps(manifest))
    with pytest.raises(HeatproofError, match=r"made by an older version of heatproof \(0\.1\.0\)"):
        heatproof.load_run(out)
    with pytest.raises(HeatproofError, match="--no-resume"):
        heatproof.run("svea", explainers="random", out=out, **SMALL)
    assert heatproof.run("svea", explainers="random", out=out, resume=False, **SMALL).leaderboard().height


# CLEVR-XAI


@pytest.fixture
def world(tmp_path: Path) -> Path:
    folder = write_world(tmp_path / "data", scenes=3, per_image=4)
    make_masks(open_dataset(folder), (32, 32))
    return folder


VQA = """
import torch
from heatproof.models.vqa import Vqa


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.conv = torch.nn.Conv2d(3, 4, 5, stride=3)
        self.head = torch.nn.Linear(4, 4)

    def forward(self, pictures, tokens):
        return SCALE * self.head(self.conv(pictures).relu().mean((2, 3))) + 0 * tokens


def build():
    return Vqa("net", Net().eval(), lambda text: torch.tensor([[len(text)]]), ("red", "cube", "small", "metal"), 32)
"""


def vqa(folder: Path, scale: float) -> str:
    (folder / "vqa.py").write_text(VQA.replace("SCALE", str(scale)))
    return f"{folder / 'vqa.py'}:build"


def test_edited_code_of_a_factory_changes_answers_and_scores(world, tmp_path):
    """Weights are the same, logits turn round. Reference: a run of its own, in a cache of its own."""
    options = {"dataset": world, "explainers": "gradient", "correct_only": False, "poolings": ["sum_pos"]}
    answers, means = [], []
    for scale, out in ((1.0, "r"), (-7.0, "r"), (-7.0, "fresh")):
        run = heatproof.run("clevr-xai", model=vqa(tmp_path, scale), out=tmp_path / out, **options)
        answers.append(set(run.scores().select("case", "predicted").unique().rows()))
        means.append(run.leaderboard().filter(subset="all")["mean"].to_list())
    assert answers[0] != answers[1] == answers[2]
    assert means[1] == pytest.approx(means[2])
    assert means[0] != pytest.approx(means[1])


def test_changed_pictures_are_other_cases(world, tmp_path):
    """Answers about grey pictures are not those remembered, and a run does not go on with them."""
    options = {"dataset": world, "explainers": "random", "correct_only": False, "model": vqa(tmp_path, 1.0)}
    before = heatproof.run("clevr-xai", out=tmp_path / "r", **options)
    for path in (world / "images").iterdir():
        Image.fromarray(np.full_like(np.asarray(Image.open(path)), 128)).save(path)
    after = heatproof.run("clevr-xai", out=tmp_path / "grey", **options)
    answers = [run.scores().select("case", "probability").unique().sort("case") for run in (before, after)]
    assert not answers[0].equals(answers[1])
    assert after.scores()["probability"].drop_nulls().n_unique() == 1
    with pytest.raises(HeatproofError, match=r"cases: .* there, .* now"):
        heatproof.run("clevr-xai", out=tmp_path / "r", **options)
    shutil.rmtree(tmp_path / "grey")
