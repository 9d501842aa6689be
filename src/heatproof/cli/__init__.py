"""The command line: thin modules, one per command group. Bad input is one clear sentence and exit code 2."""

from __future__ import annotations

import atexit
import os
import signal
import sys
from typing import Any, NoReturn

from heatproof.errors import HeatproofError
from heatproof.harmless import visible


def command() -> NoReturn:
    """The command line as a process of its own, which leaves without taking libraries apart: that takes a second."""
    code: Any = 0
    try:
        main()
    except SystemExit as stop:
        code = stop.code or 0
    atexit._run_exitfuncs()
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except OSError:  # Python says why
        sys.exit(code)
    os._exit(code)


def main() -> None:
    """Run the command line."""
    from heatproof.cli.app import app
    from heatproof.executors.set_up import keep_memory

    keep_memory()
    signal.signal(signal.SIGTERM, terminated)
    try:
        app()
    except HeatproofError as problem:
        print(visible(f"heatproof: {problem}"), file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt as stop:
        sys.exit(exit_code(stop))


class Terminated(KeyboardInterrupt):
    """The process was asked to end, which is an interrupt like any other."""


def terminated(_signal: int, _frame: Any) -> NoReturn:
    raise Terminated


def exit_code(stop: KeyboardInterrupt) -> int:
    """As shells have it: 128 and the number of the signal."""
    return 128 + (signal.SIGTERM if isinstance(stop, Terminated) else signal.SIGINT)
