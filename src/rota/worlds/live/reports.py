"""What agents say, and what follows from it for attempts, jobs and nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota.scheduler.decision import Event
from rota.scheduler.world import How
from rota.table.state import Phase
from rota.wire.sync import Capability, Cost, Exit, PartStatus, Report, SyncRequest, Usage, Wanted, are_two
from rota.worlds.live import timers
from rota.worlds.live.attempts import Attempt, LiveJob, NodePart
from rota.worlds.live.batch_builder import BatchBuilder
from rota.worlds.live.endings import Cause, Verdict, judge, parting
from rota.worlds.live.holds import BACK_OFF, Hold
from rota.worlds.live.inbox import ReportTold
from rota.worlds.live.observed import hear_speed, look
from rota.worlds.live.parts import can_resume

if TYPE_CHECKING:
    from rota.worlds.live.news import LiveNode
    from rota.worlds.live.world import LiveWorld

SAME_LOOK_S = 0.5
"""Moments of one look, told twice, differ by less: clocks that do not agree are compared anew each time."""
_NEVER_BEGAN = "was withdrawn before it began"
_STATE_OF = {Cause.OOM: "OUT_OF_MEMORY", Cause.INFRASTRUCTURE: "NODE_FAIL"}
"""Slurm's words for jobs that have failed for good."""


def hear(world: LiveWorld, told: ReportTold, moment: BatchBuilder) -> ReportTold | None:
    """Take in one request of an agent; what is about rows that this moment changes is left for the next."""
    node = world.nodes[world.position[told.node]]
    request = told.request
    if node.is_forgotten:
        return None  # it was said while the node was being forgotten; the next word of its agent is refused
    if request.leaving:
        timers.leave(world, node.position, moment)
    elif node.state in ("lost", "away"):
        timers.regain(world, node.position, moment)
    if request.devices is not None:
        _look_at_devices(world, node, request, moment)
    later: list[Report] = []
    for report in request.reports:
        if report.row in moment.touched:
            later.append(report)
        else:
            _hear_one(world, node.name, report, moment)
    is_complete = not request.complete or _miss(world, node, request, moment)
    if request.complete and is_complete:
        _meet(world, node.name)
    if not is_complete:
        return ReportTold(told.node, request.model_copy(update={"devices": None}))
    if later:
        rest = request.model_copy(update={"reports": later, "complete": False, "devices": None})
        return ReportTold(told.node, rest)
    return None


def _meet(world: LiveWorld, name: str) -> None:
    """A node has told this controller all it knows: only now can it be said who is beyond a limit."""
    if world.desk.unmet and name in world.desk.unmet:
        world.desk.unmet.discard(name)
        for job in world.live.values():
            world.timers.set_for(world, job)


def _look_at_devices(world: LiveWorld, node: LiveNode, request: SyncRequest, moment: BatchBuilder) -> None:
    """Devices that have become unhealthy take no new jobs; those that are well again do."""
    first = int(world.cluster.first_device[node.position])
    for device in request.devices or ():
        was_sick = device.index in node.sick
        if not device.healthy and not was_sick:
            node.sick[device.index] = device.why
            moment.close(first + device.index)
        elif device.healthy and was_sick:
            del node.sick[device.index]
            if node.state == "up":
                moment.open(first + device.index)
        else:
            continue
        moment.cause |= Event.CAPACITY
        world.news.nodes.add(node.position)
        text = f"{node.name}:{device.index} is {'well' if device.healthy else 'unhealthy: ' + device.why}"
        world.news.events.append(("rota", "device", "", text))


def _miss(world: LiveWorld, node: LiveNode, request: SyncRequest, moment: BatchBuilder) -> bool:
    """A complete report that does not name a part which had begun there: its folder is gone, it is lost.

    False if that has to be looked at again, since this moment changes the job.
    """
    has_seen_all = True
    named = {(report.row, report.attempt) for report in request.reports if not _is_of_another(world, report)}
    for job in list(world.live.values()):
        for attempt in job.living:
            place = next((p for p in attempt.places if p.name == node.name), None)
            if place is None or (job.row, attempt.number) in named or place.is_over or not place.has_begun:
                continue
            if job.row in moment.touched:
                has_seen_all = False
            else:
                gone = Report(
                    row=job.row,
                    attempt=attempt.number,
                    status=PartStatus.LOST,
                    since_s=world.epoch_unix_s + moment.now,
                    why=f"node {node.name} does not know it any more",
                )
                _hear_one(world, node.name, gone, moment)
    return has_seen_all


def _is_of_another(world: LiveWorld, report: Report) -> bool:
    """About a job that the store, restored from a backup, has forgotten: its number was given once more."""
    if report.row not in world.live:
        return False
    return are_two(report.submit_s, world.epoch_unix_s + world.jobs.submit_s.item(report.row))


def _hear_one(world: LiveWorld, node: str, report: Report, moment: BatchBuilder) -> None:
    job = world.live.get(report.row)
    attempts = job.attempts if job is not None else []
    attempt = attempts[report.attempt - 1] if 0 < report.attempt <= len(attempts) else None
    place = None if attempt is None else next((p for p in attempt.places if p.name == node), None)
    is_known = job is not None and attempt is not None and place is not None and not attempt.is_over
    if is_known and _is_of_another(world, report):
        return  # the order for this attempt says whose it is: the agent gets rid of the other one's processes
    if job is None or attempt is None or place is None or attempt.is_over:
        alive = report.status not in (PartStatus.ENDED, PartStatus.LOST)
        world.dismiss(node, report.row, job.id if job else "", report.attempt, alive=alive)
        moment.notable = True
        return
    _note(world, node, job, attempt, report)
    moment.notable = True
    if report.status is PartStatus.WAITING:
        place.why = report.why  # what it waits for changes
    if place.status is not report.status or report.end is not None:
        _change(world, job, attempt, place, report, moment)


def _note(world: LiveWorld, node: str, job: LiveJob, attempt: Attempt, report: Report) -> None:
    """What changes nobody's plans: times, progress, usage, costs, capabilities."""
    world.news.attempts[job.row, attempt.number] = attempt
    if report.started_s is not None and attempt.start_s is None:
        attempt.start_s = min(world.state.now, max(attempt.wanted_s, report.started_s - world.epoch_unix_s))
        world.news.jobs[job.row] = job
        if attempt.number == 1:
            world.news.started.append((world.jobs.submit_s.item(job.row), attempt.start_s))
    if report.capability is not None:
        _note_capability(world, job, attempt, report.capability)
        attempt.mechanism = report.capability.suspend or attempt.mechanism
    if report.progress is not None:
        attempt.progress = report.progress
        hear_speed(world, job, attempt)
    if report.usage is not None and _is_news(world, attempt, node, report.usage):
        attempt.usage = report.usage
        world.news.usage.append((job.row, attempt.number, report.usage))
        look(world, job, attempt, node, report.usage)
    for cost in report.costs:
        if attempt.costs.get(cost.kind) != cost.seconds:
            attempt.costs[cost.kind] = cost.seconds
            _take_cost(world, job, cost)
    if report.port is not None and attempt.port is None:
        attempt.port = report.port
        if len(attempt.places) > 1:
            world.order(job, attempt)


def _note_capability(world: LiveWorld, job: LiveJob, attempt: Attempt, said: Capability) -> None:
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
        world.news.jobs[job.row] = job


def _is_news(world: LiveWorld, attempt: Attempt, node: str, usage: Usage) -> bool:
    """Whether an agent has looked since: a report also says again what is known."""
    place = next(place for place in attempt.places if place.name == node)
    return place.looked_s is None or usage.at_s - world.epoch_unix_s - place.looked_s > SAME_LOOK_S


def _change(
    world: LiveWorld, job: LiveJob, attempt: Attempt, place: NodePart, report: Report, moment: BatchBuilder
) -> None:
    """The status of a part is another one."""
    place.status, place.end, place.why = report.status, report.end or place.end, report.why or place.why
    place.suspended_gib = report.suspended_gib
    if place.is_over:
        over_s = report.since_s if place.end is None else place.end.ended_s
        place.over_s = over_s - world.epoch_unix_s
    if report.status is PartStatus.RUNNING and all(p.status is PartStatus.RUNNING for p in attempt.places):
        if attempt.ready_s is None:
            attempt.ready_s = moment.now
            if job.row in world.state.running and attempt is job.attempt:
                world.pace(job, attempt)
                world.timers.set_for(world, job)
    elif attempt.is_suspended:
        _suspended(world, job, attempt)
    elif place.is_over:
        if all(p.is_over for p in attempt.places):
            end_attempt(world, job, attempt, moment)
        else:
            _go_with_the_others(world, job, attempt)
    elif place.status is PartStatus.SUSPENDED:
        _go_with_the_others(world, job, attempt)


def _go_with_the_others(world: LiveWorld, job: LiveJob, attempt: Attempt) -> None:
    """Part of a gang is gone without having finished: what is left of it is of no use to anybody."""
    broken = [p.name for p in attempt.places if p.is_over and not p.has_finished]
    if broken and attempt.wanted in (Wanted.RUN, Wanted.SUSPEND, Wanted.LEAVE):
        attempt.wanted = Wanted.STOP
        world.order(job, attempt)
        text = f"attempt {attempt.number}: its part on {broken[0]} is gone, the rest is stopped"
        world.news.events.append(("rota", "part", job.id, text))


def _suspended(world: LiveWorld, job: LiveJob, attempt: Attempt) -> None:
    """All of the attempt is in host memory: if the job has devices again that it can use, it goes on."""
    newest = job.attempt
    world.news.jobs[job.row] = job
    if newest is None or newest is attempt or newest.is_over or newest.is_ordered:
        return
    if can_resume(world, attempt, newest.grant):
        grant = newest.grant
        world.withdraw_attempt(job, newest)
        world.resume(job, attempt, grant)
    else:
        attempt.wanted = Wanted.LEAVE
        world.order(job, attempt)


def end_attempt(world: LiveWorld, job: LiveJob, attempt: Attempt, moment: BatchBuilder) -> None:
    """No process of the attempt is left: what that means for the job."""
    end = first_end(attempt)
    lost = next((p.why for p in attempt.places if p.status is PartStatus.LOST), "")
    if end is None and not attempt.has_begun:
        lost = _NEVER_BEGAN
    _measure_step(world, job, attempt)
    verdict = judge(end, lost, job.spec.requeue_code, world.settings.rules)
    attempt.end_s, attempt.exit, attempt.cause = attempt.gone_s(moment.now), end, verdict.sentence
    world.news.jobs[job.row] = job
    world.news.attempts[job.row, attempt.number] = attempt
    for place in attempt.places:
        world.dismiss(place.name, job.row, job.id, attempt.number, alive=False)
    if job.is_over:
        attempt.how = (attempt.told or How.CANCELLED).value
        attempt.cause = _as_told(attempt, verdict)
        job.exit = job.exit or end
        _leave(job, attempt)
    elif verdict.cause is Cause.FINISHED:
        _finish(world, job, attempt, verdict, moment)
    elif attempt.told is not None:
        _gone_as_told(world, job, attempt, verdict, moment)
    elif verdict.cause is Cause.REQUEUE:
        attempt.how = How.PREEMPTED.value
        world.save(job, attempt, completely=True)
        _wait_again(world, job, attempt, How.PREEMPTED, moment)
        _slow_down(world, job, attempt, moment)
    else:
        _fail(world, job, attempt, verdict, moment)
    world.drop_if_gone(job)


def _leave(job: LiveJob, attempt: Attempt) -> None:
    """A job that was made to end has done so when its processes have left."""
    is_made_to = attempt.told in (How.CANCELLED, How.TIMEOUT) and attempt.has_begun
    if is_made_to and job.finish_s is not None and attempt.end_s is not None:
        took_s = max(attempt.end_s - job.finish_s, 0.0)
        job.finish_s += took_s
        job.leaving_s += took_s


def _measure_step(world: LiveWorld, job: LiveJob, attempt: Attempt) -> None:
    """A step is no cost, but `ready` counts one that is none: kept once, as the attempt last said it."""
    step_s = attempt.progress.step_s if attempt.progress is not None else None
    if step_s is not None and "step" not in attempt.costs:
        attempt.costs["step"] = step_s
        _take_cost(world, job, Cost(kind="step", seconds=step_s))


def _take_cost(world: LiveWorld, job: LiveJob, cost: Cost) -> None:
    """Something was measured: for the record, and for decisions to come."""
    world.news.costs.append((job.row, cost))
    world.measured.add(world.jobs.name_of("workload", job.row), cost.kind, cost.seconds)


def first_end(attempt: Attempt) -> Exit | None:
    """The exit that tells the story: the first that was not a success, failing that the first of all."""
    ends = sorted((p.end for p in attempt.places if p.end is not None), key=lambda end: end.ended_s)
    bad = [end for end in ends if end.code != 0 or end.signal is not None]
    if len(ends) < len(attempt.places):  # a part is lost: what the others got for it says nothing
        return next((end for end in bad if end.code is not None), None)
    return bad[0] if bad else ends[0]


def _finish(world: LiveWorld, job: LiveJob, attempt: Attempt, verdict: Verdict, moment: BatchBuilder) -> None:
    """The program has come to its end, even if it was told to go meanwhile."""
    attempt.how = How.FINISHED.value
    job.exit = attempt.exit
    newest = job.attempt
    if newest is not None and newest is not attempt and not newest.is_over:
        world.withdraw_attempt(job, newest)
    world.over(job, Phase.COMPLETED, "COMPLETED", verdict.sentence, attempt.end_s)
    if job.row in world.state.running:
        moment.end(job.row, How.FINISHED, Phase.COMPLETED, attempt.end_s)
    else:
        moment.settle(job.row, Phase.COMPLETED)


def _gone_as_told(
    world: LiveWorld, job: LiveJob, attempt: Attempt, verdict: Verdict, moment: BatchBuilder
) -> None:
    """It has given its devices back as it was told to: the next attempt may begin."""
    assert attempt.told is not None
    attempt.how = attempt.told.value
    attempt.cause = _as_told(attempt, verdict)
    is_saved = verdict.cause is Cause.REQUEUE or not attempt.has_begun
    world.save(job, attempt, completely=is_saved)
    newest = job.attempt
    if newest is not None and newest is not attempt and not newest.is_over:
        world.order(job, newest)
    elif job.row in world.state.running and newest is attempt:
        _wait_again(world, job, attempt, How.PREEMPTED, moment)


def _as_told(attempt: Attempt, verdict: Verdict) -> str:
    """Why it had to go, and how it went."""
    how = parting(attempt.exit, verdict)
    return f"{attempt.notice.text}; {how}" if attempt.notice is not None and attempt.has_begun else how


def _wait_again(world: LiveWorld, job: LiveJob, attempt: Attempt, how: How, moment: BatchBuilder) -> None:
    """The job waits for devices again, if it did not do so already."""
    if job.row in world.state.running and job.attempt is attempt:
        moment.end(job.row, how, Phase.PENDING, attempt.end_s)


def _slow_down(world: LiveWorld, job: LiveJob, attempt: Attempt, moment: BatchBuilder) -> None:
    """A program that asks again and again to be run again, as soon as it runs, gets a pause."""
    began_s = attempt.wanted_s if attempt.start_s is None else attempt.start_s
    pause_s = world.settings.back_off.first_s
    before = job.attempts[-2] if len(job.attempts) > 1 else None
    is_again = before is not None and before.told is None and before.how == How.PREEMPTED
    ran_s = attempt.until_s(moment.now) - began_s
    if is_again and ran_s < pause_s:
        text = f"asked to be run again after {ran_s:.1f} s"
        world.hold(job, Hold(BACK_OFF, text, moment.now + pause_s), moment)


def _fail(world: LiveWorld, job: LiveJob, attempt: Attempt, verdict: Verdict, moment: BatchBuilder) -> None:
    """A failure nobody asked for: tried again after a pause, or for good."""
    is_infrastructure = verdict.cause is Cause.INFRASTRUCTURE
    how = How.LOST if is_infrastructure else How.FAILED
    attempt.how = how.value
    world.save(job, attempt, completely=False)
    if is_infrastructure:
        job.infrastructure_failures += 1
        failures, most = job.infrastructure_failures, job.spec.retries
    else:
        job.user_failures += 1
        failures, most = job.user_failures, job.spec.user_retries
    in_trial = " in its trial on one device" if attempt.is_trial else ""
    sentence = f"{verdict.sentence}{in_trial}"
    world.news.events.append(("rota", "failure", job.id, f"attempt {attempt.number}: {sentence}"))
    job.cause = sentence
    is_running = job.row in world.state.running
    if failures > most:
        job.exit = attempt.exit
        state = _STATE_OF.get(verdict.cause, "FAILED")
        world.over(job, Phase.FAILED, state, sentence, attempt.end_s)
        if is_running:
            moment.end(job.row, How.FAILED, Phase.FAILED, attempt.end_s)
        else:
            moment.settle(job.row, Phase.FAILED)
        return
    pause_s = world.settings.back_off.after(failures)
    if is_running:
        moment.end(job.row, how, Phase.PENDING, attempt.end_s)
    text = f"{sentence}; try {failures + 1} of {most + 1}"
    world.hold(job, Hold(BACK_OFF, text, moment.now + pause_s), moment)
