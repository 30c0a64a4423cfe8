"""Another policy inside a virtual cluster: it sees the cells as its own cluster, and says which jobs run."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from rota.model.cluster import Cluster, NodeShape
from rota.model.grants import Grant
from rota.model.tenants import Tenants
from rota.scheduler.asking import asked
from rota.scheduler.decision import Decision, Memory, Wake
from rota.scheduler.policy import Policy
from rota.scheduler.snapshot import Snapshot
from rota.stages.joining import LastSaid
from rota.stages.nested import entry_of, is_due, wake_of
from rota.systems.hived.cells import Gang, Virtual
from rota.systems.hived.clusters import VirtualCluster
from rota.systems.hived.deciding import Deciding
from rota.systems.hived.layout import Layout
from rota.table.view import View


class Inner:
    """One policy for each virtual cluster; `make` builds them.

    A private cluster has the nodes of the cells, or small nodes for cells below the node, each with its part
    of the cores and the memory that all nodes of its kind have at least; levels are not passed on.  Jobs
    that name nodes or ask for parts of GPUs are not handled by it.
    """

    def __init__(self, make: Callable[[], Policy]) -> None:
        self.make = make
        self._policies: dict[str, Policy] = {}
        self._said = LastSaid()

    def serves(self, deciding: Deciding, row: int) -> bool:
        """Whether `row`, which has a guarantee, is decided on by an inner policy."""
        jobs = deciding.requests.jobs
        return jobs.gpu_share.item(row) == 1.0 and jobs.node_set.item(row) < 0

    def could_hold(self, deciding: Deciding, row: int) -> bool:
        """Whether the cells of its tenant, of whatever kinds, could hold `row` if no other job were there."""
        jobs = deciding.requests.jobs
        wanted, asked = jobs.gpu_types.item(row), jobs.gpus.item(row)
        types = jobs.types_in(wanted) if wanted else ()
        room = deciding.clusters.vcs[deciding.requests.vc_of(row)].gpus_by_type
        return any(gpus >= asked for name, gpus in room.items() if not types or name in types)

    def decide(self, deciding: Deciding, rows: Sequence[int], memory: Memory) -> Wake:
        """Carry out what all inner policies that are due want for waiting `rows` and running jobs."""
        entries: dict[str, Memory] = memory.setdefault("inner", {})
        waiting: dict[str, list[int]] = {}
        for row in rows:
            waiting.setdefault(deciding.requests.vc_of(row), []).append(row)
        for name, vc in sorted(deciding.clusters.vcs.items()):
            policy = self._policies.setdefault(name, self.make())
            self._one(deciding, vc, policy, waiting.get(name, []), entries)
        # A policy that wants to be asked only while jobs wait may have let its moment pass.
        moments = [wake_of(entry).at_s for entry in entries.values()]
        return Wake(min((at_s for at_s in moments if at_s > deciding.snapshot.now), default=math.inf))

    def _one(
        self,
        deciding: Deciding,
        vc: VirtualCluster,
        policy: Policy,
        waiting: list[int],
        entries: dict[str, Memory],
    ) -> None:
        cells = [leaf for packing in vc.packings.values() for node in packing.nodes for leaf in node.leaves]
        if not cells:
            return
        view = self._view(deciding, vc, cells, waiting)
        seen, entry = deciding.snapshot.seen_as(view), entries.get(vc.name)
        if entry is not None and not is_due(wake_of(entry), seen):
            return
        decision = asked(policy, seen, entry["memory"] if entry else {})
        entries[vc.name] = entry_of(decision)
        self._said.note(vc.name, view, decision)
        deciding.reject.update(decision.reject)
        deciding.cancel.update(decision.cancel)
        deciding.offers.update(decision.offers)
        deciding.promises.update(decision.promises)
        deciding.reasons.update(decision.reasons)
        moved = [grant.job for grant in decision.grants if grant.job in deciding.gang_of]
        for row in [*decision.preempt, *decision.cancel, *moved]:
            if row in deciding.gang_of:
                deciding.stop(row)
        for grant in decision.grants:
            deciding.put(grant.job, _gang(deciding, grant, view), _pods(grant, cells))

    def tell(self, decision: Decision) -> None:
        """Let `decision` answer what the policies inside can."""
        self._said.tell(decision)

    def _view(
        self, deciding: Deciding, vc: VirtualCluster, cells: Sequence[Virtual], waiting: list[int]
    ) -> View:
        """What the policy of `vc` sees: its jobs, and its cells as devices; bad ones are closed."""
        view = deciding.snapshot.view(_private(deciding.snapshot, deciding.requests.layout, vc), [])
        served_by = {id(cell): cell.physical.device for cell in cells if cell.physical is not None}
        for roots in vc.roots.values():
            for root in roots:  # a doomed cell is bound as a whole, and nothing in it
                if root.physical is not None and root.physical.is_bad and not root.busy:
                    pairs = zip(root.leaves, root.physical.leaves, strict=True)
                    served_by |= {id(own): leaf.device for own, leaf in pairs}
        view.inner = {served_by[id(cell)]: d for d, cell in enumerate(cells) if id(cell) in served_by}
        running = {deciding.row_of[cell.gang] for cell in cells if cell.gang in deciding.row_of}
        own = {row for row in running if self.serves(deciding, row) and row not in deciding.granted}
        barred = {leaf.device for row in running - own for leaf in deciding.gang_of[row].physical[0]}
        hopeless = [row for row in waiting if not view.feasible[row]]
        deciding.reject.update({row: deciding.never(row) for row in hopeless})
        view.follow([*(row for row in waiting if view.feasible[row]), *sorted(own)], barred)
        return view


def _private(snapshot: Snapshot, layout: Layout, vc: VirtualCluster) -> Cluster:
    """The cells of `vc` as a cluster of its own, with the type codes that knowledge uses."""
    cells = [node for packing in vc.packings.values() for node in packing.nodes]
    alike = {(node.kind.name, node.size): node for node in cells}  # few shapes, many nodes
    shape_of = {key: _shape(snapshot.cluster, layout, node) for key, node in alike.items()}
    shapes = [shape_of[node.kind.name, node.size] for node in cells]
    below = (t for t in snapshot.cluster.tenants.by_path.values() if f"{t.path}/".startswith(f"{vc.name}/"))
    return Cluster.build(shapes, Tenants.of(*below)).coded_as(snapshot.cluster.type_names)


def _shape(cluster: Cluster, layout: Layout, node: Virtual) -> NodeShape:
    """`node` as one, with the cores and the memory that go with its GPUs wherever it is bound."""
    kind = node.kind
    nodes = [one for top in layout.kinds[kind] for one in top]
    part = node.size / kind.gpus(kind.node_level)
    cpus, gib = (part * float(has[nodes].min()) for has in (cluster.node_cpus, cluster.node_memory_gib))
    return NodeShape(1, node.size, kind.gpu_type, cpus=cpus, memory_gib=gib)


def _pods(grant: Grant, cells: Sequence[Virtual]) -> list[list[Virtual]]:
    """The virtual GPUs of `grant`; the inner policy chooses nodes, so one pod is enough."""
    return [[cells[device] for device in grant.devices]]


def _gang(deciding: Deciding, grant: Grant, view: View) -> Gang:
    gang = deciding.requests.running(grant.job)
    gang.pods = (len(grant.devices),)
    of_node = view.cluster.device_node[list(grant.devices)]
    gang.most_per_node = int(np.bincount(of_node).max(initial=0))
    return gang
