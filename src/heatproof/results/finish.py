"""From parts to tables and the page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from heatproof.benchmarks.base import Benchmark
from heatproof.engine.store import LEADERBOARD, STATISTICS, SUMMARY, Store
from heatproof.errors import HeatproofError
from heatproof.lazy import np, pl, torch
from heatproof.progress import Progress
from heatproof.results.columns import gather
from heatproof.results.leaderboard import AXES, COLUMNS, FURTHER, leaderboard
from heatproof.results.run import Run
from heatproof.results.tables import markdown
from heatproof.workspace import write_whole


def finish_run(benchmark: Benchmark, store: Store, seed: int, progress: Progress) -> Run:
    """Score what needs whole data sets, and write leaderboard.csv, leaderboard.md and report.html."""
    run = Run(store.folder)
    parts = store.scores(entry["folder"] for entry in run.manifest["explainers"])
    if not parts.paths:
        reasons = sorted({f"{failure['explainer']}: {failure['message']}" for failure in store.failures()})
        raise HeatproofError("every explainer failed, so there is no table.\n  " + "\n  ".join(reasons))
    steps = 4
    progress("scoring: whole data set", 0, steps)
    summary = benchmark.summarise(parts)
    write_whole(store.folder / SUMMARY, summary.write_parquet)
    progress("scoring: intervals", 1, steps)
    scores = run.score_rows()
    table = leaderboard(
        gather(scores, benchmark.metrics, benchmark.subsets()),
        benchmark=benchmark.name,
        dataset=benchmark.dataset,
        metrics=benchmark.metrics,
        reference=labelled(benchmark.reference(), run.manifest["explainers"]),
        seed=seed,
    )
    write_whole(store.folder / LEADERBOARD, table.select(*COLUMNS).write_csv)
    write_whole(store.folder / STATISTICS, table.select(*AXES, "n", *FURTHER).write_csv)
    run.manifest["notes"] = benchmark.notes(scores, table)
    store.write_json(store.manifest_path, run.manifest)
    text = markdown(run)
    write_whole(store.folder / "leaderboard.md", lambda path: path.write_text(text, encoding="utf-8"))
    progress("scoring: page", 2, steps)
    write_examples(benchmark, store)
    run.report()
    progress("scoring: done", steps, steps)
    return run


def labelled(reference: pl.DataFrame, explainers: Sequence[Mapping[str, Any]]) -> pl.DataFrame:
    """The paper's numbers by label: for the explainers of a name that are ours, whatever their parameters."""
    own = [entry for entry in explainers if entry["source"] is not None]
    names = {entry["explainer"]: entry["name"] for entry in explainers if entry["source"] is None}
    taken = {entry["explainer"] for entry in own}
    names |= {name: name for name in reference["explainer"].unique() if name not in taken | set(names.values())}
    labels = pl.DataFrame({"label": list(names), "explainer": list(names.values())})
    return reference.join(labels, on="explainer").drop("explainer").rename({"label": "explainer"})


def write_examples(benchmark: Benchmark, store: Store) -> None:
    """Keep the inputs and masks of the page's examples beside their heatmaps."""
    wanted = benchmark.examples()
    if not wanted:
        return
    ids: list[str] = []
    inputs: list[torch.Tensor] = []
    masks: dict[str, list[torch.Tensor]] = {}
    for chunk in benchmark.chunks_with(wanted):
        batch = benchmark.load(chunk)
        for i, case in enumerate(batch.ids):
            if case in wanted and case not in ids:
                ids.append(case)
                inputs.append(batch.inputs[i])
                for name, mask in batch.masks.items():
                    masks.setdefault(name, []).append(mask[i])
    if ids:
        arrays = {"ids": np.asarray(ids), "inputs": benchmark.as_pictures(torch.stack(inputs)).numpy()}
        titles = [benchmark.case_title(case) for case in ids]
        arrays |= {"titles": np.asarray(titles)} if any(titles) else {}
        arrays |= {f"mask.{name}": torch.stack(found).numpy() for name, found in masks.items()}
        store.write_examples(arrays)
