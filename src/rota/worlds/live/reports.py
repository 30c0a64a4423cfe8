"""Reports of agents, and what follows from them for attempts, jobs and nodes."""

from __future__ import annotations

from rota.scheduler.decision import Event
from rota.wire.sync import Capability, PartStatus, Report, SyncRequest, Usage, Wanted, are_two
from rota.worlds.live import lifecycle, node_states
from rota.worlds.live.attempts import Attempt, LiveJob, NodePart
from rota.worlds.live.batch_builder import BatchBuilder
from rota.worlds.live.departures import end_attempt, take_cost
from rota.worlds.live.idle_jobs import note_idle
from rota.worlds.live.inbox import ReportTold
from rota.worlds.live.jobs import LiveJobs
from rota.worlds.live.machines import LiveNode
from rota.worlds.live.node_parts import can_resume
from rota.worlds.live.observations import draw_progress, note_speed, note_usage

HANDLED = frozenset({PartStatus.RUNNING, PartStatus.SUSPENDED})
"""An agent that says why in one of these has met something that it did not expect."""
SAME_LOOK_S = 0.5
"""The moments of one look, reported twice, differ by less: clocks that disagree are compared each time."""


def take_in(live: LiveJobs, told: ReportTold, batch: BatchBuilder) -> ReportTold | None:
    """Take in one request of an agent; news about rows that this moment changes is left for the next."""
    node = live.machines.nodes[live.machines.position[told.node]]
    request = told.request
    if node.is_forgotten:
        return None  # it was said while the node was being forgotten; the next word of its agent is refused
    if request.leaving:
        node_states.leave(live, node.position, batch)
    elif node.state in ("lost", "away"):
        node_states.regain(live, node.position, batch)
    if request.devices is not None:
        _look_at_trouble(live, node, request, batch)
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
    """A node has reported everything to this controller: only now are jobs beyond a limit known."""
    if live.directives.unmet and name in live.directives.unmet:
        live.directives.unmet.discard(name)
        for job in live.values():
            live.set_timers(job)


def _look_at_trouble(live: LiveJobs, node: LiveNode, request: SyncRequest, batch: BatchBuilder) -> None:
    """A machine that can start no process takes no new jobs, not even jobs without devices."""
    before, node.trouble = node.trouble, request.trouble
    if node.trouble == before:
        return
    if node.trouble and node.state == "up":
        batch.drain(node.position)
    else:
        node_states.reopen(live, node, batch)
    batch.cause |= Event.CAPACITY
    live.unsaved.nodes.add(node.position)
    text = f"takes no new jobs: {node.trouble}" if node.trouble else "takes jobs again"
    live.unsaved.event("trouble" if node.trouble else "well", "", f"node {node.name} {text}")


def _look_at_devices(live: LiveJobs, node: LiveNode, request: SyncRequest, batch: BatchBuilder) -> None:
    """Devices that have become unhealthy take no new jobs; those that are well again do."""
    first = int(live.machines.cluster.first_device[node.position])
    for device in request.devices or ():
        if device.index >= len(node.info.devices):
            live.unsaved.event(
                "device", "", f"{node.name} has no device {device.index}, of which its agent told"
            )
            continue
        was_sick = device.index in node.sick
        if not device.healthy and not was_sick:
            node.sick[device.index] = device.why
            batch.close(first + device.index)
        elif device.healthy and was_sick:
            del node.sick[device.index]
            if node.takes_jobs:
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
        return  # the order for this attempt names its job: the agent ends the processes of the other one
    if job is None or attempt is None or place is None or attempt.is_over:
        alive = report.status not in (PartStatus.ENDED, PartStatus.LOST)
        lifecycle.dismiss(live, node, report.row, job.id if job else "", report.attempt, alive=alive)
        batch.notable = True
        return
    batch.cause |= _note(live, node, job, attempt, report)
    batch.notable = True
    if place.status is report.status:
        place.why = report.why  # changes: what it waits for, and what its agent cannot do for it
    _tell_trouble(live, job, attempt, place, report)
    if place.status is not report.status or report.end is not None:
        _change(live, job, attempt, place, report, batch)


def _tell_trouble(live: LiveJobs, job: LiveJob, attempt: Attempt, place: NodePart, report: Report) -> None:
    """What an agent cannot do or read for a part becomes an event of its job, once per attempt."""
    if report.why and report.status in HANDLED and not place.has_told:
        place.has_told = True
        live.unsaved.event("trouble", job.id, f"attempt {attempt.number} on {place.name}: {report.why}")


def _note(live: LiveJobs, node: str, job: LiveJob, attempt: Attempt, report: Report) -> Event:
    """Take in a report of a living part; the event is not NONE if plans may depend on its news."""
    cause = Event.NONE
    live.unsaved.attempt(attempt)
    place = next(place for place in attempt.places if place.name == node)
    place.has_started = place.has_started or report.started_s is not None
    if report.started_s is not None and attempt.start_s is None:
        attempt.start_s = min(live.now, max(attempt.wanted_s, report.started_s - live.epoch_unix_s))
        live.unsaved.job(job)
        if attempt.number == 1:
            live.unsaved.started.append((live.submit_s(job.row), attempt.start_s))
    if report.capability is not None:
        cause = _note_capability(live, job, attempt, report.capability)
        attempt.mechanism = report.capability.suspend or attempt.mechanism
    if report.progress is not None:
        is_news, attempt.progress = report.progress != attempt.progress, report.progress
        if is_news:
            draw_progress(live, job, attempt, report.progress)
        live.note_program(job)
        note_speed(live, job, attempt)
    if report.usage is not None and _is_news(live, attempt, node, report.usage):
        attempt.usage = report.usage
        note_usage(live, job, attempt, node, report.usage)
        note_idle(live, job, attempt)
    for cost in report.costs:
        if attempt.costs.get(cost.kind) != cost.seconds:
            attempt.costs[cost.kind] = cost.seconds
            take_cost(live, job, cost)
    if report.port is not None and attempt.port is None:
        attempt.port = report.port
        if len(attempt.places) > 1:
            lifecycle.order(live, job, attempt)
    return cause


def _note_capability(live: LiveJobs, job: LiveJob, attempt: Attempt, said: Capability) -> Event:
    """What the program of `job` can do: as an earlier attempt reported, until this one reports.

    A program that still imports its libraries looks like one that never reports.  Once it has reported, it
    supports more than before, and a policy that wanted to resize it may do so.
    """
    before, could = job.capability, job.can
    if said.training:
        said = said.model_copy(update={"attempt": attempt.number})
    elif before is not None and before.training:
        said = before.model_copy(update={"suspend": said.suspend})
    if before != said:
        job.capability = said
        live.unsaved.job(job)
        live.note_program(job)
    is_news = said.training and job.can != could and live.is_running(job) and attempt is job.attempt
    return Event.SAID if is_news else Event.NONE


def _is_news(live: LiveJobs, attempt: Attempt, node: str, usage: Usage) -> bool:
    """True if an agent has looked since then: a report also repeats known facts."""
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
    elif place.is_suspended:
        _go_with_the_others(live, job, attempt)


def _go_with_the_others(live: LiveJobs, job: LiveJob, attempt: Attempt) -> None:
    """Stop the rest of a gang after a part of it has gone without having finished."""
    broken = [p.name for p in attempt.places if p.is_over and not p.has_finished]
    if broken and attempt.wanted in (Wanted.RUN, Wanted.SUSPEND, Wanted.LEAVE):
        attempt.wanted = Wanted.STOP
        lifecycle.order(live, job, attempt)
        text = f"attempt {attempt.number}: its part on {broken[0]} is gone, the rest is stopped"
        live.unsaved.event("part", job.id, text)


def _suspended(live: LiveJobs, job: LiveJob, attempt: Attempt) -> None:
    """All of the attempt is in host memory: if the job has usable devices again, it continues."""
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
