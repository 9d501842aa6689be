"""Pictures and mosaics: what is drawn, what is written, what is refused."""

from __future__ import annotations

import csv
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from heatproof.errors import HeatproofError
from heatproof.mosaics.mosaics import LAYOUTS, MosaicSettings, assemble, draw_mosaics, read_mosaics, write_mosaics
from heatproof.mosaics.pictures import Pictures, check_picture, find_pictures, tile


def make_pictures(folder: Path, counts: dict[str, int], size: tuple[int, int] = (20, 24)) -> Path:
    """A folder per class; every picture has one colour of its own."""
    shade = 0
    for label, count in counts.items():
        (folder / label).mkdir(parents=True)
        for number in range(count):
            shade += 7
            Image.new("RGB", size, (shade % 256, shade * 3 % 256, 90)).save(folder / label / f"{number}.png")
    return folder


@pytest.fixture
def pictures(tmp_path) -> Pictures:
    return find_pictures(make_pictures(tmp_path / "photos", {"cat": 5, "dog": 4, "owl": 3}))


def test_two_targets_and_two_others_each_picture_once(pictures):
    mosaics = draw_mosaics(pictures, MosaicSettings(per_class=20))
    assert len(mosaics) == 60
    for mosaic in mosaics:
        assert sum(mosaic.targets) == 2
        assert len(set(mosaic.files)) == 4
        assert all(file.parent.name == label for file, label in zip(mosaic.files, mosaic.labels, strict=True))
    assert len({mosaic.targets for mosaic in mosaics}) == 6, "random positions reach all six places"


def test_pictures_are_used_about_equally_often(pictures):
    mosaics = draw_mosaics(pictures, MosaicSettings(per_class=20, only="cat"))
    used = Counter(file for mosaic in mosaics for file in mosaic.files)
    assert {used[file] for file in pictures.by_class["cat"]} <= {7, 8, 9}  # 40 places for 5 pictures
    by_class = Counter(label for mosaic in mosaics for label in mosaic.labels)
    assert abs(by_class["dog"] - by_class["owl"]) <= 4


def test_a_seed_gives_the_same_mosaics_bit_for_bit(pictures):
    first, again, other = (draw_mosaics(pictures, MosaicSettings(per_class=6), seed) for seed in (3, 3, 4))
    assert first == again != other
    assert np.array_equal(assemble(first[0], 16), assemble(again[0], 16))


@pytest.mark.parametrize(("layout", "places"), LAYOUTS.items())
def test_layouts(pictures, layout, places):
    for mosaic in draw_mosaics(pictures, MosaicSettings(per_class=4, layout=layout)):
        assert tuple(i for i, wanted in enumerate(mosaic.targets) if wanted) == places


def test_larger_grids_and_other_numbers_of_targets(pictures):
    mosaics = draw_mosaics(pictures, MosaicSettings(per_class=3, grid=3, targets=2))
    assert {len(mosaic.labels) for mosaic in mosaics} == {9}
    assert assemble(mosaics[0], 16).shape == (48, 48, 3)


def test_tiles_lie_row_by_row(pictures):
    mosaic = draw_mosaics(pictures, MosaicSettings(per_class=1))[0]
    pixels = assemble(mosaic, 16)
    corners = [pixels[y, x] for y in (0, 16) for x in (0, 16)]
    for file, corner in zip(mosaic.files, corners, strict=True):
        assert np.array_equal(np.asarray(Image.open(file))[0, 0], corner)


def test_a_tile_is_squashed_to_eight_sevenths_and_its_middle_cut_out(tmp_path):
    """Reference: the original's 256 and 224, done here with Pillow alone."""
    path = tmp_path / "a.png"
    Image.fromarray(np.random.default_rng(0).integers(0, 256, (200, 300, 3), dtype=np.uint8)).save(path)
    expected = Image.open(path).resize((256, 256), Image.Resampling.BILINEAR).crop((16, 16, 240, 240))
    assert np.array_equal(tile(path, 224), np.asarray(expected))


def test_mosaics_are_written_in_the_original_columns_and_read_back(pictures, tmp_path):
    mosaics = draw_mosaics(pictures, MosaicSettings(per_class=2))
    path = write_mosaics(mosaics, tmp_path / "out", 16)
    with path.open() as file:
        rows = list(csv.DictReader(file))
    names = [f"filename_{i}" for i in range(4)] + [f"label_{i}" for i in range(4)]
    assert list(rows[0]) == ["filename", *names, "target_class"]
    back = read_mosaics(path)
    assert [(m.labels, m.target) for m in back] == [(m.labels, m.target) for m in mosaics]
    assert all(np.array_equal(assemble(a, 16), assemble(b, 16)) for a, b in zip(mosaics, back, strict=True))
    with pytest.raises(HeatproofError, match="holds mosaics already"):
        write_mosaics(mosaics, tmp_path / "out", 16)


def test_a_csv_leaves_training_pictures_out(tmp_path):
    make_pictures(tmp_path, {"cat": 4, "dog": 4})
    lines = [f"{c}/{i}.png,{c},{'train' if i < 2 else 'val'}" for c in ("cat", "dog") for i in range(4)]
    table = tmp_path / "all.csv"
    table.write_text("filename,label,subset\n" + "\n".join(lines))
    assert [file.name for file in find_pictures(table).by_class["cat"]] == ["2.png", "3.png"]
    assert len(find_pictures(table, "train")) == 4
    with pytest.raises(HeatproofError, match="no pictures of subset 'test'; it has: train, val"):
        find_pictures(table, "test")
    table.write_text(table.read_text() + "\ncat/0.png,owl,train\n")
    with pytest.raises(HeatproofError, match="class 'owl' has no pictures of subset 'other than train'"):
        find_pictures(table)
    assert find_pictures(table, "train").classes == ("cat", "dog", "owl")
    assert find_pictures(table, least=1).classes == ("cat", "dog")


def test_classes_that_are_too_few_are_named(tmp_path):
    with pytest.raises(HeatproofError, match="only the class 'cat'"):
        find_pictures(make_pictures(tmp_path / "one", {"cat": 3}))
    single = find_pictures(make_pictures(tmp_path / "single", {"cat": 3, "dog": 1}))
    with pytest.raises(HeatproofError, match="class 'dog' has 1 picture"):
        draw_mosaics(single, MosaicSettings(per_class=2))
    assert len(draw_mosaics(single, MosaicSettings(per_class=2, repeats=True))) == 4
    with pytest.raises(HeatproofError, match="there is no folder"):
        find_pictures(tmp_path / "nowhere")


def test_pictures_that_cannot_be_tiles_are_named(tmp_path):
    paths = {name: tmp_path / name for name in ("bad.png", "tiny.png", "cmyk.jpg", "moving.gif", "cut.png")}
    paths["bad.png"].write_bytes(b"no picture")
    Image.new("RGB", (40, 3)).save(paths["tiny.png"])
    Image.new("CMYK", (40, 40)).save(paths["cmyk.jpg"])
    frames = [Image.new("RGB", (40, 40), colour) for colour in ("red", "blue")]
    frames[0].save(paths["moving.gif"], save_all=True, append_images=frames[1:])
    for name, words in (("bad.png", "cannot be read"), ("tiny.png", "too small"), ("cmyk.jpg", "mode CMYK")):
        with pytest.raises(HeatproofError, match=words):
            check_picture(paths[name])
    with pytest.raises(HeatproofError, match="is animated"):
        check_picture(paths["moving.gif"])
    noise = np.random.default_rng(0).integers(0, 256, (60, 60, 3), dtype=np.uint8)
    Image.fromarray(noise).save(paths["cut.png"])
    paths["cut.png"].write_bytes(paths["cut.png"].read_bytes()[:3000])
    with pytest.raises(HeatproofError, match=r"cut\.png cannot be read"):
        tile(paths["cut.png"], 16)
