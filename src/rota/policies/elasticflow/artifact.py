"""The elastic modes of the ElasticFlow repository: `ef-accessctrl`, and `ef` with `refuse=no`.

From      pkusys/ElasticFlow, ElasticFlow/scheduler (04a0109), as its runs show it
Clock     `elasticflow-ef`: events closer than a slot are seen together; whoever holds GPUs stops at each
          decision, and ends at a whole slot after it
Differs   from the paper: plans climb backwards from the deadline; all who come together are refused together,
          also for a job that was late before; surplus goes to the job whose GPU time grows most by it; all
          jobs are placed anew at each decision, the largest first
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from rota.model.grants import Can, Code, Constraint, Grant
from rota.policies.elasticflow.asks import asks_of
from rota.policies.elasticflow.backward import BackwardPlanner, Planned, SlotPlan, Steps, changed
from rota.policies.elasticflow.events import EventList
from rota.policies.elasticflow.parameters import ElasticFlowParameters
from rota.scheduler.decision import Decision, Event, Memory, Wake
from rota.scheduler.snapshot import Snapshot
from rota.scheduler.stages.buddy import carry_out_whole
from rota.scheduler.stages.sizes import sizes_now

_LATER = Constraint(Code.POLICY, detail="its plan begins later, and others make more of what is free now")
_REFUSED = "its deadline, or that of another job, cannot be kept with those that came together with it"


class ElasticFlowArtifact:
    """All jobs planned anew at each moment at which it is asked, once.

    Memory    `rows`     live rows that were accepted
              with `refuse=no`  that of `EventList`
              `asked_s`, `about`, `wake_s`  the moment of the last decision, all jobs then, what it waits for
    """

    def __init__(self, parameters: ElasticFlowParameters) -> None:
        self.parameters = parameters

    def decide(self, snapshot: Snapshot, memory: Memory) -> Decision:
        about = sorted([*snapshot.waiting.tolist(), *snapshot.running.tolist()])
        if memory.get("asked_s") == snapshot.now and memory["about"] == about:
            return self._as_before(snapshot, memory)
        sizes = sizes_now(snapshot, memory, 0.0)
        asks = asks_of(snapshot, sizes, 0.0, 1.0, measured=True)
        fixed = sum(ask.held for ask in asks if not ask.bears_stops)
        planner = BackwardPlanner(sizes.gpus, snapshot.now, self.parameters.slot_s)
        jobs = [Planned.of(ask) for ask in asks if ask.bears_stops and ask.levels.gpus[1] <= sizes.gpus]
        known = set(memory.get("rows", ()))
        new = [job for job in jobs if job.ask.row not in known and not job.ask.held]
        live = [job for job in jobs if job.ask.row in known or job.ask.held]
        live, refused = self._admit(planner, live, new)
        memory["rows"] = sorted(job.ask.row for job in live)
        free = _plan(planner, live)[1]
        events = None if self.parameters.refuse else EventList(memory, snapshot.now, live)
        ordered = ArtifactSurplus(planner, live, free, events).hand_out()
        if events is None:
            change_s = min((job.plan.change_s for job in ordered), default=math.inf)
            ordered.sort(key=lambda job: -job.gpus)
        else:
            change_s = events.close(memory, ordered)
            ordered = _by_nodes(snapshot, ordered, events.began)
        shares = {job.ask.row: job.gpus for job in ordered}
        grants, preempt = _place(snapshot, ordered, shares, is_alone=not fixed)
        reasons = {row: _LATER for row, gpus in shares.items() if not gpus}
        reject = {job.ask.row: _REFUSED for job in refused}
        wake_s = min(change_s, sizes.again_s)
        about = [row for row in about if row not in reject]
        memory |= {"asked_s": snapshot.now, "about": about, "wake_s": wake_s}
        return Decision(memory, grants, preempt, reject=reject, reasons=reasons, wake=Wake(wake_s, Event.ANY))

    def _as_before(self, snapshot: Snapshot, memory: Memory) -> Decision:
        """Nothing has happened since the last decision: it stands."""
        reasons = dict.fromkeys(snapshot.waiting.tolist(), _LATER)
        return Decision(memory, reasons=reasons, wake=Wake(memory["wake_s"], Event.ANY))

    def _admit(
        self, planner: BackwardPlanner, live: list[Planned], new: list[Planned]
    ) -> tuple[list[Planned], list[Planned]]:
        """Who is planned for, and who is refused."""
        if not new or not self.parameters.refuse or _plan(planner, [*live, *new])[0]:
            return [*live, *new], []
        refused = [job for job in new if job.ask.dues and not job.ask.is_soft]
        gone = {job.ask.row for job in refused}
        return [*live, *(job for job in new if job.ask.row not in gone)], refused


def _plan(planner: BackwardPlanner, jobs: list[Planned]) -> tuple[bool, Steps]:
    """Plan `jobs` by deadline: whether all are in time, and what stays free."""
    free: Steps = [(planner.now, planner.gpus)]
    in_time = True
    jobs.sort(key=lambda job: job.due_s)
    for job in jobs:
        job.plan = planner.plan(job, free)
        job.gpus = job.plan.steps[0][1]
        in_time = in_time and job.plan.done_s <= job.due_s
        free = changed(free, job.plan, -1)
    return in_time, free


class ArtifactSurplus:
    """GPUs that are free now, level by level, to the job whose GPU time grows most for each of them."""

    def __init__(
        self, planner: BackwardPlanner, jobs: list[Planned], free: Steps, events: EventList | None = None
    ) -> None:
        """`events` is told who is raised."""
        self._planner, self._jobs, self._free, self._events = planner, jobs, free, events
        self._left = planner.gpus - sum(job.gpus for job in jobs)
        self._raised: dict[int, SlotPlan] = {}
        self._keys: dict[int, float] = {}

    def hand_out(self) -> list[Planned]:
        """The jobs, in the order in which the last step left them."""
        if not self._left:
            return self._jobs
        self._sort(self._jobs)
        while self._left > 0 and (job := next(filter(self._fits, self._jobs), None)) is not None:
            self._left -= job.next_level - job.gpus
            raised = self._raised.get(job.ask.row) or self._raise(job)
            self._free = changed(changed(self._free, job.plan, 1), raised, -1)
            job.gpus, job.plan = job.next_level, raised
            if self._events is not None:
                self._events.raised(job)
            self._sort([one for one in self._jobs if one.next_level > one.gpus])
        return self._jobs

    def _fits(self, job: Planned) -> bool:
        return 0 < job.next_level - job.gpus <= self._left

    def _sort(self, jobs: Sequence[Planned]) -> None:
        """Work out the keys of `jobs` anew; equal keys stay as they stood."""
        for job in jobs:
            self._keys[job.ask.row] = self._key(job)
        self._jobs.sort(key=lambda job: -self._keys[job.ask.row])

    def _key(self, job: Planned) -> float:
        """GPU-seconds that the next level adds for each GPU of it; who has nothing comes first."""
        self._raised.pop(job.ask.row, None)
        if not self._fits(job):
            return -math.inf
        if not job.gpus:
            return math.inf
        plan = self._raised[job.ask.row] = self._raise(job)
        return (plan.gpu_s - job.plan.gpu_s) / (job.next_level - job.gpus)

    def _raise(self, job: Planned) -> SlotPlan:
        """The plan of `job` on its next level; what is free after its deadline matters if it is late only."""
        due_s = self._planner.slot_of(job.due_s)
        plan = self._planner.plan(job, changed(self._free, job.plan, 1, due_s), job.next_level)
        if plan.done_s <= job.due_s:
            return plan
        return self._planner.plan(job, changed(self._free, job.plan, 1), job.next_level)


def _by_nodes(snapshot: Snapshot, jobs: Sequence[Planned], began: Sequence[int]) -> list[Planned]:
    """In the order in which `ef` places: whole nodes first, then the largest; of those who `began` first."""
    node_gpus = int(snapshot.cluster.node_gpus.max())
    by_row = {job.ask.row: job for job in jobs}
    after = set(by_row).difference(began)
    ordered = [by_row[row] for row in began] + [job for job in jobs if job.ask.row in after]
    return sorted(ordered, key=lambda job: -min(job.gpus, node_gpus))


def _place(
    snapshot: Snapshot, jobs: Sequence[Planned], shares: dict[int, int], *, is_alone: bool
) -> tuple[list[Grant], list[int]]:
    """From the first GPU on, one after the other; by buddies where GPUs are not all alike."""
    node_gpus = set(snapshot.cluster.node_gpus.tolist())
    is_simple = snapshot.plain and is_alone and len(node_gpus) == 1 and not snapshot.occupancy.down
    powers = all(gpus & (gpus - 1) == 0 for gpus in [*shares.values(), *node_gpus])
    rows = np.array([job.ask.row for job in jobs], dtype=np.int64)
    if not (is_simple and powers and bool((snapshot.jobs.can(rows) == int(Can.ALL)).all())):
        return carry_out_whole(snapshot, shares)
    grants, first = [], 0
    for job in jobs:
        if job.gpus:
            grant = Grant(job.ask.row, tuple(range(first, first + job.gpus)))
            first += job.gpus
            if grant != snapshot.grants.get(job.ask.row):
                grants.append(grant)
    stopped = [row for row, gpus in shares.items() if not gpus and row in snapshot.grants]
    return grants, stopped
