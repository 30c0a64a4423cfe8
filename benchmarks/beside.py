"""HyperQueue and task-spooler on this machine: the same programs, two slots each, in one run with Rota.

HyperQueue comes from the package index (`pip install hyperqueue cloudpickle tqdm`: its server and worker run
inside this process, through its Python API), task-spooler from the distribution (`apt-get install
task-spooler`).  What is not installed is said and left out.  What each of them promises after a power cut:
docs/live-performance.md.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from live_common import ROTA, Cluster, Spread, cluster, load, ms, stamp, stamping, until

SLOTS = 2
Submit = Callable[[Sequence[str], int], object]
"""(program, how often) -> anything, as soon as the system has taken all of it."""


@dataclass
class System:
    """One of those that are compared."""

    name: str
    ways: dict[str, Submit]
    """How one submits, by name: a command, or a call from a program that runs already."""
    bulk: dict[str, Submit]
    """How one submits many."""
    starts: dict[str, list[float]] = field(default_factory=dict)
    """Seconds from before the submission to the first line of the program, by way."""
    spans: dict[str, float] = field(default_factory=dict)
    """Seconds until the last of many has run, by way."""


def beside(rounds: int = 15, jobs: int = 300) -> None:
    """submit -> start, and many short programs; one after the other, round by round."""
    with contextlib.ExitStack() as stack:
        systems = [_rota(stack.enter_context(cluster(SLOTS)))]
        for name, missing, make in (
            ("HyperQueue", _no_hyperqueue(), _hyperqueue),
            ("task-spooler", _no_spooler(), _spooler),
        ):
            if missing:
                print(f"{name} is left out: {missing}")
            else:
                systems.append(stack.enter_context(make()))
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        for turn in range(rounds + 2):
            for one in systems:
                for way, submit in one.ways.items():
                    took_s = _start(submit, folder / f"{one.name}-{way}-{turn}".replace(" ", "-"))
                    if turn >= 2:  # the first ones warm up
                        one.starts.setdefault(way, []).append(took_s)
        for one in systems:
            for way, submit in one.bulk.items():
                one.spans[way] = _many(submit, folder / f"{one.name}-{way}".replace(" ", "-"), jobs)
        print(load())
        for one in systems:
            _show(one, jobs)


def _start(submit: Submit, mark: Path) -> float:
    asked = time.time()
    submit(stamping(mark), 1)
    took_s = stamp(mark) - asked
    time.sleep(0.1)  # its end is looked after
    return took_s


def _many(submit: Submit, marks: Path, jobs: int) -> float:
    """Until as many programs have left a mark."""
    asked = time.time()
    submit(["/bin/sh", "-c", f"echo >> {marks}"], jobs)
    until(lambda: marks.exists() and marks.stat().st_size >= jobs, 300, 0.005)
    return marks.stat().st_mtime - asked


def _show(one: System, jobs: int) -> None:
    for way, seconds in one.starts.items():
        print(f"{one.name:14s} {way + ' -> start':26s} {Spread(tuple(seconds))}")
    for way, took_s in one.spans.items():
        print(f"{one.name:14s} {f'{jobs} programs, {way}':26s} {ms(took_s)}, {jobs / took_s:.0f} programs/s")


def _rota(rota: Cluster) -> System:
    def command(program: Sequence[str], count: int) -> None:
        array = ["--array", f"1-{count}"] if count > 1 else []
        words = [*ROTA, "submit", *array, "--", *program]
        subprocess.run(words, env=rota.environment, check=True, stdout=subprocess.DEVNULL)

    def array(program: Sequence[str], count: int) -> None:
        rota.submit(program, array=f"1-{count}")

    def singly(program: Sequence[str], count: int) -> None:
        for _ in range(count):
            rota.submit(program)

    return System("Rota", {"API": singly, "command": command}, {"array": array, "singly": singly})


def _no_hyperqueue() -> str:
    if importlib.util.find_spec("hyperqueue") is None:
        return "there is no package `hyperqueue` here (pip install hyperqueue cloudpickle tqdm)"
    return ""


@contextlib.contextmanager
def _hyperqueue() -> Iterator[System]:
    from hyperqueue import Job, LocalCluster
    from hyperqueue.cluster import WorkerConfig

    with tempfile.TemporaryDirectory() as folder, LocalCluster(folder, WorkerConfig(cores=SLOTS)) as local:
        client = local.client()

        def submit(program: Sequence[str], count: int) -> None:
            job = Job(default_workdir=folder)
            for _ in range(count):
                job.program(list(program), stdout=None, stderr=None)
            client.submit(job)

        yield System("HyperQueue", {"API": submit}, {"one job": submit})


def _no_spooler() -> str:
    return "" if shutil.which("tsp") else "there is no command `tsp` here (apt-get install task-spooler)"


@contextlib.contextmanager
def _spooler() -> Iterator[System]:
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "TS_SOCKET": f"{folder}/socket", "TMPDIR": folder}

        def tsp(*words: str) -> None:
            subprocess.run(["tsp", *words], env=environment, check=True, stdout=subprocess.DEVNULL)

        def submit(program: Sequence[str], count: int) -> None:
            for _ in range(count):
                tsp(*program)

        tsp("-S", str(SLOTS))
        try:
            yield System("task-spooler", {"command": submit}, {"singly": submit})
        finally:
            tsp("-K")
