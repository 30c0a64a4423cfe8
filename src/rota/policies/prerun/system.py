"""Pre-run: each new job runs on one GPU of a small pool for a while, so that what fails early fails there.

Paper     Jeon et al., "Analysis of Large-Scale Multi-Tenant GPU Clusters for DNN Training Workloads",
          USENIX ATC 2019, section 5, the third guideline
Decides   who of the new jobs runs in the pool; all else is the inner policy's
Needs     what the inner policy needs
Idea      1. The last `nodes` nodes are the pool; to the inner policy the others are the whole cluster.
          2. A new job waits for one GPU of the pool, in order of arrival, however many GPUs it asks for.
          3. If it has not failed after `for_s` seconds, it leaves the pool and waits for its gang.
Departs   The study proposes the pool and gives no figures: those here are inferred. A failure that comes
          within `for_s` is taken to come on one GPU as soon as on the gang. What the job did in the pool
          counts as far as its checkpoint does. A job that fails in the pool is tried there again.
          Jobs for which no GPU of the pool will do, and those of tenants with a hard quota, pass at once. So
          do all while some job needs nodes of the pool because the others could not hold it.
Checked   systems/philly.md, worked examples 4 and 5; a generated month of jobs (docs/philly.md)
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from rota.knowledge.needs import Knowledge
from rota.model.grants import Code, Constraint, Purpose
from rota.policies.partition.parts import together
from rota.policies.prerun.pool import Cut
from rota.scheduler.decision import Decision, Event, Memory, Wake
from rota.scheduler.nested import entry_of, is_due, wake_of
from rota.scheduler.policy import Lever, PolicySpec, levers_of, parse_inner, register
from rota.scheduler.snapshot import Cursor, Snapshot


@dataclass(frozen=True)
class PreRunParameters:
    """Parameters of `prerun`."""

    policy: str = "philly"
    """Policy of the jobs that have passed; its parameters stand in brackets, as in `fifo[skip=yes]`."""
    nodes: int = 1
    """Nodes of the pool, the last ones of the cluster; a cluster that has no more has no pool."""
    for_s: float = 180.0
    """How long a job that does not fail stays in the pool (inferred)."""
    least_gpus: int = 1
    """Jobs of fewer GPUs wait for them at once."""

    @property
    def inner(self) -> PolicySpec:
        """The policy of the jobs that have passed."""
        return parse_inner(self.policy)


_OWN = {Lever.PREEMPT, Lever.RESIZE}
_KEPT = Constraint(Code.POLICY, detail="waits for GPUs beside the pool in which new jobs run first")
_WAITS = Constraint(Code.POLICY, detail="waits for a GPU of the pool in which new jobs run first")


def _pulls(inner: PolicySpec, lever: Lever) -> bool:
    return lever in _OWN or lever in levers_of(inner.make())


@register(
    "prerun",
    "New jobs run on one GPU of a small pool first, to fail early; then any policy",
    paper="Jeon et al., ATC 2019",
    needs={kind: lambda p, kind=kind: kind in p.inner.make().needs for kind in Knowledge},
    levers={lever: lambda p, lever=lever: _pulls(p.inner, lever) for lever in Lever},
    parameters=PreRunParameters,
    work_conserving=False,
    heeds_priority=lambda p: p.inner.heeds_priority,
    heeds_deadlines=lambda p: p.inner.heeds_deadlines,
)
class PreRun:
    """A pool for new jobs, and a policy for those that have passed.

    Memory    `inside`  rows that run in the pool
              `passed`  rows of live jobs that need not run there (any more)
              `come`    True if the inner policy has not been asked since one of them came to it
              `lifted`  True if the inner policy was shown the whole cluster when it was last asked
              `inner`   when the inner policy wants to be asked, and what it remembers
    """

    def __init__(self, parameters: PreRunParameters | None = None) -> None:
        self.parameters = self.p = parameters or PreRunParameters()
        self.inner = self.p.inner.make()
        self._cursor = Cursor()
        self._cut: Cut | None = None
        self._new: set[int] = set()
        """Rows that wait for the pool."""
        self._inside: set[int] = set()
        """Rows that run in it."""

    def decide(self, snapshot: Snapshot, memory: Memory) -> Decision:
        inside: dict[int, bool] = memory.setdefault("inside", {})
        passed: dict[int, bool] = memory.setdefault("passed", {})
        memory["come"] = self._follow(snapshot, memory) or memory.get("come", False)
        cut = self._cut
        assert cut is not None
        since_s, until_s = snapshot.by_row.since_s, snapshot.now + self.p.for_s
        ends_s = {row: since_s.item(row) + self.p.for_s for row in sorted(self._inside)}
        done = [row for row, end_s in ends_s.items() if cut.is_lifted or snapshot.now >= end_s]
        passed.update(dict.fromkeys(done, True))
        new = sorted(self._new)
        started = cut.pool.starts(snapshot, new, done) if new else []
        inside.update({grant.job: True for grant in started})
        if done and cut.is_lifted:  # they are served with all others, in a moment
            decision = Decision(memory)
        else:
            decision = self._ask(snapshot, memory, cut)
            memory["come"] = bool(done)
        decision.grants = [*decision.grants, *started]
        decision.preempt = [*decision.preempt, *done]
        waiting = self._new.difference(grant.job for grant in started)
        decision.reasons = {**decision.reasons, **dict.fromkeys(sorted(waiting), _WAITS)}
        ends = [ends_s[row] for row in self._inside.difference(done)] + [until_s] * bool(started)
        decision.otherwise = _KEPT
        decision.wake = _wake(memory, len(cut.rest.waiting) > 0, min(ends, default=math.inf))
        return decision

    def _ask(self, snapshot: Snapshot, memory: Memory, cut: Cut) -> Decision:
        """The inner policy's decision, in the numbers of the whole cluster; empty if it need not be asked."""
        entry: Memory | None = memory.get("inner")
        seen = snapshot.seen_as(cut.rest)
        if memory["come"]:
            seen.cause |= int(Event.ARRIVAL)
        if memory.get("lifted") != cut.is_lifted:  # other nodes: it begins anew
            memory["lifted"], entry, self.inner = cut.is_lifted, None, self.p.inner.make()
        if entry is not None and not is_due(wake_of(entry), seen):
            return Decision(memory)
        decision = self.inner.decide(seen, entry["memory"] if entry else {})
        memory["inner"] = entry_of(decision)
        return together(memory, [(cut.rest, decision)], {}, Wake(), snapshot.reservations)

    # -- keeping up ----------------------------------------------------------------------------------

    def _follow(self, snapshot: Snapshot, memory: Memory) -> bool:
        """Take up what has changed; True if somebody comes to the inner policy."""
        rows, cut = snapshot.changes(self._cursor), self._cut
        if rows is None or cut is None or not cut.is_of(snapshot):
            cut = self._cut = Cut(snapshot, self.p.nodes, self.p.least_gpus)
            self._new, self._inside = set(), set()
            rows = [*snapshot.waiting.tolist(), *snapshot.running.tolist()]
            live = {*rows, *snapshot.held}
            for noted in (memory["inside"], memory["passed"]):
                for row in noted.keys() - live:
                    del noted[row]
        if cut.follow(snapshot, rows):
            rows = [*{*rows, *snapshot.waiting.tolist(), *snapshot.running.tolist()}]
        passed, came, within = memory["passed"], False, list[int]()
        for row in sorted(rows):
            self._new.discard(row)
            waits = snapshot.waits(row)
            if self._is_inside(snapshot, row, memory["inside"]):
                continue
            if waits and row not in passed and not cut.is_lifted and cut.pool.serves(snapshot, row):
                self._new.add(row)
                continue
            if waits or row in snapshot.grants:
                came = came or row not in passed
                passed[row] = True
            elif row not in snapshot.held:
                passed.pop(row, None)
            within.append(row)
        cut.rest.follow(within)
        return came

    def _is_inside(self, snapshot: Snapshot, row: int, inside: dict[int, bool]) -> bool:
        """True if `row`, of which something has changed, runs in the pool.

        A live world forgets what a grant was for when its controller is started anew, the memory does not.
        """
        grant = snapshot.grants.get(row)
        if grant is None or not (row in inside or grant.purpose is Purpose.PROFILE):
            self._inside.discard(row)
            inside.pop(row, None)
            return False
        self._inside.add(row)
        inside[row] = True
        return True


def _wake(memory: Memory, waits: bool, ends_s: float) -> Wake:
    """At the end of a run in the pool, and when the inner policy wants to be asked."""
    if "inner" not in memory:
        return Wake(ends_s)
    inner = wake_of(memory["inner"])
    return Wake(min(ends_s, inner.at_s if waits or not inner.if_waiting else math.inf))
