"""The command line: thin modules, one per command group. Bad input is one clear sentence and exit code 2."""

from __future__ import annotations

import sys

from heatproof.errors import HeatproofError


def main() -> None:
    """Run the command line."""
    from heatproof.cli.app import app

    try:
        app()
    except HeatproofError as problem:
        print(f"heatproof: {problem}", file=sys.stderr)
        sys.exit(2)
