"""Holds that follow from what a job asks for: other jobs, its array, its beginning, the cluster."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import islice
from typing import TYPE_CHECKING

from rota.scheduler.state import Phase
from rota.scheduler.world import How
from rota.wire.job import After, JobSpec
from rota.worlds.local.attempts import LiveJob
from rota.worlds.local.holds import ARRAY, BEGIN, DEPENDENCY, INFEASIBLE, USER, Hold
from rota.worlds.local.moment import Moment

if TYPE_CHECKING:
    from rota.worlds.local.world import LiveWorld


def derived_holds(world: LiveWorld, job: LiveJob, now: float) -> Iterator[Hold]:
    """The holds of a job that has just arrived."""
    spec = job.spec
    if spec.hold:
        yield Hold(USER, job.user)
    waits = [before for before in spec.after if not _is_satisfied(world, before)]
    if waits:
        yield Hold(DEPENDENCY, ", ".join(before.job for before in waits))
    begin = begins(spec, world.epoch_unix_s, now)
    if begin is not None:
        yield begin
    infeasible = impossible(world, job)
    if infeasible is not None:
        yield infeasible
    if array_is_full(world, job):
        yield Hold(ARRAY, provided=job.array_most)


def begins(spec: JobSpec, epoch_unix_s: float, now: float) -> Hold | None:
    """A hold until the moment before which the job shall not begin, if that is still to come."""
    if spec.begin_s is None or spec.begin_s - epoch_unix_s <= now:
        return None
    when = datetime.fromtimestamp(spec.begin_s, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    return Hold(BEGIN, when, spec.begin_s - epoch_unix_s)


def _is_satisfied(world: LiveWorld, before: After) -> bool:
    """Also true if it can never be: `look` finds that out and ends the job."""
    row = world.row_of.get(before.job)
    if row is None:
        return False
    phase = _phase(world, row)
    return phase >= Phase.COMPLETED and not _never(phase, before)


def _phase(world: LiveWorld, row: int) -> int:
    """Where a job stands at this moment; the loop's table does not know yet what has just ended."""
    job = world.live.get(row)
    if job is not None and job.is_over:
        return Phase.COMPLETED if job.state == "COMPLETED" else Phase.FAILED
    return world.state.phase.item(row) if row < world.state.submitted else Phase.ABSENT


def _never(phase: int, before: After) -> bool:
    """True if a job that has ended as `phase` did not end as it had to."""
    if phase < Phase.COMPLETED or before.when == "any":
        return False
    return (phase == Phase.COMPLETED) != (before.when == "ok")


def impossible(world: LiveWorld, job: LiveJob) -> Hold | None:
    """A hold if the cluster as it is could never run the job, empty as it may be."""
    cluster, spec = world.cluster, job.spec
    least = spec.range[0]
    wanted = spec.gpu_types
    if wanted and not set(wanted) & set(cluster.type_names):
        return Hold(INFEASIBLE, "|".join(wanted), requested=spec.gpus, provided=0)
    rooms = [
        cluster.gpus_of_type(code)
        for code, name in enumerate(cluster.type_names)
        if not wanted or name in wanted
    ]
    room = max(rooms, default=0)
    if least > room:
        return Hold(INFEASIBLE, requested=least, provided=room)
    return None


def array_is_full(world: LiveWorld, job: LiveJob) -> bool:
    """True if as many others of its array as may run at once are neither held nor over."""
    if not job.array_most:
        return False
    others = (
        other.array_first == job.array_first and not other.holds and not other.is_over and other is not job
        for other in world.live.values()
    )
    return sum(others) >= job.array_most


def wake_array(world: LiveWorld, job: LiveJob) -> None:
    """`job` needs its place in its array no more: one of those that wait for a place may have it."""
    if not job.array_most:
        return
    waiting = (
        other.row
        for other in world.live.values()
        if other.array_first == job.array_first and other.holds.keys() == {ARRAY}
    )
    for row in islice(waiting, job.array_most):
        world.timers.soon(row, world.state.now)


def look(world: LiveWorld, job: LiveJob, moment: Moment) -> None:
    """See whether what the held `job` waits for has come, or never will."""
    if DEPENDENCY in job.holds:
        for before in job.spec.after:
            row = world.row_of.get(before.job, -1)
            if row < 0 or _never(_phase(world, row), before):
                ended = "does not exist" if row < 0 else f"did not end as asked ({before.when})"
                world.over(
                    job, Phase.CANCELLED, "CANCELLED", f"job {before.job}, which it was to run after, {ended}"
                )
                moment.settle(job.row, Phase.CANCELLED)
                for attempt in job.living:
                    world.send_away(job, attempt, How.CANCELLED, "cancelled", job.cause)
                world.drop_if_gone(job)
                return
        if all(_is_satisfied(world, before) for before in job.spec.after):
            world.unhold(job, DEPENDENCY, moment)
    if INFEASIBLE in job.holds and impossible(world, job) is None:
        world.unhold(job, INFEASIBLE, moment)
    if ARRAY in job.holds and not array_is_full(world, job):
        world.unhold(job, ARRAY, moment)
