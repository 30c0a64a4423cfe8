"""Several runs over one trace: one after the other, or side by side in processes of their own.

Workers are plain processes that get the trace once and then one task at a time, as pickles over pipes.
They import Rota and nothing of the caller's main module, so a script needs no guard around its main
part; and nothing is forked, as threads of a table library would not survive a fork.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any

from rota.errors import WorldError
from rota.model.cluster import Cluster
from rota.model.one_thread import one_thread
from rota.model.record import Record
from rota.model.trace import Trace
from rota.scheduler.policy import Policy, PolicySpec, system
from rota.worlds.simulated.run import Setting, run

_NAP_S = 0.2
"""How long an interrupt may wait to be noticed."""
SMALL_JOBS = 10_000
"""Jobs over all tasks up to which starting a process costs more than it saves."""

Progress = Callable[[int, int], None]
"""Called with a task's number and the number of its jobs that have ended, from several threads."""


@dataclass(frozen=True)
class Task:
    """One run: a policy in a setting."""

    policy: PolicySpec | Policy
    setting: Setting


def run_all(
    tasks: Sequence[Task],
    trace: Trace,
    cluster: Cluster,
    *,
    workers: int | None = None,
    progress: Progress | None = None,
) -> list[Record]:
    """The record of each task, in order; the same whatever the number of `workers`.

    None chooses: as many as there are cores and tasks, or none for small traces.
    """
    movable = [number for number, task in enumerate(tasks) if _is_movable(task)]
    count = _workers(workers, len(movable), len(trace))
    if count < 2:
        movable = []
    records: dict[int, Record] = {}
    if movable:
        records |= _side_by_side(tasks, movable, trace, cluster, count, progress)
    for number, task in enumerate(tasks):
        if number not in records:
            records[number] = run(task.policy, trace, cluster, task.setting, _watch(progress, number))
            _tell(progress, number, len(trace))
    return [records[number] for number in range(len(tasks))]


def cores() -> int:
    """Cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _workers(asked: int | None, tasks: int, jobs: int) -> int:
    if asked is not None:
        return min(asked, tasks)
    return min(cores(), tasks) if tasks * jobs > SMALL_JOBS else 1


def _is_movable(task: Task) -> bool:
    """Whether another process can build the policy: not if it lives in the caller's main module."""
    make = system(task.policy.name).make if isinstance(task.policy, PolicySpec) else type(task.policy)
    return make.__module__ != "__main__"


def _watch(progress: Progress | None, number: int) -> Callable[[int], None] | None:
    return None if progress is None else lambda done: progress(number, done)


def _tell(progress: Progress | None, number: int, done: int) -> None:
    if progress is not None:
        progress(number, done)


def _side_by_side(
    tasks: Sequence[Task],
    numbers: Sequence[int],
    trace: Trace,
    cluster: Cluster,
    workers: int,
    progress: Progress | None,
) -> dict[int, Record]:
    """Records by task number.  The first error, in order of tasks, is raised when all have ended."""
    waiting: SimpleQueue[int] = SimpleQueue()
    for number in numbers:
        waiting.put(number)
    greeting = _greeting([tasks[number] for number in numbers], trace, cluster)
    outcomes: dict[int, Record | BaseException] = {}
    with _processes(workers) as processes, ThreadPoolExecutor(workers) as threads:
        serve = [
            threads.submit(_serve, process, greeting, tasks, waiting, outcomes, progress, len(trace))
            for process in processes
        ]
        try:
            _await(serve)
        except BaseException:
            _stop(processes)  # so that the threads end, and leaving the block does not wait for them
            raise
    records: dict[int, Record] = {}
    for number in numbers:
        outcome = outcomes[number]
        if isinstance(outcome, BaseException):
            raise outcome
        records[number] = outcome
    return records


def _await(threads: Sequence[Future[None]]) -> None:
    """Wait for all, or for the first that fails.

    Wakes up now and then: with a library that installs its own interrupt handler (as polars does) the system
    may resume the wait, and Python would see the interrupt only after the last thread.
    """
    left = set(threads)
    while left:
        done, left = wait(left, timeout=_NAP_S, return_when=FIRST_EXCEPTION)
        for future in done:
            future.result()


def _greeting(tasks: Sequence[Task], trace: Trace, cluster: Cluster) -> bytes:
    """What every worker needs first: where to import from, what to import, the trace and the cluster."""
    specs = (task.policy for task in tasks if isinstance(task.policy, PolicySpec))
    modules = sorted({system(spec.name).make.__module__ for spec in specs})
    paths = [os.path.abspath(path) for path in sys.path]
    # Protocol 5 keeps read-only columns read-only.
    return pickle.dumps((paths, modules), 5) + pickle.dumps((trace, cluster), 5)


@contextmanager
def _processes(count: int) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Worker processes, stopped when the block ends, however it ends."""
    command = [sys.executable, "-m", "rota.worlds.simulated.worker"]
    paths = os.pathsep.join(os.path.abspath(path) for path in sys.path)
    environment = {**one_thread(), "PYTHONPATH": paths}
    started: list[subprocess.Popen[bytes]] = []
    try:
        for _ in range(count):
            pipe = subprocess.PIPE
            # A group of their own: an interrupt from the keyboard reaches the parent alone, which stops them.
            process = subprocess.Popen(command, stdin=pipe, stdout=pipe, env=environment, process_group=0)
            started.append(process)
        yield started
    finally:
        _stop(started)


def _stop(processes: Sequence[subprocess.Popen[bytes]]) -> None:
    for process in processes:
        process.kill()
        process.wait()


def _serve(
    process: subprocess.Popen[bytes],
    greeting: bytes,
    tasks: Sequence[Task],
    waiting: SimpleQueue[int],
    outcomes: dict[int, Record | BaseException],
    progress: Progress | None,
    jobs: int,
) -> None:
    """Keep one worker busy until no task waits."""
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdin.write(greeting)
        while not waiting.empty():
            number = waiting.get_nowait()
            process.stdin.write(pickle.dumps(tasks[number], 5))
            process.stdin.flush()
            outcomes[number] = _answer(process.stdout, _watch(progress, number))
            _tell(progress, number, jobs)
    except (EOFError, BrokenPipeError, pickle.UnpicklingError) as error:
        raise WorldError(
            f"a worker process ended before its work did (exit status {process.wait()})"
        ) from error


def _answer(stream: Any, watch: Callable[[int], None] | None) -> Record | BaseException:
    """The outcome of a task, after messages with the number of jobs that have ended so far."""
    while isinstance(message := pickle.load(stream), int):
        if watch is not None:
            watch(message)
    outcome: Record | BaseException = message
    return outcome
