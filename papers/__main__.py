"""Every line of the papers that can be shown with what ships, in its quick form: `make papers`.

Prints paper and ours side by side, and writes the map with these figures into
docs/papers.md; `--keep` leaves that as it is.
"""

from __future__ import annotations

import argparse
import datetime
import subprocess
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path

from papers import map_of_papers
from papers.kinds import Done
from papers.steps import STEPS


def main() -> int:
    parser = argparse.ArgumentParser(prog="papers", description="The three papers, line by line.")
    parser.add_argument("--keep", action="store_true", help="print only; leave docs/papers.md as it is")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        done = run_steps(Path(folder))
        text = map_of_papers.written(done)
    print(text)
    if not chosen.keep:
        now = datetime.datetime.now(datetime.timezone.utc)
        map_of_papers.write(text, f"heatproof {version('heatproof')}, {now:%Y-%m-%d}")
    return 0


def run_steps(folder: Path) -> Done:
    """All commands, one after the other."""
    printed: dict[str, str] = {}
    begun = time.perf_counter()
    for step in STEPS:
        words = [
            word.format(out=folder / step.name, **{n: folder / n for n in step.needs}) for word in step.words.split()
        ]
        print(f"[{time.perf_counter() - begun:4.0f} s] heatproof {step.words}", file=sys.stderr, flush=True)
        made = subprocess.run([sys.executable, "-m", "heatproof", *words], capture_output=True, text=True)
        if made.returncode:
            sys.exit(f"heatproof {step.words} failed:\n{made.stderr}")
        printed[step.name] = made.stdout
    print(f"[{time.perf_counter() - begun:4.0f} s] done", file=sys.stderr)
    return Done(folder, printed)


if __name__ == "__main__":
    sys.exit(main())
