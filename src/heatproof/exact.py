"""Functions whose results are the same to the last bit on every processor.

IEEE 754 defines how sums, products, quotients and square roots are rounded, but not logarithms, powers or sines:
libraries compute those by other formulas where a processor has fused or wide instructions. Nor is the order defined in
which a library adds up the terms of a matrix product. What is seeded and stored, or decides something, goes through
the functions here, which are plain arithmetic in a fixed order; they are right to about two units in the last place.
"""

from __future__ import annotations

import math
from decimal import Decimal, localcontext
from typing import TYPE_CHECKING

from heatproof.lazy import np, torch

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

LN_2 = 0.6931471805599453
QUARTER_TURN = (1.5707963267341256, 6.077100506303966e-11, 2.0222662487959506e-21)
"""Pi / 2 as a sum; the first two have so few digits that their products with numbers below 2 ** 19 are exact."""
GROUP = 16
"""Normal numbers are made in groups of so many, as torch makes them."""


def power(base: float, exponent: float) -> float:
    """base ** exponent for a positive base, correctly rounded; slow."""
    with localcontext() as context:
        context.prec = 40
        return float(Decimal(base) ** Decimal(exponent))


def exponential(value: float) -> float:
    """e ** value, correctly rounded; slow."""
    with localcontext() as context:
        context.prec = 40
        return float(Decimal(value).exp())


def mean(values: Iterable[float]) -> float:
    """The mean; the sum is exact before it is rounded, so its order does not matter."""
    every = list(values)
    return math.fsum(every) / len(every)


def logarithm(x: Floats) -> Floats:
    """ln x for positive x: 2 artanh((m - 1) / (m + 1)) + e ln 2, where x = m 2 ** e."""
    part, exponent = np.frexp(x)
    below = part < 0.7071067811865476
    part += part * below
    s = (part - 1) / (part + 1)
    square = s * s
    series: Floats = np.full_like(square, 1 / 25)
    for divisor in range(23, 0, -2):
        series *= square
        series += 1 / divisor
    series *= s
    series *= 2
    series += (exponent - below) * LN_2
    return series


def cos_sin(angle: Floats) -> tuple[Floats, Floats]:
    """Cosine and sine of angles in radians below 800,000: their Taylor series, an eighth of a turn around zero."""
    quarters = np.rint(angle / QUARTER_TURN[0])
    x = angle
    for part in QUARTER_TURN:
        x = x - quarters * part
    square = x * x
    cosine, sine = np.ones_like(x), np.ones_like(x)
    for n in range(18, 0, -2):
        cosine = 1 - square * cosine / (n * (n - 1))
        sine = 1 - square * sine / (n * (n + 1))
    sine = x * sine
    turns = quarters.astype(np.int64) % 4
    return (
        np.choose(turns, [cosine, -sine, -cosine, sine]),
        np.choose(turns, [sine, cosine, -sine, -cosine]),
    )


def normal(shape: tuple[int, ...], generator: torch.Generator) -> torch.Tensor:
    """Normal numbers from the generator's stream: torch's own up to rounding, which hangs on the processor there.

    Box and Muller's formula; the first half of a group of 16 draws gives the radius, the second half the angle. What
    is left over at the end is made of 16 new draws. Fewer than 16 numbers come from torch itself, which makes those in
    double precision, so that rounding to float32 hides the processor.
    """
    from heatproof.exact_kernels import box_muller

    count = math.prod(shape)
    if count < GROUP:
        return torch.randn(shape, generator=generator)
    made = np.empty(count, np.float32)
    drawn = torch.rand(count, generator=generator).cpu().numpy()
    whole = count // GROUP * GROUP
    box_muller(drawn[:whole].reshape(-1, GROUP), made[:whole].reshape(-1, GROUP))
    if whole < count:
        last = torch.rand(GROUP, generator=generator).cpu().numpy()
        box_muller(last.reshape(1, GROUP), made[-GROUP:].reshape(1, GROUP))
    return torch.from_numpy(made).view(shape)
