"""The CUDA driver's checkpoint of whole processes: probed, never assumed, called from a process of its own.

The driver copies a process's device memory to host memory that it owns and lets go of the GPU; the process's
threads run on and block at their next CUDA call.  Needs x86-64 and driver 550 with the `cuda-checkpoint`
tool, or driver 570, whose library has the calls itself.  Known limits, which no probe can see from outside:
no managed memory, no memory shared between processes, the same GPU on restore; a failed attempt may leave the
process unusable.  All ranks of a part are locked before any is checkpointed, and unlocked again if one cannot
be: a rank in the middle of a collective runs into the time-out of its lock.

Run as a module (`python -m rota.agent.cuda_checkpoint lock PID`) it makes one driver call: a driver that
hangs or crashes takes that process, not the agent.
"""

from __future__ import annotations

import ctypes
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass

LOCK_TIMEOUT_S = 10.0
CALL_TIMEOUT_S = 300.0
TOOL_DRIVER, API_DRIVER = 550, 570
TOOL = "cuda-checkpoint"
ACTIONS = ("lock", "checkpoint", "restore", "unlock")
Run = Callable[[Sequence[str], float], str]
"""Run a command with a time limit; its complaint, empty if it went well."""


@dataclass(frozen=True)
class Probe:
    """Whether the driver can checkpoint processes here, and by which means."""

    how: str
    """`tool`, `api`, or empty."""
    why: str
    """What is missing, or what is there: one short sentence."""
    path: str = ""
    """Of the tool."""


def probe(
    driver: str,
    *,
    machine: str | None = None,
    find: Callable[[str], str | None] = shutil.which,
    has_api: Callable[[], bool] | None = None,
) -> Probe:
    """What `driver` (a version, empty if there is none) and this machine allow."""
    architecture = platform.machine() if machine is None else machine
    if not driver:
        return Probe("", "no NVIDIA driver")
    if architecture not in {"x86_64", "AMD64"}:
        return Probe("", f"the driver checkpoints on x86-64 only, this is {architecture}")
    number = driver.partition(".")[0]
    major = int(number) if number.isdecimal() else 0
    if major < TOOL_DRIVER:
        return Probe("", f"driver {driver}: needs {TOOL_DRIVER}")
    path = find(TOOL)
    if major >= API_DRIVER and (has_api or _library_has_it)():
        return Probe("api", f"driver {driver} has the calls")
    if path and major >= API_DRIVER:
        return Probe("tool", f"driver {driver} with {path}", path)
    if path:
        return Probe("toggle", f"driver {driver} with {path}, which cannot lock ahead", path)
    return Probe("", f"driver {driver} needs the tool `{TOOL}` in PATH")


class CudaCheckpoint:
    """Suspends and resumes processes by the driver."""

    def __init__(self, probed: Probe, run: Run | None = None) -> None:
        self.probe = probed
        self._run = run or _run

    @property
    def available(self) -> bool:
        """Whether it can be tried at all."""
        return bool(self.probe.how)

    def suspend(self, pids: Sequence[int]) -> str:
        """Checkpoint all of `pids`, or none; the complaint, empty if it went well.  Takes seconds."""
        if self.probe.how == "toggle":
            return self._toggle(pids)
        locked: list[int] = []
        for pid in pids:
            problem = self._call("lock", pid)
            if problem:
                return self._undo(locked, [], problem)
            locked.append(pid)
        done: list[int] = []
        for pid in pids:
            problem = self._call("checkpoint", pid)
            if problem:
                return self._undo(locked, done, problem)
            done.append(pid)
        return ""

    def resume(self, pids: Sequence[int]) -> str:
        """Restore all of `pids` and let them go on; the complaint, empty if it went well."""
        if self.probe.how == "toggle":
            return self._toggle(pids)
        problems = [self._call("restore", pid) or self._call("unlock", pid) for pid in pids]
        return "; ".join(filter(None, problems))

    def _toggle(self, pids: Sequence[int]) -> str:
        """Driver 550 to 565 knows one action: suspend what runs, resume what is suspended."""
        done: list[int] = []
        for pid in pids:
            problem = self._toggled(pid)
            if problem:
                back = [self._toggled(one) for one in done]
                return "; ".join([f"process {pid}: {problem}", *filter(None, back)])
            done.append(pid)
        return ""

    def _toggled(self, pid: int) -> str:
        return self._run([self.probe.path, "--toggle", "--pid", str(pid)], CALL_TIMEOUT_S)

    def _undo(self, locked: Sequence[int], done: Sequence[int], problem: str) -> str:
        back = [self._call("restore", pid) for pid in done] + [self._call("unlock", pid) for pid in locked]
        return "; ".join([problem, *filter(None, back)])

    def _call(self, action: str, pid: int) -> str:
        limit_s = 2 * LOCK_TIMEOUT_S if action == "lock" else CALL_TIMEOUT_S
        problem = self._run(self._command(action, pid), limit_s)
        return f"cannot {action} process {pid}: {problem}" if problem else ""

    def _command(self, action: str, pid: int) -> list[str]:
        if self.probe.how == "api":
            return [sys.executable, "-m", "rota.agent.cuda_checkpoint", action, str(pid)]
        command = [self.probe.path, "--action", action, "--pid", str(pid)]
        return [*command, "--timeout", str(int(LOCK_TIMEOUT_S * 1000))] if action == "lock" else command


def _run(command: Sequence[str], limit_s: float) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=limit_s, check=False)
    except subprocess.TimeoutExpired:
        return f"no answer within {limit_s:g} s"
    except OSError as error:
        return error.strerror or str(error)
    if not done.returncode:
        return ""
    said = (done.stderr.strip() or done.stdout.strip()).splitlines()
    return said[-1][:300] if said else f"{command[0]} ended with {done.returncode}"


def _library() -> ctypes.CDLL | None:
    try:
        return ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None


def _library_has_it() -> bool:
    library = _library()
    return library is not None and hasattr(library, "cuCheckpointProcessLock")


class _LockArguments(ctypes.Structure):
    _fields_ = (
        ("timeout_ms", ctypes.c_uint),
        ("reserved", ctypes.c_uint),
        ("more", ctypes.c_uint64 * 7),
    )


def driver_call(library: ctypes.CDLL, action: str, pid: int) -> str:
    """One call of the driver's library; the complaint, empty if it went well."""
    library.cuInit.restype = ctypes.c_int
    function = getattr(library, f"cuCheckpointProcess{action.capitalize()}")
    function.restype = ctypes.c_int
    function.argtypes = [ctypes.c_int, ctypes.c_void_p]
    arguments = _LockArguments(timeout_ms=int(LOCK_TIMEOUT_S * 1000)) if action == "lock" else None
    status = library.cuInit(0) or function(pid, None if arguments is None else ctypes.byref(arguments))
    return f"the driver answered {_name(library, status)}" if status else ""


def _name(library: ctypes.CDLL, status: int) -> str:
    text = ctypes.c_char_p()
    library.cuGetErrorName.argtypes = [ctypes.c_int, ctypes.POINTER(ctypes.c_char_p)]
    library.cuGetErrorName(status, ctypes.byref(text))
    return f"{status} {text.value.decode()}" if text.value else str(status)


def main(arguments: Sequence[str]) -> int:
    """`ACTION PID`: make one driver call; 1 with a line on standard error if it fails."""
    if len(arguments) != 2 or arguments[0] not in ACTIONS or not arguments[1].isdecimal():
        print(f"expected ACTION PID with ACTION one of {', '.join(ACTIONS)}", file=sys.stderr)
        return 2
    library = _library()
    problem = "libcuda.so.1 cannot be loaded" if library is None else ""
    if library is not None:
        problem = driver_call(library, arguments[0], int(arguments[1]))
    if problem:
        print(problem, file=sys.stderr)
    return 1 if problem else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
