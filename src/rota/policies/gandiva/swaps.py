"""Swap jobs on servers where counting GPUs decides: the common turn, without trying anything out."""

from __future__ import annotations

from rota.model.grants import Grant
from rota.scheduler.snapshot import Snapshot


class Swaps:
    """Who comes and who goes on servers where counting GPUs decides: everybody else keeps what he has."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._grants = snapshot.grants
        self._free = snapshot.occupancy.free
        self._sizes = snapshot.gpus_of
        self.grants: list[Grant] = []
        self.leaving: list[int] = []

    def swap(self, node: int, coming: list[int], leaving: list[int]) -> None:
        """Of the jobs that belong to `node`, `leaving` give way there, and `coming` run, in order."""
        held, sizes, first, bits = self._grants, self._sizes, self._free.first[node], self._free.devices[node]
        for row in leaving:
            for device in held[row].devices:
                bits |= 1 << (device - first)
        for row in coming:
            size = sizes[row]
            if size == 1:
                low = bits & -bits
                if low:
                    self.grants.append(Grant(row, (first + low.bit_length() - 1,)))
                    bits ^= low
            elif bits.bit_count() >= size:
                devices = []
                for _ in range(size):
                    low = bits & -bits
                    devices.append(first + low.bit_length() - 1)
                    bits ^= low
                self.grants.append(Grant(row, tuple(devices)))
        self.leaving += leaving
