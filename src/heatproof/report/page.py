"""report.html: one run or many on one page that works offline."""

from __future__ import annotations

import base64
import hashlib
import os
import re
from collections.abc import Sequence
from importlib import resources
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from heatproof.harmless import visible
from heatproof.report import evidence
from heatproof.report.cases import explorer, has_pictures
from heatproof.report.how import how_it_was_run
from heatproof.report.overview import HEADS, overview
from heatproof.report.readings import filters, readings, script_safe
from heatproof.report.sections import read_sections
from heatproof.results.across import across_sentences, run_names
from heatproof.results.grids import grids
from heatproof.results.sentences import question_of
from heatproof.results.tables import Board, Line, boards, failure_lines, ranked, silent_lines
from heatproof.run_folder import REPORT
from heatproof.workspace import write_whole

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup

    from heatproof.results.health import Check
    from heatproof.results.run import Results

SCRIPTS = ("state.js", "report.js", "cases.js")
STYLES = ("report.css", "cases.css")


def write_report(run: Results) -> Path:
    """Write the page of a run into its folder, and return its path."""
    return write_page([run], run.folder / REPORT)


def write_page(runs: Sequence[Results], path: Path) -> Path:
    """Write one page over these runs, and return its path."""
    names = run_names(runs)
    named = dict(zip(names, runs, strict=True))
    sharing = max(1, sum(map(has_pictures, runs)))
    views = [
        run_view(run, name, f"r{place}", path, sharing)
        for place, (name, run) in enumerate(zip(names, runs, strict=True), 1)
    ]
    text = (
        templates()
        .get_template("report.html.j2")
        .render(
            title=runs[0].story.title if len(runs) == 1 else joined(names),
            views=views,
            glimpses=list(overview(named)) if len(runs) > 1 else [],
            heads=HEADS,
            across=across_sentences(named),
            checks=[(view["called"], check) for view in views for check in view["checks"]],
            top=2 if len(runs) == 1 else 3,
            **page_parts(any(view["cases"] and view["cases"].has_files for view in views)),
        )
    )
    write_whole(path, lambda temporary: temporary.write_text(text, encoding="utf-8"))
    return path


def common_page(runs: Sequence[Results]) -> Path:
    """Where the page over several runs lies: beside them, in the folder that holds them all."""
    folders = [str(run.folder.resolve()) for run in runs]
    if len(folders) == 1:
        return runs[0].folder / REPORT
    shared = Path(os.path.commonpath(folders))
    return Path(os.path.relpath(shared)) / REPORT if shared.is_relative_to(Path.cwd()) else shared / REPORT


def run_view(run: Results, called: str, name: str, path: Path, sharing: int) -> dict[str, Any]:
    """All that the page at `path` shows of one run; `called` is what people call it, `name` what the page does.

    So many runs share the page's room for pictures.
    """
    shown = boards(run)
    lines, metrics = every_line(shown), shown[0].metrics
    return {
        "name": name,
        "called": called,
        "run": run,
        "manifest": run.manifest,
        "story": run.story,
        "sentences": run.verdict.sentences,
        "checks": failed_first(run.verdict.checks),
        "notes": (*run.manifest["said"], *run.story.notes, *silent_lines(run)),
        "failures": failure_lines(run),
        "boards": shown,
        "lines": lines,
        "targets": len({line.target for line in lines if line.target}) > 1,
        "baselines": any(line.is_baseline for line in lines),
        "costs": any(line.seconds is not None for line in lines),
        "memory": any(line.memory is not None for line in lines),
        "skills": any(cell.skill is not None for line in lines for cell in line.cells.values()),
        "ranks": any(line.rank_text for line in lines),
        "silent": any(cell.undefined for line in lines for cell in line.cells.values()),
        "metrics": metrics,
        "referenced": {metric for board in shown for metric in board.referenced},
        "elsewhere": {metric for board in shown for metric in board.referenced_elsewhere},
        "filters": filters(run),
        "readings": script_safe(readings(run, shown)),
        "scores": evidence.score_figures(shown),
        "standing": list(evidence.standing_figures(run, shown)),
        "distributions": evidence.distribution_figures(run, shown),
        "agreements": evidence.agreement_figures(run),
        "standings": evidence.standings(run),
        "tiles": tiles(shown),
        "cases": explorer(run, lines, [board.target for board in shown if board.target], name, path, sharing),
        "grids": [(metric, list(found)) for metric, found in groupby(grids(run), lambda grid: grid.metric)],
        "sections": [*run.story.sections, *read_sections(run.files)],
        "how": how_it_was_run(run),
    }


def failed_first(checks: Sequence[Check]) -> list[Check]:
    """What failed, then what can only be told, then what passed."""
    return sorted(checks, key=lambda check: (check.passed is not False, check.passed is not None))


def page_parts(has_files: bool = False) -> dict[str, Any]:
    """Style and scripts of a page, and the policy that lets these scripts run and nothing else."""
    scripts = [static(name) for name in SCRIPTS]
    return {"style": "".join(map(static, STYLES)), "scripts": scripts, "policy": policy(scripts, has_files)}


def policy(scripts: Sequence[str], has_files: bool = False) -> str:
    """A content security policy: only the page's own scripts, each by its hash, and no request.

    A page that has pictures in a folder beside it may show these.
    """
    hashes = (base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts)
    allowed = " ".join(f"'sha256-{found}'" for found in hashes)
    beside = " 'self' file:" if has_files else ""
    return (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src data:{beside}; base-uri 'none';"
        " form-action 'none'"
    )


def templates() -> Environment:
    """The pages' templates; what they are given is escaped, and what they miss is an error."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("heatproof.report"),
        autoescape=True,
        finalize=shown,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals |= {"breakable": breakable, "question_of": question_of}
    return environment


def shown(value: Any) -> Any:
    """What a template says, with nothing in it that is not seen."""
    from markupsafe import Markup

    if isinstance(value, Markup):
        return Markup(visible(value))  # it was escaped before  # nosec B704
    return visible(value) if isinstance(value, str) else value


def breakable(name: str) -> Markup:
    """A long name that may go on in a new line behind its commas, colons and underscores."""
    from markupsafe import Markup, escape

    return Markup(re.sub("([,:_])", r"\1<wbr>", str(escape(name))))  # nosec B704


def static(name: str) -> str:
    return resources.files("heatproof.report").joinpath(f"static/{name}").read_text(encoding="utf-8")


def joined(names: Sequence[str]) -> str:
    """Names in a row with "and"."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def every_line(shown: list[Board]) -> list[Line]:
    """The methods of all boards, best first, then the baselines; one of no quantity is the same on every board."""
    unique = {(line.explainer, line.target): line for board in shown for line in board.lines}
    methods, baselines = ([line for line in unique.values() if line.is_baseline == wanted] for wanted in (False, True))
    return [*ranked(methods, shown[0].metrics), *ranked(baselines, shown[0].metrics)]


def tiles(shown: list[Board]) -> list[tuple[str, str, str]]:
    """The few numbers to see first: title, number, whose it is. The first metric speaks for all."""
    metric = shown[0].metrics[0].name
    found = []
    for board in shown:
        methods = [line for line in board.lines if not line.is_baseline and metric in line.cells]
        if methods:
            title = f"best, {board.target.replace('_', '-')}" if board.target else "best"
            best = methods[0].cells[metric]
            found.append((title, best.score_text, f"{methods[0].short}{best.silence}"))
    for family, words in (("floor", "knows nothing of the model"), ("ceiling", "knows the truth")):
        lines = [line for line in shown[0].lines if line.family == family and metric in line.cells]
        if lines:
            found.append(
                (
                    "ceiling" if family == "ceiling" else "best floor",
                    lines[0].cells[metric].score_text,
                    f"{lines[0].short}: {words}",
                )
            )
    return found
