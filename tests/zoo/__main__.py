"""All identities on all networks: `make zoo`.

Prints each network as it is done and what is not as the table says, then the matrix, which a whole run also writes into
docs/explainers/networks.md. Fails if anything is wrong, a traceback, or not as expected.
"""

from __future__ import annotations

import argparse
import sys
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context

from zoo import matrix
from zoo.cells import Cell, of_number
from zoo.networks import NETWORKS


def main() -> int:
    parser = argparse.ArgumentParser(prog="zoo", description="Every method on every network.")
    parser.add_argument("names", nargs="*", help="parts of names of networks; by default all")
    parser.add_argument("--jobs", type=int, default=2, help="how many processes work side by side")
    chosen = parser.parse_args()
    numbers = [
        number
        for number, network in enumerate(NETWORKS)
        if not chosen.names or any(name.lower() in network.name.lower() for name in chosen.names)
    ]
    found = walk(numbers, chosen.jobs)
    if not chosen.names:
        print(matrix.table(found))
        matrix.write(found)
    print(matrix.count(found))
    return int(any(cell.surprising for cell in found))


def walk(numbers: list[int], jobs: int) -> list[Cell]:
    """All cells of these networks, with a line for each network."""
    start, found = time.perf_counter(), []
    with ProcessPoolExecutor(jobs, get_context("spawn")) as pool:
        waiting = {pool.submit(of_number, number): NETWORKS[number] for number in numbers}
        for done, future in enumerate(as_completed(waiting), 1):
            network, cells = waiting[future], future.result()
            found += cells
            passed = f"{done}/{len(numbers)}, {time.perf_counter() - start:.0f} s"
            print(f"[{passed}] {network.family}: {network.name} ({sum(c.seconds for c in cells):.1f} s)", flush=True)
            for cell in cells:
                if cell.surprising:
                    print(f"    {cell.identity}: {cell.found}, expected {cell.expected}. {cell.words}", flush=True)
    return found


if __name__ == "__main__":
    sys.exit(main())
