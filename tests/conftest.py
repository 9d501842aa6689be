"""What all tests share."""

from __future__ import annotations

import importlib
import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import settings
from torch import nn

from heatproof import mnist1d
from nets import MAKERS, make_picture_net
from reference.explainers import Net
from skips import pytest_addoption, pytest_configure, shared_folder

__all__ = ["pytest_addoption", "pytest_configure"]

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as in the background of a shell; children would inherit it
    signal.signal(signal.SIGINT, signal.default_int_handler)
torch.set_num_threads(1)  # tests run side by side, one process per core
os.environ["LOKY_MAX_CPU_COUNT"] = "1"  # so do their runs, unless they say how many jobs
settings.register_profile("fixed", derandomize=True, deadline=None, database=None, max_examples=60)
settings.load_profile("fixed")


@pytest.fixture(scope="session")
def shared_data() -> Callable[[str], Path]:
    """Paths of real data that is not part of the project; tests that need it skip where it is absent, and stand in
    allowed_skips.txt."""

    def find(name: str) -> Path:
        path = shared_folder() / name
        if not path.exists():
            pytest.skip(f"needs {name} from the folder that HEATPROOF_SHARED_DATA names")
        return path

    return find


@pytest.fixture(autouse=True)
def own_workspace(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the user's cache folder out of the tests."""
    monkeypatch.setenv("HEATPROOF_HOME", str(tmp_path_factory.mktemp("home")))


@pytest.fixture(scope="session")
def nets() -> dict[str, Net]:
    """Every network by name."""
    return {name: make() for name, make in MAKERS.items()}


@pytest.fixture(params=list(MAKERS))
def net(request: pytest.FixtureRequest, nets: dict[str, Net]) -> Net:
    """Each network in turn."""
    return nets[request.param]


@pytest.fixture(params=[name for name in MAKERS if name not in ("functional", "transformer")])
def module_net(request: pytest.FixtureRequest, nets: dict[str, Net]) -> Net:
    """Each network whose ReLUs are modules, used once: all that Captum's hooks can see."""
    return nets[request.param]


@pytest.fixture(params=[name for name in MAKERS if name != "transformer"])
def map_net(request: pytest.FixtureRequest, nets: dict[str, Net]) -> Net:
    """Each network that keeps maps, not tokens."""
    return nets[request.param]


@pytest.fixture
def signal_net(nets: dict[str, Net]) -> Net:
    return nets["signal"]


@pytest.fixture
def picture_net(nets: dict[str, Net]) -> Net:
    return nets["picture"]


@pytest.fixture
def own_model() -> nn.Module:
    """The 2-D model made anew, which a test may change."""
    return make_picture_net().model


@pytest.fixture(scope="session")
def mnist1d_signals() -> tuple[mnist1d.Signals, mnist1d.Signals]:
    """The training and test signals of MNIST-1D."""
    return mnist1d.make()


@pytest.fixture(scope="module")
def toy() -> Iterator[Any]:
    """The benchmark that is one small file; what it registers is gone for other tests."""
    from heatproof.benchmarks import benchmarks
    from heatproof.metrics import metrics

    with pytest.MonkeyPatch.context() as patch:
        for registry in (benchmarks, metrics):
            patch.setattr(registry, "_entries", dict(registry.items()))
        patch.delitem(sys.modules, "toy_benchmark", raising=False)
        yield importlib.import_module("toy_benchmark").Toy
        del sys.modules["toy_benchmark"]  # so that whoever imports it next registers it
