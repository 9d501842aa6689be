"""Data sets on disk: the three layouts are told apart, and what is damaged is named, file by file."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from PIL import Image

from heatproof.clevr import open_dataset
from heatproof.clevr.damage import DatasetError
from heatproof.clevr.ground_truth import make_masks
from heatproof.clevr.mask_files import count_pixels, pack, unpack
from heatproof.clevr.object_masks import decode_colours, read_flat_colours, read_ids
from heatproof.errors import HeatproofError
from tiny_datasets import draw, edit_json, flat_picture, linear, mask_colours, write_clevr, write_world

NAME = "CLEVR_new_000001.png"


def test_a_data_set_of_ours(tmp_path):
    world = write_world(tmp_path / "w")
    dataset = open_dataset(world)
    assert dataset.layout.name == "heatproof"
    assert dataset.sets == ("simple", "complex")
    assert len(dataset.scenes) == 4
    for question in dataset.questions("simple"):
        assert question.scene is dataset.scenes[question.record["image_filename"]]
        assert question.answer == question.program[-1]["_output"]
        assert question.picture().shape == (48, 72, 3)
        ids = dataset.object_ids(question.scene)
        assert int(ids.max()) == len(question.scene["objects"])
    assert dataset.questions("simple") is dataset.questions("simple")


def test_clevr_xai_as_released(tmp_path):
    dataset = open_dataset(write_world(tmp_path / "w", layout="clevr-xai", id_buffers=False))
    assert dataset.layout.name == "clevr-xai"
    assert dataset.sets == ("simple", "complex")
    assert dataset.object_folder.name == "masks"


def test_clevr_v1(tmp_path):
    clevr = write_clevr(tmp_path)
    dataset = open_dataset(clevr)
    assert dataset.layout.name == "clevr"
    assert set(dataset.sets) == {"train", "val", "test"}
    assert len(dataset.scenes) == 8
    for name in dataset.sets:
        question = dataset.questions(name)[0]
        assert question.picture().shape == (48, 72, 3)
        assert (question.scene is None) == (name == "test")
        assert (question.answer is None) == (name == "test")
    small = open_dataset(clevr, sets=["val"])
    assert (small.sets, len(small.scenes)) == (("val",), 4)
    with pytest.raises(HeatproofError, match="Did you mean 'val'"):
        open_dataset(clevr, sets=["vall"])
    with pytest.raises(HeatproofError, match="no simple or complex questions"):
        make_masks(dataset)


def test_flat_colours_and_id_buffers_say_the_same(tmp_path):
    """Two independent paths: the colours decoded, and the numbers they were painted from; with alpha and without."""
    world = write_world(tmp_path / "w")
    dataset = open_dataset(world)
    by_number = [dataset.object_ids(scene) for scene in dataset.scenes.values()]
    for path in (world / "objects").iterdir():
        path.unlink()
    flat = open_dataset(world)
    assert flat.object_folder.name == "masks"
    for scene, ids in zip(flat.scenes.values(), by_number, strict=True):
        np.testing.assert_array_equal(flat.object_ids(scene), ids)


@given(st.integers(0, 2**32), st.integers(1, 10))
def test_colours_are_decoded_through_rounding(seed, objects):
    """`mask_color` is exact while the picture holds 8 bits: up to half a step apart in each channel."""
    rng = random.Random(seed)
    colours = mask_colours(rng, objects)
    ids = draw(rng, objects, 24, 36, pixels=2)
    exact = np.array([linear([value + rng.uniform(-0.5, 0.5) for value in colour]) for colour in colours])
    found = decode_colours(np.asarray(flat_picture(ids, colours)), exact)
    np.testing.assert_array_equal(found, ids)


@given(hnp.arrays(np.bool_, st.tuples(st.integers(0, 4), st.integers(1, 19), st.integers(1, 19))))
def test_packing_loses_nothing(masks):
    rows = pack(masks)
    assert rows.shape == (len(masks), -(-masks.shape[1] * masks.shape[2] // 8))
    back = unpack(rows, *masks.shape[1:])
    assert back.dtype == np.bool_
    np.testing.assert_array_equal(back, masks)
    np.testing.assert_array_equal(count_pixels(rows), masks.sum((1, 2)))


@given(
    hnp.arrays(np.bool_, st.tuples(st.just(3), st.integers(1, 9), st.integers(1, 9))),
)
def test_union_of_packed_is_packed_union(masks):
    rows = np.bitwise_or.reduce(pack(masks), axis=0)
    np.testing.assert_array_equal(unpack(rows[None], *masks.shape[1:])[0], masks.any(0))


def test_packed_masks_are_as_documented(tmp_path):
    """Reference: the documented format, read bit by bit."""
    world = write_world(tmp_path / "w")
    make_masks(open_dataset(world), (7, 9), kinds=["union"])
    rows = np.load(world / "ground_truth" / "complex_union.npy")
    index = json.loads((world / "ground_truth" / "complex_union.json").read_text())
    masks = open_dataset(world).masks("complex", "union")
    assert rows.shape == (len(index["question_index"]), 8)
    for row, question, available, pixels in zip(
        rows, index["question_index"], index["available"], index["pixels"], strict=True
    ):
        bits = [(int(row[place // 8]) >> (7 - place % 8)) & 1 for place in range(63)]
        np.testing.assert_array_equal(masks.batch([question])[0], np.reshape(bits, (7, 9)).astype(bool))
        assert available == (pixels > 0)
        assert sum(bits) == pixels


def test_reading_masks_needs_numpy_only(tmp_path):
    world = write_world(tmp_path / "w")
    make_masks(open_dataset(world))
    script = (
        "import sys\nfrom pathlib import Path\nfrom heatproof.clevr.mask_files import open_packed\n"
        f"masks = open_packed(Path({str(world / 'ground_truth')!r}), 'complex', 'union')\n"
        "assert masks.batch([0, 3]).shape == (2, 128, 128)\n"
        "heavy = {'torch', 'PIL', 'polars', 'scipy', 'numba', 'skimage'} & set(sys.modules)\nassert not heavy, heavy\n"
    )
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr


def test_the_room_imports_no_torch(tmp_path):
    world = write_world(tmp_path / "w")
    script = (
        "import sys\nfrom pathlib import Path\nfrom heatproof.clevr import open_dataset\n"
        "from heatproof.clevr.ground_truth import make_masks\nfrom heatproof.clevr.stats import describe\n"
        f"dataset = open_dataset({str(world)!r})\nmake_masks(dataset)\ndescribe(dataset)\n"
        "assert 'torch' not in sys.modules\n"
    )
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr


def truncate(path: Path, share: float = 0.6) -> None:
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * share)])


def problems(world: Path) -> tuple[str, ...]:
    with pytest.raises(DatasetError) as caught:
        open_dataset(world)
    return caught.value.problems


def test_every_problem_is_named_at_once(tmp_path):
    world = write_world(tmp_path / "w")
    (world / "images" / NAME).unlink()
    (world / "objects" / "CLEVR_new_000002.png").write_bytes(b"")
    truncate(world / "CLEVR-XAI_complex_questions.json")
    edit_json(world / "CLEVR_scenes.json", lambda content: content["scenes"][3].pop("objects"))
    assert set(problems(world)) == {
        f"images/{NAME}: missing",
        "objects/CLEVR_new_000002.png: empty",
        "CLEVR-XAI_complex_questions.json: truncated JSON (its last character is not a bracket)",
        "CLEVR_scenes.json: scenes[3].objects is missing",
    }


def test_truncated_scenes(tmp_path):
    world = write_world(tmp_path / "w")
    truncate(world / "CLEVR_scenes.json")
    (problem,) = problems(world)
    assert problem.startswith("CLEVR_scenes.json: truncated or damaged JSON")


def test_questions_cut_at_a_bracket(tmp_path):
    """What the cheap look at the end does not see is named when the questions are read."""
    world = write_world(tmp_path / "w")
    path = world / "CLEVR-XAI_simple_questions.json"
    content = path.read_text()
    path.write_text(content[: content.rindex("}", 0, len(content) // 2) + 1])
    dataset = open_dataset(world)
    with pytest.raises(DatasetError, match=r"simple_questions\.json: truncated or damaged JSON"):
        dataset.questions("simple")
    assert len(dataset.questions("complex")) == 20


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda q: q[2].pop("question"), "questions[2].question is missing"),
        (lambda q: q[2].update(question_index="two"), "questions[2].question_index is not of type int"),
        (lambda q: q[2].update(image_filename="x.png"), "question 2 is about x.png, of which there is no scene"),
        (lambda q: q[2].update(question_index=1), "question_index 1 is there twice"),
        (lambda q: q.clear(), "holds no question"),
        (lambda q: q[2].update(program=["scene"]), "the program of question 2 is no list of nodes"),
        (lambda q: q.insert(0, 7), "questions[0] is not an object"),
    ],
)
def test_bad_questions_are_named(tmp_path, change, said):
    world = write_world(tmp_path / "w")
    edit_json(world / "CLEVR-XAI_simple_questions.json", lambda content: change(content["questions"]))
    with pytest.raises(DatasetError) as caught:
        open_dataset(world).questions("simple")
    assert f"CLEVR-XAI_simple_questions.json: {said}" in caught.value.problems


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda q: q["program"][1].pop("_output"), "has no _output"),
        (lambda q: q["program"][1].update(_output=[99]), r"gives \[99\], no objects of a scene of"),
        (lambda q: q["program"][-2].update(_output=None), r"\(unique\) gives None, no object of a scene"),
        (lambda q: q["program"][1].update(inputs=[5]), r"has inputs \[5\], not earlier nodes"),
        (lambda q: q["program"][1].update(function=q["program"][1].pop("type")), "ask in the default format"),
        (lambda q: q["program"][1].pop("inputs"), "has inputs None, not earlier nodes"),
        (lambda q: q.update(program=[]), "has no program"),
    ],
)
def test_programs_without_results_are_named(tmp_path, change, said):
    world = write_world(tmp_path / "w")
    edit_json(world / "CLEVR-XAI_simple_questions.json", lambda content: change(content["questions"][3]))
    with pytest.raises(DatasetError, match=rf"(?s)simple_questions\.json: question 3: .*{said}"):
        make_masks(open_dataset(world))
    assert not (world / "ground_truth").exists()


@pytest.mark.parametrize("folder", ["objects", "masks"])
def test_masks_that_miss_objects_are_all_named(tmp_path, folder):
    """And nothing is written, nor is anything left behind."""
    world = write_world(tmp_path / "w", id_buffers=folder == "objects")
    dataset = open_dataset(world)
    for number, name in ((2, NAME), (1, "CLEVR_new_000003.png")):
        path = world / folder / name
        ids = dataset.object_ids(dataset.scenes[name])
        pixels = np.array(Image.open(path))
        pixels[ids == number] = pixels[ids == 0][0]
        Image.fromarray(pixels).save(path)
    thing = dataset.scenes[NAME]["objects"][1]
    words = f"object 1 ({thing['size']} {thing['color']} {thing['material']} {thing['shape']})"
    with pytest.raises(DatasetError) as caught:
        make_masks(open_dataset(world))
    assert caught.value.problems[0] == f"{folder}/{NAME}: misses {words}"
    assert caught.value.problems[1].startswith(f"{folder}/CLEVR_new_000003.png: misses object 0")
    assert len(caught.value.problems) == 2
    assert [path for path in world.rglob("*") if "ground_truth" in str(path) and path.is_file()] == []


def test_a_thorough_check_reads_everything(tmp_path):
    world = write_world(tmp_path / "w")
    open_dataset(world).check()
    truncate(world / "images" / NAME)
    truncate(world / "objects" / "CLEVR_new_000002.png")
    edit_json(world / "CLEVR-XAI_simple_questions.json", lambda content: content["questions"][0].pop("question"))
    with pytest.raises(DatasetError) as caught:
        open_dataset(world).check()
    found = caught.value.problems
    assert f"images/{NAME}: truncated or no picture (it has no end)" in found
    assert any(problem.startswith("objects/CLEVR_new_000002.png: truncated or no picture") for problem in found)
    assert "CLEVR-XAI_simple_questions.json: questions[0].question is missing" in found


def test_an_id_buffer_of_another_scene(tmp_path):
    world = write_world(tmp_path / "w")
    ids = np.asarray(Image.open(world / "objects" / NAME)).copy()
    ids[0, 0] = 200
    Image.fromarray(ids).save(world / "objects" / NAME)
    with pytest.raises(DatasetError, match="shows object 200, but the scene has"):
        make_masks(open_dataset(world))
    Image.open(world / "masks" / NAME).save(world / "objects" / NAME)
    with pytest.raises(DatasetError, match="an id buffer is an 8-bit greyscale picture"):
        make_masks(open_dataset(world))


def test_masks_without_colours_in_the_scene(tmp_path):
    world = write_world(tmp_path / "w", id_buffers=False)
    edit_json(world / "CLEVR_scenes.json", lambda content: content["scenes"][1]["objects"][0].pop("mask_color"))
    with pytest.raises(DatasetError, match=rf"masks/{NAME}: the scene gives no mask_color .* for object 0"):
        make_masks(open_dataset(world))


@given(st.data())
def test_any_damage_to_a_mask_is_named_or_harmless(data):
    """Bytes cut off or changed anywhere: a mask of the right shape, or an error that names the file; nothing else."""
    objects = [{"mask_color": linear((200, 30, 30))}, {"mask_color": linear((30, 30, 200))}]
    ids = np.zeros((20, 30), dtype=np.uint8)
    ids[2:9, 3:12], ids[8:18, 14:28] = 1, 2
    with tempfile.TemporaryDirectory() as place:
        for read, picture in (
            (read_ids, Image.fromarray(ids)),
            (read_flat_colours, flat_picture(ids, [(200, 30, 30), (30, 30, 200)])),
        ):
            path = Path(place) / "mask.png"
            picture.save(path)
            content = bytearray(path.read_bytes())
            if data.draw(st.booleans()):
                content = content[: data.draw(st.integers(0, len(content) - 13))]
            else:
                content[data.draw(st.integers(0, len(content) - 1))] ^= data.draw(st.integers(1, 255))
            path.write_bytes(content)
            said = ""
            try:
                found = read(path, objects)
            except HeatproofError as problem:
                found, said = ids, str(problem)
            assert found.ndim == 2
            assert not said or said.startswith(f"{path}: ")


def test_scenes_whose_objects_are_nothing_of_the_kind(tmp_path):
    world = write_world(tmp_path / "w")
    edit_json(world / "CLEVR_scenes.json", lambda content: content["scenes"][2].update(objects=["a cube"]))
    assert problems(world) == ("CLEVR_scenes.json: the objects of CLEVR_new_000002.png are not JSON objects",)


def test_long_lists_of_problems_are_cut(tmp_path):
    world = write_world(tmp_path / "w", scenes=30)
    for path in sorted((world / "images").iterdir())[1:]:
        path.unlink()
    assert len(problems(world)) == 29
    with pytest.raises(DatasetError, match=r"29 problems:\n(.*\n)*  \.\.\. and 9 more$"):
        open_dataset(world)


def test_folders_that_are_no_data_set(tmp_path):
    with pytest.raises(HeatproofError, match="does not exist"):
        open_dataset(tmp_path / "nowhere")
    with pytest.raises(HeatproofError, match=r"no CLEVR_scenes\.json"):
        open_dataset(tmp_path)
    world = write_world(tmp_path / "inside")
    with pytest.raises(HeatproofError, match=f"Did you mean {world}"):
        open_dataset(tmp_path)
    with pytest.raises(HeatproofError, match="is a file"):
        open_dataset(world / "CLEVR_scenes.json")
    (world / "CLEVR_scenes.json").unlink()
    assert "CLEVR_scenes.json: missing" in problems(world)


def test_scenes_without_pictures_or_masks(tmp_path):
    world = write_world(tmp_path / "w")
    for folder in ("images", "masks", "objects"):
        for path in (world / folder).iterdir():
            path.unlink()
    dataset = open_dataset(world)
    with pytest.raises(HeatproofError, match="scenes only, no pictures"):
        dataset.questions("simple")[0].picture()
    with pytest.raises(HeatproofError, match=r"^[^\n]*has no object masks[^\n]*$"):
        make_masks(dataset)


def test_of_two_files_of_one_set_the_one_with_results_is_read(tmp_path):
    world = write_world(tmp_path / "w")
    (world / "CLEVR_simple_questions.json").write_text('{"questions": []}')
    assert len(open_dataset(world).questions("simple")) == 20
    (world / "CLEVR-XAI_simple_questions.json").rename(world / "CLEVR_simple_questions.json")
    assert len(open_dataset(world).questions("simple")) == 20
