"""What it costs to store parts and to make tables and page: tried with stand-ins, in a temporary folder."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

from heatproof.cases import Chunk
from heatproof.engine.finish import finish
from heatproof.engine.manifest import make_manifest
from heatproof.engine.plan import Task, Unit
from heatproof.engine.sources import Explaining, Result, labelled
from heatproof.explainers.spec import make_explainer
from heatproof.lazy import pl
from heatproof.progress import silent
from heatproof.run_folder import RunFolder

STAND_IN = "input_magnitude"
"""Costs nothing, and works on any inputs."""
FEW, MANY = 5 * 10**4, 2 * 10**5
"""Score rows that tables are made of, first and then."""
LOOKED = 2.0
"""CPU seconds for the scores of stand-ins."""
LONG = 10.0
"""CPU seconds of tables and page of few rows that are long enough to go by."""
GATHERED = 18
"""Bytes of a score while tables are made."""


@dataclass(frozen=True, eq=False)
class Closing:
    """What a run is closed with: what stands in run.json, and `page(folder, leaderboard)`."""

    name: str
    seed: int
    options: Mapping[str, Any]
    page: Callable[[RunFolder, pl.DataFrame], object]


@dataclass(frozen=True)
class ClosingCost:
    """CPU seconds, and memory in bytes beyond what it took to try."""

    seconds: float
    memory: int


Scored = tuple[Chunk, Result]


def closing_cost(source: Explaining, units: Sequence[Unit], closing: Closing) -> ClosingCost:
    """Try with few cases, then with as many as need not long, and draw the line."""
    lines = list({unit.folder: unit for unit in units}.values())
    chunks, scored = source.opened.chunks(), stand_ins(source)
    few = up_to(FEW // len(lines), scored)
    seconds = close(source, lines, few, closing)
    total = sum(chunk.cases for chunk in chunks)
    if len(few) < len(chunks):
        warm = close(source, lines, few, closing)
        per_case = warm / cases_of(few)
        many = up_to(MANY // len(lines), scored if len(scored) == len(chunks) else repeated(scored))
        if cases_of(many) > cases_of(few) and warm < LONG:
            more = close(source, lines, many, closing)
            per_case = max(0.0, more - warm) / (cases_of(many) - cases_of(few))
        seconds += per_case * (total - cases_of(few))
    per_case = sum(len(result.rows) for _, result in scored) / cases_of(scored)
    return ClosingCost(seconds, int(GATHERED * len(lines) * per_case * (total - cases_of(scored))))


def stand_ins(source: Explaining) -> list[Scored]:
    """The scores of an explainer that costs nothing, for as many chunks as time allows."""
    cheap = replace(source, explainers=[make_explainer(STAND_IN)])
    (folder,) = cheap.by_folder
    found: list[Scored] = []
    start = time.process_time()
    for chunk in source.opened.chunks():
        (result,) = cheap.together(Task((Unit(folder, STAND_IN, "", chunk),)))
        assert isinstance(result, Result)
        found.append((chunk, result))
        if time.process_time() - start > LOOKED:
            break
    return found


def up_to(most: int, scored: Iterable[Scored]) -> list[Scored]:
    """The first, and further ones up to so many rows."""
    found, rows = list[Scored](), 0
    for chunk, result in scored:
        rows += len(result.rows)
        if found and rows > most:
            break
        found.append((chunk, result))
    return found


def repeated(scored: Sequence[Scored]) -> Iterator[Scored]:
    """The same over and over, as other cases."""
    yield from scored
    for again in count(1):
        for chunk, result in scored:
            rows = result.rows.with_columns(pl.col("case") + f" again {again}")
            yield replace(chunk, name=f"{chunk.name}-again-{again}"), replace(result, rows=rows)


def cases_of(scored: Sequence[Scored]) -> int:
    return sum(chunk.cases for chunk, _ in scored)


def close(source: Explaining, lines: Sequence[Unit], scored: Sequence[Scored], closing: Closing) -> float:
    """CPU seconds to store these scores for every line, and to make tables and page of them."""
    with tempfile.TemporaryDirectory(prefix="heatproof-dry-run-") as place:
        start = time.process_time()
        folder = RunFolder(place)
        manifest = make_manifest(source, closing.name, closing.seed, closing.options, {})
        folder.write_manifest(manifest)
        for unit in lines:
            for chunk, result in scored:
                rows = labelled(result.rows, replace(unit, chunk=chunk))
                folder.write_part(unit.folder, chunk, rows, result.heatmaps, "")
        closing.page(folder, finish(folder, source, manifest, silent))
        return time.process_time() - start
