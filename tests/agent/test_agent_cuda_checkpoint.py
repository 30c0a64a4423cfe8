"""The driver's checkpoint, without a driver: what the probe says, and in which order calls are made."""

from __future__ import annotations

import ctypes
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from rota.agent.cuda_checkpoint import CudaCheckpoint, Probe, driver_call, main, probe

API, TOOL, TOGGLE = Probe("api", ""), Probe("tool", "", "/bin/cc"), Probe("toggle", "", "/bin/cc")


@pytest.mark.parametrize(
    ("driver", "machine", "tool", "api", "how", "why"),
    [
        ("", "x86_64", None, False, "", "no NVIDIA driver"),
        ("535.10", "x86_64", "/bin/cc", False, "", "driver 535.10: needs 550"),
        ("570.86", "aarch64", "/bin/cc", True, "", "the driver checkpoints on x86-64 only, this is aarch64"),
        ("550.54", "x86_64", None, False, "", "driver 550.54 needs the tool `cuda-checkpoint` in PATH"),
        (
            "550.54",
            "x86_64",
            "/bin/cc",
            False,
            "toggle",
            "driver 550.54 with /bin/cc, which cannot lock ahead",
        ),
        ("570.86", "x86_64", None, True, "api", "driver 570.86 has the calls"),
        ("570.86", "x86_64", "/bin/cc", False, "tool", "driver 570.86 with /bin/cc"),
        ("570.86", "x86_64", None, False, "", "driver 570.86 needs the tool `cuda-checkpoint` in PATH"),
        ("?", "x86_64", None, False, "", "driver ?: needs 550"),
    ],
)
def test_probe(driver: str, machine: str, tool: str | None, api: bool, how: str, why: str) -> None:
    found = probe(driver, machine=machine, find=lambda _: tool, has_api=lambda: api)
    assert (found.how, found.why) == (how, why)
    assert CudaCheckpoint(found).available is bool(how)


class Calls:
    """A driver that notes what it is asked, and refuses some of it."""

    def __init__(self, *refused: str) -> None:
        self.made: list[str] = []
        self.refused = refused

    def __call__(self, command: Sequence[str], limit_s: float) -> str:
        words = [word for word in command if word.isalpha() or word.isdecimal() or word == "--toggle"]
        words = [word for word in words if word != "10000"]
        self.made.append(" ".join(words))
        return "refused" if self.made[-1] in self.refused else ""


def test_all_are_locked_before_any_is_checkpointed() -> None:
    calls = Calls()
    cuda = CudaCheckpoint(API, calls)
    assert cuda.suspend([7, 8]) == ""
    assert calls.made == ["lock 7", "lock 8", "checkpoint 7", "checkpoint 8"]
    calls.made.clear()
    assert cuda.resume([7, 8]) == ""
    assert calls.made == ["restore 7", "unlock 7", "restore 8", "unlock 8"]


@pytest.mark.parametrize(
    ("refused", "made", "problem"),
    [
        ("lock 8", ["lock 7", "lock 8", "unlock 7"], "cannot lock process 8: refused"),
        (
            "checkpoint 8",
            ["lock 7", "lock 8", "checkpoint 7", "checkpoint 8", "restore 7", "unlock 7", "unlock 8"],
            "cannot checkpoint process 8: refused",
        ),
    ],
)
def test_all_or_none(refused: str, made: list[str], problem: str) -> None:
    calls = Calls(refused)
    assert CudaCheckpoint(TOOL, calls).suspend([7, 8]) == problem
    assert calls.made == made


def test_what_cannot_be_restored_is_not_unlocked() -> None:
    calls = Calls("restore 7")
    assert CudaCheckpoint(API, calls).resume([7, 8]) == "cannot restore process 7: refused"
    assert calls.made == ["restore 7", "restore 8", "unlock 8"]


def test_toggle_goes_back_if_one_refuses() -> None:
    calls = Calls("--toggle 8")
    assert CudaCheckpoint(TOGGLE, calls).suspend([7, 8]) == "process 8: refused"
    assert calls.made == ["--toggle 7", "--toggle 8", "--toggle 7"]


def test_the_tool_is_called_as_it_wants(tmp_path: Path) -> None:
    tool = tmp_path / "cuda-checkpoint"
    tool.write_text(
        f'#!/bin/sh\necho "$@" >> {tmp_path}/log\n[ "$2" != restore ] || {{ echo no way >&2; exit 1; }}\n'
    )
    tool.chmod(0o755)
    cuda = CudaCheckpoint(Probe("tool", "", str(tool)))
    assert cuda.suspend([7]) == ""
    assert cuda.resume([7]) == "cannot restore process 7: no way"
    assert (tmp_path / "log").read_text().splitlines() == [
        "--action lock --pid 7 --timeout 10000",
        "--action checkpoint --pid 7",
        "--action restore --pid 7",
    ]


def test_a_tool_that_is_not_there() -> None:
    cuda = CudaCheckpoint(Probe("tool", "", "/nowhere/cuda-checkpoint"))
    assert cuda.suspend([7]) == "cannot lock process 7: No such file or directory"


def test_the_module_makes_one_call(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lock"]) == 2
    assert main(["explode", "7"]) == 2
    assert "expected ACTION PID" in capsys.readouterr().err
    done = subprocess.run(
        [sys.executable, "-m", "rota.agent.cuda_checkpoint", "lock", "x"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2


STUB = """
int cuInit(unsigned flags) { return 0; }
struct lock { unsigned timeout, reserved; unsigned long long more[7]; };
int cuCheckpointProcessLock(int pid, struct lock *a) { return a && a->timeout == 10000 && pid == 7 ? 0 : 1; }
int cuCheckpointProcessCheckpoint(int pid, void *a) { return a ? 1 : pid == 7 ? 0 : 801; }
int cuGetErrorName(int status, const char **text) { *text = "CUDA_ERROR_TOY"; return 0; }
"""


@pytest.fixture(scope="module")
def stub(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    """A driver library that checks its arguments."""
    folder = tmp_path_factory.mktemp("driver")
    (folder / "stub.c").write_text(STUB)
    try:
        subprocess.run(["cc", "-shared", "-fPIC", "-o", folder / "stub.so", folder / "stub.c"], check=True)
    except FileNotFoundError:
        pytest.skip("needs a C compiler")
    return ctypes.CDLL(str(folder / "stub.so"))


@pytest.mark.parametrize(
    ("action", "pid", "problem"),
    [
        ("lock", 7, ""),
        ("checkpoint", 7, ""),
        ("lock", 8, "the driver answered 1 CUDA_ERROR_TOY"),
        ("checkpoint", 8, "the driver answered 801 CUDA_ERROR_TOY"),
    ],
)
def test_arguments_reach_the_driver(stub: ctypes.CDLL, action: str, pid: int, problem: str) -> None:
    assert driver_call(stub, action, pid) == problem
