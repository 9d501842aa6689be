"""Readers of masks: COCO, VOC, archives, and every way in which their files can be broken."""

from __future__ import annotations

import builtins
import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from heatproof.benchmarks.masks.coco import decoded_counts
from heatproof.benchmarks.masks.finding import find_cases
from heatproof.benchmarks.masks.readers import Values, open_mask_source, read_pixels
from heatproof.errors import HeatproofError
from heatproof.metrics.mask_scores import INSIDE, OUTSIDE, VOID

HEIGHT, WIDTH = 20, 30


def runs(mask: np.ndarray) -> list[int]:
    """Lengths of stretches column by column, zeros first: COCO's run lengths, literally."""
    flat = mask.T.ravel().tolist()
    found, value = [], False
    while flat:
        length = next((i for i, entry in enumerate(flat) if bool(entry) != value), len(flat))
        found.append(length)
        flat, value = flat[length:], not value
    return found


def disc(row: int, column: int, radius: int) -> np.ndarray:
    rows, columns = np.mgrid[:HEIGHT, :WIDTH]
    return (rows - row) ** 2 + (columns - column) ** 2 <= radius**2


def content(**changes: object) -> dict[str, object]:
    """Two pictures: a has a cat (polygon), another cat (run lengths) and a dog (box only); b has a crowd of dogs."""
    crowd = disc(8, 8, 4)
    annotations = [
        {"id": 1, "image_id": 7, "category_id": 1, "segmentation": [[2, 3, 10, 3, 10, 9, 2, 9]], "bbox": [2, 3, 8, 6]},
        {"id": 2, "image_id": 7, "category_id": 1, "bbox": [20, 5, 7, 7],
         "segmentation": {"size": [HEIGHT, WIDTH], "counts": runs(disc(8, 23, 3))}},
        {"id": 3, "image_id": 7, "category_id": 2, "bbox": [4, 12, 10, 5]},
        {"id": 4, "image_id": 8, "category_id": 2, "bbox": [4, 4, 8, 8], "iscrowd": 1,
         "segmentation": {"size": [HEIGHT, WIDTH], "counts": runs(crowd)}},
        {"id": 5, "image_id": 8, "category_id": 2, "bbox": [18, 2, 6, 6], "segmentation": []},
    ]  # fmt: skip
    images = [{"id": 7, "file_name": "a.jpg", "height": HEIGHT, "width": WIDTH},
              {"id": 8, "file_name": "b.jpg", "height": HEIGHT, "width": WIDTH}]  # fmt: skip
    categories = [{"id": 1, "name": "cat"}, {"id": 2, "name": "dog"}]
    return {"images": images, "annotations": annotations, "categories": categories} | changes


def coco(folder: Path, **changes: object) -> Path:
    path = folder / "instances.json"
    path.write_text(json.dumps(content(**changes)))
    return path


def opened(path: Path, boxes: bool = False):
    return open_mask_source(path, Values(), boxes)


def test_polygons_run_lengths_boxes_and_crowds(tmp_path):
    source = opened(coco(tmp_path))
    assert source.names == ["a", "b"]
    assert source.classes("a") == ("cat", "dog")
    cats, dogs = source.truth("a", "cat"), source.truth("a", "dog")
    expected = disc(8, 23, 3)
    expected[3:9, 2:10] = True
    np.testing.assert_array_equal(cats == INSIDE, expected)
    box = np.zeros((HEIGHT, WIDTH), bool)
    box[12:17, 4:14] = True
    np.testing.assert_array_equal(dogs == INSIDE, box)
    crowd = source.truth("b", "dog")
    np.testing.assert_array_equal(crowd == VOID, disc(8, 8, 4) & ~(crowd == INSIDE))
    assert (crowd == INSIDE).sum() == 36
    assert (source.truth("b", "cat") == OUTSIDE).all()


def test_compressed_run_lengths(tmp_path):
    """Reference: pycocotools' own encoder."""
    tools = pytest.importorskip("pycocotools.mask", reason="needs pycocotools")
    for mask in (disc(8, 8, 5), disc(10, 15, 9), np.ones((HEIGHT, WIDTH), bool)):
        text = tools.encode(np.asfortranarray(mask.astype(np.uint8)))["counts"].decode()
        assert decoded_counts(text, "it") == runs(mask)
        thing = {"id": 1, "image_id": 7, "category_id": 1, "segmentation": {"size": [HEIGHT, WIDTH], "counts": text}}
        np.testing.assert_array_equal(opened(coco(tmp_path, annotations=[thing])).truth("a", "cat") == INSIDE, mask)


def test_boxes_as_masks(tmp_path):
    cats = opened(coco(tmp_path), boxes=True).truth("a", "cat")
    expected = np.zeros((HEIGHT, WIDTH), bool)
    expected[3:9, 2:10] = expected[5:12, 20:27] = True
    np.testing.assert_array_equal(cats == INSIDE, expected)


def test_a_case_for_each_class_of_a_picture(tmp_path):
    for name in ("a", "b"):
        Image.new("RGB", (WIDTH, HEIGHT)).save(tmp_path / f"{name}.png")
    found = find_cases(tmp_path, opened(coco(tmp_path)), None, None)
    assert [(shown.case, shown.label) for shown in found.cases] == [("a.cat", "cat"), ("a.dog", "dog"), ("b", "dog")]
    only = find_cases(tmp_path, opened(coco(tmp_path)), None, ["cat"])
    assert [shown.case for shown in only.cases] == ["a.cat"]


def broken(part: str, **changes: object) -> dict[str, object]:
    """The entries of a part, the first with other values; a value of None is taken out."""
    entries = [dict(entry) for entry in content()[part]]
    entries[0] = {key: value for key, value in (entries[0] | changes).items() if value is not None}
    return {part: entries}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"annotations": None}, "has no list 'annotations'"),
        ({"categories": []}, "has no list 'categories'"),
        (broken("images", height=None), "entry 0 of images has no 'height'"),
        (broken("images", width="wide"), "whole numbers"),
        (broken("images", width=2.5), "whole numbers"),
        (broken("images", height=10**9), "with at most 268,435,456 pixels"),
        (broken("images", file_name=5), "file_name of entry 0 of images must be the name"),
        (broken("images", id=[7]), "id of entry 0 of images must be a number or a text"),
        (broken("images", id=8), "two images have the same id"),
        (broken("images", file_name="b.png"), "two images have the same file_name, endings aside"),
        (broken("annotations", category_id={}), "category_id of entry 0 of annotations must be a number"),
        (broken("annotations", category_id=9), "unknown category_id of annotation 0"),
        (broken("annotations", image_id=99), "image_id 99, which is not listed"),
    ],
)
def test_broken_lists_are_named(tmp_path, changes, said):
    with pytest.raises(HeatproofError, match=said):
        opened(coco(tmp_path, **changes))


@pytest.mark.parametrize(
    ("segmentation", "said"),
    [
        ({"size": [HEIGHT, WIDTH], "counts": [5, 6]}, "add up to 11 pixels, the image has 600"),
        ({"size": [9, 9], "counts": [81]}, "of size .9, 9., the image is"),
        ({"counts": [600]}, "neither polygons nor run lengths"),
        ({"size": [HEIGHT, WIDTH], "counts": "\u00e9"}, "damaged at letter 0"),
        ([["x"]], "must be lists of numbers in or near the image"),
        ({"size": 5, "counts": [600]}, "cannot be read"),
    ],
)
def test_broken_segmentations_cost_their_picture(tmp_path, segmentation, said):
    source = opened(coco(tmp_path, **broken("annotations", segmentation=segmentation)))
    with pytest.raises(HeatproofError, match=said):
        source.truth("a", "cat")
    assert (source.truth("b", "dog") == INSIDE).any()


def test_what_is_no_coco_file(tmp_path):
    (tmp_path / "x.json").write_text("[1, 2")
    with pytest.raises(HeatproofError, match="cannot be read as JSON"):
        opened(tmp_path / "x.json")
    (tmp_path / "x.json").write_text("[]")
    with pytest.raises(HeatproofError, match="it holds a list"):
        opened(tmp_path / "x.json")


def test_without_pycocotools_boxes_are_left(tmp_path, monkeypatch):
    whole = builtins.__import__

    def without(name, *rest):
        if name.startswith("pycocotools"):
            raise ImportError(name)
        return whole(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(HeatproofError, match=r"pip install heatproof\[coco\]"):
        opened(coco(tmp_path))
    assert (opened(coco(tmp_path), boxes=True).truth("a", "dog") == INSIDE).any()


# VOC


XML = """<annotation><size><width>30</width><height>20</height></size>
<object><name>dog</name><difficult>0</difficult><bndbox><xmin>3</xmin><ymin>4</ymin><xmax>10</xmax><ymax>9</ymax></bndbox></object>
<object><name>dog</name><difficult>1</difficult><bndbox><xmin>20</xmin><ymin>4</ymin><xmax>22</xmax><ymax>5</ymax></bndbox></object>
<object><name>cat</name><bndbox><xmin>1</xmin><ymin>1</ymin><xmax>1</xmax><ymax>1</ymax></bndbox></object>
</annotation>"""


def voc(folder: Path) -> Path:
    """One picture with a cat and a dog, as segments and as boxes."""
    place = folder / "VOC"
    for name in ("JPEGImages", "SegmentationClass", "Annotations"):
        (place / name).mkdir(parents=True)
    Image.new("RGB", (WIDTH, HEIGHT)).save(place / "JPEGImages" / "x.jpg")
    pixels = np.zeros((HEIGHT, WIDTH), np.uint8)
    pixels[2:8, 3:9], pixels[10:15, 3:9], pixels[8, 3:9] = 8, 12, 255
    picture = Image.fromarray(pixels, "P")
    picture.putpalette(list(range(256)) * 3)
    picture.save(place / "SegmentationClass" / "x.png")
    (place / "Annotations" / "x.xml").write_text(XML)
    return place


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_voc_segments_and_boxes(tmp_path):
    place = voc(tmp_path)
    segments, boxes = opened(place), opened(place, boxes=True)
    assert segments.classes("x") == boxes.classes("x") == ("cat", "dog")
    truth = segments.truth("x", "cat")
    assert ((truth == INSIDE).sum(), (truth == VOID).sum()) == (36, 6)
    dogs = boxes.truth("x", "dog")
    expected = np.zeros((HEIGHT, WIDTH), bool)
    expected[3:9, 2:10] = True  # pixels from 1, the last ones with them
    np.testing.assert_array_equal(dogs == INSIDE, expected)
    assert (dogs == VOID).sum() == 6
    assert (boxes.truth("x", "cat") == INSIDE).sum() == 1
    cases = find_cases(place, segments, None, None).cases
    assert [shown.case for shown in cases] == ["x.cat", "x.dog"]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize(
    ("xml", "said"),
    [
        ("<annotation>", "cannot be read as XML"),
        (XML.replace("<height>20</height>", ""), "size/height must be a number"),
        (XML.replace("<height>20</height>", "<height>nan</height>"), "size/height must be a number, got 'nan'"),
        (XML.replace("<height>20</height>", "<height>1e9</height>"), "with at most 268,435,456 pixels"),
        (XML.replace("<xmin>3</xmin>", "<xmin>x</xmin>"), "bndbox/xmin must be a number, got 'x'"),
        ("<!DOCTYPE a [<!ENTITY b 'c'>]>" + XML, "declares entities"),
    ],
)
def test_broken_voc_boxes(tmp_path, xml, said):
    place = voc(tmp_path)
    (place / "Annotations" / "x.xml").write_text(xml)
    with pytest.raises(HeatproofError, match=said):
        opened(place, boxes=True).truth("x", "dog")


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_broken_voc_segments(tmp_path):
    place = voc(tmp_path)
    Image.fromarray(np.full((HEIGHT, WIDTH), 77, np.uint8)).save(place / "SegmentationClass" / "x.png")
    with pytest.raises(HeatproofError, match="pixels of value 77"):
        opened(place).truth("x", "dog")
    (place / "SegmentationClass" / "x.png").unlink()
    with pytest.raises(HeatproofError, match=r"holds no \.png file"):
        opened(place)


# Arrays and pictures


def test_an_archive_of_arrays(tmp_path):
    np.savez(tmp_path / "m.npz", a=disc(5, 5, 3), b=(255 * disc(5, 5, 3)).astype(np.int64), c=np.zeros((2, 2, 2)))
    source = opened(tmp_path / "m.npz")
    np.testing.assert_array_equal(source.truth("a", ""), source.truth("b", ""))
    with pytest.raises(HeatproofError, match="a mask is"):
        source.truth("c", "")


def test_mask_pictures_of_every_mode(tmp_path):
    mask = (255 * disc(5, 5, 3)).astype(np.uint8)
    for mode in ("L", "1", "RGB", "P", "RGBA"):
        Image.fromarray(mask).convert(mode).save(tmp_path / "m.png")
        np.testing.assert_array_equal(read_pixels(tmp_path / "m.png") > 0, mask > 0, err_msg=mode)
    colours = np.stack([mask, mask * 0, mask], -1)
    Image.fromarray(colours).save(tmp_path / "m.png")
    with pytest.raises(HeatproofError, match="is in colour"):
        read_pixels(tmp_path / "m.png")


def test_places_that_are_nothing(tmp_path):
    with pytest.raises(HeatproofError, match="does not exist"):
        opened(tmp_path / "nowhere")
    with pytest.raises(HeatproofError, match="holds no mask picture"):
        assert opened(tmp_path).names
    with pytest.raises(HeatproofError, match="has no boxes"):
        opened(tmp_path, boxes=True)
