"""Files whose bytes have changed are never used in silence: each kind of file of a data set, flipped byte by byte."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from heatproof.clevr import open_dataset
from heatproof.clevr.damage import DatasetError
from heatproof.clevr.ground_truth import make_masks
from heatproof.clevr.mask_files import RELEASE_CHECKSUMS, release_name
from heatproof.clevr.shipped import shipped_dataset
from heatproof.errors import HeatproofError
from tiny_datasets import edit_json, flip, write_world

NAME = "CLEVR_new_000001.png"


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    """A data set with masks in both layouts."""
    world = write_world(tmp_path_factory.mktemp("made") / "w")
    for layout in ("packed", "release"):
        make_masks(open_dataset(world), (16, 24), layout=layout)
    return world


@pytest.fixture
def packed(made, tmp_path) -> Path:
    """A copy with packed masks only."""
    return Path(shutil.copytree(made, tmp_path / "w", ignore=shutil.ignore_patterns("ground_truth_*")))


@pytest.fixture
def released(made, tmp_path) -> Path:
    """A copy with masks of the release layout only."""
    return Path(shutil.copytree(made, tmp_path / "w", ignore=shutil.ignore_patterns("ground_truth")))


def test_the_shipped_masks_with_400_bytes_flipped(tmp_path):
    world = shutil.copytree(shipped_dataset(), tmp_path / "w")
    flip(world / "ground_truth" / "simple_single_object.npy", range(1000, 1400))
    dataset = open_dataset(world)
    with pytest.raises(
        DatasetError, match=r"simple_single_object\.npy: the mask of question 0 is damaged.*ground-truth"
    ):
        dataset.questions("simple")[0].mask("single_object")
    assert dataset.questions("simple")[5].mask("single_object").any()  # its row is whole
    with pytest.raises(
        DatasetError, match=r"1 problem:\n  ground_truth/simple_single_object\.npy: the mask of question 0"
    ):
        dataset.check()
    with pytest.raises(DatasetError, match="the mask of question 0 is damaged"):
        make_masks(open_dataset(world))


@given(st.data())
def test_any_bit_of_a_packed_mask(made, data):
    """Also where as many pixels come as go, which the count of pixels does not show."""
    masks = open_dataset(made).masks("complex", "union")
    row = data.draw(st.integers(0, len(masks) - 1))
    rows = np.array(masks.rows)
    for _ in range(data.draw(st.integers(1, 2))):
        rows[row, data.draw(st.integers(0, rows.shape[1] - 1))] ^= 1 << data.draw(st.integers(0, 7))
    changed = type(masks)(**{**vars_of(masks), "rows": rows})
    question = int(masks.question_index[row])
    if (rows == masks.rows).all():
        assert list(changed.problems()) == []
    else:
        (problem,) = changed.problems()
        assert f"complex_union.npy: the mask of question {question} is damaged" in problem
        with pytest.raises(DatasetError, match=f"question {question} is damaged"):
            changed.batch([question])


def vars_of(masks) -> dict[str, object]:
    return {name: getattr(masks, name) for name in masks.__dataclass_fields__}


def test_masks_of_before_there_were_checksums_are_compared_with_their_pixels(packed):
    edit_json(packed / "ground_truth" / "simple_all_objects.json", lambda header: header.pop("checksums"))
    open_dataset(packed).check()
    flip(packed / "ground_truth" / "simple_all_objects.npy", [-1])
    with pytest.raises(DatasetError, match=r"simple_all_objects\.npy: the mask of question 19 is damaged"):
        open_dataset(packed).questions("simple")[19].mask("all_objects")


@pytest.mark.parametrize("column", ["question_index", "objects", "pixels", "checksums"])
def test_a_changed_number_beside_packed_masks(packed, column):
    def change(header):
        header[column][4] = 77

    edit_json(packed / "ground_truth" / "simple_all_objects.json", change)
    with pytest.raises(DatasetError, match=r"simple_all_objects\.npy: the mask of question (4|77) is damaged"):
        open_dataset(packed).check()


@pytest.mark.parametrize(
    "change",
    [
        lambda rows: rows.astype(np.int8),
        lambda rows: rows[:-1],
        lambda rows: rows[:, :-1],
        lambda rows: rows.astype(np.uint16),
        lambda rows: rows.reshape(-1),
    ],
)
def test_packed_masks_of_another_type_or_shape(packed, change):
    path = packed / "ground_truth" / "simple_all_objects.npy"
    np.save(path, change(np.load(path)))
    with pytest.raises(HeatproofError, match=r"simple_all_objects\.npy is missing or damaged"):
        open_dataset(packed).masks("simple", "all_objects")
    with pytest.raises(DatasetError, match=r"simple_all_objects\.npy is missing or damaged"):
        open_dataset(packed).check()


def test_every_byte_of_what_stands_before_the_masks(packed):
    """The first 128 bytes of a .npy file say its type and shape; some of them are blanks."""
    path = packed / "ground_truth" / "simple_all_objects.npy"
    good, expected = path.read_bytes(), open_dataset(packed).masks("simple", "all_objects").batch([3, 8])
    for place in range(128):
        flip(path, [place])
        found = outcome(lambda: open_dataset(packed).masks("simple", "all_objects").batch([3, 8]))
        assert "simple_all_objects.npy" in found if isinstance(found, str) else (found == expected).all()
        path.write_bytes(good)


def test_a_mask_of_the_release_layout(released):
    folder = released / release_name("simple", "all_objects")
    flip(folder / "7.npy", [-1])
    mask = np.load(folder / "6.npy")
    mask[0, 0] ^= True
    np.save(folder / "6.npy", mask)  # sound in itself, but another mask
    dataset = open_dataset(released)
    for question in (6, 7):
        with pytest.raises(HeatproofError, match=rf"{question}\.npy: the mask of question {question} is damaged"):
            dataset.masks("simple", "all_objects").batch([question])
    with pytest.raises(DatasetError) as caught:
        dataset.check()
    assert [problem.partition(":")[0] for problem in caught.value.problems] == [
        f"{folder.name}/{i}.npy" for i in (6, 7)
    ]


def test_masks_as_clevr_xai_released_them(released):
    """They come without checksums: bytes that are no booleans, other types, cut and missing files are seen."""
    folder = released / release_name("simple", "all_objects")
    for kind in released.glob("ground_truth_*"):
        (kind / RELEASE_CHECKSUMS).unlink()
        (kind / "heatproof.json").unlink()
    open_dataset(released).check()
    flip(folder / "2.npy", [-1])
    np.save(folder / "3.npy", np.load(folder / "3.npy").astype(np.uint8))
    (folder / "4.npy").write_bytes((folder / "4.npy").read_bytes()[:-9])
    np.save(folder / "5.npy", np.load(folder / "5.npy")[1:])
    with pytest.raises(DatasetError) as caught:
        open_dataset(released).check()
    said = ["is damaged", "holds uint8", "is missing or damaged", "is 24x15, another mask"]
    for index, problem, words in zip(range(2, 6), caught.value.problems, said, strict=True):
        assert f"{folder.name}/{index}.npy" in problem
        assert words in problem
    (folder / "9.npy").unlink()
    with pytest.raises(DatasetError, match=r"9\.npy: missing, but stats\.json tells of its objects"):
        open_dataset(released).masks("simple", "all_objects").batch([1])


@pytest.mark.parametrize("folder", ["objects", "masks", "images"])
def test_every_byte_of_a_picture(made, tmp_path, folder):
    """Each chunk of a PNG has a checksum, and there is nothing between chunks."""
    world = shutil.copytree(made, tmp_path / "w", ignore=shutil.ignore_patterns("ground_truth*"))
    if folder == "masks":
        shutil.rmtree(world / "objects")
    dataset = open_dataset(world)
    scene, path = dataset.scenes[NAME], world / folder / NAME
    read = dataset.picture if folder == "images" else dataset.object_ids
    good = path.read_bytes()
    for place in range(len(good)):
        flip(path, [place])
        with pytest.raises(HeatproofError, match=rf"{NAME}: (damaged|truncated or no picture) \("):
            read(scene)
        path.write_bytes(good)
    flip(path, [len(good) // 2])
    with pytest.raises(DatasetError, match=rf"1 problem:\n  {folder}/{NAME}: damaged"):
        open_dataset(world).check()


@given(st.data())
def test_a_byte_of_the_questions(made, data):
    """An error names the file, or says that the masks are of other questions; else what is read is what was there."""
    path = made / "CLEVR-XAI_simple_questions.json"
    good, expected = path.read_bytes(), questions_with_masks(made)
    flip(path, [data.draw(st.integers(0, len(good) - 1))], data.draw(st.integers(1, 255)))
    found = outcome(lambda: questions_with_masks(made))
    path.write_bytes(good)
    assert isinstance(found, list) or path.name in found or "made for other simple questions" in found
    assert isinstance(found, str) or found == expected


def questions_with_masks(world: Path) -> list[object]:
    dataset = open_dataset(world)
    dataset.masks("simple", "single_object")
    return [question.record for question in dataset.questions("simple")]


def outcome(call: Callable[[], Any]) -> Any:
    """What the call gives, or what its error says."""
    try:
        return call()
    except HeatproofError as problem:
        return str(problem)
