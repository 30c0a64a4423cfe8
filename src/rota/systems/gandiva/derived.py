"""Data derived from homes and the job table, kept between decisions: jobs without a home, ends of turns.

All of it is a cache; dropped, it is built again from the memory and the snapshot.
"""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections.abc import Callable
from heapq import heapify, heappop, heapreplace
from typing import Any

from rota.model.grants import Grant
from rota.scheduler.decision import Memory
from rota.scheduler.snapshot import Cursor, Snapshot
from rota.stages.grounds import Grounds
from rota.systems.gandiva.servers import ServerGroups

LEAST_TURN = 0.5
"""Part of a quantum that a turn lasts at least, unless a job leaves."""


class Homeless:
    """Waiting rows without a home, in order of submission: lists by kind of request."""

    def __init__(self) -> None:
        self._rows: dict[int, list[int]] = {}
        self._kind_of: dict[int, int] = {}
        self.refused: set[int] = set()
        """Kinds for which there was no home at the last attempt, and no home has changed since."""

    def __len__(self) -> int:
        return len(self._kind_of)

    def add(self, row: int, kind: int) -> None:
        """Note that `row`, which asks for `kind`, has no home, unless that is known."""
        if row not in self._kind_of:
            self._kind_of[row] = kind
            insort(self._rows.setdefault(kind, []), row)

    def discard(self, row: int) -> None:
        """Remove `row`: it needs no home any more, if it did."""
        kind = self._kind_of.pop(row, -1)
        if kind >= 0:
            rows = self._rows[kind]
            del rows[bisect_left(rows, row)]
            if not rows:
                del self._rows[kind]

    def serve(self, admit: Callable[[int], bool]) -> None:
        """Ask for each row in order; one that is refused stands for all of its kind.

        Room only shrinks on the way, so the others would be refused as well.
        """
        fronts = [(rows[0], kind) for kind, rows in self._rows.items() if kind not in self.refused]
        heapify(fronts)
        while fronts:
            row, kind = fronts[0]
            if not admit(row):
                self.refused.add(kind)
                heappop(fronts)
                continue
            self.discard(row)
            if kind in self._rows:
                heapreplace(fronts, (self._rows[kind][0], kind))
            else:
                heappop(fronts)


class TurnEnds:
    """When the turns of homes end: few moments, since turns end together where they can."""

    def __init__(self, quantum_s: float) -> None:
        self.quantum_s = quantum_s
        self.ends: dict[Any, set[int]] = {}
        """Homes whose turns end at each moment."""
        self.end_of: dict[Any, float] = {}
        """End of the turn of each home that has one."""

    def note(self, key: int, end_s: float) -> None:
        """Note that the turn of home `key` ends then; infinite if it has none."""
        before = self.end_of.pop(key, math.inf)
        if before < math.inf:
            keys = self.ends[before]
            keys.discard(key)
            if not keys:
                del self.ends[before]
        if end_s < math.inf:
            self.end_of[key] = end_s
            self.ends.setdefault(end_s, set()).add(key)

    def give_up(self, keys: set[int]) -> None:
        """End the turns of these homes before their time: no other turn is to end with them."""
        for key in keys & self.end_of.keys():
            self.note(key, math.inf)

    def renew(self, key: int, now: float, switch_s: float) -> float:
        """Begin a turn of home `key` now, whether the last one is over or not; returns when it ends."""
        if key in self.end_of:
            self.note(key, math.inf)
        end_s = self.end_s(now, switch_s)
        self.end_of[key] = end_s
        self.ends.setdefault(end_s, set()).add(key)
        return end_s

    def next_end_s(self) -> float:
        return min(self.ends, default=math.inf)

    def take_over(self, now: float) -> set[int]:
        """Homes whose turn ends now, or has ended: from now on they have none."""
        over = set[int]()
        for end_s in [end_s for end_s in self.ends if end_s <= now]:
            over |= self.ends.pop(end_s)
        for key in over:
            del self.end_of[key]
        return over

    def end_s(self, now: float, switch_s: float) -> float:
        """When a turn that begins now is to end: a quantum, and what its switch takes, from now.

        It ends with another turn that ends within its second half: then turns end at no more than two moments
        in a quantum, however many homes there are.
        """
        least_s, most_s = now + self.quantum_s * LEAST_TURN, now + self.quantum_s + switch_s
        if most_s in self.ends:
            return most_s
        return max([end_s for end_s in self.ends if least_s <= end_s <= most_s], default=most_s)


class Derived:
    """Everything that is kept for one memory and one table."""

    def __init__(self, memory: Memory, grounds: Grounds, quantum_s: float) -> None:
        self.memory = memory
        self.grounds = grounds
        self.homes = ServerGroups(memory["homes"], memory["home_of"], grounds.demand.__getitem__)
        self.homeless = Homeless()
        self.without_gpus: set[int] = set()
        """Rows that wait and ask for no GPU."""
        self.turns = TurnEnds(quantum_s)
        self.devices_of: list[dict[int, tuple[int, ...]]] = [{} for _ in range(grounds.cluster.nodes)]
        """Per node, the devices behind each mask of its devices that a job has been given."""
        self.grant_of: dict[Any, Grant] = {}
        """Per job, its last grant: in most turns it gets the same again."""
        self.growing: set[int] = set()
        """Homes that have GPUs to spare for an elastic job."""
        self.gpus: list[int] | None = None
        """GPUs of each node, as last looked at."""
        self.down: set[int] | None = None
        """Devices that were down, as last looked at."""
        for key in self.homes.homes:
            self.note(key)

    def news(self, snapshot: Snapshot, cursor: Cursor) -> list[int] | None:
        """Rows to look at, None for all: a job keeps its home, whether it runs or waits for its turn."""
        return (snapshot.joined_or_left if self.grounds.all_ask_for_gpus else snapshot.changes)(cursor)

    def note(self, key: int) -> None:
        """Note that the turn or idle time of home `key` has changed, or that it is no home any more."""
        home = self.homes.homes.get(key)
        self.turns.note(key, math.inf if home is None else home["turn_ends_s"])
        if home is not None and home["idle_since_s"] < math.inf:
            self.growing.add(key)
        else:
            self.growing.discard(key)
