"""Mosaics as a classifier sees them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from heatproof.explainers.guards import untouched
from heatproof.lazy import np, torch
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
    side: int
    fit: Fit

    def inputs(self, mosaics: Sequence[Mosaic]) -> torch.Tensor:
        return self.classifier.inputs(np.stack([assemble(mosaic, self.side, self.fit) for mosaic in mosaics]))

    def cells(self, mosaics: Sequence[Mosaic]) -> tuple[torch.Tensor, ...]:
        """What a head that sees one cell is told beside the inputs: which cell; nothing for other heads."""
        cells = [mosaic.cell for mosaic in mosaics if mosaic.cell is not None]
        return (torch.tensor(cells),) if cells else ()

    def predict(self, module: torch.nn.Module, at_once: int, progress: Progress) -> torch.Tensor:
        """The logits of all mosaics."""
        from heatproof.explainers.wrapped import reached

        found, module = [], reached(module)
        with torch.no_grad(), untouched(module):
            for start in range(0, len(self.drawn), at_once):
                progress("predicting", start, len(self.drawn))
                some = self.drawn[start : start + at_once]
                found.append(module(self.inputs(some), *self.cells(some)))
        progress("predicting", len(self.drawn), len(self.drawn))
        return torch.cat(found)
