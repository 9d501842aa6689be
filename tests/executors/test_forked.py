"""Workers are forked from a process that has loaded the libraries once."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from executors.work import Asked
from heatproof.executors.processes import Processes
from heatproof.executors.set_up import FORKS, MAKER, ONE_THREAD
from heatproof.executors.threads import each, in_turn, side_by_side
from running import is_running, wait_for

pytestmark = pytest.mark.skipif(not FORKS, reason="workers are forked on Linux alone")

SCRIPT = """
import resource, sys
from executors.work import Burner
from heatproof.executors.processes import Processes
print("script")
Processes(1).run(Burner(), [0.5], lambda place, outcome: None, lambda running: None)
"""


def asked(*questions: str, jobs: int = 1) -> list[object]:
    """What a worker answers."""
    found: dict[int, object] = {}
    Processes(jobs).run(Asked(), list(questions), found.__setitem__, lambda running: None)
    return [found[place] for place in range(len(questions))]


def test_the_process_that_workers_are_forked_from_has_one_thread():
    """More could hold a lock when it is forked, which nobody would ever open again."""
    from heatproof.executors.forked import TO_EXPLAIN, ForkedContext, server, start_server

    start_server(TO_EXPLAIN)
    (parent,) = asked("parent")
    assert [parent] == server()
    assert len(list(Path(f"/proc/{parent}/task").iterdir())) == 1
    assert ForkedContext().get_start_method() == "forkserver"


def test_a_worker_has_its_parents_place_and_one_thread(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    place, threads = asked("place", "threads")
    assert place == str(tmp_path)
    assert threads == ONE_THREAD


def test_a_worker_looks_for_garbage_but_not_among_what_was_loaded_for_it():
    """Torch and what else is loaded are some hundred thousand objects."""
    ((is_on, left_alone),) = asked("garbage")
    assert is_on
    assert left_alone > 100_000


def test_what_workers_took_counts_and_the_script_is_not_run_again():
    """Reference: the system's own account of the process and of its children that it waited for."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    said = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        cwd=Path(__file__).parents[1],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert said.split() == ["script"]
    assert after.ru_utime - before.ru_utime > 0.5


LOADS_FOR_LONG = """
import signal
from heatproof.executors.forked import server, start_server
start_server(["slow_to_load"])
print(*server(), flush=True)
signal.pause()
"""


def test_it_ends_with_its_parent_while_it_is_loading(tmp_path):
    """Loading takes seconds; a parent that is killed meanwhile leaves nobody behind."""
    (tmp_path / "slow_to_load.py").write_text(
        f"import pathlib, time\npathlib.Path({str(tmp_path / 'loading')!r}).touch()\ntime.sleep(60)\n"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", LOADS_FOR_LONG],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, [str(tmp_path), *sys.path]))},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert parent.stdout is not None
    loading = int(parent.stdout.readline())
    wait_for((tmp_path / "loading").exists, 20)
    parent.kill()
    parent.wait()
    wait_for(lambda: not is_running(loading), 20)


def test_it_ends_at_once_where_its_parent_is_gone_already(monkeypatch):
    from heatproof.executors.forked import FIRST

    monkeypatch.setenv(MAKER, "1")
    done = subprocess.run([sys.executable, "-c", f"import {FIRST}; print('went on')"], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_threads_side_by_side_keep_the_order():
    names = set()

    def noted(item: int) -> int:
        names.add(threading.current_thread().name)
        barrier.wait()
        return 2 * item

    barrier = threading.Barrier(2, timeout=10)
    with side_by_side(2):
        assert each(noted, range(4)) == [0, 2, 4, 6]
        assert list(in_turn(noted, iter(range(4)))) == [0, 2, 4, 6]
    assert len(names) == 4
    for function in (each, in_turn):
        assert list(function(lambda item: threading.current_thread(), [1])) == [threading.current_thread()]


def test_items_are_asked_for_when_a_thread_will_soon_be_free():
    """Those of a large run do not fit into memory together."""
    asked = []

    def items():
        for item in range(20):
            asked.append(item)
            yield item

    with side_by_side(2):
        for place, found in enumerate(in_turn(lambda item: item, items())):
            assert found == place
            assert len(asked) <= place + 3


def test_an_interrupt_does_not_wait_for_what_is_under_way():
    """Reference: the event that it waits for, which comes afterwards."""
    go_on, ended = threading.Event(), []

    def items():
        yield 0
        raise KeyboardInterrupt

    with side_by_side(2), pytest.raises(KeyboardInterrupt):
        list(in_turn(lambda item: ended.append(go_on.wait(10)), items()))
    assert not ended
    go_on.set()
