"""Masks that were read once, small enough to be held: every vendor and every floor is scored against them. No torch."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Any

from heatproof.benchmarks.masks.readers import MaskSource, Truth
from heatproof.lazy import np
from heatproof.metrics.mask_scores import INSIDE, VOID

if TYPE_CHECKING:
    from numpy.typing import NDArray

MOST_HELD = 2**26
"""Bytes; what does not fit is read again."""
ENTRY = 500
"""Bytes that an entry takes beside what it holds, at most."""


class HeldMasks:
    """The truths of a source: of object and void eight positions to a byte each, and these compressed."""

    def __init__(self, source: MaskSource) -> None:
        self.source, self.room = source, MOST_HELD
        self.held: dict[tuple[str, str], tuple[tuple[int, ...], bytes, bytes]] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        """Other processes read for themselves."""
        return HeldMasks, (self.source,)

    def truth(self, name: str, label: str) -> Truth:
        """As the source gives it; an error each time if that cannot be read."""
        if (name, label) in self.held:
            shape, inside, void = self.held[name, label]
            found = unpacked(inside, shape)
            return found | unpacked(void, shape) * np.uint8(VOID) if void else found
        found = self.source.truth(name, label)
        hidden = found == VOID
        packs = packed(found == INSIDE), packed(hidden) if hidden.any() else b""
        size = ENTRY + sum(map(len, packs))
        if size <= self.room:
            self.room -= size
            self.held[name, label] = (found.shape, *packs)
        return found


def packed(where: NDArray[np.bool_]) -> bytes:
    return zlib.compress(np.packbits(where).tobytes(), 1)


def unpacked(pack: bytes, shape: tuple[int, ...]) -> Truth:
    bits = np.frombuffer(zlib.decompress(pack), np.uint8)
    found: Truth = np.unpackbits(bits, count=shape[0] * shape[1]).reshape(shape)
    return found
