"""What if one object were not there, or were another? The scene changed at one object; camera and lamps stay.

A changed scene is an ordinary scene, and every pixel keeps its random stream: before denoising, a picture of it differs
only where light comes by the object. To hide an object is to paint over it: the scene stays, shadows and reflections
included, and its pixels show the empty room.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, get_args

from heatproof.clevr.rendering import world
from heatproof.clevr.words import Intervention
from heatproof.errors import HeatproofError, unknown_name
from heatproof.seeds import derive_seed

INTERVENTIONS: tuple[str, ...] = get_args(Intervention)
STANDS = ("camera", *world.LAMPS)
"""What of a scene's `_render` must be known to see it once more."""


def changed(scene: Mapping[str, Any], place: int, intervention: str) -> dict[str, Any]:
    """The scene with its object `place` taken out, or of another colour or material; one that is hidden is in it."""
    if intervention not in INTERVENTIONS:
        raise unknown_name("intervention", intervention, INTERVENTIONS)
    if not 0 <= place < len(scene["objects"]):
        raise HeatproofError(f"{named(scene)}: no object {place}; there are {len(scene['objects'])}.")
    rule = RULES.get(intervention)
    if intervention == "hide":
        return dict(scene)
    if rule is None:
        return dict(scene) | {"objects": [thing for number, thing in enumerate(scene["objects"]) if number != place]}
    things = list(scene["objects"])
    things[place] = dict(things[place]) | {rule.field: rule.value(scene, place)}
    return dict(scene) | {"objects": things}


@dataclass(frozen=True)
class Rule:
    """One attribute of one object becomes another."""

    field: str
    values: Callable[[], tuple[str, ...]]

    def value(self, scene: Mapping[str, Any], place: int) -> str:
        """Another value than the object has, drawn once for ever by the picture's name."""
        had = scene["objects"][place][self.field]
        others = [value for value in self.values() if value != had]
        return others[derive_seed(0, "intervention", self.field, named(scene), place) % len(others)]


RULES: Mapping[str, Rule] = {
    "recolour": Rule("color", lambda: tuple(world.COLOURS)),
    "rematerial": Rule("material", lambda: tuple(world.MATERIALS)),
}
"""Interventions that change an attribute."""


CHANGED: Mapping[str, str] = {
    "remove": "without an object",
    "hide": "with an object painted over",
    "recolour": "with an object of another colour",
    "rematerial": "with an object of another material",
}
"""What a changed scene is, in words."""


def require_stands(scene: Mapping[str, Any]) -> None:
    """An error that names what is missing, if it is not known where camera and lamps stood."""
    stands = scene.get("_render")
    missing = [name for name in STANDS if not isinstance(stands, Mapping) or name not in stands]
    if missing:
        raise HeatproofError(
            f"{named(scene)}: the scene does not say where {', '.join(missing)} stood (_render.{missing[0]} ...), so it"
            " cannot be rendered once more without an object. Scenes of heatproof clevr render say it; those of CLEVR"
            " and of CLEVR-XAI's release do not."
        )


def named(scene: Mapping[str, Any]) -> str:
    return str(scene.get("image_filename", "scene"))
