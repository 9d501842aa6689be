"""`heatproof doctor`"""

from __future__ import annotations

from typing import Annotated

import typer

from heatproof.cli.terminal import Cell, say, show_table

SIGNS = {"ok": "yes", "absent": "-", "wrong": "NO"}
STYLES = {"ok": "", "absent": "dim", "wrong": "bold red"}


def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="The same as JSON, for a bug report or a program.")] = False,
) -> None:
    """Check the installation: versions, devices, extras, the cache folder, plug-ins.

    Exits with code 2 if something must be fixed; optional parts that are missing are fine.

    Example: heatproof doctor --json > doctor.json
    """
    from rich.text import Text

    from heatproof.doctor import examine

    findings = list(examine())
    if as_json:
        import json
        from dataclasses import asdict

        typer.echo(json.dumps([asdict(finding) for finding in findings], indent=1))
    else:
        rows: list[tuple[Cell, ...] | None] = []
        topic = ""
        for finding in findings:
            if finding.topic != topic:
                topic = finding.topic
                rows.append((Text(topic, style="bold"),))
            sign = Text(SIGNS[finding.state], style=STYLES[finding.state])
            rows.append((f"  {finding.name}", sign, finding.found, finding.hint))
        show_table(("", "", "found", "what to do"), rows)
    wrong = [finding for finding in findings if finding.state == "wrong"]
    if wrong:
        say(f"{len(wrong)} thing(s) must be fixed: {', '.join(finding.name for finding in wrong)}.", err=True)
        raise typer.Exit(2)
    if not as_json:
        say("Nothing is wrong.")
