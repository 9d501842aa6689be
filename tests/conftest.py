"""What all tests share."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

torch.set_num_threads(1)  # tests run side by side, one process per core


@pytest.fixture(scope="session")
def shared_data() -> Callable[[str], Path]:
    """Paths of real data that is not part of the project; tests that need it skip where it is absent."""
    folder = Path(os.environ.get("HEATPROOF_SHARED_DATA", Path(__file__).parents[2] / "shared" / "data"))

    def find(name: str) -> Path:
        path = folder / name
        if not path.exists():
            pytest.skip(f"needs {name} from the folder that HEATPROOF_SHARED_DATA names")
        return path

    return find


@pytest.fixture(autouse=True)
def own_workspace(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the user's cache folder out of the tests."""
    monkeypatch.setenv("HEATPROOF_HOME", str(tmp_path_factory.mktemp("home")))
