"""Ray clusters of this machine: a head, and nodes that can be taken away."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from chaos.children import session


@contextmanager
def cluster(folder: Path, cores: int = 2) -> Iterator[str]:
    """A head with so many cores, for all commands that need a cluster; its address."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with started(folder / "head.txt", folder / "home", cores, "--head", "--port", str(port)):
        yield f"127.0.0.1:{port}"


@contextmanager
def node(folder: Path, address: str) -> Iterator[int]:
    """One more node with a core; its session, which `remove` ends."""
    with started(folder / "node.txt", folder / "home", 1, "--address", address) as leader:
        yield leader


@contextmanager
def started(said: Path, home: Path, cores: int, *words: str) -> Iterator[int]:
    """`ray start WORDS` until the end of the block, in a session of its own."""
    paths = [str(Path(__file__).parents[1] / "src"), *sys.path]
    told = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "HEATPROOF_HOME": str(home)}
    told["RAY_AUTH_MODE"] = "disabled"  # a token that an earlier cluster has left behind would be asked for
    command = [sys.executable, "-m", "ray.scripts.scripts", "start", "--block", "--num-cpus", str(cores), *words]
    further = ["--include-dashboard", "false"] if "--head" in words else []
    with said.open("w") as file:
        ray = subprocess.Popen([*command, *further], stdout=file, stderr=file, env=told, start_new_session=True)
    try:
        while "ray stop" not in said.read_text() and ray.poll() is None:
            time.sleep(0.2)
        if ray.poll() is not None:
            raise RuntimeError(said.read_text())
        yield ray.pid
    finally:
        remove(ray.pid)
        ray.wait()


def remove(leader: int) -> None:
    """Take a node away: all its processes at once, without a word."""
    for process in session(leader):
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)
