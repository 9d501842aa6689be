"""Pictures of CLEVR scenes: our own path tracer, Blender on demand, and the folder they are written to."""

from heatproof.clevr.rendering.picture import Picture, render

__all__ = ["Picture", "render"]
