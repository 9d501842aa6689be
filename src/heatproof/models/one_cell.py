"""A classifier whose head sees one cell of a grid of pictures alone, so that relevance elsewhere is known to be wrong.

Rao et al. 2022 ("Towards Better Understanding Attribution Methods") let the head that decides about a cell read the
features of that cell only. In DiFull the layers before it see each cell on its own, so nothing connects the output with
the other cells; in DiPart they see the whole grid, so what lies near a border is connected through their kernels.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from heatproof.cases import Batch
from heatproof.errors import HeatproofError
from heatproof.explainers.guards import untouched
from heatproof.explainers.layers import spatial_activations
from heatproof.explainers.wrapped import Wrapped


class OneCell(Wrapped):
    """Logits (B, K) of inputs (B, C, H, W) and cells (B,), of which the head saw that cell; without cells, of all.

    `layer` is the last of the network that has places: what it returns is all that the head sees. `apart` is DiFull:
    the network runs on each cell, and what its layer returns is put together as the cells lie, for explainers that read
    maps; the head goes on from the one cell of it.
    """

    def __init__(self, network: nn.Module, grid: int, layer: str, apart: bool) -> None:
        super().__init__(network)
        self.grid, self.layer, self.apart = grid, layer, apart

    def forward(self, inputs: Tensor, cells: Tensor | None = None) -> Tensor:
        if cells is None:
            whole: Tensor = self.wrapped_network(inputs)
            return whole
        present = cells.unique().tolist()
        if len(present) == 1:
            return self.of_cell(inputs, present[0])
        rows = [(cells == cell).nonzero()[:, 0] for cell in present]
        found = torch.cat([self.of_cell(inputs[row], cell) for row, cell in zip(rows, present, strict=True)])
        return found[torch.cat(rows).argsort()]

    def of_cell(self, inputs: Tensor, cell: int) -> Tensor:
        if not self.apart:
            return self.seen(inputs, lambda output: self.cut(output, cell))
        kept: list[Tensor] = []

        def keep(output: Tensor) -> Tensor:
            kept.append(output)
            return output

        single = [self.piece(inputs, place) for place in range(self.grid**2)]
        for picture in single:
            self.seen(picture, keep)
        rows = [torch.cat(kept[start : start + self.grid], 3) for start in range(0, len(kept), self.grid)]
        together = torch.cat(rows, 2)
        return self.seen(single[cell], lambda _output: self.cut(together, cell))

    def seen(self, inputs: Tensor, change: Any) -> Tensor:
        """What the network makes of the inputs if its layer returns something else."""
        # Hooked at each pass, after those of an explainer, which so reads what the layer returns itself.
        hook = self.wrapped_network.get_submodule(self.layer).register_forward_hook(lambda _m, _i, out: change(out))
        try:
            logits: Tensor = self.wrapped_network(inputs)
            return logits
        finally:
            hook.remove()

    def piece(self, values: Tensor, cell: int) -> Tensor:
        (top, bottom), (left, right) = self.borders(values, cell)
        return values[:, :, top:bottom, left:right]

    def cut(self, maps: Tensor, cell: int) -> Tensor:
        """The cell of maps; by index, because a slice would pass for the maps of the whole input."""
        for axis, (start, end) in zip((2, 3), self.borders(maps, cell), strict=True):
            maps = maps.index_select(axis, torch.arange(start, end, device=maps.device))
        return maps

    def borders(self, values: Tensor, cell: int) -> list[tuple[int, int]]:
        """First and last row and column of a cell, counted row by row from the top left."""
        return [
            (place * values.shape[axis] // self.grid, (place + 1) * values.shape[axis] // self.grid)
            for axis, place in zip((2, 3), divmod(cell, self.grid), strict=True)
        ]


def one_cell(name: str, network: nn.Module, grid: int, sample: Tensor, apart: bool, layer: str | None) -> OneCell:
    """The network with a head that sees one cell, once it is seen to work on this sample of a grid."""
    layer = layer or last_layer(name, network, sample)
    if layer not in dict(network.named_modules()):
        raise HeatproofError(f"cut: model {name} has no module {layer!r}; name one that returns maps (B, C, H, W).")
    made = OneCell(network, grid, layer, apart)
    try:
        with torch.no_grad(), untouched(made):
            made(sample, torch.zeros(len(sample), dtype=torch.long))
    except Exception as problem:  # whatever a foreign network raises
        raise HeatproofError(
            f"the head of model {name} cannot be given one cell of what {layer} returns ({type(problem).__name__}:"
            f" {problem}). It must take maps of any size; another module can be named with --cut."
        ) from problem
    return made


def last_layer(name: str, network: nn.Module, sample: Tensor) -> str:
    """The module that returns the last maps that all of the score passes: what Grad-CAM reads."""
    batch = Batch(
        inputs=sample, target=torch.zeros(len(sample), dtype=torch.long), ids=tuple(map(str, range(len(sample))))
    )
    with untouched(network):
        found = spatial_activations(network, batch)[1][-1]
    if found.tokens or not found.modules or found.returned_by is None:
        raise HeatproofError(
            f"model {name}: its last maps are {found.name!r}, which no module returns as (B, C, H, W); name the module"
            " behind which its head begins with --cut."
        )
    return found.name
