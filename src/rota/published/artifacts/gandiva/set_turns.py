"""Gandiva as the simulators of Tiresias and ElasticFlow have it.

From      SymbioticLab/Tiresias, `simulator/` (`gandiva`); pkusys/ElasticFlow, `ElasticFlow/scheduler/`
          (`gandiva`), which grew out of it
Differs   1. Nodes form sets by job size (`node_sets.py`), resized at each step in proportion to demand.
             No affinity of partly filled servers, no packing, no migration with measurement, no growing.
          2. Turns pass only at a step that falls on a multiple of 60 s, in all sets at once.
          3. A waiting job no set could take is tried again only when a set falls empty, and each one that
             is taken makes the one behind it miss its turn.
          4. Jobs that ask for more than whole GPUs of any type, which the simulators do not know, run to
             their end on nodes lent to them while no set has them; under quotas that is all jobs.
          5. Sizes are served in the order of the simulator's table: Tiresias' runs under Python 2, which
             orders it by hash.  Sizes the simulators do not know (they stop) come last here.
Clock     `tiresias-gandiva` and `elasticflow-gandiva`
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from rota.errors import PolicyError
from rota.model.grants import Grant, Leave
from rota.model.jobs import JobTable
from rota.published.artifacts.gandiva.node_sets import EqualNodeSets, NodeSet
from rota.published.artifacts.gandiva.set_grants import all_turns, changed_turns
from rota.scheduler.decision import Decision, Event, Memory, Wake
from rota.scheduler.snapshot import Cursor, Snapshot
from rota.stages.fit import FitterWithin
from rota.stages.place import consolidate
from rota.systems.gandiva.turns import TAKES_TURNS
from rota.table.free import mask_of
from rota.table.plain import plain_rows
from rota.table.state import Phase

STEP_S = 10.0
TURN_S = 60.0

TIRESIAS_ORDER = (16, 1, 2, 4, 24, 32, 8, 64, 12)
ELASTICFLOW_ORDER = (1, 2, 4, 8, 12, 16, 24, 32, 40, 48, 56, 64, 72, 88, 128, 256)

_CAPACITY, _STOPPED = int(Event.CAPACITY), int(Event.END | Event.FAILURE | Event.CAPACITY)
_PENDING, _RUNNING = int(Phase.PENDING), int(Phase.RUNNING)


MOST_AHEAD = 64
"""Steps looked ahead at once: an event before them makes the rest useless."""
_NOBODY: frozenset[int] = frozenset()


class _Ahead:
    """The state at the next step that is asked for, if nothing happens until then."""

    def __init__(
        self, memory: Memory, at_s: float, sets: EqualNodeSets, queue: list[int], moves: bool
    ) -> None:
        self.memory = memory
        self.at_s = at_s
        self.sets = sets
        self.queue = queue
        self.moves = moves


class SetTurns:
    """Turns in node sets.

    Memory    `sets`   per job size: sets of nodes with their jobs
              `free`   nodes in no set, in the order in which they became free
              `queue`  jobs in no set, in the order in which they came
              `lent`   nodes in no set on which jobs of other kinds run
              `nodes`  nodes that are not lost
              `next_s` moment of the first step left out so far; infinite if none is
              `quotas` whether any tenant had a quota: then no job is in a set

    Most steps open and close sets without giving any job other devices.  With `skips` the policy is not woken
    for those: they are made up for at the next one.  That is for clocks with a step every 10 s, as the
    simulator's own; where a round is longer, so is a step.
    """

    def __init__(self, order: tuple[int, ...], *, skips: bool = False) -> None:
        self.order = order
        self.skips = skips
        self._ahead: _Ahead | None = None
        self._plain: list[bool] = []
        self._plain_of: JobTable | None = None
        self._all_plain = False
        self._cursor = Cursor()
        self._seated = -1
        """Jobs whose turn it was at the last decision; -1 before the first."""

    def decide(self, snapshot: Snapshot, memory: Memory) -> Decision:
        """Carry out one step; asks for another as long as steps change something."""
        now = snapshot.now
        if not memory or not self._is_of(snapshot, memory):
            self._adopt(snapshot, memory)
        over, are_new = self._news(snapshot, memory)
        ahead, self._ahead = self._ahead, None
        lent: list[Grant] = []
        before: dict[int, list[NodeSet]] | None = None
        if ahead is not None and ahead.memory is memory and ahead.at_s == now and not (over or are_new):
            if self._are_all_seated(snapshot):
                before = memory["sets"]
            memory["sets"], memory["free"], memory["queue"] = ahead.sets.sets, ahead.sets.free, ahead.queue
            sets, moves = ahead.sets, ahead.moves
        else:
            self._catch_up(snapshot, memory)
            sets = self._sets(snapshot, memory)
            had = len(memory["free"])
            self._follow_nodes(snapshot, memory)
            self._take_back(snapshot, memory)
            sets.pass_turns(now % TURN_S == 0.0, over)
            released = len(memory["free"]) > had
            if over or are_new:
                self._place_arrivals(snapshot, memory, sets)
            if released:
                _retry(memory["queue"], sets)
            lent = self._lend(snapshot, memory)
            moves = sets.resize((len(memory["nodes"]) - len(memory["lent"])) * sets.node_gpus)
        if before is None:
            grants, away = all_turns(snapshot, sets)
            preempt = [row for row in away if self._in_sets(snapshot, row)]
        else:
            grants, preempt = changed_turns(snapshot, sets, before)
        come = sum([grant.job not in snapshot.grants for grant in grants])
        self._seated = len(snapshot.grants) + come - len(preempt)
        wake = Wake(at_s=self._next_s(snapshot, memory, sets, moves))
        return Decision(memory, grants + lent, preempt, Leave.IN_MEMORY, wake=wake, otherwise=TAKES_TURNS)

    def _are_all_seated(self, snapshot: Snapshot) -> bool:
        """True if just those jobs hold GPUs whose turn it was at the last decision."""
        return len(snapshot.grants) == self._seated and not snapshot.cause & _STOPPED

    # -- steps that are left out -------------------------------------------------------------------

    def _next_s(self, snapshot: Snapshot, memory: Memory, sets: EqualNodeSets, moves: bool) -> float:
        """The next step to be asked for: the first one that gives a job other devices."""
        at_s = _next(snapshot.now, moves, sets)
        memory["next_s"] = math.inf
        if not (self.skips and moves and self._are_all_in_sets(snapshot)):
            return at_s
        memory["next_s"] = at_s
        total = len(memory["nodes"]) * sets.node_gpus
        ahead, queue, left = sets.copy(), memory["queue"].copy(), MOST_AHEAD
        seats: dict[int, dict[int, list[int]]] = {}
        while moves:  # otherwise the clock of the world, not this one, says at which step a turn passes
            steps, moves = _quiet_steps(ahead, queue, at_s, total, left)
            at_s, left = _after(at_s, steps - 1), left - steps
            if not left or _sits_otherwise(ahead, sets, seats):
                self._ahead = _Ahead(memory, at_s, ahead, queue, moves)
                return at_s
            at_s = _next(at_s, moves, ahead)
        return at_s

    def _catch_up(self, snapshot: Snapshot, memory: Memory) -> None:
        """Make the steps that were left out."""
        if memory["next_s"] < snapshot.now:
            sets = self._sets(snapshot, memory)
            total = len(memory["nodes"]) * sets.node_gpus
            while memory["next_s"] < snapshot.now:
                left = math.ceil((snapshot.now - memory["next_s"]) / STEP_S)
                steps, moves = _quiet_steps(sets, memory["queue"], memory["next_s"], total, left)
                memory["next_s"] = _after(memory["next_s"], steps) if moves else math.inf

    def _are_all_in_sets(self, snapshot: Snapshot) -> bool:
        """True if no job is of another kind, now or later."""
        self._look_at(snapshot)
        return self._all_plain and not snapshot.cluster.tenants

    def _look_at(self, snapshot: Snapshot) -> None:
        jobs = snapshot.jobs.table
        if self._plain_of is not jobs:
            self._plain, self._plain_of = plain_rows(jobs, snapshot.cluster).tolist(), jobs
            self._all_plain = all(self._plain)

    def _in_sets(self, snapshot: Snapshot, row: int) -> bool:
        """True for jobs as the simulators know them: counting GPUs decides whether they fit."""
        self._look_at(snapshot)
        return self._plain[row] and not snapshot.cluster.tenants

    def _news(self, snapshot: Snapshot, memory: Memory) -> tuple[set[int], bool]:
        """Rows of the lists that have ended, and whether a job may be in no list yet."""
        phase, starts = snapshot.by_row.phase, snapshot.by_row.starts
        changed = snapshot.changes(self._cursor)
        if changed is None or snapshot.cause & _CAPACITY or snapshot.refused:
            known = [row for some in memory["sets"].values() for one in some for row in one["jobs"]]
            over = {row for row in (*known, *memory["queue"]) if phase.item(row) not in (_PENDING, _RUNNING)}
            return over, True
        over, are_new = set[int](), False
        for row in changed:
            now = phase.item(row)
            if now == _PENDING:
                are_new = are_new or not starts.item(row)
            elif now != _RUNNING:
                over.add(row)
        return over, are_new

    # -- memory ------------------------------------------------------------------------------------

    def _sets(self, snapshot: Snapshot, memory: Memory) -> EqualNodeSets:
        node_gpus = int(snapshot.cluster.node_gpus[0])
        return EqualNodeSets(memory["sets"], memory["free"], node_gpus, snapshot.gpus_of, self.order)

    def _is_of(self, snapshot: Snapshot, memory: Memory) -> bool:
        """True unless quotas have come or gone, or a job in the lists asks for other than it did then."""
        if not snapshot.cause & _CAPACITY:
            return True
        gpus_of = snapshot.gpus_of
        return (
            memory.get("quotas", False) == bool(snapshot.cluster.tenants)
            and all(self._in_sets(snapshot, row) for row in memory["queue"])
            and all(
                gpus_of[row] == size and self._in_sets(snapshot, row)
                for size, sets in memory["sets"].items()
                for one in sets
                for row in one["jobs"]
            )
        )

    def _adopt(self, snapshot: Snapshot, memory: Memory) -> None:
        """Take over a cluster: a job that has nodes to itself, or shares them with its size, keeps them."""
        sizes = snapshot.cluster.node_gpus
        if (sizes != sizes[0]).any():
            raise PolicyError("gandiva in the mode of a simulator divides equal nodes; these differ in GPUs")
        memory.update(sets={}, free=[], queue=[], nodes=[], lent=[], next_s=math.inf)
        memory["quotas"] = bool(snapshot.cluster.tenants)
        self._follow_nodes(snapshot, memory)
        node_of, gpus_of = snapshot.occupancy.free.node_of, snapshot.gpus_of
        for row in snapshot.running.tolist():
            nodes = sorted({node_of[device] for device in snapshot.grants[row].devices})
            if not self._in_sets(snapshot, row):
                self._take_out(memory, nodes)
                continue
            sets = memory["sets"].setdefault(gpus_of[row], [])
            home = next((one for one in sets if one["nodes"] == nodes), None)
            if home is None and nodes and all(node in memory["free"] for node in nodes):
                home = NodeSet(nodes=nodes, jobs=[], dealt=0)
                sets.append(home)
                memory["free"] = [node for node in memory["free"] if node not in nodes]
            if home is not None:
                home["jobs"].append(row)
                home["dealt"] += 1
        memory["sets"] = {size: sets for size, sets in memory["sets"].items() if sets}

    def _follow_nodes(self, snapshot: Snapshot, memory: Memory) -> None:
        """Take lost nodes out, their jobs back into the queue; put nodes that returned among the free."""
        down, first = snapshot.occupancy.down, snapshot.cluster.first_device
        if not down and len(memory["nodes"]) == snapshot.cluster.nodes:
            return
        up = [node for node in range(snapshot.cluster.nodes) if int(first[node]) not in down]
        lost = set(memory["nodes"]) - set(up)
        memory["free"] += [node for node in up if node not in memory["nodes"]]
        memory["nodes"] = up
        broken = [one for sets in memory["sets"].values() for one in sets if lost.intersection(one["nodes"])]
        for one in broken:
            memory["free"] += one["nodes"]
        for size, sets in memory["sets"].items():
            memory["sets"][size] = [one for one in sets if one not in broken]
        for name in ("free", "lent"):
            memory[name][:] = [node for node in memory[name] if node not in lost]

    @staticmethod
    def _take_out(memory: Memory, nodes: Iterable[int]) -> None:
        """Lend free nodes."""
        for node in nodes:
            if node in memory["free"]:
                memory["free"].remove(node)
                memory["lent"].append(node)

    def _take_back(self, snapshot: Snapshot, memory: Memory) -> None:
        """Free lent nodes on which nothing runs any more."""
        if not memory["lent"]:
            return
        node_of = snapshot.occupancy.free.node_of
        others = [row for row in snapshot.running.tolist() if not self._in_sets(snapshot, row)]
        in_use = {node_of[device] for row in others for device in snapshot.grants[row].devices}
        memory["free"] += [node for node in memory["lent"] if node not in in_use]
        memory["lent"][:] = [node for node in memory["lent"] if node in in_use]

    # -- one step ----------------------------------------------------------------------------------

    def _place_arrivals(self, snapshot: Snapshot, memory: Memory, sets: EqualNodeSets) -> None:
        """Place jobs that are in no list yet."""
        live = [row for row in _live(snapshot) if self._in_sets(snapshot, row)]
        queue = memory["queue"]
        queue[:] = [row for row in queue if snapshot.by_row.phase.item(row) == _PENDING]
        known = {row for some in sets.sets.values() for one in some for row in one["jobs"]}
        if len(known) + len(queue) == len(live):
            return
        known.update(queue)
        for row in sorted(set(live) - known):
            if not sets.place(row):
                queue.append(row)

    def _lend(self, snapshot: Snapshot, memory: Memory) -> list[Grant]:
        """Grants for waiting jobs that are not for sets, in the order in which they came."""
        if self._all_plain and not snapshot.cluster.tenants:
            return []
        others = [row for row in snapshot.waiting.tolist() if not self._in_sets(snapshot, row)]
        if not others:
            return []
        node_of = snapshot.occupancy.free.node_of
        fit = FitterWithin(snapshot, consolidate)
        scratch, grants = fit.scratch(snapshot), []
        for row in others:
            fit.within = mask_of([*memory["free"], *memory["lent"]])
            grant = fit(scratch, row)
            if grant is not None:
                scratch.hold(grant)
                grants.append(grant)
                self._take_out(memory, sorted({node_of[device] for device in grant.devices}))
        return grants


def _live(snapshot: Snapshot) -> list[int]:
    return [*snapshot.waiting.tolist(), *snapshot.running.tolist()]


def _quiet_step(sets: EqualNodeSets, queue: list[int], now: float, total_gpus: int) -> bool:
    """A step before which nothing has happened; true if it has changed anything of the sets."""
    had = len(sets.free)
    sets.pass_turns(now % TURN_S == 0.0, _NOBODY)
    if len(sets.free) > had:
        _retry(queue, sets)
    return sets.resize(total_gpus)


def _quiet_steps(
    sets: EqualNodeSets, queue: list[int], now: float, total_gpus: int, most: int
) -> tuple[int, bool]:
    """One such step and all equal ones after it, `most` in all: how many, and whether they change anything.

    A step that only opens sets for which there are no jobs, and gives up those of the last one, passes unused
    nodes on; so does the next, until a turn passes.
    """
    if most == 1:
        return 1, _quiet_step(sets, queue, now, total_gpus)
    unused = sets.unused()
    sets.watch()
    moves = _quiet_step(sets, queue, now, total_gpus)
    if not moves or not sets.has_only_passed_nodes():
        return 1, moves
    steps, now, is_crowded = 1, now + STEP_S, sets.is_crowded()
    while steps < most and not (is_crowded and now % TURN_S == 0.0):
        steps, now = steps + 1, now + STEP_S
    sets.pass_on(unused, steps - 1)
    return steps, moves


def _after(now: float, steps: int) -> float:
    """The moment `steps` steps later."""
    for _ in range(steps):
        now += STEP_S
    return now


def _retry(queue: list[int], sets: EqualNodeSets) -> None:
    """Place waiting jobs; the simulators skip the job behind each one that could be placed."""
    place = 0
    while place < len(queue):
        if sets.place(queue[place]):
            del queue[place]
        place += 1


def _sits_otherwise(
    ahead: EqualNodeSets, sets: EqualNodeSets, seats: dict[int, dict[int, list[int]]]
) -> bool:
    """True if another job has the turn than in `sets`, or on other nodes; `seats` keeps those of `sets`."""
    for size in ahead.changed:
        if size not in seats:
            seats[size] = sets.seats(size)
        if ahead.seats(size) != seats[size]:
            return True
    return False


def _next(now: float, moves: bool, sets: EqualNodeSets) -> float:
    """The moment of the step that follows one which has changed something or not; infinite for none."""
    if moves:
        return now + STEP_S
    if sets.is_crowded():
        return (math.floor(now / TURN_S) + 1) * TURN_S
    return math.inf
