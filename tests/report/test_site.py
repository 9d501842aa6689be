"""A folder for a web server: what is in it, and whose files it leaves alone."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys

import pytest

import heatproof
from heatproof.errors import HeatproofError


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    out = tmp_path_factory.mktemp("run") / "My run"
    return heatproof.run("svea", explainers="gradient,random,oracle", limit=100, target="logit", out=out, jobs=1)


@pytest.fixture
def other(run, tmp_path):
    return heatproof.load_run(shutil.copytree(run.folder, tmp_path / "runs" / "my-run!"))


def contents(folder):
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_what_is_in_it(run, other, tmp_path):
    """Two runs whose names are alike in addresses get two places; all links of the plain files lead somewhere."""
    index = heatproof.publish([run, other], tmp_path / "site")
    found = contents(tmp_path / "site")
    assert index == tmp_path / "site" / "index.html"
    assert {"index.html", "leaderboard.json", "llms.txt", "site.json"} <= set(found)
    for name in ("my-run", "my-run-2"):
        for file in ("report.html", "leaderboard.csv", "leaderboard.md", "leaderboard.json", "verdict.json"):
            assert f"runs/{name}/{file}" in found
    assert found["runs/my-run/report.html"] == (run.folder / "report.html").read_bytes()
    everything = json.loads(found["leaderboard.json"])
    assert [entry["name"] for entry in everything["runs"]] == ["my-run", "my-run-2"]
    board = everything["runs"][0]["leaderboard"]
    assert [line["mean"] for line in board] == run.leaderboard()["mean"].to_list()
    assert everything["runs"][0]["verdict"] == list(run.verdict.sentences)
    assert run.verdict.sentences[0].encode() in found["index.html"]
    for link in re.findall(r"\]\(([^)]+)\)", found["llms.txt"].decode()):
        assert link in found
    for link in re.findall(r'href="([^"]+)"', found["index.html"].decode()):
        assert link in found
    assert b"http" not in found["index.html"], "nothing is asked of others"


def test_again_it_replaces_its_own_and_nothing_else(run, other, tmp_path):
    site = tmp_path / "site"
    heatproof.publish([run, other], site)
    before = contents(site)
    heatproof.publish([run, other], site)
    assert contents(site) == before
    (site / "CNAME").write_text("mine")
    (site / "runs" / "my-run-2" / "notes.txt").write_text("mine too")
    heatproof.publish([run], site)
    after = contents(site)
    assert after["CNAME"] == b"mine"
    assert {path for path in after if "my-run-2" in path} == {"runs/my-run-2/notes.txt"}
    heatproof.publish([run, other], site)
    assert set(contents(site)) == {*before, "CNAME", "runs/my-run-2/notes.txt"}


def test_what_is_not_its_own_is_refused(run, tmp_path):
    full = tmp_path / "full"
    full.mkdir()
    (full / "index.html").write_text("mine")
    with pytest.raises(HeatproofError, match="not empty and holds no site"):
        heatproof.publish([run], full)
    assert contents(full) == {"index.html": b"mine"}
    (full / "site.json").write_text('{"kind": "another"}')
    with pytest.raises(HeatproofError, match="not empty and holds no site"):
        heatproof.publish([run], full)
    (tmp_path / "file").write_text("")
    with pytest.raises(HeatproofError, match="is a file"):
        heatproof.publish([run], tmp_path / "file")
    with pytest.raises(HeatproofError, match="at least one run"):
        heatproof.publish([], tmp_path / "none")


def test_a_file_of_somebody_else_in_its_way_is_named(run, other, tmp_path):
    site = tmp_path / "site"
    heatproof.publish([run], site)
    (site / "runs" / "my-run-2").mkdir()
    (site / "runs" / "my-run-2" / "report.html").write_text("mine")
    with pytest.raises(HeatproofError, match=r"my-run-2/report\.html is not the site's own"):
        heatproof.publish([run, other], site)
    assert (site / "runs" / "my-run-2" / "report.html").read_text() == "mine"


def test_a_list_of_files_cannot_reach_outside(run, tmp_path):
    """site.json is a file like any other: what it names beyond the folder stays."""
    site, kept = tmp_path / "site", tmp_path / "kept.txt"
    kept.write_text("mine")
    heatproof.publish([run], site)
    listed = json.loads((site / "site.json").read_text())
    listed["files"] += ["../kept.txt", str(kept)]
    (site / "site.json").write_text(json.dumps(listed))
    heatproof.publish([run], site)
    assert kept.read_text() == "mine"


def test_pictures_beside_a_page_come_along_and_go_with_it(other, tmp_path):
    """Nothing else of the run's folder does, and no link that leads out of it."""
    folder = other.folder / "report_files" / "r1"
    folder.mkdir(parents=True)
    (folder / "a b.webp").write_bytes(b"picture")
    (tmp_path / "secret.txt").write_text("secret")
    (folder / "link.webp").symlink_to(tmp_path / "secret.txt")
    heatproof.publish([other], tmp_path / "site")
    found = contents(tmp_path / "site")
    assert found["runs/my-run/report_files/r1/a b.webp"] == b"picture"
    assert {path for path in found if "files" in path} == {"runs/my-run/report_files/r1/a b.webp"}
    shutil.rmtree(folder.parent)
    heatproof.publish([other], tmp_path / "site")
    assert not (tmp_path / "site" / "runs" / "my-run" / "report_files" / "r1").exists()


def test_the_command(run, tmp_path):
    command = [sys.executable, "-c", "from heatproof.cli import main; main()", "publish", str(run.folder)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["site", "site/index.html"]
    failed = subprocess.run([*command, "--out", str(run.folder)], capture_output=True, text=True, cwd=tmp_path)
    assert failed.returncode == 2
    assert "holds no site" in failed.stderr
