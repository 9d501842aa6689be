"""MNIST-1D (Greydanus 2020), generated, with what the original lacks: where each digit's template lies.

A signal is a template of 12 points, padded with zeros, stretched to 72 points, scaled and rolled; correlated noise
fills the places outside the template, then white noise, a slope, and resampling to 40 points. With the default
settings the signals equal the published frozen data set. Random draws follow its order, from NumPy's legacy stream.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from heatproof.lazy import np

if TYPE_CHECKING:
    from numpy.typing import NDArray

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
    """Signals (N, 40), digits (N,), and the positions (N, 40) to which the digit's template contributed."""

    x: NDArray[np.float64]
    y: NDArray[np.int64]
    template: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, part: slice) -> Signals:
        return Signals(self.x[part], self.y[part], self.template[part])


def templates() -> NDArray[np.float64]:
    """The ten templates (10, 12), whitened, starting and ending at zero."""
    shapes = np.asarray(TEMPLATES, dtype=np.float64)
    shapes = shapes - shapes.mean(1, keepdims=True)
    shapes = shapes / shapes.std(1, keepdims=True)
    zeroed: NDArray[np.float64] = (shapes - shapes[:, :1]) / 6.0
    return zeroed


def make(settings: Settings | None = None) -> tuple[Signals, Signals]:
    """The training and the test signals."""
    from scipy.ndimage import gaussian_filter1d

    settings = settings or Settings()
    rng = np.random.RandomState(settings.seed)
    shapes = templates()
    low, high = settings.padding
    stretched = shapes.shape[1] + high
    grid = np.linspace(0, 1, stretched)
    per_digit = settings.signals // len(shapes)
    count = per_digit * len(shapes)

    clean = np.empty((count, stretched))
    correlated, white = np.empty_like(clean), np.empty_like(clean)
    slope = np.empty(count)
    for i in range(count):
        padded = np.concatenate([shapes[i // per_digit] + VISIBLE, np.zeros(low + int(rng.rand() * (high - low + 1)))])
        signal = np.interp(grid, np.linspace(0, 1, len(padded)), padded)
        signal *= 1 + settings.scale * (rng.rand() - 0.5)
        clean[i] = np.roll(signal, rng.choice(settings.max_translation))
        correlated[i] = rng.randn(stretched)
        white[i] = rng.randn(stretched)
        slope[i] = settings.slope * (rng.rand() - 0.5)
    order = rng.permutation(count)

    template = clean != 0
    noise = gaussian_filter1d(settings.correlated_noise * correlated, sigma=2, axis=1)
    noisy = np.where(template, clean, noise) + settings.white_noise * white
    noisy -= slope[:, None] * np.linspace(-0.5, 0.5, stretched)

    x = resample(noisy, settings.length)[order]
    x = (x - x.mean()) / x.std()
    y = np.repeat(np.arange(len(shapes)), per_digit)[order]
    where = (resample(template.astype(np.float64), settings.length) > 0)[order]
    everything = Signals(x, y, where)
    split = int(count * settings.train_share)
    return everything[:split], everything[split:]


def resample(signals: NDArray[np.float64], length: int) -> NDArray[np.float64]:
    """Each row of `signals` at `length` evenly spaced points, linearly interpolated."""
    old, new = np.linspace(0, 1, signals.shape[1]), np.linspace(0, 1, length)
    return np.stack([np.interp(new, old, row) for row in signals])
