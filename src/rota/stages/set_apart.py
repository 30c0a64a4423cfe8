"""A policy that sets nodes apart, on which each new job runs first for a while, around an inner policy.

Two systems do so: a pool in which new jobs fail early (`prerun`), and the profilers of Chronus (SoCC 2021)
and Lucid (ASPLOS 2023), which measure them.  `FirstRuns` says which jobs run there, on how many GPUs, how
long. To the inner policy the other nodes are the whole cluster, and the jobs that have passed are all the
jobs.  This module passes on no measurements: knowledge that is learned from running jobs, such as
`--knowledge duration=measured`, has them when a run ends.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from rota.model.feasible import refusals
from rota.model.grants import Code, Constraint, Grant, Purpose
from rota.scheduler.asking import asked
from rota.scheduler.decision import Decision, Event, Memory, Wake
from rota.scheduler.policy import Policy
from rota.scheduler.snapshot import Cursor, Snapshot
from rota.stages.cut import Cut, FirstRuns
from rota.stages.joining import LastSaid, together
from rota.stages.nested import entry_of, is_due, wake_of


class SetApart:
    """The policy that `make` builds, given the jobs that `runs` release; `waits` is why other jobs wait.

    What a job does in its run counts, unless its program cannot save it.  Jobs run in order of arrival, and
    one for which there is no room is passed over.  A job that the cluster does not release stays where it is.

    Memory    `inside`  rows in their first run
              `begun`   when the program of each of them began, or will as far as was known
              `passed`  rows of live jobs that need none (any more)
              `come`    True if the inner policy has not been called since one of them came to it
              `lifted`  True if the inner policy was shown the whole cluster when it was last called
              `inner`   when the inner policy wants to be called, and what it remembers
    """

    def __init__(self, make: Callable[[], Policy], runs: FirstRuns, waits: str, beside: str) -> None:
        """`beside` is why a job that has passed waits, if neither cluster nor inner policy says why."""
        self.runs = runs
        self._make = make
        self.inner = make()
        self.needs = self.inner.needs
        self._waits = Constraint(Code.POLICY, detail=waits)
        self._beside = Constraint(Code.POLICY, detail=beside)
        self._said = LastSaid()
        self._cursor = Cursor()
        self._cut: Cut | None = None
        self._new: set[int] = set()
        """Rows that wait for a first run."""
        self._inside: set[int] = set()
        """Rows that are in it."""

    def decide(self, snapshot: Snapshot, memory: Memory) -> Decision:
        inside: dict[int, bool] = memory.setdefault("inside", {})
        memory.setdefault("passed", {})
        memory["come"] = self._follow(snapshot, memory) or memory.get("come", False)
        cut = self._cut
        assert cut is not None
        ends_s = self._ends_s(snapshot, memory)
        done = [row for row, end_s in ends_s.items() if cut.is_lifted or snapshot.now >= end_s - 1e-9]
        self._let_go(done, memory)
        new = sorted(self._new)
        started = cut.pool.starts(snapshot, new, done) if new else []
        begins = any(grant.job not in inside for grant in started)
        inside.update({grant.job: True for grant in started})
        if done and cut.is_lifted:  # they are served with all others, in a moment
            decision = Decision(memory)
        else:
            decision = self._ask(snapshot, memory, cut)
            memory["come"] = bool(done)
        self._said.tell(decision)
        decision.grants = [*decision.grants, *started]
        decision.preempt = [*decision.preempt, *done]
        waiting = self._new.difference(grant.job for grant in started)
        decision.reasons = {
            **decision.reasons,
            **dict.fromkeys(sorted(waiting), self._waits),
            **self._outsized(snapshot, memory, cut),
        }
        decision.otherwise = decision.otherwise or self._beside
        at_s = self._next_s(snapshot, ends_s, done, started, waiting)
        if begins:  # to note when, before its speed changes
            at_s = math.nextafter(snapshot.now, math.inf)
        decision.wake = _wake(memory, len(cut.rest.waiting) > 0, at_s)
        return decision

    def _ask(self, snapshot: Snapshot, memory: Memory, cut: Cut) -> Decision:
        """The inner policy's decision, in the numbers of the whole cluster; empty if it is not called."""
        entry: Memory | None = memory.get("inner")
        seen = snapshot.seen_as(cut.rest)
        if memory["come"]:
            seen.cause |= int(Event.ARRIVAL)
        is_anew = memory.get("lifted", cut.is_lifted) != cut.is_lifted
        if is_anew:  # on other nodes
            entry, self.inner, self._said = None, self._make(), LastSaid()
        memory["lifted"] = cut.is_lifted
        if entry is not None and not is_due(wake_of(entry), seen):
            return Decision(memory)
        decision = asked(self.inner, seen, entry["memory"] if entry else {})
        memory["inner"] = entry_of(decision)
        self._said.note("", cut.rest, decision)
        joined = together(memory, [(cut.rest, decision)], {}, Wake(), ())  # no other policy reserves devices
        if is_anew and joined.reservations is None and snapshot.reservations:
            joined.reservations = []
        return joined

    def _outsized(self, snapshot: Snapshot, memory: Memory, cut: Cut) -> dict[int, Constraint]:
        """Why jobs hidden from the inner policy wait: the nodes left to it could never hold them."""
        feasible = cut.rest.feasible
        passed = [row for row in snapshot.waiting.tolist() if row in memory["passed"] and not feasible[row]]
        lacks = refusals(snapshot.jobs.table, cut.rest.cluster, passed)
        return {
            row: Constraint(Code.POLICY, detail=f"never fits beside the nodes set apart: it {why}")
            for row, why in lacks.items()
        }

    # -- runs ----------------------------------------------------------------------------------------

    def _ends_s(self, snapshot: Snapshot, memory: Memory) -> dict[int, float]:
        """When the run of each row inside is over: it counts from when the program has begun.

        That is noted, as the moment a job works from moves whenever its speed changes.
        """
        jobs, before, begun, ends_s = snapshot.jobs, memory.get("begun", {}), {}, {}
        for row in sorted(self._inside):
            placed_s, ready_s = jobs.placed_s.item(row), jobs.ready_s(row)
            begun_s = before.get(row, -math.inf)
            if not placed_s <= begun_s <= snapshot.now:  # not known, of another placement, or still to come
                begun_s = max(placed_s, ready_s if ready_s < math.inf else snapshot.now)
            if ready_s < math.inf:
                begun[row] = begun_s
            ends_s[row] = begun_s + self.runs.length_s(len(snapshot.grants[row].devices))
        memory["begun"] = begun
        return ends_s

    def _let_go(self, done: list[int], memory: Memory) -> None:
        """The runs of `done` are over, whether or not they may be stopped."""
        for row in done:
            memory["passed"][row] = True
            memory["inside"].pop(row, None)

    def _next_s(
        self,
        snapshot: Snapshot,
        ends_s: dict[int, float],
        done: list[int],
        started: list[Grant],
        waiting: set[int],
    ) -> float:
        """When a run ends, or a job has waited enough for one."""
        now, submit_s = snapshot.now, snapshot.jobs.table.submit_s
        moments = [end_s for row, end_s in ends_s.items() if row not in done]
        moments += [now + self.runs.length_s(len(grant.devices)) for grant in started]
        if self.runs.patience_s < math.inf:
            moments += [submit_s.item(row) + self.runs.patience_s for row in waiting]
        if any(snapshot.grants[row].purpose is not Purpose.PROFILE for row in done):
            moments.append(math.nextafter(now, math.inf))  # no event says that such a run has ended
        return min(moments, default=math.inf)

    # -- keeping up ----------------------------------------------------------------------------------

    def _follow(self, snapshot: Snapshot, memory: Memory) -> bool:
        """Take up what has changed; True if a job comes to the inner policy."""
        rows, cut, passed = snapshot.changes(self._cursor), self._cut, memory["passed"]
        if rows is None or cut is None or not cut.is_of(snapshot):
            cut = self._cut = Cut(snapshot, self.runs)
            self._said = LastSaid()
            self._new, self._inside = set(), set()
            rows = [*snapshot.waiting.tolist(), *snapshot.running.tolist()]
            live = {*rows, *snapshot.held}
            for noted in (memory["inside"], passed):
                for row in noted.keys() - live:
                    del noted[row]
        if cut.follow(snapshot, rows):
            rows = [*snapshot.waiting.tolist(), *snapshot.running.tolist(), *rows]
        came, within = False, list[int]()
        for row in sorted({*rows, *self._impatient(snapshot)}):
            self._new.discard(row)
            was_inside = row in memory["inside"]
            if self._is_inside(snapshot, row, memory):
                continue
            waits = snapshot.waits(row)
            if waits and row not in passed and self._is_first(snapshot, cut, row, was_inside):
                self._new.add(row)
                continue
            if waits or row in snapshot.grants:
                came = came or row not in passed
                passed[row] = True
            elif row not in snapshot.held:
                passed.pop(row, None)
            if self.runs.lifts or cut.rest.feasible[row]:
                within.append(row)
        # Where a wrapper around this policy has put them they are in the way of the others.
        inside = [device for row in self._inside for device in snapshot.grants[row].devices]
        cut.rest.follow(within, {device for device in inside if device in cut.rest.inner})
        return came

    def _impatient(self, snapshot: Snapshot) -> list[int]:
        """Rows that have waited enough for a first run."""
        submit_s = snapshot.jobs.table.submit_s
        return [row for row in self._new if snapshot.now >= submit_s.item(row) + self.runs.patience_s]

    def _is_first(self, snapshot: Snapshot, cut: Cut, row: int, was_inside: bool) -> bool:
        """True if `row`, which waits and has not passed, is to run on the nodes set apart first."""
        has_waited = snapshot.now >= snapshot.jobs.table.submit_s.item(row) + self.runs.patience_s
        if has_waited or (was_inside and not self.runs.again):
            return False
        return not cut.is_lifted and cut.pool.serves(snapshot, row)

    def _is_inside(self, snapshot: Snapshot, row: int, memory: Memory) -> bool:
        """True if `row`, which has had an event, is in its first run.

        A live world forgets what a grant was for when its controller is restarted; the memory does not.
        """
        grant, inside = snapshot.grants.get(row), memory["inside"]
        is_tried = grant is not None and grant.purpose is Purpose.PROFILE and row not in memory["passed"]
        if grant is None or not (row in inside or is_tried):
            self._inside.discard(row)
            if row not in snapshot.held:  # a held job comes back as one that was in its first run
                inside.pop(row, None)
            return False
        self._inside.add(row)
        inside[row] = True
        return True


def _wake(memory: Memory, waits: bool, at_s: float) -> Wake:
    """At `at_s`, and when the inner policy wants to be called."""
    if "inner" not in memory:
        return Wake(at_s)
    inner = wake_of(memory["inner"])
    return Wake(min(at_s, inner.at_s if waits or not inner.if_waiting else math.inf))
