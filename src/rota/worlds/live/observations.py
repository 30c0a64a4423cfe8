"""Reports of agents and programs on running jobs: their speed and their use of devices.

Only a job that is alone on its devices shows its own speed; its speed when co-located is compared with it.
Observations are kept with the job and passed to policies that ask for them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from rota.knowledge.needs import Observation
from rota.knowledge.seen import NEWS, Shape, at_any_batch, by_size, is_alone, shape_of
from rota.model.grants import Grant
from rota.wire.sync import ProgressReport, Usage
from rota.worlds.live.attempts import Attempt, LiveJob
from rota.worlds.live.curves import Point, said_by_agent, said_by_program
from rota.worlds.live.jobs import LiveJobs

EVERY_S = 5.0
"""Seconds between two looks of an agent."""
SETTLED_S = 1.0
"""A step time reported sooner than this after a change may still belong to the time before it."""
HOLDS_S = 60.0
"""Seconds for which a report on the use of devices holds: agents report only larger changes."""
MOST_THINNED = 1
"""Most jobs whose points are thinned in one step (some 25 ms each); others wait for the next."""


def seen_before(live: LiveJobs) -> list[Observation]:
    """The recorded observations of all jobs, as if made now; on grants that they have, or had.

    A speed is given if the job had such devices in an attempt that is on record.
    """
    now, cluster, seen = live.now, live.machines.cluster, []
    for job in live.values():
        grants = [a.grant for a in reversed(job.attempts) if is_alone(a.grant)]
        grants = [grant for grant in grants if max(grant.devices) < cluster.gpus]  # a node may have lost some
        if grants and job.observed.looked_s:
            since_s = now - job.observed.looked_s
            seen.append(Observation(job.row, grants[0], since_s, now, busy=job.observed.utilisation))
        for shape, speed in job.observed.speeds.items():
            grant = next((g for g in grants if shape_of(cluster, g, shape.batch_size) == shape), None)
            if grant is not None:
                step_s = (shape.batch_size or 1.0) / speed
                batch, noise = shape.batch_size, job.observed.noise
                seen.append(
                    Observation(job.row, grant, now, now, step_s=step_s, batch_size=batch, noise=noise)
                )
    return seen


def note_usage(live: LiveJobs, job: LiveJob, attempt: Attempt, node: str, usage: Usage) -> None:
    """The agent of `node` has looked at what its part of `attempt` uses.

    An agent without news is silent: its previous report held until its last look but one.
    """
    first = attempt.places[0]
    before, then = first.looked_s, _busy_now(attempt)
    place = next(place for place in attempt.places if place.name == node)
    place.looked_s = usage.at_s - live.epoch_unix_s
    place.busy = _busy(live, place.node, len(place.devices), usage)
    place.idle_s = usage.idle_s
    _draw(live, job, attempt, said_by_agent(usage, place.busy))
    now = _busy_now(attempt)
    if place is not first or now is None or attempt.ready_s is None or not _is_alone(live, job, attempt):
        return
    seconds = place.looked_s - attempt.steady_s
    if before is not None and then is not None and before > attempt.steady_s:
        seconds = place.looked_s - before
        if seconds > EVERY_S:
            _look(live, job, attempt, then, place.looked_s - EVERY_S, seconds - EVERY_S)
            seconds = EVERY_S
    if seconds > 0.0:
        _look(live, job, attempt, now, place.looked_s, seconds)


def draw_progress(live: LiveJobs, job: LiveJob, attempt: Attempt, said: ProgressReport) -> None:
    """The program of `attempt` has said something new; what its agent said last holds."""
    values, usage = said_by_program(said), attempt.usage
    if usage is not None and live.now - (usage.at_s - live.epoch_unix_s) <= HOLDS_S:
        values |= said_by_agent(usage, _busy_now(attempt))
    _draw(live, job, attempt, values)


def draw_end(live: LiveJobs, job: LiveJob) -> None:
    """The newest attempt of `job` has ended: its curves end with its last report."""
    _take_point(live, job, job.curves.close())


def _draw(live: LiveJobs, job: LiveJob, attempt: Attempt, values: Mapping[str, float | None]) -> None:
    if attempt.is_suspended:  # its memory is looked at, but it holds no devices and does nothing
        return
    values = {**values, "gpus": float(len(attempt.grant.devices))}
    _take_point(live, job, job.curves.see(job.row, attempt.number, live.now, values, attempt.wanted_s))


def _take_point(live: LiveJobs, job: LiveJob, point: Point | None) -> None:
    unsaved = live.unsaved
    if point is not None:
        unsaved.points.append(point)
    if job.curves.is_full and len(unsaved.thinned) < MOST_THINNED:
        job.curves.thin()
        unsaved.thinned.add(job.row)


def settle(live: LiveJobs, job: LiveJob, attempt: Attempt) -> None:
    """The job stops or changes devices: an agent that had time to look and said nothing saw nothing new."""
    busy, first = _busy_now(attempt), attempt.places[0]
    if busy is None or attempt.ready_s is None or not _is_alone(live, job, attempt):
        return
    now = attempt.until_s(live.now)
    seconds = now - max(attempt.steady_s, -math.inf if first.looked_s is None else first.looked_s)
    if seconds > EVERY_S + SETTLED_S:
        first.looked_s = now
        _look(live, job, attempt, busy, now, seconds)


def _look(
    live: LiveJobs, job: LiveJob, attempt: Attempt, busy: float, until_s: float, seconds: float
) -> None:
    """Observe that the job kept the part `busy` of its devices in use for `seconds` until `until_s`."""
    job.observed.look(busy, seconds)
    seen = Observation(
        job.row, attempt.grant, until_s - seconds, until_s, busy=busy, device_gib=_device_gib(attempt)
    )
    _note(live, job, seen)


def _device_gib(attempt: Attempt) -> float:
    """Memory on each of its devices, NaN if unknown; `usage` is of one of its nodes, which are alike."""
    gib = None if attempt.usage is None else attempt.usage.gpu_memory_gib
    devices = sum(len(place.devices) for place in attempt.places) / len(attempt.places)
    return math.nan if gib is None or not devices else gib / devices


def _busy_now(attempt: Attempt) -> float | None:
    """Part of all its devices that was in use at the last looks; None if not all are known."""
    devices = sum(len(place.devices) for place in attempt.places)
    if not devices or any(place.busy is None for place in attempt.places):
        return None
    return sum((place.busy or 0.0) * len(place.devices) for place in attempt.places) / devices


def _busy(live: LiveJobs, node: int, devices: int, usage: Usage) -> float | None:
    """Part of the devices of one node that is in use; None if not known."""
    if live.machines.is_cpu(node):
        return usage.cpu_cores / devices if devices else None
    return usage.gpu_utilisation


def note_speed(live: LiveJobs, job: LiveJob, attempt: Attempt) -> None:
    """The program of `attempt` has said how long its steps take."""
    said = attempt.progress
    if said is None or not said.step_s or attempt.ready_s is None or not live.is_running(job):
        return
    if said.at_s - live.epoch_unix_s < attempt.steady_s + SETTLED_S or attempt is not job.attempt:
        return
    speed = (said.batch_size or 1.0) / said.step_s
    if _is_alone(live, job, attempt):
        job.observed.time(_shape(live, attempt), speed)
        if said.gradient_noise is not None and said.gradient_noise >= 0.0:
            job.observed.noise = said.gradient_noise
        _note(live, job, _heard(live, job, attempt, said))
    else:
        _pace_beside(live, job, attempt, speed)


def _heard(live: LiveJobs, job: LiveJob, attempt: Attempt, said: ProgressReport) -> Observation:
    """The report of a program, as an observation of its last step."""
    until_s, step_s = said.at_s - live.epoch_unix_s, _number(said.step_s)
    return Observation(
        job.row,
        attempt.grant,
        until_s - step_s,
        until_s,
        step_s=step_s,
        batch_size=_number(said.batch_size),
        noise=_number(said.gradient_noise),
        loss=_number(said.loss),
        gradient_s=_number(said.gradient_s),
        local_most=_number(said.local_most),
        total=_number(said.total_steps),
    )


def _number(value: float | None) -> float:
    return math.nan if value is None else value


def _shape(live: LiveJobs, attempt: Attempt) -> Shape:
    """Devices and batch size to which the speed of `attempt` belongs."""
    said = attempt.progress
    batch_size = said.batch_size if said is not None else None
    return shape_of(live.machines.cluster, attempt.grant, batch_size or 0.0)


def _is_alone(live: LiveJobs, job: LiveJob, attempt: Attempt) -> bool:
    """True if it runs alone on whole devices."""
    is_running = attempt is job.attempt and live.is_running(job) and attempt.told is None
    return is_running and is_alone(attempt.grant)


def _pace_beside(live: LiveJobs, job: LiveJob, attempt: Attempt, speed: float) -> None:
    """Its speed when co-located; that gives its rate if its speed alone is known."""
    shape, row, now = _shape(live, attempt), job.row, live.now
    speeds = job.observed.speeds
    alike = {one: speeds[one] for one in speeds if one.batch_size == shape.batch_size or not one.gpu_type}
    asked = max(job.spec.gpus, 1)
    alone = next((sizes[asked] for sizes in by_size(alike, shape.gpu_type) if asked in sizes), None)
    if alone is None:
        return
    rate = speed / alone
    if abs(rate - live.progress.rate.item(row)) >= NEWS * rate:
        live.progress.pace(row, rate, now, now)
        live.note_progress(row)


def rate_of(job: LiveJob, grant: Grant, gpu_type: str | None = None) -> float:
    """Work per second on `grant`: measured where it was, else in proportion to devices and share."""
    asked, devices = max(job.spec.gpus, 1), len(grant.devices) or 1
    if grant.share == 1.0 and devices != asked:
        speeds = job.observed.speeds
        if job.spec.batch_max is not None:
            speeds = at_any_batch(speeds, job.spec.batch_size or math.nan, job.observed.noise)
        for sizes in by_size(speeds, gpu_type):
            if asked in sizes and devices in sizes:
                return sizes[devices] / sizes[asked]
    return devices / asked * grant.share


def _note(live: LiveJobs, job: LiveJob, seen: Observation) -> None:
    """Have the job stored if the observation is news, and pass it to policies that read them."""
    if job.observed.take_news():
        live.unsaved.job(job)
    if live.seen is not None:
        live.seen.append(seen)
