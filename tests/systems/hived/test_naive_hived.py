"""HiveD written once more from its description: who fits, who stops, whether all cells can still be had.

Where pods are put is taken from the policy and checked; whether there is a place is found by trying all.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from rota.model.cells import CellKind
from rota.systems.hived.cells import Gang, Virtual, physical_cell
from rota.systems.hived.clusters import CellPromise, GangPlan, VirtualClusters
from tiers import each_seed

NODE = 4
KIND = CellKind("E", "GPU", ("device", "pair", "node", "rack"), (0, 2, 2, 2), 3)
"""Racks of two nodes of two pairs."""
SIZES = (1, 2, NODE, 2 * NODE)
"""GPUs of a cell by level, from 1 on."""


@dataclass
class Owned:
    """One cell that a tenant owns: where it is while it is in use, and who holds which GPU of it."""

    size: int
    block: int = -1
    """The first GPU of where it is; -1 while nobody uses it."""
    nodes: dict[int, dict[int, str]] = field(default_factory=dict)
    """Holders of GPUs in use, by node of the cell and by GPU."""


class NaiveHived:
    """Tenants with the cells that they own, on so many GPUs."""

    def __init__(self, gpus: int, owned: dict[str, list[int]]) -> None:
        self.gpus = gpus
        self.roots: dict[str, dict[int, Owned]] = {vc: {} for vc in owned}
        self.spare = {vc: list(sizes) for vc, sizes in owned.items()}
        """Sizes of the cells of each tenant that nobody uses."""
        self.priority: dict[str, int] = {}
        self.vc: dict[str, str] = {}
        self.holds: dict[str, list[int]] = {}

    def rooms(self, vc: str, below: int) -> list[int]:
        """GPUs that a job may have in each node of its tenant's cells, if it may stop those `below`."""
        rooms = []
        for size in self.spare[vc]:
            rooms += [NODE] * (size // NODE) or [size]
        for root in self.roots[vc].values():
            for node in range(max(1, root.size // NODE)):
                held = root.nodes.get(node, {}).values()
                rooms.append(min(root.size, NODE) - sum(self.priority[name] >= below for name in held))
        return rooms

    def idle(self) -> list[int]:
        """GPUs in each node that nobody holds."""
        used = {gpu for gpus in self.holds.values() for gpu in gpus}
        return [sum(gpu not in used for gpu in range(n, n + NODE)) for n in range(0, self.gpus, NODE)]

    def fits(self, vc: str, pods: tuple[int, ...], priority: int) -> tuple[bool, bool]:
        """Whether it fits, and whether it does without stopping anybody of its own tenant."""
        if priority < 0:
            return can_hold(self.idle(), pods), True
        return can_hold(self.rooms(vc, priority), pods), can_hold(self.rooms(vc, 0), pods)

    def stop(self, name: str) -> None:
        del self.holds[name], self.priority[name]
        vc = self.vc.pop(name)
        for key, root in list(self.roots[vc].items()):
            for held in root.nodes.values():
                for gpu in [gpu for gpu, holder in held.items() if holder == name]:
                    del held[gpu]
            if not any(root.nodes.values()):
                self.spare[vc].append(self.roots[vc].pop(key).size)

    def start(self, plan: GangPlan) -> None:
        """As the policy says, if that is allowed."""
        gang = plan.gang
        used = {gpu for gpus in self.holds.values() for gpu in gpus}
        own = [leaf.device for pod in plan.physical for leaf in pod]
        assert len(own) == len(set(own)) == sum(gang.pods)
        assert used.isdisjoint(own)
        for pod in plan.physical:
            assert len({leaf.device // NODE for leaf in pod}) == 1, "a pod stands on one node"
        self.holds[gang.name], self.priority[gang.name], self.vc[gang.name] = own, gang.priority, gang.vc
        if gang.priority >= 0:
            for virtual, physical in zip(plan.virtual, plan.physical, strict=True):
                nodes = {
                    self._hold(gang, leaf, gpu.device) for leaf, gpu in zip(virtual, physical, strict=True)
                }
                assert len(nodes) == 1
        self._all_can_be_had()

    def _hold(self, gang: Gang, leaf: Virtual, device: int) -> tuple[int, int]:
        top = leaf
        while top.parent is not None:
            top = top.parent
        roots = self.roots[gang.vc]
        if id(top) not in roots:
            size = SIZES[top.level - 1]
            self.spare[gang.vc].remove(size)
            roots[id(top)] = Owned(size, device // size * size)
        root = roots[id(top)]
        assert root.block <= device < root.block + root.size, "a cell is one aligned block"
        node = (device - root.block) // NODE
        held = root.nodes.setdefault(node, {})
        assert device not in held
        held[device] = gang.name
        return id(top), node

    def _all_can_be_had(self) -> None:
        """Cells in use are apart, and beside them there is an aligned block for every other cell."""
        taken: set[int] = set()
        for roots in self.roots.values():
            for root in roots.values():
                block = set(range(root.block, root.block + root.size))
                assert taken.isdisjoint(block)
                taken |= block
        for size in sorted((size for sizes in self.spare.values() for size in sizes), reverse=True):
            blocks = [set(range(begin, begin + size)) for begin in range(0, self.gpus, size)]
            free = next((block for block in blocks if taken.isdisjoint(block)), None)
            assert free is not None, "a cell that was promised could not be had"
            taken |= free


def can_hold(rooms: list[int], pods: tuple[int, ...]) -> bool:
    """Try every node for the first pod, and so on."""
    if not pods:
        return True
    tried = set()
    for place, room in enumerate(rooms):
        if room >= pods[0] and room not in tried:
            tried.add(room)
            if can_hold([*rooms[:place], room - pods[0], *rooms[place + 1 :]], pods[1:]):
                return True
    return False


def drawn(draw: random.Random, racks: int) -> dict[str, list[int]]:
    """Cells of three tenants, up to all there is."""
    left, owned = racks * 2 * NODE, {vc: list[int]() for vc in "ABC"}
    for _ in range(draw.randint(2, 9)):
        size = draw.choice(SIZES)
        if size <= left:
            left -= size
            owned[draw.choice("ABC")].append(size)
    return {vc: sizes for vc, sizes in owned.items() if sizes}


@each_seed(100, 500, 2000, at_once=50)
def test_who_fits_and_who_has_to_stop(seed: int) -> None:
    draw = random.Random(seed)
    racks = draw.randint(1, 3)
    gpus, owned = racks * 2 * NODE, drawn(draw, racks)
    promises = [
        CellPromise(vc, "E", SIZES.index(size) + 1, 1) for vc, sizes in owned.items() for size in sizes
    ]
    promises.sort(key=lambda promise: -promise.level)
    tops = [physical_cell(KIND, 4, [2 * n, 2 * n + 1], range(8 * n, 8 * n + 8), n) for n in range(racks)]
    clusters = VirtualClusters({KIND: tops}, promises)
    naive, running = NaiveHived(gpus, owned), dict[str, Gang]()
    for number in range(40):
        if running and draw.random() < 0.35:
            name = draw.choice(sorted(running))
            clusters.stop(running.pop(name))
            naive.stop(name)
            continue
        vc, priority = draw.choice(sorted(owned)), draw.randint(-1, 3)
        pods = tuple(sorted(draw.choices(range(1, NODE + 1), k=draw.randint(1, 3))))
        plan = clusters.plan(Gang(f"{number:02}", vc, priority, pods))
        fits, fits_beside = naive.fits(vc, pods, priority)
        assert isinstance(plan, GangPlan) == fits, (vc, pods, priority)
        if not isinstance(plan, GangPlan):
            continue
        for victim in plan.victims:
            is_own = victim.vc == vc and victim.priority < priority
            assert victim.priority < 0 or (is_own and not fits_beside)
            assert priority >= 0
            del running[victim.name]
            naive.stop(victim.name)
        naive.start(plan)
        clusters.start(plan)
        running[plan.gang.name] = plan.gang
