"""CLEVR's search for a question as its rules say: an explicit stack, every state executed from the start, no memory.

Slow: for scenes of a few objects. Rules: sections 2.4 to 2.6 of the project's facts about CLEVR's generator.
"""

from __future__ import annotations

import random
from itertools import product
from typing import Any

from reference.clevr_programs import InvalidError, is_degenerate, outputs

TYPES: dict[str, list[str]] = {
    "Size": ["small", "large"],
    "Color": ["gray", "red", "blue", "green", "brown", "purple", "cyan", "yellow"],
    "Material": ["rubber", "metal"],
    "Shape": ["cube", "sphere", "cylinder"],
    "Relation": ["left", "right", "behind", "front"],
}
ATTRIBUTES = ["size", "color", "material", "shape"]
TRIVIAL_PER_TELLING = 0.1 / 0.9


def filter_options(scene: dict[str, Any]) -> dict[tuple[str | None, ...], set[int]]:
    options: dict[tuple[str | None, ...], set[int]] = {}
    for i, thing in enumerate(scene["objects"]):
        for shown in product([False, True], repeat=4):
            key = tuple(thing[a] if show else None for a, show in zip(ATTRIBUTES, shown, strict=True))
            options.setdefault(key, set()).add(i)
    return options


def choices(kind: str, given: Any, scene: dict[str, Any], rng: random.Random) -> list[tuple[str | None, tuple]]:
    """The (relation, description) pairs that a composite may become, shuffled."""
    options = filter_options(scene)
    if kind.startswith("relate_filter"):
        telling, trivial = [], []
        for relation in TYPES["Relation"]:
            related = set(scene["relationships"][relation][given])
            for key, fits in options.items():
                both = related & fits
                if kind.endswith("unique") and len(both) != 1:
                    continue
                if not kind.endswith(("count", "exist")) and not both:
                    continue
                (trivial if both == fits else telling).append((relation, key))
        rng.shuffle(trivial)
        found = telling + trivial[: round(len(telling) * TRIVIAL_PER_TELLING)]
    else:
        here = {key: fits & set(given) for key, fits in options.items()}
        if kind == "filter":
            del here[None, None, None, None]
        singles = [key for key, fits in here.items() if len(fits) == 1]
        keys = singles if kind == "filter_unique" else list(here)
        extra = {"filter_unique": 0, "filter_exist": len(here)}.get(kind, len(singles))
        for _ in range(extra):
            keys.append(tuple(rng.choice([*TYPES[a.capitalize()], None]) for a in ATTRIBUTES))
        found = [(None, key) for key in keys]
    rng.shuffle(found)
    return found


def balanced(answer: Any, counts: dict[Any, int]) -> bool:
    ordered = sorted(counts.values())
    median = max(5, ordered[len(ordered) // 2])
    return not counts[answer] > 1.1 * ordered[-2] and not counts[answer] > 5 * median


def search(template: Any, scene: dict[str, Any], counts: dict[Any, int], rng: random.Random) -> dict[str, Any] | None:
    """The first question found: its nodes, outputs, parameters and answer."""
    nodes = template.nodes
    stack: list[dict[str, Any]] = [
        {"program": [{"type": "scene", "inputs": [], "value_inputs": []}], "params": {}, "map": {0: 0}, "next": 1}
    ]
    while stack:
        state = stack.pop()
        try:
            out = outputs(state["program"], scene)
        except InvalidError:
            continue
        params, where = state["params"], state["map"]
        if any(params.get(p, "") not in ("", "thing") for p in template.blank):
            continue
        if any(i in where and j in where and out[where[i]] == out[where[j]] for i, j in template.different):
            continue
        if state["next"] == len(nodes):
            if not balanced(out[-1], counts):
                continue
            if any(node.function == "relate" for node in nodes) and is_degenerate(state["program"], scene):
                continue
            return {"program": state["program"], "outputs": out, "params": params, "answer": out[-1]}
        node = nodes[state["next"]]

        def push(calls: list[dict[str, Any]], values: dict[str, str], end: int, state=state) -> None:
            stack.append(
                {
                    "program": state["program"] + calls,
                    "params": state["params"] | values,
                    "map": state["map"] | {state["next"]: end},
                    "next": state["next"] + 1,
                }
            )

        size = len(state["program"])
        inputs = [where[i] for i in node.inputs]
        if not node.function.startswith(("filter", "relate_filter")) or len(node.side) == 1:
            kinds = [template.parameters[p] for p in node.side]
            values = list(TYPES[kinds[0]]) if kinds else [None]
            rng.shuffle(values)
            for value in values:
                given = [] if value is None else [value]
                call = {"type": node.function, "inputs": inputs, "value_inputs": given}
                push([call], dict(zip(node.side, given, strict=True)), size)
            continue
        for relation, description in choices(node.function, out[inputs[0]], scene, rng):
            calls: list[dict[str, Any]] = []
            values, last, names = {}, inputs[0], list(node.side)
            if relation is not None:
                calls.append({"type": "relate", "inputs": [last], "value_inputs": [relation]})
                values[names.pop(0)] = relation
                last = size
            for name, attribute, word in zip(names, ATTRIBUTES, description, strict=True):
                if word is not None:
                    calls.append({"type": f"filter_{attribute}", "inputs": [last], "value_inputs": [word]})
                    last = size + len(calls) - 1
                values[name] = word or ("thing" if attribute == "shape" else "")
            for ending in ("unique", "count", "exist"):
                if node.function.endswith(ending):
                    calls.append({"type": ending, "inputs": [last], "value_inputs": []})
                    last = size + len(calls) - 1
            push(calls, values, last)
    return None
