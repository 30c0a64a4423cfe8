"""Ports where gangs meet: nobody listens there, and nobody is given one before the gang is there."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from rota.engines.rota import ports
from rota.engines.rota.ports import LOWEST, free_port


@pytest.fixture
def kernels_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What the kernel says of its own range."""
    path = tmp_path / "range"
    monkeypatch.setattr(ports, "KERNELS_OWN", path)
    return path


def test_not_of_the_kernels_own_range(kernels_own: Path) -> None:
    kernels_own.write_text(f"{LOWEST + 50}\t60999\n")
    assert {free_port() for _ in range(100)} <= set(range(LOWEST, LOWEST + 50))


@pytest.mark.parametrize("why", ["listens", "taken"])
def test_the_only_port_is_not_to_be_had(kernels_own: Path, monkeypatch: pytest.MonkeyPatch, why: str) -> None:
    """Somebody listens there, or another gang is to meet there."""
    with socket.socket() as used:
        used.bind(("", only := free_port()))
        if why == "listens":
            used.listen()
        else:
            used.close()
        kernels_own.write_text(f"{only + 1} 60999")
        monkeypatch.setattr(ports, "LOWEST", only)
        assert free_port({only} if why == "taken" else set()) != only


@pytest.mark.parametrize("said", ["1024 65535", "", "no numbers"])
def test_a_kernel_that_keeps_all_gives_one(kernels_own: Path, said: str) -> None:
    kernels_own.write_text(said)
    assert 1024 <= (port := free_port()) <= 65535
    assert free_port({port}) != port
