"""Explainers from words: `rise`, `smoothgrad:samples=50,sigma=0.01`, `my_method.py:MyExplainer`; or from functions."""

from __future__ import annotations

import types
from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields, is_dataclass
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from heatproof.errors import HeatproofError, unknown_name
from heatproof.explainers.adapters import FunctionExplainer
from heatproof.explainers.base import Explainer, ScoreExplainer, explainers
from heatproof.loading import load_object, names_object


def split_specs(text: str) -> list[str]:
    """Cut a comma-separated list; `name=value` pieces belong to the explainer before them."""
    specs: list[str] = []
    for piece in (piece.strip() for piece in text.split(",")):
        if specs and "=" in piece and ":" not in piece.split("=")[0]:
            specs[-1] += "," + piece
        elif piece:
            specs.append(piece)
    return specs


def make_explainer(what: str | Explainer | type[Explainer] | Callable[..., Any], **parameters: Any) -> Explainer:
    """An explainer from a spec, a class, a function `(model, inputs, target) -> relevance`, or itself."""
    if isinstance(what, str):
        name, assignments = split_parameters(what)
        found = load_object(name) if names_object(name) else explainers[name]
        if assignments and not isinstance(found, type):
            raise HeatproofError(f"{name} takes no parameters; only explainer classes do.")
        if isinstance(found, type):
            parameters = {**parse_parameters(name, found, assignments), **parameters}
        return make_explainer(found, **parameters)
    if isinstance(what, type) and issubclass(what, Explainer):
        if not is_dataclass(what):
            raise HeatproofError(f"{what.__name__} must be a dataclass: decorate it with @dataclass(frozen=True).")
        if not what.name:
            what.name = what.__name__
        check_names(what.name, what, parameters)
        return what(**parameters)
    if isinstance(what, Explainer):
        if parameters:
            raise HeatproofError(f"{what.label} is made already; give its parameters where it is made.")
        if not type(what).name:
            type(what).name = type(what).__name__
        return what
    if callable(what):
        return FunctionExplainer(function=what, **parameters)
    raise HeatproofError(
        f"an explainer is a name, an Explainer, or a function (model, inputs, target) -> relevance; got {what!r}."
    )


def make_explainers(specs: str | Sequence[Any] | Iterable[Any]) -> list[Explainer]:
    """All explainers of a list, or of a comma-separated text; the same one twice is an error."""
    made = [make_explainer(spec) for spec in (split_specs(specs) if isinstance(specs, str) else specs)]
    if not made:
        raise HeatproofError("no explainer is named; give at least one (heatproof list explainers).")
    for i, explainer in enumerate(made):
        if isinstance(explainer, ScoreExplainer) and explainer.quantity != ScoreExplainer.quantity:
            raise HeatproofError(f"{explainer.label}: in a run, say what is explained by the target, not by quantity.")
        if explainer.label in [other.label for other in made[:i]]:
            raise HeatproofError(f"explainer {explainer.label!r} is listed twice.")
    return made


def split_parameters(spec: str) -> tuple[str, dict[str, str]]:
    """`name:a=1,b=2` as the name and its assignments; the name may itself hold a colon (`file.py:Name`)."""
    name, colon, tail = spec.rpartition(":")
    if not colon or "=" not in tail:
        return spec, {}
    assignments: dict[str, str] = {}
    for piece in tail.split(","):
        key, equals, value = piece.partition("=")
        if not equals or not key.strip():
            raise HeatproofError(f"cannot read {piece!r} in {spec!r}; write parameters as name:key=value,key=value.")
        assignments[key.strip()] = value.strip()
    return name, assignments


def check_names(name: str, cls: type[Explainer], parameters: Iterable[str]) -> None:
    known = [f.name for f in fields(cls)]
    for key in parameters:
        if key not in known:
            raise unknown_name(f"parameter of {name}", key, known)


def parse_parameters(name: str, cls: type[Any], assignments: dict[str, str]) -> dict[str, Any]:
    """Texts to the types that the fields of the explainer class declare."""
    if not assignments:
        return {}
    check_names(name, cls, assignments)
    hints = get_type_hints(cls)
    return {key: parse_value(f"{name}: {key}", hints[key], value) for key, value in assignments.items()}


def parse_value(what: str, kind: Any, text: str) -> Any:
    """`text` as the type `kind` of a dataclass field."""
    if get_origin(kind) in (Union, types.UnionType):
        options = [option for option in get_args(kind) if option is not type(None)]
        if text.lower() == "none" and len(options) < len(get_args(kind)):
            return None
        return parse_value(what, options[0], text)
    if get_origin(kind) is Literal or kind is str:
        return text
    if kind is bool:
        if text.lower() in ("true", "yes", "1"):
            return True
        if text.lower() in ("false", "no", "0"):
            return False
        raise HeatproofError(f"{what} must be true or false, got {text!r}.")
    if kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            article = "a whole number" if kind is int else "a number"
            raise HeatproofError(f"{what} must be {article}, got {text!r}.") from None
    raise HeatproofError(f"{what} cannot be given as text; set it from Python.")
