"""Which layer class activation maps read: in run.json, on the page, in Python and on the command line."""

from __future__ import annotations

import json

from typer.testing import CliRunner

import heatproof
from heatproof.cli.app import app
from heatproof.results.run import Results
from heatproof.run_folder import MANIFEST
from nets import make_picture_net
from run_files import write_manifest

SPECS = "gradient,grad_cam,grad_cam:layer=conv2,sise,randomised:layer_cam"
READ = {"grad_cam": "relu3", "grad_cam:layer=conv2": "conv2", "sise": "relu3", "randomised:layer_cam": "relu3"}


def test_the_layer_stands_in_run_json_and_on_the_page(tmp_path):
    """Also where an explainer names a layer that is not there: its own failure says so, and nothing is made up."""
    run = heatproof.run("svea", explainers=f"{SPECS},grad_cam:layer=conv9", limit=3, model_seeds=2, out=tmp_path)
    models = {"mnist1d_cnn-1", "mnist1d_cnn-2"}
    assert run.layers == {spec: dict.fromkeys(models, layer) for spec, layer in READ.items()}
    written = json.loads((tmp_path / MANIFEST).read_text())["explainers"]
    assert {entry["explainer"] for entry in written if "layers" not in entry} == {"gradient", "grad_cam:layer=conv9"}
    page = (tmp_path / "report.html").read_text()
    assert page.count("reads <code>relu3</code>") == 6  # for two quantities
    assert page.count("reads <code>conv2</code>") == 2


def test_a_folder_from_before_is_still_read(tmp_path):
    """One whose run.json says nothing of layers: its page is made again, and the run goes on."""
    made = heatproof.run("svea", explainers="grad_cam", limit=3, out=tmp_path)
    manifest = json.loads((tmp_path / MANIFEST).read_text())
    for entry in manifest["explainers"]:
        del entry["layers"]
    write_manifest(tmp_path, manifest)
    assert Results(tmp_path).layers == {}
    assert "reads <code>" not in heatproof.load_run(tmp_path).report().read_text()
    again = heatproof.run("svea", explainers="grad_cam", limit=3, out=tmp_path)
    assert again.layers == made.layers == {"grad_cam": {"mnist1d_cnn-1": "relu3"}}


def test_the_page_says_where_models_differ():
    from heatproof.report.how import layers_text

    assert layers_text({"a": "layer4", "b": "layer4"}) == "layer4"
    assert layers_text({"a": "layer4", "b": "features"}) == "layer4 in a; features in b"


def test_layers_are_listed():
    """By `heatproof show --layers`, and for any network in Python."""
    shown = CliRunner().invoke(app, ["show", "svea", "--layers"], env={"COLUMNS": "200", "NO_COLOR": "1"})
    assert shown.exit_code == 0, shown.output
    lines = [line.split() for line in shown.output.splitlines() if "25 x 40" in line]
    assert [line[0] for line in lines] == ["conv1", "relu1", "conv2", "relu2", "conv3", "relu3"]
    assert [line[-1] for line in lines] == ["all"] * 5 + ["automatic"]
    missing = CliRunner().invoke(app, ["show", "svea"], env={"COLUMNS": "200", "NO_COLOR": "1"})
    assert missing.exit_code == 2
    assert "say which case to draw, or take --layers" in missing.output
    net = make_picture_net()
    found = heatproof.layers(net.model.float(), net.batch.inputs.float())
    assert [(layer.name, layer.channels, layer.extent) for layer in found if layer.automatic] == [
        ("features", 6, (3, 4))
    ]
