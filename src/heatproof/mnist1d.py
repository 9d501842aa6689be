"""MNIST-1D (Greydanus 2020), generated, with what the original lacks: where each digit's template lies.

A signal is a template of 12 points, padded with zeros, stretched to 72 points, scaled and rolled; correlated noise
fills the places outside the template, then white noise, a slope, and resampling to 40 points. With the default
settings the signals equal the published frozen data set up to rounding. Random draws follow its order, from NumPy's
legacy stream. Every signal is the same to the last bit on every processor (see `exact`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Literal

from heatproof.exact import exponential, logarithm, mean
from heatproof.lazy import np

if TYPE_CHECKING:
    from numpy.typing import NDArray

Part = Literal["template", "noise"]
"""What of a signal can be taken out: the digit's template, or the noise around it and upon it."""
TEMPLATES = (
    (5, 6, 6.5, 6.75, 7, 7, 7, 7, 6.75, 6.5, 6, 5),
    (5, 3, 3, 3.4, 3.8, 4.2, 4.6, 5, 5.4, 5.8, 5, 5),
    (5, 6, 6.5, 6.5, 6, 5.25, 4.75, 4, 3.5, 3.5, 4, 5),
    (5, 6, 6.5, 6.5, 6, 5, 5, 6, 6.5, 6.5, 6, 5),
    (5, 4.4, 3.8, 3.2, 2.6, 2.6, 5, 5, 5, 5, 5, 5),
    (5, 3, 3, 3, 3, 5, 6, 6.5, 6.5, 6, 4.5, 5),
    (5, 4, 3.5, 3.25, 3, 3, 3, 3, 3.25, 3.5, 4, 5),
    (5, 7, 7, 6.6, 6.2, 5.8, 5.4, 5, 4.6, 4.2, 5, 5),
    (5, 4, 3.5, 3.5, 4, 5, 5, 4, 3.5, 3.5, 4, 5),
    (5, 4, 3.5, 3.5, 4, 5, 5, 5, 5, 4.7, 4.3, 5),
)
"""The shape of each digit, 0 to 9."""

VISIBLE = 1e-8
"""Added to the template so that its zeros are told from the padding, where the noise goes."""
SMOOTHING = 2.0
"""Standard deviation, in points, of the filter that correlates noise; it is cut off at four of them."""


@dataclass(frozen=True)
class Settings:
    """How signals are made; the defaults are those of the published data set."""

    signals: int = 5000
    train_share: float = 0.8
    padding: tuple[int, int] = (36, 60)
    scale: float = 0.4
    max_translation: int = 48
    correlated_noise: float = 0.25
    white_noise: float = 0.02
    slope: float = 0.75
    length: int = 40
    seed: int = 42


@dataclass(frozen=True, eq=False)
class Signals:
    """Signals (N, 40), digits (N,), and the positions (N, 40) to which the digit's template contributed.

    Signals from elsewhere may have channels, (N, channels, positions), and any positions that matter for a template.
    """

    x: NDArray[np.float64]
    y: NDArray[np.int64]
    template: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, part: slice) -> Signals:
        return Signals(self.x[part], self.y[part], self.template[part])


def templates() -> NDArray[np.float64]:
    """The ten templates (10, 12), whitened, starting and ending at zero."""
    shapes = np.stack([whitened(np.asarray(shape, dtype=np.float64)) for shape in TEMPLATES])
    zeroed: NDArray[np.float64] = (shapes - shapes[:, :1]) / 6.0
    return zeroed


def whitened(values: NDArray[np.float64], others: NDArray[np.float64] | None = None) -> NDArray[np.float64]:
    """The values with mean 0 and standard deviation 1, or others moved and scaled just so."""
    middle = mean(values.ravel())
    centred = values - middle
    spread = np.sqrt(mean((centred * centred).ravel()))
    white: NDArray[np.float64] = (centred if others is None else others - middle) / spread
    return white


@dataclass(frozen=True, eq=False)
class Drawn:
    """What was drawn for every signal (N, 72), in the order of digits: it is put together afterwards.

    clean     the template, stretched, scaled and rolled; 0 elsewhere
    template  where that is
    noise     correlated noise; it is seen outside the template
    white     white noise on all of it
    slope     (N,) of the straight line that is taken away
    order     in which the signals stand in the data set
    """

    clean: NDArray[np.float64]
    template: NDArray[np.bool_]
    noise: NDArray[np.float64]
    white: NDArray[np.float64]
    slope: NDArray[np.float64]
    y: NDArray[np.int64]
    order: NDArray[np.int64]

    def together(self, settings: Settings, without: Part | None = None) -> NDArray[np.float64]:
        """The signals (N, 40) in the order of the data set, not yet whitened; `without` one of their parts.

        Where the template is taken out, the noise that was drawn for its places is seen there.
        """
        if without == "noise":
            seen = np.where(self.template, self.clean, 0.0)
        else:
            seen = self.noise if without == "template" else np.where(self.template, self.clean, self.noise)
            seen = seen + self.white
        length = self.clean.shape[1]
        return resample(seen - self.slope[:, None] * np.linspace(-0.5, 0.5, length), settings.length)[self.order]


def draw(settings: Settings) -> Drawn:
    """All that is random, in the order of the published data set."""
    rng = np.random.RandomState(settings.seed)
    shapes = templates()
    low, high = settings.padding
    stretched = shapes.shape[1] + high
    grid = np.linspace(0, 1, stretched)
    per_digit = settings.signals // len(shapes)
    count = per_digit * len(shapes)

    clean = np.empty((count, stretched))
    pairs = np.empty((count, stretched, 2))
    slope = np.empty(count)
    for i in range(count):
        padded = np.concatenate([shapes[i // per_digit] + VISIBLE, np.zeros(low + int(rng.rand() * (high - low + 1)))])
        signal = interpolated(grid, np.linspace(0, 1, len(padded)), padded)
        signal *= 1 + settings.scale * (rng.rand() - 0.5)
        clean[i] = np.roll(signal, rng.choice(settings.max_translation))
        pairs[i] = pairs_in_circle(rng, stretched)
        slope[i] = settings.slope * (rng.rand() - 0.5)
    order = rng.permutation(count)

    correlated, white = normals(pairs).reshape(count, 2, stretched).swapaxes(0, 1)
    noise = smoothed(settings.correlated_noise * correlated)
    y = np.repeat(np.arange(len(shapes)), per_digit)
    return Drawn(clean, clean != 0, noise, settings.white_noise * white, slope, y, order)


def make(settings: Settings | None = None, without: Part | None = None) -> tuple[Signals, Signals]:
    """The training and the test signals; `without` a part, all else as it is.

    Signals without a part are whitened by the mean and the spread of those that have it, so that every point which the
    part does not touch keeps its value to the last bit.
    """
    settings = settings or Settings()
    drawn = draw(settings)
    whole = drawn.together(settings)
    x = whitened(whole, whole if without is None else drawn.together(settings, without))
    where = (resample(drawn.template.astype(np.float64), settings.length) > 0)[drawn.order]
    everything = Signals(x, drawn.y[drawn.order], where)
    split = int(len(x) * settings.train_share)
    return everything[:split], everything[split:]


@cache
def published(without: Part | None = None) -> tuple[Signals, Signals]:
    """The training and the test signals of the published data set, made once; `without` a part, all else as it is."""
    return make(without=without)


def pairs_in_circle(rng: np.random.RandomState, count: int) -> NDArray[np.float64]:
    """The next `count` points (count, 2) of the stream that lie within the unit circle: they make 2 count normals."""
    found: list[NDArray[np.float64]] = []
    while (missing := count - sum(map(len, found))) > 0:  # no more is drawn than will be used
        points = 2 * rng.random_sample((missing, 2)) - 1
        square = square_length(points)
        found.append(points[(square < 1) & (square != 0)])
    return np.concatenate(found)


def square_length(points: NDArray[np.float64]) -> NDArray[np.float64]:
    squares = points * points
    total: NDArray[np.float64] = squares[..., 0] + squares[..., 1]
    return total


def normals(points: NDArray[np.float64]) -> NDArray[np.float64]:
    """Normal numbers (..., 2) from points in the circle (..., 2) by Marsaglia's polar method, as NumPy's randn."""
    square = square_length(points)
    stretch = np.sqrt(-2 * logarithm(square) / square)
    return (stretch[..., None] * points)[..., ::-1]


def smoothed(signals: NDArray[np.float64]) -> NDArray[np.float64]:
    """Each row under a Gaussian filter; beyond its ends a row is continued by its mirror image."""
    reach = int(4 * SMOOTHING + 0.5)
    bell = [exponential(-0.5 * (k / SMOOTHING) ** 2) for k in range(reach + 1)]
    total = mean([*bell, *bell[1:]]) * (2 * reach + 1)
    padded = np.pad(signals, ((0, 0), (reach, reach)), mode="symmetric")
    length = signals.shape[1]
    result: NDArray[np.float64] = signals * (bell[0] / total)
    for k in range(reach, 0, -1):
        sides = padded[:, reach - k : reach - k + length] + padded[:, reach + k : reach + k + length]
        result = result + sides * (bell[k] / total)
    return result


def resample(signals: NDArray[np.float64], length: int) -> NDArray[np.float64]:
    """Each row of `signals` at `length` evenly spaced points, linearly interpolated."""
    return interpolated(np.linspace(0, 1, length), np.linspace(0, 1, signals.shape[1]), signals)


def interpolated(
    new: NDArray[np.float64], old: NDArray[np.float64], values: NDArray[np.float64]
) -> NDArray[np.float64]:
    """`values` (..., N), known at the ascending places `old` (N,), on straight lines between these at `new`."""
    left = np.clip(np.searchsorted(old, new, side="right") - 1, 0, len(old) - 2)
    slope = (values[..., left + 1] - values[..., left]) / (old[left + 1] - old[left])
    between: NDArray[np.float64] = slope * (new - old[left]) + values[..., left]
    return np.where(new == old[-1], values[..., -1:], between)
