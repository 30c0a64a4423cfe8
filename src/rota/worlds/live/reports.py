"""What agents say, and what follows from it for attempts, jobs and nodes."""

from __future__ import annotations

from rota.scheduler.decision import Event
from rota.scheduler.world import How
from rota.table.state import Phase
from rota.wire.sync import Capability, Cost, Exit, PartStatus, Report, SyncRequest, Usage, Wanted, are_two
from rota.worlds.live import groups, lifecycle, node_states
from rota.worlds.live.attempts import Attempt, LiveJob, NodePart
from rota.worlds.live.batch_builder import BatchBuilder
from rota.worlds.live.endings import Cause, Verdict, judge, parting
from rota.worlds.live.holds import BACK_OFF, Hold
from rota.worlds.live.inbox import ReportTold
from rota.worlds.live.jobs import LiveJobs
from rota.worlds.live.machines import LiveNode
from rota.worlds.live.observing import note_speed, note_usage
from rota.worlds.live.parts import can_resume

SAME_LOOK_S = 0.5
"""Moments of one look, told twice, differ by less: clocks that do not agree are compared anew each time."""
_NEVER_BEGAN = "was withdrawn before it began"
_STATE_OF = {Cause.OOM: "OUT_OF_MEMORY", Cause.INFRASTRUCTURE: "NODE_FAIL"}
"""Slurm's words for jobs that have failed for good."""


def take_in(live: LiveJobs, told: ReportTold, batch: BatchBuilder) -> ReportTold | None:
    """Take in one request of an agent; what is about rows that this moment changes is left for the next."""
    node = live.machines.nodes[live.machines.position[told.node]]
    request = told.request
    if node.is_forgotten:
        return None  # it was said while the node was being forgotten; the next word of its agent is refused
    if request.leaving:
        node_states.leave(live, node.position, batch)
    elif node.state in ("lost", "away"):
        node_states.regain(live, node.position, batch)
    if request.devices is not None:
        _look_at_devices(live, node, request, batch)
    later: list[Report] = []
    for report in request.reports:
        if report.row in batch.touched:
            later.append(report)
        else:
            _take_report(live, node.name, report, batch)
    is_complete = not request.complete or _lose_unnamed(live, node, request, batch)
    if request.complete and is_complete:
        _note_met(live, node.name)
    if not is_complete:
        return ReportTold(told.node, request.model_copy(update={"devices": None}))
    if later:
        rest = request.model_copy(update={"reports": later, "complete": False, "devices": None})
        return ReportTold(told.node, rest)
    return None


def _note_met(live: LiveJobs, name: str) -> None:
    """A node has told this controller all it knows: only now can it be said who is beyond a limit."""
    if live.directives.unmet and name in live.directives.unmet:
        live.directives.unmet.discard(name)
        for job in live.values():
            live.set_timers(job)


def _look_at_devices(live: LiveJobs, node: LiveNode, request: SyncRequest, batch: BatchBuilder) -> None:
    """Devices that have become unhealthy take no new jobs; those that are well again do."""
    first = int(live.machines.cluster.first_device[node.position])
    for device in request.devices or ():
        was_sick = device.index in node.sick
        if not device.healthy and not was_sick:
            node.sick[device.index] = device.why
            batch.close(first + device.index)
        elif device.healthy and was_sick:
            del node.sick[device.index]
            if node.state == "up":
                batch.open(first + device.index)
        else:
            continue
        batch.cause |= Event.CAPACITY
        live.unsaved.nodes.add(node.position)
        text = f"{node.name}:{device.index} is {'well' if device.healthy else 'unhealthy: ' + device.why}"
        live.unsaved.event("device", "", text)


def _lose_unnamed(live: LiveJobs, node: LiveNode, request: SyncRequest, batch: BatchBuilder) -> bool:
    """A complete report that does not name a part which had begun there: its folder is gone, it is lost.

    False if that has to be looked at again, since this moment changes the job.
    """
    has_seen_all = True
    named = {(report.row, report.attempt) for report in request.reports if not _is_of_another(live, report)}
    for job in list(live.values()):
        for attempt in job.living:
            place = next((p for p in attempt.places if p.name == node.name), None)
            if place is None or (job.row, attempt.number) in named or place.is_over or not place.has_begun:
                continue
            if job.row in batch.touched:
                has_seen_all = False
            else:
                gone = Report(
                    row=job.row,
                    attempt=attempt.number,
                    status=PartStatus.LOST,
                    since_s=live.epoch_unix_s + batch.now,
                    why=f"node {node.name} does not know it any more",
                )
                _take_report(live, node.name, gone, batch)
    return has_seen_all


def _is_of_another(live: LiveJobs, report: Report) -> bool:
    """About a job that the store, restored from a backup, has forgotten: its number was given once more."""
    if report.row not in live:
        return False
    return are_two(report.submit_s, live.epoch_unix_s + live.submit_s(report.row))


def _take_report(live: LiveJobs, node: str, report: Report, batch: BatchBuilder) -> None:
    job = live.get(report.row)
    attempts = job.attempts if job is not None else []
    attempt = attempts[report.attempt - 1] if 0 < report.attempt <= len(attempts) else None
    place = None if attempt is None else next((p for p in attempt.places if p.name == node), None)
    is_known = job is not None and attempt is not None and place is not None and not attempt.is_over
    if is_known and _is_of_another(live, report):
        return  # the order for this attempt says whose it is: the agent gets rid of the other one's processes
    if job is None or attempt is None or place is None or attempt.is_over:
        alive = report.status not in (PartStatus.ENDED, PartStatus.LOST)
        lifecycle.dismiss(live, node, report.row, job.id if job else "", report.attempt, alive=alive)
        batch.notable = True
        return
    _note(live, node, job, attempt, report)
    batch.notable = True
    if report.status is PartStatus.WAITING:
        place.why = report.why  # what it waits for changes
    if place.status is not report.status or report.end is not None:
        _change(live, job, attempt, place, report, batch)


def _note(live: LiveJobs, node: str, job: LiveJob, attempt: Attempt, report: Report) -> None:
    """What changes nobody's plans: times, progress, usage, costs, capabilities."""
    live.unsaved.attempt(attempt)
    if report.started_s is not None and attempt.start_s is None:
        attempt.start_s = min(live.now, max(attempt.wanted_s, report.started_s - live.epoch_unix_s))
        live.unsaved.job(job)
        if attempt.number == 1:
            live.unsaved.started.append((live.submit_s(job.row), attempt.start_s))
    if report.capability is not None:
        _note_capability(live, job, attempt, report.capability)
        attempt.mechanism = report.capability.suspend or attempt.mechanism
    if report.progress is not None:
        attempt.progress = report.progress
        live.note_program(job)
        note_speed(live, job, attempt)
    if report.usage is not None and _is_news(live, attempt, node, report.usage):
        attempt.usage = report.usage
        live.unsaved.usage.append((job.row, attempt.number, report.usage))
        note_usage(live, job, attempt, node, report.usage)
    for cost in report.costs:
        if attempt.costs.get(cost.kind) != cost.seconds:
            attempt.costs[cost.kind] = cost.seconds
            _take_cost(live, job, cost)
    if report.port is not None and attempt.port is None:
        attempt.port = report.port
        if len(attempt.places) > 1:
            lifecycle.order(live, job, attempt)


def _note_capability(live: LiveJobs, job: LiveJob, attempt: Attempt, said: Capability) -> None:
    """What the program of `job` can do: what an earlier attempt said, until this one has spoken.

    A program that still imports its libraries looks like one that will never speak.
    """
    before = job.capability
    if said.training:
        said = said.model_copy(update={"attempt": attempt.number})
    elif before is not None and before.training:
        said = before.model_copy(update={"suspend": said.suspend})
    if before != said:
        job.capability = said
        live.unsaved.job(job)
        live.note_program(job)


def _is_news(live: LiveJobs, attempt: Attempt, node: str, usage: Usage) -> bool:
    """Whether an agent has looked since: a report also says again what is known."""
    place = next(place for place in attempt.places if place.name == node)
    return place.looked_s is None or usage.at_s - live.epoch_unix_s - place.looked_s > SAME_LOOK_S


def _change(
    live: LiveJobs, job: LiveJob, attempt: Attempt, place: NodePart, report: Report, batch: BatchBuilder
) -> None:
    """The status of a part is another one."""
    place.status, place.end, place.why = report.status, report.end or place.end, report.why or place.why
    place.suspended_gib = report.suspended_gib
    if place.is_over:
        over_s = report.since_s if place.end is None else place.end.ended_s
        place.over_s = over_s - live.epoch_unix_s
    if report.status is PartStatus.RUNNING and all(p.status is PartStatus.RUNNING for p in attempt.places):
        if attempt.ready_s is None:
            attempt.ready_s = batch.now
            if live.is_running(job) and attempt is job.attempt:
                lifecycle.work_on(live, job, attempt)
                live.set_timers(job)
    elif attempt.is_suspended:
        _suspended(live, job, attempt)
    elif place.is_over:
        if all(p.is_over for p in attempt.places):
            end_attempt(live, job, attempt, batch)
        else:
            _go_with_the_others(live, job, attempt)
    elif place.status is PartStatus.SUSPENDED:
        _go_with_the_others(live, job, attempt)


def _go_with_the_others(live: LiveJobs, job: LiveJob, attempt: Attempt) -> None:
    """Part of a gang is gone without having finished: what is left of it is of no use to anybody."""
    broken = [p.name for p in attempt.places if p.is_over and not p.has_finished]
    if broken and attempt.wanted in (Wanted.RUN, Wanted.SUSPEND, Wanted.LEAVE):
        attempt.wanted = Wanted.STOP
        lifecycle.order(live, job, attempt)
        text = f"attempt {attempt.number}: its part on {broken[0]} is gone, the rest is stopped"
        live.unsaved.event("part", job.id, text)


def _suspended(live: LiveJobs, job: LiveJob, attempt: Attempt) -> None:
    """All of the attempt is in host memory: if the job has devices again that it can use, it goes on."""
    newest = job.attempt
    live.unsaved.job(job)
    if newest is None or newest is attempt or newest.is_over or newest.is_ordered:
        return
    if can_resume(live.machines, job, attempt, newest.grant):
        grant = newest.grant
        lifecycle.withdraw(live, newest)
        lifecycle.resume(live, job, attempt, grant)
    else:
        attempt.wanted = Wanted.LEAVE
        lifecycle.order(live, job, attempt)


def end_attempt(live: LiveJobs, job: LiveJob, attempt: Attempt, batch: BatchBuilder) -> None:
    """No process of the attempt is left: what that means for the job."""
    end = first_end(attempt)
    lost = next((p.why for p in attempt.places if p.status is PartStatus.LOST), "")
    if end is None and not attempt.has_begun:
        lost = _NEVER_BEGAN
    _measure_step(live, job, attempt)
    verdict = judge(end, lost, job.spec.requeue_code, live.settings.rules)
    attempt.end_s, attempt.exit, attempt.cause = attempt.gone_s(batch.now), end, verdict.sentence
    live.unsaved.job(job)
    live.unsaved.attempt(attempt)
    for place in attempt.places:
        lifecycle.dismiss(live, place.name, job.row, job.id, attempt.number, alive=False)
    if job.is_over:
        attempt.how = (attempt.told or How.CANCELLED).value
        attempt.cause = _as_told(attempt, verdict)
        job.exit = job.exit or end
        _leave(job, attempt)
    elif verdict.cause is Cause.FINISHED:
        _finish(live, job, attempt, verdict, batch)
    elif attempt.told is not None:
        _gone_as_told(live, job, attempt, verdict, batch)
    elif verdict.cause is Cause.REQUEUE:
        attempt.how = How.PREEMPTED.value
        lifecycle.keep_work(live, job, attempt, completely=True)
        _wait_again(live, job, attempt, How.PREEMPTED, batch)
        _slow_down(live, job, attempt, batch)
    else:
        _fail(live, job, attempt, verdict, batch)
    live.drop_if_gone(job)


def _leave(job: LiveJob, attempt: Attempt) -> None:
    """A job that was made to end has done so when its processes have left."""
    is_made_to = attempt.told in (How.CANCELLED, How.TIMEOUT) and attempt.has_begun
    if is_made_to and job.finish_s is not None and attempt.end_s is not None:
        took_s = max(attempt.end_s - job.finish_s, 0.0)
        job.finish_s += took_s
        job.leaving_s += took_s


def _measure_step(live: LiveJobs, job: LiveJob, attempt: Attempt) -> None:
    """A step is no cost, but `ready` counts one that is none: kept once, as the attempt last said it."""
    step_s = attempt.progress.step_s if attempt.progress is not None else None
    if step_s is not None and "step" not in attempt.costs:
        attempt.costs["step"] = step_s
        _take_cost(live, job, Cost(kind="step", seconds=step_s))


def _take_cost(live: LiveJobs, job: LiveJob, cost: Cost) -> None:
    """Something was measured: for the record, and for decisions to come."""
    live.unsaved.costs.append((job.row, cost))
    live.costs.add(live.workload(job.row), cost.kind, cost.seconds)


def first_end(attempt: Attempt) -> Exit | None:
    """The exit that tells the story: the first that was not a success, failing that the first of all."""
    ends = sorted((p.end for p in attempt.places if p.end is not None), key=lambda end: end.ended_s)
    bad = [end for end in ends if end.code != 0 or end.signal is not None]
    if len(ends) < len(attempt.places):  # a part is lost: what the others got for it says nothing
        return next((end for end in bad if end.code is not None), None)
    return bad[0] if bad else ends[0]


def _finish(live: LiveJobs, job: LiveJob, attempt: Attempt, verdict: Verdict, batch: BatchBuilder) -> None:
    """The program has come to its end, even if it was told to go meanwhile."""
    attempt.how = How.FINISHED.value
    job.exit = attempt.exit
    newest = job.attempt
    if newest is not None and newest is not attempt and not newest.is_over:
        lifecycle.withdraw(live, newest)
    lifecycle.end(live, job, "COMPLETED", verdict.sentence, attempt.end_s)
    if live.is_running(job):
        batch.end(job.row, How.FINISHED, Phase.COMPLETED, attempt.end_s)
    else:
        batch.settle(job.row, Phase.COMPLETED)
    groups.end_others(live, job, batch)


def _gone_as_told(
    live: LiveJobs, job: LiveJob, attempt: Attempt, verdict: Verdict, batch: BatchBuilder
) -> None:
    """It has given its devices back as it was told to: the next attempt may begin."""
    assert attempt.told is not None
    attempt.how = attempt.told.value
    attempt.cause = _as_told(attempt, verdict)
    is_saved = verdict.cause is Cause.REQUEUE or not attempt.has_begun
    lifecycle.keep_work(live, job, attempt, completely=is_saved)
    newest = job.attempt
    if newest is not None and newest is not attempt and not newest.is_over:
        lifecycle.order(live, job, newest)
    elif live.is_running(job) and newest is attempt:
        _wait_again(live, job, attempt, How.PREEMPTED, batch)


def _as_told(attempt: Attempt, verdict: Verdict) -> str:
    """Why it had to go, and how it went."""
    how = parting(attempt.exit, verdict)
    return f"{attempt.notice.text}; {how}" if attempt.notice is not None and attempt.has_begun else how


def _wait_again(live: LiveJobs, job: LiveJob, attempt: Attempt, how: How, batch: BatchBuilder) -> None:
    """The job waits for devices again, if it did not do so already."""
    if live.is_running(job) and job.attempt is attempt:
        batch.end(job.row, how, Phase.PENDING, attempt.end_s)


def _slow_down(live: LiveJobs, job: LiveJob, attempt: Attempt, batch: BatchBuilder) -> None:
    """A program that asks again and again to be run again, as soon as it runs, gets a pause."""
    began_s = attempt.wanted_s if attempt.start_s is None else attempt.start_s
    pause_s = live.settings.back_off.first_s
    before = job.attempts[-2] if len(job.attempts) > 1 else None
    is_again = before is not None and before.told is None and before.how == How.PREEMPTED
    ran_s = attempt.until_s(batch.now) - began_s
    if is_again and ran_s < pause_s:
        text = f"asked to be run again after {ran_s:.1f} s"
        lifecycle.hold(live, job, Hold(BACK_OFF, text, batch.now + pause_s), batch)


def _fail(live: LiveJobs, job: LiveJob, attempt: Attempt, verdict: Verdict, batch: BatchBuilder) -> None:
    """A failure nobody asked for: tried again after a pause, or for good."""
    is_infrastructure = verdict.cause is Cause.INFRASTRUCTURE
    how = How.LOST if is_infrastructure else How.FAILED
    attempt.how = how.value
    lifecycle.keep_work(live, job, attempt, completely=False)
    if is_infrastructure:
        job.infrastructure_failures += 1
        failures, most = job.infrastructure_failures, job.spec.retries
    else:
        job.user_failures += 1
        failures, most = job.user_failures, job.spec.user_retries
    in_trial = " in its trial on one device" if attempt.is_trial else ""
    sentence = f"{verdict.sentence}{in_trial}"
    live.unsaved.event("failure", job.id, f"attempt {attempt.number}: {sentence}")
    job.cause = sentence
    is_running = live.is_running(job)
    if failures > most:
        job.exit = attempt.exit
        state = _STATE_OF.get(verdict.cause, "FAILED")
        lifecycle.end(live, job, state, sentence, attempt.end_s)
        if is_running:
            batch.end(job.row, How.FAILED, Phase.FAILED, attempt.end_s)
        else:
            batch.settle(job.row, Phase.FAILED)
        return
    pause_s = live.settings.back_off.after(failures)
    if is_running:
        batch.end(job.row, how, Phase.PENDING, attempt.end_s)
    text = f"{sentence}; try {failures + 1} of {most + 1}"
    lifecycle.hold(live, job, Hold(BACK_OFF, text, batch.now + pause_s), batch)
