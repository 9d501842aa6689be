"""Downloads, from a real server on this machine: whole, broken off, wrong, refused, absent."""

from __future__ import annotations

import hashlib
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest
import torch

from heatproof import downloads
from heatproof.benchmarks.clevr_xai.benchmark import open_network
from heatproof.downloads import ATTEMPTS, Download, fetch_file, fetched
from heatproof.errors import HeatproofError
from heatproof.models.classifiers import load_classifier
from heatproof.models.image_classifiers import make_classifier

CONTENT = np.random.default_rng(0).bytes(300_000)


@dataclass
class Server:
    """Sends CONTENT. Its next answers break off after `cuts` bytes; `asked` are the ranges that it was asked for."""

    address: str = ""
    content: bytes = CONTENT
    cuts: list[int] = field(default_factory=list)
    ranges: bool = True
    announces: bool = True
    status: int = 200
    length: str = ""
    asked: list[str | None] = field(default_factory=list)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("no_proxy", "*")
    state = Server()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            wanted = self.headers.get("Range")
            state.asked.append(wanted)
            if state.status != 200:
                self.send_error(state.status)
                return
            start = int(wanted.removeprefix("bytes=").removesuffix("-")) if wanted and state.ranges else 0
            if start and start >= len(state.content):
                self.send_error(416)
                return
            body = state.content[start:]
            self.send_response(206 if start else 200)
            if state.announces:
                self.send_header("Content-Length", state.length or str(len(body)))
            self.end_headers()
            with suppress(ConnectionError):  # who has seen enough hangs up
                self.wfile.write(body[: state.cuts.pop(0)] if state.cuts else body)

        def log_message(self, *words: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
        state.address = f"http://127.0.0.1:{http.server_port}/weights.bin"
        threading.Thread(target=http.serve_forever, daemon=True).start()
        yield state
        http.shutdown()


@pytest.fixture
def wanted(server: Server) -> Download:
    return Download(
        about="the test file",
        address=server.address,
        sha256=hashlib.sha256(CONTENT).hexdigest(),
        size=len(CONTENT),
        licence="none",
        instead="heatproof run --weights FILE",
    )


def test_a_whole_download_is_kept_and_not_repeated(server, wanted):
    shown: list[tuple[float, float]] = []
    path = fetch_file(wanted, lambda task, done, total: shown.append((done, total)))
    assert path.read_bytes() == CONTENT
    assert path.is_relative_to(os.environ["HEATPROOF_HOME"])
    assert shown[-1] == (len(CONTENT), len(CONTENT))
    assert [entry.name for entry in path.parent.iterdir()] == ["weights.bin"]
    assert fetch_file(wanted) == path
    assert server.asked == [None]


def test_the_users_cache_folder_is_respected(server, wanted, tmp_path, monkeypatch):
    if not sys.platform.startswith("linux"):
        pytest.skip("XDG_CACHE_HOME is Linux's")
    monkeypatch.delenv("HEATPROOF_HOME")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert fetch_file(wanted) == tmp_path / "heatproof" / "downloads" / "weights.bin"


@pytest.mark.parametrize("length", ["many", "-5", "1e3", "\xb2"])
def test_a_length_that_is_no_number_is_not_gone_by(server, wanted, length):
    server.length = length
    assert fetch_file(wanted).read_bytes() == CONTENT


@pytest.mark.parametrize("announces", [True, False])
def test_a_connection_that_breaks_off_is_taken_up_where_it_was(server, wanted, announces):
    server.cuts, server.announces = [100_000, 50_000], announces
    assert fetch_file(wanted).read_bytes() == CONTENT
    assert server.asked == [None, "bytes=100000-", "bytes=150000-"]


def test_a_later_command_goes_on(server, wanted):
    server.cuts = [10_000] * (1 + ATTEMPTS)
    have = 10_000 * (1 + ATTEMPTS)
    with pytest.raises(HeatproofError, match=f"broke off after {have:,} of 300,000 bytes.*again to go on"):
        fetch_file(wanted)
    assert not wanted.path.exists()
    assert fetch_file(wanted).read_bytes() == CONTENT
    assert server.asked[-1] == f"bytes={have}-"


def test_a_server_without_ranges_sends_everything_again(server, wanted):
    server.cuts, server.ranges = [100_000], False
    assert fetch_file(wanted).read_bytes() == CONTENT
    assert len(server.asked) == 2


@pytest.mark.parametrize(
    ("sent", "announces", "message"),
    [
        (CONTENT[:-1] + b"x", True, "SHA-256 is not"),
        (b"<html>log in first</html>", True, "it has 25 bytes, not 300,000"),
        (CONTENT + CONTENT, False, "SHA-256 is not"),
    ],
    ids=["one byte", "a page", "too long"],
)
def test_another_file_is_an_error_and_is_not_kept(server, wanted, sent, announces, message):
    server.content, server.announces = sent, announces
    with pytest.raises(HeatproofError, match=rf"{message}.*not kept.*--weights FILE"):
        fetch_file(wanted)
    assert list(wanted.path.parent.iterdir()) == []


def test_a_file_that_shrank_is_forgotten(server, wanted):
    wanted.path.parent.mkdir(parents=True)
    wanted.unfinished.write_bytes(CONTENT[:1000])
    server.content = CONTENT[:500]
    with pytest.raises(HeatproofError, match="too short"):
        fetch_file(wanted)
    assert not wanted.unfinished.exists()


def test_a_damaged_file_in_the_cache_is_replaced(server, wanted):
    wanted.path.parent.mkdir(parents=True)
    wanted.path.write_bytes(CONTENT[:-1] + b"x")
    assert fetch_file(wanted).read_bytes() == CONTENT


@pytest.mark.parametrize("status", [404, 500])
def test_a_server_that_refuses_is_named(server, wanted, status):
    server.status = status
    with pytest.raises(HeatproofError, match=f"answers {status} .*--weights FILE"):
        fetch_file(wanted)


def test_no_connection_says_what_to_give_instead(wanted):
    with socket.socket() as free:  # bound but not listening: nobody answers there
        free.bind(("127.0.0.1", 0))
        absent = replace(wanted, address=f"http://127.0.0.1:{free.getsockname()[1]}/weights.bin")
        with pytest.raises(HeatproofError, match=r"cannot be downloaded \(.*refused.*--weights FILE"):
            fetch_file(absent)


def test_a_cache_that_cannot_be_written_is_named(server, wanted, tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("HEATPROOF_HOME", str(tmp_path / "file"))
    with pytest.raises(HeatproofError, match="cannot write"):
        fetch_file(wanted)


@pytest.mark.parametrize("announces", [True, False])
def test_a_file_that_nobody_knows_the_hash_of_is_known_by_what_was_seen_first(server, wanted, announces):
    unknown = replace(wanted, sha256="", size=None)
    server.announces, server.cuts = announces, [100_000] if announces else []
    assert fetch_file(unknown).read_bytes() == CONTENT
    assert unknown.seen.read_text(encoding="utf-8") == hashlib.sha256(CONTENT).hexdigest()
    unknown.path.write_bytes(CONTENT[:-1] + b"x")  # damaged here: fetched again
    assert fetch_file(unknown).read_bytes() == CONTENT
    unknown.path.unlink()
    server.content = CONTENT[::-1]  # another one there: refused
    with pytest.raises(HeatproofError, match=r"SHA-256 is not .*not kept"):
        fetch_file(unknown)


def test_the_first_digits_of_a_hash_are_enough_to_refuse_another_file(server, wanted):
    """As torchvision's files have them in their names."""
    right = replace(wanted, sha256=wanted.sha256[:8], size=None)
    assert fetch_file(right).read_bytes() == CONTENT
    wrong = replace(right, address=server.address.replace("weights", "others"), sha256="00000000")
    with pytest.raises(HeatproofError, match="does not begin with 00000000"):
        fetch_file(wrong)
    for name in ("alexnet", "vgg16", "resnet18"):
        known = downloads.downloads[name]
        assert known.file_name.removesuffix(".pth").endswith(f"-{known.sha256}")
        assert len(known.sha256) == 8


def test_weights_by_name(server, monkeypatch, tmp_path):
    """A real ResNet-18 with random weights, served as torchvision's file is; without it, one sentence."""
    with pytest.raises(HeatproofError, match=r"not downloaded yet; run: heatproof fetch alexnet .*--weights FILE"):
        load_classifier("alexnet", Path("imagenet"))
    with pytest.raises(HeatproofError, match="--weights imagenet is for alexnet, vgg16, resnet18"):
        load_classifier("vgg16_bn", Path("imagenet"))
    network = make_classifier("resnet18", 3)
    torch.save(network.state_dict(), tmp_path / "weights.pth")
    server.content = (tmp_path / "weights.pth").read_bytes()
    known = replace(
        downloads.downloads["resnet18"],
        address=server.address.replace(".bin", ".pth"),
        sha256=hashlib.sha256(server.content).hexdigest()[:8],
    )
    monkeypatch.setattr(downloads, "downloads", {**downloads.downloads, "resnet18": known})
    downloads.fetch("resnet18")
    loaded = load_classifier("resnet18", Path("imagenet")).module
    assert all(torch.equal(value, loaded.state_dict()[name]) for name, value in network.state_dict().items())


def test_the_published_checkpoint_is_the_one_we_know(shared_data):
    """Size and hash against the real file."""
    content = shared_data("relation_network/original_fp_epoch_493.pth").read_bytes()
    known = downloads.downloads["relation-network"]
    assert (known.size, known.sha256) == (len(content), hashlib.sha256(content).hexdigest())


def test_a_network_that_is_missing_or_damaged_is_named_by_its_download():
    with pytest.raises(HeatproofError, match="not downloaded yet; run: heatproof fetch relation-network"):
        open_network("relation-network", None)
    path = downloads.downloads["relation-network"].path
    path.parent.mkdir(parents=True)
    path.write_bytes(b"half of it")
    with pytest.raises(HeatproofError, match="damaged; run: heatproof fetch"):
        fetched("relation-network")


def test_the_network_is_opened_by_its_name(shared_data):
    path = downloads.downloads["relation-network"].path
    path.parent.mkdir(parents=True)
    path.write_bytes(shared_data("relation_network/original_fp_epoch_493.pth").read_bytes())
    assert open_network("relation-network", None).name == "relation_network"


def test_the_command_without_a_network():
    """A proxy that nobody answers at stands for no network."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        environment = {name: value for name, value in os.environ.items() if name.lower() != "no_proxy"}
        environment |= {"https_proxy": f"http://127.0.0.1:{free.getsockname()[1]}"}
        command = [sys.executable, "-c", "from heatproof.cli import main; main()", "fetch"]
        result = subprocess.run([*command, "relation-network"], capture_output=True, text=True, env=environment)
        assert result.returncode == 2
        assert "Traceback" not in result.stderr
        assert "--weights FILE" in result.stderr
        wrong = subprocess.run([*command, "relation-net"], capture_output=True, text=True, env=environment)
        assert (wrong.returncode, "Did you mean 'relation-network'" in wrong.stderr) == (2, True)
