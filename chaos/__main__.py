"""`make chaos`: how much of each harm is an option; the defaults are a slice of minutes."""

from __future__ import annotations

import argparse
import datetime
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

from chaos.children import forked, load_libraries


def main() -> int:
    parser = argparse.ArgumentParser(prog="chaos", description="Harm done on purpose, and what became of it.")
    parser.add_argument("--kills", type=int, default=33, metavar="N", help="kills over all commands (33)")
    parser.add_argument("--minutes", type=float, default=10**6, help="as many kills as fit into so many")
    parser.add_argument("--only", default="", metavar="TEXT", help="kill those commands alone whose names have this")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="of kills: where the next call goes on from")
    parser.add_argument("--mutations", type=int, default=200, metavar="N", help="changes to a run folder (200)")
    parser.add_argument("--inputs", type=int, default=2000, metavar="N", help="bad files and values (2,000)")
    parser.add_argument("--owners", type=int, default=10, metavar="N", help="two runs on one folder (10)")
    parser.add_argument("--faults", type=int, default=1, metavar="N", help="rounds of disk and worker faults (1)")
    parser.add_argument("--soak", type=float, default=0, metavar="MINUTES", help="small runs, over and over (0)")
    parser.add_argument("--memory", type=float, default=0, metavar="SCALE", help="of few and many cases; 1: all (0)")
    parser.add_argument("--seed", type=int, default=0, help="of all random draws")
    chosen = parser.parse_args()
    now = datetime.datetime.now(datetime.timezone.utc)
    print(f"heatproof {version('heatproof')}, {now:%Y-%m-%d %H:%M} UTC, seed {chosen.seed}\n", flush=True)
    load_libraries()
    well = True
    folder = Path(tempfile.mkdtemp(prefix="heatproof-chaos-"))  # not a block: children would remove it at their end
    try:
        if chosen.kills:
            well &= show_kills(folder, chosen)
        for name, bad, count in (
            ("owners", ("of these lost", "tracebacks", "other errors", "locks left"), chosen.owners),
            ("faults", ("bad",), chosen.faults),
            ("mutations", ("silently wrong", "tracebacks", "resumed and not equal"), chosen.mutations),
            ("fuzz", ("tracebacks", "hangs"), chosen.inputs),
            ("soak", ("bad",), chosen.soak),
            ("memory", ("bad",), chosen.memory),
        ):
            if count:
                well &= apart(folder / name, name, bad, count, chosen.seed)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return 0 if well else 1


def show_kills(folder: Path, chosen: argparse.Namespace) -> bool:
    from chaos.kills import HEADS, kills

    place = chosen.keep or folder / "kills"
    place.mkdir(parents=True, exist_ok=True)
    found = kills(place, chosen.kills, chosen.seed, chosen.only, chosen.minutes)
    table(HEADS, [[name, by, *tally.cells] for name, by, tally in found])
    return all(tally.is_well for _, _, tally in found)


def apart(folder: Path, name: str, bad: Sequence[str], count: float, seed: int) -> bool:
    """One kind of harm in a process of its own, so that this one starts no threads."""
    from importlib import import_module

    folder.mkdir()

    def work() -> None:
        harm: Callable[[Path, float, int], Mapping[str, object]] = getattr(import_module(f"chaos.{name}"), name)
        found = harm(folder, count, seed)
        table((name, "number"), [[key, f"{value:,}"] for key, value in found.items()])
        sys.exit(1 if any(found.get(key) for key in bad) else 0)

    child = forked(work, folder / "said.txt")
    try:
        return child.end() == 0
    except KeyboardInterrupt:
        child.kill()
        raise
    finally:
        print(child.text, flush=True)


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    print("| " + " | ".join(heads) + " |")
    print("|" + "---|" * len(heads))
    for row in rows:
        print("| " + " | ".join(row) + " |")
    print(flush=True)


if __name__ == "__main__":
    sys.exit(main())
