"""One decision of Gandiva, step by step: who belongs where, who is tried beside whom, whose turn it is.

Memory    `homes`    servers with the jobs that belong to them (`stages.homes`), by lowest node
          `home_of`  home of each placed job
          `queue`    jobs without a home, in the order in which they came
          `refused`  how many of them, from the head, have asked since a home last changed
          `down`     nodes that are lost
          `gpus`     GPUs of each node: live, nodes join, and may come back with other devices
          `alone`    rate of each job when it last ran alone on what it asked for
          `bad`      per job, the jobs it was parted from because sharing did not pay
          `moves`    per moved job: home before, rate before, moment at which to compare
          `barred`   per job, the homes it was sent back from
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from rota.model.grants import Grant, Leave, Role
from rota.policies.gandiva.migration import defragment, relieve
from rota.policies.gandiva.pairing import Trials
from rota.policies.gandiva.parameters import GandivaParameters
from rota.policies.gandiva.placement import Placement, Seat, demand_of
from rota.policies.gandiva.server_groups import Grounds, ServerGroup, ServerGroups, members
from rota.policies.gandiva.turns import TAKES_TURNS, join_turn, take_turn
from rota.scheduler.decision import Decision, Event, Memory, Wake
from rota.scheduler.snapshot import Snapshot
from rota.scheduler.stages.resize import feasible_counts
from rota.table.free import mask_of
from rota.table.state import Phase

_PENDING, _RUNNING, _ALONE = int(Phase.PENDING), int(Phase.RUNNING), int(Role.ALONE)


class GandivaDecision:
    """What Gandiva does at one moment."""

    def __init__(
        self,
        snapshot: Snapshot,
        memory: Memory,
        parameters: GandivaParameters,
        grounds: Grounds,
        changed: Sequence[int] | None,
    ) -> None:
        self.snapshot = snapshot
        self.memory = memory
        self.p = parameters
        self.grounds = grounds
        self.changed = changed
        """Rows about which there is news; None if any may have changed."""
        self.now = snapshot.now
        self.jobs = snapshot.jobs.table
        self.sizes = snapshot.gpus_of
        self.gpus = snapshot.occupancy.free.size
        is_new = not memory
        if is_new:
            memory.update(homes={}, home_of={}, queue=[], refused=0, down=[], gpus=[])
            memory.update(alone={}, bad={}, moves={}, barred={})
        self.homes = ServerGroups(memory["homes"], memory["home_of"], demand_of(snapshot))
        self.trials = Trials(snapshot, self.homes, memory["alone"], memory["bad"], parameters.pack_gain)
        self.queue: list[int] = memory["queue"]
        self.due: set[int] = set()
        """Homes whose running jobs are chosen anew."""
        self.left: set[int] = set()
        """Homes that somebody has left."""
        self.evacuated: list[int] = []
        """Jobs whose home was lost."""

    def decide(self) -> Decision:
        if self.memory["gpus"] != self.gpus:
            self._follow_cluster()
        self._follow_nodes()
        self._follow_jobs()
        self._place_queue()
        self._check_moves()
        if self.left and self.p.migration:
            self._migrate()
        self._find_due()
        grants, preempt = self._seat()
        if self.homes.has_changed:
            self.memory["refused"] = 0
        return Decision(
            self.memory, grants, preempt, Leave.IN_MEMORY, wake=self._wake(), otherwise=TAKES_TURNS
        )

    # -- what has happened -------------------------------------------------------------------------

    def _follow_cluster(self) -> None:
        """Nodes that are new, or have other GPUs, are empty homes; who was there needs another one."""
        before = self.memory["gpus"]
        changed = [
            node for node in range(len(self.gpus)) if node >= len(before) or before[node] != self.gpus[node]
        ]
        for key, home in list(self.homes.homes.items()):
            if not set(changed).isdisjoint(home["nodes"]):
                self._evacuate(key)
                self.homes.close(key, self.gpus, changed)
        self.memory["down"] = [node for node in self.memory["down"] if node not in changed]
        for node in changed:
            self.homes.open([node], self.gpus)
        if before:
            self.left.update(changed)
        self.memory["gpus"] = list(self.gpus)

    def _follow_nodes(self) -> None:
        """Lost nodes are no homes; whoever belonged to one needs another."""
        first, down = self.snapshot.cluster.first_device, self.snapshot.occupancy.down
        if not down and not self.memory["down"]:
            return
        is_down = [self.gpus[node] == 0 or int(first[node]) in down for node in range(len(self.gpus))]
        for node in [node for node in self.memory["down"] if not is_down[node]]:
            self.memory["down"].remove(node)
            self.homes.open([node], self.gpus)
            self.left.add(node)
            self.evacuated += self._running_on(node)
        for key, home in list(self.homes.homes.items()) if down else ():
            lost = [node for node in home["nodes"] if is_down[node]]
            if lost:
                self._evacuate(key)
                self.homes.close(key, self.gpus, lost)
                self.memory["down"] += lost

    def _running_on(self, node: int) -> list[int]:
        """Jobs that ran on while their node took no new ones."""
        node_of = self.snapshot.occupancy.free.node_of
        grants = self.snapshot.grants
        return [row for row, grant in grants.items() if any(node_of[d] == node for d in grant.devices)]

    def _evacuate(self, key: int) -> None:
        rows = sorted(members(self.homes.homes[key]))
        for row in rows:
            self.homes.remove(row)
        self.queue[:0] = rows
        self.evacuated += rows

    def _follow_jobs(self) -> None:
        """Take out who has ended, take over who runs, line up who came."""
        phase, home_of = self.snapshot.by_row.phase, self.homes.home_of
        changed = set(self._everybody() if self.changed is None else self.changed)
        for row in sorted(changed.intersection(home_of)):
            if phase.item(row) not in (_PENDING, _RUNNING):
                self._forget(row)
        strangers = changed.union(self.evacuated).difference(home_of)
        if strangers:
            self._meet(sorted(row for row in strangers if self.sizes[row]))
        if self.snapshot.cause & (Event.FAILURE | Event.CAPACITY):
            self.due.update(home_of.values())

    def _everybody(self) -> list[int]:
        live = [*self.snapshot.running.tolist(), *self.snapshot.waiting.tolist()]
        return [*self.homes.home_of, *self.queue, *live]

    def _meet(self, rows: list[int]) -> None:
        """Jobs without a home, about which there is news: some run, some wait, some have ended."""
        phase = self.snapshot.by_row.phase
        pending = [row for row in self.queue if phase.item(row) == _PENDING]
        if len(pending) < len(self.queue):
            self.queue[:], self.memory["refused"] = pending, 0
        for row in rows:
            if phase.item(row) == _RUNNING:
                self._take_over(row)
        known = set(pending)
        self.queue += [row for row in rows if row not in known and phase.item(row) == _PENDING]

    def _forget(self, row: int) -> None:
        """`row` has ended."""
        self._leave(row)
        for name in ("alone", "bad", "moves", "barred"):
            self.memory[name].pop(row, None)

    def _leave(self, row: int) -> None:
        """`row` leaves its home, which falls apart if it was several servers and nobody is left."""
        key = self.homes.remove(row)
        home = self.homes.homes[key]
        self.left.add(key)
        if not home["circle"] and len(home["nodes"]) > 1:
            self.homes.close(key, self.gpus)

    def _take_over(self, row: int) -> None:
        """A job that runs already stays where it is; homes it spans become one."""
        node_of = self.snapshot.occupancy.free.node_of
        grant = self.snapshot.grants[row]
        nodes = {node_of[device] for device in grant.devices}
        spanned = {key for key, home in self.homes.homes.items() if nodes.intersection(home["nodes"])}
        if not spanned:
            return  # its node is being emptied: there it runs on, and nobody moves in
        key = self.homes.join(spanned, self.gpus)
        self.homes.add(row, key, self.sizes[row])
        if grant.role is Role.PACKED and self.jobs.gpu_share.item(row) == 1.0:
            home = self.homes.homes[key]
            for other in home["circle"][:-1]:
                if self.snapshot.grants[other].devices == grant.devices:
                    self.homes.pair(home, (other, row))
                    return

    # -- who belongs where -------------------------------------------------------------------------

    def _place_queue(self) -> None:
        """Homes for who is in the queue; who was refused asks again only when a home has changed."""
        asked = 0 if self.homes.has_changed else self.memory["refused"]
        still, rows = self.queue[:asked], self.queue[asked:]
        self.homes.has_changed = False
        for row in rows:
            key = self.homes.allocate(row, self.sizes[row], self.grounds.accepting(row), self.gpus)
            if key < 0:
                still.append(row)
            else:
                self.homes.add(row, key, self.sizes[row])
                self.due.add(key)
        self.queue[:], self.memory["refused"] = still, len(still)

    def _may_move(self, row: int, key: int) -> bool:
        """True if `row` can run in that home and was not sent back from there."""
        nodes = mask_of(self.homes.homes[key]["nodes"])
        return (
            key not in self.memory["barred"].get(row, ())
            and self.homes.homes[key]["gpus"] >= self.sizes[row]
            and any(not nodes & ~mask for mask in self.grounds.accepting(row))
        )

    def _migrate(self) -> None:
        """To GPUs that fell free, then off servers that are nearly empty; then the queue again."""
        moves = relieve(self.homes, self.sizes, self._may_move)
        moves += defragment(self.homes, self.sizes, self._may_move, self.p.defrag)
        for row, source, target in moves:
            self.due.update((source, target))
            self._note_rate(row)
            if row in self.memory["alone"]:
                check_s = self.now + self.p.quantum
                self.memory["moves"][row] = [source, self.memory["alone"][row], check_s]
        if moves:
            self._place_queue()

    def _check_moves(self) -> None:
        """Send back whoever is slower than before, if there is still room."""
        for row, (source, before, check_s) in list(self.memory["moves"].items()):
            if self.now < check_s:
                continue
            if not self._runs_alone(row):
                self.memory["moves"][row][2] = self.now + self.p.quantum
                continue
            del self.memory["moves"][row]
            old = self.homes.homes.get(source)
            is_slower = self.snapshot.jobs.rate(row) < (1.0 - self.p.noise) * before
            if is_slower and old is not None and self.homes.fits(old, self.homes.demand_of(row)):
                here = self.homes.home_of[row]
                self.memory["barred"].setdefault(row, []).append(here)
                self._leave(row)
                self.homes.add(row, source, self.sizes[row])
                self.due.update((here, source))

    def _runs_alone(self, row: int) -> bool:
        """True if it runs, for some time now, with nobody beside it on as many GPUs as it asked for."""
        grant = self.snapshot.grants.get(row)
        return (
            grant is not None
            and grant.role == _ALONE
            and len(grant.devices) == self.sizes[row]
            and self.snapshot.by_row.since_s.item(row) < self.now
        )

    def _note_rate(self, row: int) -> None:
        if self._runs_alone(row):
            self.memory["alone"][row] = self.snapshot.jobs.rate(row)

    # -- who runs ----------------------------------------------------------------------------------

    def _find_due(self) -> None:
        homes = self.homes.homes
        self.due |= self.left
        self.due |= {key for key, home in homes.items() if home["turn_ends_s"] <= self.now}
        if not self.queue:
            self.due |= {key for key, home in homes.items() if self._may_grow(home)}
        self.due &= homes.keys()

    def _seat(self) -> tuple[list[Grant], list[int]]:
        due = sorted(self.due)
        rows = [row for key in due for row in members(self.homes.homes[key])]
        for row in rows:
            self._note_rate(row)
        seating = Placement(self.snapshot, rows)
        seats = [seat for key in due for seat in self._seats(key, self.homes.homes[key], seating)]
        seats += [Seat(row, -1, 0) for row in self.snapshot.waiting.tolist() if not self.sizes[row]]
        return seating.seat(seats)

    def _seats(self, key: int, home: ServerGroup, seating: Placement) -> list[Seat]:
        """The jobs of a home that run from now on."""
        is_over = home["turn_ends_s"] <= self.now or key in self.left
        is_new = is_over or home["turn_ends_s"] == math.inf
        if is_new and self.p.packing:
            self.trials.review(home)
        nodes = mask_of(home["nodes"])
        fits = seating.tester(nodes, home["gpus"])
        held = self.snapshot.grants
        rows = take_turn(home["circle"], fits) if is_new else join_turn(home["circle"], held, fits)
        if len(rows) == len(home["circle"]) and home["trial"] < 0:
            home["turn_ends_s"] = math.inf
        elif is_new:
            switches = is_over and any(row not in held for row in rows)
            home["turn_ends_s"] = self.now + self.p.quantum + (self.p.switch if switches else 0.0)
        sizes = self._grown(home, rows)
        return [Seat(row, nodes, sizes[row], home["pairs"].get(row, -1)) for row in rows]

    # -- growing -----------------------------------------------------------------------------------

    def _may_grow(self, home: ServerGroup) -> bool:
        return self.now >= home["idle_since_s"] + self.p.grow_after and not self.queue

    def _grown(self, home: ServerGroup, rows: list[int]) -> dict[int, int]:
        """GPUs of each job: elastic ones keep what is idle, and get more if that was idle for long."""
        sizes = {row: self.sizes[row] for row in rows}
        may_grow, room = self._may_grow(home), self.homes.room(home)
        can_grow = False
        for row in self._elastic(home, rows):
            grant = self.snapshot.grants.get(row)
            have = len(grant.devices) if grant is not None else 0
            most = self._most(row, sizes[row] + int(max(room, 0.0)))
            sizes[row] = most if may_grow else max(self._most(row, min(have, most)), sizes[row])
            room -= sizes[row] - self.sizes[row]
            can_grow |= most > sizes[row]
        home["idle_since_s"] = self.now if can_grow else math.inf
        return sizes

    def _elastic(self, home: ServerGroup, rows: list[int]) -> list[int]:
        """Jobs that could use more GPUs; none where they take turns, or where quotas count every GPU."""
        if not self.p.grow or home["turn_ends_s"] < math.inf or self.snapshot.cluster.tenants:
            return []
        return [
            row for row in rows if self.jobs.gpus_max.item(row) > self.sizes[row] and row not in home["pairs"]
        ]

    def _most(self, row: int, limit: int) -> int:
        """The most GPUs, up to `limit`, that the job can use; at least those it asked for."""
        most = min(limit, self.jobs.gpus_max.item(row))
        return max(feasible_counts(self.jobs, row, most)[-1], self.sizes[row])

    # -- when to look again ------------------------------------------------------------------------

    def _wake(self) -> Wake:
        homes = self.homes.homes.values()
        moments = [home["turn_ends_s"] for home in homes]
        if not self.queue:
            moments += [home["idle_since_s"] + self.p.grow_after for home in homes]
        moments += [check_s for _, _, check_s in self.memory["moves"].values()]
        return Wake(at_s=min(moments, default=math.inf))
