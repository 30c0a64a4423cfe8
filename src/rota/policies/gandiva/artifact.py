"""Gandiva as the simulators of Tiresias and ElasticFlow have it.

From      SymbioticLab/Tiresias, `simulator/` (`gandiva`); pkusys/ElasticFlow, `ElasticFlow/scheduler/`
          (`gandiva`), which grew out of it
Differs   1. Nodes form sets by job size (`stages.node_sets`), resized at each step in proportion to demand.
             No affinity of partly filled servers, no packing, no migration with measurement, no growing.
          2. Turns pass only at a step that falls on a multiple of 60 s, in all sets at once.
          3. A waiting job no set could take is tried again only when a set falls empty, and each one that
             is taken makes the one behind it miss its turn.
          4. Jobs that ask for more than whole GPUs of any type, which the simulators do not know, run to
             their end on nodes lent to them while no set has them; under quotas that is all jobs.
          5. Sizes are served in the order of the simulator's table: Tiresias' runs under Python 2, which
             orders it by hash.  Sizes the simulators do not know (they stop) come last here.
Clock     `tiresias-gandiva` and `elasticflow-gandiva`
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from rota.errors import PolicyError
from rota.model.grants import Grant, Leave
from rota.model.jobs import JobTable
from rota.policies.gandiva.node_sets import NodeSet, NodeSets
from rota.policies.gandiva.placement import GroupFitter
from rota.policies.gandiva.turns import TAKES_TURNS
from rota.scheduler.decision import Decision, Memory, Wake
from rota.scheduler.snapshot import Snapshot
from rota.scheduler.stages.place import consolidate
from rota.table.free import mask_of
from rota.table.plain import plain_rows
from rota.table.state import Phase

STEP_S = 10.0
TURN_S = 60.0

TIRESIAS_ORDER = (16, 1, 2, 4, 24, 32, 8, 64, 12)
ELASTICFLOW_ORDER = (1, 2, 4, 8, 12, 16, 24, 32, 40, 48, 56, 64, 72, 88, 128, 256)

_PENDING, _RUNNING = int(Phase.PENDING), int(Phase.RUNNING)


class SetTurns:
    """Turns in node sets.

    Memory    `sets`   per job size: sets of nodes with their jobs
              `free`   nodes in no set, in the order in which they became free
              `queue`  jobs in no set, in the order in which they came
              `lent`   nodes in no set on which jobs of other kinds run
              `nodes`  nodes that are not lost
    """

    def __init__(self, order: tuple[int, ...]) -> None:
        self.order = order
        self._plain: tuple[JobTable, list[bool]] | None = None

    def decide(self, snapshot: Snapshot, memory: Memory) -> Decision:
        """One step; asks for another as long as steps change something."""
        now = snapshot.now
        if not memory:
            self._adopt(snapshot, memory)
        sets = self._sets(snapshot, memory)
        had = len(memory["free"])
        self._follow_nodes(snapshot, memory)
        self._take_back(snapshot, memory)
        phase = snapshot.by_row.phase
        sets.pass_turns(now % TURN_S == 0.0, lambda row: phase.item(row) not in (_PENDING, _RUNNING))
        released = len(memory["free"]) > had
        self._place_arrivals(snapshot, memory, sets)
        if released:
            self._retry(memory["queue"], sets)
        lent = self._lend(snapshot, memory)
        before = _outline(memory["sets"])
        sets.resize((len(memory["nodes"]) - len(memory["lent"])) * sets.node_gpus)
        moves = _outline(memory["sets"]) != before
        grants, away = _turns(snapshot, sets)
        preempt = [row for row in away if self._in_sets(snapshot, row)]
        wake = _next(now, moves, sets)
        return Decision(memory, grants + lent, preempt, Leave.IN_MEMORY, wake=wake, otherwise=TAKES_TURNS)

    def _in_sets(self, snapshot: Snapshot, row: int) -> bool:
        """True for jobs as the simulators know them: counting GPUs decides whether they fit."""
        jobs, cluster = snapshot.jobs.table, snapshot.cluster
        if self._plain is None or self._plain[0] is not jobs:
            self._plain = (jobs, plain_rows(jobs, cluster).tolist())
        return self._plain[1][row] and not cluster.tenants

    # -- memory ------------------------------------------------------------------------------------

    def _sets(self, snapshot: Snapshot, memory: Memory) -> NodeSets:
        node_gpus = int(snapshot.cluster.node_gpus[0])
        return NodeSets(memory["sets"], memory["free"], node_gpus, snapshot.gpus_of, self.order)

    def _adopt(self, snapshot: Snapshot, memory: Memory) -> None:
        """Take over a cluster: whoever has nodes to itself, or shares them with its size, keeps them."""
        sizes = snapshot.cluster.node_gpus
        if (sizes != sizes[0]).any():
            raise PolicyError("gandiva in the mode of a simulator divides equal nodes; these differ in GPUs")
        memory.update(sets={}, free=[], queue=[], nodes=[], lent=[])
        self._follow_nodes(snapshot, memory)
        node_of, gpus_of = snapshot.occupancy.free.node_of, snapshot.gpus_of
        for row in snapshot.running.tolist():
            nodes = sorted({node_of[device] for device in snapshot.grants[row].devices})
            if not self._in_sets(snapshot, row):
                self._take_out(memory, nodes)
                continue
            sets = memory["sets"].setdefault(gpus_of[row], [])
            home = next((one for one in sets if one["nodes"] == nodes), None)
            if home is None and nodes and all(node in memory["free"] for node in nodes):
                home = NodeSet(nodes=nodes, jobs=[], dealt=0)
                sets.append(home)
                memory["free"] = [node for node in memory["free"] if node not in nodes]
            if home is not None:
                home["jobs"].append(row)
                home["dealt"] += 1
        memory["sets"] = {size: sets for size, sets in memory["sets"].items() if sets}

    def _follow_nodes(self, snapshot: Snapshot, memory: Memory) -> None:
        """Take lost nodes out, their jobs back into the queue; put nodes that returned among the free."""
        down, first = snapshot.occupancy.down, snapshot.cluster.first_device
        if not down and len(memory["nodes"]) == snapshot.cluster.nodes:
            return
        up = [node for node in range(snapshot.cluster.nodes) if int(first[node]) not in down]
        lost = set(memory["nodes"]) - set(up)
        memory["free"] += [node for node in up if node not in memory["nodes"]]
        memory["nodes"] = up
        broken = [one for sets in memory["sets"].values() for one in sets if lost.intersection(one["nodes"])]
        for one in broken:
            memory["free"] += one["nodes"]
        for size, sets in memory["sets"].items():
            memory["sets"][size] = [one for one in sets if one not in broken]
        for name in ("free", "lent"):
            memory[name][:] = [node for node in memory[name] if node not in lost]

    @staticmethod
    def _take_out(memory: Memory, nodes: Iterable[int]) -> None:
        """Lend free nodes."""
        for node in nodes:
            if node in memory["free"]:
                memory["free"].remove(node)
                memory["lent"].append(node)

    def _take_back(self, snapshot: Snapshot, memory: Memory) -> None:
        """Lent nodes on which nothing runs any more are free."""
        if not memory["lent"]:
            return
        node_of = snapshot.occupancy.free.node_of
        others = [row for row in snapshot.running.tolist() if not self._in_sets(snapshot, row)]
        in_use = {node_of[device] for row in others for device in snapshot.grants[row].devices}
        memory["free"] += [node for node in memory["lent"] if node not in in_use]
        memory["lent"][:] = [node for node in memory["lent"] if node in in_use]

    # -- one step ----------------------------------------------------------------------------------

    def _place_arrivals(self, snapshot: Snapshot, memory: Memory, sets: NodeSets) -> None:
        """Jobs that are in no list yet."""
        live = [row for row in _live(snapshot) if self._in_sets(snapshot, row)]
        queue = memory["queue"]
        queue[:] = [row for row in queue if snapshot.by_row.phase.item(row) == _PENDING]
        known = {row for some in sets.sets.values() for one in some for row in one["jobs"]}
        if len(known) + len(queue) == len(live):
            return
        known.update(queue)
        for row in sorted(set(live) - known):
            if not sets.place(row):
                queue.append(row)

    def _retry(self, queue: list[int], sets: NodeSets) -> None:
        """Place what waits; the simulators skip the job behind each one that could be placed."""
        place = 0
        while place < len(queue):
            if sets.place(queue[place]):
                del queue[place]
            place += 1

    def _lend(self, snapshot: Snapshot, memory: Memory) -> list[Grant]:
        """Grants for waiting jobs that are not for sets, in the order in which they came."""
        others = [row for row in snapshot.waiting.tolist() if not self._in_sets(snapshot, row)]
        if not others:
            return []
        node_of = snapshot.occupancy.free.node_of
        fit = GroupFitter(snapshot, consolidate)
        scratch, grants = fit.scratch(snapshot), []
        for row in others:
            fit.within = mask_of([*memory["free"], *memory["lent"]])
            grant = fit(scratch, row)
            if grant is not None:
                scratch.hold(grant)
                grants.append(grant)
                self._take_out(memory, sorted({node_of[device] for device in grant.devices}))
        return grants


def _live(snapshot: Snapshot) -> list[int]:
    return [*snapshot.waiting.tolist(), *snapshot.running.tolist()]


def _next(now: float, moves: bool, sets: NodeSets) -> Wake:
    if moves:
        return Wake(at_s=now + STEP_S)
    if sets.is_crowded():
        return Wake(at_s=(math.floor(now / TURN_S) + 1) * TURN_S)
    return Wake()


def _outline(sets: Mapping[int, list[NodeSet]]) -> Any:
    """What a step may change, as a value to compare."""
    return [
        (size, *((*one["nodes"], -1, *one["jobs"], -1, one["dealt"]) for one in some))
        for size, some in sets.items()
    ]


def _turns(snapshot: Snapshot, sets: NodeSets) -> tuple[list[Grant], list[int]]:
    """Grants for the jobs whose turn it is on the nodes of their set; the others leave."""
    grants: list[Grant] = []
    heads: set[int] = set()
    for size, some in sets.sets.items():
        for one in some:
            rows = sets.heads(size, one)
            heads.update(rows)
            grants += _on_nodes(snapshot, one["nodes"], rows, size)
    return grants, [row for row in snapshot.running.tolist() if row not in heads]


def _on_nodes(snapshot: Snapshot, nodes: list[int], rows: list[int], size: int) -> list[Grant]:
    """Devices of `nodes` for jobs that do not run there yet."""
    held, free = snapshot.grants, snapshot.occupancy.free
    node_of, first = free.node_of, free.first
    staying = [row for row in rows if row in held and all(node_of[d] in nodes for d in held[row].devices)]
    if len(staying) == len(rows):
        return []
    devices = [device for node in nodes for device in range(first[node], first[node + 1])]
    taken = {device for row in staying for device in held[row].devices}
    left = [device for device in devices if device not in taken]
    newcomers = [row for row in rows if row not in staying]
    return [Grant(row, tuple(sorted(left[size * k : size * (k + 1)]))) for k, row in enumerate(newcomers)]
