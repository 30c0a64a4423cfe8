"""Gives what plans leave to the job whose GPU time grows most by it, as in the authors' elastic modes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from rota.published.artifacts.elasticflow.backward import BackwardPlanner, Planned, SlotPlan, Steps, changed
from rota.systems.elasticflow.asks import ShareAsk


class Climbed(NamedTuple):
    """Results for some jobs, by their place: plans first, then what was handed out besides."""

    in_time: bool
    """All were planned to be done by their deadlines."""
    gpus: list[int]
    """GPUs from now on."""
    ends: list[float]
    """When these are free again: whole slots."""
    dones: list[float]
    """When its work is done, in whole seconds."""
    changes: list[float]
    """The next moment at which something is planned; infinite if nothing is."""
    first_gpus: list[int]
    """GPUs from now on before anything was handed out, ..."""
    first_ends: list[float]
    """... when these were to be free again, ..."""
    first_dones: list[float]
    """... when its work was to be done, ..."""
    begins: list[float]
    """... and when it was first to have any; infinite if never."""
    order: list[int]
    """Places, in the order in which the last step left them."""
    raised: list[tuple[int, float]]
    """The job raised by each step, and when it ends since."""


def climbed_in_steps(
    asks: Sequence[ShareAsk], gpus: int, now: float, slot_s: float, *, gives: bool
) -> Climbed:
    """Computes in steps what `climb.climbed` computes."""
    planner = BackwardPlanner(gpus, now, slot_s)
    jobs = [Planned.of(ask) for ask in asks]
    in_time, free = _plan(planner, jobs)
    first_gpus, first_ends = [job.gpus for job in jobs], [float(job.plan.end_s) for job in jobs]
    first_dones = [float(job.plan.done_s) for job in jobs]
    begins = [next((at_s for at_s, has in job.plan.steps if has), math.inf) for job in jobs]
    surplus = ArtifactSurplus(planner, jobs, free)
    if gives:
        surplus.hand_out()
    place_of = {job.ask.row: place for place, job in enumerate(jobs)}
    return Climbed(
        in_time,
        [job.gpus for job in jobs],
        [float(job.plan.end_s) for job in jobs],
        [float(job.plan.done_s) for job in jobs],
        [float(job.plan.change_s) for job in jobs],
        first_gpus,
        first_ends,
        first_dones,
        [float(at_s) for at_s in begins],
        [place_of[job.ask.row] for job in surplus.ordered],
        [(place_of[row], float(end_s)) for row, end_s in surplus.raised],
    )


def _plan(planner: BackwardPlanner, jobs: Sequence[Planned]) -> tuple[bool, Steps]:
    """Plan `jobs` one by one: returns whether all are in time, and what stays free."""
    free: Steps = [(planner.now, planner.gpus)]
    in_time = True
    for job in jobs:
        job.plan = planner.plan(job, free)
        job.gpus = job.plan.steps[0][1]
        in_time = in_time and job.plan.done_s <= job.due_s
        free = changed(free, job.plan, -1)
    return in_time, free


class ArtifactSurplus:
    """Gives GPUs that are free now, level by level, to the job whose GPU time grows most for each."""

    def __init__(self, planner: BackwardPlanner, jobs: Sequence[Planned], free: Steps) -> None:
        self._planner, self.ordered, self._free = planner, list(jobs), free
        self._left = planner.gpus - sum(job.gpus for job in jobs)
        self._plans: dict[int, SlotPlan] = {}
        self._keys: dict[int, float] = {}
        self.raised: list[tuple[int, float]] = []
        """Rows and new ends, step by step."""

    def hand_out(self) -> None:
        """Raise jobs until no job can be raised; `ordered` is as the last step left it."""
        if not self._left:
            return
        self._sort(self.ordered)
        while self._left > 0 and (job := next(filter(self._fits, self.ordered), None)) is not None:
            self._left -= job.next_level - job.gpus
            plan = self._plans.get(job.ask.row) or self._raise(job)
            self._free = changed(changed(self._free, job.plan, 1), plan, -1)
            job.gpus, job.plan = job.next_level, plan
            self.raised.append((job.ask.row, plan.end_s))
            self._sort([one for one in self.ordered if one.next_level > one.gpus])

    def _fits(self, job: Planned) -> bool:
        return 0 < job.next_level - job.gpus <= self._left

    def _sort(self, jobs: Sequence[Planned]) -> None:
        """Compute the keys of `jobs` again; equal keys keep their order."""
        for job in jobs:
            self._keys[job.ask.row] = self._key(job)
        self.ordered.sort(key=lambda job: -self._keys[job.ask.row])

    def _key(self, job: Planned) -> float:
        """GPU-seconds that the next level adds for each GPU of it; a job that has nothing comes first."""
        self._plans.pop(job.ask.row, None)
        if not self._fits(job):
            return -math.inf
        if not job.gpus:
            return math.inf
        plan = self._plans[job.ask.row] = self._raise(job)
        return (plan.gpu_s - job.plan.gpu_s) / (job.next_level - job.gpus)

    def _raise(self, job: Planned) -> SlotPlan:
        """The plan of `job` on its next level; what is free after its deadline matters if it is late only."""
        due_s = self._planner.slot_of(job.due_s)
        plan = self._planner.plan(job, changed(self._free, job.plan, 1, due_s), job.next_level)
        if plan.done_s <= job.due_s:
            return plan
        return self._planner.plan(job, changed(self._free, job.plan, 1), job.next_level)
