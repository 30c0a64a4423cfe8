"""Tests on a real NVIDIA GPU (`make gpu`): skipped where there is none, or no PyTorch that uses it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from gpu_programs import gpu_of_this_machine

from rota.engines.rota.devices import NvidiaGpus

sys.path.insert(0, str(Path(__file__).parents[1] / "server"))  # the cluster that tests of the server use
sys.path.insert(0, str(Path(__file__).parents[1] / "live"))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All of this folder is about GPUs."""
    for item in items:
        if item.path.parent == Path(__file__).parent:
            item.add_marker(pytest.mark.gpu)


@pytest.fixture(scope="session", autouse=True)
def gpus() -> NvidiaGpus:
    """The GPUs of this machine."""
    found = gpu_of_this_machine()
    if isinstance(found, str):
        pytest.skip(found)
    return found
