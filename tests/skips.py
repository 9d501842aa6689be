"""Skipped tests are failures in CI, except for those that `allowed_skips.txt` lists and where its condition holds.

A pytest plugin that conftest.py takes over; strict where the variable CI is set, or with --strict-skips.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from importlib.util import find_spec
from pathlib import Path

import pytest

ALLOWED = Path(__file__).with_name("allowed_skips.txt")


def shared_folder() -> Path:
    """Where real data lies that is not part of the project."""
    return Path(os.environ.get("HEATPROOF_SHARED_DATA", Path(__file__).parents[2] / "shared" / "data"))


def has_blender() -> bool:
    return find_spec("bpy") is not None or "HEATPROOF_BLENDER_PYTHON" in os.environ


CONDITIONS: dict[str, Callable[[], bool]] = {
    "always": lambda: True,
    "no-shared-data": lambda: not shared_folder().exists(),
    "no-blender": lambda: not has_blender(),
    "blender": has_blender,
    "no-pdflatex": lambda: shutil.which("pdflatex") is None,
    "no-linux": lambda: not sys.platform.startswith("linux"),
    "python-3.10": lambda: sys.version_info < (3, 11),
}
"""When a line of the list counts. A folder of data that is there but lacks a file excuses nothing."""


@dataclass(frozen=True)
class AllowedSkip:
    """A line of the list: which tests may skip, under which condition, and words that the skip must say."""

    pattern: str
    condition: str
    words: str

    def covers(self, test: str, reason: str) -> bool:
        return fnmatchcase(test, self.pattern) and self.words in reason and CONDITIONS[self.condition]()


def read_allowed(path: Path) -> list[AllowedSkip]:
    """The lines of the list that are neither empty nor comments."""
    found = []
    for line in path.read_text(encoding="utf-8").splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        columns = [column.strip() for column in line.split("|")]
        if len(columns) != 3 or not all(columns) or columns[1] not in CONDITIONS:
            known = ", ".join(CONDITIONS)
            raise pytest.UsageError(f"{path.name}: write TEST | CONDITION | REASON, with one of {known}: {line}")
        found.append(AllowedSkip(*columns))
    return found


class SkipWatch:
    """Gathers the skips of a session that nothing allows."""

    def __init__(self, allowed: list[AllowedSkip]) -> None:
        self.allowed = allowed
        self.unlisted: list[str] = []

    def look(self, report: pytest.TestReport | pytest.CollectReport) -> None:
        if not report.skipped or hasattr(report, "wasxfail"):
            return
        reason = report.longrepr[2] if isinstance(report.longrepr, (tuple, list)) else str(report.longrepr)
        reason = reason.removeprefix("Skipped: ")
        if not any(allowed.covers(report.nodeid, reason) for allowed in self.allowed):
            self.unlisted.append(f"{report.nodeid}: {reason}")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.look(report)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        self.look(report)  # a module that skips as a whole

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self.unlisted and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self.unlisted:
            terminalreporter.section("skips that allowed_skips.txt does not list")
            for line in self.unlisted:
                terminalreporter.line(line)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--strict-skips", action="store_true", help="fail on skips that are not listed, as CI does")
    parser.addoption("--allowed-skips", type=Path, default=ALLOWED, help="the list of skips that are allowed")


def pytest_configure(config: pytest.Config) -> None:
    strict = config.getoption("--strict-skips") or os.environ.get("CI", "").lower() not in ("", "0", "false")
    if strict and not hasattr(config, "workerinput"):  # xdist's workers report to the process that started them
        config.pluginmanager.register(SkipWatch(read_allowed(config.getoption("--allowed-skips"))), "skip-watch")
