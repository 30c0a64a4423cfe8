"""Deadline-SLA — serve first the job that would lose most reward by waiting one more round.

Paper     Betser, "Improving Service Level Agreements for a Job Scheduler by Visualizing Simulations", M.Eng.
          thesis, MIT 2012
Decides   order; preemption if asked to
Needs     durations
Idea      1. An agreement "by deadline" is worth `full` if the job is done in time, and falls to `floor` over
             a grace after that.
          2. The key of a job is the reward at risk: what it loses if it starts a round later instead of now,
             for each GPU-second that it still needs; the largest first.
          3. Jobs that lose nothing by that, with slack left or nothing left to lose, follow by deadline.
          4. `rota promise` asks the simulator for the value of a promise before it is given.
Departs   Inspired by the abstract of the thesis, whose text was not at hand: all formulas and numbers are
          ours.  `rota promise` refuses promises with too little chance; the policy accepts every job.  A job
          without a deadline loses nothing; one with several has the value of the first that it keeps.
Checked   systems/deadline_sla.md, examples a1 to a7; the authors published no code or data
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from rota.errors import InputError
from rota.knowledge.needs import Knowledge
from rota.knowledge.reward import by_steps, fallen
from rota.model.columns import Floats, Ints
from rota.model.grants import Grant
from rota.model.promises import DeadlinePlan, PlannedSlot
from rota.scheduler.decision import Decision, Memory, Wake
from rota.scheduler.policy import Lever, register
from rota.scheduler.snapshot import Snapshot
from rota.stages.place import Placement
from rota.stages.priority import ByPriority, Drift
from rota.stages.remaining import remaining_s

_LEAST_S = 1.0
"""Run time left of a job that has outrun its estimate."""


@dataclass(frozen=True)
class DeadlineSlaParameters:
    """Parameters of `deadline_sla`."""

    full: float = 1.0
    """Reward of a job that is done by its deadline."""
    floor: float = 0.0
    """Reward once the grace is over; a penalty if it is below 0."""
    grace: float = 0.5
    """Grace after a deadline, as a part of the time from submission to it; 0 for a step."""
    round_s: float = 60.0
    """Seconds of further waiting over which the reward at risk is counted (`dt`)."""
    preemptive: bool = False
    """Take GPUs from running jobs that risk less than a waiting one, once a round."""
    placement: Placement = Placement.CONSOLIDATE
    """Where on the cluster."""

    def __post_init__(self) -> None:
        if not -math.inf < self.floor <= self.full < math.inf:
            raise InputError(
                f"policy 'deadline_sla': floor={self.floor:g} is not at most full={self.full:g}, both finite"
            )
        if not 0.0 <= self.grace < math.inf:
            raise InputError(f"policy 'deadline_sla': grace={self.grace:g} is not 0 or more")
        if not 0.0 < self.round_s < math.inf:
            raise InputError(f"policy 'deadline_sla': round_s={self.round_s:g} is not above 0")


@register(
    "deadline_sla",
    "Largest loss of reward by waiting first: deadlines with a grace",
    paper="M.Eng. thesis, MIT 2012",
    needs={Knowledge.DURATION},
    levers=dict.fromkeys((Lever.PREEMPT, Lever.MIGRATE), lambda p: p.preemptive),
    parameters=DeadlineSlaParameters,
    heeds_deadlines=True,
)
class DeadlineSla:
    """Serves jobs in order of the reward at risk."""

    def __init__(self, parameters: DeadlineSlaParameters | None = None) -> None:
        self.parameters = p = parameters or DeadlineSlaParameters()
        self._inner = ByPriority(
            partial(key, parameters=p),
            preemptive=p.preemptive,
            drifts=Drift.ALWAYS,
            placement=p.placement,
        )

    def decide(self, snapshot: Snapshot, memory: Memory) -> Decision:
        p = self.parameters
        at_s = snapshot.now + p.round_s if p.preemptive else math.inf
        decision = self._inner.decide(snapshot, memory, Wake(at_s, if_waiting=True))
        decision.plan_of = partial(plan_of, snapshot, {grant.job: grant for grant in decision.grants})
        return decision


def plan_of(snapshot: Snapshot, granted: Mapping[int, Grant], row: int) -> DeadlinePlan | None:
    """The plan of a running job, to run to its end; None for others: these are served by what they risk."""
    grant, dues_s = granted.get(row) or snapshot.grants.get(row), snapshot.jobs.deadline_s
    if grant is None or row >= len(dues_s) or math.isnan(due_s := float(dues_s[row])):
        return None
    left_s = float(remaining_s(snapshot, np.array([row]))[0])
    return DeadlinePlan(due_s, (PlannedSlot(snapshot.now, snapshot.now + left_s, len(grant.devices)),))


def key(snapshot: Snapshot, rows: Any, parameters: DeadlineSlaParameters) -> Any:
    """Below 0 the reward at risk, the largest first; from 0 on the deadlines of jobs that risk nothing."""
    several = np.atleast_1d(np.asarray(rows, dtype=np.int64))
    risk = reward_at_risk(snapshot, several, parameters)
    due_s: Floats = snapshot.jobs.deadline_s[several]
    last = np.where(np.isnan(due_s), np.inf, np.maximum(due_s, 0.0))
    keys = np.where(risk > 0.0, -risk, last)
    return keys if isinstance(rows, np.ndarray) else keys.item()


def reward_at_risk(snapshot: Snapshot, rows: Ints, parameters: DeadlineSlaParameters) -> Floats:
    """What each of `rows` loses by starting a round later, for each GPU-second it still needs."""
    p, jobs = parameters, snapshot.jobs
    left_s = np.maximum(remaining_s(snapshot, rows), _LEAST_S)
    done_s = snapshot.now + left_s
    due_s = jobs.deadline_s[rows]
    grace_s = p.grace * np.maximum(due_s - jobs.table.submit_s[rows], 0.0)
    falls = fallen(done_s + p.round_s, due_s, grace_s) - fallen(done_s, due_s, grace_s)
    lost: Floats = (p.full - p.floor) * np.nan_to_num(falls)
    for place, row in enumerate(rows.tolist()):
        moments = jobs.deadlines(row)
        if moments:
            reward = by_steps(moments, p.floor)
            lost[place] = reward.at(done_s.item(place)) - reward.at(done_s.item(place) + p.round_s)
    risk: Floats = np.maximum(lost, 0.0) / (np.maximum(jobs.gpus[rows], 1) * left_s)
    return risk
