"""Bytes of a run folder are changed at random: each change is found when the file is read, or changes nothing."""

from __future__ import annotations

import os
import random
import shutil
from collections import Counter
from pathlib import Path

SVEA = {"limit": 20, "explainers": "gradient,random", "target": "logit", "engine": "local", "keep_heatmaps": True}
NOT_READ = ("README.md", "leaderboard.md", "report.html", "run.schema.json")
"""Files for people, made from the others."""


def everything(folder: Path) -> object:
    """Whatever tables and pages read of a run."""
    from chaos.commands import MEASURED, scores
    from heatproof import load_run
    from heatproof.report.sections import read_sections

    run = load_run(folder)
    files = run.files
    shown = files.example_scores()
    maps = [
        sorted((case, heat.tobytes()) for case, heat in files.each_heatmap(entry["folder"], model))
        for entry in run.manifest["explainers"]
        for model in run.manifest["models"]
    ]
    return [
        scores(folder),
        maps,
        sorted((name, array.tobytes()) for name, array in files.examples().items()),
        None if shown is None else sorted(str(row) for row in shown.rows() if not set(MEASURED) & set(map(str, row))),
        run.statistics().rows(),
        str(run.verdict.plain()),
        str(read_sections(files)),
        str(run.manifest["story"]),
    ]


def mutate(path: Path, draws: random.Random) -> str:
    """Change a file in one of the ways in which files get damaged; which way it was."""
    content = bytearray(path.read_bytes())
    how = draws.choice(["flip a bit", "flip a bit", "change a byte", "cut off", "zeros", "twice", "remove"])
    where = draws.randrange(max(1, len(content)))
    if how == "remove" or not content:
        path.unlink()
        return how
    if how == "flip a bit":
        content[where] ^= 1 << draws.randrange(8)
    elif how == "change a byte":
        content[where] = (content[where] + draws.randrange(1, 256)) % 256
    elif how == "cut off":
        del content[where:]
    elif how == "zeros":
        content[where : where + 64] = bytes(len(content[where : where + 64]))
    else:
        content[where:where] = content[where : where + 64]
    path.write_bytes(content)
    return how


def mutations(folder: Path, count: int, seed: int = 0, resumed_every: int = 10) -> Counter[str]:
    """So many changes; each `resumed_every`-th is followed by a resume, which must make good what was lost."""
    import heatproof
    from heatproof.errors import HeatproofError

    os.environ["HEATPROOF_HOME"] = str(folder / "home")
    draws = random.Random(seed)
    whole = folder / "whole"
    heatproof.run("svea", out=whole, **SVEA)
    wanted = everything(whole)
    found: Counter[str] = Counter()
    for number in range(count):
        copy = folder / "copy"
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(whole, copy)
        paths = [path for path in sorted(copy.rglob("*")) if path.is_file() and path.name not in NOT_READ]
        path = draws.choice(paths)
        before = path.read_bytes()
        how = mutate(path, draws)
        changed = not path.exists() or path.read_bytes() != before
        found["changes"] += changed
        try:
            same = everything(copy) == wanted
            found["says the same"] += same and changed
            if not same and path.name == "verdict.json" and not path.exists():
                found["verdict removed: none is shown"] += 1  # as of a run that is older than verdicts
            elif not same:
                found["silently wrong"] += 1
                print(f"silently wrong: {path.relative_to(copy)}, {how}")
        except HeatproofError:
            found["named"] += 1
        except Exception as problem:
            found["tracebacks"] += 1
            print(f"traceback: {path.relative_to(copy)}, {how}: {type(problem).__name__}: {problem}")
        if number % resumed_every == 0:
            heatproof.run("svea", out=copy, **SVEA)
            found["resumed"] += 1
            found["resumed and equal"] += everything(copy)[:2] == wanted[:2]  # type: ignore[index]
    return found
