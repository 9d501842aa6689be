"""Explainers from words: `rise`, `smoothgrad:samples=50,sigma=0.01`, `my_method.py:MyExplainer`; or from functions."""

from __future__ import annotations

import types
from collections.abc import Callable, Iterable
from dataclasses import fields
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from heatproof.errors import HeatproofError, unknown_name
from heatproof.explainers.adapters import FunctionExplainer
from heatproof.explainers.base import Explainer, ScoreExplainer, explainers
from heatproof.explainers.libraries import LIBRARIES
from heatproof.explainers.noised import OWN, Noised
from heatproof.loading import load_object, names_object
from heatproof.specs import read_literal, split_parameters, split_specs

AROUND = ("randomised", "other_question")
"""Explainers whose only parameter is another explainer."""
BROUGHT = {
    "true_effects": "heatproof.benchmarks.clevr_removal.painted:TrueEffects",
    "object_size": "heatproof.benchmarks.clevr_removal.painted:ObjectSize",
}
"""Explainers that a benchmark brings along (clevr-removal, svea-removal): only its cases have what they paint."""


def make_explainer(what: str | Explainer | type[Explainer] | Callable[..., Any], **parameters: Any) -> Explainer:
    """An explainer from a spec, a class, a function `(model, inputs, target) -> relevance`, or itself."""
    if isinstance(what, str):
        outer, colon, inner = what.partition(":")
        if outer in AROUND and colon and not inner.startswith("of="):
            return make_explainer(outer, of=inner, **parameters)
        if outer == "noised" and colon and not inner.startswith((*(f"{name}=" for name in OWN), "of=")):
            return noised(inner, parameters)
        name, assignments = split_parameters(what)
        place, _, word = name.partition(":")
        if place in LIBRARIES and word:
            options = {key: read_literal(value) for key, value in assignments.items()}
            return LIBRARIES[place](method=word, options=tuple(options.items()), **parameters)
        if place in explainers and word:
            raise HeatproofError(f"cannot read {what!r}; write parameters as {place}:{word}=VALUE.")
        found = find_class(name) if not names_object(name) else load_object(name)
        if assignments and not isinstance(found, type):
            raise HeatproofError(f"{name} takes no parameters; only explainer classes do.")
        if isinstance(found, type) and assignments:
            if not issubclass(found, Explainer):
                raise HeatproofError(f"{name} is no explainer; subclass heatproof.Explainer, or name a function.")
            parameters = {**parse_parameters(name, found, assignments), **parameters}
        return make_explainer(found, **parameters)
    if isinstance(what, type) and issubclass(what, Explainer):
        name_class(what)
        check_names(what.name, what, parameters)
        try:
            return what(**parameters)
        except (TypeError, ValueError) as problem:
            raise HeatproofError(f"{what.name} cannot be made: {problem}") from problem
    if isinstance(what, Explainer):
        if parameters:
            raise HeatproofError(f"{what.label} is made already; give its parameters where it is made.")
        name_class(type(what))
        return what
    if callable(what) and not isinstance(what, type):
        check_names("a function", FunctionExplainer, parameters)
        return FunctionExplainer(function=what, **parameters)
    raise HeatproofError(
        f"an explainer is a name, an Explainer, or a function (model, inputs, target) -> relevance; got {what!r}."
    )


def find_class(name: str) -> type[Explainer]:
    """The class of a registered explainer, or of one that a benchmark brings along."""
    if name in BROUGHT:
        found: type[Explainer] = load_object(BROUGHT[name])
        return found
    return explainers[name]


def noised(inner: str, parameters: dict[str, Any]) -> Explainer:
    """`noised:INNER`, whose assignments are those of the noise and of the explainer within."""
    name, assignments = split_parameters(inner)
    own = {key: value for key, value in assignments.items() if key in OWN}
    rest = ",".join(f"{key}={value}" for key, value in assignments.items() if key not in OWN)
    given = {**parse_parameters("noised", Noised, own), **parameters}
    return make_explainer("noised", of=f"{name}:{rest}" if rest else name, **given)


def name_class(cls: type[Explainer]) -> None:
    """A class that is not registered goes by its own name; its parameters must be fields of a dataclass."""
    if vars(cls).get("__annotations__") and "__dataclass_fields__" not in vars(cls):
        raise HeatproofError(
            f"{cls.__name__} must be a dataclass: decorate it with @dataclass(frozen=True, kw_only=True)."
        )
    if not vars(cls).get("name"):
        cls.name = cls.__name__


def make_explainers(specs: str | Iterable[Any] | Callable[..., Any]) -> list[Explainer]:
    """All explainers of a list, or of a comma-separated text; the same one twice is an error."""
    if isinstance(specs, Explainer) or (callable(specs) and not isinstance(specs, str)):
        specs = [specs]
    made = [make_explainer(spec) for spec in (split_specs(specs) if isinstance(specs, str) else specs)]
    if not made:
        raise HeatproofError("no explainer is named; give at least one (heatproof list explainers).")
    for i, explainer in enumerate(made):
        if isinstance(explainer, ScoreExplainer) and explainer.quantity != ScoreExplainer.quantity:
            raise HeatproofError(f"{explainer.label}: in a run, say what is explained by the target, not by quantity.")
        if explainer.label in [other.label for other in made[:i]]:
            raise HeatproofError(f"explainer {explainer.label!r} is listed twice; functions need different names.")
    return made


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
