"""HiveD — tenants own cells of the cluster, not numbers of GPUs, and can always have them.

Paper     Zhao et al., "HiveD: Sharing a GPU Cluster for Deep Learning with Guarantees", OSDI 2020
Decides   order within a tenant, preemption, placement
Needs     nothing about jobs; the tenants' cells
Idea      1. A tenant owns cells (GPU, socket, node, rack, ...): its virtual cluster.  What fits a private
             cluster of these cells fits here.
          2. Its jobs are packed on the virtual cells, as close together as possible; a virtual cell is bound
             to a physical one when the first of its GPUs is used, and unbound with the last.
          3. Physical cells are split and merged as buddies are: the smallest free one that is large enough.
             So what any tenant owns can always be had.
          4. Whoever has no guarantee runs on idle GPUs, away from the others, and leaves when asked.
          5. Bad hardware is gone around; larger cells are split for it only if no promise needs them whole.
Departs   Equal cells are taken by number; the published order of lists, which depends on the past, is used
          for the scenarios alone.  Victims stop and their heir starts in one decision, so that nothing is
          reserved.  Tenants without cells run opportunistically; if no tenant has cells, everybody shares all
          of them.  Opportunists are served by weighted max-min of idle GPUs (paper); if stopped they move
          where there is room.  A job that its tenant's cells could never hold is refused; the published code
          lets it wait.  A job that asks for parts of GPUs gets them to itself.
Checked   systems/hived.md, worked examples; the published scenarios; on random sequences, that what fits a
          private cluster of the tenant's cells fits here
"""

from __future__ import annotations

from rota.model.cluster import Cluster
from rota.policies.hived.deciding import Deciding
from rota.policies.hived.gang_requests import Requests
from rota.policies.hived.layout import Layout
from rota.policies.hived.parameters import HivedParameters
from rota.scheduler.decision import Decision, Memory
from rota.scheduler.policy import Lever, register
from rota.scheduler.snapshot import Snapshot


@register(
    "hived",
    "Guarantees in cells of the topology, kept safe by buddy allocation",
    paper="HiveD, OSDI 2020",
    levers={Lever.PREEMPT, Lever.MIGRATE, Lever.REJECT},
    parameters=HivedParameters,
    heeds_priority=True,
)
class Hived:
    """Virtual clusters of cells.

    Memory    `standing`   by running row: numbers of its virtual GPUs in the order of its devices; none for
                           who runs without a guarantee
    """

    def __init__(self, parameters: HivedParameters | None = None) -> None:
        self.parameters = parameters or HivedParameters()
        self._cluster: Cluster | None = None
        self._layout: Layout | None = None

    def decide(self, snapshot: Snapshot, memory: Memory) -> Decision:
        layout = self._layout_of(snapshot.cluster)
        requests = Requests(snapshot, layout, lazy=self.parameters.lazy)
        standing = {int(row): numbers for row, numbers in memory.get("standing", {}).items()}
        deciding = Deciding(snapshot, layout.clusters(), requests, standing)
        waiting = snapshot.waiting.tolist()
        gpus_of = snapshot.gpus_of
        deciding.guaranteed(row for row in waiting if gpus_of[row] and requests.is_guaranteed(row))
        deciding.keep_opportunists()
        deciding.opportunists(row for row in waiting if gpus_of[row] and not requests.is_guaranteed(row))
        return deciding.decision(memory, [row for row in waiting if not gpus_of[row]])

    def _layout_of(self, cluster: Cluster) -> Layout:
        if self._layout is None or self._cluster is not cluster:
            self._cluster, self._layout = cluster, Layout(cluster)
        return self._layout
