"""Swap jobs on servers where counting GPUs decides: the common turn, without trying anything out."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from rota import native
from rota.model.grants import Grant
from rota.model.whole import MODEL, whole_grant
from rota.scheduler.snapshot import Snapshot

SOURCE: Final = Path(__file__).with_name("turns.c")  # compiled, this file ends differently
FUNCTIONS: Final[Mapping[str, Any]] = native.functions(SOURCE)
TAKE_TURNS: Final[Any] = FUNCTIONS.get("take_turns")
"""The turns of one moment in C, with the same answers, as far as they are common; None where it is not built."""

DevicesOf = list[dict[int, tuple[int, ...]]]
"""Per node, the devices behind each mask of its devices that somebody has been given."""

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

    def places(self) -> tuple[Any, ...]:
        """What `TAKE_TURNS` reads to give devices: who holds which, which are free on which nodes, and what is kept."""
        return self._grants, self._free.devices, self._free.first, self._devices_of, self._grant_of, MODEL

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
