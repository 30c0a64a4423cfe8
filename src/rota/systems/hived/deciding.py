"""One decision: the order in which jobs are served, and what happens to jobs in the way."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from heapq import heapify, heappop, heappush

from rota.model.grants import Code, Constraint, Grant
from rota.model.promises import Offer, Promise
from rota.model.tenants import Tenants
from rota.scheduler.decision import Decision, Memory
from rota.scheduler.snapshot import Snapshot
from rota.stages.trial import admit_placed
from rota.systems.hived.adopting import adopt
from rota.systems.hived.cells import Gang, Physical
from rota.systems.hived.clusters import NOT_BOUND, GangPlan, VirtualClusters, VirtualPods
from rota.systems.hived.gang_requests import Requests, Shape
from rota.systems.hived.lines import LineReasons, Lines, LineTurns, Rank
from rota.systems.hived.runners import Runners

Standing = dict[int, list[int]]
"""By running row: numbers of its virtual GPUs, in the order of its devices; none without a guarantee."""


_USED_UP = "the cores and the memory of the nodes where it has cells, or a quota, are used up"


class Deciding:
    """The grants, and the jobs that have to leave, while one decision is made."""

    def __init__(
        self,
        snapshot: Snapshot,
        clusters: VirtualClusters,
        requests: Requests,
        standing: Standing,
        runners: Runners | None = None,
    ) -> None:
        """With `runners` running jobs are on `clusters` already; else they are as remembered, or can be."""
        self.snapshot, self.clusters, self.requests = snapshot, clusters, requests
        self.gang_of: dict[int, Gang] = {} if runners is None else runners.gang_of
        self.row_of: dict[Gang, int] = {} if runners is None else runners.row_of
        self.strangers: dict[int, list[int]] = {}
        """Rows by device that they share with a gang: another policy had put them there."""
        self.granted: dict[int, Grant] = {}
        self.preempted: dict[int, None] = {}
        self.demoted: set[int] = set()
        """Rows that continue without a guarantee, since others want their cells (lazy preemption)."""
        self.reject: dict[int, str] = {}
        self.cancel: dict[int, str] = {}
        self.offers: dict[int, Offer] = {}
        self.promises: dict[int, Promise] = {}
        self.reasons: dict[int, Constraint] = {}
        """Why single rows wait, apart from guaranteed ones."""
        self._lines: Lines = {}
        """Rows with a guarantee that have failed, and why by line."""
        self._failed: dict[Shape, Constraint] = {}
        if runners is None:
            self._adopt(standing)
        self.clusters.spoil(self._leaves(sorted(snapshot.occupancy.down)))
        self.scratch = snapshot.scratch()
        low = self._without_cells(self.gang_of if runners is None else runners.low)
        self._low = dict.fromkeys(sorted(low, key=lambda row: self._rank(row, standing)))
        self._kept: set[int] = set()
        """Rows of the opportunists that stay where they are."""
        for row in self._low:
            self.scratch.release(snapshot.grants[row])

    def _leaves(self, devices: Iterable[int]) -> list[Physical]:
        return [self.clusters.leaf_of[device] for device in devices if device in self.clusters.leaf_of]

    def _adopt(self, standing: Standing) -> None:
        """Place running jobs on the cells that they have: the remembered ones first, then by priority."""
        grants = self.snapshot.grants
        rows = [row for row, grant in grants.items() if grant.devices]
        for row in sorted(rows, key=lambda row: self._rank(row, standing)):
            gpus = self._leaves(grants[row].devices)
            if len(gpus) < len(grants[row].devices) or any(leaf.gang is not None for leaf in gpus):
                for device in grants[row].devices:
                    self.strangers.setdefault(device, []).append(row)
                continue
            gang = self.requests.running(row)
            adopt(self.clusters, gang, gpus, standing.get(row))
            self._enter(row, gang)

    def _rank(self, row: int, standing: Standing) -> tuple[bool, int, int]:
        return row not in standing, -self.requests.jobs.priority.item(row), row

    def _enter(self, row: int, gang: Gang) -> None:
        self.row_of[gang], self.gang_of[row] = row, gang

    # -- serving -----------------------------------------------------------------------------------

    def guaranteed(self, lines: Lines) -> None:
        """Serve `lines` by priority, then submission; a job that does not fit blocks no other."""
        priority = self.requests.jobs.priority
        self._lines = lines
        self._failed = self._rounds(lines, lambda row: (-priority.item(row), row))

    def opportunists(self, rows: Iterable[int]) -> None:
        """Serve `rows` from idle GPUs, tenants with the fewest idle GPUs for their weight first."""
        rows = {*rows, *(row for row in self.preempted if row in self._low)}
        if not rows:
            return
        jobs, tenants = self.requests.jobs, self.snapshot.cluster.tenants
        holds: dict[str, float] = {}
        for row in self._without_cells({*self._low, *self.demoted, *self.granted}):
            tenant = jobs.name_of("tenant", row)
            holds[tenant] = holds.get(tenant, 0.0) + self.gang_of[row].gpus
        queues: dict[str, list[int]] = {}
        for row in sorted(rows, key=lambda row: (jobs.priority.item(row), -row)):
            queues.setdefault(jobs.name_of("tenant", row), []).append(row)
        lines: Lines = {}
        turns: dict[int, int] = {}
        for turn, row in enumerate(_in_turns(queues, holds, self.snapshot.gpus_of, tenants)):
            turns[row] = turn
            lines.setdefault(self.requests.shape(row), []).append(row)
        failed = self._rounds(lines, turns.__getitem__)
        self.reasons.update((row, failed[shape]) for shape, line in lines.items() for row in line)

    def _without_cells(self, rows: Iterable[int]) -> list[int]:
        """The jobs of `rows` that run without a guarantee."""
        return [row for row in rows if row in self.gang_of and not self.gang_of[row].virtual]

    def _rounds(self, lines: Lines, rank: Rank) -> dict[Shape, Constraint]:
        """Try lines in order until no more jobs start; returns why the jobs left in `lines` wait."""
        while True:
            turns, started = LineTurns(lines, rank), False
            while (tried := turns.next()) is not None:
                row, shape = tried
                why = self._start(row, turns)
                started = started or why is None
                if why is None or row in self.reject:
                    turns.leave(shape)
                else:
                    turns.failed[shape] = self._beside_the_problem(why)
            if not started or not lines:
                return turns.failed

    def _start(self, row: int, turns: LineTurns) -> Constraint | None:
        """Start `row` where it fits; None, or why it has to wait."""
        gangs = self._gangs(row)
        if not gangs and self.requests.has_run(row):
            self.requests.homeless.add(row)
            gangs = self._gangs(row)
        if not gangs:
            self.reject[row] = self.never(row)
            return Constraint(Code.POLICY, detail=self.reject[row])
        why = ""
        for gang in gangs:
            plan = self.clusters.plan(gang, self.requests.suggested(self.scratch, row, gang))
            if isinstance(plan, str):
                why = why or plan
                continue
            plan.gang = gang.like(self.requests.jobs.ids[row])
            if self._carry_out(row, plan):
                for victim in plan.victims:
                    lost = self.row_of.pop(victim)
                    if self.requests.is_guaranteed(lost) and lost not in self._low:
                        turns.join(lost, self.requests.shape(lost))
                return None
            else:
                why = _USED_UP
        return Constraint(Code.POLICY, detail=why)

    def _gangs(self, row: int) -> list[Gang]:
        """`row` in each form in which its virtual cluster could hold it: patterns for like requests."""
        known, key = self.requests.asked.gangs, (self.requests.shape(row), self.requests.is_guaranteed(row))
        if key not in known:
            gangs = self.requests.gangs(row, self.clusters)
            known[key] = [gang for gang in gangs if gang.priority < 0 or self.clusters.could_hold(gang)]
        return known[key]

    def could_hold(self, row: int) -> bool:
        """Whether the cells of its tenant could hold `row` if no other job were there."""
        return bool(self._gangs(row))

    def _carry_out(self, row: int, plan: GangPlan) -> bool:
        """Start `plan`, unless cores, memory or a quota forbid it."""
        lost = [self.row_of[victim] for victim in plan.victims]
        held = [self._held(other) for other in lost if self._counts(other)]
        for grant in held:
            self.scratch.release(grant)
        plan.gang.physical = plan.physical
        grant = self.requests.grant(row, plan.gang)
        plan.gang.physical = []
        if not self.requests.fit.admits(self.scratch, grant):
            for before in held:
                self.scratch.hold(before)
            return False
        self.clusters.start(plan)
        self.demoted.update(self.row_of[gang] for gang in plan.demoted)
        for other in lost:
            self._stop(other)
        for device in grant.devices:
            for other in self.strangers.pop(device, []):
                if other not in self.preempted:
                    self.preempted[other] = None
                    self.scratch.release(self.snapshot.grants[other])
        self.scratch.hold(grant)
        self.granted[row] = grant
        self.preempted.pop(row, None)
        self._enter(row, plan.gang)
        return True

    def _beside_the_problem(self, why: Constraint) -> Constraint:
        problem = self.requests.layout.problem
        if not problem:
            return why
        return Constraint(Code.POLICY, detail=f"{why.detail}; nobody has a guarantee: {problem}")

    def put(self, row: int, gang: Gang, virtual: VirtualPods) -> None:
        """Start `row` on virtual GPUs chosen by another step; it waits if nothing can serve them."""
        free = all(leaf.gang is None for pod in virtual for leaf in pod)
        plan = (
            self.clusters.bound(gang, virtual, self.requests.suggested(self.scratch, row, gang))
            if free
            else None
        )
        if plan is None:
            self.reasons[row] = Constraint(Code.POLICY, detail=NOT_BOUND)
        elif not self._carry_out(row, plan):
            self.reasons[row] = Constraint(Code.POLICY, detail=_USED_UP)

    def stop(self, row: int) -> None:
        """Take the GPUs of `row`."""
        gang = self.gang_of[row]
        if self._counts(row):
            self.scratch.release(self._held(row))
        self.clusters.stop(gang)
        del self.row_of[gang]
        self._stop(row)

    def _counts(self, row: int) -> bool:
        """Whether what `row` holds is taken in `scratch`: of those without a guarantee only if they stay."""
        return row not in self._low or row in self.granted or row in self._kept

    def _held(self, row: int) -> Grant:
        return self.granted[row] if row in self.granted else self.snapshot.grants[row]

    def _stop(self, row: int) -> None:
        """Note that `row` has lost its cells: its new and its earlier grant are void."""
        del self.gang_of[row]
        self._kept.discard(row)
        self.granted.pop(row, None)
        if row in self.snapshot.grants:
            self.preempted[row] = None

    def never(self, row: int) -> str:
        """Why `row` can never run."""
        vc, gpus = self.requests.vc_of(row), self.requests.jobs.gpus.item(row)
        nobody = "no kind of node has" if vc == "*" else f"tenant {vc} has no"
        why = f"asks for {gpus} GPUs; {nobody} cells that could ever hold them together"
        if not self.requests.is_guaranteed(row) or gpus > self.snapshot.cluster.gpus:
            return why
        fixed = [cell.at for cell in self.requests.layout.owned if cell.tenant == vc and cell.at]
        if fixed and not self.requests.jobs.name_of("node_set", row):
            why += f" (its fixed cells are for jobs that name their nodes: {', '.join(sorted(fixed))})"
        return f"{why}; of kind opportunistic it would run on GPUs that their owners do not use"

    # -- the others --------------------------------------------------------------------------------

    def keep_opportunists(self) -> None:
        """Keep jobs without a guarantee running as far as cores, memory and quotas are left to them."""
        for row in self._low:
            grant = self.snapshot.grants[row]
            if row not in self.gang_of or row in self.granted:
                continue
            if self.requests.fit.admits(self.scratch, grant):
                self.scratch.hold(grant)
                self._kept.add(row)
            else:
                self.stop(row)

    def decision(self, memory: Memory, idle: list[int]) -> Decision:
        """The whole decision; `idle` are waiting jobs without GPUs."""
        grants = [grant for row, grant in self.granted.items() if self.snapshot.grants.get(row) != grant]
        grants += admit_placed(idle, self.scratch, self.requests.fit)
        preempt = [row for row in self.preempted if row not in self.granted]
        preempt = [row for row in preempt if row not in self.cancel]
        gone = {*preempt, *self.granted, *self.reject, *self.offers, *self.cancel}
        reasons = LineReasons(self.requests.asked, self._lines, self._failed, self.reasons, gone)
        return Decision(
            memory,
            grants,
            preempt,
            reject=self.reject,
            cancel=self.cancel,
            reasons=reasons,
            offers=self.offers,
            promises=self.promises,
            guaranteed=self._guaranteed(),
        )

    def _guaranteed(self) -> frozenset[int] | None:
        """Jobs that run on cells of their tenant; None where no tenant has any."""
        layout = self.requests.layout
        if not layout.owned and not layout.problem:
            return None
        low = self._without_cells({*self._low, *self.demoted, *self.granted})
        return frozenset(self.gang_of.keys() - low)

    def touched(self) -> set[int]:
        """Rows that the decision concerns."""
        return {*self.granted, *self.preempted, *self.demoted, *self.cancel, *self.reject, *self.offers}

    @property
    def is_plain(self) -> bool:
        """True if every running job is alone on healthy cells of its tenant, or is an opportunist."""
        return not (self.strangers or self.requests.homeless or self.snapshot.occupancy.down)


def _in_turns(
    queues: dict[str, list[int]], holds: dict[str, float], gpus_of: Sequence[int], tenants: Tenants
) -> Iterator[int]:
    """Rows, each the next of the tenant that holds least for its weight once those before it run."""
    heap = [(holds.get(name, 0.0) / tenants.get(name).weight, name) for name in queues]
    heapify(heap)
    while heap:
        held, name = heappop(heap)
        row = queues[name].pop()
        yield row
        if queues[name]:
            heappush(heap, (held + gpus_of[row] / tenants.get(name).weight, name))
