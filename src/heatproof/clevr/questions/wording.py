"""From a pattern and the values of its parameters to a sentence."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence

SYNONYMS: dict[str, tuple[str, ...]] = {
    "thing": ("thing", "object"),
    "sphere": ("sphere", "ball"),
    "cube": ("cube", "block"),
    "large": ("large", "big"),
    "small": ("small", "tiny"),
    "metal": ("metallic", "metal", "shiny"),
    "rubber": ("rubber", "matte"),
    "left": ("left of", "to the left of", "on the left side of"),
    "right": ("right of", "to the right of", "on the right side of"),
    "behind": ("behind",),
    "front": ("in front of",),
}

NOUN = ("<Z>", "<C>", "<M>", "<S>")
"""Parameters of the first noun phrase: size, colour, material, shape. Those of the second are <Z2> and so on."""

OPTIONAL = re.compile(r"\[([^\[\]]*)\]")


def put_into_words(
    texts: Sequence[str], values: Mapping[str, str], rng: random.Random, synonyms: Mapping[str, Sequence[str]]
) -> str:
    """One of the patterns with each parameter replaced; each [optional part] stays with probability one half."""
    text = rng.choice(texts)
    for name, value in values.items():
        text = text.replace(name, rng.choice(synonyms[value]) if value in synonyms else value)
    text = OPTIONAL.sub(lambda part: part[1] if rng.random() > 0.5 else "", text)
    return _without_needless_other(" ".join(text.split()), values)


def _without_needless_other(text: str, values: Mapping[str, str]) -> str:
    """'other' only where the second noun phrase could mean the object of the first."""
    pairs = [(name, name[:-1] + "2>") for name in NOUN]
    if values.keys() != {name for pair in pairs for name in pair}:
        return text
    if any(values[a] and values[b] and values[a] != values[b] for a, b in pairs):
        return text.replace(" other ", " ").replace(" another ", " a ")
    return text
