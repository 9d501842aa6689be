"""Files that others publish and that do not ship with Heatproof: fetched once, verified, kept in the cache folder."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from heatproof.errors import HeatproofError, unknown_name
from heatproof.progress import Progress, silent
from heatproof.workspace import workspace, writable

BLOCK = 1 << 16
ATTEMPTS = 4
"""How often a connection that breaks off is taken up again before we give up for now."""
FULL_HASH = 64
"""Digits of a SHA-256."""
TIMEOUT = 30
"""Seconds without an answer."""


@dataclass(frozen=True)
class Download:
    """A published file: where it is, how to know it, and what to do without a network.

    sha256  all of it, or its first digits; where nobody has published it, it is empty, and what is seen first is kept
    size    None where that is not known either
    """

    about: str
    address: str
    sha256: str
    size: int | None
    licence: str
    instead: str

    @property
    def file_name(self) -> str:
        return self.address.rpartition("/")[2]

    @property
    def path(self) -> Path:
        """Where it is kept once it is here."""
        return workspace("downloads", self.file_name)

    @property
    def unfinished(self) -> Path:
        """What an interrupted download leaves, to go on with."""
        return self.path.with_name(f"{self.file_name}.unfinished")

    @property
    def seen(self) -> Path:
        """Where the hash is kept that a file without a published one had at first."""
        return self.path.with_name(f"{self.file_name}.sha256")

    @property
    def known_hash(self) -> str:
        """What the file's hash must begin with; empty before anything was seen."""
        return self.sha256 or (self.seen.read_text(encoding="utf-8").strip() if self.seen.is_file() else "")


TORCHVISION = "https://download.pytorch.org/models/"
IMAGENET = {
    "alexnet": ("alexnet-owt-4df8aa71.pth", "AlexNet"),
    "vgg16": ("vgg16-397923af.pth", "VGG16"),
    "resnet18": ("resnet18-5c106cde.pth", "ResNet-18"),
}
"""torchvision's files, whose names end with the first eight digits of their hashes."""


def imagenet_weights(name: str) -> Download:
    file, title = IMAGENET[name]
    return Download(
        about=f"{title} trained on ImageNet (torchvision)",
        address=TORCHVISION + file,
        sha256=Path(file).stem.rpartition("-")[2],
        size=None,
        licence="BSD-3-Clause (torchvision)",
        instead=f"heatproof run focus --model {name} --weights FILE",
    )


downloads: Mapping[str, Download] = {
    "relation-network": Download(
        about="the Relation Network trained on CLEVR, weights of epoch 493 (mesnico/RelationNetworks-CLEVR)",
        address=(
            "https://raw.githubusercontent.com/mesnico/RelationNetworks-CLEVR/f6d1511af63aeff6ccf8c0ceabc2a5194c3ee78d"
            "/pretrained_models/original_fp_epoch_493.pth"
        ),
        sha256="0e1d1fcb0ed68de9f7fbf5fb0b280174ef043b281448af2e4f0ac4ac0e95b13d",
        size=1_944_821,
        licence="MIT",
        instead="heatproof run clevr-xai --weights FILE",
    ),
    "clevr-xai": Download(
        about="CLEVR-XAI as released: 10,000 pictures, 139,761 questions and their masks (ahmedmagdiosman/clevr-xai)",
        address="https://github.com/ahmedmagdiosman/clevr-xai/releases/download/v1.0/CLEVR-XAI_v1.0.zip",
        sha256="",
        size=None,
        licence="CC BY 4.0, see the project's page",
        instead="heatproof run clevr-xai --dataset DIR",
    ),
    **{name: imagenet_weights(name) for name in IMAGENET},
}


def fetch(name: str, progress: Progress = silent) -> Path:
    """Download the file of this name, unless it is in the cache; go on where an earlier download broke off."""
    if name not in downloads:
        raise unknown_name("download", name, downloads)
    return fetch_file(downloads[name], progress)


def fetch_file(wanted: Download, progress: Progress = silent) -> Path:
    """The file in the cache, downloaded if need be. A file with another hash is an error and is not kept."""
    if is_genuine(wanted.path, wanted):
        return wanted.path
    with writable(wanted.path):
        wanted.path.parent.mkdir(parents=True, exist_ok=True)
        for _ in range(1 + ATTEMPTS):
            if read_on(wanted, progress):
                break
        else:
            have = size_of(wanted.unfinished)
            of_all = "" if wanted.size is None else f" of {wanted.size:,}"
            raise HeatproofError(
                f"the connection broke off after {have:,}{of_all} bytes of {wanted.address}."
                " They are kept: type the same command again to go on."
            )
        if not is_genuine(wanted.unfinished, wanted):
            begins = "does not begin with" if len(wanted.known_hash) < FULL_HASH else "is not"
            raise another_file(wanted, f"its SHA-256 {begins} {wanted.known_hash}")
        if not wanted.known_hash:
            wanted.seen.write_text(sha256_of(wanted.unfinished), encoding="utf-8")
        wanted.unfinished.replace(wanted.path)
    return wanted.path


def fetched(name: str) -> Path:
    """The file of this name in the cache; an error that names the command if it is not there or is damaged."""
    wanted = downloads[name]
    if not is_genuine(wanted.path, wanted):
        said = "damaged" if wanted.path.exists() else "not downloaded yet"
        raise HeatproofError(
            f"{name} ({wanted.path}) is {said}; run: heatproof fetch {name} (without a network: {wanted.instead})"
        )
    return wanted.path


def read_on(wanted: Download, progress: Progress) -> bool:
    """One connection: append to the unfinished file what is missing of it; whether all of it is here."""
    from http.client import HTTPException
    from urllib.error import HTTPError
    from urllib.request import Request, urlopen

    have = size_of(wanted.unfinished)
    if wanted.size is not None and have >= wanted.size:
        return True
    request = Request(wanted.address, headers={"User-Agent": "heatproof"})
    if have:
        request.add_header("Range", f"bytes={have}-")
    try:
        answer = urlopen(request, timeout=TIMEOUT)  # addresses are ours, files are compared with a checksum  # nosec B310
    except HTTPError as problem:
        with problem:
            if problem.code == 416 and wanted.size is None:  # all of it is here; its hash tells whether it is it
                return True
            if problem.code == 416:  # the server's file is shorter than what we have of it
                raise another_file(wanted, "it is too short") from None
            raise HeatproofError(unavailable(wanted, f"the server answers {problem.code} {problem.reason}")) from None
    except (HTTPException, OSError) as problem:
        raise HeatproofError(unavailable(wanted, str(getattr(problem, "reason", problem)))) from None
    with answer:
        if answer.status != 206:  # a server without ranges sends everything again
            have = 0
        announced = answer.headers.get("Content-Length")
        total = have + int(announced) if announced is not None and announced.isdecimal() else wanted.size
        if wanted.size not in (None, total):
            raise another_file(wanted, f"it has {total:,} bytes, not {wanted.size:,}")
        ended = False
        with wanted.unfinished.open("ab" if have else "wb") as file:
            while total is None or have <= total:
                try:
                    block = answer.read(BLOCK)
                except (HTTPException, OSError):  # broke off; the next connection goes on from here
                    break
                if not block:
                    ended = True
                    break
                file.write(block)
                have += len(block)
                progress(f"downloading: {wanted.file_name}", min(have, total or have), total or have)
    return ended if total is None else have >= total


def another_file(wanted: Download, why: str) -> HeatproofError:
    """Forget what came, and say so."""
    wanted.unfinished.unlink(missing_ok=True)
    return HeatproofError(
        f"what {wanted.address} sends is not {wanted.about}: {why}. It was not kept."
        f" Try again, or get the file elsewhere and give it: {wanted.instead}"
    )


def unavailable(wanted: Download, why: str) -> str:
    size = "" if wanted.size is None else f" ({wanted.size:,} bytes)"
    return (
        f"{wanted.address} cannot be downloaded ({why}). Without a network, get {wanted.file_name}{size} elsewhere and"
        f" give it: {wanted.instead}"
    )


def size_of(path: Path) -> int:
    return path.stat().st_size if path.is_file() else 0


def is_genuine(path: Path, wanted: Download) -> bool:
    """Whether the file is there and is the one that was published, or seen first."""
    if not path.is_file() or wanted.size not in (None, size_of(path)):
        return False
    return not wanted.known_hash or sha256_of(path).startswith(wanted.known_hash)


def sha256_of(path: Path) -> str:
    with path.open("rb") as file:
        digest = hashlib.sha256()
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()
