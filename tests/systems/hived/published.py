"""The published scenarios of HiveD as virtual clusters: what `hived_cases.json` says."""

from __future__ import annotations

import json
from copy import deepcopy
from functools import cache

from rota.errors import InputError
from rota.model.cells import CellKind
from rota.systems.hived.adopting import adopt
from rota.systems.hived.cells import Gang, Physical, below, physical_cell
from rota.systems.hived.clusters import CellPromise, GangPlan, Pin, VirtualClusters
from shared_data import ROOT

FILE = ROOT / "reference" / "tiresias-elasticflow-lucid" / "hived_cases.json"
V100 = ("2-GPU", "4-GPU", "8-GPU", "NODE")
KINDS = {
    kind.name: kind
    for kind in (
        CellKind("DGX2-V100-NODE", "DGX2-V100", ("GPU", *V100), (0, 2, 2, 2, 2), 5),
        CellKind(
            "4-DGX2-V100-NODE", "DGX2-V100", ("GPU", *V100, "2-NODE", "4-NODE"), (0, 2, 2, 2, 2, 2, 2), 5
        ),
        CellKind("3-DGX2-V100-NODE", "DGX2-V100", ("GPU", *V100, "3-NODE"), (0, 2, 2, 2, 2, 3), 5),
        CellKind("2-IB-DGX2-V100-NODE", "IB-DGX2-V100", ("GPU", *V100, "2-NODE"), (0, 2, 2, 2, 2, 2), 5),
        CellKind(
            "3-DGX1-P100-NODE", "DGX1-P100", ("GPU", "SWITCH", "SOCKET", "NODE", "3-NODE"), (0, 2, 2, 2, 3), 4
        ),
        CellKind("CT1-NODE", "CT1", ("GPU", "NODE"), (0, 2), 2),
    )
}
"""In the order in which they are searched: names descending."""
LEVELS = {
    "4-DGX2-V100-NODE.2-DGX2-V100-NODE.DGX2-V100-NODE": ("4-DGX2-V100-NODE", "NODE"),
    "4-DGX2-V100-NODE.2-DGX2-V100-NODE": ("4-DGX2-V100-NODE", "2-NODE"),
    "3-DGX2-V100-NODE.DGX2-V100-NODE": ("3-DGX2-V100-NODE", "NODE"),
    "DGX2-V100-NODE": ("DGX2-V100-NODE", "NODE"),
    "3-DGX1-P100-NODE.DGX1-P100-NODE": ("3-DGX1-P100-NODE", "NODE"),
    "3-DGX1-P100-NODE.DGX1-P100-NODE.DGX1-P100-CPU-SOCKET": ("3-DGX1-P100-NODE", "SOCKET"),
    "CT1-NODE": ("CT1-NODE", "NODE"),
    "CT1-NODE.CT1": ("CT1-NODE", "GPU"),
}
ORDERS = {"1.0.0.0 of 3-DGX1-P100-NODE": (1, 3, 4, 7, 0, 2, 6, 5)}
"""GPUs of nodes that list them in an order of their own."""


@cache
def cases():
    return json.loads(FILE.read_text())


def flat(kind):
    """The same kind with nothing between a node of 16 GPUs and its GPUs."""
    above = kind.names[5:], kind.fanouts[5:]
    return CellKind(kind.name, kind.gpu_type, ("GPU", "NODE", *above[0]), (0, 16, *above[1]), 2)


RECONFIGURED = {name: flat(kind) if kind.gpu_type == "DGX2-V100" else kind for name, kind in KINDS.items()}
"""The kinds after the published reconfiguration."""


def reconfigured():
    """The topology after it: a node of another name, four single nodes out of four, VC2 has a node less."""
    topology = deepcopy(cases()["topology"])
    cells = topology["physical_cells"]
    renamed, split = cells[7]["nodes"], cells[8]["nodes"]
    renamed[renamed.index("0.0.3.0")] = "0.0.3.100"
    alone = [{"cell_type": "DGX2-V100-NODE", "nodes": [name]} for name in split]
    fresh = {"cell_type": "4-DGX2-V100-NODE", "nodes": [f"0.0.4.{number}" for number in range(100, 104)]}
    topology["physical_cells"] = [*cells[:8], alone[0], *cells[9:], *alone[1:], fresh]
    topology["virtual_clusters"]["VC2"]["cells"][0][1] = 1
    return topology


class Scene:
    """A cluster of the scenarios, with who runs on it."""

    def __init__(self, artifact=True, topology=None, kinds=KINDS, **counts):
        """`counts` change how many cells of an entry a tenant has: `VC1=(0, 2, 2, 3)`."""
        topology = topology or cases()["topology"]
        self.names: list[tuple[str, int]] = []  # of each device: its node, and its number there
        self.nodes: dict[str, int] = {}
        self.node_cells: dict[str, list[Physical]] = {}
        tops = {kind: [] for kind in kinds.values()}
        pins: dict[str, Physical] = {}
        for said in topology["physical_cells"]:
            kind = kinds[said["cell_type"]]
            cell = self._grow(kind, said, len(tops[kind]))
            tops[kind].append(cell)
            pins |= {name: self._pinned(cell, where) for name, where in said.get("pinned", {}).items()}
        promises = []
        for vc, owns in topology["virtual_clusters"].items():
            changed = counts.get(vc, [])
            for i, (entry, count) in enumerate(owns["cells"]):
                given = changed[i] if i < len(changed) else count
                entry, given = given if isinstance(given, tuple) else (entry, given)
                kind, level = LEVELS[entry]
                promises.append(CellPromise(vc, kind, kinds[kind].names.index(level) + 1, given))
        owned = topology["virtual_clusters"]
        fixed = [Pin(vc, name, pins[name]) for vc, owns in owned.items() for name in owns["pinned"]]
        self.clusters = VirtualClusters(tops, promises, fixed, artifact=artifact)
        self.gangs: dict[str, Gang] = {}
        self.cells_of: dict[str, str] = {}  # name of the level of the cells in which each gang was bound
        if artifact:
            self.at_first_all_is_bad(topology)

    def _grow(self, kind, said, first):
        names, gpus = said["nodes"], kind.gpus(kind.node_level)
        for name in names:
            numbers = said.get("leaf_addresses") or ORDERS.get(f"{name} of {kind.name}") or range(gpus)
            self.nodes.setdefault(name, len(self.nodes))
            self.names += [(name, number) for number in numbers]
        devices = range(len(self.names) - gpus * len(names), len(self.names))
        cell = physical_cell(kind, kind.top, [self.nodes[name] for name in names], devices, first)
        for node in below(cell):
            if node.level == kind.node_level:
                self.node_cells.setdefault(self.names[node.leaves[0].device][0], []).append(node)
        return cell

    def _pinned(self, cell, where):
        """`leaf 8` is the first GPU of its cell, `whole cell` all, the other the first pair of nodes."""
        if "leaf" in where:
            return cell.leaves[0]
        return cell if where == "whole cell" else cell.children[0]

    def at_first_all_is_bad(self, topology):
        nodes = [name for said in topology["physical_cells"] for name in said["nodes"]]
        for name in dict.fromkeys(nodes):
            self.bad(name)
        for name in dict.fromkeys(nodes):
            self.good(name)

    # -- what happens ------------------------------------------------------------------------------

    def bad(self, *names):
        for name in names:
            self.clusters.spoil(leaf for node in self.node_cells[name] for leaf in node.leaves)

    def good(self, *names):
        for name in names:
            self.clusters.heal(leaf for node in self.node_cells[name] for leaf in node.leaves)

    def ask(self, pod, suggested=None):
        """The plan for the gang of `pod`, or why there is none."""
        gang = gang_of(pod)
        nodes = None if suggested is None else {self.nodes[name] for name in suggested}
        return self.clusters.plan(gang, nodes)

    def bind(self, pod, suggested=None):
        """GPUs of `pod`, whose gang starts unless it runs; why not if it has to wait; victims by pod."""
        asked = request(pod)
        gang = self.gangs.get(asked["gang"])
        if gang is None:
            plan = self.ask(pod, suggested)
            if isinstance(plan, str) or plan.victims:
                return plan
            self.clusters.start(plan)
            self.clusters.check()
            gang = self.gangs[asked["gang"]] = plan.gang
            self.cells_of[gang.name] = name_of_cells(gang)
        return self.placed(gang, pod)

    def placed(self, gang, pod):
        """Where `pod` is, the first of its size in its gang not before those that were asked for earlier."""
        same = [
            p
            for p in names_in(request(pod)["gang"])
            if request(p)["leaf_cells"] == request(pod)["leaf_cells"]
        ]
        own = [i for i, gpus in enumerate(gang.pods) if gpus == request(pod)["leaf_cells"]]
        found = [self.names[leaf.device] for leaf in gang.physical[own[same.index(pod) % len(own)]]]
        return found[0][0], [number for _, number in found]

    def stop(self, pod):
        self.clusters.stop(self.gangs.pop(request(pod)["gang"]))
        self.clusters.check()

    def take_over(self, before, *, by_level):
        """Who runs in the scene `before` runs here, on those of its GPUs that are there; by priority.

        With `by_level` in cells of the level that it was bound in, as the published service notes them.
        """
        here = {place: self.clusters.leaf_of[device] for device, place in enumerate(self.names)}
        for old in sorted(before.gangs.values(), key=lambda gang: -gang.priority):
            gang = Gang(old.name, old.vc, old.priority, old.pods, pin=old.pin, lazy=old.lazy)
            places = [before.names[leaf.device] for pod in old.physical for leaf in pod]
            gpus = [here[place] for place in places if place in here]
            names, level = gpus[0].kind.names, before.cells_of[old.name]
            if by_level and level:
                known = level in names
                adopt(
                    self.clusters, gang, gpus, None if known else [], names.index(level) + 1 if known else 0
                )
            else:
                adopt(self.clusters, gang, gpus)
            self.clusters.check()
            self.gangs[gang.name] = gang

    def idle_cells(self, vc, kind):
        """For each idle cell of `vc`: whether it is shown as bad."""
        roots = self.clusters.vcs[vc].roots[kind]
        return [root.physical is not None and root.physical.is_bad for root in roots if not root.used]


def root_of(own):
    """The promised cell that a virtual GPU is in."""
    while own.parent is not None:
        own = own.parent
    return own


def name_of_cells(gang):
    """Name of the level of the promised cells that serve `gang`; empty if it has no guarantee."""
    roots = [root_of(own) for pod in gang.virtual for own in pod]
    names = {root.kind.names[root.level - 1] for root in roots}
    assert len(names) <= 1, "the published gangs have cells of one level each"
    return names.pop() if names else ""


def request(pod):
    return next(one for one in cases()["requests"] if one["pod"] == pod)


def ask_all(gang):
    """Pods of a gang."""
    return names_in(gang.name)


def names_in(gang):
    return [one["pod"] for one in cases()["requests"] if one["gang"] == gang]


def gang_of(pod):
    one = request(pod)
    pods = tuple(m["leaf_cells_per_pod"] for m in one["gang_members"] for _ in range(m["pods"]))
    if one["leaf_cells"] not in pods:
        raise InputError(f"pod {pod} has {one['leaf_cells']} GPUs, and its gang has no such pod")
    types = () if one["leaf_type"] == "any" else (one["leaf_type"],)
    return Gang(
        one["gang"],
        one["vc"],
        one["priority"],
        pods,
        types,
        pin=one["pinned_cell"] or "",
        lazy=one["lazy_preemption"],
    )


class Service(Scene):
    """The published service: a gang that preempts holds its cells while its victims still leave.

    Rota needs no such states: one decision stops the victims and starts the gang.
    """

    def __init__(self, **counts):
        super().__init__(**counts)
        self.preempting: dict[str, list[tuple[Gang, list, list]]] = {}  # by gang: victims, what it took
        self.pending: dict[str, Gang] = {}

    def preempt(self, pod, suggested=None, *, filtering=False):
        """Asks for `pod` in the preempting phase: it runs, waits, or holds cells that others leave."""
        name = request(pod)["gang"]
        if name in self.preempting and not self.still_good(self.pending[name], suggested):
            self.cancel(name)
        if name in self.preempting or name in self.gangs:
            return self.victims_of(name)
        plan = self.ask(pod, suggested)
        if isinstance(plan, str) or filtering:
            return plan
        for heir in [victim for victim in plan.victims if victim.name in self.preempting]:
            self.cancel(heir.name)
        plan = self.ask(pod, suggested)
        if not plan.victims:
            self.clusters.start(plan)
            self.gangs[name] = plan.gang
            return []
        taken = {id(leaf) for gpus in plan.physical for leaf in gpus}
        held = []
        for victim in plan.victims:
            before = victim.physical, victim.virtual
            self.clusters.stop(victim)
            self.hold(victim, *part(*before, lambda leaf: id(leaf) not in taken))
            held.append((victim, *part(*before, lambda leaf: id(leaf) in taken)))
        plan.victims.clear()
        self.clusters.start(plan)
        self.pending[name], self.preempting[name] = plan.gang, held
        return self.victims_of(name)

    def hold(self, gang, physical, virtual):
        if physical:
            self.clusters.start(GangPlan(gang, physical, virtual, [], []))

    def still_good(self, gang, suggested):
        nodes = {self.names[leaf.device][0] for gpus in gang.physical for leaf in gpus}
        return suggested is None or nodes <= set(suggested)

    def cancel(self, name):
        """The gang does not want to run any more; its victims get back what they had, if they are there."""
        self.clusters.stop(self.pending.pop(name))
        for victim, physical, virtual in self.preempting.pop(name):
            if victim.name in self.gangs:
                before = victim.physical, victim.virtual
                if victim.physical:
                    self.clusters.stop(victim)
                self.hold(victim, before[0] + physical, before[1] + virtual)

    def victims_of(self, name):
        held = self.preempting.get(name, [])
        return [victim.name for victim, *_ in held if victim.name in self.gangs]

    def stop(self, pod):
        gang = self.gangs.pop(request(pod)["gang"])
        if gang.physical:
            self.clusters.stop(gang)


def part(physical, virtual, chosen):
    """Those GPUs of a gang that are `chosen`."""
    pairs = [
        [(leaf, own) for leaf, own in zip(gpus, owns, strict=True) if chosen(leaf)]
        for gpus, owns in zip(physical, virtual, strict=True)
    ]
    left = [pod for pod in pairs if pod]
    return [[leaf for leaf, _ in pod] for pod in left], [[own for _, own in pod] for pod in left]
