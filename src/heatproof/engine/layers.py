"""Which layer each explainer reads in each model of a run: it stands in run.json and on the page."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from heatproof.engine.plan import folder_name
from heatproof.engine.resume import first_chunks
from heatproof.engine.sources import Explaining
from heatproof.errors import HeatproofError
from heatproof.explainers.base import Explainer, ScoreExplainer

LayersRead = Mapping[str, Mapping[str, str]]
"""By the explainer's folder and the model's name."""


def layers_read(source: Explaining) -> LayersRead:
    """Seen on one case of each model. Explainers that read no layer, or fail at it, are left out."""
    reading = [explainer for explainer in source.explainers if reads_layers(explainer)]
    found: dict[str, dict[str, str]] = {}
    for chunk in first_chunks(source.opened) if reading else ():
        case = source.loaded(chunk)[:1]
        known: dict[Explainer, str] = {}
        for explainer in reading:
            # The same layer for all quantities.
            plain = replace(explainer, quantity="logit") if isinstance(explainer, ScoreExplainer) else explainer
            if plain not in known:
                batch = source.placement.batch(case, source.is_exact(explainer))
                try:
                    known[plain] = explainer.layer_read(source.form(chunk.model, explainer), batch)
                except HeatproofError:  # the explainer's units will say why
                    known[plain] = ""
            if known[plain]:
                found.setdefault(folder_name(explainer), {})[chunk.model] = known[plain]
    return found


def reads_layers(explainer: Explainer) -> bool:
    return type(explainer).layer_read is not Explainer.layer_read
