"""Does a heatmap betray a planted cue? Two networks of one architecture answer the same; one of them uses the cue.

Arrays in, one float64 value per case out. `shortcut` and `honest` (cases,) are the shares of a method's relevance that
lie on the cue in either network. NaN where one of them is undefined. As only shares of the same few pixels are
compared, fine and coarse maps stand on the same ground.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from heatproof.lazy import np
from heatproof.metrics.base import register_metric

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Values = NDArray[np.float64]

PAPER = (
    "Adebayo et al. 2022"  # who ask whether explanations show what a network was trained to use; the scores are ours
)
NEEDS = ("twins",)


@register_metric("cue_contrast", title="Cue contrast", needs=NEEDS, paper=PAPER, range=(-1.0, 1.0))
def cue_contrast(shortcut: Values, honest: Values) -> Values:
    """(s - h) / (s + h) of the shares s and h on the cue, in the twin that uses it and in the one that does not.

    0 where both are the same, also where nothing lies on the cue in either: then the map does not tell them apart.
    """
    whole = shortcut + honest
    return (shortcut - honest) / np.where(whole == 0, 1.0, whole)


@register_metric("cue_told", title="Twins told apart", needs=NEEDS, paper=PAPER, uniform="half")
def cue_told(shortcut: Values, honest: Values) -> Values:
    """Whether more of the relevance lies on the cue in the twin that uses it; one half where it is the same."""
    known = np.isfinite(shortcut) & np.isfinite(honest)
    return np.where(known, 0.5 + 0.5 * np.sign(np.where(known, shortcut - honest, 0.0)), np.nan)


@register_metric("cue_share", title="On the cue, shortcut twin", needs=NEEDS, paper=PAPER, uniform="mask_share")
def cue_share(shortcut: Values, honest: Values) -> Values:
    """Share of the relevance that lies on the cue in the twin that uses it."""
    return cast("Values", np.where(np.isfinite(honest), shortcut, np.nan))


@register_metric(
    "false_cue_share",
    title="On the cue, honest twin",
    needs=NEEDS,
    paper=PAPER,
    higher_is_better=False,
    uniform="mask_share",
)
def false_cue_share(shortcut: Values, honest: Values) -> Values:
    """Share of the relevance that lies on the cue in the twin that does not use it."""
    return cast("Values", np.where(np.isfinite(shortcut), honest, np.nan))
