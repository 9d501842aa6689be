"""CI fails on a skip that is not listed: the plugin in sessions of its own, and the list against the tests."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

import skips

ROOT = Path(__file__).parents[1]
MODULE = """
import pytest

def test_listed():
    pytest.skip("needs the moon")

def test_passes():
    pass

@pytest.mark.xfail
def test_expected_to_fail():
    assert False

@pytest.mark.parametrize("number", [1, 2])
def test_other(number):
    pytest.skip("needs the sun")
"""
LISTED = "test_it.py::test_listed | always | needs the moon\n"
BOTH = LISTED + "test_it.py::test_other* | always | needs the sun\n"


def session(folder: Path, listed: str, *words: str, module: str = MODULE, **variables: str) -> tuple[int, str]:
    """Exit code and output of a session with its own tests and list."""
    (folder / "test_it.py").write_text(module)
    (folder / "allowed.txt").write_text(listed)
    inherited = {name: value for name, value in os.environ.items() if name != "CI" and "PYTEST" not in name}
    quick = {"PYTHONPATH": str(ROOT / "tests"), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    environment = inherited | quick | variables
    command = [sys.executable, "-m", "pytest", "-p", "skips", "-p", "no:cacheprovider", "-c", os.devnull]
    done = subprocess.run(
        [*command, "--rootdir", str(folder), "--allowed-skips", str(folder / "allowed.txt"), *words, "test_it.py"],
        cwd=folder, env=environment, capture_output=True, text=True,
    )  # fmt: skip
    return done.returncode, done.stdout + done.stderr


def test_in_ci_a_skip_that_is_not_listed_fails(tmp_path: Path) -> None:
    code, said = session(tmp_path, LISTED, CI="true")
    assert code == 1
    told = said.split("skips that allowed_skips.txt does not list")[1]
    assert "test_it.py::test_other[1]: needs the sun" in told
    assert "test_it.py::test_other[2]: needs the sun" in told
    assert "test_listed" not in told
    assert "test_expected_to_fail" not in told


def test_side_by_side_too(tmp_path: Path) -> None:
    """xdist: the workers skip, the process that started them fails."""
    code, said = session(tmp_path, LISTED, "--strict-skips", "-p", "xdist", "-n", "1")
    assert code == 1
    assert said.count("test_it.py::test_other[1]: needs the sun") == 1
    assert session(tmp_path, BOTH, "--strict-skips", "-p", "xdist", "-n", "1")[0] == 0


@pytest.mark.parametrize("words", [(), ("-p", "xdist", "-n", "1")], ids=["alone", "side by side"])
def test_a_module_that_skips_as_a_whole(tmp_path: Path, words: tuple[str, ...]) -> None:
    (tmp_path / "test_more.py").write_text("def test_passes():\n    pass\n")
    whole = "import pytest\npytest.importorskip('nothing_of_this_name', reason='needs nothing')\n"
    code, said = session(tmp_path, LISTED, "test_more.py", *words, module=whole, CI="1")
    assert code == 1
    assert "test_it.py: needs nothing" in said
    listed = "test_it.py | always | needs nothing\n"
    assert session(tmp_path, listed, "test_more.py", *words, module=whole, CI="1")[0] == 0


def test_elsewhere_skips_are_skips(tmp_path: Path) -> None:
    for variables in ({}, {"CI": "false"}, {"CI": ""}):
        assert session(tmp_path, LISTED, **variables)[0] == 0
    assert session(tmp_path, BOTH, CI="true")[0] == 0


def test_the_condition_and_the_words_must_hold(tmp_path: Path) -> None:
    line = "test_it.py::* | no-shared-data | needs the\n"
    assert session(tmp_path, line, CI="1", HEATPROOF_SHARED_DATA="/nowhere/at/all")[0] == 0
    assert session(tmp_path, line, CI="1", HEATPROOF_SHARED_DATA=str(tmp_path))[0] == 1
    assert session(tmp_path, "test_it.py::* | always | needs the moon\n", CI="1")[0] == 1


@pytest.mark.parametrize("line", ["a | always", "a | sometimes | b", "a | always |", "a"])
def test_lines_that_cannot_be_read_are_refused(tmp_path: Path, line: str) -> None:
    (tmp_path / "list.txt").write_text(f"# a comment\n\n{line}\n")
    with pytest.raises(pytest.UsageError, match=r"list.txt: write TEST \| CONDITION \| REASON"):
        skips.read_allowed(tmp_path / "list.txt")


def test_the_list_is_about_tests_that_exist() -> None:
    """A test that is renamed or gone takes its line along."""
    for allowed in skips.read_allowed(skips.ALLOWED):
        path, _, pattern = allowed.pattern.partition("::")
        names = re.findall(r"^def (test_\w+)", (ROOT / path).read_text(encoding="utf-8"), re.MULTILINE)
        assert any(fnmatchcase(name, pattern) for name in names), allowed.pattern
