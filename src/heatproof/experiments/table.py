"""Table 1 of the paper from runs: networks by methods with their accuracy, and whether Focus goes with accuracy."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from heatproof.benchmarks.focus_alone import accuracy_alone
from heatproof.benchmarks.references import read_reference
from heatproof.engine.manifest import is_object
from heatproof.errors import HeatproofError
from heatproof.experiments.figures import Dots, scatter
from heatproof.experiments.focus import write_text
from heatproof.experiments.worst import recipe_of
from heatproof.harmless import csv_writer, markdown_code, markdown_text
from heatproof.lazy import np, pl
from heatproof.mosaics.mosaics import check_files
from heatproof.progress import Progress, silent
from heatproof.report.runs import Run
from heatproof.results.bias import first_model, require_focus
from heatproof.results.run import Results
from heatproof.workspace import write_whole

LEAST = 3
"""Networks that a correlation needs: two always lie on a line."""
NO_METHODS = ("floor", "ceiling")
"""Families that have no place in a table of methods."""
ACCURACY = "mean_class_accuracy"


@dataclass(frozen=True, eq=False)
class FocusTable:
    """Networks by methods.

    table        a row per network and method: n, mean, std, the network's accuracy, and the paper's numbers where
                 network and data are those of a row of its table
    correlation  of mean Focus with accuracy over networks, by method; beside it that of the paper's table
    notes        what a reader should know
    folder       of table.csv, table.md, correlation.csv and accuracy.svg
    """

    table: pl.DataFrame
    correlation: pl.DataFrame
    notes: Sequence[str]
    folder: Path

    def lines(self) -> list[list[str]]:
        """The table as people read it, its heads first: a line per network, and the paper's beneath its own."""
        methods = self.table["method"].unique(maintain_order=True).to_list()
        found = [["network", "pictures", "mosaics", "accuracy", *methods]]
        for name in self.table["run"].unique(maintain_order=True):
            rows = self.table.filter(run=name)
            cells = {row["method"]: row for row in rows.iter_rows(named=True)}
            first = rows.row(0, named=True)
            counts = sorted({row["n"] for row in cells.values()})
            mosaics = " to ".join(str(count) for count in (counts[0], counts[-1])[: len(counts)])
            head = [first["network"], first["pictures"], mosaics, number(first["accuracy"])]
            found.append([*head, *(value(cells.get(method), "") for method in methods)])
            if first["paper_row"]:
                head = [f"paper: {first['paper_row']}", "", "", number(first["paper_accuracy"])]
                found.append([*head, *(value(cells.get(method), "paper_") for method in methods)])
        return found


def number(share: float | None) -> str:
    return "–" if share is None else f"{share:.3f}"


def value(row: Mapping[str, Any] | None, prefix: str) -> str:
    if row is None or row[f"{prefix}mean"] is None:
        return "–"
    return f"{row[f'{prefix}mean']:.3f} ({row[f'{prefix}std']:.3f})"


@dataclass(frozen=True, eq=False)
class Network:
    """A run as a row of the table: whose row it is, and its methods by what they are called."""

    run: str
    network: str
    pictures: str
    is_same: tuple[Any, ...]
    """What two runs must agree in to be one row: the weights, and what is shown to them."""
    paper_row: str
    accuracy: float | None
    methods: Mapping[str, Mapping[str, Any]]


def write_table(
    runs: Sequence[Results | Path | str], out: Path | str = "runs/focus-table", progress: Progress = silent
) -> FocusTable:
    """The paper's table from runs of focus: table.csv, table.md, correlation.csv and accuracy.svg in the folder `out`.

    Runs of one network on the same pictures that have no method in common are one row. The accuracy is the mean over
    classes on the single pictures that the mosaics show; where a run does not have it, it is found out now.
    """
    if not runs:
        raise HeatproofError("name at least one run of focus.")
    opened = [Run(run.folder if isinstance(run, Results) else run) for run in runs]
    named = set()
    for run in opened:
        require_focus(run)
        if run.folder.resolve() in named:
            raise HeatproofError(f"{run.folder} is named twice; one network is one row.")
        named.add(run.folder.resolve())
    notes: list[str] = []
    networks: list[Network] = []
    for run in opened:
        networks = with_run(networks, read_network(run, notes, progress))
    networks = named_apart(networks)
    table = pl.DataFrame([row for network in networks for row in rows_of(network)], infer_schema_length=None)
    published = paper_table()
    correlation = correlations(table, published)
    if correlation["networks"].max() is None:
        notes.append(f"Fewer than {LEAST} networks have an accuracy, so there is no correlation of Focus with it.")
    made = FocusTable(table, correlation, notes, Path(out))
    write_whole(made.folder / "table.csv", csv_writer(table))
    write_text(made.folder / "table.md", markdown(made))
    write_whole(made.folder / "correlation.csv", csv_writer(correlation))
    write_text(made.folder / "accuracy.svg", plot(table, published, correlation))
    return made


def read_network(run: Run, notes: list[str], progress: Progress) -> Network:
    """What a run says; why there is no accuracy, if there is none, goes to `notes`."""
    name = first_model(run)
    lines = run.leaderboard().filter(model=name, metric="focus", pooling="paper", subset="all")
    families = {(entry["explainer"], entry["target"]): entry["family"] for entry in run.manifest["explainers"]}
    options = run.manifest["options"]
    paper_row = options.get("paper_row") or ""
    spread = {
        row["explainer"]: row["reference_std"] for row in read_reference("focus").filter(row=paper_row).to_dicts()
    }
    methods = {}
    for line in lines.iter_rows(named=True):
        if families.get((line["explainer"], line["target"]), "floor") not in NO_METHODS:
            published = line["reference"]
            methods[method_name(line["explainer"], line["target"])] = {
                **{key: line[key] for key in ("explainer", "target", "n", "mean", "std")},
                "paper_mean": published,
                "paper_std": None if published is None else spread.get(line["explainer"].partition(":")[0]),
            }
    if not methods:
        raise HeatproofError(f"{run.folder} has scores of floors and ceilings alone; run it with explainers.")
    place = options.get("images") or options.get("mosaics")
    pictures = "shipped" if place is None else Path(place).stem
    shown = tuple(run.manifest["configuration"].get(key) for key in ("tile", "fit"))
    return Network(
        run.folder.name,
        name,
        pictures,
        (run.manifest["models"][name], place, *shown),
        paper_row,
        accuracy_of(run, notes, progress),
        methods,
    )


def method_name(explainer: str, target: str) -> str:
    """What a column is called: which layer is read is the network's matter, what is explained stands behind."""
    plain = re.sub(r"(?<=[:,])layer=[^,]*,?", "", explainer).rstrip(":,")
    return plain if target in ("", "logit") else f"{plain} ({target})"


def accuracy_of(run: Run, notes: list[str], progress: Progress) -> float | None:
    """Mean accuracy per class on single pictures: as the run has it, or found out now."""
    if ACCURACY in run.story.figures:
        return run.story.figures[ACCURACY]
    try:
        return looked_up(run, progress)
    except HeatproofError as problem:
        notes.append(f"{run.folder} has no accuracy: {problem}")
        return None


def looked_up(run: Run, progress: Progress) -> float:
    """The accuracy of the network of a run that does not have it."""
    recipe = recipe_of(run)
    if is_object(recipe.model):
        raise HeatproofError("its model was given as a Python object. Run it again.")
    opened = recipe.rehearse(run.manifest["configuration"]["seed"], progress)
    seen, name = opened.seen, first_model(run)
    if opened.models.get(name) != run.manifest["models"][name]:
        raise HeatproofError("the model has changed since the run.")
    if check_files(seen.drawn, seen.side, seen.fit, progress) != run.manifest["cases"]:
        raise HeatproofError("the pictures have changed since the run.")
    alone = accuracy_alone(seen.classifier, seen.outputs, seen.drawn, seen.sizes, seen.fit, progress)
    if alone is None:
        raise HeatproofError("its pictures are too small for the network, one by one.")
    return alone.mean_class_accuracy


def with_run(networks: Sequence[Network], new: Network) -> list[Network]:
    """The rows with a further run: in the row of the same network, if that has none of its methods, or in its own."""
    for place, row in enumerate(networks):
        if row.is_same == new.is_same and row.paper_row == new.paper_row and not set(row.methods) & set(new.methods):
            joined = replace(row, run=f"{row.run}, {new.run}", methods={**row.methods, **new.methods})
            return [*networks[:place], joined, *networks[place + 1 :]]
    return [*networks, new]


def named_apart(networks: Iterable[Network]) -> list[Network]:
    """Runs whose folders have one name get a number behind."""
    found: dict[str, Network] = {}
    for network in networks:
        name, again = network.run, 1
        while name in found:
            again += 1
            name = f"{network.run} ({again})"
        found[name] = replace(network, run=name)
    return list(found.values())


def rows_of(network: Network) -> list[dict[str, Any]]:
    accuracies = dict(read_reference("focus_accuracy").iter_rows())
    about = {"run": network.run, "network": network.network, "pictures": network.pictures}
    further = {
        "accuracy": network.accuracy,
        "paper_row": network.paper_row,
        "paper_accuracy": accuracies.get(network.paper_row),
    }
    return [about | {"method": method} | dict(line) | further for method, line in network.methods.items()]


def paper_table() -> pl.DataFrame:
    """Table 1: row, explainer, mean Focus and accuracy."""
    numbers = read_reference("focus").select("row", "explainer", mean="reference")
    return numbers.join(read_reference("focus_accuracy"), on="row", maintain_order="left")


def correlations(table: pl.DataFrame, published: pl.DataFrame) -> pl.DataFrame:
    """Pearson's and Spearman's correlation of mean Focus with accuracy, by method; then that of the paper's table."""
    lines = []
    for (method,), rows in table.group_by("method", maintain_order=True):
        name = rows["explainer"][0].partition(":")[0]
        theirs = published.filter(explainer=name)
        found = {"method": method, **correlated(rows, "")}
        lines.append(found | correlated(theirs, "paper_"))
    return pl.DataFrame(lines, infer_schema_length=None)


def correlated(rows: pl.DataFrame, prefix: str) -> dict[str, float | int | None]:
    """Over the rows that have both numbers; None where there are too few, or where one does not vary."""
    both = rows.select("accuracy", "mean").cast(pl.Float64).drop_nulls().drop_nans().to_numpy()
    names = ("networks", "pearson", "pearson_low", "pearson_high", "spearman")
    if len(both) < LEAST or min(np.ptp(both, axis=0)) == 0:
        return {prefix + name: None for name in names}
    from scipy.stats import pearsonr, spearmanr

    straight, ranks = pearsonr(*both.T), spearmanr(*both.T)
    low, high = straight.confidence_interval(0.95) if len(both) > LEAST else (None, None)  # Fisher's, from four on
    values = (len(both), straight.statistic, low, high, ranks.statistic)
    return {prefix + name: found for name, found in zip(names, values, strict=True)}


def plot(table: pl.DataFrame, published: pl.DataFrame, correlation: pl.DataFrame) -> str:
    """Mean Focus over accuracy: a dot per network and method, and hollow ones for the paper's networks."""
    groups = []
    for line in correlation.iter_rows(named=True):
        rows = table.filter(method=line["method"]).drop_nulls("accuracy")
        theirs = published.filter(explainer=table.filter(method=line["method"])["explainer"][0].partition(":")[0])
        said = "" if line["pearson"] is None else f"r = {line['pearson']:.2f}, n = {line['networks']}"
        paper = (
            "" if line["paper_pearson"] is None else f"r = {line['paper_pearson']:.2f}, n = {line['paper_networks']}"
        )
        groups.append(
            Dots(
                line["method"],
                [(row["accuracy"], row["mean"], row["network"]) for row in rows.iter_rows(named=True)],
                [(row["accuracy"], row["mean"], row["row"]) for row in theirs.iter_rows(named=True)],
                [words for words in (said and f"here {said}", paper and f"paper {paper}") if words],
            )
        )
    return scatter("Mean Focus by accuracy of the network on single pictures", "mean accuracy per class", groups)


def markdown(made: FocusTable) -> str:
    """The table, the correlations and the notes."""
    heads, *lines = made.lines()
    align = ["---"] * 2 + ["---:"] * (len(heads) - 2)
    rows = ["| " + " | ".join(map(markdown_text, line)) + " |" for line in (heads, align, *lines)]
    told = [
        f"- {markdown_code(line['method'])}: {correlation_words(line, '')};"
        f" the paper's table {correlation_words(line, 'paper_')}"
        for line in made.correlation.iter_rows(named=True)
    ]
    parts = [
        "Mean Focus (standard deviation) under the paper's pooling; mean accuracy per class on single pictures.",
        "\n".join(rows),
        "Correlation of mean Focus with accuracy over networks (Pearson; Spearman):",
        "\n".join(told),
        *map(markdown_text, made.notes),
    ]
    return "\n\n".join(parts) + "\n"


def correlation_words(line: Mapping[str, Any], prefix: str) -> str:
    if line[f"{prefix}pearson"] is None:
        return "too few networks" if not prefix else "has none"
    low, high = line[f"{prefix}pearson_low"], line[f"{prefix}pearson_high"]
    span = "" if low is None else f" ({low:.2f} to {high:.2f})"
    said = f"{line[f'{prefix}pearson']:.2f}{span}; {line[f'{prefix}spearman']:.2f}"
    return f"{said}, {line[f'{prefix}networks']} networks"
