"""Gathers the present moment, with the knowledge of its jobs, for the forecast process."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from rota.forecast.held import Wait
from rota.forecast.remaining import Past
from rota.server.answers.questions import PresentMoment
from rota.server.refusals import Busy
from rota.server.store.rows import CostRow, PastJob
from rota.server.views import cost_views
from rota.worlds.live.attempts import Attempt, LiveJob
from rota.worlds.live.holds import ACCOUNT, ARRAY, DEPENDENCY, INFEASIBLE, OFFERED, SUSPENDED, USER, dominant
from rota.worlds.live.jobs import Names
from rota.worlds.live.preemption import to_redo
from rota.worlds.simulated.costs import Costs
from rota.worlds.simulated.measured_costs import measured_costs

if TYPE_CHECKING:
    from rota.server.scheduler import Scheduler

PAST = 20_000
"""Completed jobs that estimates are made from."""
MEASURED = 5_000
"""Measured costs that are looked at."""


def gather(scheduler: Scheduler) -> PresentMoment:
    """The moment after the last step of the loop, waited for a little while the loop is being built.

    Raises Busy if the policy is computing a decision.
    """
    scheduler.standing.check()
    loop, world = scheduler.loop, scheduler.world
    if loop is None or world is None:
        raise Busy("the scheduler is starting; ask again in a moment")
    frozen = scheduler.freeze()
    live = list(world.live.values())
    return PresentMoment(
        frozen=frozen,
        past=past_of(scheduler.store.past_jobs(PAST)),
        costs=costs_of(scheduler.store.costs(limit=MEASURED)),
        waits=waits_of(live, world.live.names),
        left_s={job.row: left for job in live if (left := left_s(job)) is not None},
        wake=loop.wake,
        min_run_s=scheduler.settings.min_run_s,
        fixed=frozenset(job.row for job in live if not job.spec.preemptible),
        redo={job.row: to_redo(world.live, loop.state, job.row) for job in live if job.lost_s},
    )


def past_of(completed: Sequence[PastJob]) -> Past:
    """The completed jobs as columns."""
    if not completed:
        return Past.none()
    tenant, group, run_s, gpus, limit_s = zip(*completed, strict=True)
    return Past(np.array(run_s), tenant, group, np.array(gpus, dtype=np.int64), np.array(limit_s))


def costs_of(measured: Iterable[CostRow]) -> Costs:
    """Costs of starts, stops and moves in the simulated world: as measured here, nothing before that."""
    views = cost_views(measured)
    if all(view.kind != "start" for view in views):
        return Costs()
    return measured_costs(views, "this cluster")


def waits_of(live: Iterable[LiveJob], names: Names) -> dict[int, Wait]:
    """What each held job waits for, as the simulated world knows it."""
    jobs = list(live)
    arrays: dict[int, list[int]] = {}
    for job in jobs:
        if job.array_first is not None:
            arrays.setdefault(job.array_first, []).append(job.row)
    return {job.row: _wait(job, names, arrays) for job in jobs if job.holds and not job.is_over}


def _wait(job: LiveJob, names: Names, arrays: Mapping[int, list[int]]) -> Wait:
    holds = dict(job.holds)
    until = [hold.until_s for hold in holds.values() if hold.until_s is not None and hold.kind != OFFERED]
    named = [row for before in job.spec.after for row in names.rows(before.job)]
    in_array = ARRAY in holds and job.array_first is not None
    return Wait(
        why=dominant(holds).constraint().sentence(),
        after=tuple(named) if DEPENDENCY in holds else (),
        until_s=max(until) if until else None,
        beside=tuple(sorted(arrays.get(job.array_first or 0, ()))) if in_array else (),
        most=job.array_most if in_array else 0,
        is_held=not holds.keys().isdisjoint((USER, SUSPENDED, OFFERED, ACCOUNT)),
        is_infeasible=INFEASIBLE in holds,
    )


def left_s(job: LiveJob) -> float | None:
    """Work left, in seconds at the requested allocation, as the program reports; None if it does not."""
    attempt = next((one for one in reversed(list(job.attempts)) if one.progress is not None), None)
    progress = None if attempt is None else attempt.progress
    if attempt is None or progress is None or not progress.total_steps or not progress.step_s or job.is_over:
        return None
    return max(progress.total_steps - progress.steps, 0) * progress.step_s * pace(job, attempt)


def pace(job: LiveJob, attempt: Attempt) -> float:
    """Work per second on the devices of `attempt`, in seconds at the requested allocation."""
    if attempt.is_trial:
        return 1.0
    devices = len(attempt.grant.devices) or 1
    return devices / max(job.spec.gpus, 1) * (attempt.grant.share or 1.0)
