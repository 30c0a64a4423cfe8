"""The CUDA driver's calls that checkpoint processes, made by a process of its own: a driver that hangs or
crashes ends that process, not the agent.

    python -m rota.engines.rota.cuda_driver suspend ROOT  all below ROOT release their GPUs, or none
    python -m rota.engines.rota.cuda_driver resume ROOT   the processes hold their GPUs again, and go on

Both depend on the state that the driver reports for each process: they may be repeated, and each completes
what the other left unfinished.  Driver behaviour beyond its documentation, as seen on 580.159 with an H200:

* A process without a CUDA context (a shell, a loader's worker, a program that still imports) is answered "not
  initialised" to every call.  It holds no GPU.
* A lock keeps a process from further calls and waits for the kernels it has begun.  After a time-out the
  process runs on as before.
* Where kernels wait for one another (collectives), the process that is locked first keeps the other's kernel,
  and so its lock, from ever ending.  All processes are therefore locked at once; after a time-out all are
  unlocked and tried again.
* A process that is stopped (SIGSTOP) does not answer, and ignores the time-out.
* After a checkpoint that the driver refuses (managed memory) the locked process can be unlocked.
"""

from __future__ import annotations

import ctypes
import sys
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from enum import IntEnum
from functools import partial
from typing import Any

from rota.engines.rota.identity import Stat
from rota.engines.rota.processes import below

LIBRARY = "libcuda.so.1"
ACTIONS = ("suspend", "resume")
NOT_INITIALISED, NOT_READY = 3, 600
LOCKS_S = (0.5, 1.0, 2.0, 8.0)
"""Seconds that each attempt to lock may take; the last allows for one long kernel."""
APART_S = 0.05
"""Pause between two attempts: the programs run on and reach other calls."""
ROOM_S, LOOK_S = 20.0, 0.25
"""Seconds for which, and between, restores on a full GPU: its last user may still be releasing memory."""
ROUNDS = 20
"""Most rounds of search for new processes with a GPU in a tree; after that the tree is given up."""


class ProcessState(IntEnum):
    """States of a process, numbered as the driver does."""

    RUNNING = 0
    LOCKED = 1
    CHECKPOINTED = 2
    FAILED = 3


class DriverError(Exception):
    """The driver refused a call; the text names the process and the driver's answer."""

    def __init__(self, text: str, status: int = 0) -> None:
        super().__init__(text)
        self.status = status


class _LockArguments(ctypes.Structure):
    _fields_ = (
        ("timeout_ms", ctypes.c_uint),
        ("reserved", ctypes.c_uint),
        ("more", ctypes.c_uint64 * 7),
    )


class CheckpointDriver:
    """The driver's library: one method for each of its calls. A refused call raises DriverError."""

    def __init__(self, library: Any) -> None:
        """Raises DriverError if the driver cannot be used."""
        self._library = library
        library.cuInit.restype = ctypes.c_int
        if status := library.cuInit(0):
            raise DriverError(f"the driver cannot be used: {self._name(status)}", status)

    def state(self, pid: int) -> ProcessState | None:
        """State of a process; None if it holds no GPU."""
        state = ctypes.c_int(-1)
        try:
            self._call("GetState", pid, ctypes.byref(state))
        except DriverError as error:
            if error.status == NOT_INITIALISED:
                return None
            raise
        return ProcessState(state.value)

    def lock(self, pid: int, within_s: float) -> None:
        """Stop a process from further CUDA calls and wait for those that have begun."""
        self._call("Lock", pid, ctypes.byref(_LockArguments(timeout_ms=round(1000 * within_s))))

    def checkpoint(self, pid: int) -> None:
        """Copy the device memory of a locked process to the host."""
        self._call("Checkpoint", pid)

    def restore(self, pid: int) -> None:
        """Copy the memory of a locked process back to its device; the process stays locked."""
        self._call("Restore", pid)

    def unlock(self, pid: int) -> None:
        """Let a locked process go on."""
        self._call("Unlock", pid)

    def _call(self, what: str, pid: int, argument: Any = None) -> None:
        function = getattr(self._library, f"cuCheckpointProcess{what}")
        function.restype, function.argtypes = ctypes.c_int, [ctypes.c_int, ctypes.c_void_p]
        if status := function(pid, argument):
            verb = "ask the state of" if what == "GetState" else what.lower()
            raise DriverError(
                f"cannot {verb} process {pid}: the driver answered {self._name(status)}", status
            )

    def _name(self, status: int) -> str:
        text = ctypes.c_char_p()
        self._library.cuGetErrorName.argtypes = [ctypes.c_int, ctypes.POINTER(ctypes.c_char_p)]
        self._library.cuGetErrorName(status, ctypes.byref(text))
        return f"{status} {text.value.decode()}" if text.value else str(status)


def suspend(driver: CheckpointDriver, find: Callable[[], Iterable[int]]) -> None:
    """Make all processes that `find` returns and that hold a GPU release it.

    If one cannot, raises DriverError and leaves all as they were.
    """
    try:
        for _ in range(ROUNDS):
            states = _holders(driver, find())
            if all(state is ProcessState.CHECKPOINTED for state in states.values()):
                return
            _lock(driver, [pid for pid, state in states.items() if state is ProcessState.RUNNING])
            locked = [pid for pid, state in states.items() if state is not ProcessState.CHECKPOINTED]
            _raise_first(_each(driver.checkpoint, locked))
        raise DriverError(f"after {ROUNDS} rounds another process holds a GPU")
    except DriverError as error:
        try:
            resume(driver, find)
        except DriverError as again:
            raise DriverError(f"{error}; {again}") from None
        raise


def resume(
    driver: CheckpointDriver,
    find: Callable[[], Iterable[int]],
    *,
    now: Callable[[], float] = time.monotonic,
    pause: Callable[[float], None] = time.sleep,
) -> None:
    """Give all processes that `find` returns their GPUs back; raises DriverError for the first that fails."""
    until_s = now() + ROOM_S

    def bring_back(pid: int) -> None:
        state = driver.state(pid)
        while state is ProcessState.CHECKPOINTED:
            try:
                driver.restore(pid)
            except DriverError:
                if now() >= until_s or driver.state(pid) is not ProcessState.CHECKPOINTED:
                    raise
                pause(LOOK_S)
            state = driver.state(pid)
        if state is ProcessState.LOCKED:
            driver.unlock(pid)
        elif state is ProcessState.FAILED:
            raise DriverError(f"process {pid} is lost: the driver says that it failed")

    _raise_first(_each(bring_back, find()))


def _holders(driver: CheckpointDriver, pids: Iterable[int]) -> dict[int, ProcessState]:
    """State of each process that holds a GPU."""
    states: dict[int, ProcessState] = {}

    def look(pid: int) -> None:
        state = driver.state(pid)
        if state is ProcessState.FAILED:
            raise DriverError(f"process {pid} is lost: the driver says that it failed")
        if state is not None:
            states[pid] = state

    _raise_first(_each(look, pids))
    return states


def _lock(driver: CheckpointDriver, pids: Sequence[int]) -> None:
    """Lock all processes together, or none; may need several attempts (see the module's docstring)."""
    for within_s in LOCKS_S:
        refused = _each(partial(driver.lock, within_s=within_s), pids)
        if not refused:
            return
        _raise_first(_each(driver.unlock, [pid for pid in pids if pid not in refused]))
        late = {pid: error for pid, error in refused.items() if error.status == NOT_READY}
        if late != refused:
            break
        time.sleep(APART_S)
    _raise_first(refused)


def _each(call: Callable[[int], None], pids: Iterable[int]) -> dict[int, DriverError]:
    """Call the function for all processes in parallel; returns the errors of those that still live."""
    refused: dict[int, DriverError] = {}

    def one(pid: int) -> None:
        try:
            call(pid)
        except DriverError as error:
            stat = Stat.of(pid)
            if stat is not None and not stat.dead:
                refused[pid] = error

    threads = [threading.Thread(target=one, args=(pid,)) for pid in pids]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return refused


def _raise_first(refused: dict[int, DriverError]) -> None:
    if refused:
        raise refused[min(refused)]


def main(arguments: Sequence[str]) -> int:
    """Carry out `ACTION ROOT`; returns 1, with a line on standard error, if the driver refuses."""
    if len(arguments) != 2 or arguments[0] not in ACTIONS or not _is_root(arguments[1]):
        print(f"expected ACTION ROOT with ACTION one of {', '.join(ACTIONS)}", file=sys.stderr)
        return 2
    action, root = suspend if arguments[0] == "suspend" else resume, int(arguments[1])
    try:
        action(CheckpointDriver(ctypes.CDLL(LIBRARY)), lambda: [stat.pid for stat in below(root)])
    except OSError as error:
        print(f"{LIBRARY} cannot be loaded: {error}", file=sys.stderr)
        return 1
    except DriverError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def _is_root(text: str) -> bool:
    """Whether the text is a pid above 1: the tree of process 1 is the whole machine."""
    return text.isdecimal() and int(text) > 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
