"""Topology-aware packing: the pods of a gang on as few nodes as possible, on GPUs as close as possible.

Source    HiveD's published code; Zhao et al., "HiveD", OSDI 2020, section 3.1
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from typing import Generic, Protocol

from rota.systems.hived.cells import FREE, OPPORTUNISTIC, AnyCell, Gang, Physical, ancestor
from rota.systems.hived.rooms import Rooms

MOST_TRIES = 10_000
"""Most ways that are tried to put one gang on nodes."""
TOO_FEW = "its cells have too few GPUs free"
ONLY_BAD = "what its cells have free is on nodes that are lost or not healthy"
ONLY_OTHERS = "what its cells have free is on nodes that will not do for it"


class GangNodes(Protocol):
    """Suitable nodes for a gang; a set is one."""

    def isdisjoint(self, other: Iterable[int], /) -> bool: ...


class Packing(Generic[AnyCell]):
    """Packs gangs on `nodes`, cells of one tree: node cells, or smaller ones that stand alone.

    With `keeps_order` equal nodes stay in the order of the last call, as in the published code; else they
    are in the order given.
    """

    def __init__(self, nodes: Sequence[AnyCell], *, keeps_order: bool = False) -> None:
        self.nodes: list[AnyCell] = list(nodes)
        self.largest = max((node.size for node in self.nodes), default=0)
        """GPUs of the largest node."""
        self.keeps_order = keeps_order
        self._could_hold: dict[tuple[tuple[int, ...], int], bool] = {}
        """By the pods, and the GPUs of them that one node can feed."""
        self._rooms: Rooms[AnyCell] | None = None if keeps_order else Rooms(self.nodes)

    def pack(self, gang: Gang, suggested: GangNodes | None) -> list[list[AnyCell]] | str:
        """GPUs of each pod, in the order of `gang.pods`, or why there are none.

        No gang is stopped if that can be done without; else gangs of a lower priority may be.
        `suggested` are the suitable nodes; None for all.
        """
        order = sorted(range(len(gang.pods)), key=gang.pods.__getitem__)
        nodes: list[AnyCell] | str = TOO_FEW
        priority = OPPORTUNISTIC
        for priority in dict.fromkeys((OPPORTUNISTIC, gang.priority)):
            if priority > OPPORTUNISTIC and self._rooms is not None and not self._rooms.has_more(priority):
                priority = OPPORTUNISTIC
                break  # no gang is there that would have to stop
            nodes = self._nodes_for(gang, order, priority, suggested)
            if not isinstance(nodes, str):
                break
        if isinstance(nodes, str):
            return nodes
        taken: set[int] = set()
        gpus: list[list[AnyCell]] = [[] for _ in gang.pods]
        for pod, node in zip(order, nodes, strict=True):
            gpus[pod] = closest(node, gang.pods[pod], priority, taken)
            taken.update(id(leaf) for leaf in gpus[pod])
        return gpus

    def could_hold(self, gang: Gang) -> bool:
        """Whether all pods have room while no other gang is there."""
        asked = gang.pods, gang.most_per_node
        if asked not in self._could_hold:
            self._could_hold[asked] = self._holds(gang)
        return self._could_hold[asked]

    def _holds(self, gang: Gang) -> bool:
        rooms = [min(node.size, gang.most_per_node) for node in self.nodes]
        for pod in sorted(gang.pods, reverse=True):
            at = max(range(len(rooms)), key=rooms.__getitem__, default=-1)
            if at < 0 or rooms[at] < pod:
                return False
            rooms[at] -= pod
        return True

    def _nodes_for(
        self, gang: Gang, order: Sequence[int], priority: int, suggested: GangNodes | None
    ) -> list[AnyCell] | str:
        """A node for each pod, the smallest first; greedily, and if that finds none by backtracking.

        The published code never backtracks.
        """
        picked: list[AnyCell] = []
        good: list[AnyCell] = []
        others: list[AnyCell] = []
        for node in self._ranked(gang, gang.pods[order[0]], priority, suggested):
            if _is_bad(node) or not _is_suggested(node, suggested):
                others.append(node)
                continue
            good.append(node)
            room = min(node.free_for(priority), gang.most_per_node)
            while room >= gang.pods[order[len(picked)]]:
                room -= gang.pods[order[len(picked)]]
                picked.append(node)
                if len(picked) == len(order):
                    return picked
        why = _others_why(others, gang, gang.pods[order[len(picked)]], priority, suggested)
        if self.keeps_order or len(set(gang.pods)) == 1:  # of equal pods as many fit one way as another
            return why
        rooms = [min(node.free_for(priority), gang.most_per_node) for node in good]
        places = places_of([gang.pods[pod] for pod in reversed(order)], rooms)
        return why if places is None else [good[place] for place in reversed(places)]

    def _ranked(
        self, gang: Gang, least: int, priority: int, suggested: GangNodes | None
    ) -> Iterable[AnyCell]:
        """Nodes that may have room for `least` GPUs of `gang`: suitable ones in the order of `_rank`."""
        if self._rooms is not None:
            return self._rooms.in_order(priority, least, is_low=gang.priority == OPPORTUNISTIC)
        self.nodes = sorted(self.nodes, key=lambda node: self._rank(node, gang, suggested))
        return self.nodes

    def _rank(self, node: AnyCell, gang: Gang, suggested: GangNodes | None) -> tuple[bool, bool, int, int]:
        """Healthy and suggested ones first, then the most used; opportunists keep away from others."""
        used = node.busy
        higher = 0
        if gang.priority == OPPORTUNISTIC:
            own = node.used.get(OPPORTUNISTIC, 0)
            used, higher = own, used - own
        return _is_bad(node), not _is_suggested(node, suggested), -used, higher


def places_of(pods: Sequence[int], rooms: list[int]) -> list[int] | None:
    """A place among `rooms` for each of `pods`, which come largest first; None if none is found.

    All ways are tried, early rooms first, but for `MOST_TRIES`.
    """
    for size in set(pods):
        if sum(room // size for room in rooms) < sum(pod >= size for pod in pods):
            return None
    places: list[int] = []
    tries = 0

    def place_next() -> bool:
        nonlocal tries
        if len(places) == len(pods):
            return True
        pod = pods[len(places)]
        is_alike = bool(places) and pods[len(places) - 1] == pod
        tried = set[int]()
        for at in range(places[-1] if is_alike else 0, len(rooms)):
            room = rooms[at]
            if room < pod or room in tried or tries > MOST_TRIES:
                continue
            tried.add(room)
            tries += 1
            places.append(at)
            rooms[at] -= pod
            if place_next():
                return True
            rooms[at] += pod
            places.pop()
        return False

    return places if place_next() else None


def _served_by(node: AnyCell) -> Physical | None:
    return node if isinstance(node, Physical) else node.physical


def _is_bad(node: AnyCell) -> bool:
    """False for a virtual node that no physical one serves: it may yet get a healthy one."""
    served_by = _served_by(node)
    return served_by is not None and served_by.is_bad


def _is_suggested(node: AnyCell, suggested: GangNodes | None) -> bool:
    served_by = _served_by(node)
    return suggested is None or served_by is None or not suggested.isdisjoint(served_by.nodes)


def _others_why(
    others: Iterable[AnyCell], gang: Gang, pod: int, priority: int, suggested: GangNodes | None
) -> str:
    """Why there is no node for `pod`: unsuitable nodes may have room."""
    reasons = set()
    for node in others:
        if min(node.free_for(priority), gang.most_per_node) >= pod:
            reasons.add((_is_bad(node), not _is_suggested(node, suggested)))
    if not reasons:
        return TOO_FEW
    is_bad, _ = min(reasons)
    return ONLY_BAD if is_bad else ONLY_OTHERS


def closest(node: AnyCell, gpus: int, priority: int, taken: Set[int]) -> list[AnyCell]:
    """`gpus` GPUs of `node` in the smallest cell that has them, the first such; free ones first."""
    free = [leaf for leaf in node.leaves if leaf.priority == FREE and id(leaf) not in taken]
    held = [leaf for leaf in node.leaves if FREE < leaf.priority < priority and id(leaf) not in taken]
    candidates = free + held
    for level in range(1, node.level + 1):
        if node.kind.gpus(level) < gpus:
            continue
        cells: dict[int, list[AnyCell]] = {}
        for leaf in candidates:
            cells.setdefault(id(ancestor(leaf, level)), []).append(leaf)
        for members in cells.values():
            if len(members) >= gpus:
                return members[:gpus]
    raise AssertionError("a node was chosen that has too few GPUs")
