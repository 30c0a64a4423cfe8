"""Rules of live clusters beyond the guard's: which jobs a decision may not stop, move or resize for now.

Each is a `rota.scheduler.loop.Rules`; `together` joins some.  What a rule refuses, and what depended on it,
is left as it is; the policy is called again at the moment from which the rule would allow it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from rota.model.grants import Purpose, is_adjustment, is_same_claim
from rota.model.job_columns import JobKind
from rota.model.units import format_duration
from rota.scheduler.decision import Decision
from rota.scheduler.guard.rules import Breach
from rota.scheduler.loop import Rules
from rota.table.state import State

LIVE_RULES = {
    "minimum-run": "a job that has just started is left alone for a while",
    "lost-work": "a job that lost work by preemption is left alone until it has done as much again",
    "not-preemptible": "a job that cannot give up its devices keeps them",
    "gentle": "nobody is disturbed by a policy's first decision",
}
"""Codes of the rules, as `rota.scheduler.guard.rules.RULES` has them for the guard."""

CHANGED = "changed"
"""Effect on a job that goes on where it is, with another claim on its devices: it loses nothing."""
_HARDLY_S = 1e-3
"""Less work than this is not worth waiting for: moments are rounded."""


def disturbed(state: State, decision: Decision) -> Iterator[tuple[int, str]]:
    """Running jobs that would not simply go on, and what would become of them.

    Cancelled jobs do not count: a user wants them to end.  Nor do those that go on where they are with
    another batch size, or other limits.
    """
    for row in decision.preempt:
        if row in state.running:
            yield row, "preempted"
    for grant in decision.grants:
        old = state.grants.get(grant.job)
        if old is None or old == grant or is_same_claim(old, grant):
            continue
        if is_adjustment(old, grant):
            yield grant.job, CHANGED
        else:
            yield grant.job, "resized" if len(old.devices) != len(grant.devices) else "moved"


@dataclass(frozen=True)
class MinimumRun:
    """A job that has run for less than `min_run_s` since its present start goes on; opportunistic ones may
    be stopped at any time, one that is only measured once it has begun, and one that goes on where it is
    loses nothing.

    `began` says of a job that holds devices when its processes began to run on them, NaN if they have not:
    the previous job may take a while to leave.  Until they have, it may not be stopped at all, or two jobs
    could send each other away for ever without a step of either.
    """

    min_run_s: float = 60.0
    began: Callable[[State, int], float] = lambda state, row: state.since_s.item(row)

    def __call__(self, state: State, decision: Decision) -> list[Breach]:
        if not decision.preempt and not decision.grants:
            return []
        breaches = []
        for row, how in disturbed(state, decision):
            began_s = self.began(state, row)
            ran_s, until_s = state.now - began_s, began_s + self.min_run_s
            if state.grants[row].purpose is Purpose.PROFILE and began_s <= state.now:
                continue
            if until_s <= state.now or how == CHANGED or state.jobs.kind[row] == JobKind.OPPORTUNISTIC:
                continue
            if math.isnan(began_s):
                message = f"has not begun on the devices it was given and would be {how}"
                breaches.append(_breach(state, "minimum-run", row, message))
                continue
            minimum = format_duration(self.min_run_s)
            message = f"has run for {format_duration(ran_s)} of its minimum of {minimum} and would be {how}"
            breaches.append(_breach(state, "minimum-run", row, message, until_s))
        return breaches


class Redo(NamedTuple):
    """Work that a job has lost because others were to have its devices or its memory.

    In seconds at the requested allocation.
    """

    lost_s: float
    left_s: float
    """The part of it that has not been done again since the job last started over."""


@dataclass(frozen=True)
class LostWork:
    """A job that lost work by preemption goes on until it has done as much again; opportunistic ones may be
    stopped at any time.

    One that saves nothing, and is stopped in turns, would start over for ever.  Under this rule all that it
    has lost doubles with each time that it loses everything: a job of length L loses its work about log2(L /
    minimum run) times.  Each time it delays others for no longer than it was set back itself.
    """

    redo: Callable[[State, int], Redo]

    def __call__(self, state: State, decision: Decision) -> list[Breach]:
        if not decision.preempt and not decision.grants:
            return []
        breaches = []
        for row, how in disturbed(state, decision):
            lost_s, left_s = self.redo(state, row)
            rate = state.progress.rate.item(row)
            if how == CHANGED or left_s < _HARDLY_S or state.jobs.kind[row] == JobKind.OPPORTUNISTIC:
                continue
            if rate <= 0.0:  # it has not begun: the minimum run protects it
                continue
            again, lost = format_duration(lost_s - left_s), format_duration(lost_s)
            message = (
                f"has done again {again} of the {lost} of work that preemption cost it, and would be {how}"
            )
            breaches.append(_breach(state, "lost-work", row, message, state.now + left_s / rate))
        return breaches


@dataclass(frozen=True)
class NoPreemption:
    """Jobs that cannot be stopped, moved or resized; `rows` returns them at each decision."""

    rows: Callable[[], Collection[int]]

    def __call__(self, state: State, decision: Decision) -> list[Breach]:
        kept = self.rows() if decision.preempt or decision.grants else ()
        return [
            _breach(state, "not-preemptible", row, f"would be {how}, and is not preemptible")
            for row, how in (disturbed(state, decision) if kept else ())
            if row in kept
        ]


class Gentle:
    """A policy that takes over a running cluster looks before it acts: its first decision disturbs no job.

    A policy that begins with an empty memory finds jobs running that it would not have chosen; an order by
    remaining time or by service would stop many of them at once.  Under this rule its first decision only
    fills what is free; it is called again soon, and from its second decision on it is free: no job loses
    devices to a slip that is taken back at once, and the first decision never preempts more than the second.

    The moment of the first decision counts, even if it is judged in several rounds; a decision that was cut
    short and says nothing does not count as one.  The loop must not be strict, so that the sound part is
    carried out.
    """

    def __init__(self) -> None:
        self.moment = math.nan

    def __call__(self, state: State, decision: Decision) -> list[Breach]:
        if math.isnan(self.moment):
            if decision.is_cut and not decision.grants and not decision.preempt:
                return []
            self.moment = state.now
        if state.now > self.moment:
            return []
        return [
            _breach(state, "gentle", row, f"would be {how} by the first decision of a policy that takes over")
            for row, how in disturbed(state, decision)
        ]


def together(*rules: Rules) -> Rules:
    """All of `rules`; a job is refused once, for the first reason."""

    def check(state: State, decision: Decision) -> list[Breach]:
        by_job: dict[int, Breach] = {}
        for rule in rules:
            for breach in rule(state, decision):
                by_job.setdefault(breach.job, breach)
        return list(by_job.values())

    return check


def _breach(state: State, rule: str, row: int, what: str, until_s: float = math.nan) -> Breach:
    return Breach(rule, row, f"job {state.jobs.ids[row]} {what}; rule: {LIVE_RULES[rule]}", until_s)
