"""When the order of methods is settled: tests that may be looked at after every block of cases.

A test of one side bets against it: the capital exp(λS - λ²V/2), of sums S and sums of squares V of what blocks are off
the null hypothesis, grows on average only if the hypothesis is wrong, whatever λ, if what a block is off is as likely
to be above as below it (de la Peña 1999; the symmetric case of Howard, Ramdas, McAuliffe and Sekhon 2021). The mean
over several λ is such a capital too, and it reaches 1/α at any time at all with a chance of at most α (Ville 1939):
one may look as often as one likes, and stop. Blocks come in random order out of a known number of them, so the null
hypothesis also says what is left to come (Waudby-Smith and Ramdas 2020).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from heatproof.lazy import np
from heatproof.results.statistics import LEVEL

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Values = NDArray[np.float64]

MARGIN = 0.01
"""Differences below this, one point in a hundred, do not matter unless somebody says otherwise."""
SMALLEST_BET, BETS, STEP = 0.1, 20, 1.5
"""λ from the smallest on, each so many times the last: for differences and spreads of any likely size."""
UNSEEN = 4.0
"""Cases that may go as far the other way as scores can: what is rare is not seen soon, and must not count as absent."""
SIDES = ((1.0, 0.0), (-1.0, 0.0), (-1.0, 1.0), (1.0, 1.0))
"""The hypotheses of a pair that are bet against: that the difference is at most 0, at least 0, at least the margin, and
at most minus the margin; as signs of the difference and of the margin in what a block is off."""


@dataclass
class Race:
    """Pairs of methods, block after block, until each is told apart or surely closer than the margin.

    pairs   two methods each
    blocks  how many there are in all
    size    cases of a block; the last one may have fewer
    scale   how far apart two scores can be, about
    """

    pairs: Sequence[tuple[int, int]]
    blocks: int
    size: int
    margin: float = MARGIN
    scale: float = 1.0
    seen: int = 0
    total: Values = field(init=False)
    off: Values = field(init=False)
    squares: Values = field(init=False)
    capital: Values = field(init=False)
    """The logarithm of the largest capital so far (sides, pairs)."""

    def __post_init__(self) -> None:
        self.total, self.off, self.capital = (np.zeros((len(SIDES), len(self.pairs))) for _ in range(3))
        self.squares = np.full_like(self.total, UNSEEN * (self.scale / self.size) ** 2)

    def rescale(self, scale: float) -> None:
        """Say how far apart scores can be, once that is known: before any block that has some."""
        self.scale = scale
        self.__post_init__()

    def add(self, differences: Values, counts: NDArray[np.int64] | Values) -> None:
        """The next block: by pair the sum over its cases of the first's score minus the second's, and how many."""
        signs, margins = (np.array(side)[:, None] for side in zip(*SIDES, strict=True))
        found = (signs * differences + margins * self.margin * counts) / self.size
        # Under the null hypothesis all blocks together give nothing, so those to come must undo what came.
        away = found + self.total / (self.blocks - self.seen)
        self.total = self.total + found
        self.off = self.off + away
        self.squares = self.squares + away**2
        self.seen += 1
        bets = SMALLEST_BET * STEP ** np.arange(BETS)[:, None, None] / self.scale
        grown = np.logaddexp.reduce(bets * self.off - bets**2 * self.squares / 2, axis=0) - np.log(BETS)
        self.capital = np.maximum(self.capital, grown)

    @property
    def rejected(self) -> NDArray[np.bool_]:
        """Which hypotheses (sides, pairs) are wrong, at 95 % over all of them together.

        At most two of a pair's four can be true at once, so each is tested at half of the pair's share.
        """
        found: NDArray[np.bool_] = self.capital >= np.log(2 * len(self.pairs) / (1 - LEVEL))
        return found

    def side(self, place: int) -> NDArray[np.bool_]:
        found: NDArray[np.bool_] = self.rejected[place]
        return found

    @property
    def above(self) -> NDArray[np.bool_]:
        """Of which pairs the first surely scores higher."""
        return self.side(0)

    @property
    def below(self) -> NDArray[np.bool_]:
        """Of which pairs the first surely scores lower."""
        return self.side(1)

    @property
    def close(self) -> NDArray[np.bool_]:
        """Which pairs are surely less than the margin apart."""
        return self.side(2) & self.side(3)

    @property
    def is_settled(self) -> bool:
        """Whether every pair is told apart, or too close to matter; there must be one."""
        return bool(self.pairs) and bool((self.above | self.below | self.close).all())
