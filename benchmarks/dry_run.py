"""What `--dry-run` says of whole commands beside what they take: CPU seconds and memory, with one job and with two.

Each is a process of its own, the run right after its dry run: on a busy machine the same work takes more CPU seconds.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

COMMANDS = {
    "SVEA quick": "run svea --preset quick",
    "Focus quick": "run focus --preset quick",
    "CLEVR-XAI quick": "run clevr-xai --preset quick",
    "SVEA, 3 others": "run svea --limit 2000 --explainers lime,kernel_shap,occlusion",
    "Focus, 3 others": "run focus --per-class 4 --explainers rise:masks=100,score_cam,gradient",
}
TOTAL, MOST = re.compile(r"^ *total +([\d,.]+) *$", re.MULTILINE), re.compile(r"at most ([\d.]+) GB")


@dataclass(frozen=True)
class Cost:
    """CPU seconds of a command with all its processes, and the most that these held together in GB."""

    seconds: float
    memory: float


def command(words: str, jobs: int) -> list[str]:
    return [sys.executable, "-m", "heatproof", *words.split(), "--jobs", str(jobs), "--quiet"]


def predicted(words: str, jobs: int, environment: dict[str, str]) -> Cost:
    """What the dry run prints."""
    said = subprocess.run(
        [*command(words, jobs), "--dry-run"], env=environment, check=True, capture_output=True, text=True
    ).stdout
    total, most = TOTAL.search(said), MOST.search(said)
    assert total is not None
    assert most is not None
    return Cost(float(total[1].replace(",", "")), float(most[1]))


def measured(words: str, jobs: int, environment: dict[str, str], folder: Path) -> Cost:
    """What the run takes: with several processes, its memory is what they held together while they explained."""
    process = subprocess.Popen(
        [*command(words, jobs), "--out", str(folder)],
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, f"{words} failed"
    together = json.loads((folder / "run.json").read_text())["cost"]["memory"]
    return Cost(used.ru_utime + used.ru_stime, max(used.ru_maxrss * 1024, together) / 10**9)


def main() -> None:
    print("what --dry-run says and what the command takes; ratio: said / taken")
    print(f"{'':<16} {'':<6} {'CPU s':>7} {'taken':>7} {'ratio':>6} {'GB':>7} {'taken':>7} {'ratio':>6}")
    for name, words in COMMANDS.items():
        for jobs in (1, 2):
            with tempfile.TemporaryDirectory() as place:
                environment = os.environ | {"HEATPROOF_HOME": f"{place}/home"}  # nothing is known from former runs
                said = predicted(words, jobs, environment)
                taken = measured(words, jobs, environment, Path(place) / "run")
            print(
                f"{name:<16} {jobs} job{'s' * (jobs > 1):<1} {said.seconds:>7.1f} {taken.seconds:>7.1f}"
                f" {said.seconds / taken.seconds:>6.2f} {said.memory:>7.2f} {taken.memory:>7.2f}"
                f" {said.memory / taken.memory:>6.2f}",
                flush=True,
            )
