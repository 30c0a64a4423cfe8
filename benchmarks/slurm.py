"""Side by side with Slurm on this machine: the same trivial job, two slots each, in one run.

python benchmarks/slurm.py [--rounds 20] [--jobs 100]

Slurm (Debian's `slurm-wlm` and `munge`) runs on loopback out of a temporary folder, as root: once in its
default configuration, once tuned for latency (`batch_sched_delay=0,sched_min_interval=0`).  Without Slurm, or
without root, only Rota is measured.  The job itself writes the moment at which it began.

    command -> start   from the start of `sbatch` or `rota submit` to the first line of the job, idle slots
    API -> start       the same from a call of Rota's API, without the start of an interpreter
    array              one command submits an array of 100 jobs: until the last of them has run
    singly             100 submissions, one after the other (`sbatch`; for Rota a call of its API): likewise
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from live_common import ROTA, Cluster, Spread, cluster, leave_on_sigterm, load, ms, stamp, stamping, until

SLOTS = 2
PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "sinfo", "squeue")
CONFIGURATIONS = {
    "default": "",
    "tuned": "SchedulerParameters=batch_sched_delay=0,sched_min_interval=0",
}
CONF = """
ClusterName=bench
SlurmctldHost=localhost
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.sock
CryptoType=crypto/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
MailProg=/bin/true
ReturnToService=2
{more}
NodeName={name} NodeAddr=127.0.0.1 CPUs={slots}
PartitionName=all Nodes={name} Default=YES MaxTime=INFINITE State=UP
"""


@dataclass(frozen=True)
class Figures:
    """Of one system; throughputs in jobs a second."""

    start: Spread
    array_s: float
    singly_s: float


def missing() -> str:
    """Why Slurm cannot be measured here, as a sentence; empty if it can."""
    absent = [name for name in PROGRAMS if _find(name) is None]
    if absent:
        return f"Slurm is not installed here ({', '.join(absent)} missing), so only Rota is measured."
    return "" if os.geteuid() == 0 else "Slurm can only be started by root, so only Rota is measured."


@contextlib.contextmanager
def slurm(more: str = "") -> Iterator[dict[str, str]]:
    """munged, slurmctld and slurmd in a temporary folder; the environment that its commands need."""
    with tempfile.TemporaryDirectory(prefix="slurm-bench-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        key = folder / "munge.key"
        key.touch(mode=0o600)
        key.write_bytes(os.urandom(1024))
        for room in ("state", "spool"):
            (folder / room).mkdir()
        conf = folder / "slurm.conf"
        host = socket.gethostname().partition(".")[0]
        text = CONF.format(folder=folder, ports=_ports(2), more=more, name=host, slots=SLOTS)
        conf.write_text(text)
        environment = {**os.environ, "SLURM_CONF": str(conf)}
        munge = [f"--{file}-file={folder}/munge.{file}" for file in ("key", "pid", "log", "seed")]
        with contextlib.ExitStack() as stack:
            stack.enter_context(_daemon(["munged", "-F", *munge, f"--socket={folder}/munge.sock"], folder))
            until((folder / "munge.sock").exists, 20)
            stack.enter_context(_daemon(["slurmctld", "-D", "-c", "-f", str(conf)], folder))
            stack.enter_context(_daemon(["slurmd", "-D", "-N", host, "-f", str(conf)], folder))
            until(lambda: _state(environment) == "idle", 60, 0.1)
            yield environment


def _state(environment: dict[str, str]) -> str:
    asked = subprocess.run(
        ["sinfo", "-h", "-o", "%T"], env=environment, capture_output=True, text=True, check=False
    )
    return asked.stdout.strip()


@contextlib.contextmanager
def _daemon(command: list[str], folder: Path) -> Iterator[None]:
    program = _find(command[0])
    assert program is not None
    with (folder / f"{command[0]}.out").open("wb") as out:
        process = subprocess.Popen([program, *command[1:]], stdout=out, stderr=out)
    try:
        yield
    finally:
        process.terminate()
        try:
            process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _find(name: str) -> str | None:
    return shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")


def _ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


def starts(submit: Callable[[Path], object], folder: Path, rounds: int, idle: Callable[[], bool]) -> Spread:
    """Seconds from before `submit` to the first line of the job, each time on idle slots.

    Slurm looks at its queue once a second: submissions come at random moments of it, not just after.
    """
    found, chooser = [], random.Random(1)
    for _ in range(rounds + 1):
        time.sleep(chooser.random())
        mark, asked = folder / f"{time.time_ns()}", time.time()
        submit(mark)
        found.append(stamp(mark) - asked)
        until(idle, 60, 0.05)
    return Spread(tuple(found[1:]))  # the first one warms up


def throughput(submit: Callable[[Path, int], None], folder: Path, jobs: int) -> float:
    """Seconds from before `submit` until all `jobs` have run."""
    ended, began = folder / f"{time.time_ns()}", time.time()
    submit(ended, jobs)
    until(lambda: ended.exists() and ended.read_bytes().count(b"\n") >= jobs, 300, 0.01)
    return max(float(line) for line in ended.read_text().split()) - began


def _ending(path: Path) -> str:
    return f"date +%s.%N >> {path}"


def measure_slurm(environment: dict[str, str], rounds: int, jobs: int) -> Figures:
    """Through `sbatch`."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)

        def sbatch(text: str, *options: str) -> None:
            command = ["sbatch", "-n1", "-o", "/dev/null", "-D", "/", *options]
            script = f"#!/bin/sh\n{text}\n"
            subprocess.run(command, input=script, env=environment, text=True, check=True, capture_output=True)

        def singly(path: Path, count: int) -> None:
            for _ in range(count):
                sbatch(_ending(path))

        start = starts(
            lambda mark: sbatch(stamping(mark)[2]), folder, rounds, lambda: _state(environment) == "idle"
        )
        array_s = throughput(lambda path, n: sbatch(_ending(path), f"--array=1-{n}"), folder, jobs)
        until(lambda: _state(environment) == "idle", 60, 0.05)
        return Figures(start, array_s, throughput(singly, folder, jobs))


def measure_rota(rota: Cluster, rounds: int, jobs: int) -> tuple[Figures, Spread]:
    """Through `rota submit`; and starts through the API."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)

        def command(text: str, *options: str) -> None:
            line = [*ROTA, "submit", *options, "--", "/bin/sh", "-c", text]
            subprocess.run(line, env=rota.environment, check=True, stdout=subprocess.DEVNULL, cwd="/")

        def singly(path: Path, count: int) -> None:
            for _ in range(count):
                rota.submit(["/bin/sh", "-c", _ending(path)])

        def idle() -> bool:
            return bool(rota.status()["running"] == 0)

        start = starts(lambda mark: command(stamping(mark)[2]), folder, rounds, idle)
        by_api = starts(lambda mark: rota.submit(stamping(mark)), folder, rounds, idle)
        array_s = throughput(lambda path, n: command(_ending(path), "--array", f"1-{n}"), folder, jobs)
        until(idle)
        return Figures(start, array_s, throughput(singly, folder, jobs)), by_api


def show(name: str, figures: Figures, jobs: int, ours: Figures | None = None) -> None:
    """One block; with `ours`, how many times as long it takes as Rota."""
    start, array_s, singly_s = figures.start, figures.array_s, figures.singly_s

    def ratio(theirs: float, own: Callable[[Figures], float]) -> str:
        return "" if ours is None else f"   {theirs / own(ours):.1f} x Rota"

    print(f"{name}: {load()}")
    print(f"  command -> start     {start}{ratio(start.median_s, lambda f: f.start.median_s)}")
    print(f"  array of {jobs}         {ms(array_s)}, {jobs / array_s:.1f} jobs/s", end="")
    print(ratio(array_s, lambda f: f.array_s))
    print(f"  {jobs} singly           {ms(singly_s)}, {jobs / singly_s:.1f} jobs/s", end="")
    print(ratio(singly_s, lambda f: f.singly_s), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--jobs", type=int, default=100)
    parser.add_argument("--only", choices=tuple(CONFIGURATIONS), help="one configuration of Slurm")
    given = parser.parse_args()
    leave_on_sigterm()
    sentence = missing()
    if sentence:
        print(sentence)
        with cluster(SLOTS) as rota:
            show_rota(*measure_rota(rota, given.rounds, given.jobs), given.jobs)
        return
    for name in [given.only] if given.only else CONFIGURATIONS:  # Rota again each time: the load may differ
        with cluster(SLOTS) as rota, slurm(CONFIGURATIONS[name]) as environment:
            ours, by_api = measure_rota(rota, given.rounds, given.jobs)
            show_rota(ours, by_api, given.jobs)
            figures = measure_slurm(environment, given.rounds, given.jobs)
            show(f"Slurm, {name}", figures, given.jobs, ours)
        print(f"  its command against Rota's API: {figures.start.median_s / by_api.median_s:.1f} x")


def show_rota(ours: Figures, by_api: Spread, jobs: int) -> None:
    """Rota's block."""
    show("Rota", ours, jobs)
    print(f"  API -> start         {by_api}", flush=True)


if __name__ == "__main__":
    main()
