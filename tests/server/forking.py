"""Programs that are killed on the way, each a fork of a process that has loaded the store.

Loading it takes ten times as long as what they do until then.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator

import pytest

_SERVE = """
import json, os, sys, traceback
import rota.server.store.store
for line in sys.stdin:
    program, arguments, environment = json.loads(line)
    reading, writing = os.pipe()
    if (child := os.fork()) == 0:
        os.dup2(writing, 1)
        os.environ.update(environment)
        sys.argv = ["-c", *arguments]
        try:
            exec(program, {"__name__": "__main__"})
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        sys.stdout.flush()
        os._exit(0)
    os.close(writing)
    with open(reading) as said:
        out = said.read()
    print(json.dumps([os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), out]), flush=True)
"""


class Forks:
    """Runs programs as `python -c PROGRAM ARGUMENTS` would."""

    def __init__(self) -> None:
        command = [sys.executable, "-c", _SERVE]
        self._parent = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def run(self, program: str, *arguments: str, **environment: str) -> tuple[int, str]:
        """Its exit code, negative for a signal, and what it printed."""
        assert self._parent.stdin is not None
        assert self._parent.stdout is not None
        print(json.dumps([program, arguments, environment]), file=self._parent.stdin, flush=True)
        code, out = json.loads(self._parent.stdout.readline())
        return code, out

    def close(self) -> None:
        self._parent.communicate(timeout=60)


@pytest.fixture(scope="module")
def forks() -> Iterator[Forks]:
    forks = Forks()
    yield forks
    forks.close()
