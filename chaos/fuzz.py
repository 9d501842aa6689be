"""Random and damaged files for every reader, and random values for every option: a result or a sentence, never more."""

from __future__ import annotations

import os
import random
import signal
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import Any

from chaos.readers import readers

PATIENCE = 10
"""Seconds after which a reader hangs."""
PIECES = (
    b"", b"\0", b"\xff\xfe", b"[" * 2000, b"{", b'"', b",", b"\n", b"-1", b"1e999", b"NaN", b"null", b"\xed\xa0\x80",
    b"../../x", b"99999999999999999999", b"label", b"=cmd", b"PK\x03\x04", b"\x93NUMPY\x01\x00",
)  # fmt: skip
WORDS = (
    "", " ", "-1", "0", "1", "2147483648", "1e400", "nan", "inf", "None", "[]", "{}", "'", ":", ",", "=", "..", "/",
    "a/b", "\x1b[2J", "\u202e", "\ud800", "=cmd", "gradient", "rise:masks=", "rise:masks=-1", "smoothgrad:sigma=nan",
    "lrp:composite=x", "randomised:", "gradient:x=1", "file.py:f", "x:y:z", "occlusion:window=0,stride=0", "é" * 300,
)  # fmt: skip


def damaged(content: bytes, draws: random.Random) -> bytes:
    """A file that was whole, changed in a few places; or none at all."""
    if draws.random() < 0.1:
        return draws.randbytes(draws.randrange(200))
    found = bytearray(content)
    for _ in range(draws.randint(1, 4)):
        where = draws.randrange(len(found) + 1)
        how = draws.randrange(4)
        if how == 0 and found:
            found[min(where, len(found) - 1)] = draws.randrange(256)
        elif how == 1:
            del found[where : where + draws.randrange(1, 40)]
        elif how == 2:
            found[where:where] = draws.choice(PIECES)
        else:
            del found[where:]
    return bytes(found)


def options() -> Iterator[tuple[str, Callable[[str], object]]]:
    """Every option of every benchmark, and lists of explainers and metrics."""
    from heatproof.benchmarks import benchmarks
    from heatproof.explainers.spec import make_explainers
    from heatproof.metrics.spec import load_metrics

    def option(recipe: Any, name: str, value: object) -> object:
        return recipe(**{name: value})

    for called, recipe in benchmarks.items():
        for entry in fields(recipe):
            yield f"{called} {entry.name}", lambda text, recipe=recipe, name=entry.name: option(recipe, name, text)
            if any(kind in str(entry.type) for kind in ("int", "float")):
                yield (
                    f"{called} {entry.name} as a number",
                    lambda text, recipe=recipe, name=entry.name: option(recipe, name, len(text) - 3),
                )
    yield "explainers", make_explainers
    yield "metrics", load_metrics


def words_of_commands() -> Iterator[tuple[str, Callable[[str], object]]]:
    """Every option and argument of every command, read as the command line reads it; the commands are not run."""
    import click
    import typer

    from heatproof.cli.app import app
    from heatproof.errors import HeatproofError

    def parsed(command: click.Command, path: str, parameter: click.Parameter, text: str) -> object:
        given = [text] if isinstance(parameter, click.Argument) else [parameter.opts[0], text]
        needed = [
            word for other in command.params if other.required and other is not parameter for word in filled(other)
        ]
        try:
            return command.make_context(path, [*needed, *given], resilient_parsing=False)
        except click.ClickException as problem:
            raise HeatproofError(problem.format_message()) from problem
        except (typer.Exit, click.exceptions.Exit, click.Abort, SystemExit):
            return None

    def filled(parameter: click.Parameter) -> list[str]:
        return ["x"] if isinstance(parameter, click.Argument) else [parameter.opts[0], "1"]

    def below(command: click.Command, path: str) -> Iterator[tuple[str, click.Command]]:
        if isinstance(command, click.Group):
            for name in command.list_commands(click.Context(command)):
                found = command.get_command(click.Context(command), name)
                if found is not None:
                    yield from below(found, f"{path} {name}")
        else:
            yield path, command

    for path, command in below(typer.main.get_command(app), "heatproof"):
        for parameter in command.params:
            if not (isinstance(parameter, click.Option) and parameter.is_flag):
                yield f"{path} {parameter.name}", partial(parsed, command, path, parameter)


class Hangs(Exception):  # noqa: N818
    """A reader takes too long."""


def hangs(_signal: int, _frame: object) -> None:
    raise Hangs


def fuzz(folder: Path, count: int, seed: int = 0) -> Mapping[str, int]:
    """So many inputs: nine in ten files, the others values."""
    from heatproof.errors import HeatproofError

    warnings.simplefilter("ignore")
    os.chdir(folder)
    draws = random.Random(seed)
    files, values = list(readers(folder)), [*options(), *words_of_commands()]
    found: Counter[str] = Counter({"inputs": 0, "taken": 0, "refused in a sentence": 0, "tracebacks": 0, "hangs": 0})
    signal.signal(signal.SIGALRM, hangs)
    for number in range(int(count)):
        if number % 10:
            name, whole, read = files[number % len(files)]
            (folder / name).write_bytes(content := damaged(whole, draws))
            given: object = content
            attempt: Callable[[], object] = lambda read=read, path=folder / name: read(path)  # noqa: E731
        else:
            name, take = draws.choice(values)
            given = text = draws.choice(WORDS) + draws.choice(("", draws.choice(WORDS)))
            attempt = lambda take=take, text=text: take(text)  # noqa: E731
        found["inputs"] += 1
        signal.alarm(PATIENCE)
        try:
            attempt()
            found["taken"] += 1
        except HeatproofError:
            found["refused in a sentence"] += 1
        except Hangs:
            found["hangs"] += 1
            print(f"hang: {name}: {given!r}"[:300])
        except BaseException:
            found["tracebacks"] += 1
            print(f"traceback: {name}: {given!r}"[:300], traceback.format_exc(limit=-2)[-600:], sep="\n")
        finally:
            signal.alarm(0)
    return found
