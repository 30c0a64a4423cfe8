"""Consequences for a job once an attempt has no process left."""

from __future__ import annotations

from rota.scheduler.world import How
from rota.table.state import Phase
from rota.wire.sync import Cost, Exit, PartStatus
from rota.worlds.live import lifecycle
from rota.worlds.live.attempts import WITHDRAWN, Attempt, LiveJob, NodePart
from rota.worlds.live.batch_builder import BatchBuilder
from rota.worlds.live.endings import Cause, EndVerdict, fails_alike, judge, parting
from rota.worlds.live.holds import BACK_OFF, Hold
from rota.worlds.live.jobs import LiveJobs
from rota.worlds.live.observations import draw_end

_NEVER_BEGAN = "was withdrawn before it began"
_STATE_OF = {Cause.OOM: "OUT_OF_MEMORY", Cause.INFRASTRUCTURE: "NODE_FAIL"}
"""Slurm's words for jobs that have failed for good."""
_FAILURES = {How.FAILED.value, How.LOST.value}


def end_attempt(live: LiveJobs, job: LiveJob, attempt: Attempt, batch: BatchBuilder) -> None:
    """No process of the attempt is left: what that means for the job."""
    end = first_end(attempt)
    lost = next((p.why for p in attempt.places if p.status is PartStatus.LOST), "")
    if end is None and not attempt.has_begun:
        lost = _NEVER_BEGAN
    _measure_step(live, job, attempt)
    draw_end(live, job)
    verdict = judge(end, lost, job.spec.requeue_code, live.settings.rules)
    attempt.end_s, attempt.exit, attempt.cause = attempt.gone_s(batch.now), end, verdict.sentence
    refuser = _refuser(attempt, verdict)
    job.refusals = 0 if refuser is None else job.refusals + 1
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
    elif attempt.told is How.TIMEOUT and not _failed_before(attempt, verdict):
        _time_out(live, job, attempt, verdict, batch)
    elif attempt.told is not None and not _failed_before(attempt, verdict):
        _gone_as_told(live, job, attempt, verdict, batch)
    elif verdict.cause is Cause.REQUEUE:
        attempt.how = How.PREEMPTED.value
        lifecycle.keep_work(live, job, attempt, completely=True)
        _wait_again(live, job, attempt, How.PREEMPTED, batch)
        _slow_down(live, job, attempt, batch)
    elif refuser is not None:
        _refused(live, job, attempt, refuser, verdict, batch)
    else:
        _fail(live, job, attempt, verdict, batch)
    live.drop_if_gone(job)


def _refuser(attempt: Attempt, verdict: EndVerdict) -> NodePart | None:
    """The part that its machine could not begin, if the attempt ended by that."""
    if verdict.cause is not Cause.INFRASTRUCTURE:
        return None
    end = attempt.exit
    by_it = (p for p in attempt.places if (p.status is PartStatus.LOST if end is None else p.end is end))
    return next((place for place in by_it if not place.has_started), None)


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
        take_cost(live, job, Cost(kind="step", seconds=step_s))


def take_cost(live: LiveJobs, job: LiveJob, cost: Cost) -> None:
    """Something was measured: for the record, and for decisions to come."""
    live.unsaved.costs.append((job.row, cost))
    live.costs.add(live.workload(job.row), cost.kind, cost.seconds)


def first_end(attempt: Attempt) -> Exit | None:
    """The decisive exit: the first that was not a success, or else the first of all."""
    ends = sorted((p.end for p in attempt.places if p.end is not None), key=lambda end: end.ended_s)
    bad = [end for end in ends if end.code != 0 or end.signal is not None]
    if len(ends) < len(attempt.places):  # a part is lost: the exits of the others say nothing
        return next((end for end in bad if end.code is not None), None)
    return bad[0] if bad else ends[0]


def _finish(live: LiveJobs, job: LiveJob, attempt: Attempt, verdict: EndVerdict, batch: BatchBuilder) -> None:
    """The program has ended, even if it was ordered to stop meanwhile."""
    attempt.how = How.FINISHED.value
    before = _signatures(live, job, 2)[:-1]
    if live.settings.others and before:
        live.history.note(job.user, job.row, before[0], None)
    job.exit = attempt.exit
    _take_back(live, job, attempt)
    lifecycle.end(live, job, "COMPLETED", verdict.sentence, attempt.end_s)
    if live.is_running(job):
        batch.end(job.row, How.FINISHED, Phase.COMPLETED, attempt.end_s)
    else:
        batch.settle(job.row, Phase.COMPLETED)
    lifecycle.end_others(live, job, batch)


def _gone_as_told(
    live: LiveJobs, job: LiveJob, attempt: Attempt, verdict: EndVerdict, batch: BatchBuilder
) -> None:
    """It has given its devices back as ordered: the next attempt may begin."""
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


def _time_out(
    live: LiveJobs, job: LiveJob, attempt: Attempt, verdict: EndVerdict, batch: BatchBuilder
) -> None:
    """It has left at the notice of its time limit: there is no time left to run it again."""
    attempt.how, attempt.cause = How.TIMEOUT.value, _as_told(attempt, verdict)
    lifecycle.keep_work(live, job, attempt, completely=verdict.cause is Cause.REQUEUE)
    job.exit = attempt.exit
    lifecycle.end(live, job, "TIMEOUT", attempt.cause, attempt.end_s)
    if live.is_running(job):
        batch.end(job.row, How.FAILED, Phase.FAILED, attempt.end_s)
    else:
        batch.settle(job.row, Phase.FAILED)


def _take_back(live: LiveJobs, job: LiveJob, attempt: Attempt) -> None:
    """Withdraw the newest attempt, which was granted before the end of `attempt` was known."""
    newest = job.attempt
    if newest is not None and newest is not attempt and not newest.is_over:
        lifecycle.withdraw(live, newest)


def _failed_before(attempt: Attempt, verdict: EndVerdict) -> bool:
    """True if the program failed by itself before the order to stop reached it: then that is its end."""
    end = attempt.exit
    return end is not None and end.by_itself and verdict.cause in (Cause.USER, Cause.OOM)


def _as_told(attempt: Attempt, verdict: EndVerdict) -> str:
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


def _refused(
    live: LiveJobs, job: LiveJob, attempt: Attempt, by: NodePart, verdict: EndVerdict, batch: BatchBuilder
) -> None:
    """A machine could not begin it: no try of the job, which waits longer each time that happens in a row."""
    attempt.how, attempt.is_for_others = How.LOST.value, False
    lifecycle.keep_work(live, job, attempt, completely=False)
    _take_back(live, job, attempt)
    job.cause = f"could not begin on {by.name}: {verdict.sentence}"
    live.unsaved.event("refused", job.id, f"attempt {attempt.number}: {job.cause}")
    _wait_again(live, job, attempt, How.LOST, batch)
    again = f", {job.refusals} times in a row" if job.refusals > 1 else ""
    pause_s = live.settings.back_off.after(job.refusals)
    text = f"{job.cause}{again}; none of its retries is used up by that"
    lifecycle.hold(live, job, Hold(BACK_OFF, text, batch.now + pause_s), batch)


def _fail(live: LiveJobs, job: LiveJob, attempt: Attempt, verdict: EndVerdict, batch: BatchBuilder) -> None:
    """Handle an unrequested failure: the job is tried again after a pause, or has failed for good."""
    is_infrastructure = verdict.cause is Cause.INFRASTRUCTURE
    how = How.LOST if is_infrastructure else How.FAILED
    attempt.how, attempt.is_for_others = how.value, False
    lifecycle.keep_work(live, job, attempt, completely=False)
    _take_back(live, job, attempt)
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
    alike = live.settings.alike
    is_hopeless = False
    if alike > 0 and failures <= most and fails_alike(_signatures(live, job, alike), alike):
        is_hopeless = True
        sentence += f"; failed of the same {alike} times in a row, so it is not tried again"
    elif not is_infrastructure and _is_vain(live, job) and failures <= most:
        is_hopeless = True
        sentence += "; trying again after that was in vain for others, so it is not tried again"
    if failures > most or is_hopeless:
        job.cause = sentence
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


def lose_attempt(live: LiveJobs, job: LiveJob, attempt: Attempt, why: str, batch: BatchBuilder) -> None:
    """The running `attempt` has lost its node: this uses one of the job's `retries`, or ends the job.

    An attempt that was never reported as begun uses no retry.
    """
    if not attempt.has_begun:
        return
    job.infrastructure_failures += 1
    if job.infrastructure_failures <= job.spec.retries:
        return  # the loop takes its devices away, and it waits again
    lifecycle.void(live, job, attempt, why)
    live.unsaved.event("failure", job.id, f"attempt {attempt.number}: {why}")
    lifecycle.end(live, job, _STATE_OF[Cause.INFRASTRUCTURE], why)
    batch.end(job.row, How.FAILED, Phase.FAILED)
    live.drop_if_gone(job)


def _is_vain(live: LiveJobs, job: LiveJob) -> bool:
    """True if failures of other jobs show that this cause persists; records this failure for them."""
    others, failed_of = live.settings.others, _signatures(live, job, 2)
    if not others or not failed_of:
        return False
    if len(failed_of) > 1:
        live.history.note(job.user, job.row, failed_of[0], failed_of[1])
    return live.history.is_vain(job.user, job.row, failed_of[-1], others)


def _signatures(live: LiveJobs, job: LiveJob, most: int) -> list[str]:
    """The causes of its last failed attempts, the newest last; empty where the cause is not known."""
    begun = [attempt for attempt in job.attempts if attempt.is_over and attempt.how != WITHDRAWN]
    rules, code = live.settings.rules, job.spec.requeue_code
    return [
        judge(attempt.exit, "", code, rules).signature if attempt.how in _FAILURES else ""
        for attempt in begun[-most:]
    ]
