"""The CUDA driver's checkpoint of whole processes: probed, never assumed.

The driver copies a process's device memory to host memory that it owns and lets go of the GPU; threads of
the process block at their next CUDA call.  Needs x86-64 and driver 570, whose library has the calls.  Known
limits, which no probe can see from outside: no managed memory, no memory shared between processes, the same
GPU on restore; a failed attempt may leave the process unusable.  `cuda_driver` makes the calls, in a process
of its own.
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
"""For all processes of a part; the slowest seen is some 1.5 GB/s of device memory."""
LEAST_DRIVER = 570
Run = Callable[[Sequence[str], float], str]
"""Run a command with a time limit; its complaint, empty if it went well."""


class Probe(NamedTuple):
    """Whether the driver can checkpoint processes here."""

    works: bool
    why: str
    """What is missing, or what is there: one short sentence."""


def probe(driver: str, *, machine: str | None = None, has_calls: Callable[[], bool] | None = None) -> Probe:
    """What `driver` (a version, empty if there is none) and this machine allow."""
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
    """Suspends and resumes all processes below one, by the driver.

    Either call may come again, whatever became of the one before; those for one root take their turns.
    """

    def __init__(self, probed: Probe, run: Run | None = None) -> None:
        self.probe = probed
        self._run = run or _run
        self._turns: dict[int, threading.Lock] = {}

    @property
    def available(self) -> bool:
        """Whether it can be tried at all."""
        return self.probe.works

    def suspend(self, root: int) -> str:
        """All below `root` give their GPUs back, or none; the complaint, empty if it went well.

        Takes seconds.  None of them may be stopped (SIGSTOP): the driver would wait for it.
        """
        with self._turn(root):
            problem = self._call("suspend", root)
            # Whoever made the calls may have died in between: nobody stays locked.
            back = self._call("resume", root) if problem else ""
        return "; ".join(dict.fromkeys(filter(None, (problem, back))))

    def resume(self, root: int) -> str:
        """All below `root` have their GPUs back and go on; the complaint, empty if it went well."""
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
