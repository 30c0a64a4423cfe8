"""Holds that follow from what a job asks for: other jobs, its array, its beginning, the cluster."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from itertools import islice
from typing import TYPE_CHECKING

from rota.model.feasible import HostNeed, host_shortfalls
from rota.model.reasons import Code
from rota.scheduler.world import How
from rota.table.state import Phase
from rota.wire.job import JobSpec, array_of
from rota.worlds.live.attempts import LiveJob
from rota.worlds.live.batch_builder import BatchBuilder
from rota.worlds.live.holds import ARRAY, BEGIN, DEPENDENCY, INFEASIBLE, USER, Hold

if TYPE_CHECKING:
    from rota.worlds.live.world import LiveWorld


class Names:
    """What `after` may name: a job by its id, or all jobs of an array by its number."""

    def __init__(self, ids: Iterable[str]) -> None:
        self._rows: dict[str, int] = {}
        self._arrays: dict[str, list[int]] = {}
        for row, job_id in enumerate(ids):
            self.add(job_id, row)

    def add(self, job_id: str, row: int) -> None:
        """The job of `row` has this id."""
        self._rows[job_id] = row
        if "_" in job_id:
            self._arrays.setdefault(array_of(job_id), []).append(row)

    def rows(self, name: str) -> Sequence[int]:
        """Rows of the jobs that `name` stands for; none if it stands for nothing."""
        if name in self._arrays:
            return self._arrays[name]
        return (self._rows[name],) if name in self._rows else ()


def expect(world: LiveWorld, job: LiveJob) -> None:
    """`job` is to be looked at whenever one of those that it is to run after ends."""
    for before in job.spec.after:
        for row in world.names.rows(before.job):
            world.dependents.setdefault(row, set()).add(job.row)


def derived_holds(world: LiveWorld, job: LiveJob, now: float) -> Iterator[Hold]:
    """The holds of a job that has just arrived."""
    spec = job.spec
    if spec.hold:
        yield Hold(USER, job.user)
    waits = [before for before in spec.after if not is_met(_phases(world, before.job), before.when)]
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


def _phases(world: LiveWorld, name: str) -> set[int]:
    """Where the jobs that `name` stands for are; empty if there are none."""
    return {_phase(world, row) for row in world.names.rows(name)}


def _phase(world: LiveWorld, row: int) -> int:
    """Where a job stands at this moment; the loop's table does not know yet what has just ended."""
    job = world.live.get(row)
    if job is not None and job.is_over:
        return Phase.COMPLETED if job.state == "COMPLETED" else Phase.FAILED
    return world.state.phase.item(row) if row < world.state.submitted else Phase.ABSENT


def is_met(phases: Collection[int], when: str) -> bool | None:
    """True once jobs in these phases have ended as they had to, False if they never will have, else None.

    `ok`: all of them well; `any`: all of them; `failed`: all of them, and one at least not well.  No jobs
    never end.
    """
    if not phases:
        return False
    is_bad = any(phase > Phase.COMPLETED for phase in phases)
    if when == "ok" and is_bad:
        return False
    if any(phase < Phase.COMPLETED for phase in phases):
        return None
    return is_bad if when == "failed" else True


def impossible(world: LiveWorld, job: LiveJob) -> Hold | None:
    """A hold if the cluster as it is could never run the job, empty as it may be."""
    return next(lacks(world, job), None)


def lacks(world: LiveWorld, job: LiveJob) -> Iterator[Hold]:
    """All that the cluster has too little of, empty as it may be: devices, cores, host memory."""
    devices = _lacks_devices(world, job)
    if devices is not None:
        yield devices
    spec = job.spec
    need = HostNeed(spec.gpus, spec.range[0], spec.cpus, spec.memory_gib, spec.gpu_types)
    for needed, most, what in host_shortfalls(world.cluster, need):
        yield Hold(INFEASIBLE, what, requested=needed, provided=most, code=Code.HOST_TOO_LARGE)


def _lacks_devices(world: LiveWorld, job: LiveJob) -> Hold | None:
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


def look(world: LiveWorld, job: LiveJob, moment: BatchBuilder) -> None:
    """See whether what the held `job` waits for has come, or never will."""
    if DEPENDENCY in job.holds:
        are_met = []
        for before in job.spec.after:
            phases = _phases(world, before.job)
            are_met.append(is_met(phases, before.when))
            if are_met[-1] is False:
                ended = f"did not end as asked ({before.when})" if phases else "does not exist"
                _give_up(world, job, f"job {before.job}, which it was to run after, {ended}", moment)
                return
        if all(are_met):
            world.unhold(job, DEPENDENCY, moment)
    if INFEASIBLE in job.holds:
        never = impossible(world, job)
        if never is None:
            world.unhold(job, INFEASIBLE, moment)
        elif never != job.holds[INFEASIBLE]:
            world.hold(job, never, moment)
    if ARRAY in job.holds and not array_is_full(world, job):
        world.unhold(job, ARRAY, moment)


def _give_up(world: LiveWorld, job: LiveJob, why: str, moment: BatchBuilder) -> None:
    """What the held `job` waits for will never come."""
    world.over(job, Phase.CANCELLED, "CANCELLED", why)
    moment.settle(job.row, Phase.CANCELLED)
    for attempt in job.living:
        world.send_away(job, attempt, How.CANCELLED, "cancelled", job.cause)
    world.drop_if_gone(job)
