"""A live cluster in a temporary folder, which is removed afterwards, whatever happens."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rota.client import Client, route
from rota.errors import WorldError

ROTA = [sys.executable, "-m", "rota.cli.main"]
COMMAND_S = 90.0
"""Seconds that `rota up` may take on a busy machine."""
DOWN_S = 20.0
SETTINGS = ("--devices", "cpu:4", "--policy", "fifo", "--min-run", "2s")
"""Options of `rota up`; the policy counts only the first time."""
FOREIGN = ("ROTA_URL", "ROTA_TOKEN", "ROTA_HOME")


class DemoCluster:
    """Four CPU slots under a policy; `rota` runs its commands, `client` calls it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.home = folder / "home"
        own = {name: value for name, value in os.environ.items() if name not in FOREIGN}
        self.environment = {**own, "ROTA_HOME": str(self.home)}
        self.client = Client(str(self.home / "controller.sock"))

    def up(self) -> str:
        """Start all processes that do not run, with the settings of the demo."""
        return self.rota("up", *SETTINGS)

    def rota(self, *arguments: str, timeout_s: float = COMMAND_S) -> str:
        """What `rota ARGUMENTS` prints.  Raises WorldError with its complaint if it fails."""
        done = subprocess.run(
            [*ROTA, *arguments],
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
            start_new_session=True,  # we handle Ctrl-C, and stop processes in order
        )
        if done.returncode != 0:
            raise WorldError(
                f"`rota {' '.join(arguments)}` failed: {done.stderr.strip() or done.stdout.strip()}"
            )
        return done.stdout

    def submit(self, spec: dict[str, Any]) -> str:
        """Number of the job."""
        return str(self.client.call("POST", "/v1/jobs", {"spec": spec})["jobs"][0]["id"])

    def jobs(self, ids: list[str]) -> dict[str, dict[str, Any]]:
        """`JobView` of each of `ids`."""
        wanted = set(ids)
        rows = self.client.call("GET", "/v1/jobs", query={"limit": 1000})
        return {row["id"]: row for row in rows if row["id"] in wanted}

    def attempt(self, id: str) -> dict[str, Any]:
        """`AttemptView` of the last attempt of a job; empty before the first."""
        attempts = self.client.call("GET", route("v1", "jobs", id))["attempts"]
        return dict(attempts[-1]) if attempts else {}

    def processes(self, id: str, attempt: int) -> list[int]:
        """Process ids of the ranks of an attempt, as its shim wrote them down."""
        row = int(id) - 1
        path = self.home / "agent" / "attempts" / str(row) / str(attempt) / "ranks.json"
        try:
            return [int(rank["pid"]) for rank in json.loads(path.read_text())["ranks"]]
        except (OSError, ValueError, KeyError):
            return []

    def kill_controller(self) -> int:
        """kill -9; its process id."""
        pid = int(json.loads((self.home / "controller.json").read_text())["pid"])
        os.kill(pid, signal.SIGKILL)
        return pid

    def clean(self) -> None:
        """End the cluster as an operator would, then whatever is left of it."""
        with contextlib.suppress(WorldError, subprocess.TimeoutExpired):
            self.rota("down", "--kill-jobs", timeout_s=DOWN_S)
        self.client.close()
        until = time.monotonic() + DOWN_S
        while (left := processes_of(self.home)) and time.monotonic() < until:
            for pid in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.02)


@contextlib.contextmanager
def demo_cluster() -> Iterator[DemoCluster]:
    """A folder for a cluster, not up yet; processes and folder are gone when the block ends, however it does.

    SIGTERM and SIGHUP end the block as Ctrl-C does.
    """
    with _interrupts():
        folder = Path(tempfile.mkdtemp(prefix="rota-demo-"))
        cluster = DemoCluster(folder)
        try:
            yield cluster
        finally:
            before = signal.signal(
                signal.SIGINT, signal.SIG_IGN
            )  # a second signal would leave processes behind
            try:
                cluster.clean()
            finally:
                shutil.rmtree(folder, ignore_errors=True)
                signal.signal(signal.SIGINT, before)


@contextlib.contextmanager
def _interrupts() -> Iterator[None]:
    def interrupt(number: int, _: object) -> None:
        raise KeyboardInterrupt

    before = {number: signal.signal(number, interrupt) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def processes_of(home: Path) -> list[int]:
    """Processes of the cluster in `home`, by their environment, without this one."""
    marks = (f"ROTA_HOME={home}\0".encode(), f"ROTA_ATTEMPT_DIR={home}/".encode())
    pids = []
    for entry in Path("/proc").glob("[0-9]*"):
        pid = int(entry.name)
        try:
            environment = (entry / "environ").read_bytes() + b"\0"
        except OSError:  # gone, or another user's
            continue
        if pid != os.getpid() and any(mark in environment for mark in marks):
            pids.append(pid)
    return pids
