"""CLEVR's programs, executed literally from the JSON of a question and of its scene: lists, loops, no shared code."""

from __future__ import annotations

from typing import Any


class InvalidError(Exception):
    """`unique` of other than one object."""


def run(function: str, inputs: list[Any], values: list[str], scene: dict[str, Any]) -> Any:
    """The output of one node."""
    objects = scene["objects"]
    kind, _, attribute = function.partition("_")
    if function == "scene":
        return list(range(len(objects)))
    if function == "unique":
        if len(inputs[0]) != 1:
            raise InvalidError
        return inputs[0][0]
    if function == "relate":
        return sorted(scene["relationships"][values[0]][inputs[0]])
    if function == "union":
        return sorted(set(inputs[0]) | set(inputs[1]))
    if function == "intersect":
        return sorted(set(inputs[0]) & set(inputs[1]))
    if function == "count":
        return len(inputs[0])
    if function == "exist":
        return len(inputs[0]) > 0
    if function == "less_than":
        return inputs[0] < inputs[1]
    if function == "greater_than":
        return inputs[0] > inputs[1]
    if kind == "equal":
        return inputs[0] == inputs[1]
    if kind == "filter":
        return [i for i in inputs[0] if objects[i][attribute] == values[0]]
    if kind == "same":
        mine = objects[inputs[0]][attribute]
        return [i for i, thing in enumerate(objects) if thing[attribute] == mine and i != inputs[0]]
    if kind == "query":
        return objects[inputs[0]][attribute]
    raise ValueError(function)


def outputs(program: list[dict[str, Any]], scene: dict[str, Any]) -> list[Any]:
    """The output of every node of a program as CLEVR-XAI writes it (`type`) or as CLEVR does (`function`)."""
    found: list[Any] = []
    for node in program:
        function = node["type"] if "type" in node else node["function"]
        found.append(run(function, [found[i] for i in node["inputs"]], node["value_inputs"], scene))
    return found


def is_degenerate(program: list[dict[str, Any]], scene: dict[str, Any]) -> bool:
    """Whether the answer stays when one `relate` becomes `scene` and what it no longer needs is dropped."""
    answer = outputs(program, scene)[-1]
    for place, node in enumerate(program):
        if node["type"] != "relate":
            continue
        changed = [dict(other) for other in program]
        changed[place] = {"type": "scene", "inputs": [], "value_inputs": []}
        used, waiting = set(), [len(changed) - 1]
        while waiting:
            i = waiting.pop()
            used.add(i)
            waiting += changed[i]["inputs"]
        new_index = {old: new for new, old in enumerate(sorted(used))}
        kept = [changed[i] | {"inputs": [new_index[j] for j in changed[i]["inputs"]]} for i in sorted(used)]
        try:
            if outputs(kept, scene)[-1] == answer:
                return True
        except InvalidError:
            pass
    return False
