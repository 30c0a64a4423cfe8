"""What would become of the jobs that live now, under the policy in force and under others.

`forecast` forks a stored moment once for each policy (and, where durations are sampled, once for each sample)
and says when every job would start and finish.  All moments are seconds since the world's epoch, as in the
moment itself.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from rota.errors import InputError
from rota.forecast.futures import MOST_EVENTS, ForecastCase, ForecastRequest, Run, make_case, play_all
from rota.model.columns import Floats
from rota.model.job_columns import GroupRule
from rota.model.units import format_duration
from rota.scheduler.decision import Memory
from rota.scheduler.moments.frozen import Frozen
from rota.scheduler.policy import PolicySpec, parse_policy
from rota.table.state import Phase

NOW = "now"
"""Label of the policy in force, going on with its memory."""
LOW = 0.1
"""Fraction of the samples below low; as many are above high."""


class Range(NamedTuple):
    """A moment: the median over the samples, and what most of them lie between; None if it never comes."""

    at_s: float | None
    low_s: float | None = None
    high_s: float | None = None


@dataclass(frozen=True)
class JobForecast:
    """One job under one policy."""

    row: int
    id: str
    state: str
    """HELD, PENDING, RUNNING, or NEW for a job that the moment appends."""
    start: Range
    """The first start of a running job; for any other, the next moment at which it runs."""
    finish: Range
    why: str = ""
    """Why there is no start, or no finish, in words to follow the job's name."""


@dataclass(frozen=True)
class PolicyForecast:
    """What one policy would do; the means are over the samples."""

    label: str
    """`now` for the policy in force, else the policy itself; `fifo +16` on a cluster with 16 more GPUs."""
    policy: str
    jobs: tuple[JobForecast, ...]
    """The jobs that live at the moment, in order of submission."""
    mean_wait_s: float
    """Seconds from submission to the end in which a job did not run, over the jobs that end; NaN if none."""
    mean_jct_s: float
    """Seconds from submission to the end, over the jobs that end; NaN if none."""
    makespan_s: float
    """Seconds from the moment until the last of them ends."""
    preemptions: float
    endless: int
    """Jobs that do not end (in the first sample)."""
    samples: int
    """Forks behind the ranges; 1 if nothing is sampled."""
    is_cut: bool
    """True if the fork was cut off (`MOST_EVENTS`, the budget): later ends are not known."""


@dataclass(frozen=True)
class Forecast:
    """Several policies side by side, the one in force first."""

    now_s: float
    policies: tuple[PolicyForecast, ...]
    basis: Mapping[str, int]
    """The number of jobs whose duration has each basis (`Basis`)."""
    samples: int
    """Forks of each policy that were meant to be made; 1 if nothing is sampled."""
    note: str = ""
    """Notes for readers of the numbers, as sentences; empty if there are none."""


def forecast(moment: Frozen, policies: Sequence[str], asked: ForecastRequest | None = None) -> Forecast:
    """What happens to the jobs of `moment` from now on: under its own policy, then under each of `policies`.

    The policy in force goes on with its memory on the cluster as it is, the others begin with none and take
    over what runs.  With more GPUs the policy in force is shown on the larger cluster too, the others only
    there.  Raises InputError for an unknown policy or a change of the cluster that is none.
    """
    asked = asked or ForecastRequest()
    specs = [parse_policy(policy) for policy in policies]
    own = policy_in_force(moment)
    played = 1 + bool(asked.extra_gpus) + len(specs)
    share_s = asked.budget_s / played
    case = make_case(moment, asked, played)
    forecasts = [_under(case, NOW, own, moment.memory, share_s)]
    larger, more = case, ""
    if asked.extra_gpus:
        larger, more = make_case(moment, asked, played, asked.extra_gpus), f" +{asked.extra_gpus}"
        forecasts.append(_under(larger, NOW + more, own, moment.memory, share_s))
    forecasts += [_under(larger, f"{spec}{more}", spec, None, share_s) for spec in specs]
    return Forecast(
        now_s=case.state.now,
        policies=tuple(forecasts),
        basis=case.estimate.counts(),
        samples=len(case.draws),
        note=_note(case, forecasts, asked),
    )


def policy_in_force(moment: Frozen) -> PolicySpec:
    """The policy that decides at the moment."""
    if not moment.policy:
        raise InputError("the moment does not name its policy; freeze it with the name of the one in force")
    return parse_policy(moment.policy)


def _note(case: ForecastCase, forecasts: Sequence[PolicyForecast], asked: ForecastRequest) -> str:
    """How the answer differs from the request."""
    said = []
    if case.estimate.candidates:
        for one in forecasts:
            if one.samples < asked.samples:
                made = "1 sample, which gives no range" if one.samples == 1 else f"{one.samples} samples"
                said.append(f"Under {one.label}: {made}, in place of {asked.samples}, to answer in time.")
    limits = f"{MOST_EVENTS:,} events"
    if math.isfinite(asked.budget_s):
        limits += f" or its share of {asked.budget_s:g} s"
    said += [f"Under {one.label}: cut off after {limits}." for one in forecasts if one.is_cut]
    return " ".join(said)


# -- one policy ------------------------------------------------------------------------------------


def _under(
    case: ForecastCase, label: str, spec: PolicySpec, memory: Memory | None, budget_s: float
) -> PolicyForecast:
    runs = play_all(case, spec, memory, budget_s)
    jobs = _jobs(case, runs)
    return PolicyForecast(
        label=label,
        policy=str(spec),
        jobs=jobs,
        mean_wait_s=_mean([run.wait_s for run in runs]),
        mean_jct_s=_mean([run.jct_s for run in runs]),
        makespan_s=float(np.mean([_last(run.finish_s, case.state.now) for run in runs])),
        preemptions=float(np.mean([run.preemptions for run in runs])),
        endless=int(np.isinf(runs[0].finish_s).sum()),
        samples=len(runs),
        is_cut=any(run.is_cut for run in runs),
    )


def _mean(columns: Sequence[Floats]) -> float:
    """Mean over samples and jobs, without those that do not end."""
    values = np.concatenate(columns)
    values = values[np.isfinite(values)]
    return float(values.mean()) if len(values) else math.nan


def _last(finish_s: Floats, now: float) -> float:
    ends = finish_s[np.isfinite(finish_s)]
    return float(ends.max(initial=now)) - now


# -- one job ---------------------------------------------------------------------------------------


def _jobs(case: ForecastCase, runs: Sequence[Run]) -> tuple[JobForecast, ...]:
    starts = ranges(np.array([run.start_s for run in runs]))
    finishes = ranges(np.array([run.finish_s for run in runs]))
    state = case.state
    return tuple(
        JobForecast(
            row=row,
            id=state.jobs.ids[row],
            state="NEW" if row >= state.submitted else Phase(state.phase.item(row)).name,
            start=starts[place],
            finish=finishes[place],
            why=why_endless(case, runs, row) if finishes[place].at_s is None else "",
        )
        for place, row in enumerate(case.rows.tolist())
    )


def ranges(moments: Floats, outside: float = LOW) -> list[Range]:
    """For each column: median, low and high over the rows; a single row has no range.

    `outside` is the part of them below low, and the part above high.
    """
    if len(moments) == 1:
        return [Range(_moment(at_s)) for at_s in moments[0].tolist()]
    low, middle, high = np.quantile(
        moments, (outside, 0.5, 1.0 - outside), axis=0, method="inverted_cdf"
    ).tolist()
    return [Range(_moment(m), _moment(a), _moment(b)) for a, m, b in zip(low, middle, high, strict=True)]


def _moment(at_s: float) -> float | None:
    return at_s if math.isfinite(at_s) else None


def why_endless(case: ForecastCase, runs: Sequence[Run], row: int, seen: frozenset[int] = frozenset()) -> str:
    """Why `row` does not end (in the last of the runs in which it does not): words to follow its name."""
    place = int(np.searchsorted(case.rows, row))
    run = next(run for run in reversed(runs) if math.isinf(run.finish_s[place]))
    if row in run.ended:
        if run.ended[row] is Phase.CANCELLED:
            if case.state.jobs.group_rule[row] == GroupRule.FIRST:
                return "would be cancelled, since another of its group completes before it"
            return "would be cancelled by the policy"
        return "could never run on this cluster, or would be refused by the policy"
    if row in case.origin.waits and math.isinf(run.start_s[place]):
        held = _why_held(case, runs, run, row, seen)
        if held:
            return held
    if run.is_cut or run.now_s >= case.asked.until_s:
        return f"does not come so far in the {format_duration(run.now_s - case.state.now)} looked ahead"
    if math.isinf(case.told_s[row]) and math.isfinite(run.start_s[place]):
        return "does not end by itself"
    return "finds no place on the cluster as it is"


def _why_held(case: ForecastCase, runs: Sequence[Run], run: Run, row: int, seen: frozenset[int]) -> str:
    """What keeps the held `row` from ever being released in `run`; empty if it has come free."""
    wait, ids = case.origin.waits[row], case.state.jobs.ids
    if wait.is_infeasible:
        return "could never run on this cluster"
    if wait.is_endless:
        return wait.why
    for before in wait.after:
        if before not in run.ended and before not in seen:
            reason = why_endless(case, runs, before, seen | {row})
            return f"waits for job {ids[before]}, which does not end ({reason})"
    if wait.most and any(other not in run.ended for other in wait.beside if other != row):
        return f"waits for jobs of its array, of which {wait.most} may run at once"
    return ""
