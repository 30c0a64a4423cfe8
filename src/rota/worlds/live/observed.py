"""What is seen of running jobs: how busy they keep their devices, how fast they work on how many of them.

Only a job that is alone on its devices says something about itself; how fast it works beside another is held
against that.  One that has not been watched for long enough counts as keeping its devices fully busy.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from rota.model.grants import Grant, Role
from rota.wire.sync import Usage

if TYPE_CHECKING:
    from rota.worlds.live.attempts import Attempt, LiveJob
    from rota.worlds.live.world import LiveWorld

LOOKED_ENOUGH_S = 60.0
"""A job is known after it was watched alone for so long."""
EVERY_S = 5.0
"""Agents look so often."""
MEMORY_S = 120.0
"""What was seen counts less and less with this time constant."""
SETTLED_S = 1.0
"""A step time that a program told sooner than this after a change may still be of the time before."""
NEWS = 0.05
"""A change by less is not worth telling."""
FRESH = 0.3
"""Weight of the newest speed."""


@dataclass(slots=True)
class JobObservations:
    """What was seen of one job, over all its attempts."""

    utilisation: float = 1.0
    """Part of its devices that it keeps busy, alone on them."""
    looked_s: float = 0.0
    """For how long it was watched."""
    speeds: dict[int, float] = field(default_factory=dict)
    """Samples per second, or steps where batches have no size, by number of devices, alone on them."""
    told: float = 1.0
    """The utilisation that policies know."""
    told_speeds: dict[int, float] = field(default_factory=dict)
    """Likewise."""

    def look(self, busy: float, seconds: float) -> None:
        """It has kept this part of its devices busy for so long."""
        weight = 1.0 if not self.looked_s else 1.0 - math.exp(-seconds / MEMORY_S)
        self.utilisation += weight * (min(max(busy, 0.0), 1.0) - self.utilisation)
        self.looked_s += seconds

    def time(self, devices: int, speed: float) -> None:
        """It works this fast on so many devices."""
        old = self.speeds.get(devices)
        self.speeds[devices] = speed if old is None else old + FRESH * (speed - old)

    def take_news(self) -> bool:
        """True if policies should know what they do not; from now on they do."""
        known = self.utilisation if self.looked_s >= LOOKED_ENOUGH_S else 1.0
        old = self.told_speeds
        is_news = abs(known - self.told) >= NEWS or any(
            abs(speed - old.get(devices, 0.0)) >= NEWS * speed for devices, speed in self.speeds.items()
        )
        if is_news:
            self.told, self.told_speeds = known, dict(self.speeds)
        return is_news

    def plain(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "utilisation": self.utilisation,
            "looked_s": self.looked_s,
            "speeds": {str(devices): speed for devices, speed in self.speeds.items()},
        }

    @classmethod
    def of(cls, plain: dict[str, Any] | None) -> JobObservations:
        """From JSON."""
        if not plain:
            return cls()
        speeds = {int(devices): float(speed) for devices, speed in plain["speeds"].items()}
        return cls(float(plain["utilisation"]), float(plain["looked_s"]), speeds)


@runtime_checkable
class Observer(Protocol):
    """Who wants to know what is seen of jobs."""

    def observe(self, row: int, observed: JobObservations) -> None:
        """Something new about `row`."""
        ...


def introduce(world: LiveWorld, observers: Iterable[object]) -> None:
    """From now on these hear what is seen, beginning with what was seen already."""
    world.observers = [one for one in observers if isinstance(one, Observer)]
    for job in world.live.values():
        if job.observed.take_news():
            _tell(world, job)


def look(world: LiveWorld, job: LiveJob, attempt: Attempt, node: str, usage: Usage) -> None:
    """The agent of `node` has looked at what its part of `attempt` uses.

    An agent that has nothing new to say says nothing: what it said before held until its last look but one.
    """
    first = attempt.places[0]
    before, then = first.looked_s, _busy_now(attempt)
    place = next(place for place in attempt.places if place.name == node)
    place.looked_s = usage.at_s - world.epoch_unix_s
    place.busy = _busy(world, place.node, len(place.devices), usage)
    now = _busy_now(attempt)
    if place is not first or now is None or attempt.ready_s is None or not _is_alone(world, job, attempt):
        return
    seconds = place.looked_s - attempt.ready_s
    if before is not None and then is not None and before > attempt.ready_s:
        seconds = place.looked_s - before
        if seconds > EVERY_S:
            job.observed.look(then, seconds - EVERY_S)
            seconds = EVERY_S
    if seconds > 0.0:
        job.observed.look(now, seconds)
        _tell_news(world, job)


def settle(world: LiveWorld, job: LiveJob, attempt: Attempt) -> None:
    """The job stops or changes devices: an agent that had time to look and said nothing saw nothing new."""
    busy, first = _busy_now(attempt), attempt.places[0]
    if busy is None or attempt.ready_s is None or not _is_alone(world, job, attempt):
        return
    now = attempt.until_s(world.state.now)
    seconds = now - max(attempt.ready_s, -math.inf if first.looked_s is None else first.looked_s)
    if seconds > EVERY_S + SETTLED_S:
        first.looked_s = now
        job.observed.look(busy, seconds)
        _tell_news(world, job)


def _busy_now(attempt: Attempt) -> float | None:
    """Part of all its devices that was in use at the last looks; None if not all are known."""
    devices = sum(len(place.devices) for place in attempt.places)
    if not devices or any(place.busy is None for place in attempt.places):
        return None
    return sum((place.busy or 0.0) * len(place.devices) for place in attempt.places) / devices


def _busy(world: LiveWorld, node: int, devices: int, usage: Usage) -> float | None:
    """Part of the devices of one node that is in use; None if nobody can tell."""
    if world.nodes[node].info.kind == "cpu":
        return usage.cpu_cores / devices if devices else None
    return usage.gpu_utilisation


def hear_speed(world: LiveWorld, job: LiveJob, attempt: Attempt) -> None:
    """The program of `attempt` has said how long its steps take."""
    said = attempt.progress
    if said is None or not said.step_s or attempt.ready_s is None or job.row not in world.state.running:
        return
    if said.at_s - world.epoch_unix_s < attempt.ready_s + SETTLED_S or attempt is not job.attempt:
        return
    speed = (said.batch_size or 1.0) / said.step_s
    if _is_alone(world, job, attempt):
        job.observed.time(len(attempt.grant.devices), speed)
        _tell_news(world, job)
    else:
        _pace_beside(world, job, speed)


def _is_alone(world: LiveWorld, job: LiveJob, attempt: Attempt) -> bool:
    """True if it runs with nobody beside it on whole devices."""
    grant = attempt.grant
    is_running = attempt is job.attempt and job.row in world.state.running and attempt.told is None
    return is_running and grant.role is Role.ALONE and grant.share == 1.0 and bool(grant.devices)


def _pace_beside(world: LiveWorld, job: LiveJob, speed: float) -> None:
    """Beside another it works this fast: that is its rate, if it is known how fast it works alone."""
    alone, row, now = job.observed.speeds.get(max(job.spec.gpus, 1)), job.row, world.state.now
    if alone is None:
        return
    rate = speed / alone
    if abs(rate - world.progress.rate.item(row)) >= NEWS * rate:
        world.progress.pace(row, rate, now, now)
        world.note_progress(row)


def rate_of(job: LiveJob, grant: Grant) -> float:
    """Work per second on `grant`: measured where it was, else in proportion to devices and share."""
    asked, devices = max(job.spec.gpus, 1), len(grant.devices) or 1
    speeds = job.observed.speeds
    if grant.share == 1.0 and devices != asked and asked in speeds and devices in speeds:
        return speeds[devices] / speeds[asked]
    return devices / asked * grant.share


def _tell_news(world: LiveWorld, job: LiveJob) -> None:
    if job.observed.take_news():
        world.news.jobs[job.row] = job
        _tell(world, job)


def _tell(world: LiveWorld, job: LiveJob) -> None:
    for observer in world.observers:
        observer.observe(job.row, job.observed)
