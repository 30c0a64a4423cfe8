"""Running jobs are watched: what agents and programs tell becomes what is known of each job's speed and use.

Only a job that is alone on its devices says something about itself; how fast it works beside another is held
against that.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from rota.model.grants import Grant, Role
from rota.wire.sync import Usage
from rota.worlds.live.attempts import Attempt, LiveJob
from rota.worlds.live.jobs import LiveJobs
from rota.worlds.live.observed import NEWS, Observer

EVERY_S = 5.0
"""Agents look so often."""
SETTLED_S = 1.0
"""A step time that a program told sooner than this after a change may still be of the time before."""


def introduce(live: LiveJobs, observers: Iterable[object]) -> None:
    """From now on these hear what is seen, beginning with what was seen already."""
    live.observers = [one for one in observers if isinstance(one, Observer)]
    for job in live.values():
        if job.observed.take_news():
            _tell(live, job)


def note_usage(live: LiveJobs, job: LiveJob, attempt: Attempt, node: str, usage: Usage) -> None:
    """The agent of `node` has looked at what its part of `attempt` uses.

    An agent that has nothing new to say says nothing: what it said before held until its last look but one.
    """
    first = attempt.places[0]
    before, then = first.looked_s, _busy_now(attempt)
    place = next(place for place in attempt.places if place.name == node)
    place.looked_s = usage.at_s - live.epoch_unix_s
    place.busy = _busy(live, place.node, len(place.devices), usage)
    now = _busy_now(attempt)
    if place is not first or now is None or attempt.ready_s is None or not _is_alone(live, job, attempt):
        return
    seconds = place.looked_s - attempt.ready_s
    if before is not None and then is not None and before > attempt.ready_s:
        seconds = place.looked_s - before
        if seconds > EVERY_S:
            job.observed.look(then, seconds - EVERY_S)
            seconds = EVERY_S
    if seconds > 0.0:
        job.observed.look(now, seconds)
        _tell_news(live, job)


def settle(live: LiveJobs, job: LiveJob, attempt: Attempt) -> None:
    """The job stops or changes devices: an agent that had time to look and said nothing saw nothing new."""
    busy, first = _busy_now(attempt), attempt.places[0]
    if busy is None or attempt.ready_s is None or not _is_alone(live, job, attempt):
        return
    now = attempt.until_s(live.now)
    seconds = now - max(attempt.ready_s, -math.inf if first.looked_s is None else first.looked_s)
    if seconds > EVERY_S + SETTLED_S:
        first.looked_s = now
        job.observed.look(busy, seconds)
        _tell_news(live, job)


def _busy_now(attempt: Attempt) -> float | None:
    """Part of all its devices that was in use at the last looks; None if not all are known."""
    devices = sum(len(place.devices) for place in attempt.places)
    if not devices or any(place.busy is None for place in attempt.places):
        return None
    return sum((place.busy or 0.0) * len(place.devices) for place in attempt.places) / devices


def _busy(live: LiveJobs, node: int, devices: int, usage: Usage) -> float | None:
    """Part of the devices of one node that is in use; None if nobody can tell."""
    if live.machines.is_cpu(node):
        return usage.cpu_cores / devices if devices else None
    return usage.gpu_utilisation


def note_speed(live: LiveJobs, job: LiveJob, attempt: Attempt) -> None:
    """The program of `attempt` has said how long its steps take."""
    said = attempt.progress
    if said is None or not said.step_s or attempt.ready_s is None or not live.is_running(job):
        return
    if said.at_s - live.epoch_unix_s < attempt.ready_s + SETTLED_S or attempt is not job.attempt:
        return
    speed = (said.batch_size or 1.0) / said.step_s
    if _is_alone(live, job, attempt):
        job.observed.time(len(attempt.grant.devices), speed)
        _tell_news(live, job)
    else:
        _pace_beside(live, job, speed)


def _is_alone(live: LiveJobs, job: LiveJob, attempt: Attempt) -> bool:
    """True if it runs with nobody beside it on whole devices."""
    grant = attempt.grant
    is_running = attempt is job.attempt and live.is_running(job) and attempt.told is None
    return is_running and grant.role is Role.ALONE and grant.share == 1.0 and bool(grant.devices)


def _pace_beside(live: LiveJobs, job: LiveJob, speed: float) -> None:
    """Beside another it works this fast: that is its rate, if it is known how fast it works alone."""
    alone, row, now = job.observed.speeds.get(max(job.spec.gpus, 1)), job.row, live.now
    if alone is None:
        return
    rate = speed / alone
    if abs(rate - live.progress.rate.item(row)) >= NEWS * rate:
        live.progress.pace(row, rate, now, now)
        live.note_progress(row)


def rate_of(job: LiveJob, grant: Grant) -> float:
    """Work per second on `grant`: measured where it was, else in proportion to devices and share."""
    asked, devices = max(job.spec.gpus, 1), len(grant.devices) or 1
    speeds = job.observed.speeds
    if grant.share == 1.0 and devices != asked and asked in speeds and devices in speeds:
        return speeds[devices] / speeds[asked]
    return devices / asked * grant.share


def _tell_news(live: LiveJobs, job: LiveJob) -> None:
    if job.observed.take_news():
        live.unsaved.job(job)
        _tell(live, job)


def _tell(live: LiveJobs, job: LiveJob) -> None:
    for observer in live.observers:
        observer.observe(job.row, job.observed)
