"""What grids of distinct classes are called, by setting: GridPG, DiFull, DiPart."""

from __future__ import annotations

TITLES = {
    "grid": "GridPG: relevance in grids of distinct classes",
    "difull": "DiFull: relevance for a head that sees one cell, cells apart",
    "dipart": "DiPart: relevance for a head that sees one cell",
}
PAPERS = {
    "grid": "Böhle et al. 2021, Convolutional Dynamic Alignment Networks for Interpretable Classifications",
    "difull": "Rao et al. 2022, Towards Better Understanding Attribution Methods",
    "dipart": "Rao et al. 2022, Towards Better Understanding Attribution Methods",
}
"""Of settings other than the paper's own."""
TRUTHS = {
    "focus": "the tiles of the target class",
    "difull": "the cell that is seen",
    "dipart": "the cell that is seen",
}
NOTES = {
    "grid": "Focus is here the localisation score of the grid pointing game: the share of positive relevance for a"
    " class in its cell. A uniform map gets the cell's share of the grid.",
    "difull": "The head sees one cell, and nothing connects the output with the others: relevance outside the cell is"
    " wrong whatever the network does. 1 is what every gradient gets; a uniform map gets the cell's share of the grid.",
    "dipart": "The head sees one cell of what the layers make of the whole grid: beyond the reach of their kernels,"
    " relevance outside the cell is wrong whatever the network does. A uniform map gets the cell's share of the grid.",
}
