"""Stores with a random past: jobs in every state, moved between devices, failed, measured and running."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from store_place import Place, node_info

from rota.server.store.rows import AttemptRow, IntervalRow, JobRow, JobState, NewJob, Step, TokenRow
from rota.server.store.store import Store
from rota.table.state import Phase
from rota.wire.job import After, JobSpec
from rota.worlds.live.curves import Point

DAY_S = 86_400.0
SPAN_S = 80 * DAY_S
NOW_S = 90 * DAY_S
DEVICES = 6
ENDS = (
    ("COMPLETED", Phase.COMPLETED), ("FAILED", Phase.FAILED), ("CANCELLED", Phase.CANCELLED),
    ("TIMEOUT", Phase.FAILED), ("NODE_FAIL", Phase.FAILED),
)  # fmt: skip


@dataclass
class RandomPast:
    """A store, and what runs on its devices."""

    store: Store
    holding: dict[int, AttemptRow]


def random_past(place: Place, seed: int, jobs: int = 40) -> RandomPast:
    """Made of one seed."""
    draw, store = np.random.default_rng(seed), place.open()
    fast, slow = node_info("n0", DEVICES // 2), node_info("n1", DEVICES // 2)
    types = [device.model_copy(update={"type": "K80"}) for device in slow.devices]
    store.join(fast, TokenRow("h0", "agent", "n0", 1.0))
    store.join(slow.model_copy(update={"devices": types}), TokenRow("h1", "agent", "n1", 1.0))
    past = RandomPast(store, {})
    for submit_s in np.sort(draw.uniform(0.0, SPAN_S, jobs)).tolist():
        _add(past, draw, submit_s)
    return past


def _add(past: RandomPast, draw: np.random.Generator, submit_s: float) -> None:
    user, gpus = f"u{draw.integers(4)}", int(draw.integers(0, 13))
    after = [After(job=str(draw.integers(1, 5)), when="any")] if draw.uniform() < 0.2 else []
    begin_s = past.store.epoch_s + submit_s + 50.0
    spec = JobSpec(
        command=["x"], name=f"j{draw.integers(3)}", gpus=gpus, gpu_share=0.5 if gpus == 1 else 1.0,
        group=f"g{draw.integers(3)}" if gpus % 2 else "", begin_s=begin_s if gpus == 3 else None,
        after=after,
    )  # fmt: skip
    tenant = ("", "vision/cars", "speech")[int(draw.integers(3))]
    [job] = past.store.add_jobs(user, tenant, [NewJob(spec)], submit_s)
    intervals = _intervals(draw, job, submit_s)
    points = [
        Point(job.row, one.attempt, one.start_s, float(draw.uniform(one.start_s, one.end_s)), 2.0, curves)
        for one in intervals
        for curves in (
            {"utilisation": [float(draw.uniform()), 0.0, 1.0, 3.0]},
            {"loss": [1.0, 1.0, 1.0, 1.0]},
        )
        if draw.uniform() < 0.4
    ]
    state = _state(past, draw, job, intervals)
    attempts = [past.holding[job.row]] if job.row in past.holding else []
    past.store.commit(Step(jobs={job.row: state}, attempts=attempts, intervals=intervals, points=points))


def _intervals(draw: np.random.Generator, job: JobRow, at_s: float) -> list[IntervalRow]:
    found, attempt = [], 1
    for _ in range(int(draw.integers(0, 5))):
        at_s += float(draw.choice([0.0, draw.exponential(DAY_S)]))
        end_s = at_s + float(draw.choice([0.0, draw.exponential(10 * DAY_S)]))
        devices = sorted(draw.choice(DEVICES, int(draw.integers(0, DEVICES)), replace=False).tolist())
        how = str(draw.choice(["preempted", "failed", "adjusted", "lost", "finished"]))
        lost_s = float(draw.uniform(0.0, 3600.0)) if how == "preempted" else 0.0
        nodes = tuple(2 * device // DEVICES for device in devices)
        found.append(
            IntervalRow(
                job.row,
                attempt,
                at_s,
                end_s,
                devices,
                nodes,
                job.asked.gpu_share,
                "alone",
                how,
                lost_work_s=lost_s,
            )
        )
        attempt += how != "adjusted"
        at_s = end_s
    return found


def _state(
    past: RandomPast, draw: np.random.Generator, job: JobRow, intervals: list[IntervalRow]
) -> JobState:
    first_s = intervals[0].start_s if intervals else None
    last_s = intervals[-1].end_s if intervals else job.submit_s
    ran_s = sum(one.end_s - one.start_s for one in intervals)
    base = replace(
        job.now, first_start_s=first_s, run_s=ran_s, service=2.0 * ran_s, attempt=len(intervals),
        failures=sum(one.how in ("failed", "lost") for one in intervals), since_s=last_s, adjusted_s=last_s,
        progress_base=ran_s * float(draw.choice([0.0, 0.5])), preemptions=int(draw.integers(3)),
        capability={"checkpoint": True} if draw.uniform() < 0.5 else None,
        measured=_measured(draw), cause=str(draw.choice(["", "exit code 1, \"so\" it ends"])),
        exit_code=int(draw.integers(3)) if draw.uniform() < 0.7 else None,
        signal=9 if draw.uniform() < 0.2 else None, reason=str(draw.choice(["", "NonZeroExitCode"])),
    )  # fmt: skip
    lot = float(draw.uniform())
    if lot < 0.1:
        return base
    if lot < 0.25:
        devices = sorted(draw.choice(DEVICES, int(draw.integers(1, DEVICES)), replace=False).tolist())
        grant = [job.row, devices, job.asked.gpu_share, 0, -1, None]
        number = len(intervals) + 1
        past.holding[job.row] = AttemptRow(
            job.row, number, "running", grant, {"places": []}, "run", last_s, start_s=last_s
        )
        return replace(base, state="RUNNING", phase=int(Phase.RUNNING), attempt=number, progress_rate=1.0)
    state, phase = ENDS[int(draw.integers(len(ENDS)))]
    return replace(base, state=state, phase=int(phase), finish_s=last_s + float(draw.choice([0.0, 5.0])))


def _measured(draw: np.random.Generator) -> dict[str, object] | None:
    what = int(draw.integers(4))
    said: dict[str, object] = {"leaving_s": 0.5} if what == 1 else {"promise": [NOW_S, NOW_S + 5.0]}
    return None if what == 0 else {**said, "peak_gib": 3.0} if what < 3 else {"idle_since_s": 4.0}
