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

    def swap(self, node: int, members: list[int], rows: list[int]) -> list[int]:
        """Of the jobs that belong to `node`, let `rows` run there and no others; returns who has to leave."""
        held, first, bits = self._grants, self._free.first[node], self._free.devices[node]
        stay = set(rows)
        leaving = [row for row in members if row in held and row not in stay]
        for row in leaving:
            for device in held[row].devices:
                bits |= 1 << (device - first)
        for row in rows:
            if row not in held and bits.bit_count() >= self._sizes[row]:
                devices = []
                for _ in range(self._sizes[row]):
                    low = bits & -bits
                    devices.append(first + low.bit_length() - 1)
                    bits ^= low
                self.grants.append(Grant(row, tuple(devices)))
        self.leaving += leaving
        return leaving
