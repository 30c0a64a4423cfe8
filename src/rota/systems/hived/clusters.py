"""Virtual clusters on one cluster: which gang gets which GPUs, and which gangs have to leave them.

Source    Zhao et al., "HiveD", OSDI 2020; HiveD's published code for what the paper leaves open

Nothing here depends on time.  A `GangPlan` is made without a trace; `start` and `stop` change the state, and
keep the invariant of every pool they touch.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from rota.errors import InputError
from rota.model.cells import CellKind
from rota.systems.hived.binding import Binder, Bound, bind, unbind
from rota.systems.hived.cells import (
    FREE,
    OPPORTUNISTIC,
    Gang,
    Physical,
    Virtual,
    below,
    count,
    virtual_cell,
)
from rota.systems.hived.doomed import Doom
from rota.systems.hived.packing import GangNodes, Packing
from rota.systems.hived.pool import FreeCells

HIGHEST_PRIORITY = 1000
"""Highest priority of the published system; Rota's own priorities are not limited."""
NOT_BOUND = "no cells that are healthy and will do for it can be had without breaking a promise to others"


Pods = list[list[Physical]]
"""GPUs of each pod."""
VirtualPods = list[list[Virtual]]


class CellPromise(NamedTuple):
    """A number of cells of one level that a virtual cluster owns, wherever they are."""

    vc: str
    kind: str
    level: int
    cells: int


class Pin(NamedTuple):
    """One cell that a virtual cluster owns for good, under a name."""

    vc: str
    name: str
    cell: Physical


@dataclass
class VirtualCluster:
    """The cells that one tenant owns."""

    name: str
    roots: dict[str, list[Virtual]] = field(default_factory=dict)
    """Cells by kind, as they were promised."""
    packings: dict[str, Packing[Virtual]] = field(default_factory=dict)
    pins: dict[str, Virtual] = field(default_factory=dict)
    pin_packings: dict[str, Packing[Virtual]] = field(default_factory=dict)
    _numbered: dict[str, dict[int, Virtual]] = field(default_factory=dict)

    @cached_property
    def gpus_by_type(self) -> dict[str, int]:
        """GPUs of its cells, fixed ones aside, of whatever kinds; for when all cells are there."""
        gpus: dict[str, int] = {}
        for packing in self.packings.values():
            for node in packing.nodes:
                gpus[node.kind.gpu_type] = gpus.get(node.kind.gpu_type, 0) + node.size
        return gpus

    def numbered(self, kind: str) -> dict[int, Virtual]:
        """Its virtual GPUs of a kind by number, fixed cells included; for when all cells are there."""
        known = self._numbered.get(kind)
        if known is None:
            pins = (root for root in self.pins.values() if root.kind.name == kind)
            known = {leaf.number: leaf for root in (*self.roots.get(kind, ()), *pins) for leaf in root.leaves}
            self._numbered[kind] = known
        return known


@dataclass
class GangPlan:
    """GPUs for a gang, and what has to happen first."""

    gang: Gang
    physical: list[list[Physical]]
    virtual: list[list[Virtual]]
    """Empty if it runs without a guarantee."""
    victims: list[Gang]
    """Gangs that have to stop."""
    demoted: list[Gang]
    """Gangs that go on without a guarantee."""


class VirtualClusters:
    """The state of all cells.  Kinds are searched in the order of `tops`.

    With `artifact` ties are broken as in the published code, which needs what happened before; else by the
    numbers of cells, so that what is bound says all.
    """

    def __init__(
        self,
        tops: Mapping[CellKind, Sequence[Physical]],
        promises: Iterable[CellPromise],
        pins: Iterable[Pin] = (),
        *,
        artifact: bool = False,
    ) -> None:
        self.kinds = {kind.name: kind for kind in tops}
        self.pools = {kind.name: FreeCells(kind, cells, swaps=artifact) for kind, cells in tops.items()}
        self.vcs: dict[str, VirtualCluster] = {}
        self._artifact = artifact
        self._numbers: dict[tuple[str, str], dict[int, int]] = {}
        for promise in promises:
            self._promise(promise)
        self.doom = {name: Doom(pool, self._roots_of(name)) for name, pool in self.pools.items()}
        self._low = {
            name: Packing(_node_cells(pool.kind, pool.tops), keeps_order=artifact)
            for name, pool in self.pools.items()
        }
        self.leaf_of = {
            leaf.device: leaf for pool in self.pools.values() for t in pool.tops for leaf in t.leaves
        }
        """GPU by device; of a device that two kinds have, the last one's."""
        for pin in pins:
            self._pin(pin)
        for vc in self.vcs.values():
            for name, roots in vc.roots.items():
                vc.packings[name] = Packing(_node_cells(self.kinds[name], roots), keeps_order=artifact)
        self.check()

    # -- what was promised -------------------------------------------------------------------------

    def _vc(self, name: str) -> VirtualCluster:
        return self.vcs.setdefault(name, VirtualCluster(name))

    def _root(self, kind: CellKind, level: int, vc: str) -> Virtual:
        return virtual_cell(kind, level, vc, self._numbers.setdefault((vc, kind.name), {}))

    def _promise(self, promise: CellPromise) -> None:
        kind = self.kinds[promise.kind]
        roots = self._vc(promise.vc).roots.setdefault(promise.kind, [])
        roots += [self._root(kind, promise.level, promise.vc) for _ in range(promise.cells)]
        self.pools[promise.kind].owe(promise.vc, promise.level, promise.cells)

    def _roots_of(self, kind: str) -> dict[str, list[Virtual]]:
        return {name: vc.roots[kind] for name, vc in self.vcs.items() if kind in vc.roots}

    def _pin(self, pin: Pin) -> None:
        kind, vc = pin.cell.kind, self._vc(pin.vc)
        root = self._root(kind, pin.cell.level, pin.vc)
        for cell in below(root):
            cell.pin = pin.name
        self.pools[kind.name].take(pin.cell)
        root.physical, pin.cell.virtual = pin.cell, root
        vc.pins[pin.name] = root
        vc.pin_packings[pin.name] = Packing(_node_cells(kind, [root]), keeps_order=self._artifact)

    def check(self) -> None:
        """Raise PolicyError if a promise could not be kept any more."""
        for pool in self.pools.values():
            pool.check()

    # -- health ------------------------------------------------------------------------------------

    def spoil(self, bad: Iterable[Physical]) -> None:
        """Note that these GPUs have become bad; gangs on them go on running."""
        for leaf in bad:
            self.pools[leaf.kind.name].spoil(leaf)
            self.doom[leaf.kind.name].settle()

    def heal(self, good: Iterable[Physical]) -> None:
        """Note that these GPUs are good again."""
        for leaf in good:
            self.pools[leaf.kind.name].heal(leaf)
            self.doom[leaf.kind.name].settle()

    # -- asking ------------------------------------------------------------------------------------

    def plan(self, gang: Gang, suggested: GangNodes | None = None) -> GangPlan | str:
        """Where `gang` could run now, or the reason why it cannot.

        `suggested` are the suitable nodes; None for all.  Raises InputError if it asks for what
        its virtual cluster does not have.
        """
        self._validate(gang)
        if gang.priority == OPPORTUNISTIC:
            return self._plan_low(gang, suggested)
        why = ""
        for _, packing in self._packings(gang):
            virtual = packing.pack(gang, suggested)
            if isinstance(virtual, str):
                why = why or virtual
                continue
            plan = self.bound(gang, virtual, suggested)
            if plan is not None:
                return plan
            why = NOT_BOUND
        return why

    def _validate(self, gang: Gang) -> None:
        vc = self.vcs.get(gang.vc)
        if vc is None and gang.vc:
            raise InputError(f"job {gang.name}: there is no virtual cluster {gang.vc}")
        if not OPPORTUNISTIC <= gang.priority <= HIGHEST_PRIORITY and self._artifact:
            raise InputError(
                f"job {gang.name}: priority {gang.priority} is none; expected -1 to {HIGHEST_PRIORITY}"
            )
        if gang.pin and (vc is None or gang.pin not in vc.pins):
            raise InputError(f"job {gang.name}: {gang.vc} has no fixed cell {gang.pin}")
        if gang.pin and gang.priority == OPPORTUNISTIC:
            raise InputError(f"job {gang.name}: an opportunistic job has no right to a fixed cell")
        if gang.priority > OPPORTUNISTIC and not self._packings(gang):
            types = " or ".join(gang.gpu_types)
            raise InputError(f"job {gang.name}: {gang.vc} has no cells of type {types}")

    def _packings(self, gang: Gang) -> list[tuple[str, Packing[Virtual]]]:
        """Kinds where `gang` may run in its virtual cluster."""
        vc = self.vcs[gang.vc]
        if gang.pin:
            name = vc.pins[gang.pin].kind.name
            return [(name, vc.pin_packings[gang.pin])] if self._will_do(gang, name) else []
        return [(n, vc.packings[n]) for n in self.kinds if n in vc.packings and self._will_do(gang, n)]

    def _will_do(self, gang: Gang, kind: str) -> bool:
        return gang.kind in ("", kind) and (not gang.gpu_types or self.kinds[kind].gpu_type in gang.gpu_types)

    def could_hold(self, gang: Gang) -> bool:
        """Whether its virtual cluster, empty and healthy, has room for `gang`."""
        return any(packing.could_hold(gang) for _, packing in self._packings(gang))

    def _plan_low(self, gang: Gang, suggested: GangNodes | None) -> GangPlan | str:
        """Idle GPUs of any tenant."""
        why = ""
        for name, packing in self._low.items():
            if not self._will_do(gang, name):
                continue
            physical = packing.pack(gang, suggested)
            if not isinstance(physical, str):
                return GangPlan(gang, physical, [], [], [])
            why = why or physical
        return why

    def bound(
        self, gang: Gang, virtual: list[list[Virtual]], suggested: GangNodes | None = None
    ) -> GangPlan | None:
        """The plan that puts `gang` on these GPUs of its virtual cluster; None if no suitable GPUs can.

        Its own plans keep to one kind; a caller that chose the GPUs may have taken nodes of several sizes.
        """
        wanted = [leaf for pod in sorted(virtual, key=len) for leaf in pod]
        others = dict.fromkeys(leaf.gang for leaf in wanted if leaf.gang is not None)
        demoted = [other for other in others if other.lazy]
        kept = [(other, other.virtual) for other in demoted]
        for other in demoted:
            self._demote(other)
        binding = self._binding(wanted, suggested)
        plan = None
        if binding is not None:
            physical = [[binding[id(leaf)] for leaf in pod] for pod in virtual]
            victims = dict.fromkeys(leaf.gang for pod in physical for leaf in pod if leaf.gang is not None)
            plan = GangPlan(gang, physical, virtual, list(victims), [d for d in demoted if d not in victims])
        for other, before in kept:
            self._promote(other, before)
        return plan

    def _binding(self, wanted: Sequence[Virtual], suggested: GangNodes | None) -> Bound | None:
        """A physical GPU for each of `wanted`, kind by kind; None if there are none that will do."""
        binding: Bound = {}
        for name in dict.fromkeys(leaf.kind.name for leaf in wanted):
            own = [leaf for leaf in wanted if leaf.kind.name == name]
            of_kind = Binder(self.pools[name], suggested).bind(own)
            if of_kind is None:
                return None
            binding |= of_kind
        return binding

    # -- doing -------------------------------------------------------------------------------------

    def start(self, plan: GangPlan) -> None:
        """Carry `plan` out: its victims stop, and demoted gangs go on without a guarantee."""
        for victim in plan.victims:
            self.leave_unchecked(victim)
        for other in plan.demoted:
            self._demote(other)
        self.hold_unchecked(plan.gang, plan.physical, plan.virtual)
        # Not before: a cell that victims leave is the heir's, and no other gang's meanwhile.
        self._settle(plan.gang, *plan.victims)
        for victim in plan.victims:
            victim.physical, victim.virtual = [], []

    def stop(self, gang: Gang) -> None:
        """Take back all that `gang` holds."""
        self.leave_unchecked(gang)
        self._settle(gang)
        gang.physical, gang.virtual = [], []

    def _settle(self, *gangs: Gang) -> None:
        for name in dict.fromkeys(leaf.kind.name for gang in gangs for leaf in _flat(gang.physical)):
            self.doom[name].settle()
            self.pools[name].check()

    def hold_unchecked(
        self, gang: Gang, physical: list[list[Physical]], virtual: list[list[Virtual]]
    ) -> None:
        """Mark these GPUs as held by `gang`; the caller checks what that does to promises."""
        gang.physical, gang.virtual = physical, virtual
        priority = gang.priority if virtual else OPPORTUNISTIC
        for leaf in _flat(physical):
            leaf.gang, leaf.priority = gang, priority
            count(leaf, priority, 1)
        for own, leaf in zip(_flat(virtual), _flat(physical), strict=False):
            own.gang, own.priority = gang, priority
            count(own, priority, 1)
            bind(own, leaf, self.pools[leaf.kind.name])

    def leave_unchecked(self, gang: Gang) -> None:
        """Take the GPUs of `gang`, which still names them."""
        for leaf in (*_flat(gang.physical), *_flat(gang.virtual)):
            count(leaf, leaf.priority, -1)
            leaf.gang, leaf.priority = None, FREE
        for own in _flat(gang.virtual):
            unbind(own, self.pools[own.kind.name])

    def _demote(self, gang: Gang) -> None:
        """Keep `gang` where it is, without its virtual cells (lazy preemption)."""
        physical = gang.physical
        self.leave_unchecked(gang)
        self.hold_unchecked(gang, physical, [])

    def _promote(self, gang: Gang, virtual: list[list[Virtual]]) -> None:
        physical = gang.physical
        self.leave_unchecked(gang)
        self.hold_unchecked(gang, physical, virtual)


def _flat(pods: list[list[Physical]] | list[list[Virtual]]) -> list:  # type: ignore[type-arg]
    return [leaf for pod in pods for leaf in pod]


def _node_cells(kind: CellKind, tops: Sequence) -> list:  # type: ignore[type-arg]
    """Node cells in `tops`, then those that are smaller than a node, larger ones first."""
    small = sorted((cell for cell in tops if cell.level < kind.node_level), key=lambda cell: -cell.level)
    large = [cell for top in tops for cell in below(top) if cell.level == kind.node_level]
    return large + small
