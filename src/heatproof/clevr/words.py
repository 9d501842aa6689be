"""Words to choose from, for functions and for the command line alike."""

from __future__ import annotations

from typing import Literal

QuestionSet = Literal["simple", "complex"]
Form = Literal["clevr-xai", "clevr"]
MaskLayout = Literal["packed", "release"]
Renderer = Literal["tracer", "blender"]
Intervention = Literal["remove", "hide", "recolour", "rematerial"]
Shortcut = Literal["marker"]
"""A cue that is planted beside an object: a small square."""
