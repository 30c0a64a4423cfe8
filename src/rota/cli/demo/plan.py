"""The demo's jobs: what each asks for, and when."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rota.errors import WorldError

STEP_S = 0.1
PROGRAM = "train.py"
PATIENCE_S = 120.0
LONG_S, VERY_LONG_S = 4.0, 10.0


@dataclass(frozen=True)
class DemoJob:
    """One job of the demo."""

    name: str
    at_s: float
    """Submission, after the first job's."""
    slots: int
    work_s: float
    """Run time on its slots, without starting up."""


JOBS = (
    DemoJob("vision", 0.0, 2, 13.0),
    DemoJob("speech", 0.3, 2, 12.0),
    DemoJob("whole", 0.9, 4, 4.0),
    DemoJob("sweep-1", 1.5, 1, 2.0),
    DemoJob("sweep-2", 1.9, 1, 2.0),
    DemoJob("tuning", 2.3, 1, 3.0),
    DemoJob("sweep-3", 2.8, 1, 2.0),
    DemoJob("pair-1", 3.5, 2, 3.0),
    DemoJob("sweep-4", 4.2, 1, 2.0),
    DemoJob("probe", 4.9, 1, 2.0),
    DemoJob("pair-2", 5.5, 2, 2.0),
    DemoJob("sweep-5", 6.0, 1, 2.0),
)
"""Two long jobs come first, one needs all four slots, many short ones come behind."""


@dataclass(frozen=True)
class DemoPlan:
    """The jobs that are submitted under each policy."""

    jobs: tuple[DemoJob, ...]
    start_s: dict[str, float]
    """Library -> seconds to start Python and import it; without PyTorch if it is not installed."""

    def library(self, number: int) -> str:
        """`torch` for the longer jobs if it is there; to start it takes longer than the short ones run."""
        return "torch" if "torch" in self.start_s and JOBS[number].work_s >= LONG_S else "numpy"

    def limit_s(self, number: int) -> float:
        """The run time limit that its user states: more than it needs, and time to start.

        The longest jobs get plenty for slow machines: they report how long they need, so no estimate suffers.
        """
        factor = 3.0 if JOBS[number].work_s >= VERY_LONG_S else 1.5
        return round(factor * self.jobs[number].work_s + 2.0 + 3.0 * self.start_s[self.library(number)], 1)

    def spec(self, number: int, folder: Path) -> dict[str, Any]:
        """Job `number` as `POST /v1/jobs` takes it; its program lies in `folder`."""
        job = self.jobs[number]
        steps = max(1, round(job.work_s / STEP_S))
        command = [sys.executable, PROGRAM, "--seed", str(number), "--steps", str(steps)]
        command += ["--step-s", str(STEP_S), "--library", self.library(number)]
        return {
            "command": command,
            "name": job.name,
            "gpus": job.slots,
            "ranks": "node",
            "time_s": self.limit_s(number),
            "grace_s": 5.0,
            "workdir": str(folder),
        }


def planned(jobs: int = len(JOBS), work: float = 1.0) -> DemoPlan:
    """The first `jobs` jobs with `work` times the work, for the libraries that this Python has."""
    chosen = [DemoJob(j.name, j.at_s * work, j.slots, j.work_s * work) for j in JOBS[:jobs]]
    took = {name: took_s for name in ("numpy", "torch") if (took_s := _import_s(name)) is not None}
    if "numpy" not in took:
        raise WorldError(f"{sys.executable} cannot import NumPy, which the demo's jobs need")
    return DemoPlan(tuple(chosen), took)


def _import_s(module: str) -> float | None:
    """Seconds to start Python and import `module`; None if that fails."""
    began = time.monotonic()
    command = [sys.executable, "-c", f"import {module}"]
    done = subprocess.run(command, capture_output=True, timeout=PATIENCE_S, check=False)
    return time.monotonic() - began if done.returncode == 0 else None


def put_program(folder: Path) -> None:
    """Copy the jobs' program to where they run."""
    shutil.copyfile(Path(__file__).with_name(PROGRAM), folder / PROGRAM)
