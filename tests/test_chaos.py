"""A slice of `make chaos`: enough to notice what would be counted there."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from chaos.fuzz import fuzz
from chaos.mutations import mutations

PROJECT = Path(__file__).parents[1]


def apart(code: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """In a process that has no threads yet, for it forks."""
    begin = "from pathlib import Path\nfrom chaos.children import load_libraries\nload_libraries()\n"
    begin += f"folder = Path({str(folder)!r})\n"
    return subprocess.run([sys.executable, "-c", begin + code], capture_output=True, text=True, cwd=PROJECT)


def test_random_changes_to_a_run_folder_are_never_silent(tmp_path, monkeypatch):
    monkeypatch.setenv("HEATPROOF_HOME", str(tmp_path / "home"))
    found = mutations(tmp_path, 40, seed=3, resumed_every=20)
    assert found["named"] + found["says the same"] == found["changes"]
    assert (found["silently wrong"], found["tracebacks"]) == (0, 0)
    assert found["resumed"] == found["resumed and equal"] == 2


def test_random_files_and_values_are_taken_or_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = fuzz(tmp_path, 400, seed=5)
    assert found["inputs"] == found["taken"] + found["refused in a sentence"] == 400


def test_killed_at_random_moments_a_run_gives_the_same(tmp_path):
    code = "from chaos.kills import kills\n(_, _, tally), *_ = kills(folder, 2, 1, 'run svea')\n"
    done = apart(code + "print(tally)\nassert tally.is_well, tally", tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


def test_two_owners_lose_nothing(tmp_path):
    done = apart("from chaos.owners import owners\nprint(dict(owners(folder, 1, 2)))", tmp_path)
    assert done.returncode == 0, done.stderr
    for bad in ("of these lost", "tracebacks", "other errors", "locks left"):
        assert f"'{bad}': 0" in done.stdout


@pytest.mark.slow
def test_every_command_survives_its_kills_and_every_fault(tmp_path):
    words = ["--kills", "33", "--owners", "5", "--mutations", "300", "--inputs", "3000", "--faults", "1"]
    done = subprocess.run([sys.executable, "-m", "chaos", *words], capture_output=True, text=True, cwd=PROJECT)
    assert done.returncode == 0, done.stdout + done.stderr
