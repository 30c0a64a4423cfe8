"""The driver's checkpoint as the agent asks for it: what the probe says, and what becomes of complaints."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import pytest

from rota.engines.rota.cuda_checkpoint import CudaCheckpoint, Probe, _run, probe

HERE = Probe(True, "")


@pytest.mark.parametrize(
    ("driver", "machine", "calls", "works", "why"),
    [
        ("", "x86_64", False, False, "no NVIDIA driver"),
        ("535.10", "x86_64", True, False, "driver 535.10: needs 570"),
        ("565.57", "x86_64", True, False, "driver 565.57: needs 570"),
        ("570.86", "aarch64", True, False, "the driver checkpoints on x86-64 only, this is aarch64"),
        ("580.159.04", "x86_64", True, True, "driver 580.159.04 has the calls"),
        ("570.86", "AMD64", True, True, "driver 570.86 has the calls"),
        ("570.86", "x86_64", False, False, "driver 570.86: no libcuda.so.1 with the calls is found here"),
        ("?", "x86_64", True, False, "driver ?: needs 570"),
    ],
)
def test_probe(driver: str, machine: str, calls: bool, works: bool, why: str) -> None:
    found = probe(driver, machine=machine, has_calls=lambda: calls)
    assert found == Probe(works, why)
    assert CudaCheckpoint(found).available is works


class Calls:
    """Notes what is asked, and refuses some of it."""

    def __init__(self, **refused: str) -> None:
        self.made: list[str] = []
        self.refused = refused

    def __call__(self, command: Sequence[str], limit_s: float) -> str:
        assert command[:3] == [sys.executable, "-m", "rota.engines.rota.cuda_driver"]
        self.made.append(" ".join(command[3:]))
        return self.refused.get(command[3], "")


def test_there_and_back() -> None:
    calls = Calls()
    cuda = CudaCheckpoint(HERE, calls)
    assert cuda.suspend(7) == ""
    assert cuda.resume(7) == ""
    assert calls.made == ["suspend 7", "resume 7"]


@pytest.mark.parametrize(
    ("refused", "problem"),
    [
        ({"suspend": "no"}, "no"),
        ({"suspend": "no", "resume": "no"}, "no"),
        ({"suspend": "no", "resume": "not that either"}, "no; not that either"),
    ],
)
def test_after_a_complaint_nobody_stays_locked(refused: dict[str, str], problem: str) -> None:
    calls = Calls(**refused)
    assert CudaCheckpoint(HERE, calls).suspend(7) == problem
    assert calls.made == ["suspend 7", "resume 7"]


@pytest.mark.parametrize(
    ("program", "problem"),
    [
        ("import time; time.sleep(60)", "the driver does not answer within 0.3 s"),
        ("import os; os.abort()", "the call of the driver ended with -6"),
        ("print('one'); print('two'); exit(1)", "two"),
    ],
)
def test_a_driver_that_hangs_or_crashes(program: str, problem: str) -> None:
    assert _run([sys.executable, "-c", program], 0.3 if "sleep" in program else 60.0) == problem


def test_a_python_that_is_not_there() -> None:
    assert _run(["/nowhere/python"], 1.0) == "No such file or directory"
