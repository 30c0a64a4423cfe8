"""Failures of jobs: their causes, their times in a job's life, their cost, and whether retries helped."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rota.model.columns import Bools, Floats, Ints
from rota.model.failures import NO_SIGNATURE, FailureClass, class_of
from rota.model.jobs import PREEMPTED, REQUEUED, Outcome
from rota.model.units import format_duration, plural
from rota.model.words import hours
from rota.reports.curves import distribution
from rota.reports.finding import Bars, Finding, Remedy, Replay, Said, Unsaid
from rota.reports.findings.history import HOUR_S, JobHistory, failed
from rota.reports.findings.thresholds import Thresholds
from rota.reports.wording import percent

STUDY = "failures"
_ADAPTIVE = Remedy(
    *("philly", "systems/philly.md", "retries only what may help, by what failed (--retries adaptive)"),
    replay=Replay("philly", retries="adaptive"),
    against=Replay("philly"),
    metric="lost_gpu_s",
)


@dataclass(frozen=True)
class FailedAttempts:
    """Attempts that failed, one row each."""

    row: Ints
    """Of the job."""
    number: Ints
    """Of the attempt, from 0."""
    run_s: Floats
    reason: tuple[str, ...]
    last: Bools
    """No attempt came after it."""

    @classmethod
    def of(cls, history: JobHistory) -> FailedAttempts:
        """All failed attempts of jobs with GPUs, in the order of jobs and attempts."""
        truth, seen = history.trace.truth, history.trace.observed
        exits = seen.exits if seen is not None else {}
        ended_badly = np.flatnonzero(failed(history) & (history.gpus > 0) & np.isfinite(truth.duration_s))
        rows, numbers, runs, reasons, last = [], [], [], [], []
        for row in sorted({*truth.failures, *ended_badly.tolist()}):
            if history.gpus[row] <= 0:
                continue
            earlier = truth.failures.get(row, ())
            final = (float(truth.duration_s[row]),) if truth.outcome[row] == Outcome.FAILED else ()
            for number, run_s in enumerate((*earlier, *final)):
                ends = number == len(earlier)
                said = truth.signature(row, number)
                vague = said in ("", NO_SIGNATURE)
                rows.append(row)
                numbers.append(number)
                runs.append(run_s)
                reasons.append(exits.get(row, said) if vague and ends else said)
                last.append(ends)
        return cls(
            np.array(rows, dtype=np.int64),
            np.array(numbers, dtype=np.int64),
            np.array(runs, dtype=np.float64),
            tuple(reasons),
            np.array(last, dtype=np.bool_),
        )


def study(history: JobHistory, thresholds: Thresholds) -> Said:
    """Outcomes, reasons, moments, cost, retries, and failures that a pre-run would have caught."""
    known = history.ran
    if not known.any():
        return Said.gap(STUDY, "what failed, when and of what", "run times")
    trials = FailedAttempts.of(history)
    taken = _taken_away(history)
    if not (len(trials.row) or taken) and bool((history.outcome == Outcome.COMPLETED).all()):
        needs = "the outcome of each job (State, outcome), or none failed or was cancelled"
        return Said.gap(STUDY, "what failed, when and of what", needs)
    findings = [_outcomes(history), *taken]
    unsaid = []
    if len(trials.row):
        findings.append(_when(history, trials, thresholds))
        findings += _reasons(history, trials)
        findings += _retries(history, trials)
        findings.append(_prerun(history, trials, thresholds))
        if all(reason in ("", NO_SIGNATURE) for reason in trials.reason):
            unsaid.append(Unsaid(STUDY, "what attempts failed of", "signatures, or ExitCode"))
        if not history.trace.truth.failures:
            needs = "earlier attempts (failures_s; sacct --duplicates), or there were none"
            unsaid.append(Unsaid(STUDY, "which retries helped", needs))
    return Said(tuple(findings), tuple(unsaid))


def _outcomes(history: JobHistory) -> Finding:
    """Jobs and GPU-hours by how they ended."""
    known = history.ran
    whole = float(history.gpu_hours[known].sum())
    rows, numbers = [], {}
    for outcome in Outcome:
        own = known & (history.outcome == outcome)
        if outcome == Outcome.PREEMPTED and not own.any():
            continue
        jobs, part = float(own.sum() / known.sum()), float(history.gpu_hours[own].sum() / whole)
        name = outcome.name.lower()
        rows.append((name, (part,), f"{percent(jobs)} of jobs, {percent(part)} of GPU-hours"))
        numbers[name] = {"jobs": jobs, "gpu_hours": part}
    jobs = 1.0 - numbers["completed"]["jobs"]
    part = 1.0 - numbers["completed"]["gpu_hours"]
    words = {"failed": "failed", "cancelled": "were cancelled", "preempted": "were preempted for good"}
    said = [f"{how} ({percent(numbers[name]['jobs'])})" for name, how in words.items() if name in numbers]
    sentence = (
        f"{percent(jobs)} of the jobs {', '.join(said[:-1])} or {said[-1]}, and took {percent(part)} of the "
        "GPU-hours."
    )
    figure = Bars.of("How jobs ended", "Length: share of GPU-hours.", rows, top=1.0)
    return Finding(*("outcomes", STUDY, sentence, part, "share"), numbers=numbers, figure=figure)


def _taken_away(history: JobHistory) -> list[Finding]:
    """What attempts held that the site ended: they were preempted or put back, and did not fail."""
    seen = history.trace.observed
    rows = [row for row in (seen.interruptions if seen else {}) if history.ran[row]]
    if seen is None or not rows:
        return []
    held = {
        why: float((seen.interrupted_s(why) * history.gpus)[rows].sum()) / HOUR_S
        for why in (PREEMPTED, REQUEUED)
    }
    total, whole = sum(held.values()), float(history.gpu_hours.sum())
    attempts = sum(len(seen.interruptions[row]) for row in rows)
    ways = " or ".join(f"{why} ({hours(of)} GPU-hours)" for why, of in held.items() if of)
    who = f"{plural(attempts, 'attempt')} of {plural(len(rows), 'job')} {'was' if attempts == 1 else 'were'}"
    sentence = f"{who} {ways}, {percent(total / whole)} of all GPU-hours, and did not fail."
    numbers = {"attempts": attempts, "jobs": len(rows), "gpu_hours": held}
    note = "Whether their work was kept by a checkpoint, or done again, is not on record."
    return [Finding(*("taken_away", STUDY, sentence, total, "GPU-hours"), numbers=numbers, note=note)]


def _lost(history: JobHistory, trials: FailedAttempts) -> Floats:
    return trials.run_s * history.gpus[trials.row] / HOUR_S


def _when(history: JobHistory, trials: FailedAttempts, thresholds: Thresholds) -> Finding:
    """Time to failure, and the GPU-hours of attempts that failed."""
    lost = _lost(history, trials)
    whole = float(history.gpu_hours.sum())
    early = float((trials.run_s <= thresholds.prerun_s).mean())
    middle = float(np.median(trials.run_s))
    late = lost[trials.run_s > np.percentile(trials.run_s, 90)].sum() / max(lost.sum(), 1e-12)
    cost = f"{hours(float(lost.sum()))} GPU-hours ({percent(float(lost.sum()) / whole)} of all)"
    sentence = (
        f"Attempts that failed cost {cost}; half of them failed within {format_duration(middle)}, "
        f"but the latest tenth holds {percent(float(late))} of what was lost."
    )
    curves = [("failed attempts", trials.run_s)]
    for kind in FailureClass:
        own = np.array([class_of(reason) == kind for reason in trials.reason], dtype=np.bool_)
        if own.any() and not own.all():
            curves.append((f"{kind.value} faults", trials.run_s[own]))
    figure = distribution("failing", "Time to failure", "from start to failure", curves, "attempts")
    return Finding(
        *("lost_to_failures", STUDY, sentence, float(lost.sum()), "GPU-hours"),
        numbers={
            "share": float(lost.sum()) / whole,
            "median_s": middle,
            "early_share": early,
            "attempts": len(trials.row),
            "late_tenth_share": float(late),
        },
        figure=figure,
        remedies=(_ADAPTIVE,) if history.trace.truth.failures else (),
    )


def _reasons(history: JobHistory, trials: FailedAttempts) -> list[Finding]:
    """Attempts and GPU-hours by what failed, where anything says it."""
    if all(reason in ("", NO_SIGNATURE) for reason in trials.reason):
        return []
    lost = _lost(history, trials)
    count: dict[str, int] = {}
    cost: dict[str, float] = {}
    for place, reason in enumerate(trials.reason):
        name = reason or NO_SIGNATURE
        count[name] = count.get(name, 0) + 1
        cost[name] = cost.get(name, 0.0) + float(lost[place])
    ranked = sorted(count, key=lambda name: (-cost[name], name))
    of_class = {kind: [name for name in count if class_of(name) == kind] for kind in FailureClass}
    parts = [
        (kind, sum(count[n] for n in own) / len(trials.row), sum(cost[n] for n in own) / float(lost.sum()))
        for kind, own in of_class.items()
        if own and float(lost.sum()) > 0
    ]
    said = "; ".join(
        f"{kind.value} {percent(share)} of attempts and {percent(part)} of the GPU-hours lost"
        for kind, share, part in parts
    )
    most = max(count, key=lambda name: (count[name], name))
    often = percent(count[most] / len(trials.row))
    sentence = f"By whose fault it was: {said}; the commonest reason is {most} ({often})."
    rows = [(name, (cost[name],), f"{count[name]:,} attempts, {hours(cost[name])} GPU-h") for name in ranked]
    return [
        Finding(
            *("failure_reasons", STUDY, sentence, count[most] / len(trials.row), "share"),
            numbers={"attempts": count, "gpu_hours": cost},
            figure=Bars.of("What attempts failed of", "GPU-hours lost.", rows),
        )
    ]


def _retries(history: JobHistory, trials: FailedAttempts) -> list[Finding]:
    """Jobs that were tried again: did they complete, and what did trying cost those that did not."""
    again = np.array(
        sorted(row for row in history.trace.truth.failures if history.gpus[row] > 0), dtype=np.int64
    )
    if not len(again):
        return []
    good = history.outcome[again] == Outcome.COMPLETED
    bad = history.outcome[again] == Outcome.FAILED
    repeated = np.isin(trials.row, again[bad]) & (trials.number > 0)
    wasted = float(_lost(history, trials)[repeated].sum())
    sentence = (
        f"{plural(len(again), 'job')} were tried again after a failure: {percent(float(good.mean()))} "
        f"completed then; {percent(float(bad.mean()))} failed for good, and their further attempts cost "
        f"{hours(wasted)} GPU-hours for nothing."
    )
    rows = [
        ("completed in the end", (float(good.sum()),), f"{int(good.sum()):,} jobs"),
        ("failed for good", (float(bad.sum()),), f"{int(bad.sum()):,} jobs, {hours(wasted)} GPU-h wasted"),
        ("cancelled", (float((~good & ~bad).sum()),), f"{int((~good & ~bad).sum()):,} jobs"),
    ]
    return [
        Finding(
            *("retries", STUDY, sentence, wasted, "GPU-hours"),
            numbers={"jobs": len(again), "helped": float(good.mean()), "wasted": float(bad.mean())},
            figure=Bars.of("What became of jobs that were tried again", "Jobs.", rows),
            remedies=(_ADAPTIVE,) if wasted > 0 else (),
        )
    ]


def _prerun(history: JobHistory, trials: FailedAttempts, thresholds: Thresholds) -> Finding:
    """Failures that a trial on one GPU before the real run would have caught, if they recur there."""
    early = trials.run_s <= thresholds.prerun_s
    first = early & (trials.number == 0)
    caught = np.isin(trials.row, trials.row[first])
    spared = _lost(history, trials)[caught].sum() - (trials.run_s[first]).sum() / HOUR_S
    share = float(early.mean())
    sentence = (
        f"A pre-run of {format_duration(thresholds.prerun_s)} on one GPU would have caught {percent(share)} "
        f"of the failed attempts, and spared {hours(max(float(spared), 0.0))} GPU-hours of them "
        "and of their retries."
    )
    marks_s = [60.0, 180.0, 600.0, 1800.0, 3600.0]
    rows = [
        (f"within {format_duration(mark_s)}", float((trials.run_s <= mark_s).mean())) for mark_s in marks_s
    ]
    return Finding(
        *("prerun", STUDY, sentence, share, "share"),
        numbers={"spared_gpu_hours": float(spared)},
        figure=Bars.shares("Failed attempts by how early they failed", "Share of failed attempts.", rows),
        note="Taken that what fails early fails on one GPU as well; failures that need many GPUs do not.",
        remedies=(
            Remedy("philly", "systems/philly.md", "describes the pre-run pool (not built as a policy)"),
        ),
    )
