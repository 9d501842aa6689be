"""Mosaics as a classifier sees them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from heatproof.benchmarks.classifying import predicted_logits
from heatproof.lazy import np, torch
from heatproof.models.sizes import Sizes
from heatproof.mosaics.mosaics import Mosaic, assemble
from heatproof.mosaics.pictures import Fit
from heatproof.progress import Progress

if TYPE_CHECKING:
    from heatproof.models.classifiers import Classifier


@dataclass(frozen=True, eq=False)
class Seen:
    """Mosaics as a classifier sees them."""

    drawn: Sequence[Mosaic]
    classifier: Classifier
    outputs: Mapping[str, int]
    sizes: Sizes
    fit: Fit

    @property
    def side(self) -> int:
        """Of a tile."""
        return self.sizes.tile

    def inputs(self, mosaics: Sequence[Mosaic]) -> torch.Tensor:
        return self.classifier.inputs(np.stack([assemble(mosaic, self.side, self.fit) for mosaic in mosaics]))

    def cells(self, mosaics: Sequence[Mosaic]) -> tuple[torch.Tensor, ...]:
        """What a head that sees one cell is told beside the inputs: which cell; nothing for other heads."""
        cells = [mosaic.cell for mosaic in mosaics if mosaic.cell is not None]
        return (torch.tensor(cells),) if cells else ()

    def predict(self, module: torch.nn.Module, at_once: int, progress: Progress) -> torch.Tensor:
        """The logits of all mosaics."""

        def inputs(start: int, end: int) -> tuple[torch.Tensor, ...]:
            some = self.drawn[start:end]
            return (self.inputs(some), *self.cells(some))

        return predicted_logits(module, inputs, len(self.drawn), at_once, progress)
