"""The table of networks, family by family: how each is built small, and what each family of methods must do on it.

Where a row says nothing, every method must be right.
"""

from __future__ import annotations

from zoo import further, later, newer, pictures, small, strange

NETWORKS = [
    *pictures.PLAIN,
    *pictures.CLASSIC,
    *pictures.RESIDUAL,
    *pictures.GATES,
    *pictures.DENSE,
    *pictures.INCEPTION,
    *pictures.MOBILE,
    *pictures.MODERN,
    *newer.NEWER,
    *further.TRANSFORMERS,
    *further.MIXERS,
    *further.SKIPS,
    *further.SIGNALS,
    *further.VOLUMES,
    *further.QUESTIONS,
    *small.RECTIFIERS,
    *small.CURVES,
    *small.IN_PLACE,
    *small.HARD,
    *strange.LAYERS,
    *strange.ENDS,
    *strange.SEQUENCES,
    *strange.FOLDED,
    *later.LATER,
]
