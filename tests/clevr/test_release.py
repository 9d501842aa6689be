"""CLEVR-XAI by name, from a real server on this machine: a small world in the release's layout, packed as a zip."""

from __future__ import annotations

import functools
import hashlib
import json
import shutil
import stat
import threading
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from heatproof.benchmarks.clevr_xai import ClevrXai
from heatproof.clevr import open_dataset
from heatproof.clevr.ground_truth import KINDS, make_masks
from heatproof.clevr.release import PUBLISHED, Counts, default_dataset, fetch_release, release_folder, released_dataset
from heatproof.clevr.shipped import shipped_dataset
from heatproof.downloads import Download
from heatproof.errors import HeatproofError
from small_vqa import make_vqa

PICTURES = 3


class Quiet(SimpleHTTPRequestHandler):
    """Sends files, and the rest of a file to who has the beginning."""

    def do_GET(self) -> None:
        asked = self.headers.get("Range")
        if asked is None:
            super().do_GET()
            return
        body = Path(self.translate_path(self.path)).read_bytes()[int(asked.removeprefix("bytes=").removesuffix("-")) :]
        self.send_response(206)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *words: object) -> None:
        pass


@pytest.fixture(scope="module")
def packed(tmp_path_factory) -> tuple[Path, Counts]:
    """Three of the shipped scenes and their questions, laid out and named as the release has them."""
    folder = tmp_path_factory.mktemp("release")
    source, data = shipped_dataset(), folder / "CLEVR-XAI_v1.0"
    (data / "images").mkdir(parents=True)
    (data / "objects").mkdir()
    content = json.loads((source / "CLEVR_scenes.json").read_text(encoding="utf-8"))
    content["scenes"] = content["scenes"][:PICTURES]
    (data / "CLEVR-XAI_scenes.json").write_text(json.dumps(content), encoding="utf-8")
    names = {scene["image_filename"] for scene in content["scenes"]}
    for name in names:
        for part in ("images", "objects"):
            shutil.copy(source / part / name, data / part / name)
    for kind in KINDS:
        file = f"CLEVR-XAI_{kind}_questions.json"
        asked = json.loads((source / file).read_text(encoding="utf-8"))
        asked["questions"] = [q for q in asked["questions"] if q["image_filename"] in names]
        (data / file).write_text(json.dumps(asked), encoding="utf-8")
    made = open_dataset(data)
    make_masks(made, (32, 32), layout="release")
    counts = Counts(
        PICTURES,
        {name: len(made.questions(name)) for name in KINDS},
        {(name, kind): int(made.masks(name, kind).available.sum()) for name in KINDS for kind in KINDS[name]},
    )
    pack(folder / "CLEVR-XAI_v1.0.zip", data)
    return folder, counts


def pack(archive: Path, folder: Path, without: Path | None = None) -> None:
    with zipfile.ZipFile(archive, "w") as file:
        for path in sorted(folder.rglob("*")):
            if path.is_file() and path != without:
                file.write(path, path.relative_to(folder.parent))


@pytest.fixture
def wanted(packed, monkeypatch) -> Iterator[Download]:
    monkeypatch.setenv("no_proxy", "*")
    handler = functools.partial(Quiet, directory=str(packed[0]))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as http:
        threading.Thread(target=http.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{http.server_port}/CLEVR-XAI_v1.0.zip"
        yield Download("the test release", address, "", None, "none", "heatproof run clevr-xai --dataset DIR")
        http.shutdown()


def test_it_is_fetched_once_counted_and_found_by_name(packed, wanted):
    assert released_dataset() is None
    assert default_dataset(released=True) == shipped_dataset()
    folder = fetch_release(wanted, packed[1])
    assert folder == release_folder() / "CLEVR-XAI_v1.0" == released_dataset() == default_dataset(released=True)
    assert default_dataset(released=False) == shipped_dataset()
    assert len(open_dataset(folder).questions("complex")) == packed[1].questions["complex"]
    assert fetch_release(replace(wanted, address="http://127.0.0.1:1/CLEVR-XAI_v1.0.zip"), packed[1]) == folder


def test_the_paper_preset_needs_no_folder_then(packed, wanted):
    recipe = ClevrXai.from_preset("paper", model=make_vqa())
    assert recipe.is_imagined
    with pytest.raises(HeatproofError, match="heatproof fetch clevr-xai, or give its folder with --dataset"):
        recipe.open(0)
    fetch_release(wanted, packed[1])
    assert not recipe.is_imagined
    assert len(recipe.open(0).asked) == packed[1].questions["simple"]


def test_what_is_missing_is_counted_and_nothing_is_kept(packed, wanted, tmp_path):
    with pytest.raises(HeatproofError) as found:
        fetch_release(wanted)
    said = str(found.value)
    assert f"images: {PICTURES} pictures, published are 10,000" in said
    assert "complex questions: 30, published are 100,000" in said
    assert "published are 89,873" in said
    assert not release_folder().exists()
    assert sum(PUBLISHED.questions.values()) == 139_761


@pytest.mark.parametrize(
    ("without", "said"),
    [
        ("images/CLEVR_val_000001.png", r"images/CLEVR_val_000001.png: missing"),
        ("simple_questions.json", r"simple questions: 0, published are \d+"),
        ("single_object", r"zip: .*simple_questions_single_object is damaged.*\s+0.npy: missing"),
        ("union", r"zip: .*complex_questions_union is damaged.*\s+0.npy: missing"),
    ],
)
def test_one_missing_file_is_enough_to_refuse_it(packed, wanted, without, said):
    """An archive that lacks one picture, one mask, or one file of questions."""
    folder, counts = packed
    members = [path for path in sorted((folder / "CLEVR-XAI_v1.0").rglob("*")) if path.is_file()]
    left_out = next(path for path in members if without in path.as_posix())
    pack(folder / "partial.zip", folder / "CLEVR-XAI_v1.0", left_out)
    partial = replace(wanted, address=wanted.address.replace("CLEVR-XAI_v1.0", "partial"))
    with pytest.raises(HeatproofError, match=said) as refused:
        fetch_release(partial, counts)
    assert "partial.zip.sha256 beside it, and fetch it again" in str(refused.value)
    assert not release_folder().exists()


def test_a_download_that_broke_off_goes_on_and_its_hash_is_kept(packed, wanted):
    content = (packed[0] / "CLEVR-XAI_v1.0.zip").read_bytes()
    wanted.path.parent.mkdir(parents=True)
    wanted.unfinished.write_bytes(content[:5000])
    fetch_release(wanted, packed[1])
    assert wanted.path.read_bytes() == content
    assert wanted.seen.read_text(encoding="utf-8") == hashlib.sha256(content).hexdigest()


def test_a_link_is_refused(packed, wanted):
    with zipfile.ZipFile(packed[0] / "link.zip", "w") as file:
        link = zipfile.ZipInfo("CLEVR-XAI_v1.0/images")
        link.external_attr = (stat.S_IFLNK | 0o777) << 16
        file.writestr(link, "/")
    evil = replace(wanted, address=wanted.address.replace("CLEVR-XAI_v1.0", "link"))
    with pytest.raises(HeatproofError, match="leads out of the folder"):
        fetch_release(evil, packed[1])
    assert not release_folder().exists()


@pytest.mark.parametrize("name", ["../outside.txt", "/outside.txt"])
def test_a_name_that_leads_out_of_the_folder_is_refused(packed, wanted, name):
    with zipfile.ZipFile(packed[0] / "evil.zip", "w") as file:
        file.writestr(name, "x")
    evil = replace(wanted, address=wanted.address.replace("CLEVR-XAI_v1.0", "evil"))
    with pytest.raises(HeatproofError, match="leads out of the folder"):
        fetch_release(evil, packed[1])
    assert not (release_folder().parent / "outside.txt").exists()
    assert not release_folder().exists()


def test_a_page_instead_of_an_archive_is_named(packed, wanted):
    (packed[0] / "page.zip").write_text("<html>log in first</html>")
    page = replace(wanted, address=wanted.address.replace("CLEVR-XAI_v1.0", "page"))
    with pytest.raises(HeatproofError, match="no whole zip archive"):
        fetch_release(page, packed[1])
