"""Bytes of a run folder are changed at random: each change is found when the file is read, or changes nothing."""

from __future__ import annotations

import os
import random
import shutil
from collections import Counter
from pathlib import Path

SVEA = {"limit": 20, "target": "logit", "engine": "local", "keep_heatmaps": True}
FAILS = "def fails(model, inputs, target):\n    raise RuntimeError('on purpose')\n"
NOT_READ = ("README.md", "leaderboard.md", "report.html", "run.schema.json")
"""Files for people, made from the others."""


def small_run(folder: Path, home: Path) -> None:
    """A run of two explainers, and of one that fails."""
    import heatproof

    script = home / "fails.py"
    home.mkdir(exist_ok=True)
    script.write_text(FAILS)
    heatproof.run("svea", out=folder, explainers=f"gradient,random,{script}:fails", **SVEA)


def add_section(folder: Path) -> None:
    """What commands leave beside a run: words, and a picture."""
    from heatproof import load_run
    from heatproof.report.sections import write_section
    from heatproof.story import Paragraph, Plate, Section

    files = load_run(folder).files
    files.path("sections", "drawn").mkdir(parents=True)
    files.path("sections", "drawn", "line.svg").write_text(
        "<svg xmlns='http://www.w3.org/2000/svg'><path d='M0 0'/></svg>"
    )
    write_section(files, "drawn", Section("Drawn", (Paragraph("words"), Plate("A line", "", [("line", "line.svg")]))))


def everything(folder: Path) -> dict[str, object]:
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
    return {
        "scores": scores(folder),
        "heatmaps": maps,
        "failures": sorted(failure["message"] for failure in run.failures()),
        "statistics": [row for row in run.statistics().rows() if not set(MEASURED) & set(map(str, row))],
        "verdict": str(run.verdict.plain()),
        "inputs": sorted((name, array.tobytes()) for name, array in files.examples().items()),
        "shown": [] if shown is None else sorted(map(str, shown.rows())),
        "sections": str(read_sections(files)),
        "story": str(run.manifest["story"]),
    }


REDONE = ("scores", "heatmaps", "failures", "statistics")
"""What is the same when it was computed again; the rest tells of seconds too, or is made by other commands."""


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
    from heatproof.errors import HeatproofError

    os.environ["HEATPROOF_HOME"] = str(folder / "home")
    draws = random.Random(seed)
    whole = folder / "whole"
    small_run(whole, folder / "home")
    add_section(whole)
    wanted = everything(whole)
    found: Counter[str] = Counter({"silently wrong": 0, "tracebacks": 0})
    for number in range(int(count)):
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
            if not same:
                found["silently wrong"] += 1
                print(f"silently wrong: {path.relative_to(copy)}, {how}")
        except HeatproofError:
            found["named"] += 1
        except Exception as problem:
            found["tracebacks"] += 1
            print(f"traceback: {path.relative_to(copy)}, {how}: {type(problem).__name__}: {problem}")
        if number % resumed_every == 0:
            small_run(copy, folder / "home")
            again = everything(copy)
            found["resumed"] += 1
            differing = [name for name in REDONE if again[name] != wanted[name]]
            found["resumed and equal"] += not differing
            found["resumed and not equal"] += bool(differing)
            if differing:
                print(f"not equal when resumed: {path.relative_to(copy)}, {how}: {', '.join(differing)}")
    return found
