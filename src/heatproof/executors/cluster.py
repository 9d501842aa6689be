"""Tasks on the machines of a Ray cluster. Results come back to this process, so machines need no common disk."""

from __future__ import annotations

import os
import platform
import shutil
import socket
import tempfile
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from heatproof.errors import HeatproofError
from heatproof.executors.base import Deliver, Enough, Failure, Usage, Watch, Work, attempt
from heatproof.executors.memory import most_memory
from heatproof.executors.packing import Packed, pack, unpack
from heatproof.executors.set_up import ONE_THREAD, keep_memory, one_thread
from heatproof.lazy import np

LOOKS = 0.5
"""Seconds between two looks at the cluster."""
RETRIES = 3
"""Times that a task is done again whose machine or process was lost."""
AHEAD = 2
"""Tasks under way per core: one that is done, and one that waits at its door. More would only fill memory."""


@dataclass(frozen=True)
class Cluster:
    """The Ray cluster at `address`: auto for the one that this machine belongs to, None to start one here if need be.

    jobs  tasks at once; by default as many as the cluster has cores, also those of machines that join later
    gpus  how many GPUs a task takes; Ray shows it no others
    ship  folders whose files are sent along, for machines that do not have them at the same path
    """

    address: str | None = None
    jobs: int | None = None
    ship: Sequence[Path] = ()
    gpus: int = 0

    def run(self, work: Work, tasks: Sequence[Any], deliver: Deliver, watch: Watch) -> Usage:
        ray = need_ray()
        packed = pack((work, list(tasks)), self.ship)
        packed = replace(packed, arrays=[np.frombuffer(array, np.uint8) for array in packed.arrays])
        with connected(ray, self.address):
            name, reference = packed.name, ray.put(packed)
            remote = ray.remote(num_cpus=1, num_gpus=self.gpus, max_retries=RETRIES)(compute)
            waiting, running = deque(range(len(tasks))), dict[Any, int]()
            seconds, memory = dict[str, float](), dict[str, int]()
            try:
                while waiting or running:
                    cores = self.jobs or max(1, int(ray.cluster_resources().get("CPU", 1)))
                    while waiting and len(running) < AHEAD * cores:
                        # The packed work stands in a list, so that Ray hands over the reference and not the whole.
                        task = waiting.popleft()
                        running[remote.remote([reference], name, task)] = task
                    finished, _ = ray.wait(list(running), timeout=LOOKS)
                    for one in finished:
                        place = running.pop(one)
                        try:
                            outcome, process, cpu, most = ray.get(one)
                        except ray.exceptions.RayError as problem:
                            deliver(place, lost(problem))
                            continue
                        seconds[process], memory[process] = cpu, most
                        deliver(place, outcome)
                    watch(dict.fromkeys(list(running.values())[:cores], 0.0))
            except Enough:
                for one in running:
                    ray.cancel(one, force=True)  # an interrupted process would be half of what the next task needs
        return Usage(sum(seconds.values()), sum(memory.values()) + most_memory(), 1 + len(seconds))


def need_ray() -> Any:
    try:
        import ray
    except ImportError as problem:
        raise HeatproofError("--engine ray needs the package ray: pip install 'heatproof[ray]'.") from problem
    return ray


@contextmanager
def connected(ray: Any, address: str | None) -> Iterator[None]:
    """Within a connection to the cluster, or to the one that this process is connected to already."""
    if ray.is_initialized():
        yield
        return
    try:
        require_answer(address)
        ray.init(address=address, log_to_driver=False, logging_level="error")
    except (OSError, RuntimeError, ValueError) as problem:
        why = str(problem).splitlines()[0].rstrip(".")
        raise HeatproofError(
            f"there is no Ray cluster at {address or 'this machine'} ({why}). Start one with 'ray start --head', or"
            " leave --address out to start one for this run. One that wants a token gets it where RAY_AUTH_MODE=token."
        ) from problem
    try:
        yield
    finally:
        ray.shutdown()


def require_answer(address: str | None) -> None:
    """Somebody must answer at HOST:PORT; Ray itself would try for minutes."""
    host, _, port = (address or "").removeprefix("ray://").rpartition(":")
    if host and port.isdecimal():
        socket.create_connection((host, int(port)), timeout=5).close()


def lost(problem: Exception) -> Failure:
    """Why a task did not come back: its machine or process was lost too often, or it could not begin."""
    return Failure(f"{type(problem).__name__} on the cluster: {str(problem).strip().splitlines()[-1]}", str(problem))


_opened: dict[str, tuple[Work, Sequence[Any]]] = {}
"""What this process works on."""
_locks: list[Any] = []


def compute(reference: Sequence[Any], name: str, task: int) -> tuple[Any, str, float, int]:
    """On a machine of the cluster: what a task gives, the process that did it, its CPU seconds and most memory."""
    if name not in _opened:
        import ray

        os.environ.update(ONE_THREAD)  # for what is loaded from here on
        keep_memory()
        _opened.clear()
        _opened[name] = unpack(write_once(ray.get(reference[0])))
    work, tasks = _opened[name]
    with one_thread():
        outcome = attempt(work.compute, tasks[task])
    return outcome, f"{platform.node()}-{os.getpid()}", time.process_time(), most_memory()


def write_once(packed: Packed) -> Path:
    """Packed work as files of this machine, which all its processes map; what no process holds any more is removed."""
    folder = Path(tempfile.gettempdir()) / "heatproof-cluster"
    folder.mkdir(exist_ok=True)
    for other in folder.iterdir():
        if other.name != packed.name and other.is_dir() and hold(other, alone=True):
            shutil.rmtree(other, ignore_errors=True)
    (folder / packed.name).mkdir(exist_ok=True)
    hold(folder / packed.name)
    return packed.write(folder)


def hold(folder: Path, alone: bool = False) -> bool:
    """Lock a folder for as long as this process lives: beside others, or `alone` if nobody else holds it."""
    import fcntl  # Ray's machines run Linux

    lock = (folder / "lock").open("w")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB if alone else fcntl.LOCK_SH)
    except OSError:
        lock.close()
        return False
    _locks.append(lock)
    return True
