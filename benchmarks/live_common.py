"""What the benchmarks of the live world share: a cluster of their own, clocks, costs of processes, figures.

Moments are Unix seconds.  A job says itself when it began, so that nothing between it and us is flattered.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from rota.client import Client

ROTA = [sys.executable, "-m", "rota.cli.main"]
ENDED = frozenset({"COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY"})
PROCESS_CLOCK = 2
"""Lowest bits of the clock of another process (`clock_getcpuclockid`): its threads' time."""
POLICY_PROCESS = "rota.server.policy.process"


@dataclass(frozen=True)
class Cluster:
    """A live cluster of this machine."""

    home: Path
    client: Client
    environment: dict[str, str]

    def submit(self, command: Sequence[str], **asked: object) -> str:
        """Id of the job, or of the first of an array."""
        spec = {"command": list(command), "workdir": "/", **asked}
        found: str = self.client.call("POST", "/v1/jobs", {"spec": spec})["jobs"][0]["id"]
        return found

    def job(self, id: str) -> dict[str, Any]:
        """`JobView`."""
        found: dict[str, Any] = self.client.call("GET", f"/v1/jobs/{id}")["job"]
        return found

    def wait(self, id: str, timeout_s: float = 120.0) -> dict[str, Any]:
        """The job once it has ended."""
        end = time.monotonic() + timeout_s
        while time.monotonic() < end:
            view: dict[str, Any] = self.client.call("GET", f"/v1/jobs/{id}/wait", query={"wait_s": 20})
            if view["state"] in ENDED:
                return view
        raise SystemExit(f"job {id} has not ended within {timeout_s:g} s")

    def act(self, verb: str, id: str) -> None:
        """`rota VERB ID`."""
        self.client.call("POST", f"/v1/jobs/{id}/{verb}", {})

    def status(self) -> dict[str, Any]:
        """`rota status`."""
        found: dict[str, Any] = self.client.call("GET", "/v1/status")
        return found

    def decisions(self) -> dict[str, Any]:
        """`PolicyView`: how many decisions there were, and how long the last took."""
        found: dict[str, Any] = self.client.call("GET", "/v1/policy")
        return found

    def processes_of_controller(self) -> dict[str, psutil.Process]:
        """`controller` and `policy`."""
        said = json.loads((self.home / "controller.json").read_text())
        controller = psutil.Process(said["pid"])
        children = controller.children(recursive=True)
        policy = next(child for child in children if POLICY_PROCESS in child.cmdline())
        return {"controller": controller, "policy": policy}

    def processes(self) -> dict[str, psutil.Process]:
        """`controller`, `policy` and `agent`."""
        agent = psutil.Process(int((self.home / "agent" / "lock").read_text()))
        return {**self.processes_of_controller(), "agent": agent}


@contextlib.contextmanager
def cluster(slots: int = 2, policy: str = "fifo", *flags: str) -> Iterator[Cluster]:
    """A cluster of CPU slots in a temporary folder, gone afterwards with all its jobs; 0 slots: no agent."""
    with tempfile.TemporaryDirectory(prefix="rota-bench-") as folder:
        home = Path(folder)
        environment = {**os.environ, "ROTA_HOME": folder}
        devices = f"cpu:{slots}" if slots else "none"
        up = [*ROTA, "up", "--devices", devices, "--policy", policy, *flags]
        subprocess.run(up, env=environment, check=True, stdout=subprocess.DEVNULL)
        try:
            token = (home / "tokens" / "admin").read_text().strip()
            with Client(str(home / "controller.sock"), token, timeout_s=120) as client:
                yield Cluster(home, client, environment)
        finally:
            down = [*ROTA, "down", "--kill-jobs"]
            subprocess.run(down, env=environment, check=False, stdout=subprocess.DEVNULL)


def until(true: Callable[[], object], timeout_s: float = 120.0, every_s: float = 0.002) -> float:
    """The moment at which `true()` was first seen to hold."""
    end = time.monotonic() + timeout_s
    while not true():
        if time.monotonic() > end:
            raise SystemExit(f"waited {timeout_s:g} s in vain")
        time.sleep(every_s)
    return time.time()


def stamping(path: Path) -> list[str]:
    """A command that writes the moment of its beginning."""
    return ["/bin/sh", "-c", f"date +%s.%N > {path}.part && mv {path}.part {path}"]


def stamp(path: Path, timeout_s: float = 120.0) -> float:
    """What `stamping` wrote, once it is there."""
    until(path.exists, timeout_s)
    return float(path.read_text())


@dataclass(frozen=True)
class Spread:
    """A sample of seconds."""

    values: tuple[float, ...]

    @property
    def median_s(self) -> float:
        return statistics.median(self.values)

    def __str__(self) -> str:
        low, high = min(self.values), max(self.values)
        return f"median {ms(self.median_s)}, best {ms(low)}, worst {ms(high)} (n={len(self.values)})"


def ms(seconds: float) -> str:
    """`12.3 ms`, or seconds from one on."""
    return f"{seconds:.2f} s" if seconds >= 1 else f"{seconds * 1e3:.1f} ms"


@dataclass(frozen=True)
class Cost:
    """What processes used between two moments."""

    cores: dict[str, float]
    """Part of one core."""
    memory_mb: dict[str, float]
    """Resident, in megabytes of 10^6 bytes."""


def costs(processes: dict[str, psutil.Process], span_s: float) -> Cost:
    """Watch for `span_s`; the processes sleep or work as they like."""
    before = {name: cpu_s(process) for name, process in processes.items()}
    began = time.monotonic()
    time.sleep(span_s)
    took = time.monotonic() - began
    cores = {name: (cpu_s(process) - before[name]) / took for name, process in processes.items()}
    return Cost(cores, {name: process.memory_info().rss / 1e6 for name, process in processes.items()})


def cpu_s(process: psutil.Process) -> float:
    """CPU seconds of a process so far, by its clock: ticks of 10 ms would be too coarse for an idle one."""
    return time.clock_gettime((~process.pid << 3) | PROCESS_CLOCK)


def leave_on_sigterm() -> None:
    """Take down what was started also when somebody ends the benchmark."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))


def load() -> str:
    """How busy the machine is: without this, the figures say little."""
    one, five, _ = os.getloadavg()
    return f"{len(os.sched_getaffinity(0))} cores, load {one:.1f} (5 min: {five:.1f})"
