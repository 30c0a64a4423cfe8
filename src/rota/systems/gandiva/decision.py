"""One decision of Gandiva, step by step: who belongs where, who is tried beside whom, whose turn it is.

Memory    `homes`    servers with the jobs that belong to them (`stages.homes`), by lowest node
          `home_of`  home of each placed job
          `down`     nodes that are lost
          `gpus`     GPUs of each node: live, nodes join, and may come back with other devices
          `alone`    rate of each job when it last ran alone on what it asked for
          `bad`      per job, the jobs it was parted from because sharing did not pay
          `moves`    per moved job: home before, rate before, moment at which to compare
          `barred`   per job, the homes it was sent back from
          `strays`   per job that runs on nodes of which some are being emptied, and has no home, these nodes
          `turns`, `longer`   per job, how long its turns are (`stages.turn_lengths`)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rota.model.grants import Leave, Role
from rota.scheduler.decision import Decision, Event, Wake
from rota.scheduler.snapshot import Snapshot
from rota.stages.turn_lengths import TurnLengths
from rota.systems.gandiva.beside_quotas import home_beside_quotas
from rota.systems.gandiva.derived import LEAST_TURN, Derived
from rota.systems.gandiva.growth import Growth
from rota.systems.gandiva.migration import defragment, give_back, relieve
from rota.systems.gandiva.pairing import PairTrials
from rota.systems.gandiva.parameters import GandivaParameters
from rota.systems.gandiva.seating import Seating
from rota.systems.gandiva.server_group import members
from rota.systems.gandiva.server_groups import can_hold
from rota.systems.gandiva.turns import TAKES_TURNS
from rota.table.free import nodes_in
from rota.table.state import Phase

# As in `loop`: with plain integers nothing is looked up, and no flag is made of the result.
_CAPACITY, _SHAKEN = int(Event.CAPACITY), int(Event.FAILURE | Event.CAPACITY)
_PENDING, _RUNNING = int(Phase.PENDING), int(Phase.RUNNING)


class GandivaDecision:
    """What Gandiva does at one moment."""

    def __init__(
        self,
        snapshot: Snapshot,
        parameters: GandivaParameters,
        derived: Derived,
        changed: Sequence[int] | None,
    ) -> None:
        self.snapshot = snapshot
        self.memory = memory = derived.memory
        self.p = parameters
        self.derived = derived
        self.grounds = derived.grounds
        self.changed = changed
        """Rows about which there is news, as `Derived.news` tells them; None if it may be any."""
        self.now = snapshot.now
        self.jobs = snapshot.jobs.table
        self.sizes = snapshot.gpus_of
        self.has_caps = snapshot.cluster.tenants.has_caps()
        """True if a hard quota may keep jobs from running together."""
        self.gpus = snapshot.occupancy.free.size
        self.homes = derived.homes
        self.trials = PairTrials(snapshot, self.homes, memory["alone"], memory["bad"], parameters)
        self.homeless = derived.homeless
        self.strays: dict[int, list[int]] = memory.setdefault("strays", {})
        self.growth = Growth(snapshot, parameters, self.homeless)
        self.lengths = TurnLengths(snapshot, memory, parameters.quantum * LEAST_TURN)
        self.due: set[int] = set()
        """Homes whose running jobs are chosen anew."""
        self.left: set[int] = set()
        """Homes that somebody has left."""
        self.moved: set[int] = set()
        """Homes of which somebody holds devices that belongs elsewhere now."""
        self.evacuated: list[int] = []
        """Jobs whose home was lost."""

    def decide(self) -> Decision:
        if self.derived.gpus is not self.gpus:
            self._follow_cluster()
        self._follow_nodes()
        self._follow_jobs()
        self._place_homeless()
        self._check_moves()
        if self.left and self.p.migration:
            self._migrate()
        self._find_due()
        seating = Seating(self.snapshot, self.p, self.derived, self.trials, self.growth, self.lengths)
        grants, preempt = seating.seat(sorted(self.due), self.left, self.moved)
        if not self.snapshot.is_steady:  # else every turn brings something
            self.lengths.end_all(preempt, grants)
        return Decision(
            self.memory, grants, preempt, Leave.IN_MEMORY, wake=self._wake(), otherwise=TAKES_TURNS
        )

    # -- what has happened -------------------------------------------------------------------------

    def _follow_cluster(self) -> None:
        """Nodes that are new, or have other GPUs, are empty homes; who was there needs another one."""
        before = self.memory["gpus"]
        self.derived.gpus = self.gpus
        if before == self.gpus:
            return
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
        if self.derived.down == down and not self.snapshot.cause & _CAPACITY:
            return
        self.derived.down = set(down)
        is_down = [self.gpus[node] == 0 or int(first[node]) in down for node in range(len(self.gpus))]
        for node in [node for node in self.memory["down"] if not is_down[node]]:
            self.memory["down"].remove(node)
            self.homes.open([node], self.gpus)
            self.left.add(node)
            self._find_homes_anew(self._running_on(node))
        for key, home in list(self.homes.homes.items()) if down else ():
            lost = [node for node in home["nodes"] if is_down[node]]
            if lost:
                self._evacuate(key)
                self.homes.close(key, self.gpus, lost)
                self.memory["down"] += lost
                self.left.update(node for node in home["nodes"] if node not in lost)

    def _running_on(self, node: int) -> list[int]:
        """Jobs that ran on while their node took no new ones."""
        node_of = self.snapshot.occupancy.free.node_of
        grants = self.snapshot.grants
        return [row for row, grant in grants.items() if any(node_of[d] == node for d in grant.devices)]

    def _find_homes_anew(self, rows: list[int]) -> None:
        """Whoever runs there, in a home of part of its nodes or in none, belongs there now."""
        for row in rows:
            if row in self.homes.home_of:
                self._leave(row)
        self.evacuated += rows

    def _evacuate(self, key: int) -> None:
        rows = sorted(members(self.homes.homes[key]))
        for row in rows:
            self.homes.remove(row)
        self.evacuated += rows

    def _follow_jobs(self) -> None:
        """Take out who has ended, take over who runs, line up who came."""
        phase_of, home_of = self.snapshot.by_row.phase_of, self.homes.home_of
        changed = self._everybody() if self.changed is None else self.changed
        strangers, held = set(self.evacuated), self.snapshot.grants
        for stray in [stray for stray in self.strays if stray not in held]:
            strangers.add(stray)
            self._make_room(self.strays.pop(stray))
        row: Any  # as in `Swaps.swap`
        for row in changed:
            if row not in home_of:
                if row not in self.strays:
                    strangers.add(row)
                continue
            if row in held:
                continue
            phase: int = phase_of[row]
            if phase != _PENDING and phase != _RUNNING:
                self._forget(row)
        for row in sorted(strangers):
            self._meet(row, phase_of[row])
        if self.snapshot.cause & _SHAKEN:
            self.due.update(home_of.values())
        self.due.update(home_of[row] for row in self.snapshot.refused if row in home_of)

    def _make_room(self, nodes: list[int]) -> None:
        """Somebody who belonged to no home has left `nodes`."""
        self.left.update(
            key for key, home in self.homes.homes.items() if not set(nodes).isdisjoint(home["nodes"])
        )

    def _everybody(self) -> list[int]:
        live = [*self.snapshot.running.tolist(), *self.snapshot.waiting.tolist()]
        return sorted({*self.homes.home_of, *live})

    def _meet(self, row: int, phase: int) -> None:
        """A job without a home, about which there is news: it runs, waits or has ended."""
        self.strays.pop(row, None)
        if not self.sizes[row]:
            (self.derived.without_gpus.add if phase == _PENDING else self.derived.without_gpus.discard)(row)
        elif phase == _PENDING:
            self.homeless.add(row, self.grounds.kind[row])
        else:
            self.homeless.discard(row)
            if row in self.snapshot.grants:  # else it runs on nodes that are not shown
                self._take_over(row)
            elif phase != _RUNNING:
                self._forget_what_was_measured(row)

    def _forget(self, row: int) -> None:
        """`row` has ended."""
        self._leave(row)
        self._forget_what_was_measured(row)

    def _forget_what_was_measured(self, row: int) -> None:
        self.derived.grant_of.pop(row, None)
        for name in ("alone", "bad", "moves", "barred"):
            self.memory[name].pop(row, None)
        self.lengths.drop(row)

    def _leave(self, row: int) -> None:
        """`row` leaves its home, which falls apart if it was several servers and nobody is left."""
        key = self.homes.remove(row)
        self.left.add(key)
        self._fall_apart(key)

    def _fall_apart(self, key: int) -> None:
        """Several servers to which nobody belongs any more are homes by themselves again."""
        home = self.homes.homes[key]
        if not home["circle"] and len(home["nodes"]) > 1:
            self.homes.close(key, self.gpus)

    def _take_over(self, row: int) -> None:
        """A job that runs already stays where it is; homes it spans become one."""
        node_of = self.snapshot.occupancy.free.node_of
        grant = self.snapshot.grants[row]
        nodes = {node_of[device] for device in grant.devices}
        spanned = {key for key, home in self.homes.homes.items() if nodes.intersection(home["nodes"])}
        if sum(self.homes.homes[key]["gpus"] for key in spanned) < self.sizes[row]:
            self.strays[row] = sorted(nodes)  # some are being emptied: it runs on there, and will not again
            return
        key = self.homes.join(spanned, self.gpus)
        self.homes.add(row, key, self.sizes[row])
        if grant.role is Role.PACKED and self.jobs.gpu_share.item(row) == 1.0:
            home = self.homes.homes[key]
            for other in home["circle"][:-1]:
                if self.snapshot.grants[other].devices == grant.devices:
                    self.homes.pair(home, (other, row))
                    return

    # -- who belongs where -------------------------------------------------------------------------

    def _place_homeless(self) -> None:
        """Homes for who has none; who was refused asks again whenever a home has changed.

        That may be for the better: where somebody got one, gangs of his size can give another one back.
        """
        while True:
            if self.homes.has_changed or self.has_caps:
                self.homeless.refused.clear()
                self.homes.has_changed = False
            self.homeless.serve(self._settle)
            if not (self.homeless and self.homes.has_changed):
                return

    def _settle(self, row: int) -> bool:
        """A home for `row`, for which gangs that have servers for themselves give them back; or it waits."""
        key = self._home_for(row)
        if key < 0 and self.homes.index.groups and self.p.migration and self._get_back(row):
            key = self._home_for(row)
        if key < 0:
            return False
        self.homes.add(row, key, self.sizes[row])
        self.due.add(key)
        return True

    def _home_for(self, row: int) -> int:
        key = self.homes.allocate(row, self.sizes[row], self.grounds.accepting(row), self.gpus)
        if self.has_caps and (
            key < 0 or not self.homes.fits(self.homes.homes[key], self.homes.demand_of(row))
        ):
            beside = home_beside_quotas(
                self.snapshot, self.homes, row, self.sizes[row], self.grounds.accepting(row)
            )
            key = beside if beside >= 0 else key
        if key < 0 and (part := self.grounds.in_part(row)):
            key = self.homes.allocate_in_part(self.sizes[row], part, self.gpus)
        return key

    def _get_back(self, row: int) -> bool:
        """True if gangs went to others of their size, and left empty servers on which `row` can run."""
        size, accepting, part = self.sizes[row], self.grounds.accepting(row), self.grounds.in_part(row)
        usable = [{node: self.gpus[node] for node in nodes_in(mask)} for mask in accepting]
        on_one = not part and self.homes.has_server(size, accepting, self.gpus)
        moves = give_back(
            self.homes, self.sizes, size, [part] if part else usable, self._may_move, on_one=on_one
        )
        for gang, source, target in moves:
            self._follow_move(gang, source, target)
            self.memory["moves"].pop(gang, None)  # it is not for its rate that it moves
            self.left.add(source)
        return bool(moves)

    def _may_move(self, row: int, key: int) -> bool:
        """True if `row` can run in that home, was not sent back from there, and has no longer turn now."""
        if self.lengths.goes_on(row):
            return False
        return key not in self.memory["barred"].get(row, ()) and can_hold(
            self.homes.homes[key], self.sizes[row], self.grounds.accepting(row)
        )

    def _found(self, row: int) -> int:
        """A home on empty servers for a gang that no server holds, and that may move there; -1 if none."""
        if self.lengths.goes_on(row):
            return -1
        barred = self.memory["barred"].get(row, ())
        return self.homes.found(self.sizes[row], self.grounds.accepting(row), self.gpus, barred)

    def _migrate(self) -> None:
        """To GPUs that fell free, then off servers that are nearly empty; then the queue again."""
        moves = relieve(self.homes, self.sizes, self._may_move, self._found)
        moves += defragment(self.homes, self.sizes, self._may_move, self.p.defrag)
        for row, source, target in moves:
            self._follow_move(row, source, target)
            if row in self.memory["alone"]:
                check_s = self.now + self.p.quantum
                self.memory["moves"][row] = [source, self.memory["alone"][row], check_s]
        if moves:
            self._place_homeless()

    def _follow_move(self, row: int, source: int, target: int) -> None:
        """`row` belongs to `target` now, and still runs on servers of `source`."""
        self.due.update((source, target))
        self.moved.update((target, *self.homes.homes[source]["nodes"]))
        self._fall_apart(source)
        self.trials.note_rate(row)

    def _check_moves(self) -> None:
        """Send back whoever is slower than before, if there is still room."""
        for row, (source, before, check_s) in list(self.memory["moves"].items()):
            if self.now < check_s:
                continue
            if not self.trials.runs_alone(row):
                self.memory["moves"][row][2] = self.now + self.p.quantum
                continue
            del self.memory["moves"][row]
            old = self.homes.homes.get(source)
            is_slower = self.snapshot.jobs.rate(row) < (1.0 - self.p.noise) * before
            if is_slower and old is not None and self.homes.fits(old, self.homes.demand_of(row)):
                here = self.homes.home_of[row]
                self.memory["barred"].setdefault(row, []).append(here)
                self.left.add(self.homes.remove(row))
                self.homes.add(row, source, self.sizes[row])
                self._follow_move(row, here, source)

    # -- who runs ----------------------------------------------------------------------------------

    def _find_due(self) -> None:
        homes = self.homes.homes
        self.due |= self.left | self.derived.turns.take_over(self.now)
        if not self.homeless:
            self.due |= {
                key for key in self.derived.growing if key in homes and self.growth.is_due(homes[key])
            }
        self.due &= homes.keys()
        self.derived.turns.give_up(self.left | self.homes.gone | (self.moved - self.homes.index.crowded))
        self.homes.gone.clear()

    # -- when to look again ------------------------------------------------------------------------

    def _wake(self) -> Wake:
        homes, derived = self.homes.homes, self.derived
        moments = [derived.turns.next_end_s()]
        if not self.homeless:
            moments += [
                homes[key]["idle_since_s"] + self.p.grow_after for key in derived.growing if key in homes
            ]
        moments += [check_s for _, _, check_s in self.memory["moves"].values()]
        return Wake(at_s=min(moments))
