"""What GitHub runs: the files can be read, name what exists, and try every Python that the package claims."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[1]
FILES = sorted((ROOT / ".github").rglob("*.yml"))
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))


def read(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_files_can_be_read(path):
    assert read(path)


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_jobs_have_a_limit_and_call_what_exists(path):
    workflow = read(path)
    assert workflow["permissions"]["contents"] == "read"
    for name, job in workflow["jobs"].items():
        if "uses" in job:  # another workflow of ours
            called = read(ROOT / job["uses"].removeprefix("./"))
            assert "workflow_call" in called[True]  # YAML 1.1 takes the word "on" for a truth value
            continue
        assert job["runs-on"] == "ubuntu-latest"
        assert "timeout-minutes" in job, f"{name} may hang for six hours"
        assert set(job.get("needs", [])) <= set(workflow["jobs"])
        for step in job["steps"]:
            assert ("run" in step) != ("uses" in step)
            for target in re.findall(r"^make ([a-z-]+)", step.get("run", ""), re.MULTILINE):
                assert target in TARGETS


def test_every_python_that_is_claimed_is_tried():
    project = (ROOT / "pyproject.toml").read_text()  # Python 3.10 has no tomllib
    claimed = re.findall(r'"Programming Language :: Python :: (3\.\d+)"', project)
    checks = read(ROOT / ".github" / "workflows" / "checks.yml")
    assert checks["jobs"]["tests"]["strategy"]["matrix"]["python-version"] == claimed
    assert f"PYTHONS ?= {' '.join(claimed)}" in (ROOT / "Makefile").read_text()
    assert f'requires-python = ">={claimed[0]}"' in project


def test_nothing_is_published_that_was_not_checked_built_and_audited():
    jobs = read(ROOT / ".github" / "workflows" / "release.yml")["jobs"]
    assert set(jobs["publish"]["needs"]) == {"checks", "build"}
    steps = "\n".join(step.get("run", "") for step in jobs["build"]["steps"])
    for words in ("GITHUB_REF_NAME", "make package", "pip_audit"):
        assert words in steps


SOUND, SKIPPED = {"name": "a", "version": "1", "vulns": []}, {"name": "b", "skip_reason": "not found"}


@pytest.mark.parametrize(
    ("audit", "found", "code", "words"),
    [
        (0, [SOUND], 0, ""),
        (0, [SOUND, SKIPPED], 0, "::warning::not looked up, because the database does not know them: b"),
        (1, [SOUND | {"vulns": [{"id": "PYSEC-1"}]}], 1, "PYSEC-1"),
        (1, None, 0, "::warning::the database of known vulnerabilities could not be asked"),
    ],
    ids=["sound", "not all looked up", "vulnerable", "not reached"],
)
def test_an_audit_that_looked_nothing_up_is_not_taken_for_a_sound_one(tmp_path, audit, found, code, words):
    """The step as it stands, with a pip-audit that answers what it is told; the real one ends with 0 where it skips."""
    steps = read(ROOT / ".github" / "workflows" / "release.yml")["jobs"]["build"]["steps"]
    (script,) = [step["run"] for step in steps if "pip_audit" in step.get("run", "")]
    for folder in ("build/empty/bin", "bin"):
        (tmp_path / folder).mkdir(parents=True)
    answer = "" if found is None else f"echo '{json.dumps({'dependencies': found})}' > build/audit.json; "
    python = (
        f'#!/bin/sh\ncase "$*" in *pip_audit*) {answer}exit {audit};; *pip*) ;; *) exec {sys.executable} "$@";; esac\n'
    )
    for place in ("bin/python", "build/empty/bin/python"):
        (tmp_path / place).write_text(python)
        (tmp_path / place).chmod(0o755)
    env = os.environ | {"PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}"}
    done = subprocess.run(["bash", "-e", "-c", script], cwd=tmp_path, env=env, capture_output=True, text=True)
    assert done.returncode == code, done.stderr
    assert words in done.stdout
    assert bool(words) == bool(done.stdout)
