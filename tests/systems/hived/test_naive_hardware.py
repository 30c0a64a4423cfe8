"""HiveD's fixed cells, bad hardware and lazy preemption, written once more from their description.

Which of its tenant's cells a gang is put on is taken from the policy and checked.  Whether there is room,
which block of GPUs then serves each cell, who has to stop and who goes on without a guarantee is worked out
anew, over plain sets of GPUs.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import permutations

from test_naive_hived import KIND, NODE, SIZES, can_hold

from rota.errors import PolicyError
from rota.systems.hived.cells import Gang, Virtual, physical_cell
from rota.systems.hived.clusters import NOT_BOUND, CellPromise, GangPlan, Pin, VirtualClusters
from tiers import each_seed

RACK = 2 * NODE
Wish = tuple["Wish", ...]
"""What is asked of a cell: for each child of which something is asked, what is; nothing of a GPU."""


def block(begin: int, size: int) -> frozenset[int]:
    return frozenset(range(begin, begin + size))


def wish_of(cell: Virtual, leaves: set[int]) -> Wish:
    asked = [c for c in cell.children if any(id(leaf) in leaves for leaf in c.leaves)]
    return tuple(wish_of(child, leaves) for child in asked)


@dataclass
class Held:
    """One GPU in use: the gang on it, and the cell of the tenant that it is in; None without a guarantee."""

    gang: str
    root: Virtual | None


class NaiveHardware:
    """Who holds which GPUs, where the cells of tenants are, and which GPUs are bad."""

    def __init__(self, gpus: int, spare: dict[str, list[int]], pins: dict[str, int]) -> None:
        self.gpus = gpus
        self.spare = {vc: list(sizes) for vc, sizes in spare.items()}
        """Sizes of the cells of each tenant that are nowhere."""
        self.pins = pins
        self.at: dict[int, tuple[str, frozenset[int]]] = {}
        """By id of a cell that is somewhere: its tenant, and its GPUs."""
        self.pinned: dict[str, int] = {}
        self.bad: set[int] = set()
        self.held: dict[int, Held] = {}
        self.gangs: dict[str, Gang] = {}

    # -- room --------------------------------------------------------------------------------------

    def priority(self, gpu: int) -> int:
        held = self.held[gpu]
        return -1 if held.root is None else self.gangs[held.gang].priority

    def rooms(self, roots: list[int], spare: list[int], below: int) -> list[int]:
        """GPUs in each node of these cells for one that may stop those `below`; none in a bad one."""
        rooms = [part for size in spare for part in [NODE] * (size // NODE) or [size]]
        for root in roots:
            gpus = self.at[root][1]
            stays: dict[int, int] = {}
            for gpu in gpus:
                held = self.held.get(gpu)
                if held is not None and held.root is not None:
                    stays[gpu // NODE] = stays.get(gpu // NODE, 0) + (self.priority(gpu) >= below)
            for node in {gpu // NODE for gpu in gpus}:
                own = {gpu for gpu in gpus if gpu // NODE == node}
                # A node that nobody uses of a larger cell may yet be any of it.
                is_known = node in stays or len(gpus) <= NODE
                rooms.append(0 if is_known and own & self.bad else len(own) - stays.get(node, 0))
        return rooms

    def own_rooms(self, vc: str, pin: str, below: int) -> list[int]:
        if pin:
            return self.rooms([self.pinned[pin]], [], below)
        fixed = set(self.pinned.values())
        roots = [root for root, (owner, _) in self.at.items() if owner == vc and root not in fixed]
        return self.rooms(roots, self.spare[vc], below)

    def idle(self) -> list[int]:
        """GPUs in each healthy node that nobody holds."""
        nodes = [block(begin, NODE) for begin in range(0, self.gpus, NODE)]
        return [0 if node & self.bad else len(node - self.held.keys()) for node in nodes]

    # -- which blocks ------------------------------------------------------------------------------

    def free(self, taken: set[int]) -> dict[int, list[frozenset[int]]]:
        """By size: the largest blocks that are not in use as cells, by number."""
        free: dict[int, list[frozenset[int]]] = {}
        for size in reversed(SIZES):
            blocks = [block(begin, size) for begin in range(0, self.gpus, size)]
            larger = [one for other in free.values() for one in other]
            free[size] = [
                one for one in blocks if one.isdisjoint(taken) and not any(one < other for other in larger)
            ]
        return free

    def serves(self, gpus: frozenset[int], wish: Wish) -> bool:
        """Whether this block can be what is asked, in any order of its parts, without anything bad."""
        if len(gpus) <= NODE and gpus & self.bad:
            return False
        if not wish:
            return True
        part = len(gpus) // 2
        parts = [block(min(gpus), part), block(min(gpus) + part, part)]
        ways = permutations(parts, len(wish))
        return any(all(self.serves(p, w) for p, w in zip(way, wish, strict=True)) for way in ways)

    def opportunists(self, gpus: frozenset[int]) -> int:
        return sum(gpu in self.held and self.priority(gpu) < 0 for gpu in gpus)

    def usable(self, blocks: list[frozenset[int]]) -> list[frozenset[int]]:
        return sorted(blocks, key=lambda one: (self.opportunists(one), min(one)))

    def splits(self, blocks: list[frozenset[int]], size: int) -> Iterator[frozenset[int]]:
        """Blocks of `size` in these, in the order in which they are looked at."""
        for one in self.usable(blocks):
            if len(one) == size:
                yield one
            elif len(one) > NODE or not one & self.bad:
                half = len(one) // 2
                yield from self.splits([block(min(one), half), block(min(one) + half, half)], size)

    def found(self, size: int, wish: Wish, taken: set[int], owed: list[int]) -> frozenset[int] | None:
        """The block that serves a cell of `size`: of the smallest there are, else of larger ones to spare."""
        free = self.free(taken)
        smallest = next((free[s] for s in SIZES if s >= size and free[s]), [])
        for one in self.splits(smallest, size):
            if self.serves(one, wish):
                return one
        left = list(owed)
        left.remove(size)
        for s in SIZES[SIZES.index(size) + 1 :]:
            parts = [block(at, size) for one in free[s] for at in range(min(one), max(one) + 1, size)]
            for one in self.usable(parts):
                if self.serves(one, wish) and self.can_have(left, taken | one):
                    return one
        return None

    def taken(self) -> set[int]:
        return {gpu for _, gpus in self.at.values() for gpu in gpus}

    def owed(self) -> list[int]:
        return [size for sizes in self.spare.values() for size in sizes]

    def misses(self, gang: Gang) -> bool:
        """Whether some cell that `gang` may have been put on could not be served by what is healthy."""
        if gang.pin or len(gang.pods) > 1:
            return bool(self.bad)
        if any(vc == gang.vc and len(gpus) == RACK and gpus & self.bad for vc, gpus in self.at.values()):
            return True
        sizes = {size for size in self.spare[gang.vc] if min(size, NODE) >= gang.pods[0]}
        wishes: dict[int, Wish] = dict.fromkeys(SIZES, ()) | {RACK: ((),)}
        return any(self.found(size, wishes[size], self.taken(), self.owed()) is None for size in sizes)

    # -- what happens ------------------------------------------------------------------------------

    def start(self, plan: GangPlan) -> None:
        """As the policy says, if it is what comes out here."""
        gang = plan.gang
        self._give_way(plan)
        devices = [leaf.device for pod in plan.physical for leaf in pod]
        assert len(set(devices)) == sum(gang.pods)
        assert self.bad.isdisjoint(devices), "nobody begins on what is bad"
        assert not set(devices) & self.held.keys(), "who was there has gone"
        self.gangs[gang.name] = gang
        if gang.priority < 0:
            self.held |= {device: Held(gang.name, None) for device in devices}
            return
        self._bind(plan)
        for virtual, physical in zip(plan.virtual, plan.physical, strict=True):
            assert len({leaf.device // NODE for leaf in physical}) == 1, "a pod stands on one node"
            for leaf, gpu in zip(virtual, physical, strict=True):
                root = top_of(leaf)
                assert gpu.device in self.at[id(root)][1], "a cell is one block"
                self.held[gpu.device] = Held(gang.name, root)

    def _give_way(self, plan: GangPlan) -> None:
        """Who is where the gang goes stops; who only has its cells, and is lazy, goes on."""
        devices = {leaf.device for pod in plan.physical for leaf in pod}
        robbed = {leaf.gang.name for pod in plan.virtual for leaf in pod if leaf.gang is not None}
        for name in robbed:
            assert self.gangs[name].priority < plan.gang.priority
            assert self.gangs[name].vc == plan.gang.vc
        lazy = {name for name in robbed if self.gangs[name].lazy}
        for name in lazy:
            self.demote(name)
        on_them = {self.held[gpu].gang for gpu in devices if gpu in self.held}
        assert {victim.name for victim in plan.victims} == on_them
        assert {other.name for other in plan.demoted} == lazy - on_them
        for gpu in devices & self.held.keys():
            assert self.priority(gpu) < 0 or self.held[gpu].gang in robbed
        self._predicted = self._predict(plan)
        for name in on_them:
            self.stop(name)

    def _predict(self, plan: GangPlan) -> dict[int, frozenset[int]]:
        """Where each cell that was nowhere is put, in the order in which the pods are looked at."""
        leaves = [leaf for pod in sorted(plan.virtual, key=len) for leaf in pod]
        wanted = {id(leaf) for leaf in leaves}
        roots = {id(top_of(leaf)): top_of(leaf) for leaf in leaves}
        taken, owed, found = self.taken(), self.owed(), {}
        for key, root in roots.items():
            if key in self.at:  # also where those who have to stop were alone in it
                found[key] = self.at[key][1]
                continue
            size = SIZES[root.level - 1]
            gpus = self.found(size, wish_of(root, wanted), taken, owed)
            assert gpus is not None, "there was no block that could be had"
            taken |= gpus
            owed.remove(size)
            found[key] = gpus
        return found

    def _bind(self, plan: GangPlan) -> None:
        for key, gpus in self._predicted.items():
            if key not in self.at:
                self.spare[plan.gang.vc].remove(len(gpus))
                self.at[key] = plan.gang.vc, gpus

    def demote(self, name: str) -> None:
        """It keeps its GPUs, and its tenant has its cells back."""
        roots = {id(held.root) for held in self.held.values() if held.gang == name and held.root is not None}
        for held in self.held.values():
            if held.gang == name:
                held.root = None
        self._leave(roots)

    def stop(self, name: str) -> None:
        gone = [gpu for gpu, held in self.held.items() if held.gang == name]
        roots = {id(self.held[gpu].root) for gpu in gone if self.held[gpu].root is not None}
        for gpu in gone:
            del self.held[gpu]
        self._leave(roots)
        del self.gangs[name]

    def _leave(self, roots: set[int]) -> None:
        """Cells in which nobody is any more are nowhere."""
        used = {id(held.root) for held in self.held.values()} | set(self.pinned.values())
        for root in roots - used:
            vc, gpus = self.at.pop(root)
            self.spare[vc].append(len(gpus))

    # -- what always holds -------------------------------------------------------------------------

    def follow_doom(self, clusters: VirtualClusters) -> None:
        """Cells shown where bad GPUs are: those that could not be had healthy, and no others."""
        used = {id(held.root) for held in self.held.values()} | set(self.pinned.values())
        doomed = {id(root): root for root in clusters.doom["E"].bound}
        for root in [root for root in self.at if root not in used]:
            vc, gpus = self.at.pop(root)
            self.spare[vc].append(len(gpus))
        for key, root in doomed.items():
            assert root.physical is not None
            gpus = frozenset(leaf.device for leaf in root.physical.leaves)
            assert key not in used, "a cell in use is none of them"
            assert gpus.isdisjoint(self.taken())
            assert gpus & self.bad
            self.spare[root.vc].remove(len(gpus))
            self.at[key] = root.vc, gpus
        for root in doomed.values():
            size = SIZES[root.level - 1]
            assert self.spare[root.vc].count(size) >= self.healthy(size)
        for sizes in self.spare.values():
            for size in SIZES:
                assert sizes.count(size) <= self.healthy(size), "a cell that cannot be had is not shown so"

    def healthy(self, size: int) -> int:
        """Blocks of `size` without anything bad that no cell is on."""
        blocks = [block(begin, size) for begin in range(0, self.gpus, size)]
        return sum(one.isdisjoint(self.taken() | self.bad) for one in blocks)

    def all_can_be_had(self) -> bool:
        """Cells in use are apart, and beside them there is a block for every other, healthy or not."""
        taken = self.taken()
        assert len(taken) == sum(len(gpus) for _, gpus in self.at.values())
        return self.can_have(self.owed(), taken)

    def can_have(self, sizes: list[int], taken: set[int]) -> bool:
        """Whether there is a block for each of `sizes` beside what is taken."""
        for size in sorted(sizes, reverse=True):
            blocks = [block(begin, size) for begin in range(0, self.gpus, size)]
            own = next((one for one in blocks if taken.isdisjoint(one)), None)
            if own is None:
                return False
            taken = taken | own
        return True


def top_of(cell: Virtual) -> Virtual:
    return cell if cell.parent is None else top_of(cell.parent)


def drawn(draw: random.Random, gpus: int) -> tuple[dict[str, list[int]], dict[str, tuple[str, int, int]]]:
    """Cells of three tenants, about as many as there are, and fixed ones: tenant, first GPU and size."""
    left, owned, pins = gpus, {vc: list[int]() for vc in "ABC"}, {}
    for name in ("p", "q")[: draw.randint(0, 2)]:
        size = draw.choice(SIZES)
        begin = draw.randrange(0, gpus, size)
        if all(block(begin, size).isdisjoint(block(at, other)) for _, at, other in pins.values()):
            pins[name] = draw.choice("ABC"), begin, size
            left -= size
    for _ in range(draw.randint(2, 8)):
        size = draw.choice(SIZES)
        if size <= left:
            left -= size
            owned[draw.choice("ABC")].append(size)
    return owned, pins


class Both:
    """The policy's cells and the naive ones, on the same cluster."""

    def __init__(self, draw: random.Random) -> None:
        racks = draw.randint(1, 3)
        gpus = racks * RACK
        self.owned, self.fixed = drawn(draw, gpus)
        tops = [
            physical_cell(KIND, 4, [2 * n, 2 * n + 1], range(RACK * n, RACK * (n + 1)), n)
            for n in range(racks)
        ]
        promises = [
            CellPromise(vc, "E", SIZES.index(s) + 1, 1) for vc, own in self.owned.items() for s in own
        ]
        promises.sort(key=lambda promise: -promise.level)
        self.naive = NaiveHardware(gpus, self.owned, {name: at for name, (_, at, _) in self.fixed.items()})
        for number, (vc, begin, size) in enumerate(self.fixed.values()):
            self.naive.at[-1 - number] = vc, block(begin, size)  # until its virtual cell is known
        self.is_legal = self.naive.all_can_be_had()
        pins = []
        for name, (vc, begin, size) in self.fixed.items():
            cell = next(leaf for top in tops for leaf in top.leaves if leaf.device == begin)
            while cell.size < size:
                assert cell.parent is not None
                cell = cell.parent
            pins.append(Pin(vc, name, cell))
        self.clusters = VirtualClusters({KIND: tops}, promises, pins)
        self.naive.at.clear()
        for name, (vc, begin, size) in self.fixed.items():
            key = id(self.clusters.vcs[vc].pins[name])
            self.naive.at[key], self.naive.pinned[name] = (vc, block(begin, size)), key

    def gang(self, draw: random.Random, name: str) -> Gang | None:
        """One more gang, of whoever owns something; None if that has no cells for it."""
        pin = draw.choice(["", "", *self.fixed])
        vc = self.fixed[pin][0] if pin else draw.choice("ABC")
        priority = draw.randint(0 if pin else -1, 3)
        if priority >= 0 and not pin and not self.owned[vc]:
            return None
        if vc not in self.clusters.vcs:
            return None
        pods = tuple(sorted(draw.choices(range(1, NODE + 1), k=draw.randint(1, 3))))
        return Gang(name, vc, priority, pods, pin=pin, lazy=draw.random() < 0.5)

    def ask(self, gang: Gang) -> GangPlan | None:
        """Its plan, if it has one, and whether it should."""
        naive, plan = self.naive, self.clusters.plan(gang)
        if gang.priority < 0:
            assert isinstance(plan, GangPlan) == can_hold(naive.idle(), gang.pods)
            return plan if isinstance(plan, GangPlan) else None
        fits = can_hold(naive.own_rooms(gang.vc, gang.pin, gang.priority), gang.pods)
        if plan == NOT_BOUND:
            assert fits
            assert naive.misses(gang)
            return None
        assert isinstance(plan, GangPlan) == fits, plan
        if not isinstance(plan, GangPlan):
            return None
        if can_hold(naive.own_rooms(gang.vc, gang.pin, 0), gang.pods):
            robbed = [leaf.gang for pod in plan.virtual for leaf in pod if leaf.gang is not None]
            assert not robbed, "nobody of its own is robbed where there is room without"
        return plan

    def hardware(self, draw: random.Random) -> None:
        """GPUs or whole nodes become bad, or good again."""
        size = draw.choice((1, NODE, NODE))
        begin = draw.randrange(0, self.naive.gpus, size)
        gpus = block(begin, size)
        if draw.random() < 0.5:
            fresh = sorted(gpus - self.naive.bad)
            self.naive.bad |= gpus
            self.clusters.spoil(self.clusters.leaf_of[gpu] for gpu in fresh)
        else:
            healed = sorted(gpus & self.naive.bad)
            self.naive.bad -= gpus
            self.clusters.heal(self.clusters.leaf_of[gpu] for gpu in healed)


@each_seed(100, 600, 3000, at_once=50)
def test_fixed_cells_bad_hardware_and_lazy_gangs(seed: int) -> None:
    draw = random.Random(seed)
    try:
        both = Both(draw)
    except PolicyError:
        return
    assert both.is_legal
    naive, clusters = both.naive, both.clusters
    breaks = draw.random() < 0.7
    for number in range(50):
        chance = draw.random()
        if naive.gangs and chance < 0.3:
            name = draw.choice(sorted(naive.gangs))
            clusters.stop(naive.gangs[name])
            naive.stop(name)
        elif breaks and chance < 0.45:
            both.hardware(draw)
        elif (gang := both.gang(draw, f"{number:02}")) is not None:
            plan = both.ask(gang)
            if plan is not None:
                naive.start(plan)
                clusters.start(plan)
        naive.follow_doom(clusters)
        assert naive.all_can_be_had()


@each_seed(100, 600, 3000, at_once=50)
def test_which_fixed_cells_leave_room_for_the_others(seed: int) -> None:
    draw = random.Random(seed)
    while True:
        try:
            both = Both(draw)
        except PolicyError:
            break
        assert both.is_legal
