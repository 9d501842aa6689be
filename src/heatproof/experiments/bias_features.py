"""What a network itself makes of single pictures: its features, to see what sets those apart that draw relevance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from heatproof.engine.manifest import is_object
from heatproof.errors import HeatproofError
from heatproof.experiments.worst import recipe_of
from heatproof.lazy import np, torch
from heatproof.mosaics.pictures import tile
from heatproof.progress import Progress

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from heatproof.results.run import Results

BATCH = 16


def features_of(
    run: Results, files: Sequence[str], progress: Progress, model: Any = None
) -> dict[str, NDArray[np.float32]]:
    """Each picture alone as the run's network sees it: its last maps, averaged over places.

    `model` is the network of a run that was given one as a Python object. An error says why there are none.
    """
    from heatproof.explainers.guards import untouched
    from heatproof.models.one_cell import last_layer

    recipe = recipe_of(run)
    if model is not None:
        recipe = replace(recipe, model=model)
    elif is_object(recipe.model):
        raise HeatproofError("the model was given as a Python object; give it again (model=...).")
    opened = recipe.rehearse(run.manifest["configuration"]["seed"], progress)
    if dict(opened.models) != dict(run.manifest["models"]):
        raise HeatproofError("the model has changed since the run.")
    classifier, side, fit = opened.seen.classifier, opened.seen.sizes.alone, opened.seen.fit
    module, kept, seen = classifier.module, [], []

    def inputs(start: int) -> torch.Tensor:
        return classifier.inputs(np.stack([tile(Path(file), side, fit) for file in files[start : start + BATCH]]))

    layer = last_layer(classifier.name, module, inputs(0)[:2])
    handle = module.get_submodule(layer).register_forward_hook(lambda _module, _given, maps: seen.append(maps))
    try:
        with torch.no_grad(), untouched(module):
            for start in range(0, len(files), BATCH):
                progress("features of pictures", start, len(files))
                module(inputs(start))
                kept.append(seen.pop().flatten(2).mean(2).float().cpu().numpy())
                seen.clear()
    finally:
        handle.remove()
    progress("features of pictures", len(files), len(files))
    return dict(zip(files, np.concatenate(kept), strict=True))
