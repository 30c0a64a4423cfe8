"""A person with a terminal of their own, who uses `rota shell`."""

from __future__ import annotations

import fcntl
import os
import re
import select
import signal
import subprocess
import sys
import termios
import time

from live_cluster import PATIENCE_S, LiveCluster

LEAVE = "\x1d" * 3


class Person:
    """One terminal of 40 rows and 100 columns, and the command that runs there."""

    def __init__(self, live: LiveCluster, *words: str) -> None:
        self._mine, theirs = os.openpty()
        termios.tcsetwinsize(self._mine, (40, 100))
        self.before = termios.tcgetattr(theirs)
        self._theirs = theirs
        self.command = subprocess.Popen(
            [sys.executable, "-m", "rota.cli.main", "shell", *words],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env={**os.environ, "ROTA_HOME": str(live.home), "SHELL": "/bin/sh", "TERM": "dumb"},
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )
        self.text = ""

    def type(self, text: str) -> None:
        os.write(self._mine, text.encode())

    def resize(self, rows: int, columns: int) -> None:
        termios.tcsetwinsize(self._mine, (rows, columns))

    def sees(self, text: str) -> str:
        """All that stands there since the last call, once `text` is there."""
        until_s = time.monotonic() + PATIENCE_S
        while text not in self.text:
            assert self._read(until_s), f"not seen: {text!r}; there is {self.text!r}"
        seen, _, self.text = self.text.partition(text)
        return seen + text

    def job(self) -> str:
        """The number of the job that was submitted."""
        found = re.search(r"job (\d+)", self.sees("submitted job ") + self.sees("\n"))
        assert found is not None
        return found[1]

    def ends(self) -> int:
        """The exit code, once the command has ended; its terminal is as it was."""
        until_s = time.monotonic() + PATIENCE_S
        while self.command.poll() is None:
            assert time.monotonic() < until_s, f"it does not end; there is {self.text!r}"
            self._read(time.monotonic() + 0.05)
        while self._read(time.monotonic() + 0.05):
            continue
        assert termios.tcgetattr(self._theirs) == self.before
        return self.command.wait()

    def dies(self) -> None:
        """kill -9."""
        self.command.send_signal(signal.SIGKILL)
        self.command.wait()

    def __enter__(self) -> Person:
        return self

    def __exit__(self, *_: object) -> None:
        if self.command.poll() is None:
            self.dies()
        os.close(self._mine)
        os.close(self._theirs)

    def _read(self, until_s: float) -> bool:
        ready, _, _ = select.select([self._mine], [], [], max(0.0, until_s - time.monotonic()))
        if ready:
            self.text += os.read(self._mine, 1 << 16).decode(errors="replace")
        return bool(ready)
