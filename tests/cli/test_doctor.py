"""`heatproof doctor` on this installation, and on ones that lack something."""

from __future__ import annotations

import json
import sys
from importlib import metadata

import pytest
from packaging.requirements import Requirement
from typer.testing import CliRunner

from heatproof import doctor as doctors
from heatproof.cli.app import app


def doctor(*words: str):
    return CliRunner().invoke(app, ["doctor", *words], env={"COLUMNS": "200"})


def findings() -> dict[str, dict[str, dict[str, str]]]:
    found: dict[str, dict[str, dict[str, str]]] = {}
    for line in json.loads(doctor("--json").stdout):
        found.setdefault(line["topic"], {})[line["name"]] = line
    return found


def test_it_says_what_is_there():
    found = findings()
    for package in ("torch", "numpy", "scikit-learn"):
        assert found["packages"][package]["found"] == metadata.version(package)
    assert found["extras"]["captum"]["state"] == "ok"
    assert (
        found["cache"]["relation-network"] | {"state": "absent", "hint": "heatproof fetch relation-network"}
        == (found["cache"]["relation-network"])
    )
    shown = doctor()
    assert shown.exit_code == 0, shown.stdout
    assert "Nothing is wrong." in shown.stdout


@pytest.mark.parametrize("extra", ["", "captum", "zennit", "ray"])
def test_requirements_are_those_that_packaging_reads(extra):
    lines = [Requirement(line) for line in metadata.requires("heatproof") or []]
    asked = [line for line in lines if (f'extra == "{extra}"' in str(line.marker)) == bool(extra)]
    expected = {line.name for line in asked if extra or "extra" not in str(line.marker)}
    assert {name for name, _ in doctors.requirements(extra)} == expected
    assert expected


def test_a_package_that_does_not_load_is_wrong(monkeypatch):
    monkeypatch.setitem(sys.modules, "polars", None)  # importing it fails
    shown = doctor()
    assert shown.exit_code == 2
    assert "polars" in shown.stderr
    assert "must be fixed" in shown.stderr


def test_an_extra_that_is_missing_is_no_fault(monkeypatch):
    version = metadata.version

    def without_captum(name: str) -> str:
        if name == "captum":
            raise metadata.PackageNotFoundError(name)
        return version(name)

    monkeypatch.setattr(metadata, "version", without_captum)
    extra = findings()["extras"]["captum"]
    assert extra["state"] == "absent"
    assert extra["hint"] == "pip install 'heatproof[captum]'"


def test_a_damaged_download_is_wrong(tmp_path, monkeypatch):
    monkeypatch.setenv("HEATPROOF_HOME", str(tmp_path))
    (tmp_path / "downloads").mkdir()
    (tmp_path / "downloads" / "original_fp_epoch_493.pth").write_bytes(b"cut off")
    assert findings()["cache"]["relation-network"]["state"] == "wrong"
