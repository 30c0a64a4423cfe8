"""Whose turn it is: stride scheduling inside servers, and across those that big jobs share.

A pass counts quanta: a job that gets exactly what it is due on its servers advances by one in each.  What
it is due is its tickets' part of their GPUs, and no more than it can use: so no job falls behind for want
of what it could not have used anyway, and newcomers that start with the least pass take nothing from others.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from rota.model.columns import Ints
from rota.model.grants import Grant
from rota.scheduler.decision import Memory
from rota.scheduler.snapshot import Snapshot
from rota.solvers.stride import BigGang, StrideGang, advance, in_turn, split_turn
from rota.solvers.water import fill
from rota.stages.runners import Runner, RunnerPlacement
from rota.stages.turn_lengths import TurnLengths
from rota.systems.gandiva_fair.servers import Servers
from rota.table.free import mask_of
from rota.table.occupancy import EPSILON

_LEAD = 10.0
"""Turns that a job may be ahead of the last one, each as long as the slowest job's period: GPU time that no
other job could use is not held against it longer."""


class StrideTurns:
    """The turns in `memory`, and the next one."""

    def __init__(self, snapshot: Snapshot, memory: Memory, quantum_s: float) -> None:
        self.snapshot = snapshot
        self.now = snapshot.now
        self.memory = memory
        self.quantum_s = quantum_s
        self.passed: dict[int, float] = memory["passed"]
        self.entries: dict[int, float] = memory["servers"]
        """Passes of the small jobs of servers."""
        self.is_over = self.now >= memory["ends_s"] - EPSILON
        """True if a new turn begins now."""
        self.lengths = TurnLengths(snapshot, memory, quantum_s)

    @property
    def ends_s(self) -> float:
        """End of the turn; infinite while no job waits for one."""
        ends_s: float = self.memory["ends_s"]
        return ends_s if ends_s > self.now else math.inf

    # -- what has been received --------------------------------------------------------------------

    def count(self, live: Ints) -> None:
        """Count the service received since the last call by jobs that take turns."""
        since_s, grants = self.memory["counted_s"], self.snapshot.grants
        start_s, due = self.snapshot.by_row.since_s, self.memory["due"]
        for row in live.tolist():
            if row in due and row in grants:
                part = (self.now - max(since_s, start_s.item(row))) / self.quantum_s
                held = len(grants[row].devices) * grants[row].share
                self.passed[row] = advance(self.passed[row], part, held, due[row])
        for node, (held, share) in self.memory["ran"].items():
            part = (self.now - since_s) / self.quantum_s
            self.entries[node] = advance(self.entries.get(node, 0.0), part, held, share)
        self.memory["counted_s"] = self.now

    def join(self, servers: Servers, row: int) -> None:
        """Add `row` to its servers: it starts with the least pass there."""
        parts = servers.parts_of[row]
        if len(parts) == 1:
            others = servers.small(next(iter(parts)))
        else:
            others = sorted({other for node in parts for other in servers.big(node)})
        passes = [self.passed[other] for other in others if other != row and other in self.passed]
        if len(parts) > 1:
            passes += [self.entries[node] for node in parts if node in self.entries]
        self.passed[row] = min(passes, default=0.0)

    # -- the next turn -----------------------------------------------------------------------------

    def together(self, servers: Servers, nodes: Iterable[int]) -> set[int]:
        """`nodes`, and all servers that share big jobs with them, directly or not."""
        reached, left = set[int](), list(nodes)
        while left:
            node = left.pop()
            if node not in reached:
                reached.add(node)
                left += [other for row in servers.big(node) for other in servers.parts_of[row]]
        return reached

    def runners(self, servers: Servers, nodes: set[int], places: RunnerPlacement) -> Iterator[Runner]:
        """The jobs that run from now on on `nodes`: as a new turn, or beside jobs whose turn goes on."""
        for node in nodes:
            self._set_passes(servers, node)
        room = {node: float(servers.gpus[node]) for node in sorted(nodes)}
        bigs = sorted({row for node in nodes for row in servers.big(node)})
        chosen = self._big(servers, bigs, room)
        yield from self._admitted(servers, chosen, places, room)
        for node in room:
            fits = places.tester(1 << node, int(room[node]))
            for row in self._small(servers, node):
                if fits(row):
                    room[node] -= self._demand(row)
                    yield self._runner(servers, row)
        # More may be left to small jobs than they may use: under a quota, for instance.
        others = in_turn([self._gang(row) for row in bigs if row not in chosen])
        yield from self._admitted(servers, [gang.key for gang in others], places, room)

    def _admitted(
        self, servers: Servers, bigs: Sequence[int], places: RunnerPlacement, room: dict[int, float]
    ) -> Iterator[Runner]:
        """The jobs of `bigs`, in order, that find their GPUs in `room`, from which they are taken."""
        for row in bigs:
            parts, runner = servers.parts_of[row], self._runner(servers, row)
            if all(room[node] >= gpus - EPSILON for node, gpus in parts.items()) and places.admits(runner):
                for node, gpus in parts.items():
                    room[node] -= gpus
                yield runner

    def _set_passes(self, servers: Servers, node: int) -> None:
        """Give every job on the server a pass, not far ahead of the last."""
        rows = servers.small(node)
        least = min((self.passed[row] for row in rows if row in self.passed), default=0.0)
        most = least + _LEAD * max(map(self._stride, rows), default=1.0)
        for row in rows:
            self.passed[row] = min(self.passed.get(row, least), most)
        bigs = servers.big(node)
        if not bigs:
            self.entries.pop(node, None)
            return
        entries = [self.passed[row] for row in bigs if row in self.passed]
        least = min([*entries, *([self.entries[node]] if node in self.entries else [])], default=0.0)
        for row in bigs:
            self.passed.setdefault(row, least)
        held, due = self.memory["ran"].get(node, (0.0, 1.0))
        most = least + _LEAD * max(1.0, held / max(due, EPSILON), *map(self._stride, bigs))
        self.entries[node] = min(self.entries.get(node, least), most)

    def _stride(self, row: int) -> float:
        """The advance of `row` in a turn, as far as what it is due is known."""
        due: float = self.memory["due"].get(row, math.inf)
        return max(self._demand(row) / max(due, EPSILON), 1.0) * self.lengths.times(row)

    def _gang(self, row: int) -> StrideGang:
        return StrideGang(self.passed[row], self._demand(row), row)

    def _demand(self, row: int) -> float:
        share: float = self.snapshot.jobs.table.gpu_share.item(row)
        return self.snapshot.gpus_of[row] * share

    def _stays(self, servers: Servers, row: int) -> bool:
        """True if its turn continues: it runs where it belongs."""
        grant = self.snapshot.grants.get(row)
        if grant is None or (self.is_over and not self.lengths.goes_on(row)):
            return False
        node_of = self.snapshot.occupancy.free.node_of
        return all(node_of[device] in servers.parts_of[row] for device in grant.devices)

    def _big(self, servers: Servers, rows: Sequence[int], room: dict[int, float]) -> list[int]:
        """Jobs on several servers that are to run; in the middle of a turn only where GPUs are idle."""
        bigs = [BigGang(self._gang(row), servers.parts_of[row]) for row in rows]
        stay = [row for row in rows if self._stays(servers, row)]
        left = dict(room)
        for row in (row for node in room for row in servers.small(node) if self._stays(servers, row)):
            left[next(iter(servers.parts_of[row]))] -= self._demand(row)
        for row in stay:
            for node, gpus in servers.parts_of[row].items():
                left[node] -= gpus
        entries = [self._entry(servers, node) for node in room] if self.is_over else []
        return stay + split_turn([big for big in bigs if big.gang.key not in stay], entries, left)

    def _entry(self, servers: Servers, node: int) -> StrideGang:
        """The small jobs of a server as one entry, except jobs whose turns go on."""
        asked = sum(self._demand(row) for row in servers.small(node) if not self._stays(servers, row))
        return StrideGang(self.entries.get(node, 0.0), min(asked, servers.gpus[node]), node)

    def _small(self, servers: Servers, node: int) -> list[int]:
        """The jobs of a server in order, with jobs whose turn goes on first."""
        gangs = in_turn([self._gang(row) for row in servers.small(node)])
        stay = [gang.key for gang in gangs if self._stays(servers, gang.key)]
        return stay + [gang.key for gang in gangs if gang.key not in stay]

    def _runner(self, servers: Servers, row: int) -> Runner:
        parts = sorted(servers.parts_of[row].items())
        nodes = mask_of([node for node, _ in parts])
        return Runner(row, nodes, self.snapshot.gpus_of[row], parts=parts if len(parts) > 1 else ())

    # -- what is remembered ------------------------------------------------------------------------

    def note(self, servers: Servers, grants: Iterable[Grant], leaving: Iterable[int]) -> None:
        """Remember which jobs take turns, what they are due, and when the turn ends."""
        self.lengths.end_all(leaving, grants)
        runs = (self.snapshot.grants.keys() | {grant.job for grant in grants}) - set(leaving)
        waits = {row for row in servers.parts_of if row not in runs}
        nodes = self.together(servers, {node for row in waits for node in servers.parts_of[row]})
        self.memory["due"], self.memory["ran"] = {}, {}
        local = self._note_split(servers, nodes, runs)
        for node in sorted(nodes):
            rows = servers.small(node)
            self._note_due(servers, rows, local.get(node, float(servers.gpus[node])))
        if not nodes:
            self.memory["ends_s"] = -math.inf
        elif self.is_over:
            self.memory["ends_s"] = self.now + self.quantum_s

    def _note_split(self, servers: Servers, nodes: set[int], runs: set[int]) -> dict[int, float]:
        """Note what big jobs, and servers with parts of them, are due; returns it for the servers."""
        bigs = sorted({row for node in nodes for row in servers.big(node)})
        if not bigs:
            return {}
        shared = sorted({node for row in bigs for node in servers.parts_of[row]})
        small = [servers.small(node) for node in shared]
        tickets = [servers.due(row) for row in bigs] + [sum(map(servers.due, rows)) for rows in small]
        asked = [
            min(sum(map(self._demand, rows)), float(servers.gpus[node]))
            for node, rows in zip(shared, small, strict=True)
        ]
        most = np.array([self._demand(row) for row in bigs] + asked)
        capacity = float(sum(servers.gpus[node] for node in shared))
        due = fill(capacity, np.array(tickets), most).tolist()
        self.memory["due"].update(zip(bigs, due, strict=False))
        local = dict(zip(shared, due[len(bigs) :], strict=True))
        for node, rows in zip(shared, small, strict=True):
            if rows:
                held = sum(self._demand(row) for row in rows if row in runs)
                self.memory["ran"][node] = [held, local[node]]
        return local

    def _note_due(self, servers: Servers, rows: Sequence[int], capacity: float) -> None:
        most = np.array([self._demand(row) for row in rows])
        due = fill(capacity, np.array([servers.due(row) for row in rows]), most)
        self.memory["due"].update(zip(rows, due.tolist(), strict=True))
