"""Jobs that hold devices and do nothing: users get a notice, and then the devices are taken if that is set.

Agents measure for how long a part has done nothing (`engines/rota/idling.py`), so no clock here can be wrong
about it.  A job is idle while all of its parts that can be measured are.  Its user gets one notice after
`idle_after`, and it is suspended after as long again, unless it may not be stopped or would lose its work.
"""

from __future__ import annotations

from rota.model.units import format_duration, plural
from rota.scheduler.world import How
from rota.table.state import Phase
from rota.wire.sync import Mechanism, Wanted
from rota.worlds.live import lifecycle
from rota.worlds.live.attempts import Attempt, LiveJob
from rota.worlds.live.batch_builder import BatchBuilder
from rota.worlds.live.holds import SUSPENDED, Hold
from rota.worlds.live.jobs import AFTERWARDS_S, LiveJobs

TAKEN_AFTER = 2.0
"""Multiple of its limit after which an idle job loses its devices; its user is warned at half of it."""


def note_idle(live: LiveJobs, job: LiveJob, attempt: Attempt) -> None:
    """An agent has looked at a part of `attempt`: whether its job has just become idle, or works again."""
    idle_s, limit_s = _idle_s(live, job, attempt), limit_of(live, job)
    if idle_s is None:
        return
    if not limit_s or idle_s < limit_s:
        awake(live, job)
    elif job.idle_since_s is None:
        _tell(live, job, attempt, idle_s, limit_s)
    if is_to_be_suspended(live, job):
        live.timers.set(job.row, live.now + AFTERWARDS_S)


def limit_of(live: LiveJobs, job: LiveJob) -> float:
    """Seconds that it may be idle: its own setting, else the operator's; 0 is without limit."""
    own = job.spec.idle_after_s
    return live.settings.idle_after_s if own is None else own


def awake(live: LiveJobs, job: LiveJob) -> None:
    """It works again, or holds nothing any more."""
    if job.idle_since_s is not None:
        job.idle_since_s = None
        live.unsaved.job(job)
        if live.is_running(job):
            live.unsaved.event("idle", job.id, "it works again")


def is_to_be_suspended(live: LiveJobs, job: LiveJob) -> bool:
    """Whether its time is up, and its devices may be taken."""
    if job.idle_since_s is None or job.attempt is None or not may_suspend(live, job):
        return False
    idle_s, limit_s = _idle_s(live, job, job.attempt), limit_of(live, job)
    return idle_s is not None and limit_s > 0.0 and idle_s >= TAKEN_AFTER * limit_s


def may_suspend(live: LiveJobs, job: LiveJob) -> bool:
    """True if the operator wants it, the job may be stopped, and its memory or its work is kept."""
    said = job.capability
    keeps = job.spec.checkpoint == "own" or (
        said is not None and (said.checkpoint or said.suspend not in (None, Mechanism.RESTART))
    )
    return live.settings.suspend_idle and job.spec.preemptible and keeps


def suspend(live: LiveJobs, job: LiveJob, batch: BatchBuilder) -> None:
    """Suspend it until a user resumes it; its devices go to other jobs."""
    attempt = job.attempt
    assert attempt is not None
    idle_s = _idle_s(live, job, attempt)
    text = f"suspended, since it did nothing for {format_duration(idle_s or 0.0)}"
    live.unsaved.event("suspend", job.id, text)
    live.unsaved.idle.append((job.row, f"{text}; `rota resume {job.id}` lets it run again"))
    job.idle_since_s = None
    suspend_for(live, job, Hold(SUSPENDED, "rota, since it did nothing"), text, batch)


def suspend_for(live: LiveJobs, job: LiveJob, why: Hold, text: str, batch: BatchBuilder) -> None:
    """Take the devices of `job`, if it has some, and keep it from having others as long as the hold is."""
    attempt = job.attempt
    if live.is_running(job):
        batch.end(job.row, How.PREEMPTED, Phase.PENDING)
        if attempt is not None and not attempt.is_over:
            lifecycle.send_away(live, job, attempt, How.PREEMPTED, "suspended", text, Wanted.SUSPEND)
    lifecycle.hold(live, job, why, batch)


def _idle_s(live: LiveJobs, job: LiveJob, attempt: Attempt) -> float | None:
    """Seconds for which it has done nothing with devices that it holds; None if not known now."""
    works = attempt is job.attempt and live.is_running(job) and attempt.told is None
    if not works or attempt.ready_s is None or not attempt.grant.devices:
        return None
    known = [place.idle_s for place in attempt.places if place.idle_s is not None]
    return min(known, default=None)


def _tell(live: LiveJobs, job: LiveJob, attempt: Attempt, idle_s: float, limit_s: float) -> None:
    job.idle_since_s = max(attempt.ready_s or 0.0, live.now - idle_s)
    live.unsaved.job(job)
    held = plural(len(attempt.grant.devices), "device")
    text = f"it holds {held} and has done nothing for {format_duration(idle_s)}"
    if may_suspend(live, job):
        text += f"; at {format_duration(TAKEN_AFTER * limit_s)} it is suspended"
    live.unsaved.event("idle", job.id, text)
    live.unsaved.idle.append((job.row, text))
