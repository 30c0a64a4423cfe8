"""PAI: fractions of GPUs, shortest job first by history, best GPUs reserved for those who need them.

Paper     Weng et al., "MLaaS in the Wild: Workload Analysis and Scheduling in Large-Scale Heterogeneous GPU
          Clusters", NSDI 2022
Decides   order, placement, sharing of a GPU by fractions
Needs     nothing about the future; `estimate=known` reads durations from whoever provides them
Idea      1. The expected duration of a job is the mean of completed jobs of its group, user and size; of
             fewer of these where there are none.  Shortest first, misfits passed by, nobody preempted.
          2. A fraction lives on one device: the fullest one of the machine on which it fits.
          3. A high-GPU task tries GPU types from the strongest down, all others from the weakest up; a job
             that names types gets no other.  A gang never mixes types.
          4. Among machines of a type the one with the lowest allocation rate comes first.
Departs   The performance model behind "high-GPU" is not public: more than one GPU, or V100 by name, counts.
          Estimates of waiting jobs move as history grows; those of the authors' simulator are fixed columns.
          Fractions are placed on devices; the simulator pools those of a machine.
Checked   systems/pai.md, worked examples 1 to 6; the order of `estimate=known` and of `fifo` is that of `sjf`
          and `fifo`, which equal the authors' simulator for 5,000 of 5,000 jobs each
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from rota.knowledge.needs import Knowledge
from rota.model.grants import Grant, Role
from rota.policies.pai.recurrence import Recurrence
from rota.scheduler.decision import Decision, Memory, Wake
from rota.scheduler.policy import Lever, register
from rota.scheduler.snapshot import Cursor, Snapshot
from rota.scheduler.stages.fit import Fitter, host_room
from rota.scheduler.stages.order import JobOrder
from rota.scheduler.stages.place import consolidate
from rota.scheduler.stages.trial import admit_in_order
from rota.table.free import nodes_in
from rota.table.occupancy import EPSILON, Occupancy
from rota.table.state import Phase

POWER = ("MISC", "T4", "P100", "V100", "V100M32")
"""GPU types from the weakest to the strongest; others count as weaker, in the order of the cluster."""
STRONG = frozenset({"V100", "V100M32"})

_COMPLETED = int(Phase.COMPLETED)


class EstimateSource(StrEnum):
    """What a job's duration is estimated from; the names in brackets are the authors'."""

    GROUP_GPU = "group_gpu"  # completed jobs of the group, user and size (SJGG)
    GROUP = "group"  # of the group and user (SJG)
    USER = "user"  # of the user (SJU)
    KNOWN = "known"  # somebody says it (SJF with the truth)
    NONE = "none"  # none: order of submission (FIFO)


class Machines(StrEnum):
    """Which machines a job tries first."""

    RESERVE = "reserve"  # by GPU type as its need is, then the least allocated
    BALANCE = "balance"  # the least allocated, whatever its type
    PACK = "pack"  # in the order of the cluster: weak machines first if it lists them so


@dataclass(frozen=True)
class PaiParameters:
    """Parameters of `pai`."""

    estimate: EstimateSource = EstimateSource.GROUP_GPU
    """What the order goes by (section 5.1)."""
    machines: Machines = Machines.RESERVE
    """Which machines come first (section 5.2)."""


@register(
    "pai",
    "Shortest job first by group history, GPU fractions, strong GPUs reserved",
    paper="Weng et al., NSDI 2022",
    needs={Knowledge.DURATION: lambda p: p.estimate is EstimateSource.KNOWN},
    levers={Lever.SHARE},
    parameters=PaiParameters,
)
class Pai:
    """Alibaba's scheduler with predicted durations."""

    def __init__(self, parameters: PaiParameters | None = None) -> None:
        self.parameters = self.p = parameters or PaiParameters()
        self.learns = self.p.estimate in (EstimateSource.GROUP_GPU, EstimateSource.GROUP, EstimateSource.USER)
        self.history = Recurrence()
        self.order = JobOrder(self._key, by_kind=True)
        self._cursor = Cursor()

    def decide(self, snapshot: Snapshot, memory: Memory) -> Decision:
        if self.learns:
            self._learn(snapshot)
        if not snapshot.waiting_count:
            return Decision(memory, wake=Wake(if_waiting=True))
        self.order.sync(snapshot)
        fit = PaiFitter(snapshot, self.p.machines)
        return Decision(
            memory,
            admit_in_order(self.order, fit.scratch(snapshot), fit),
            reservations=(),
            wake=Wake(if_waiting=True),
        )

    def _key(self, snapshot: Snapshot, row: int) -> float:
        """Expected duration in seconds."""
        if self.p.estimate is EstimateSource.NONE:
            return 0.0
        if self.p.estimate is EstimateSource.KNOWN:
            return float(snapshot.know(Knowledge.DURATION)[row])
        return self.history.estimate(self._keys(snapshot, row))

    def _keys(self, snapshot: Snapshot, row: int) -> list[Hashable]:
        """What `row` has in common with other jobs, most specific first."""
        jobs = snapshot.jobs.table
        user, group = jobs.tenant.item(row), jobs.group.item(row)
        keys: list[Hashable] = [user]
        if self.p.estimate is not EstimateSource.USER and group >= 0:
            keys.insert(0, (user, group))
            if self.p.estimate is EstimateSource.GROUP_GPU:
                percent = round(100 * jobs.gpus.item(row) * jobs.gpu_share.item(row))
                keys.insert(0, (user, group, percent))
        return keys

    def _learn(self, snapshot: Snapshot) -> None:
        """Take in the jobs that have completed since; all of them if the history is of another run.

        The history is a cache: the snapshot shows every job that has ended.
        """
        changed, by_row = snapshot.changes(self._cursor), snapshot.by_row
        if changed is None:
            self.history = Recurrence()
            changed = range(len(snapshot.jobs))
        ended = [row for row in changed if by_row.phase.item(row) == _COMPLETED]
        for row in ended:
            self.history.add(self._keys(snapshot, row), by_row.run_s.item(row))
        if ended:
            self._move(snapshot, {snapshot.jobs.table.tenant.item(row) for row in ended})

    def _move(self, snapshot: Snapshot, users: set[int]) -> None:
        """Jobs of `users`, and of users without a past, have new estimates."""
        tenant = snapshot.jobs.table.tenant
        for row in snapshot.waiting.tolist():
            user = tenant.item(row)
            if user in users or not self.history.knows([user]):
                self.order.move(snapshot, row)


class PaiFitter(Fitter):
    """Places one job: types by power, machines by allocation rate, a fraction on the fullest device."""

    def __init__(self, snapshot: Snapshot, machines: Machines) -> None:
        super().__init__(snapshot, consolidate)
        self.machines = machines
        names = self.cluster.type_names
        self._by_power = sorted(range(len(names)), key=lambda code: (_power(names[code]), code))

    def _fit(self, scratch: Occupancy, row: int) -> Grant | None:
        if not self.jobs.gpus.item(row):
            return super()._fit(scratch, row)
        for nodes in self._attempts(scratch, row):
            grant = self._on(scratch, row, nodes)
            if grant is not None:
                return grant
        return None

    def _attempts(self, scratch: Occupancy, row: int) -> Iterator[list[int]]:
        """Machines to try, in order, one attempt after another; none of them mixes types."""
        by_type = self.nodes_for(scratch, row)
        if self.machines is Machines.RESERVE:
            codes = self._by_power[::-1] if self._is_high(row) else self._by_power
        else:
            codes = list(range(len(by_type)))
        attempts = [nodes_in(by_type[code]) for code in codes]
        if self.machines is Machines.PACK:
            return iter(attempts)
        ordered = [sorted(nodes, key=lambda node: (rate(scratch, node), node)) for nodes in attempts]
        if self.machines is Machines.BALANCE:
            ordered.sort(key=lambda nodes: rate(scratch, nodes[0]) if nodes else 1.0)
        return iter(ordered)

    def _is_high(self, row: int) -> bool:
        """True if the job needs strong GPUs: several of them, or V100 by name."""
        mask = self.jobs.gpu_types.item(row)
        named = self.jobs.types_in(mask)
        return self.jobs.gpus.item(row) > 1 or (bool(named) and named <= STRONG)

    def _on(self, scratch: Occupancy, row: int, nodes: list[int]) -> Grant | None:
        gpus, share = self.jobs.gpus.item(row), self.jobs.gpu_share.item(row)
        if share < 1.0 and gpus == 1:
            device = next((d for node in nodes if (d := self._fullest(scratch, row, node)) >= 0), -1)
            return Grant(row, (device,), share, Role.PACKED) if device >= 0 else None
        taken: tuple[int, ...] = ()
        for node in nodes:
            if len(taken) == gpus:
                break
            count = min(gpus - len(taken), scratch.free.count[node])
            while count and not host_room(scratch, node, count / gpus, row):
                count -= 1
            taken += scratch.free.take(node, count)
        scratch.free.put_all(taken)
        return Grant(row, tuple(sorted(taken))) if len(taken) == gpus else None

    def _fullest(self, scratch: Occupancy, row: int, node: int) -> int:
        """The fullest device of `node` on which the fraction fits, lowest id first; -1 if none."""
        share, need = self.jobs.gpu_share.item(row), self.jobs.gpu_memory_gib.item(row)
        if not host_room(scratch, node, 1.0, row):
            return -1
        first, last = scratch.free.first[node], scratch.free.first[node + 1]
        fits = [
            (-scratch.claimed[device], device)
            for device in range(first, last)
            if (device in scratch.spare and scratch.spare[device] >= share - EPSILON)
            or scratch.free.is_free(device)
        ]
        return next((device for _, device in sorted(fits) if self._has_memory(scratch, device, need)), -1)


def rate(scratch: Occupancy, node: int) -> float:
    """Allocation rate of a machine: mean of the shares of its CPUs and of its GPUs that are granted."""
    first, last = scratch.free.first[node], scratch.free.first[node + 1]
    gpus = sum(scratch.claimed[first:last]) / (last - first) if last > first else 0.0
    cpus = scratch.cluster.node_cpus.item(node)
    return (gpus + scratch.cpus_used[node] / cpus) / 2 if cpus else gpus


def _power(name: str) -> int:
    return POWER.index(name) if name in POWER else -1
