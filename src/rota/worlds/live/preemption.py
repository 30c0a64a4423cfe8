"""Preemption: how a job leaves its devices, what survives of its work, its cost, and when it is forbidden."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from rota.model.grants import Leave
from rota.scheduler.guard.host_memory import Resident
from rota.scheduler.guard.live_rules import Gentle, LostWork, MinimumRun, NoPreemption, Redo, together
from rota.scheduler.loop import Rules
from rota.table.state import State
from rota.wire.sync import Wanted
from rota.worlds.live.attempts import Attempt, LiveJob
from rota.worlds.live.jobs import LiveJobs
from rota.worlds.live.node_parts import stated_gib


def way_out(job: LiveJob, leave: Leave, *, stays: bool = True) -> Wanted:
    """How a preempted job gives its devices back, given what its program can; `stays`: host memory has room.

    A program that saves nothing by itself keeps its work only in memory: if it can be suspended there, it is,
    whatever the policy says; if there is no memory for that, its agent stops it.
    """
    if leave is Leave.ABANDON:
        return Wanted.STOP
    if not stays:
        return Wanted.LEAVE
    if leave is Leave.IN_MEMORY or (_keeps(job) and not saves(job)):
        return Wanted.SUSPEND
    return Wanted.LEAVE


def saves(job: LiveJob) -> bool:
    """True if the program checkpoints when it is asked to leave."""
    can = job.capability
    return job.spec.checkpoint == "own" or (can is not None and can.checkpoint)


def _keeps(job: LiveJob) -> bool:
    """True if it can be suspended where it is."""
    can = job.capability
    return job.spec.checkpoint == "auto" and can is not None and can.suspend is not None


def saved_work(job: LiveJob, attempt: Attempt, done: float, *, completely: bool) -> float:
    """What remains of `done` once the processes of `attempt` have gone; `completely` if they saved it all."""
    if completely or job.spec.checkpoint == "own":
        return done
    said, saved = attempt.progress, attempt.saved_base
    if said is None or said.checkpoint_step is None or said.steps <= 0:
        return saved
    return saved + (done - saved) * min(1.0, said.checkpoint_step / said.steps)


def keep_saved(live: LiveJobs, job: LiveJob, attempt: Attempt, *, completely: bool) -> None:
    """The processes of `attempt` have gone: from now on its job counts only the work that was saved.

    Unsaved work counts as lost to other jobs if a decision stopped it.  Without a record of its end it was
    lost by the infrastructure, whatever order it had received.
    """
    done = live.progress.base.item(job.row)
    saved = saved_work(job, attempt, done, completely=completely)
    if attempt.is_for_others and attempt.exit is not None:
        attempt.lost_s = max(0.0, done - saved)
    live.progress.base[job.row] = saved
    for later in job.living:
        if later.number > attempt.number:  # it was granted devices before it was known what would be saved
            later.saved_base = saved
            live.unsaved.attempt(later)


def to_redo(live: LiveJobs, state: State, row: int) -> Redo:
    """The work that `row` has lost for others, and what of it its present attempt has not done again."""
    job = live.get(row)
    lost_s = 0.0 if job is None else job.lost_s
    attempt = None if job is None else job.attempt
    if not lost_s or attempt is None or attempt.is_over or attempt.wanted not in (Wanted.RUN, Wanted.SUSPEND):
        return Redo(lost_s, lost_s)
    again_s = state.progress.done(row, state.now) - attempt.saved_base
    return Redo(lost_s, max(0.0, lost_s - again_s))


def suspended(live: LiveJobs) -> list[Resident]:
    """Waiting jobs with processes in host memory, and what they hold there."""
    return [
        _kept(live, job, attempt)
        for job in live.values()
        for attempt in job.attempts
        if not attempt.is_over and attempt.wanted is Wanted.SUSPEND and not live.is_running(job)
    ]


def would_keep(live: LiveJobs, row: int, leave: Leave) -> Resident | None:
    """What a running job would keep in memory if it were preempted by `leave`."""
    job = live[row]
    attempt = job.attempt
    if attempt is None or attempt.is_over or not attempt.has_begun:
        return None
    return _kept(live, job, attempt) if way_out(job, leave) is Wanted.SUSPEND else None


def _kept(live: LiveJobs, job: LiveJob, attempt: Attempt) -> Resident:
    """By node the larger of the memory it asked for and the memory it was seen to use."""
    seen = attempt.usage.memory_gib if attempt.usage is not None else 0.0
    gib = tuple(
        (place.node, max(stated_gib(job, attempt, place), place.suspended_gib or seen))
        for place in attempt.places
        if not place.is_over
    )
    if saves(job):
        return Resident(job.row, gib)
    done = live.progress.done(job.row, live.now)
    return Resident(job.row, gib, loses_s=done - saved_work(job, attempt, done, completely=False))


def preemption_costs(live: LiveJobs) -> dict[int, float]:
    """Of each running job, the seconds that its preemption would cost now: work to do again, and moves."""
    return {row: preemption_cost_s(live, row) for row in live.state.grants}


def preemption_cost_s(live: LiveJobs, row: int) -> float:
    """Seconds that preempting one running job would cost; 0 before it begins; unmeasured parts count as 0."""
    job = live[row]
    attempt = job.attempt
    if attempt is None or attempt.is_over or not attempt.has_begun:
        return 0.0

    def took(kind: str) -> float:
        """Of this attempt if it has been measured there, else as a rule."""
        own = attempt.costs.get(kind)
        usual = live.costs.seconds(live.workload(row), kind) if own is None else own
        return usual or 0.0

    if way_out(job, Leave.CHECKPOINT) is Wanted.SUSPEND:
        return took("suspend") + took("resume")
    again_s = took("start") + max(0.0, took("ready") - took("step")) + took("restore")
    if saves(job):
        return took("leave" if job.spec.checkpoint != "own" else "stop") + again_s
    done = live.progress.done(row, live.now)
    return done - saved_work(job, attempt, done, completely=False) + took("stop") + again_s


def rules_in_force(
    live: LiveJobs, began_s: Callable[[State, int], float], min_run_s: float, *, is_new: bool
) -> Rules:
    """Rules of a live cluster for every policy: no thrashing, no stop of a job that must not be stopped.

    No job is preempted before `min_run_s` seconds after its processes began, as `began_s(state, row)` says.
    A policy that `is_new` has made no decision yet: its first decision stops no job.
    """

    def fixed() -> set[int]:
        return {row for row in live.state.grants if row in live and not live[row].spec.preemptible}

    rules: list[Rules] = [
        NoPreemption(fixed),  # first: what passes with time is no reason where nothing will
        LostWork(partial(to_redo, live)),
        MinimumRun(min_run_s, began_s),
    ]
    if is_new:
        rules.append(Gentle())
    return together(*rules)
