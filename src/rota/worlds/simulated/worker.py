"""A worker process: `python -m rota.worlds.simulated.worker`, started by `many`.

Reads pickles from standard input: (paths, modules), (trace, cluster), then tasks.  Answers each task on
standard output with numbers of ended jobs and at last a record or an error.
"""

from __future__ import annotations

import os
import pickle
import sys
import traceback
from importlib import import_module
from io import BufferedWriter
from typing import BinaryIO

from rota.model.cluster import Cluster
from rota.model.record import Record
from rota.model.trace import Trace
from rota.worlds.simulated.many import Task
from rota.worlds.simulated.run import run


def serve(requests: BinaryIO, answers: BinaryIO) -> None:
    """Run tasks until the requests end."""
    paths, modules = pickle.load(requests)
    sys.path[:] = paths
    for module in modules:
        import_module(module)
    trace, cluster = pickle.load(requests)
    while requests.peek(1):  # type: ignore[attr-defined]
        task = pickle.load(requests)
        answers.write(_packed(_outcome(task, trace, cluster, answers)))
        answers.flush()


def _outcome(task: Task, trace: Trace, cluster: Cluster, answers: BinaryIO) -> Record | BaseException:
    def watch(done: int) -> None:
        answers.write(pickle.dumps(done))
        answers.flush()

    try:
        return run(task.policy, trace, cluster, task.setting, watch)
    except Exception as error:
        error.add_note("In a worker process:\n" + traceback.format_exc())
        return error


def _packed(outcome: Record | BaseException) -> bytes:
    try:
        return pickle.dumps(outcome, 5)
    except Exception:
        # An error that cannot travel still says what it said.
        return pickle.dumps(RuntimeError("\n".join(getattr(outcome, "__notes__", [repr(outcome)]))))


def _claim_stdout() -> BufferedWriter:
    """Standard output for answers only: whatever else prints goes to standard error."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    return answers


if __name__ == "__main__":
    try:
        serve(sys.stdin.buffer, _claim_stdout())
    except (KeyboardInterrupt, BrokenPipeError, EOFError):
        os._exit(1)  # the parent was interrupted or has gone; it says so itself
