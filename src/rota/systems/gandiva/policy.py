"""One decision of Gandiva, in the order of the paper: placement, introspection, turns.

Memory    `homes`    servers with the jobs that belong to them (`servers.ServerGroups`), by lowest node
          `home_of`  home of each placed job
          `down`     nodes that are lost
          `gpus`     GPUs of each node: live, nodes join, and may come back with other devices
          `alone`    rate of each job when it last ran alone on what it asked for
          `bad`      per job, the jobs it was parted from because sharing did not pay
          `moves`    per moved job: home before, rate before, moment at which to compare
          `barred`   per job, the homes it was sent back from
          `strays`   per job without a home that runs on nodes some of which are being emptied, these nodes
          `turns`, `longer`   per job, the lengths of its turns (`stages.turn_lengths`)
"""

from __future__ import annotations

from collections.abc import Sequence

from rota.model.grants import Leave
from rota.scheduler.decision import Decision, Wake
from rota.scheduler.snapshot import Snapshot
from rota.stages.idle_quotas import idle_by_quotas
from rota.stages.turn_lengths import TurnLengths
from rota.systems.gandiva.changes import ClusterChanges
from rota.systems.gandiva.derived import LEAST_TURN, Derived
from rota.systems.gandiva.introspection import Growth, PairTrials, defragment, give_back, relieve
from rota.systems.gandiva.parameters import GandivaParameters
from rota.systems.gandiva.servers import EPSILON, can_hold, members
from rota.systems.gandiva.turns import TAKES_TURNS, ServerTurns
from rota.table.free import nodes_in


class GandivaDecision:
    """What Gandiva does at one moment."""

    def __init__(
        self,
        snapshot: Snapshot,
        parameters: GandivaParameters,
        derived: Derived,
        changed: Sequence[int] | None,
    ) -> None:
        """`changed` are rows with news, from `Derived.news`; None if any row may have news."""
        self.snapshot = snapshot
        self.memory = memory = derived.memory
        self.p = parameters
        self.derived = derived
        self.grounds = derived.grounds
        self.now = snapshot.now
        self.sizes = snapshot.gpus_of
        self.has_caps = snapshot.cluster.tenants.has_caps()
        """True if a hard quota may keep jobs from running together."""
        self.gpus = snapshot.occupancy.free.size
        self.homes = derived.homes
        self.homeless = derived.homeless
        self.trials = PairTrials(snapshot, self.homes, memory["alone"], memory["bad"], parameters)
        self.growth = Growth(snapshot, parameters, self.homeless)
        self.lengths = TurnLengths(snapshot, memory, parameters.quantum * LEAST_TURN)
        self.changes = ClusterChanges(snapshot, derived, changed, self.lengths)
        self.due: set[int] = self.changes.due
        """Homes whose running jobs are chosen again."""
        self.left: set[int] = self.changes.left
        """Homes that a job has left."""
        self.moved: set[int] = set()
        """Homes in which a job holds devices that belongs to another home now."""

    def decide(self) -> Decision:
        """Reactive mode, then introspective mode, then the turns of all servers where anything changed."""
        self.changes.follow()
        self._place_homeless()
        self._undo_slower_moves()
        if self.left and self.p.migration:
            self._migrate()
        self._find_due()
        turns = ServerTurns(self.snapshot, self.p, self.derived, self.trials, self.growth, self.lengths)
        grants, preempt = turns.seat(sorted(self.due), self.left, self.moved)  # packing, grow-shrink
        if not self.snapshot.is_steady:  # else every turn brings something
            self.lengths.end_all(preempt, grants)
        return Decision(
            self.memory, grants, preempt, Leave.IN_MEMORY, wake=self._wake(), otherwise=TAKES_TURNS
        )

    # -- reactive mode: a home for each job --------------------------------------------------------

    def _place_homeless(self) -> None:
        """Homes for jobs that have none; a refused job asks again whenever a home has changed.

        That may be for the better: where a gang got a home, others of its size can give one back.
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
        """The home by NODE_ALLOC; where quotas or cores and memory keep GPUs idle, also other homes."""
        size, accepting = self.sizes[row], self.grounds.accepting(row)
        key = self.homes.allocate(row, size, accepting, self.gpus)
        if self.has_caps and (
            key < 0 or not self.homes.fits(self.homes.homes[key], self.homes.demand_of(row))
        ):
            beside = self._home_beside_quotas(row)
            key = beside if beside >= 0 else key
        if key < 0 and (part := self.grounds.in_part(row)):
            key = self.homes.allocate_in_part(size, part, self.gpus)
        return key

    def _home_beside_quotas(self, row: int) -> int:
        """The least loaded home where quotas leave enough idle for `row`; -1 if there is none."""
        size, accepting, demand_of = self.sizes[row], self.grounds.accepting(row), self.homes.demand_of
        best = (float("inf"), -1)
        for key, home in self.homes.homes.items():
            load = home["demand"] / home["gpus"] if home["circle"] else float("inf")
            if (load, key) < best and can_hold(home, size, accepting):
                idle = idle_by_quotas(self.snapshot, members(home), home["nodes"], home["gpus"], demand_of)
                if idle >= demand_of(row) - EPSILON:
                    best = load, key
        return best[1]

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
            self.memory["moves"].pop(gang, None)  # it does not move for the sake of its rate
            self.left.add(source)
        return bool(moves)

    # -- introspective mode: migration -------------------------------------------------------------

    def _undo_slower_moves(self) -> None:
        """Send back each moved job that is slower than before, if there is still room."""
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

    def _migrate(self) -> None:
        """Migrate to freed GPUs, then off servers that are nearly empty; then serve the queue again."""
        moves = relieve(self.homes, self.sizes, self._may_move, self._join_empty)
        moves += defragment(self.homes, self.sizes, self._may_move, self.p.defrag)
        for row, source, target in moves:
            self._follow_move(row, source, target)
            if row in self.memory["alone"]:
                check_s = self.now + self.p.quantum
                self.memory["moves"][row] = [source, self.memory["alone"][row], check_s]
        if moves:
            self._place_homeless()

    def _may_move(self, row: int, key: int) -> bool:
        """True if `row` can run in that home, was not sent back from there, and has no longer turn now."""
        if self.lengths.goes_on(row):
            return False
        return key not in self.memory["barred"].get(row, ()) and can_hold(
            self.homes.homes[key], self.sizes[row], self.grounds.accepting(row)
        )

    def _join_empty(self, row: int) -> int:
        """A home on empty servers for a gang that no server holds, and that may move there; -1 if none."""
        if self.lengths.goes_on(row):
            return -1
        barred = self.memory["barred"].get(row, ())
        return self.homes.join_empty(self.sizes[row], self.grounds.accepting(row), self.gpus, barred)

    def _follow_move(self, row: int, source: int, target: int) -> None:
        """Move `row` to the home `target`; it still runs on servers of `source`."""
        self.due.update((source, target))
        self.moved.update((target, *self.homes.homes[source]["nodes"]))
        self.homes.split_if_empty(source, self.gpus)
        self.trials.note_rate(row)

    # -- turns -------------------------------------------------------------------------------------

    def _find_due(self) -> None:
        """Homes whose turn is over, that a job has left, or that have idle GPUs to give now."""
        homes = self.homes.homes
        self.due |= self.left | self.derived.turns.take_over(self.now)
        if not self.homeless:
            self.due |= {
                key for key in self.derived.growing if key in homes and self.growth.is_due(homes[key])
            }
        self.due &= homes.keys()
        self.derived.turns.give_up(self.left | self.homes.gone | (self.moved - self.homes.index.crowded))
        self.homes.gone.clear()

    def _wake(self) -> Wake:
        """When a turn ends, idle GPUs can be given away, or a move is to be judged."""
        homes, derived = self.homes.homes, self.derived
        moments = [derived.turns.next_end_s()]
        if not self.homeless:
            moments += [
                homes[key]["idle_since_s"] + self.p.grow_after for key in derived.growing if key in homes
            ]
        moments += [check_s for _, _, check_s in self.memory["moves"].values()]
        return Wake(at_s=min(moments))
