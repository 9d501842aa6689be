"""Skill: how far from the best floor (0) to the ceiling (1) a score lies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from heatproof.lazy import np
from heatproof.results.statistics import interval, stretch
from heatproof.story import MetricWords

if TYPE_CHECKING:
    from numpy.typing import NDArray

SKILL = ("skill", "skill_low", "skill_high")
NARROWEST = 1e-9
"""A scale shorter than this tells nothing."""
UPSIDE_DOWN = 0.025
"""Share of resamples in which the ceiling may be no better than a floor."""


@dataclass(frozen=True, eq=False)
class Scale:
    """The scale of a metric; `families` says of each explainer whether it is a floor or a ceiling.

    A floor knows nothing of the model, so the best of them is what can be had for nothing: it is chosen anew in every
    resample. Where no ceiling was run, the best possible value of the metric takes its place. Where the ceiling is not
    surely better than every floor there is no scale: the ends of a ratio whose denominator may be zero mean nothing.
    """

    words: MetricWords
    families: Mapping[str, str]

    def skills(
        self,
        keys: Sequence[tuple[str, ...]],
        means: NDArray[np.float64],
        resampled: NDArray[np.float64],
        counts: NDArray[Any],
    ) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
        """Skill and the ends of its 95 % interval for each key (model, target, explainer); NaN where there is none.

        means (keys,), their resamples (resamples, keys), and how many independent cases they rest on (keys,).
        """
        both = np.asfortranarray(np.concatenate([means[None], resampled]))  # it is gone through by columns
        found = np.full_like(both, np.nan)
        scales: dict[tuple[str, ...], tuple[NDArray[np.float64], NDArray[np.float64]] | None] = {}
        explained = {target for _, target, _ in keys if target}
        for place, (model, own, _) in enumerate(keys):
            # What explains no quantity has the scale of the only one there is; of several, that of all their floors.
            target = own or (next(iter(explained)) if len(explained) == 1 else "")
            if (model, target) not in scales:
                scales[model, target] = self.scale(keys, both, model, target)
            if (scale := scales[model, target]) is not None:
                floor, length = scale
                found[:, place] = (both[:, place] - floor) / length
        low, high = interval(found[1:])
        factor = np.where(counts > 1, stretch(counts), np.nan)
        skill = found[0]
        return skill, skill - factor * (skill - low), skill + factor * (high - skill)

    def scale(
        self, keys: Sequence[tuple[str, ...]], means: NDArray[np.float64], model: str, target: str
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]] | None:
        """Where the scale begins (rows,), and its length, NaN in resamples without any; None where there is none."""
        if (ends := self.ends(keys, means, model, target)) is None:
            return None
        floor, ceiling = ends
        length = ceiling - floor
        is_scale = (length if self.words.higher_is_better else -length) > NARROWEST
        if not is_scale[0] or is_scale.mean() < 1 - UPSIDE_DOWN:
            return None
        return floor, np.where(is_scale, length, np.nan)

    def ends(
        self, keys: Sequence[tuple[str, ...]], means: NDArray[np.float64], model: str, target: str
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]] | None:
        """The best floor and the ceiling (rows,) for what is explained of a model; None where no floor was run."""
        here = [
            (place, self.families.get(explainer))
            for place, (of_model, of_target, explainer) in enumerate(keys)
            if of_model == model and of_target in ("", target) and not np.isnan(means[0, place])
        ]
        floors = [place for place, family in here if family == "floor"]
        ceilings = [place for place, family in here if family == "ceiling"]
        best = np.fmax if self.words.higher_is_better else np.fmin
        end = self.words.best
        if not floors or not (ceilings or np.isfinite(end)):
            return None
        ceiling = best.reduce(means[:, ceilings], axis=1) if ceilings else np.full(len(means), end)
        return best.reduce(means[:, floors], axis=1), ceiling
