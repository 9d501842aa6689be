"""The page's section on what the model confuses, from the files that `heatproof focus bias` left in the run folder."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from heatproof.lazy import pl

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Found:
    """A found pair, and for each of its worst mosaics the row, and mosaic and heatmap as image addresses."""

    pair: Row
    worst: list[tuple[Row, str, str]]


@dataclass(frozen=True)
class Bias:
    """The findings by one explainer."""

    settings: Mapping[str, Any]
    classes: list[Row]
    names: list[str]
    cells: dict[tuple[str, str], Row]
    pairs: list[Row]
    """Those found, lowest share first."""
    shown: list[Found]
    """The first of them, with pictures where these could be made."""

    @property
    def untested(self) -> int:
        return sum(row["n"] < self.settings["least"] for row in self.cells.values())


def biases(folder: Path) -> list[Bias]:
    """The findings in a run folder, one for each explainer that was asked."""
    return [read_bias(path.parent) for path in sorted((folder / "bias").glob("*/bias.json"))]


def read_bias(place: Path) -> Bias:
    pairs = read_rows(place / "pairs.csv")
    worst = read_rows(place / "worst.csv")
    found = [pair for pair in pairs if pair["found"]]

    def shown(pair: Row) -> list[tuple[Row, str, str]]:
        mine = [row for row in worst if same_pair(row, pair)]
        return [(row, address(place, "mosaic", row), address(place, "heatmap", row)) for row in mine]

    return Bias(
        settings=json.loads((place / "bias.json").read_text(encoding="utf-8")),
        classes=read_rows(place / "classes.csv"),
        names=sorted({pair[side] for pair in pairs for side in ("target_class", "other_class")}),
        cells={(pair["target_class"], pair["other_class"]): pair for pair in pairs},
        pairs=found,
        shown=[Found(pair, shown(pair)) for pair in found if any(same_pair(row, pair) for row in worst)],
    )


def read_rows(path: Path) -> list[Row]:
    names = dict.fromkeys(("case", "target_class", "other_class"), pl.String)
    return list(pl.read_csv(path, schema_overrides=names).iter_rows(named=True))


def same_pair(one: Row, other: Row) -> bool:
    return all(one[name] == other[name] for name in ("target_class", "other_class"))


def picture_name(kind: str, row: Row) -> str:
    """The file of a mosaic or its heatmap: with the pair's name, because a mosaic may be among the worst of two."""
    words = "-".join(str(row[name]) for name in ("case", "target_class", "other_class"))
    return kind + "-" + "".join(letter if letter.isalnum() or letter in "_-" else "-" for letter in words) + ".webp"


def address(place: Path, kind: str, row: Row) -> str:
    """The picture as an address; empty where there is none."""
    path = place / picture_name(kind, row)
    if not path.is_file():
        return ""
    return "data:image/webp;base64," + base64.b64encode(path.read_bytes()).decode()
