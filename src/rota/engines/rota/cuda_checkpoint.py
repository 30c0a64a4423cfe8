"""Checkpoints of whole processes by the CUDA driver, used only where a test shows that they are available.

The driver copies a process's device memory to host memory that it owns and releases the GPU; threads of the
process block at their next CUDA call. This needs x86-64 and driver 570 or later, whose library has the calls.
Known limits, which cannot be detected from outside: no managed memory, no memory shared between processes,
the same GPU on restore; a failed attempt may leave the process unusable. `cuda_driver` makes the calls, in a
process of its own.
"""

from __future__ import annotations

import ctypes
import platform
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from typing import NamedTuple

from rota.engines.rota.cuda_driver import LIBRARY

CALL_TIMEOUT_S = 300.0
"""Time limit for all processes of a part; the slowest measured rate is about 1.5 GB/s of device memory."""
LEAST_DRIVER = 570
Run = Callable[[Sequence[str], float], str]
"""Run a command with a time limit in seconds; returns its error message, empty on success."""


class Probe(NamedTuple):
    """Whether the driver can checkpoint processes on this machine."""

    works: bool
    why: str
    """What is missing, or what is available: one short sentence."""


def probe(driver: str, *, machine: str | None = None, has_calls: Callable[[], bool] | None = None) -> Probe:
    """Find out what `driver` (a version, empty if there is none) and this machine allow."""
    architecture = platform.machine() if machine is None else machine
    if not driver:
        return Probe(False, "no NVIDIA driver")
    if architecture not in {"x86_64", "AMD64"}:
        return Probe(False, f"the driver checkpoints on x86-64 only, this is {architecture}")
    number = driver.partition(".")[0]
    if not number.isdecimal() or int(number) < LEAST_DRIVER:
        return Probe(False, f"driver {driver}: needs {LEAST_DRIVER}")
    if not (has_calls or _library_has_them)():
        return Probe(False, f"driver {driver}: no {LIBRARY} with the calls is found here")
    return Probe(True, f"driver {driver} has the calls")


class CudaCheckpoint:
    """Suspends and resumes all processes of a tree by the driver.

    Either call may be repeated, whatever the outcome of the last one; calls for one root run one after the
    other.
    """

    def __init__(self, probed: Probe, run: Run | None = None) -> None:
        self.probe = probed
        self._run = run or _run
        self._turns: dict[int, threading.Lock] = {}

    @property
    def available(self) -> bool:
        """Whether suspension can be tried at all."""
        return self.probe.works

    def suspend(self, root: int) -> str:
        """Make all processes below `root` release their GPUs, or none; returns an error message, empty on
        success.

        Takes seconds. None of the processes may be stopped (SIGSTOP): the driver would wait for it.
        """
        with self._turn(root):
            problem = self._call("suspend", root)
            # The process that made the calls may have died midway: unlock what it left locked.
            back = self._call("resume", root) if problem else ""
        return "; ".join(dict.fromkeys(filter(None, (problem, back))))

    def resume(self, root: int) -> str:
        """Give all processes below `root` their GPUs back; returns an error message, empty on success."""
        with self._turn(root):
            return self._call("resume", root)

    def _turn(self, root: int) -> threading.Lock:
        return self._turns.setdefault(root, threading.Lock())

    def _call(self, action: str, root: int) -> str:
        command = [sys.executable, "-m", "rota.engines.rota.cuda_driver", action, str(root)]
        return self._run(command, CALL_TIMEOUT_S)


def _run(command: Sequence[str], limit_s: float) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=limit_s, check=False)
    except subprocess.TimeoutExpired:
        return f"the driver does not answer within {limit_s:g} s"
    except OSError as error:
        return error.strerror or str(error)
    if not done.returncode:
        return ""
    said = (done.stderr.strip() or done.stdout.strip()).splitlines()
    return said[-1][:300] if said else f"the call of the driver ended with {done.returncode}"


def _library_has_them() -> bool:
    try:
        return hasattr(ctypes.CDLL(LIBRARY), "cuCheckpointProcessLock")
    except OSError:
        return False
