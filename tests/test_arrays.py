"""Named arrays on disk: what is written comes back, whole; what is damaged is named."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from heatproof.arrays import read_arrays, write_arrays
from heatproof.errors import HeatproofError

ARRAYS = {"a.weight": np.arange(6.0).reshape(2, 3), "n": np.array(3), "words": np.array(["x", "yz"])}


class Marker:
    """What a malicious file would do when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self):
        return (Path.touch, (self.path,))


@pytest.mark.parametrize("compressed", [False, True])
def test_arrays_come_back(tmp_path, compressed):
    path = tmp_path / "made" / "arrays.kept"
    write_arrays(path, ARRAYS, compressed)
    found = read_arrays(path)
    assert list(found) == list(ARRAYS)
    for name, array in ARRAYS.items():
        np.testing.assert_array_equal(found[name], array, strict=True)
    assert [file.name for file in path.parent.iterdir()] == ["arrays.kept"]


def test_compressed_files_are_smaller(tmp_path):
    for compressed in (False, True):
        write_arrays(tmp_path / f"{compressed}.npz", {"zeros": np.zeros(10_000)}, compressed)
    assert (tmp_path / "True.npz").stat().st_size < (tmp_path / "False.npz").stat().st_size / 10


def test_a_write_that_fails_leaves_the_old_file(tmp_path):
    path = tmp_path / "arrays.npz"
    write_arrays(path, {"old": np.ones(2)})
    with pytest.raises(ValueError, match="allow_pickle=False"):
        write_arrays(path, {"new": np.array([object()])})
    assert list(read_arrays(path)) == ["old"]
    assert [file.name for file in tmp_path.iterdir()] == ["arrays.npz"]


@pytest.mark.parametrize("compressed", [False, True])
def test_damaged_files_are_named(tmp_path, compressed):
    path = tmp_path / "arrays.npz"
    write_arrays(path, {"x": np.random.default_rng(0).normal(size=500)}, compressed)
    good = path.read_bytes()
    for bad in (good[:1000], good[:900] + bytes(40) + good[940:], b"no archive", b""):
        path.write_bytes(bad)
        with pytest.raises(HeatproofError, match=r"arrays\.npz is damaged"):
            read_arrays(path)
    np.save(tmp_path / "single.npy", np.ones(3))
    with pytest.raises(HeatproofError, match=r"single\.npy holds a single array"):
        read_arrays(tmp_path / "single.npy")
    with pytest.raises(HeatproofError, match=r"there is no file .*nowhere\.npz"):
        read_arrays(tmp_path / "nowhere.npz")


def test_pickles_are_not_read(tmp_path):
    np.savez(tmp_path / "evil.npz", x=np.array([Marker(tmp_path / "done")]))
    with pytest.raises(HeatproofError, match=r"evil\.npz is damaged.*allow_pickle=False"):
        read_arrays(tmp_path / "evil.npz")
    assert not (tmp_path / "done").exists()


def test_neither_numpy_nor_torch_is_imported_for_the_names():
    code = "import heatproof.arrays, sys; assert not {'numpy', 'torch'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
