"""Ground-truth masks: the five rules, the resize, and the files, each against a literal version."""

from __future__ import annotations

import json
import random
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from heatproof.clevr import open_dataset
from heatproof.clevr.ground_truth import KINDS, choose_kinds, make_masks, mask_of_question, parse_size, resize_objects
from heatproof.clevr.mask_files import PackedMasks, ReleaseMasks, release_name
from heatproof.errors import HeatproofError
from reference import clevr_ground_truth as reference
from tiny_datasets import (
    ask,
    draw,
    edit_json,
    flat_picture,
    make_questions,
    make_scene,
    mask_colours,
    write_json,
    write_world,
)


def node(kind: str, inputs: list[int], output: object) -> dict[str, object]:
    return {"type": kind, "inputs": inputs, "value_inputs": [], "_output": output}


def targets(kind: str, program: list[dict[str, object]], objects: int = 8) -> set[int]:
    rules = {**KINDS["simple"], **KINDS["complex"]}
    return set(rules[kind](program, objects))


EVERYTHING = node("scene", [], list(range(8)))
QUERY = [
    EVERYTHING,
    node("filter_color", [0], [2, 5]),
    node("filter_shape", [1], [5]),
    node("unique", [2], 5),
    node("relate", [3], [0, 1, 6]),
    node("filter_size", [4], [6]),
    node("unique", [5], 6),
    node("query_material", [6], "metal"),
]
EMPTY_UNION = [
    EVERYTHING,
    node("filter_color", [0], [1]),
    node("filter_size", [1], []),
    node("scene", [], list(range(8))),
    node("filter_shape", [3], [4, 7]),
    node("filter_size", [4], []),
    node("union", [2, 5], []),
    node("count", [6], 0),
]
EMPTY_COMPARISON = [
    EVERYTHING,
    node("filter_color", [0], [1]),
    node("count", [1], 1),
    node("scene", [], list(range(8))),
    node("filter_shape", [3], [4, 7]),
    node("filter_size", [4], []),
    node("count", [5], 0),
    node("less_than", [2, 6], False),
]
NOTHING_IN_SECOND = [
    EVERYTHING,
    node("filter_color", [0], [3]),
    node("count", [1], 1),
    node("scene", [], list(range(8))),
    node("filter_shape", [3], []),
    node("count", [4], 0),
    node("less_than", [2, 5], False),
]
NOTHING = [EVERYTHING, node("filter_color", [0], []), node("exist", [1], False)]
SAME = [
    EVERYTHING,
    node("filter_color", [0], [2]),
    node("unique", [1], 2),
    node("same_size", [2], [0, 3]),
    node("filter_shape", [3], []),
    node("count", [4], 0),
]


@pytest.mark.parametrize(
    ("program", "kind", "expected"),
    [
        (QUERY, "single_object", {6}),
        (QUERY, "all_objects", set(range(8))),
        (QUERY, "unique", {5, 6}),
        (QUERY, "unique_first_nonempty", {5, 6}),
        (QUERY, "union", {0, 1, 2, 5, 6}),
        (EMPTY_UNION, "unique", set()),
        (EMPTY_UNION, "unique_first_nonempty", {1, 4, 7}),
        (EMPTY_UNION, "union", {1, 4, 7}),
        (EMPTY_COMPARISON, "unique_first_nonempty", {4, 7}),
        (NOTHING_IN_SECOND, "unique_first_nonempty", {3}),
        (NOTHING, "unique_first_nonempty", set()),
        (NOTHING, "union", set()),
        (NOTHING, "all_objects", set(range(8))),
        (SAME, "unique_first_nonempty", {2, 0, 3}),
        (SAME, "union", {0, 2, 3}),
    ],
)
def test_rules_on_programs_worked_out_by_hand(program, kind, expected):
    """An empty union walks both branches; a comparison does not, it walks the second one first."""
    assert targets(kind, program) == expected


@st.composite
def questions(draw_value, name: str = "complex"):
    rng = random.Random(draw_value(st.integers(0, 2**32)))
    count = draw_value(st.integers(3, 10))
    scene = make_scene(rng, 0, count, [(0, 0, 0)] * count)
    return scene, ask(rng, scene, name, 8)


@given(questions())
def test_rules_equal_the_literal_ones_and_include_each_other(made):
    """Reference: tests/reference. Inclusions: facts of the data set that hold without exception."""
    scene, programs = made
    objects = len(scene["objects"])
    for program in programs:
        found = {kind: set(rule(program, objects)) for kind, rule in KINDS["complex"].items()}
        for kind, chosen in found.items():
            assert sorted(chosen) == reference.chosen_objects(program, objects, kind)
        assert found["unique"] <= found["unique_first_nonempty"] <= found["union"] <= found["all_objects"]
        assert bool(found["union"]) == bool(found["unique_first_nonempty"])
        assert bool(found["unique"]) == any(step["type"] == "unique" for step in program)


@given(questions("simple"))
def test_a_simple_question_has_one_object(made):
    scene, programs = made
    for program in programs:
        one = KINDS["simple"]["single_object"](program, len(scene["objects"]))
        assert len(one) == 1
        assert one <= KINDS["simple"]["all_objects"](program, len(scene["objects"]))
        assert sorted(one) == reference.chosen_objects(program, len(scene["objects"]), "single_object")


def test_random_programs_reach_every_rule():
    """The property tests above mean something: branches, empty sets and all node types do occur."""
    rng = random.Random(0)
    seen: Counter[str] = Counter()
    for _ in range(400):
        count = rng.randint(3, 10)
        scene = make_scene(rng, 0, count, [(0, 0, 0)] * count)
        for program in ask(rng, scene, "complex", 3):
            seen.update(step["type"].split("_")[0] for step in program)
            seen["empty branching"] += any(
                step["type"] in ("union", "intersect") and not step["_output"] for step in program
            )
            seen["no mask"] += not targets("union", program, count)
            seen["differ"] += targets("unique", program, count) != targets("unique_first_nonempty", program, count)
    for what in ("relate", "same", "union", "intersect", "equal", "less", "empty branching", "no mask", "differ"):
        assert seen[what] >= 4, what


def pillow_resize(mask: np.ndarray, height: int, width: int) -> np.ndarray:
    image = Image.fromarray(mask.astype(np.float64))
    return np.asarray(image.resize((width, height), Image.Resampling.BILINEAR)) > 0


@given(
    st.integers(0, 2**32),
    st.integers(1, 40),
    st.tuples(st.integers(1, 70), st.integers(1, 70)),
    st.tuples(st.integers(1, 70), st.integers(1, 70)),
    st.sampled_from([0.002, 0.05, 0.6]),
)
def test_union_of_resized_objects_is_the_resized_union(seed, objects, source, target, density):
    """Reference: Pillow's resize of the question's whole mask; any sizes, up-scaling too, more objects than bits."""
    rng = np.random.default_rng(seed)
    ids = (rng.integers(1, objects + 1, source) * (rng.random(source) < density)).astype(np.uint8)
    resized = resize_objects(ids, objects, *target)
    assert resized.shape == (objects, *target)
    chosen = np.flatnonzero(rng.random(objects) < 0.5)
    whole = pillow_resize(np.isin(ids, chosen + 1), *target)
    np.testing.assert_array_equal(resized[chosen].any(0), whole)


def test_union_is_exact_on_real_masks(shared_data):
    """Reference: Pillow, on all objects and random sets of objects of 40 scenes rendered with the original assets."""
    rng = np.random.default_rng(0)
    for path in sorted(shared_data("clevr/original_look").glob("masks/*.png")):
        ids = np.asarray(Image.open(path))
        objects = int(ids.max())
        resized = resize_objects(ids, objects, 128, 128)
        for chosen in (rng.random((3, objects)) < 0.4).tolist():
            places = np.flatnonzero(chosen)
            np.testing.assert_array_equal(
                resized[places].any(0), pillow_resize(np.isin(ids, places + 1), 128, 128), err_msg=path.name
            )


@pytest.mark.parametrize(
    ("radius", "source", "target"),
    [
        (8, 201, 42),
        (10, 314, 59),
        (15, 707, 112),
        (20, 1257, 181),
        (30, 2827, 372),
        (40, 5027, 628),
        (50, 7854, 952),
        (60, 11311, 1344),
    ],
)
def test_discs_grow_as_calibrated(radius, source, target):
    """Reference: mean sizes of discs at 480x320 and of their masks at 128x128, by an emulation of Pillow."""
    rng = np.random.default_rng(radius)
    rows, columns = np.mgrid[:320, :480]
    sizes = []
    for y, x in rng.uniform((150, 220), (170, 260), (60, 2)):
        disc = ((rows - y) ** 2 + (columns - x) ** 2 <= radius**2).astype(np.uint8)
        sizes.append((int(disc.sum()), int(resize_objects(disc, 1, 128, 128).sum())))
    before, after = np.mean(sizes, axis=0)
    assert before == pytest.approx(source, abs=2)
    assert after == pytest.approx(target, abs=4 * np.std([size for _, size in sizes]) / 60**0.5 + 0.5)


def test_every_interior_pixel_lights_four():
    lit = set()
    for row in range(5, 315, 13):
        for column in range(8, 472, 17):
            ids = np.zeros((320, 480), dtype=np.uint8)
            ids[row, column] = 1
            lit.add(int(resize_objects(ids, 1, 128, 128).sum()))
    assert lit == {4}


def test_the_same_size_is_left_alone():
    ids = draw(random.Random(1), 5, 40, 60)
    np.testing.assert_array_equal(resize_objects(ids, 5, 40, 60), np.stack([ids == k for k in range(1, 6)]))


@pytest.mark.parametrize("id_buffers", [True, False], ids=["id buffers", "flat colours"])
@pytest.mark.parametrize("layout", ["packed", "release"])
@pytest.mark.parametrize("size", [(128, 128), (48, 72), (20, 30)], ids=str)
def test_masks_are_bit_equal_to_the_literal_ones(tmp_path, id_buffers, layout, size):
    """Reference: tests/reference, which decodes the flat colours and resizes each question's whole mask."""
    dataset = open_dataset(write_world(tmp_path / "w", id_buffers=id_buffers))
    make_masks(dataset, size, layout=layout)
    assert_equals_reference(dataset, size)


def assert_equals_reference(dataset, size: tuple[int, int]) -> None:
    compared = 0
    for name, kinds in KINDS.items():
        for kind in kinds:
            masks = dataset.masks(name, kind)
            for position, question in enumerate(dataset.questions(name)):
                picture = dataset.folder / "masks" / question.scene["image_filename"]
                literal = reference.mask_of_question(question.record, question.scene, picture, kind, *size)
                (found,) = masks.batch([question.index])
                assert found.dtype == np.bool_
                assert masks.available[position] == (literal is not None)
                expected = np.zeros(size, bool) if literal is None else literal
                np.testing.assert_array_equal(found, expected, err_msg=f"{name} {kind} question {question.index}")
                assert masks.pixels[position] == expected.sum()
                compared += 1
    assert compared > 100


def test_one_mask_on_the_spot_is_the_stored_one(tmp_path):
    dataset = open_dataset(write_world(tmp_path / "w"))
    make_masks(dataset, (30, 40))
    for name, kinds in KINDS.items():
        for question in dataset.questions(name):
            for kind in kinds:
                np.testing.assert_array_equal(mask_of_question(question, kind, (30, 40)), question.mask(kind))
    with pytest.raises(HeatproofError, match="kind of ground truth of simple questions 'unique'"):
        mask_of_question(dataset.questions("simple")[0], "unique")


def test_release_layout_on_real_masks(tmp_path, shared_data):
    """Reference: the literal masks, on scenes rendered with the original assets at 480x320, written as released."""
    look = shared_data("clevr/original_look")
    rng = random.Random(3)
    scenes = json.loads((look / "CLEVR_scenes.json").read_text())["scenes"][:6]
    (tmp_path / "masks").mkdir()
    for scene in scenes:
        colours = mask_colours(rng, len(scene["objects"]))
        drawn = make_scene(rng, 0, len(scene["objects"]), colours)["objects"]
        for thing, twin in zip(scene["objects"], drawn, strict=True):
            thing["mask_color"] = twin["mask_color"]
        ids = np.asarray(Image.open(look / "masks" / scene["image_filename"]))
        flat_picture(ids, colours).save(tmp_path / "masks" / scene["image_filename"])
    write_json(tmp_path / "CLEVR-XAI_scenes.json", {"scenes": scenes})
    for name in KINDS:
        write_json(tmp_path / f"CLEVR-XAI_{name}_questions.json", make_questions(rng, scenes, name, 4))
    dataset = open_dataset(tmp_path)
    assert dataset.layout.name == "clevr-xai"
    paths = make_masks(dataset, layout="release")
    first = dataset.questions("simple")[0]
    stored = np.load(paths["simple", "single_object"] / f"{first.index}.npy")
    assert (stored.dtype, stored.shape) == (np.bool_, (128, 128))
    literal = reference.mask_of_question(
        first.record, first.scene, tmp_path / "masks" / first.scene["image_filename"], "single_object", 128, 128
    )
    np.testing.assert_array_equal(stored, literal)
    assert_equals_reference(dataset, (128, 128))


def test_release_layout_has_the_released_names(tmp_path):
    dataset = open_dataset(write_world(tmp_path / "w"))
    make_masks(dataset, layout="release")
    folders = {path.name for path in dataset.folder.glob("ground_truth_*")}
    assert folders == {
        "ground_truth_simple_questions_single_object",
        "ground_truth_simple_questions_all_objects",
        "ground_truth_complex_questions_unique",
        "ground_truth_complex_questions_unique_firstnonempty",
        "ground_truth_complex_questions_union",
        "ground_truth_complex_questions_all_objects",
    }
    stats = json.loads((dataset.folder / release_name("complex", "unique") / "stats.json").read_text())
    for question in dataset.questions("complex"):
        chosen = reference.chosen_objects(question.program, len(question.scene["objects"]), "unique")
        expected = {"target_objects": len(chosen), "total_objects": len(question.scene["objects"])} if chosen else None
        assert stats.get(str(question.index)) == expected
    assert isinstance(dataset.masks("complex", "unique"), ReleaseMasks)


def test_packed_masks_in_any_order(tmp_path):
    """Question indices need be neither sorted nor dense."""
    world = write_world(tmp_path / "w")
    file = world / "CLEVR-XAI_complex_questions.json"

    def renumber(content):
        for question in content["questions"]:
            question["question_index"] = (question["question_index"] * 37 + 11) % 211

    edit_json(file, renumber)
    dataset = open_dataset(world)
    make_masks(dataset, (24, 36), kinds=["union"])
    masks = dataset.masks("complex", "union")
    assert isinstance(masks, PackedMasks)
    assert isinstance(masks.rows, np.memmap)
    wanted = [question.index for question in dataset.questions("complex")][::-3]
    together = masks.batch(wanted)
    assert together.shape == (len(wanted), 24, 36)
    for index, mask in zip(wanted, together, strict=True):
        question = next(q for q in dataset.questions("complex") if q.index == index)
        np.testing.assert_array_equal(mask, question.mask("union"))
        chosen = reference.chosen_objects(question.program, len(question.scene["objects"]), "union")
        whole = pillow_resize(np.isin(dataset.object_ids(question.scene), np.array(chosen) + 1), 24, 36)
        np.testing.assert_array_equal(mask, whole)
    with pytest.raises(HeatproofError, match="question 5000 has no place"):
        masks.batch([wanted[0], 5000])


def test_masks_of_one_kind_are_those_of_all(tmp_path):
    """What is made in two goes equals what is made in one; what is there is not made again."""
    world = write_world(tmp_path / "w")
    dataset = open_dataset(world)
    make_masks(dataset, out=tmp_path / "all")
    make_masks(dataset, kinds=["union"])
    stamp = (world / "ground_truth" / "complex_union.npy").stat().st_mtime_ns
    make_masks(dataset)
    assert (world / "ground_truth" / "complex_union.npy").stat().st_mtime_ns == stamp
    made = sorted(path.name for path in (world / "ground_truth").iterdir())
    assert made == sorted(path.name for path in (tmp_path / "all").iterdir())
    assert len(made) == 12
    for name in made:
        assert (world / "ground_truth" / name).read_bytes() == (tmp_path / "all" / name).read_bytes()


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("layout", ["packed", "release"])
def test_other_settings_are_refused(tmp_path, layout):
    world = write_world(tmp_path / "w")
    make_masks(open_dataset(world), layout=layout)
    before = contents(world)
    with pytest.raises(HeatproofError, match=r"height 128 there, 64 now, width 128 there, 32 now.*--out"):
        make_masks(open_dataset(world), (64, 32), layout=layout)
    assert contents(world) == before
    edit_json(world / "CLEVR-XAI_simple_questions.json", lambda content: content["questions"].pop())
    before = contents(world)
    with pytest.raises(HeatproofError, match="from other questions or scenes"):
        make_masks(open_dataset(world), layout=layout)
    assert contents(world) == before
    make_masks(open_dataset(world), (64, 32), layout=layout, out=tmp_path / "elsewhere")


@pytest.mark.parametrize("layout", ["packed", "release"])
def test_masks_of_other_questions_are_not_read(tmp_path, layout):
    """A mask that belongs to another question would be worse than none."""
    world = write_world(tmp_path / "w")
    make_masks(open_dataset(world), layout=layout)

    def swap(content):
        first, second = content["questions"][:2]
        first["program"], second["program"] = second["program"], first["program"]

    edit_json(world / "CLEVR-XAI_simple_questions.json", swap)
    with pytest.raises(HeatproofError, match="made for other simple questions than those there now"):
        open_dataset(world).masks("simple", "single_object")
    assert open_dataset(world).masks("complex", "union").available.any()


def test_masks_stay_good_when_only_dates_change_or_scenes_are_added(tmp_path):
    world = write_world(tmp_path / "w")
    make_masks(open_dataset(world))
    before = contents(world / "ground_truth")
    later = write_world(tmp_path / "later", scenes=6)

    def more(content):
        content["info"]["date"] = "tomorrow"
        for scene in json.loads((later / "CLEVR_scenes.json").read_text())["scenes"][4:]:
            content["scenes"].append(scene)
            for folder in ("images", "masks", "objects"):
                (later / folder / scene["image_filename"]).rename(world / folder / scene["image_filename"])

    edit_json(world / "CLEVR_scenes.json", more)
    edit_json(world / "CLEVR-XAI_simple_questions.json", lambda content: content["info"].update(date="tomorrow"))
    dataset = open_dataset(world)
    assert len(dataset.scenes) == 6
    make_masks(dataset)
    assert contents(world / "ground_truth") == before
    assert len(dataset.masks("simple", "single_object")) == 20


def test_a_released_folder_is_not_touched(tmp_path):
    world = write_world(tmp_path / "w")
    (world / release_name("simple", "single_object")).mkdir()
    with pytest.raises(HeatproofError, match="not written by heatproof"):
        make_masks(open_dataset(world), layout="release")


@pytest.mark.parametrize("layout", ["packed", "release"])
def test_an_interrupted_run_leaves_nothing_and_can_be_repeated(tmp_path, layout):
    world = write_world(tmp_path / "w")
    before = contents(world)

    def stop(task: str, done: float, total: float) -> None:
        if done == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        make_masks(open_dataset(world), layout=layout, progress=stop)
    assert contents(world) == before
    make_masks(open_dataset(world), layout=layout)
    assert_equals_reference(open_dataset(world), (128, 128))


def test_masks_without_their_index_are_made_again(tmp_path):
    """The index is written last: masks without it are those of an interrupted run."""
    world = write_world(tmp_path / "w")
    make_masks(open_dataset(world))
    good = contents(world)
    (world / "ground_truth" / "complex_union.json").unlink()
    (world / "ground_truth" / "complex_union.npy").write_bytes(b"half")
    make_masks(open_dataset(world))
    assert contents(world) == good


def test_damaged_masks_are_named(tmp_path):
    world = write_world(tmp_path / "w")
    make_masks(open_dataset(world))
    path = world / "ground_truth" / "complex_union.npy"
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(HeatproofError, match=r"complex_union\.npy is missing or damaged"):
        make_masks(open_dataset(world))
    with pytest.raises(HeatproofError, match=r"complex_union\.npy is missing or damaged"):
        open_dataset(world).masks("complex", "union")


def test_masks_that_were_not_made(tmp_path):
    with pytest.raises(HeatproofError, match="heatproof clevr ground-truth"):
        open_dataset(write_world(tmp_path / "w")).masks("complex", "union")


def test_kinds_and_sizes_are_checked(tmp_path):
    world = write_world(tmp_path / "w")
    dataset = open_dataset(world)
    with pytest.raises(HeatproofError, match="Did you mean 'single_object'"):
        choose_kinds(dataset, ["single_objects"])
    with pytest.raises(HeatproofError, match="Did you mean 'packed'"):
        make_masks(dataset, layout="pack")
    with pytest.raises(HeatproofError, match="width must be a whole number of at least 1"):
        make_masks(dataset, (12, 0))
    (world / "CLEVR-XAI_complex_questions.json").unlink()
    with pytest.raises(HeatproofError, match="union needs complex questions"):
        choose_kinds(open_dataset(world), ["union"])
    (world / "CLEVR-XAI_simple_questions.json").unlink()
    with pytest.raises(HeatproofError, match="heatproof clevr ask"):
        choose_kinds(open_dataset(world), None)
    assert parse_size("480x320") == (320, 480)
    for wrong in ("128", "0x3", "12x-3", "128 x 128", ""):
        with pytest.raises(HeatproofError, match="WIDTHxHEIGHT"):
            parse_size(wrong)


@pytest.mark.parametrize("layout", ["packed", "release"])
def test_masks_tell_their_size(tmp_path, layout):
    world = write_world(tmp_path / "w")
    make_masks(open_dataset(world), (16, 24), layout=layout)
    dataset = open_dataset(world)
    for kind in KINDS["complex"]:
        assert dataset.mask_size("complex", kind) == dataset.masks("complex", kind).size == (16, 24)


@pytest.mark.parametrize("layout", ["packed", "release"])
def test_no_size_where_no_question_has_a_mask(tmp_path, layout):
    world = write_world(tmp_path / "w")

    def count_all(content):
        for question in content["questions"]:
            question["program"] = [
                {"type": "scene", "inputs": [], "value_inputs": [], "_output": [0]},
                {"type": "count", "inputs": [0], "value_inputs": [], "_output": 1},
            ]

    edit_json(world / "CLEVR-XAI_complex_questions.json", count_all)
    make_masks(open_dataset(world), (16, 24), kinds=["unique"], layout=layout)
    with pytest.raises(HeatproofError, match=r"no complex question of .* has a unique mask"):
        open_dataset(world).mask_size("complex", "unique")
    assert open_dataset(world).fingerprint("complex")
