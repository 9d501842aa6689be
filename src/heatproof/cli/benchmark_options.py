"""The options of a command from the fields of a benchmark: a new benchmark needs no line here."""

from __future__ import annotations

import inspect
import sys
import types
from collections.abc import Callable, Sequence
from dataclasses import MISSING, Field, fields, is_dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import typer
from typer.core import TyperGroup

from heatproof.benchmarks import Benchmark, benchmarks
from heatproof.errors import HeatproofError
from heatproof.loading import load_object, names_object

Command = Callable[[str, type[Benchmark]], Callable[..., None]]
"""From the name of a benchmark and its class to the function of its command."""


def add_commands(app: typer.Typer, make: Command) -> None:
    """A command for every benchmark of ours; those of plug-ins are made when they are asked for."""
    for name, benchmark in benchmarks.own().items():
        app.command(name)(make(name, benchmark))


def group_of(make: Command) -> type[TyperGroup]:
    """Commands, and for a plug-in, `file.py:Benchmark` or `package.module:Benchmark` one that is made on the spot."""

    class Group(TyperGroup):
        def list_commands(self, ctx: Any) -> list[str]:
            ours = super().list_commands(ctx)
            return [*ours, *(p.name for p in benchmarks.plugins() if p.name not in ours and p.name in benchmarks)]

        def get_command(self, ctx: Any, cmd_name: str) -> Any:
            if (found := super().get_command(ctx, cmd_name)) is not None:
                return found
            plugged = any(plugin.name == cmd_name for plugin in benchmarks.plugins())
            if not plugged and not names_object(cmd_name):
                return None
            own = typer.Typer(add_completion=False)
            benchmark = benchmarks[cmd_name] if plugged else own_benchmark(cmd_name)
            own.command(benchmark.name)(make(benchmark.name, benchmark))
            return typer.main.get_command(own)

    return Group


def own_benchmark(reference: str) -> type[Benchmark]:
    """A user's benchmark, registered under its own name if it is not yet."""
    found = load_object(reference)
    if not isinstance(found, type) or not issubclass(found, Benchmark):
        raise HeatproofError(f"{reference} is no benchmark; subclass heatproof.Benchmark.")
    return found if found.name in benchmarks else benchmarks.register_class(found.__name__.lower())(found)


def with_options(
    command: Callable[..., None], benchmark: type[Benchmark], leave_out: Sequence[str] = ()
) -> Callable[..., None]:
    """`command(options, ...)` as a function that has the benchmark's fields as its last options.

    What the user did not give is not among `options`: then the preset or the default counts.
    """
    shared = list(inspect.signature(command, eval_str=True).parameters.values())[1:]
    hints = field_types(benchmark)
    shown = [f for f in fields(benchmark) if "help" in f.metadata and f.name not in leave_out]
    own = [parameter(f, hints[f.name]) for f in shown]
    for name in {parameter.name for parameter in shared} & {parameter.name for parameter in own}:
        raise HeatproofError(f"{benchmark.__name__} has a field {name!r}, which is an option of the command already.")

    def run(**given: Any) -> None:
        options = {}
        for f in shown:
            value = given.pop(f.name)
            if value is not None and not (is_flag(hints[f.name]) and not value):
                options[f.name] = read(f.name, hints[f.name], value, f)
        command(options, **given)

    run.__name__ = command.__name__
    run.__doc__ = inspect.cleandoc(command.__doc__ or benchmark.__doc__ or "")
    run.__signature__ = inspect.Signature([*shared, *own])  # type: ignore[attr-defined]
    run.__annotations__ = {p.name: p.annotation for p in (*shared, *own)}
    return run


def field_types(benchmark: type[Benchmark]) -> dict[str, Any]:
    """The types of the fields. Annotations of other things are let be: they may name what only type checkers import."""
    found: dict[str, Any] = {}
    for cls in reversed(benchmark.__mro__):
        known = {f.name: f.type for f in fields(cls)} if is_dataclass(cls) else {}
        own = {name: known[name] for name in inspect.get_annotations(cls) if name in known}
        holder = types.SimpleNamespace(__annotations__=own)
        found |= get_type_hints(holder, vars(sys.modules[cls.__module__]), include_extras=True)
    return found


def parameter(field: Field[Any], hint: Any) -> inspect.Parameter:
    """A field as an option; switches are off and the others None unless they are given."""
    flag = is_flag(hint)
    names = [field.metadata["flag"]] if "flag" in field.metadata else [f"--{field.name.replace('_', '-')}"]
    settings: dict[str, Any] = {"help": described(field, hint), "show_default": False}
    if field.metadata.get("hidden"):
        settings["hidden"] = True
    if not flag:
        settings["metavar"] = metavar(hint)
    kind = bool if flag else plain_type(hint) | None
    annotation = Annotated[kind, typer.Option(*names, **settings)]  # type: ignore[valid-type]
    default = False if flag else None
    return inspect.Parameter(field.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def described(field: Field[Any], hint: Any) -> str:
    """The help text, with the default where that is a number or a word and not said already."""
    text = str(field.metadata["help"])
    plain = isinstance(field.default, (int, str)) and not isinstance(field.default, bool)
    if plain and field.default is not MISSING and "Default" not in text and not is_flag(hint):
        text += f" Default: {field.default}."
    return text


def is_flag(hint: Any) -> bool:
    return hint is bool


def alternatives(hint: Any) -> list[Any]:
    """The types of a union but None, or the type itself."""
    if get_origin(hint) in (Union, types.UnionType):
        return [kind for kind in get_args(hint) if kind is not type(None)]
    return [hint]


def plain_type(hint: Any) -> Any:
    """What Typer reads a field as: a choice, a number, a path, or text."""
    kinds = alternatives(hint)
    if get_origin(kinds[0]) is Literal:
        return kinds[0]
    if kinds[0] in (int, float, Path):
        return kinds[0]
    return str


def metavar(hint: Any) -> str:
    first = alternatives(hint)[0]
    if get_origin(first) is Literal:
        return "NAME"
    if is_list(hint):
        return "LIST"
    return {int: "N", float: "X", Path: "PATH"}.get(first, "TEXT")


def is_list(hint: Any) -> bool:
    return get_origin(alternatives(hint)[0]) in (Sequence, list, tuple)


def read(name: str, hint: Any, value: Any, field: Field[Any]) -> Any:
    """The option's value as the benchmark takes it; a switch turns its field's default round."""
    if is_flag(hint):
        return not field.default
    if is_list(hint):
        words = [word.strip() for word in value.split(",") if word.strip()]
        (inner, *_) = get_args(alternatives(hint)[0])
        return [number(name, word) for word in words] if inner is float else words
    return value


def number(name: str, word: str) -> float:
    try:
        return float(word)
    except ValueError as problem:
        raise HeatproofError(f"--{name} must be numbers with commas between, got {word!r}.") from problem
