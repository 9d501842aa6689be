"""The command line: thin modules, one per command group. Bad input is one clear sentence and exit code 2."""

from __future__ import annotations

import atexit
import errno
import os
import signal
import sys
from typing import Any, NoReturn

from heatproof.errors import HeatproofError, is_panic
from heatproof.harmless import visible

NOT_OURS = (errno.EDQUOT, errno.EIO, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOSPC, errno.EROFS)
"""What goes wrong with the machine, not with the program."""


def command() -> NoReturn:
    """The command line as a process of its own, which leaves without taking libraries apart: that takes a second."""
    code: Any = 0
    try:
        main()
    except SystemExit as stop:
        code = stop.code or 0
    for number in (signal.SIGINT, signal.SIGTERM):  # what is done is done, and an interrupt could only garble the end
        signal.signal(number, signal.SIG_IGN)
    atexit._run_exitfuncs()
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except OSError:  # Python says why
        sys.exit(code)
    os._exit(code)


def main() -> None:
    """Run the command line."""
    try:
        signal.signal(signal.SIGTERM, terminated)
        from heatproof.lazy import own_process, uncollected

        own_process()
        with uncollected():
            from heatproof.cli.app import app
            from heatproof.executors.set_up import keep_memory

        keep_memory()
        app()
    except HeatproofError as problem:
        refuse(str(problem))
    except KeyboardInterrupt as stop:
        stopped(stop)
    except SystemExit as end:
        if (interrupt := interrupt_behind(end)) is None:
            raise
        stopped(interrupt)
    except BrokenPipeError:  # whoever read what is printed has gone
        raise
    except MemoryError:
        refuse("out of memory. Smaller batches (--batch-size) or fewer processes (--jobs) take less.")
    except ModuleNotFoundError as missing:
        if missing.name != "torch":
            raise
        refuse(
            "this command needs PyTorch, which is not installed: pip install torch. Without it, heatmaps made elsewhere"
            " are scored (evaluate, svea masked-inputs), and runs are read (report, compare, export)."
        )
    except OSError as problem:
        if problem.filename is None and problem.errno not in NOT_OURS:
            raise
        refuse(f"{problem.filename or 'a file'}: {problem.strerror}.")
    except BaseException as problem:
        if not is_panic(problem):
            raise
        refuse(f"a library gave up: {problem}.")


def interrupt_behind(end: SystemExit) -> KeyboardInterrupt | None:
    """The interrupt that typer has made an exit of; None where a command has said by itself how to go on."""
    cause = getattr(end.__context__, "__cause__", None)
    return cause if isinstance(cause, KeyboardInterrupt) else None


def stopped(interrupt: KeyboardInterrupt) -> NoReturn:
    import shlex

    again = shlex.join(["heatproof", *sys.argv[1:]])
    print(
        "\nStopped. What is finished is kept; the same command goes on:",
        visible(f"  {again}"),
        sep="\n",
        file=sys.stderr,
    )
    sys.exit(exit_code(interrupt))


def refuse(sentence: str) -> NoReturn:
    print(visible(f"heatproof: {sentence}"), file=sys.stderr)
    sys.exit(2)


class Terminated(KeyboardInterrupt):
    """The process was asked to end, which is an interrupt like any other."""


def terminated(_signal: int, _frame: Any) -> NoReturn:
    raise Terminated


def exit_code(stop: KeyboardInterrupt) -> int:
    """As shells have it: 128 and the number of the signal."""
    return 128 + (signal.SIGTERM if isinstance(stop, Terminated) else signal.SIGINT)
