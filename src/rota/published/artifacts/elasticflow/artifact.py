"""The elastic modes of the ElasticFlow repository: `ef-accessctrl`, and `ef` with `refuse=no`.

From      pkusys/ElasticFlow, ElasticFlow/scheduler (04a0109), as its runs show it
Clock     `elasticflow-ef`: events closer than a slot are seen together; each job that holds GPUs stops at a
          decision, and ends as the plan says (`Decision.ends`), at a whole slot after it
Differs   from the paper: plans climb backwards from the deadline; jobs coming at once are refused together,
          also for a job that was late before; surplus goes to the job whose GPU time grows most by it; all
          jobs are placed again at each decision, the largest first
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from rota.model.cluster import Cluster
from rota.model.grants import Can, Code, Constraint, Grant
from rota.model.promises import Promise
from rota.published.artifacts.elasticflow.backward import due_of
from rota.published.artifacts.elasticflow.climb import climbed
from rota.published.artifacts.elasticflow.events import EventList
from rota.published.artifacts.elasticflow.hand_out import Climbed
from rota.published.artifacts.elasticflow.parameters import ArtifactParameters
from rota.scheduler.decision import Decision, Event, Memory, Wake
from rota.scheduler.snapshot import Snapshot
from rota.stages.buddy import carry_out_whole
from rota.stages.sizes import sizes_now
from rota.systems.elasticflow.admitted import admitted_before
from rota.systems.elasticflow.asks import KnownLevels, ShareAsk, asks_of

_LATER = Constraint(Code.POLICY, detail="its plan begins later, and others make more of what is free now")
_ALL = int(Can.ALL)
_REFUSED = "its deadline, or that of another job, cannot be kept with those that came together with it"


class ElasticFlowArtifact:
    """All jobs planned again at each moment at which it is asked, once.

    Memory    `rows`     live rows that were accepted
              `order`    those rows as the last decision left them: in this order if their deadlines are equal
              `at_risk`  rows whose promise was last said to be at risk
              `paused`   as in `ElasticFlow`
              with `refuse=no`  that of `EventList`
              `asked_s`, `about`  the moment of the last decision, all jobs then
              `wake_s`, `ends`    what it waits for, and when each job is planned to be done
    """

    def __init__(self, parameters: ArtifactParameters) -> None:
        self.parameters = parameters
        self._known = KnownLevels()
        self._cluster: Cluster | None = None
        self._node_gpus: set[int] = set()

    def decide(self, snapshot: Snapshot, memory: Memory) -> Decision:
        about = sorted([*snapshot.waiting.tolist(), *snapshot.running.tolist()])
        if memory.get("asked_s") == snapshot.now and memory["about"] == about:
            return self._as_before(snapshot, memory)
        sizes = sizes_now(snapshot, memory, 0.0)
        every = asks_of(snapshot, sizes, self._known, 0.0, 1.0, measured=True)
        node_gpus = self._node_gpus_of(snapshot.cluster)
        fixed = sum(ask.held for ask in every if not ask.bears_stops)
        asks = [ask for ask in every if ask.bears_stops and ask.levels.gpus[1] <= sizes.gpus]
        known, stays = set(memory.get("rows", ())), admitted_before(snapshot, memory)
        new = [ask for ask in asks if ask.row not in known and not ask.held]
        turn = {row: place for place, row in enumerate(memory.get("order", ()))}
        asks.sort(key=lambda ask: (due_of(ask), turn.get(ask.row, len(turn))))
        got, refused = self._planned(asks, new, sizes.gpus, snapshot.now, stays)
        if refused:
            asks = [ask for ask in asks if ask.row not in refused]
        memory["rows"] = sorted(ask.row for ask in asks)
        if self.parameters.refuse:
            change_s = min(got.changes, default=math.inf)
            if change_s >= min(got.ends, default=math.inf):  # seen with that end, which the standstill moves
                change_s = math.inf
            order = sorted(got.order, key=lambda place: -got.gpus[place])
            memory["order"] = [asks[place].row for place in order]
        else:
            events = EventList(memory, snapshot.now, asks, got, snapshot.worked_s)
            change_s = events.close(memory)
            memory["order"] = [asks[place].row for place in got.order]
            order = _by_nodes(max(node_gpus), asks, got, events.began)
        shares = {asks[place].row: got.gpus[place] for place in order}
        grants, preempt = _place(snapshot, shares, node_gpus, is_alone=not fixed)
        reasons = {row: _LATER for row, gpus in shares.items() if not gpus}
        reject = dict.fromkeys(refused, _REFUSED)
        promises = self._promises(memory, asks, got, known)
        wake_s = min(change_s, sizes.again_s)
        about = [row for row in about if row not in reject]
        ends = {ask.row: done_s for ask, done_s in zip(asks, got.dones, strict=True)}
        memory |= {"asked_s": snapshot.now, "about": about, "wake_s": wake_s, "ends": ends}
        wake = Wake(wake_s, Event.ANY)
        return Decision(
            memory,
            grants,
            preempt,
            reject=reject,
            reasons=reasons,
            promises=promises,
            wake=wake,
            ends=ends,
        )

    def _node_gpus_of(self, cluster: Cluster) -> set[int]:
        """Numbers of GPUs that nodes have."""
        if cluster is not self._cluster:
            self._cluster, self._node_gpus = cluster, set(cluster.node_gpus.tolist())
        return self._node_gpus

    def _as_before(self, snapshot: Snapshot, memory: Memory) -> Decision:
        """The last decision, which stands because nothing has happened since."""
        reasons = dict.fromkeys(snapshot.waiting.tolist(), _LATER)
        wake = Wake(memory["wake_s"], Event.ANY)
        return Decision(memory, reasons=reasons, wake=wake, ends=memory["ends"])

    def _planned(
        self, asks: Sequence[ShareAsk], new: Sequence[ShareAsk], gpus: int, now: float, stays: set[int]
    ) -> tuple[Climbed, set[int]]:
        """What becomes of the planned jobs, and the rows of the refused, none of them of `stays`."""
        slot_s = self.parameters.slot_s
        got = climbed(asks, gpus, now, slot_s, gives=True)
        if got.in_time or not self.parameters.refuse:
            return got, set()
        refused = {ask.row for ask in new if ask.dues and not ask.is_soft} - stays
        if not refused:
            return got, refused
        kept = [ask for ask in asks if ask.row not in refused]
        return climbed(kept, gpus, now, slot_s, gives=True), refused

    def _promises(
        self, memory: Memory, asks: Sequence[ShareAsk], got: Climbed, known: set[int]
    ) -> dict[int, Promise]:
        """New promises, and promises at risk now or until now, by the plans before any raise.

        The authors count the jobs in time in this way; the standstill is not in it.
        """
        if not self.parameters.refuse:
            return {}
        were_at_risk, at_risk = set(memory.get("at_risk", ())), list[int]()
        made: dict[int, Promise] = {}
        for ask, done_s in zip(asks, got.first_dones, strict=True):
            promise = Promise(due_of(ask), done_s)
            if not ask.dues:
                continue
            if promise.is_at_risk:
                at_risk.append(ask.row)
            if ask.row not in known or promise.is_at_risk is not (ask.row in were_at_risk):
                made[ask.row] = promise
        memory["at_risk"] = at_risk
        return made


def _by_nodes(node_gpus: int, asks: Sequence[ShareAsk], got: Climbed, began: Sequence[int]) -> list[int]:
    """Places in the order of `ef`: whole nodes first, then the largest; of those the first that `began`."""
    turn = {row: place for place, row in enumerate(began)}
    by_turn = sorted(got.order, key=lambda place: turn.get(asks[place].row, len(turn)))
    return sorted(by_turn, key=lambda place: -min(got.gpus[place], node_gpus))


def _place(
    snapshot: Snapshot, shares: dict[int, int], node_gpus: set[int], *, is_alone: bool
) -> tuple[list[Grant], list[int]]:
    """Grants from the first GPU on, one after the other; by buddies where GPUs are not all alike."""
    is_simple = snapshot.plain and is_alone and len(node_gpus) == 1 and not snapshot.occupancy.down
    powers = all(gpus & (gpus - 1) == 0 for gpus in [*shares.values(), *node_gpus])
    if not (is_simple and powers and all(snapshot.jobs.can(row) == _ALL for row in shares)):
        return carry_out_whole(snapshot, shares)
    grants, first = [], 0
    for row, gpus in shares.items():
        if gpus:
            grant = Grant(row, tuple(range(first, first + gpus)))
            first += gpus
            if grant != snapshot.grants.get(row):
                grants.append(grant)
    stopped = [row for row, gpus in shares.items() if not gpus and row in snapshot.grants]
    return grants, stopped
