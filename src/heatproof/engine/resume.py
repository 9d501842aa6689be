"""A folder that holds a run already: may this run go on with it?

Its settings must be the same. Then what is stored must prove that it would come out the same today: the models' logits
on a few cases, and one case of every explainer, are computed again and compared, rounding allowed. What differs is
computed anew, and the run says so.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from heatproof.benchmarks.base import Opened
from heatproof.engine.plan import Unit
from heatproof.engine.sources import AXES, Explaining, Source
from heatproof.errors import HeatproofError
from heatproof.explainers.guards import untouched
from heatproof.lazy import np, pl, torch
from heatproof.progress import Progress
from heatproof.run_folder import LEDGER, MANIFEST, RunFolder
from heatproof.seals import DamagedError

PROBED = 4
"""Cases whose logits are stored."""
SAME_LOGITS = 1e-3
"""How far logits may be apart, relative to the largest, to be the same under rounding on another processor."""
SAME_SCORE = 1e-3
COMPARED = 3
"""Cases that are looked at where the first differs: a tie may turn the other way by rounding, but not most of them."""


def probe(source: Explaining) -> dict[str, Any]:
    """The logits of each model for its first cases, on the run's device."""
    found = {}
    for chunk in first_chunks(source.opened):
        batch = source.placement.batch(source.loaded(chunk)[:PROBED])
        model = source.model(chunk.model)
        with torch.no_grad(), untouched(model):
            logits = model(batch.inputs, *batch.context)
        found[chunk.model] = {"cases": list(batch.ids), "logits": logits.cpu().double().tolist()}
    return found


def first_chunks(opened: Opened) -> Iterator[Any]:
    """The first chunk of each model."""
    seen: set[str] = set()
    for chunk in opened.chunks(PROBED):
        if chunk.model not in seen:
            seen.add(chunk.model)
            yield chunk


def go_on(folder: RunFolder, manifest: dict[str, Any], source: Source, progress: Progress) -> dict[str, Any]:
    """The manifest to go on with, once the folder is seen to hold the same run and what differs is forgotten."""
    try:
        old = folder.manifest() if folder.has_run else None
    except DamagedError:
        old = None
    if old is None:
        return made_anew(folder, manifest, source, progress)
    differing = differences(identity(old), identity(manifest))
    if differing:
        raise HeatproofError(
            f"{folder.folder} holds a run of another configuration:\n  "
            + "\n  ".join(differing)
            + "\nGive this run another folder with --out, or redo that one with --no-resume."
        )
    said = []
    for model in changed_models(old["probe"], manifest["probe"]):
        folder.forget((entry["folder"] for entry in old["explainers"]), model)
        said.append(f"model {model} answers otherwise than when this run began, so its scores are computed anew.")
    folder.forget(changed_code(old["explainers"], manifest["explainers"]))
    said += forget_changed(folder, source, progress)
    explainers = {entry["folder"]: entry for entry in [*old["explainers"], *manifest["explainers"]]}
    return {
        **manifest,
        "created": old["created"],
        "explainers": list(explainers.values()),
        "machines": {**old["machines"], **manifest["machines"]},
        "said": [*old["said"], *said],
    }


def made_anew(folder: RunFolder, manifest: dict[str, Any], source: Source, progress: Progress) -> dict[str, Any]:
    """The manifest to go on with where run.json is lost: parts.jsonl must say that the parts are of the same run."""
    if folder.identity != identity_hash(manifest):
        raise HeatproofError(
            f"{folder.path(MANIFEST)} is lost or damaged, and {LEDGER} does not say that what lies beside it belongs to"
            " this run. Give the options that it was made with, or another folder with --out, or compute it anew with"
            " --no-resume."
        )
    said = f"{MANIFEST} was lost or damaged, and is made anew; explainers that are not named now are no longer in it."
    return {**manifest, "said": [said, *forget_changed(folder, source, progress)]}


def forget_changed(folder: RunFolder, source: Source, progress: Progress) -> list[str]:
    """Remove what does not come out again, and say so."""
    said = []
    for name in changed_scores(folder, source, progress):
        folder.forget([name])
        said.append(f"{name} gives other scores than are stored, so they are computed anew.")
    return said


def remove_damaged_sections(folder: RunFolder) -> list[str]:
    """Remove sections that are not as they were written, for a run cannot make them anew, and say so."""
    said = []
    for path in folder.sections():
        name = path.parent.name
        if not all(map(folder.is_as_written, {path, *folder.section_files(name)})):
            shutil.rmtree(path.parent, ignore_errors=True)
            folder.enter_section(name)
            said.append(f"sections/{name} was damaged and is removed; give the command again that made it.")
    return said


def identity_hash(manifest: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(identity(manifest), sort_keys=True, default=str).encode()).hexdigest()


def identity(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """What two runs must agree in to be one."""
    return {**manifest["configuration"], "cases": manifest["cases"], "models": manifest["models"]}


def differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """One line per setting that differs."""
    new = json.loads(json.dumps(new, default=str))
    return [
        f"{name}: {old.get(name)!r} there, {new.get(name)!r} now"
        for name in sorted({*old, *new})
        if old.get(name) != new.get(name)
    ]


def changed_models(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """The models whose logits differ by more than rounding."""
    return [name for name in new if name in old and not same_logits(old[name], new[name])]


def same_logits(old: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
    before, now = np.asarray(old["logits"]), np.asarray(new["logits"])
    if old["cases"] != new["cases"] or before.shape != now.shape:
        return False
    return bool(np.abs(before - now).max() <= SAME_LOGITS * max(1.0, float(np.abs(before).max())))


def changed_code(old: Iterable[Mapping[str, Any]], new: Iterable[Mapping[str, Any]]) -> list[str]:
    """The folders of explainers whose code is not that of the stored parts, or cannot be told to be."""
    sources = {entry["folder"]: entry.get("source") for entry in old}
    return [
        entry["folder"]
        for entry in new
        if entry["folder"] in sources and (sources[entry["folder"]] != entry["source"] or entry["source"] == "unknown")
    ]


def changed_scores(folder: RunFolder, source: Source, progress: Progress) -> list[str]:
    """The folders of explainers whose stored scores do not come out again."""
    if not isinstance(source, Explaining):
        return []
    stored: dict[str, Unit] = {}
    for unit in source.units():
        if unit.folder not in stored and folder.part(unit.folder, unit.chunk).is_file():
            stored[unit.folder] = unit
    found = []
    for place, (name, unit) in enumerate(stored.items()):
        progress("checking what is stored", place, len(stored))
        if folder.has(name, unit.chunk) and not comes_out_again(folder, source, unit):
            found.append(name)
    if stored:
        progress("checking what is stored", len(stored), len(stored))
    return found


def comes_out_again(folder: RunFolder, source: Source, unit: Unit) -> bool:
    """Whether the scores of a unit's first case are those that are stored; if not, most of its next cases decide."""
    rows = folder.read_part(folder.part(unit.folder, unit.chunk))
    verdicts: list[bool] = []
    for place in range(COMPARED):
        try:
            again = source.again(unit, place)
        except Exception:
            return False  # it fails now; the unit will say why
        if again is None:
            break
        verdicts.append(same_scores(rows, again))
        if verdicts[0]:
            return True
    return 2 * sum(verdicts) > len(verdicts)


def same_scores(stored: pl.DataFrame, again: pl.DataFrame) -> bool:
    pairs = again.join(stored, on=["case", *AXES], how="left")
    gaps = (pairs["value"] - pairs["value_right"]).abs()
    both_undefined = pairs["value"].is_nan() & pairs["value_right"].is_nan()
    return bool(((gaps <= SAME_SCORE) | both_undefined).fill_null(False).all())
