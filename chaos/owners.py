"""Two runs with other explainers at once on one folder: nothing of either that has come to its end is lost."""

from __future__ import annotations

import random
import time
from collections import Counter
from pathlib import Path

from chaos.children import command

PAIR = ("gradient", "random,centre")


def owners(folder: Path, count: int, seed: int = 0) -> Counter[str]:
    """So many tries, the second begun at a random moment of the first."""
    draws = random.Random(seed)
    found: Counter[str] = Counter()
    for number in range(count):
        out = folder / f"owned-{number}"
        children = []
        for place, names in enumerate(PAIR):
            words = ["run", "svea", "--limit", "30", "--target", "logit", "--engine", "local", "--explainers", names]
            children.append(command([*words, "--out", str(out)], folder / f"owner-{place}.txt", folder / "home"))
            time.sleep(draws.uniform(0, 1.5))
        codes = [child.end() for child in children]
        said = [child.text for child in children]
        found["tries"] += 1
        found["refused while the other wrote"] += sum("is in use: process" in text for text in said)
        found["tracebacks"] += sum("Traceback" in text for text in said)
        found["other errors"] += sum(
            code != 0 and "is in use" not in text for code, text in zip(codes, said, strict=True)
        )
        ended = [names for names, code in zip(PAIR, codes, strict=True) if code == 0]
        table = (out / "leaderboard.csv").read_text() if ended else ""
        stored = {path.name.partition("@")[0] for path in (out / "scores").iterdir()} if ended else set()
        kept = [name for names in ended for name in names.split(",") if f",{name}," in table and name in stored]
        found["explainers of runs that ended well"] += sum(len(names.split(",")) for names in ended)
        found["of these lost"] += sum(len(names.split(",")) for names in ended) - len(kept)
        found["locks left"] += (out / ".lock").exists()
    return found
