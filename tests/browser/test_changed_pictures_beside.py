"""A case of clevr-removal in a real browser: beside its heatmaps stand the pictures without each object."""

from __future__ import annotations

from base64 import b64decode
from io import BytesIO

import numpy as np
import pytest
from PIL import Image

import heatproof
from heatproof.benchmarks.clevr_removal import ClevrRemoval
from heatproof.clevr import open_dataset
from heatproof.clevr.changed_pictures import folder_of, read_changed, wanted_of
from removal_world import small_world


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> heatproof.Run:
    folder = tmp_path_factory.mktemp("run")
    recipe = ClevrRemoval(dataset=str(small_world(folder / "world", 1)), poolings=["l1_norm"])
    return heatproof.run(recipe, explainers=["gradient", "random"], out=folder / "r")


def test_an_opened_case_shows_its_picture_without_each_object(browser, run):
    """Reference: the files that were rendered, and the story's words, the largest effect first."""
    case, (first, *others) = next(iter(run.story.companions.items()))
    browser.get("about:blank")
    browser.get_log("browser")
    browser.get((run.folder / "report.html").as_uri() + f"#r1.case={case}")
    assert browser.execute_script("return document.querySelector('.case-dialog').open")
    shown = browser.execute_script(
        "return [...document.querySelectorAll('.case-dialog .case-beside figure')].map(e => { const i ="
        " e.querySelector('img'); return [e.textContent.trim(), i.src, i.complete, i.naturalWidth, i.clientWidth > 60,"
        " e.getClientRects().length > 0] })"
    )
    assert [text for text, *_ in shown] == [first[0], *(text for text, _ in others)]
    assert all(rest == [True, 128, True, True] for _, _, *rest in shown)
    assert first[0].startswith("as it is: ")
    assert all(text.startswith("without ") for text, _ in others)

    data = open_dataset(run.folder.parent / "world")
    (scene,) = data.scenes.values()
    whole, *without = (read_changed(folder_of(data), wanted) for wanted in wanted_of([scene]))
    names = [" ".join(thing[name] for name in ("size", "color", "material", "shape")) for thing in scene["objects"]]
    expected = {"as it is": whole} | {f"without {name}": one for name, one in zip(names, without, strict=True)}
    assert len(expected) == len(shown) == 5
    for text, address, *_ in shown:
        drawn = np.asarray(Image.open(BytesIO(b64decode(address.partition(",")[2]))).convert("RGB"), dtype=float)
        off = {what: np.abs(drawn - picture).mean() for what, picture in expected.items()}
        assert min(off, key=off.__getitem__) == text.partition(":")[0], "and not the picture of another object"
    assert [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"] == []
