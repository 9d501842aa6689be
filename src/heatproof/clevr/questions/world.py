"""A scene as questions see it: sets of objects are whole numbers, bit i stands for object i."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

from heatproof.errors import HeatproofError

ATTRIBUTES: dict[str, tuple[str, ...]] = {
    "size": ("small", "large"),
    "color": ("gray", "red", "blue", "green", "brown", "purple", "cyan", "yellow"),
    "material": ("rubber", "metal"),
    "shape": ("cube", "sphere", "cylinder"),
}
"""What an object has, in the order in which noun phrases and programs name it."""

RELATIONS = ("left", "right", "behind", "front")

Description = tuple[str | None, str | None, str | None, str | None]
"""A value or None (left open) for each attribute."""


@dataclass(frozen=True, eq=False)
class World:
    """What can be asked of one scene."""

    count: int
    everything: int
    """all objects"""
    values: dict[str, tuple[str, ...]]
    """attribute -> value of every object"""
    having: dict[str, int]
    """value -> objects that have it"""
    same: dict[str, tuple[int, ...]]
    """attribute -> for every object, the other objects that share its value"""
    related: dict[str, tuple[int, ...]]
    """relation -> for every object, the objects that stand so to it"""
    descriptions: dict[Description, int]
    """every description that fits some object -> the objects it fits"""

    def without(self, place: int) -> World:
        """The world in which object `place` is in no set; the others keep their numbers."""
        left = ~(1 << place)
        return replace(
            self,
            everything=self.everything & left,
            having={value: objects & left for value, objects in self.having.items()},
            same={attribute: tuple(objects & left for objects in rows) for attribute, rows in self.same.items()},
            related={relation: tuple(objects & left for objects in rows) for relation, rows in self.related.items()},
            descriptions={told: objects & left for told, objects in self.descriptions.items() if objects & left},
        )


def members(objects: int) -> list[int]:
    """The objects of a set, in ascending order."""
    return [i for i in range(objects.bit_length()) if objects >> i & 1]


def look_at(scene: Mapping[str, Any], name: str = "scene") -> World:
    """The world of a scene in CLEVR's JSON form; `name` says in errors which scene is meant."""
    objects = scene.get("objects")
    if not isinstance(objects, list) or not objects:
        raise HeatproofError(f"{name}: field 'objects' must be a list of at least one object.")
    values = {attribute: tuple(_values(objects, attribute, name)) for attribute in ATTRIBUTES}
    having = {
        value: sum(1 << i for i, own in enumerate(values[attribute]) if own == value)
        for attribute, known in ATTRIBUTES.items()
        for value in known
    }
    same = {
        attribute: tuple(having[value] & ~(1 << i) for i, value in enumerate(owned))
        for attribute, owned in values.items()
    }
    descriptions: dict[Description, int] = {}
    for i, described in enumerate(zip(*values.values(), strict=True)):
        for description in product(*((None, value) for value in described)):
            descriptions[description] = descriptions.get(description, 0) | 1 << i
    related = _related(scene, len(objects), name)
    return World(len(objects), (1 << len(objects)) - 1, values, having, same, related, descriptions)


def _values(objects: Sequence[Any], attribute: str, name: str) -> list[str]:
    values = []
    for i, thing in enumerate(objects):
        value = thing.get(attribute) if isinstance(thing, dict) else None
        if not isinstance(value, str) or value not in ATTRIBUTES[attribute]:
            known = ", ".join(ATTRIBUTES[attribute])
            raise HeatproofError(f"{name}: {attribute} of object {i} is {value!r}; it must be one of {known}.")
        values.append(value)
    return values


def _related(scene: Mapping[str, Any], count: int, name: str) -> dict[str, tuple[int, ...]]:
    relationships = scene.get("relationships")
    related = {}
    for relation in RELATIONS:
        rows = relationships.get(relation) if isinstance(relationships, dict) else None
        if not isinstance(rows, list) or len(rows) != count or not all(isinstance(row, list) for row in rows):
            raise HeatproofError(
                f"{name}: field 'relationships' needs a list of {count} lists, one per object, for {relation!r}."
            )
        for i, row in enumerate(rows):
            if not all(isinstance(other, int) and 0 <= other < count and other != i for other in row):
                raise HeatproofError(
                    f"{name}: relationships {relation!r} of object {i} are {row!r}; "
                    f"they must be other objects, 0 to {count - 1}."
                )
        related[relation] = tuple(sum(1 << other for other in set(row)) for row in rows)
    return related
