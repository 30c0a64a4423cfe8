"""One run of Philly: its decisions, what is kept between two of them, and why jobs wait."""

from __future__ import annotations

import math

from rota.model.grants import Reservation
from rota.scheduler.decision import Decision, Memory, Wake
from rota.scheduler.snapshot import Cursor, Snapshot
from rota.stages.fit import Fitter
from rota.stages.place import consolidate
from rota.systems.philly.attempt import Premises
from rota.systems.philly.delays import DelayReasons, Delays, label_of
from rota.systems.philly.gang import Attempts, Cycle
from rota.systems.philly.moving import MovingDecision
from rota.systems.philly.parameters import PhillyParameters
from rota.systems.philly.policy import PhillyDecision, Slept
from rota.systems.philly.queues import AttemptQueues, Kinds
from rota.systems.philly.quota import QuotaShares


class PhillyRun:
    """Makes the decisions of one run; all that it keeps is a cache of memory and snapshot."""

    def __init__(self, parameters: PhillyParameters) -> None:
        self.p = parameters
        self.cycle = Cycle(self.p.acquire_timeout_s, self.p.backoff_s)
        self.queues = AttemptQueues({}, self.cycle)
        self._cursor = Cursor()
        self._premises: Premises | None = None

    def decide(self, snapshot: Snapshot, memory: Memory) -> Decision:
        now, attempts, down = snapshot.now, memory.setdefault("attempts", {}), memory.get("down", [])
        memory["down"] = sorted(snapshot.occupancy.down_nodes)
        premises = self._premises_of(snapshot, memory["down"])
        delays, shares = Delays(memory, self.cycle), QuotaShares(snapshot, premises.clusters)
        fit, before = Fitter(snapshot, consolidate), self.queues
        gone, come = self._changes(snapshot, attempts, shares, fit, premises.kinds)
        queues, slept = self.queues, memory.setdefault("slept", Slept(at_s=-math.inf, kinds=[]))
        if queues is not before:  # waiting jobs may count against other quotas now
            free = shares.there - shares.granted
            delays.begin(queues.in_order(), lambda name, gpus: label_of(shares, name, gpus, free), now)
        turn: PhillyDecision
        if self.p.migrate:
            stays = self._staying(snapshot, memory)
            turn = MovingDecision(self.p, snapshot, fit, queues, premises, shares, slept, stays)
        else:
            turn = PhillyDecision(self.p, snapshot, fit, queues, premises, shares, slept)
        turn.run(gone, come, memory.get("asleep_until_s", now), are_others_there=memory["down"] != down)
        for of, ended in turn.ended:
            delays.close(of, ended, now)
        free = shares.there - shares.granted
        noted = (free, shares.used, shares.quota, queues.in_order())
        if queues.labelled != noted:  # else each class has the reason that it had
            delays.label(noted[-1], lambda name, gpus: label_of(shares, name, gpus, free), now)
            queues.labelled = noted
        memory["asleep_until_s"] = turn.next_opening_s()
        until = {row: self.cycle.until_s(attempts[row], now) for row in turn.held}
        return Decision(
            memory,
            grants=list(turn.grants.values()),
            preempt=[row for row in turn.victims if row not in turn.grants],
            reservations=[Reservation(row, devices, until[row]) for row, devices in turn.held.items()],
            reasons=DelayReasons(delays, shares, free, attempts, queues.class_of.__getitem__, now),
            wake=Wake(min([memory["asleep_until_s"], *until.values()]), if_waiting=not self.p.migrate),
        )

    def _staying(self, snapshot: Snapshot, memory: Memory) -> dict[int, float]:
        """Running jobs that the world did not move, and until when they stay."""
        stays: dict[int, float] = memory.setdefault("stays", {})
        for row in stays.keys() - snapshot.grants.keys():
            del stays[row]
        stays.update(
            {row: snapshot.now + self.cycle.period_s for row in snapshot.refused if row in snapshot.grants}
        )
        return stays

    # -- caches: built again from snapshot and memory whenever they do not match ---------------------

    def _changes(
        self,
        snapshot: Snapshot,
        attempts: dict[int, Attempts],
        shares: QuotaShares,
        fit: Fitter,
        kinds: Kinds,
    ) -> tuple[list[int], list[int]]:
        """Rows that have attempts but no longer wait, and rows that wait but have none."""
        changed = snapshot.changes(self._cursor)
        if changed is not None and self.queues.attempts is attempts and not snapshot.refused:
            rows = sorted(changed)
        else:
            self.queues = AttemptQueues(attempts, self.cycle)
            for row in attempts:
                gpus = snapshot.gpus_of[row]
                kind = kinds.of(fit.accepted(row), gpus, attempts[row]["level"])
                self.queues.add(row, (shares.of(row), gpus), kind)
            rows = sorted({*attempts, *snapshot.waiting.tolist()})
        gone = [row for row in rows if row in attempts and not snapshot.waits(row)]
        return gone, [row for row in rows if snapshot.waits(row) and row not in attempts]

    def _premises_of(self, snapshot: Snapshot, down: list[int]) -> Premises:
        """Data derived from these nodes and this table of jobs, computed again when one of them changes."""
        cluster, jobs, known = snapshot.cluster, snapshot.jobs.table, self._premises
        are_same_nodes = known is not None and known.cluster is cluster and known.down == down
        if known is None or not are_same_nodes or known.jobs is not jobs:
            if not are_same_nodes:
                self._cursor = Cursor()  # the nodes of each kind have changed
            known = self._premises = Premises(cluster, jobs, self.p, down)
        return known
