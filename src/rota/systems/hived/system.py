"""HiveD — tenants own cells of the cluster, not numbers of GPUs, and can always have them.

Paper     Zhao et al., "HiveD: Sharing a GPU Cluster for Deep Learning with Guarantees", OSDI 2020
Decides   order within a tenant, preemption, placement
Needs     nothing about jobs; the tenants' cells
Idea      1. A tenant owns cells (GPU, socket, node, rack, ...): its virtual cluster.  Jobs that fit a
             private cluster of these cells fit here.
          2. Its jobs are packed on the virtual cells, as close together as possible; a virtual cell is bound
             to a physical one when the first of its GPUs is used, and unbound with the last.
          3. Physical cells are split and merged as buddies: the smallest free cell that is large enough.
             So every tenant can always have the cells that it owns.
          4. Jobs without a guarantee run on idle GPUs, away from the others, and leave when asked.
          5. Bad hardware is avoided; larger cells are split for it only if no promise needs them whole.
Departs   Equal cells are taken by number; the published order of lists, which depends on the past, is used
          for the scenarios alone.  Victims stop and their successor starts in one decision, so that nothing
          is reserved.  Tenants without cells run opportunistically; if no tenant has cells, all tenants
          share all of them.  Opportunistic jobs are served by weighted max-min of idle GPUs (paper); if
          stopped they move where there is room.  A job that its tenant's cells could never hold is refused;
          the published code lets it wait.  A job that asks for parts of GPUs gets whole GPUs to itself.
Checked   systems/hived.md, worked examples; the published scenarios; on random sequences, that jobs which
          fit a private cluster of the tenant's cells fit here
"""

from __future__ import annotations

from rota.knowledge.needs import Knowledge
from rota.model.cluster import Cluster
from rota.model.grants import Code, Constraint
from rota.model.tenants import Between
from rota.scheduler.decision import Decision, Memory, Wake
from rota.scheduler.policy import Lever, Policy, parse_inner, register
from rota.scheduler.snapshot import Snapshot
from rota.systems.hived.deciding import Deciding
from rota.systems.hived.gang_requests import AskedOnce, Requests
from rota.systems.hived.inner import Inner
from rota.systems.hived.keeping import KeptCells
from rota.systems.hived.layout import Layout
from rota.systems.hived.lines import WaitingLines
from rota.systems.hived.parameters import HivedParameters
from rota.systems.hived.runners import Runners

_TURN = Constraint(Code.POLICY, detail="waits for its turn on the cells of its tenant")


def _needs(p: HivedParameters, kind: Knowledge) -> bool:
    inner = p.inner()
    return inner is not None and kind in inner.needs


@register(
    "hived",
    "Guarantees in cells of the topology, kept safe by buddy allocation",
    paper="HiveD, OSDI 2020",
    needs={kind: lambda p, kind=kind: _needs(p, kind) for kind in Knowledge},
    levers={Lever.PREEMPT, Lever.MIGRATE, Lever.REJECT},
    parameters=HivedParameters,
    heeds_priority=lambda p: not p.policy or parse_inner(p.policy).heeds_priority,
    heeds_deadlines=lambda p: bool(p.policy) and parse_inner(p.policy).heeds_deadlines,
    heeds_kind=True,
    heeds_weight=lambda p: bool(p.policy) and parse_inner(p.policy).heeds_weight,
    promises=lambda p: bool(p.policy) and parse_inner(p.policy).promises,
    between=Between.CELLS,
)
class Hived:
    """Virtual clusters of cells.

    Memory    `inner`      by virtual cluster: what the policy inside of it remembers, when it is to be asked
              `standing`   by running row: numbers of its virtual GPUs in the order of its devices; none for
                           jobs that run without a guarantee
              `cells`      which tenant owned which cells when that was noted
    """

    def __init__(self, parameters: HivedParameters | None = None) -> None:
        self.parameters = parameters or HivedParameters()
        self._cluster: Cluster | None = None
        self._layout: Layout | None = None
        self._kept: KeptCells | None = None
        self._asked: AskedOnce | None = None
        self._lines: WaitingLines | None = None
        self._inner = Inner(self._make) if self.parameters.policy else None

    def _make(self) -> Policy:
        inner = self.parameters.inner()
        assert inner is not None
        return inner

    def decide(self, snapshot: Snapshot, memory: Memory) -> Decision:
        layout = self._layout_of(snapshot.cluster)
        requests = Requests(snapshot, layout, lazy=self.parameters.lazy, asked=self._asked)
        self._asked = requests.asked
        deciding = self._deciding(snapshot, layout, requests, memory)
        lines = self._lines_of(snapshot, requests)
        requests.homeless.update(row for row in lines.again if not self._could_hold(deciding, row))
        wake = Wake()
        if self._inner is None:
            deciding.guaranteed(lines.copied(without=requests.homeless))
        else:
            rows = [row for row in lines.with_guarantee() if row not in requests.homeless]
            inner = [row for row in rows if self._inner.serves(deciding, row)]
            deciding.guaranteed(lines.copied(without={*inner, *requests.homeless}))
            wake = self._inner.decide(deciding, inner, memory)
        deciding.keep_opportunists()
        deciding.opportunists([*lines.low, *filter(snapshot.waits, requests.homeless)])
        decision = deciding.decision(memory, lines.idle.copy())
        self._note(deciding, memory)
        decision.wake = wake
        decision.otherwise = _TURN if self.parameters.policy else None
        if self._inner is not None:
            self._inner.tell(decision)
        return decision

    def _could_hold(self, deciding: Deciding, row: int) -> bool:
        """Whether the cells of its tenant could hold `row` if no other job were there."""
        inner = self._inner
        served = inner is not None and inner.serves(deciding, row) and deciding.requests.is_guaranteed(row)
        return inner.could_hold(deciding, row) if inner and served else deciding.could_hold(row)

    def _lines_of(self, snapshot: Snapshot, requests: Requests) -> WaitingLines:
        if self._lines is None or self._lines.asked is not requests.asked:
            self._lines = WaitingLines(requests.asked)
        self._lines.bring_up(snapshot, requests)
        return self._lines

    def _deciding(self, snapshot: Snapshot, layout: Layout, requests: Requests, memory: Memory) -> Deciding:
        """The running jobs on their cells: as they were left, or else as is remembered."""
        remembered, kept = self._remembered(memory, layout), self._kept
        if kept is not None and not snapshot.occupancy.down and kept.is_brought_up(snapshot, remembered):
            return Deciding(snapshot, kept.clusters, requests, {}, kept.runners)  # all of them are remembered
        self._kept = None
        standing = {int(row): numbers for row, numbers in remembered.items()}
        return Deciding(snapshot, layout.clusters(), requests, standing)

    def _note(self, deciding: Deciding, memory: Memory) -> None:
        """Remember each job's cells, and keep the cells if the next decision may go on with them."""
        snapshot, kept, touched = deciding.snapshot, self._kept, deciding.touched()
        if kept is None:
            runners = Runners(deciding.gang_of, deciding.row_of)
            kept, touched = (
                KeptCells(deciding.clusters, runners, snapshot.jobs.table),
                touched.union(runners.gang_of),
            )
        kept.note(snapshot, touched)
        memory["standing"] = kept.standing
        self._kept = kept if deciding.is_plain else None

    def _remembered(self, memory: Memory, layout: Layout) -> dict[str, list[int]]:
        """Each job's cells; empty once the cells have moved, so that they are recomputed."""
        before = memory.get("cells", layout.signature)
        memory["cells"] = layout.signature
        return memory.get("standing", {}) if before == layout.signature else {}

    def _layout_of(self, cluster: Cluster) -> Layout:
        if self._layout is None or self._cluster is not cluster:
            self._cluster, self._layout, self._kept = cluster, Layout(cluster), None
        return self._layout
