"""PAI: fractions of GPUs, shortest job first by history, best GPUs reserved for jobs that need them.

Paper     Weng et al., "MLaaS in the Wild: Workload Analysis and Scheduling in Large-Scale Heterogeneous GPU
          Clusters", NSDI 2022
Decides   order, placement, sharing of a GPU by fractions
Needs     nothing about the future; `estimate=known` reads durations from their provider
Idea      1. The expected duration of a job is the mean of completed jobs of its group, user and size, or
             of fewer of these criteria.  Shortest first; jobs that do not fit are passed; no preemption.
          2. A fraction lives on one device: the fullest one of the machine on which it fits.  A gang of
             fractions has as many devices.
          3. A high-GPU task tries GPU types from the strongest down, all others from the weakest up; a job
             that names types gets no other.  A gang never mixes types.
          4. Among machines of a type the one with the lowest allocation rate comes first.
Departs   The performance model behind "high-GPU" is not public: more than one GPU, or V100 by name,
          without a weaker type beside it, counts.
          The paper predicts durations by a regression tree, not by means.
          Estimates of waiting jobs move as history grows; those of the authors' simulator are fixed columns,
          which `estimate=known` follows if they are provided as durations.
          History has the time of a job's successful attempt; nothing is learnt from a job that failed under
          another policy, because that attempt was not timed.
          Fractions are placed on devices, and those of a gang on different ones (ours); the simulator pools
          those of a machine.  More than one GPU and a fraction (1.5) is rounded up.  A job is one task: its
          roles (ps, worker) are not distinguished.  Of device memory only what a job states counts.
          Service jobs have no reserve of their own and preempt no job.
Checked   systems/pai.md, worked examples 1 to 7; a naive scheduler of our own (36 random runs with gangs of
          fractions, every start equal); the authors' simulator by each of its three columns of estimates
          (`duration=user`): 5,000 of 5,000 jobs each; by truth and by submission, `sjf` and `fifo` in the
          same order: 5,000 each
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from rota.knowledge.needs import Knowledge
from rota.model.jobs import JobTable
from rota.scheduler.decision import Decision, Memory, Wake
from rota.scheduler.policy import Lever, register
from rota.scheduler.snapshot import Cursor, Snapshot
from rota.stages.order import JobOrder
from rota.stages.requests import request_kinds
from rota.stages.trial import Fronts, admit_in_order
from rota.systems.pai.machines import MachineOrder, PaiFitter, Rates, percent_of
from rota.systems.pai.queues import ExpectedOrder, Keys
from rota.systems.pai.recurrence import Recurrence
from rota.table.state import Phase

_NEVER = (0, 0.0)
_COMPLETED = int(Phase.COMPLETED)


class EstimateSource(StrEnum):
    """Basis for estimating a job's duration; the names in brackets are the authors'."""

    GROUP_GPU = "group_gpu"  # completed jobs of the group, user and size (SJGG)
    GROUP = "group"  # of the group and user (SJG)
    USER = "user"  # of the user (SJU)
    KNOWN = "known"  # it is stated (SJF with the truth)
    NONE = "none"  # none: order of submission (FIFO)


@dataclass(frozen=True)
class PaiParameters:
    """Parameters of `pai`."""

    estimate: EstimateSource = EstimateSource.GROUP_GPU
    """What the order goes by (section 5.1)."""
    machines: MachineOrder = MachineOrder.RESERVE
    """Which machines come first (section 5.2)."""


_BY_GROUP = (EstimateSource.GROUP_GPU, EstimateSource.GROUP)


@register(
    "pai",
    "Shortest job first by group history, GPU fractions, strong GPUs reserved",
    paper="Weng et al., NSDI 2022",
    needs={Knowledge.DURATION: lambda p: p.estimate is EstimateSource.KNOWN},
    levers={Lever.SHARE},
    parameters=PaiParameters,
    heeds_groups=lambda p: p.estimate in _BY_GROUP,
)
class Pai:
    """Alibaba's scheduler with predicted durations."""

    def __init__(self, parameters: PaiParameters | None = None) -> None:
        self.parameters = self.p = parameters or PaiParameters()
        self.learns = self.p.estimate in (*_BY_GROUP, EstimateSource.USER)
        self.told = JobOrder(self._key, by_kind=True)
        self.rates = Rates()
        self._cursor = Cursor()
        self._recurring: _Recurring | None = None

    def decide(self, snapshot: Snapshot, memory: Memory) -> Decision:
        order = self._learnt(snapshot, memory) if self.learns else self.told
        wake = Wake(if_waiting=True)
        if not snapshot.waiting_count:
            return Decision(memory, wake=wake)
        self.rates.sync(snapshot)
        if not self.learns:
            self.told.sync(snapshot)
        fit = PaiFitter(snapshot, self.p.machines, self.rates)
        return Decision(memory, admit_in_order(order, snapshot, fit), reservations=(), wake=wake)

    def _key(self, snapshot: Snapshot, row: int) -> float:
        """Expected duration in seconds, if it is not learnt."""
        if self.p.estimate is EstimateSource.NONE:
            return 0.0
        return float(snapshot.know(Knowledge.DURATION)[row])

    def _learnt(self, snapshot: Snapshot, memory: Memory) -> Fronts:
        """The waiting jobs by the present history.

        This is a cache: the snapshot shows every job that has ended, and the memory how long the failed
        attempts took.
        """
        changed: Sequence[int] | None = snapshot.changes(self._cursor)
        recurring = self._recurring
        if changed is None or recurring is None:
            recurring = _Recurring(snapshot, self.p.estimate, Recurrence())
            changed = range(len(snapshot.jobs))
        elif recurring.jobs is not snapshot.jobs.table:
            recurring = _Recurring(snapshot, self.p.estimate, recurring.order.history)
            changed = [*changed, *snapshot.waiting.tolist()]
        self._recurring = recurring
        recurring.follow(snapshot, changed, memory.setdefault("failed", {}))
        return recurring.order.walk()


class _Recurring:
    """The waiting jobs of one table by the past of their groups."""

    def __init__(self, snapshot: Snapshot, estimate: EstimateSource, history: Recurrence) -> None:
        self.jobs: JobTable = snapshot.jobs.table
        self.estimate = estimate
        self.order = ExpectedOrder(history)
        self._kinds: list[int] = request_kinds(self.jobs, snapshot.cluster).tolist()

    def follow(self, snapshot: Snapshot, changed: Iterable[int], failed: dict[int, list[float]]) -> None:
        """Take in what has become of the rows `changed`.

        `failed` has how often each job was seen to fail, and the seconds that those attempts took; it is
        brought up to date.
        """
        by_row, waiting, ended = snapshot.by_row, [], []
        for row in changed:
            phase, failures = by_row.phase.item(row), by_row.failures.item(row)
            if snapshot.waits(row):
                waiting.append(row)
                if failures and failed.get(row, _NEVER)[0] < failures:
                    failed[row] = [failures, by_row.run_s.item(row)]
                continue
            self.order.drop(row)
            if phase == _COMPLETED and failures == failed.get(row, _NEVER)[0]:
                ended.append(row)
        for row in ended:
            seconds = by_row.run_s.item(row) - failed.get(row, _NEVER)[1]
            self.order.learn(self._keys(row), seconds)
        for row in waiting:
            self.order.add(row, self._keys(row), self._kinds[row])

    def _keys(self, row: int) -> Keys:
        """Keys that `row` shares with other jobs, most specific first."""
        user, group = self.jobs.tenant.item(row), self.jobs.group.item(row)
        keys: list[Hashable] = [user]
        if self.estimate is not EstimateSource.USER and group >= 0:
            keys.insert(0, (user, group))
            if self.estimate is EstimateSource.GROUP_GPU:
                percent = percent_of(self.jobs.gpus.item(row) * self.jobs.gpu_share.item(row))
                keys.insert(0, (user, group, percent))
        return tuple(keys)
