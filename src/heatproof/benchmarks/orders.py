"""How far two scores put the same methods in one order."""

from __future__ import annotations

from collections.abc import Sequence
from math import atanh, sqrt, tanh

from heatproof.lazy import pl


def rank_correlation(first: Sequence[float], second: Sequence[float]) -> tuple[float, float, float]:
    """Spearman's rank correlation of two scores of the same methods, with the 95 % interval of Fieller et al. (1957).

    atanh(rho) is nearly normal with variance 1.06 / (n - 3). A perfect order of n methods is taken half way to the next
    one, an exchange of two neighbours, so that few methods do not pass for certainty.
    """
    count = len(first)
    ranks = pl.DataFrame({"a": first, "b": second}).select(pl.all().rank())
    found = ranks.select(pl.corr("a", "b")).item()
    if found != found:  # all of one score are equal
        return found, -1.0, 1.0
    most = 1 - 6 / (count * (count**2 - 1))
    middle, reach = atanh(max(-most, min(most, found))), 1.959964 * sqrt(1.06 / (count - 3))
    return found, tanh(middle - reach), tanh(middle + reach)
