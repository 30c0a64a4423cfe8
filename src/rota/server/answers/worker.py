"""The process that looks ahead: forks the moments it is sent into the simulated world.

Started as `python -P -m rota.server.answers.worker FD PARENT`, as policies are: it neither slows the
scheduler nor outlives it.  Answers are plain values; moments in them are seconds since the cluster's epoch.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Collection
from dataclasses import asdict, replace
from functools import partial
from io import BytesIO
from typing import Any

import numpy as np

from rota.errors import PolicyError, RotaError, words_of
from rota.forecast.altered import with_job, with_tenants
from rota.forecast.compare import PolicyForecast, Range, forecast, policy_in_force
from rota.forecast.estimate import StartEstimate, estimate_start
from rota.forecast.fork import fork
from rota.forecast.futures import ForecastCase, ForecastRequest, make_case
from rota.forecast.remaining import Durations, parse_source
from rota.knowledge.needs import Knowledge
from rota.model.cells import check_cells
from rota.scheduler.asking import asked
from rota.scheduler.decision import Decision, Memory
from rota.scheduler.guard.live_rules import LostWork, MinimumRun, NoPreemption, Redo, together
from rota.scheduler.moments.frozen import Frozen, load
from rota.scheduler.own_modules import import_policies
from rota.scheduler.policy import Policy, parse_policy
from rota.scheduler.reasons.waiting import explain
from rota.scheduler.snapshot import Snapshot, table_of
from rota.server.answers.questions import (
    AskFutures,
    AskNew,
    AskStart,
    AskTenants,
    AskTrial,
    Looking,
    PresentMoment,
)
from rota.server.policy.memory import SPENT, has_run_out
from rota.server.policy.messages import pack_constraint
from rota.server.policy.process import Reply, main
from rota.table.state import Phase, State

AHEAD = 3


class Forecaster:
    """Answers one question at a time."""

    def __init__(self) -> None:
        import_policies()
        self._serve: dict[type, Callable[[Any], Reply]] = {
            AskStart: start, AskNew: new, AskFutures: futures, AskTrial: trial,
            AskTenants: tenants,
            str: lambda text: {"said": text},
        }  # fmt: skip

    def answer(self, request: Any) -> Reply:
        """The answer to `request`, or `error` with a sentence and whether it is the caller's fault."""
        try:
            return self._serve[type(request)](request)
        except Exception as error:  # a policy may raise anything, and the controller gets it
            if has_run_out(error):
                return {SPENT: words_of(error)}
            is_known = isinstance(error, RotaError)
            if not is_known:
                sys.excepthook(type(error), error, error.__traceback__)
            return {"error": str(error) if is_known else words_of(error), "is_input": is_known}


def start(ask: AskStart) -> Reply:
    """When a job starts, and how long it will then run."""
    frozen, asked = prepared(ask.looking)
    estimate = estimate_start(frozen, ask.row, asked)
    return {**_start(estimate), "left_s": _left_s(make_case(frozen, asked, 1), ask.row)}


def new(ask: AskNew) -> Reply:
    """When a job that is not submitted would start, and what would keep it until then."""
    frozen, asked = prepared(ask.looking)
    moment = with_job(frozen, ask.job, ask.types)
    case = make_case(moment, asked, 1)
    row = int(case.rows[-1])
    starts, constraints = _first_look(moment, case, row)
    estimate = estimate_start(moment, row, asked)
    reply = {**_start(estimate), "left_s": _left_s(case, row), "constraints": constraints}
    return {**reply, "position": 1} if starts else reply


def futures(ask: AskFutures) -> Reply:
    """All jobs under all policies."""
    frozen, asked = prepared(ask.looking)
    forecasts = forecast(frozen, ask.policies, asked)
    return {
        "now_s": forecasts.now_s,
        "basis": dict(forecasts.basis),
        "note": forecasts.note,
        "policies": [_policy(one) for one in forecasts.policies],
    }


def trial(ask: AskTrial) -> Reply:
    """Nothing, if the policy decides; whatever it raises is the answer otherwise."""
    frozen, asked = prepared(ask.looking)
    case = make_case(frozen, asked, 1)
    policy = _Heard(parse_policy(ask.policy).make())
    seed = case.origin.packed["seed"]
    loop, _ = fork(
        case.origin, policy, case.told_s, case.told_s, source=case.provenance, cause=case.cause, seed=seed
    )
    loop.step(case.state.now)
    if policy.last is None:
        raise PolicyError("it was not asked")
    return {}


def tenants(ask: AskTenants) -> Reply:
    """Decisions of the policy in force at this moment, under the present tenants and the proposed ones."""
    frozen, _ = prepared(ask.looking)
    altered = with_tenants(frozen, ask.tenants)
    seen = altered.snapshot(frozenset())
    check_cells(seen.cluster)
    if not len(seen.waiting) and not len(
        seen.running
    ):  # no job has been submitted, so nothing is known either
        nothing = _outcome(Decision({}))
        return {"before": nothing, "after": nothing}
    return {"before": _outcome(frozen.decide()), "after": _outcome(altered.decide())}


def _outcome(decision: Decision) -> Reply:
    guaranteed = decision.guaranteed
    return {
        "preempt": [int(row) for row in decision.preempt],
        "reject": {int(row): str(why) for row, why in decision.reject.items()},
        "guaranteed": None if guaranteed is None else [int(row) for row in guaranteed],
    }


# -- questions -------------------------------------------------------------------------------------


def prepared(looking: Looking) -> tuple[Frozen, ForecastRequest]:
    """The moment, and how to look ahead from it."""
    moment = looking.moment
    frozen = load(BytesIO(moment.frozen))
    past = moment.past.and_running(table_of(frozen.snapshot(frozenset())))
    durations = Durations(parse_source(looking.source), past, _given(frozen, moment))
    rules = together(
        NoPreemption(partial(frozenset, moment.fixed)),
        LostWork(_redo(frozen, moment)),
        MinimumRun(moment.min_run_s),
    )
    return frozen, ForecastRequest(
        durations=durations,
        extra_gpus=looking.extra_gpus,
        costs=moment.costs,
        waits=moment.waits,
        rules=rules,
        wake=moment.wake,
        seed=looking.seed,
        budget_s=looking.budget_s,
    )


def _redo(frozen: Frozen, moment: PresentMoment) -> Callable[[State, int], Redo]:
    """Remaining work in a fork, less the work that a job has done since the moment."""
    before = _done(frozen, moment.redo)

    def redo(state: State, row: int) -> Redo:
        if row not in before:
            return Redo(0.0, 0.0)
        lost_s, left_s = moment.redo[row]
        return Redo(lost_s, max(0.0, left_s - (state.progress.done(row, state.now) - before[row])))

    return redo


def _given(frozen: Frozen, moment: PresentMoment) -> dict[int, float]:
    """Whole durations of the jobs that report their remaining work."""
    return {row: did + moment.left_s[row] for row, did in _done(frozen, moment.left_s).items()}


def _done(frozen: Frozen, wanted: Collection[int]) -> dict[int, float]:
    """Work that the rows `wanted` had done at the moment, in seconds at the requested allocation."""
    if not wanted:
        return {}
    state = table_of(frozen.snapshot(frozenset()))
    rows = [row for row in wanted if row < state.submitted]
    done = state.work_s(np.array(rows, dtype=np.int64))
    return dict(zip(rows, done.tolist(), strict=True))


# -- answers ---------------------------------------------------------------------------------------


def _start(estimate: StartEstimate) -> Reply:
    return {**_range(estimate.start), "position": estimate.position, "basis": estimate.basis}


def _range(moment: Range) -> Reply:
    return {"at_s": moment.at_s, "low_s": moment.low_s, "high_s": moment.high_s}


def _left_s(case: ForecastCase, row: int) -> float | None:
    """Seconds that `row` still takes at the requested allocation; None if it does not end."""
    place = int(np.searchsorted(case.rows, row))
    left = float(case.told_s[row]) - case.done_s.item(place)
    return max(left, 0.0) if math.isfinite(left) else None


def _policy(future: PolicyForecast) -> Reply:
    plain = asdict(replace(future, jobs=()))
    jobs = [{"id": job.id, "start": tuple(job.start), "finish": tuple(job.finish)} for job in future.jobs]
    return {**plain, "jobs": jobs}


class _Heard:
    """A policy, and its last decision."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self.needs: frozenset[Knowledge] = frozenset(policy.needs)
        self.last: Decision | None = None

    def decide(self, snapshot: Snapshot, memory: Memory) -> Decision:
        self.last = asked(self.policy, snapshot, memory)
        return self.last


def _first_look(moment: Frozen, case: ForecastCase, row: int) -> tuple[bool, list[Any]]:
    """Whether `row` starts as soon as it arrives, otherwise what keeps it from that."""
    policy = _Heard(policy_in_force(moment).make())
    loop, _ = fork(
        case.origin,
        policy,
        case.told_s,
        case.told_s,
        source=case.provenance,
        memory=moment.memory,
        wake=case.asked.wake,
        cause=case.cause,
        seed=case.origin.packed["seed"],
    )
    loop.step(case.state.now)
    state = loop.state
    if state.phase.item(row) == Phase.RUNNING:
        return True, []
    last = policy.last or Decision({}, wake=loop.wake)
    in_force = Decision(
        {}, wake=loop.wake, reasons=last.reasons, ranking=last.ranking, otherwise=last.otherwise
    )
    return False, [pack_constraint(one) for one in explain(loop.snapshot(), in_force, row)]


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Forecaster())
