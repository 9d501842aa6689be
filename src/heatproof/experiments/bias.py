"""What `heatproof focus bias` leaves in a run folder: tables, figure, pictures, and a section of the page."""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

from heatproof.errors import HeatproofError
from heatproof.experiments.figures import pair_matrix
from heatproof.experiments.focus import write_text
from heatproof.experiments.worst import write_worst
from heatproof.lazy import pl
from heatproof.progress import Progress, silent
from heatproof.results.bias import (
    BELOW,
    LEAST,
    LEVEL,
    chosen_explainer,
    class_means,
    find_pairs,
    first_model,
    over_all_classes,
    pair_rows,
    tile_shares,
    worst_mosaics,
)
from heatproof.results.run import Run
from heatproof.workspace import write_whole

SHOWN_PAIRS, SHOWN_MOSAICS = 6, 4
"""Found pairs that are shown with pictures, and mosaics of each."""


class Findings(NamedTuple):
    """Every pair, the folder of the files, why there are no pictures where there should be some, and a caution."""

    pairs: pl.DataFrame
    folder: Path
    without_pictures: str | None
    follows_class: bool
    """Whether Focus over all classes is surely above chance, so that the heatmaps can be trusted in this."""


def write_bias(
    folder: Path,
    explainer: str = "grad_cam",
    below: float = BELOW,
    level: float = LEVEL,
    progress: Progress = silent,
) -> Findings:
    """What the model confuses, by the heatmaps of a run: tables, figure and pictures in its folder, and on its page.

    bias/EXPLAINER/ holds classes.csv, pairs.csv, matrix.svg, worst.csv with the worst mosaics of the found pairs,
    their pictures, and bias.json with the settings.
    """
    run = Run(folder)
    entry = chosen_explainer(run, explainer)
    shares = tile_shares(run, entry)
    pairs = pair_rows(shares)
    table = find_pairs(pairs, below, level, progress=progress)
    place = folder / "bias" / entry["folder"]
    shown = table.filter("found").head(SHOWN_PAIRS)
    worst = worst_mosaics(pairs, shown, SHOWN_MOSAICS)
    pictures, problem = set[Path](), None
    if len(worst):
        try:
            pictures = write_worst(run, entry, worst, place, progress)
        except HeatproofError as error:  # the pairs are found all the same
            problem = str(error)
    for old in {*place.glob("*.webp")} - pictures:
        old.unlink()
    write_whole(place / "classes.csv", class_means(shares).write_csv)
    write_whole(place / "pairs.csv", table.write_csv)
    write_whole(place / "worst.csv", worst.write_csv)
    write_text(place / "matrix.svg", pair_matrix(table, below))
    settings = {"explainer": entry["explainer"], "target": entry["target"], "model": first_model(run)}
    counts = {"mosaics": len(shares), "without_relevance": int(shares["share_0"].is_nan().sum()), "least": LEAST}
    overall = over_all_classes(shares)
    content = settings | overall | {"below": below, "level": level, "without_pictures": problem} | counts
    write_text(place / "bias.json", json.dumps(content, indent=2) + "\n")
    run.report()
    return Findings(table, place, problem, overall["follows_class"])
