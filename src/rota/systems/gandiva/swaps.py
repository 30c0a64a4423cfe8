"""Swap jobs on servers where counting GPUs decides: the common turn, without trying anything out."""

from __future__ import annotations

from typing import Any

from rota.model.grants import Grant
from rota.model.whole import whole_grant
from rota.scheduler.snapshot import Snapshot
from rota.stages.place import consolidate

DevicesOf = list[dict[Any, tuple[int, ...]]]
"""Per node, the devices behind each mask of its devices that somebody has been given; those that begin there
and lie on several nodes stand for themselves."""

GrantOf = dict[Any, Grant]
"""Per job, what it was given last: in most turns it gets the same again."""


class Swaps:
    """Who comes and who goes on servers where counting GPUs decides: everybody else keeps what he has."""

    def __init__(self, snapshot: Snapshot, devices_of: DevicesOf, grant_of: GrantOf) -> None:
        self._grants = snapshot.grants
        self._free = snapshot.occupancy.free
        self._sizes = snapshot.gpus_of
        self._devices_of = devices_of
        self._grant_of = grant_of
        self.grants: list[Grant] = []
        self.leaving: list[int] = []

    def swap(self, node: int, coming: list[int], leaving: list[int]) -> None:
        """Of the jobs that belong to `node`, `leaving` give way there, and `coming` run, in order."""
        held, sizes, first, bits = self._grants, self._sizes, self._free.first[node], self._free.devices[node]
        grant_of = self._grant_of
        row: Any  # it stays the object that it is: as an int it would be made anew wherever it is looked up
        for row in leaving:
            for device in held[row][1]:
                bits |= 1 << (device - first)
        for row in coming:
            size: int = sizes[row]
            mask = lowest(bits, size)
            if mask:
                bits ^= mask
                devices = self._devices(node, first, mask)
                grant = grant_of.get(row)
                if grant is None or grant[1] is not devices:
                    grant = grant_of[row] = whole_grant(row, devices)
                self.grants.append(grant)
        self.leaving += leaving

    def place(self, runners: list[tuple[int, int]], running: list[int]) -> tuple[list[Grant], list[int]]:
        """Devices for `runners`, each with the mask of its nodes, where `running` of their homes hold some.

        Who runs on its nodes stays; the others get what is free or left there, in order, on as few nodes as
        possible.  Returns grants to those who come or move, and who leaves.
        """
        held, free = self._grants, self._free.copy()
        stay = {row for row, nodes in runners if row in held and self._are_within(held[row][1], nodes)}
        for row in running:
            if row not in stay:
                free.put_all(held[row][1])
        grants: list[Grant] = []
        for row, nodes in runners:
            if row not in stay:
                devices = consolidate(free, self._sizes[row], nodes)
                if devices is not None:
                    grants.append(self._grant(row, devices))
        moved = {grant[0] for grant in grants}
        return grants, [row for row in running if row not in stay and row not in moved]

    def _are_within(self, devices: tuple[int, ...], nodes: int) -> bool:
        node_of = self._free.node_of
        return all(nodes >> node_of[device] & 1 for device in devices)

    def _grant(self, row: Any, devices: tuple[int, ...]) -> Grant:
        """`devices` for `row`: the tuple, and the grant, that it had of them before."""
        node, last = self._free.node_of[devices[0]], self._free.node_of[devices[-1]]
        if node == last:
            first, mask = self._free.first[node], 0
            for device in devices:
                mask |= 1 << (device - first)
            known = self._devices(node, first, mask)
        else:
            known = self._devices_of[node].setdefault(devices, devices)
        grant = self._grant_of.get(row)
        if grant is None or grant[1] is not known:
            grant = self._grant_of[row] = whole_grant(row, known)
        return grant

    def _devices(self, node: int, first: int, mask: int) -> tuple[int, ...]:
        """The devices in `mask` of `node`, which begin at `first`: one tuple for all who get them."""
        known = self._devices_of[node]
        devices = known.get(mask)
        if devices is None:
            places = [place for place in range(mask.bit_length()) if mask >> place & 1]
            devices = known[mask] = tuple([first + place for place in places])
        return devices


def lowest(bits: int, count: int) -> int:
    """The `count` lowest of the bits that are set; 0 if there are fewer."""
    rest = bits
    for _ in range(count):
        if not rest:
            return 0
        rest &= rest - 1
    return bits ^ rest
