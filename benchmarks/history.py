"""What questions about the past cost the controller, by jobs on record, and how late others are.

    python benchmarks/history.py [JOBS ...]

Makes a store with so many ended jobs (20,000 if not said), two stretches each, and asks it in this process as
the controller does: processor time by question and job, and how late another thread that wakes every
millisecond is meanwhile (the scheduler is such a one).
"""

from __future__ import annotations

import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from rota.cli.live.history import A_PAGE
from rota.server.api.route_parts import answer
from rota.server.auth import mint
from rota.server.cleanup import Tidier
from rota.server.clocks import Clock
from rota.server.history import History
from rota.server.records import JobRecords
from rota.server.retention import Keep
from rota.server.roster import StoredRoster, token_row
from rota.server.scheduler_view import SchedulerView
from rota.server.store.rows import IntervalRow, JobState, NewJob, Step
from rota.server.store.store import Store
from rota.table.state import Phase
from rota.wire.job import JobSpec
from rota.wire.sync import DeviceInfo, NodeInfo

BATCH = 5_000
NAP_S = 0.001
SWITCH_S = 0.0005


def filled(home: Path, jobs: int) -> Store:
    """A store with so many ended jobs of 40 users on 64 devices of two types, and two curve points each."""
    store = Store.open(None, home)
    draw = np.random.default_rng(7)
    for name, kind in (("n0", "V100"), ("n1", "A100")):
        devices = [DeviceInfo(index=i, type=kind) for i in range(32)]
        info = NodeInfo(
            name=name,
            address="127.0.0.1",
            cpus=64,
            memory_gib=512,
            boot_id="b",
            devices=devices,
            kind="nvidia",
        )
        store.join(info, token_row(mint("agent", name)[1]))
    for first in range(0, jobs, BATCH):
        _add(store, draw, first, min(BATCH, jobs - first))
    return store


def _add(store: Store, draw: np.random.Generator, first: int, count: int) -> None:
    user = f"user{first // BATCH % 40}"
    spec = JobSpec(command=["python", "train.py"], name="train", gpus=2, workload=f"w{first % 7}")
    rows = store.add_jobs(user, f"team{first % 5}/{user}", [NewJob(spec) for _ in range(count)], 10.0 * first)
    step = Step(jobs={}, intervals=[], points=[])
    states: dict[int, JobState] = {}
    intervals: list[IntervalRow] = []
    for job in rows:
        starts = 10.0 * job.row + float(draw.exponential(60.0))
        middle, ends = starts + 300.0, starts + 300.0 + float(draw.exponential(3000.0))
        device = int(draw.integers(0, 63))
        for number, (low, high, how) in enumerate(
            ((starts, middle, "preempted"), (middle, ends, "finished"))
        ):
            held = (device, device + 1)
            intervals.append(
                IntervalRow(job.row, number + 1, low, high, held, (device // 32,) * 2, 1.0, "alone", how)
            )
        states[job.row] = replace(
            job.now, state="COMPLETED", phase=int(Phase.COMPLETED), first_start_s=starts, finish_s=ends,
            run_s=ends - starts, service=2.0 * (ends - starts), starts=2, attempt=2, exit_code=0,
            capability={"checkpoint": True, "resize": False, "protocol": 1},
            measured={"leaving_s": 0.5, "cpu_s": 100.0, "peak_gib": 3.0},
        )  # fmt: skip
    store.commit(replace(step, jobs=states, intervals=intervals))


class Lateness:
    """A thread that wakes every millisecond, and by how much it was late."""

    def __enter__(self) -> Lateness:
        self.late_s: list[float] = []
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()
        return self

    def _run(self) -> None:
        while not self._over.is_set():
            before = time.monotonic()
            time.sleep(NAP_S)
            self.late_s.append(time.monotonic() - before - NAP_S)

    def __exit__(self, *error: object) -> None:
        self._over.set()
        self._thread.join()

    def worst_ms(self) -> tuple[float, float]:
        """The 99th percentile and the longest."""
        return float(np.percentile(self.late_s, 99)) * 1e3, max(self.late_s) * 1e3


def measured(name: str, jobs: int, ask: Callable[[], object]) -> str:
    """One line of the table."""
    began_s, cpu_s = time.monotonic(), time.process_time()
    with Lateness() as lateness:
        ask()
    cpu_s, took_s = time.process_time() - cpu_s, time.monotonic() - began_s
    p99_ms, worst_ms = lateness.worst_ms()
    return (
        f"{name:28} {jobs:>8,} {took_s:7.2f} s {cpu_s:7.2f} s {cpu_s / jobs * 1e6:7.1f} us/job"
        f" {p99_ms:8.2f} ms {worst_ms:8.1f} ms"
    )


def pages(history: History, until_s: float) -> None:
    """All ended jobs as JSON, as `rota history` asks for them."""
    last = ""
    while page := history.history(None, until_s, A_PAGE, last):
        answer(page)
        last = page[-1].id


def main(counts: Sequence[int]) -> None:
    """Print a line for each question and number of jobs."""
    sys.setswitchinterval(SWITCH_S)
    print(
        f"{'question':28} {'jobs':>8} {'took':>9} {'CPU':>9} {'CPU/job':>13} {'late p99':>11} {'worst':>11}"
    )
    for count in counts:
        with tempfile.TemporaryDirectory() as folder:
            store = filled(Path(folder), count)
            clock, shown = Clock(store.epoch_s), SchedulerView()
            tidier = Tidier(store, StoredRoster(store), Keep(), clock)
            history = History(store, shown, JobRecords(store, shown, clock, tidier), clock)
            until_s = store.epoch_s + 10.0 * count + 1e6
            questions: dict[str, Callable[[], object]] = {
                "history, page by page": partial(pages, history, until_s),
                "history, as a trace": partial(history.history_csv, None, until_s),
                "usage by tenant": partial(history.usage, ["tenant"], None, until_s, None),
                "usage by user and month": partial(history.usage, ["user", "month"], None, until_s, None),
            }
            for name, ask in questions.items():
                print(measured(name, count, ask), flush=True)
            store.close()


if __name__ == "__main__":
    main([int(text) for text in sys.argv[1:]] or [20_000])
