"""Three ways to do tasks give the same; what fails or dies costs its own task only."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from executors.work import Fragile, Holder, Hungry, Leaving, Poison, Square
from heatproof.errors import HeatproofError
from heatproof.executors import CannotSendError, Executor, Failure
from heatproof.executors.base import Enough
from heatproof.executors.choice import Execution
from heatproof.executors.in_process import InProcess
from heatproof.executors.interrupts import interrupts_held
from heatproof.executors.processes import Processes, Shift, shared_folder
from running import is_running, wait_for

HERE = Path(__file__).parent
LOCAL = [InProcess(), Processes(1), Processes(2)]


def outcomes(executor: Executor, work: Any, tasks: list[Any]) -> dict[int, Any]:
    found: dict[int, Any] = {}

    def deliver(place: int, outcome: Any) -> None:
        assert place not in found
        found[place] = outcome

    executor.run(work, tasks, deliver, lambda running: None)
    return found


def until(count: int, executor: Executor, tasks: list[Any]) -> list[Any]:
    """What is delivered until so many are enough."""
    found: list[Any] = []

    def deliver(place: int, outcome: Any) -> None:
        found.append(outcome)
        if len(found) == count:
            raise Enough

    assert executor.run(Square(), tasks, deliver, lambda running: None).processes > 0
    return found


@pytest.mark.filterwarnings("error::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.parametrize("executor", LOCAL, ids=str)
def test_enough_is_enough(executor):
    assert len(until(3, executor, list(range(40)))) == 3


def test_what_waits_when_workers_are_stopped_is_dropped_in_silence(tmp_path, monkeypatch):
    """loky's thread ends with a KeyError otherwise, which Python prints in the middle of our words."""
    said: list[Any] = []
    monkeypatch.setattr(threading, "excepthook", said.append)
    shift = Shift(1, tmp_path, tmp_path / "fractions.npy", None, lambda place, outcome: None, lambda running: None)
    with suppress(KeyboardInterrupt), shift.workers(1) as pool:
        for _ in range(20):  # more than workers are given in advance
            pool.submit(time.sleep, 0.05)
        raise KeyboardInterrupt
    assert not said


@pytest.mark.parametrize("executor", LOCAL, ids=str)
def test_every_task_is_delivered_once(executor):
    assert outcomes(executor, Square(), [1.0, 2.0, 3.0, 4.0, 5.0]) == {0: 1, 1: 4, 2: 9, 3: 16, 4: 25}
    assert outcomes(executor, Square(), []) == {}


@pytest.mark.parametrize("executor", [InProcess(), Processes(2)], ids=str)
def test_what_fails_leaves_the_others_alone(executor):
    found = outcomes(executor, Fragile(), [1, 2, 3, 4])
    assert (found[0], found[3]) == (1, 4)
    assert found[1].message == "two is not wanted."
    assert found[2].message == "ValueError: three"
    assert 'raise ValueError("three")' in found[2].details


@pytest.mark.parametrize("executor", [InProcess(), Processes(2)], ids=str)
def test_code_that_ends_the_process_or_has_no_words_costs_its_own_task_only(executor):
    found = outcomes(executor, Leaving(), [1, 2, 3, 4])
    assert (found[0], found[3]) == (1, 4)
    assert (found[1].message, found[2].message) == ("SystemExit: 0", "WordlessError, whose message cannot be had")


def test_a_process_that_dies_costs_its_own_task_only():
    found = outcomes(Processes(2), Fragile(), [1, 5, 4, 6, 7, 8])
    assert {place: outcome for place, outcome in found.items() if place != 1} == {0: 1, 2: 4, 3: 6, 4: 7, 5: 8}
    assert isinstance(found[1], Failure)
    assert "died, twice" in found[1].message


def test_work_that_no_process_survives_comes_to_an_end():
    found = outcomes(Processes(2), Poison(), [1, 2])
    assert ["died, twice" in outcome.message for outcome in found.values()] == [True, True]


def test_a_task_whose_process_died_once_is_done_again(tmp_path):
    assert outcomes(Processes(2), Fragile(tmp_path / "once"), [1, 5, 4, 6]) == {0: 1, 1: 5, 2: 4, 3: 6}


def test_a_task_that_lacks_memory_is_done_again_alone_and_then_recorded(tmp_path):
    found = outcomes(Processes(2), Hungry(tmp_path), [1, 2, 3, 5, 6])
    assert {place: found[place] for place in (0, 1, 3, 4)} == {0: 1, 1: 2, 3: 5, 4: 6}
    assert found[2].lacked_memory
    assert "Unable to allocate" in found[2].message
    tries = {task: len(list(tmp_path.glob(f"{task}-*"))) for task in (1, 2, 3)}
    assert tries == {1: 1, 2: 2, 3: 2}


@pytest.mark.parametrize("executor", [InProcess(), Processes(2)], ids=str)
def test_a_panic_of_a_library_is_a_failure(executor, tmp_path):
    """Polars' is no Exception."""
    found = outcomes(executor, Hungry(tmp_path), [1, 4])
    assert (found[0], found[1].message) == (1, "PanicException: not thought of")


def test_workers_share_arrays():
    """Both are pages of one file, and yet may be written to; order in memory is kept."""
    array = np.arange(100_000.0)
    tensor = torch.rand(8, 16, 20, 20).to(memory_format=torch.channels_last)
    found = outcomes(Processes(2), Holder(array, tensor), [7, 8, 9, 10, 11, 12])
    for told in found.values():
        assert told["files"]["array"] == told["files"]["tensor"]
        assert "heatproof-" in told["files"]["array"]
        assert told["sums"] == (array[1:].sum(), float(tensor.sum()))
        assert told["strides"] == tensor.stride()
        assert told["threads"] == 1
    assert array[0] == 0


def test_progress_is_seen_within_tasks():
    seen: list[Mapping[int, float]] = []
    InProcess().run(Square(), [1.0], lambda place, outcome: None, seen.append)
    assert seen == [{0: 0.0}, {0: 0.5}]


def test_one_thread_in_this_process_too():
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        found = outcomes(InProcess(), Holder(np.arange(10.0), torch.zeros(3)), [1])
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(threads)
    assert found[0]["threads"] == 1


def test_what_cannot_be_sent_is_told():
    work = Holder((number for number in range(3)), None)
    with pytest.raises(CannotSendError, match=r"cannot be sent to other processes .*--engine local"):
        Processes(2).run(work, [1], lambda place, outcome: None, lambda running: None)


def start_and_interrupt() -> None:
    """Start a process and interrupt both: it must live on."""
    with interrupts_held():
        command = [sys.executable, "-c", "import time; print('up', flush=True); time.sleep(60)"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
            assert child.stdout is not None
            assert child.stdout.readline() == "up\n"
            for process in (child.pid, os.getpid()):
                os.kill(process, signal.SIGINT)
            time.sleep(0.2)
            assert child.poll() is None
            child.kill()


def test_an_interrupt_while_workers_start_is_heard_by_their_parent_alone():
    with pytest.raises(KeyboardInterrupt):
        start_and_interrupt()


def test_workers_leave_interrupts_to_their_parent():
    """Reference: the signal itself. Workers of a fresh process, where Python starts its tracker of resources too."""
    code = (
        "from executors.test_executors import Processes, outcomes; from executors.work import Interrupted;"
        "from heatproof.executors.set_up import FORKS;"
        "assert outcomes(Processes(2), Interrupted(), [1, 2, 3]) == dict.fromkeys(range(3), FORKS)"
    )
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(HERE.parent), *sys.path])}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr


SCRIPT = """
import sys
from contextlib import suppress
from pathlib import Path
from executors.work import Sleeper
from heatproof.executors.processes import Processes
Processes(2).run(Sleeper(Path(sys.argv[1])), [60, 60, 60], lambda *args: None, lambda running: None)
"""


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT], ids=["killed", "Ctrl-C"])
def test_no_worker_outlives_its_parent(tmp_path, how):
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(HERE.parent), *sys.path])}
    parent = subprocess.Popen(
        [sys.executable, "-c", SCRIPT, str(tmp_path)],
        env=environment,
        start_new_session=True,
        stderr=subprocess.PIPE,
        text=True,
    )
    wait_for(lambda: len(list(tmp_path.iterdir())) == 2, 60)
    workers = [int(path.name) for path in tmp_path.iterdir()]
    if how == signal.SIGKILL:
        parent.kill()
    else:
        os.killpg(parent.pid, signal.SIGINT)  # as a terminal does: every process gets it
    wait_for(lambda: not any(map(is_running, workers)), 5)
    said = parent.communicate(timeout=10)[1]
    assert said.count("Traceback") == (0 if how == signal.SIGKILL else 1), said  # the parent's own
    # What a killed parent left behind goes when the next begins.
    with shared_folder():
        pass
    assert not list(Path(tempfile.gettempdir()).glob(f"heatproof-{parent.pid}-*"))


def test_folders_of_others_in_the_temporary_one_are_left_alone(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    others = {"heatproof-none-shared-x", "heatproof--shared-", f"heatproof-{os.getpid()}-shared-mine"}
    for name in {*others, f"heatproof-{2**40}-shared-of-nobody"}:
        (tmp_path / name).mkdir()
    with shared_folder() as folder:
        assert {path.name for path in tmp_path.iterdir()} == {*others, folder.name}


@pytest.mark.parametrize(
    ("wish", "words"),
    [
        ({"engine": "threads"}, "unknown engine 'threads'. Known: auto, local, processes, ray"),
        ({"jobs": 0}, "jobs must be"),
        ({"address": "auto"}, "give engine ray"),
    ],
)
def test_impossible_wishes_are_told(wish, words):
    with pytest.raises(HeatproofError) as problem:
        Execution(**wish)
    assert words in str(problem.value)


def test_the_work_decides_where_it_is_done():
    choose = Execution(jobs=2).executor
    assert isinstance(choose(lambda: 1.0), InProcess)
    assert not isinstance(choose(lambda: 60.0), InProcess)
    assert isinstance(Execution(jobs=1).executor(lambda: 1e6), InProcess)
    assert isinstance(Execution("processes", 2).executor(lambda: 0.0), Processes)
    assert isinstance(Execution("local", 2).executor(lambda: 1e6), InProcess)
