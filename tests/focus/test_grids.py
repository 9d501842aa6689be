"""Grids of distinct classes: the grid pointing game, and heads that see one cell, where the answer is known.

References: the share of positive relevance written out in float64; the network asked about a cell cut out by hand.
"""

from __future__ import annotations

from collections import Counter
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import heatproof
from heatproof.benchmarks.focus import Focus
from heatproof.cases import Batch
from heatproof.errors import HeatproofError
from heatproof.explainers.layers import spatial_activations
from heatproof.models.classifiers import load_classifier
from heatproof.models.image_classifiers import make_classifier
from heatproof.models.one_cell import OneCell, one_cell
from heatproof.mosaics.grids import draw_grids, each_cell, each_class
from heatproof.mosaics.mosaics import Mosaic, MosaicSettings, write_mosaics
from heatproof.mosaics.pictures import Pictures

GRADIENTS = "gradient,gradient_x_input,integrated_gradients:steps=4,smoothgrad:samples=3,lrp:composite=focus"
EXPLAINERS = {"grid": "grad_cam", "difull": f"{GRADIENTS},grad_cam,random,oracle", "dipart": "gradient"}
FIELD = 31
"""Pixels that an output of the embedded classifier's last convolution sees: 1 + 2 (1 + 2 + 4 + 8)."""


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> dict[str, heatproof.Run]:
    return {
        setting: heatproof.run(
            "focus",
            explainers=EXPLAINERS[setting],
            setting=setting,
            per_class=2,
            keep_heatmaps=True,
            out=tmp_path_factory.mktemp("grids") / setting,
        )
        for setting in EXPLAINERS
    }


def means(run: heatproof.Run, pooling: str = "paper") -> dict[str, float]:
    table = run.leaderboard().filter(metric="focus", pooling=pooling, subset="all")
    return {name.partition(":")[0]: mean for name, mean in table.select("explainer", "mean").iter_rows()}


def test_where_nothing_connects_gradients_are_exactly_right(runs):
    found = means(runs["difull"])
    for name in ("gradient", "gradient_x_input", "integrated_gradients", "smoothgrad", "lrp", "oracle"):
        assert found[name] == 1.0, name
    rows = runs["difull"].scores().filter(metric="focus", explainer="gradient")
    assert set(rows["value"]) == {1.0}, "under every pooling, in every cell"
    # Grad-CAM means its gradients over the whole map, so that all cells take part: the finding of Rao et al. 2022.
    assert 0.3 < found["grad_cam"] < 0.9
    assert found["random"] == pytest.approx(0.25, abs=0.02)


def test_other_cells_get_exactly_nothing(runs):
    """The floor of zero: a gradient, scored against the cells that the head does not see."""
    run = runs["difull"]
    maps = dict(run.files.each_heatmap("gradient@logit", "object_classifier"))
    shares = run.scores().filter(explainer="gradient", pooling="sum_pos")
    assert len(maps) == 12
    for case, relevance in maps.items():
        cell = int(case.rpartition("-")[2])
        row, column = divmod(cell, 2)
        positive = np.maximum(relevance.astype(np.float64).sum(0), 0)
        side = positive.shape[0] // 2
        inside = positive[row * side : (row + 1) * side, column * side : (column + 1) * side].sum()
        assert inside == positive.sum() > 0
        for other in range(4):
            (value,) = shares.filter(case=case, metric=f"share_{other}")["value"]
            assert value == float(other == cell)


def test_through_kernels_relevance_reaches_as_far_as_they_do(runs):
    maps = dict(runs["dipart"].files.each_heatmap("gradient@logit", "object_classifier"))
    beyond = 0.0
    for case, relevance in maps.items():
        row, column = divmod(int(case.rpartition("-")[2]), 2)
        size = np.abs(relevance).sum(0)
        side = len(size) // 2
        size = size[::-1] if row else size
        size = size[:, ::-1] if column else size
        assert (size[side + FIELD :] == 0).all()
        assert (size[:, side + FIELD :] == 0).all()
        beyond += float(size[side:].sum())
    assert beyond > 0, "what lies near the border is connected"
    assert 0.5 < means(runs["dipart"])["gradient"] < 1


def test_the_grid_pointing_game_by_its_formula(runs):
    """Reference: sum of positive relevance in the cell over that of the grid, in float64, from the kept heatmaps."""
    run = runs["grid"]
    scores = run.scores().filter(metric="focus", pooling="sum_pos", explainer="grad_cam")
    maps = dict(run.files.each_heatmap("grad_cam@logit", "object_classifier"))
    assert len(maps) == len(scores)
    for row in scores.iter_rows(named=True):
        heat = np.maximum(maps[row["case"]].astype(np.float64).sum(0), 0)
        place = [row[f"label_{i}"] for i in range(4)].index(row["target_class"])
        side = len(heat) // 2
        cell = heat[place // 2 * side :, place % 2 * side :][:side, :side]
        assert row["value"] == pytest.approx(cell.sum() / heat.sum(), abs=1e-6)
        assert row["uniform"] == 0.25
    assert means(run)["grad_cam"] > 0.35


def test_on_the_mosaics_of_focus(tmp_path):
    """The grid pointing game of the class that Focus explains is Focus, on the same mosaics."""
    drawn, _ = Focus(per_class=1).draw(0)
    path = write_mosaics(drawn, tmp_path / "m", 64, "squash")
    labels = load_classifier("object_classifier").labels
    options = {"explainers": "grad_cam", "mosaics": path, "labels": labels}
    focus = heatproof.run("focus", **options, out=tmp_path / "focus").scores()
    grid = heatproof.run("focus", **options, setting="grid", out=tmp_path / "grid").scores()
    focus, grid = (rows.filter(metric="focus", pooling="sum_pos") for rows in (focus, grid))
    by_case = {(row["case"], row["target_class"]): row["value"] for row in grid.iter_rows(named=True)}
    assert len(by_case) > len(focus)
    for row in focus.iter_rows(named=True):
        assert by_case[f"{row['case']}-{row['target_class']}", row["target_class"]] == pytest.approx(row["value"])


def pictures(classes: int, each: int = 3) -> Pictures:
    return Pictures({f"c{k}": tuple(Path(f"c{k}/{i}.png") for i in range(each)) for k in range(classes)})


@pytest.mark.parametrize(("grid", "classes"), [(2, 4), (2, 6), (3, 9), (3, 11)])
def test_grids_show_distinct_classes_evenly(grid, classes):
    grids = draw_grids(pictures(classes), MosaicSettings(per_class=12, grid=grid), seed=3)
    assert all(len(set(one.labels)) == grid**2 for one in grids)
    counts = Counter(label for one in grids for label in one.labels)
    assert min(counts.values()) >= 11
    assert max(counts.values()) <= 14
    used = Counter(file for one in grids for file in one.files)
    assert max(used.values()) - min(used.values()) <= 2
    assert grids == draw_grids(pictures(classes), MosaicSettings(per_class=12, grid=grid), seed=3)
    assert all(file.parent.name == label for one in grids for file, label in zip(one.files, one.labels, strict=True))


def test_every_class_and_every_cell_is_a_case():
    two = Mosaic("000000", tuple(Path(f"{k}") for k in range(4)), ("a", "b", "a", "c"), "a")
    assert [(one.name, one.targets) for one in each_class([two])] == [
        ("000000-a", (True, False, True, False)),
        ("000000-b", (False, True, False, False)),
        ("000000-c", (False, False, False, True)),
    ]
    cells = each_cell([two, two])
    assert [one.target for one in cells] == ["a", "a", "b", "b", "a", "a", "c", "c"]
    assert cells[4].targets == (False, False, True, False), "of two tiles of a class, the one that the head sees"


def keep(kept: list[torch.Tensor], _module: nn.Module, _inputs: object, output: torch.Tensor) -> None:
    kept.append(output)


@pytest.mark.parametrize("name", ["object_classifier", "resnet18"])
@pytest.mark.parametrize("apart", [True, False])
def test_a_head_that_sees_one_cell(name, apart):
    """Reference: apart, the network asked about the cell cut out; else the head on the cell's part of the maps."""
    torch.manual_seed(0)
    if name == "resnet18":
        network = make_classifier(name, 5).eval()
    else:
        network = load_classifier(name).module
    inputs = torch.rand(5, 3, 128, 128)
    made = one_cell(name, network, 2, inputs[:1], apart, None)
    cells = torch.tensor([3, 0, 1, 3, 2])
    with torch.no_grad():
        found = made(inputs, cells)
        assert torch.equal(made(inputs), network(inputs)), "without cells it is the network itself"
        for place, cell in enumerate(cells.tolist()):
            row, column = divmod(cell, 2)
            if apart:
                piece = inputs[place : place + 1, :, 64 * row : 64 * row + 64, 64 * column : 64 * column + 64]
                wanted = network(piece)
            else:
                kept: list[torch.Tensor] = []
                hook = network.get_submodule(made.layer).register_forward_hook(partial(keep, kept))
                network(inputs[place : place + 1])
                hook.remove()
                half = kept[0].shape[2] // 2
                maps = kept[0][:, :, half * row : half * row + half, half * column : half * column + half].mean((2, 3))
                wanted = (network.fc if name == "resnet18" else network.linear)(maps)
            assert torch.allclose(found[place], wanted[0], atol=1e-5)
    assert not network.get_submodule(made.layer)._forward_hooks


def test_maps_are_read_over_the_whole_grid():
    network = load_classifier("object_classifier").module
    made = one_cell("n", network, 2, torch.rand(1, 3, 128, 128), True, None)
    batch = Batch(torch.rand(2, 3, 128, 128), torch.tensor([0, 1]), ("a", "b"), context=(torch.tensor([1, 1]),))
    _, found = spatial_activations(made, batch)
    assert found[-1].extent == (16, 16), "8x8 of each of four cells, side by side"


class Fixed(nn.Module):
    """A head that takes maps of one size only."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3, stride=8, padding=1)
        self.linear = nn.Linear(4 * 16 * 16, 6)

    def forward(self, pictures):
        return self.linear(self.conv(pictures).relu().flatten(1))


def test_what_cannot_be_is_named():
    with pytest.raises(HeatproofError, match="shows 9 distinct classes, and the pictures have 6"):
        Focus(setting="grid", grid=3).draw(0)
    with pytest.raises(HeatproofError, match="unknown setting 'gird'"):
        Focus(setting="gird")
    with pytest.raises(HeatproofError, match="cut says where the head begins"):
        Focus(setting="grid", cut="conv")
    with pytest.raises(HeatproofError, match="of setting focus"):
        Focus(setting="grid", layout="top")
    with pytest.raises(HeatproofError, match="cannot be given one cell of what conv returns"):
        one_cell("fixed", Fixed(), 2, torch.rand(1, 3, 128, 128), False, "conv")
    with pytest.raises(HeatproofError, match="has no module 'nothing'"):
        one_cell("fixed", Fixed(), 2, torch.rand(1, 3, 128, 128), False, "nothing")
    assert isinstance(
        one_cell("n", load_classifier("object_classifier").module, 2, torch.rand(1, 3, 64, 64), True, None), OneCell
    )
