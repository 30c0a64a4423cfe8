"""One thread for linear algebra in every process of ours, and in no job."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from rota.model.one_thread import ONE_THREAD, one_thread, use_one_thread

COMMANDS = ["simulate", "moments", "fidelity"]


def test_who_has_said_otherwise_is_heeded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "3")
    monkeypatch.delenv("MKL_NUM_THREADS", raising=False)
    said = one_thread()
    assert (said["OPENBLAS_NUM_THREADS"], said["MKL_NUM_THREADS"]) == ("3", "1")
    assert "MKL_NUM_THREADS" not in os.environ, "nothing is set for this process"
    use_one_thread()
    assert {name: os.environ[name] for name in ONE_THREAD} == {name: said[name] for name in ONE_THREAD}
    monkeypatch.delenv("MKL_NUM_THREADS")


@pytest.mark.slow
@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_is_loaded_without_numpy(name: str) -> None:
    """Else the word would come too late."""
    code = f"import sys, rota.cli.{name}; sys.exit('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
