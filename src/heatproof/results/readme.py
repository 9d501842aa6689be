"""README.md of a run's folder: what was run, what it found, and what every file is, for whoever finds the folder."""

from __future__ import annotations

from importlib import resources
from typing import TYPE_CHECKING

from heatproof.harmless import markdown_text, one_line, visible
from heatproof.run_folder import LEADERBOARD, LEDGER, MANIFEST, REPORT, SCHEMA, STATISTICS, TABLE, VERDICT

if TYPE_CHECKING:
    from heatproof.results.run import Results

FILES = {
    REPORT: "the page: open it in a browser; it needs nothing else",
    TABLE: "the tables as text",
    LEADERBOARD: "one line per explainer, metric, ground truth, pooling and subset, with 95 % intervals; fractions",
    STATISTICS: "medians and percentiles of the same lines, with 95 % intervals; fractions",
    VERDICT: "what the scores say of the methods, with paired tests between them, as JSON",
    "scores/": "every single score as Parquet: one row per case, metric and variant",
    "heatmaps/": "heatmaps that were kept, and the inputs of the cases that the page shows",
    "failures/": "why units of work have no scores, where there are any",
    MANIFEST: "everything needed to repeat the run",
    SCHEMA: "what run.json holds, as a JSON schema",
    LEDGER: "checksums of all parts",
}


def schema() -> str:
    """The JSON schema of run.json."""
    return resources.files("heatproof.results").joinpath(SCHEMA).read_text(encoding="utf-8")


def readme(run: Results) -> str:
    """The text of README.md."""
    manifest, story = run.manifest, run.story
    made = manifest["configuration"]
    lines = [f"# {markdown_text(story.title)}", ""]
    lines += [f"A run of Heatproof {made['heatproof']}, benchmark `{made['benchmark']}`, seed {made['seed']},"]
    lines += [f"begun {manifest['created']}. Data: {markdown_text(story.dataset)}.", ""]
    if story.paper:
        lines += [f"Paper: {markdown_text(story.paper)}", ""]
    lines += ["## What it found", "", *(f"- {markdown_text(sentence)}" for sentence in run.verdict.sentences), ""]
    lines += ["## What is here", "", "| file | what it is |", "|---|---|"]
    there = {name: about for name, about in FILES.items() if run.folder.joinpath(name).exists() or name == SCHEMA}
    lines += [f"| `{name}` | {about} |" for name, about in there.items()]
    again = manifest.get("command")
    lines += ["", "## Read it, repeat it", "", "```python", "import heatproof", "", 'run = heatproof.load_run(".")']
    lines += ["print(run.leaderboard())", "```", ""]
    lines += ["The files are plain CSV, Parquet and JSON too; nothing of it needs torch.", ""]
    if again:
        lines += ["Made by:", "", "```", one_line(visible(str(again))).replace("`", "'"), "```", ""]
    return "\n".join(lines)
