"""Profiling runs: who comes is measured for a short while, on nodes set apart, before a policy sees it.

From      the profilers of Chronus (SoCC 2021) and Lucid (ASPLOS 2023)
Shows     `inner` all nodes but those set apart, and all jobs but those to be measured
Teaches   nobody itself: who listens to what is seen of running jobs has heard it when a run ends, such as
          `--knowledge duration=measured`
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass, field

import numpy as np

from rota.model.cluster import Cluster
from rota.model.grants import Code, Constraint, Grant, Purpose, Reservation
from rota.model.promises import DeadlinePlan
from rota.model.tenants import Tenants
from rota.model.units import plural
from rota.scheduler.decision import Decision, Event, Memory, Wake
from rota.scheduler.nested import entry_of, is_due, joined, wake_of
from rota.scheduler.policy import Policy
from rota.scheduler.snapshot import Cursor, Snapshot
from rota.scheduler.stages.fit import Fitter
from rota.scheduler.stages.place import consolidate
from rota.table.view import View

_WAITS = Constraint(Code.POLICY, detail="it is to be measured first, on nodes set apart for that")


@dataclass(frozen=True)
class Trials:
    """How profiling runs are made."""

    nodes: int
    """Nodes set apart for them: the last ones."""
    per_gpu_s: float = 30.0
    """Length of a run for each GPU."""
    most_s: float = 120.0
    """And at most."""
    patience_s: float = 600.0
    """Who has waited so long for a run goes without."""
    most_gpus: int = 8
    """Jobs with more go without."""

    def length_s(self, gpus: int) -> float:
        return min(self.most_s, self.per_gpu_s * gpus)


@dataclass
class _Book:
    """What is remembered, rows in ascending order."""

    passed: list[int] = field(default_factory=list)
    """Live rows that `inner` may have: measured, or going without."""
    tried: list[int] = field(default_factory=list)
    """Rows in a run."""
    inner: Memory = field(default_factory=dict)
    """The entry of the policy inside; empty until it was asked."""


class Profiler:
    """`inner` on what `trials` leave.

    A job is measured once, on as many GPUs as it asks for; the first to come is the first, and one that does
    not fit is passed over.  What it does meanwhile counts, unless its program cannot save it.  Those that
    name nodes, ask for parts of GPUs or belong to tenants with hard quotas go without, and so do all while no
    other nodes are left.  One that the cluster does not let go stays where it is.
    """

    def __init__(self, inner: Policy, trials: Trials) -> None:
        self.inner, self.trials = inner, trials
        self.needs = inner.needs
        self._cursor = Cursor()
        self._cluster: Cluster | None = None  # what the views below were cut from
        self._main: View
        self._apart: View | None = None
        self._plan_of: Callable[[int], DeadlinePlan | None] | None = None

    def decide(self, snapshot: Snapshot, memory: Memory) -> Decision:
        book, before = _Book(**memory), set(memory.get("passed", ()))
        changed = self._cut(snapshot)
        ended, wakes = self._ended(snapshot, book)
        trials = self._begun(snapshot, book, changed, wakes)
        self._deal(book, before, changed)
        decision = self._asked(snapshot, book, is_news=set(book.passed) != before)
        decision.grants = [*(self._main.outward(grant) for grant in decision.grants), *trials]
        decision.preempt = [*decision.preempt, *ended]
        if decision.reservations is not None:
            decision.reservations = [self._outward(one) for one in decision.reservations]
        decision.reasons = {**decision.reasons, **self._reasons(snapshot, book)}
        decision.wake = joined([decision.wake, *wakes])
        decision.memory = vars(book)
        return decision

    # -- who sees what -------------------------------------------------------------------------------

    def _cut(self, snapshot: Snapshot) -> Sequence[int]:
        """The last nodes are set apart, if others are left; rows that changed since, or all live ones."""
        cluster, rows = snapshot.cluster, snapshot.changes(self._cursor)
        if cluster is self._cluster and rows is not None:
            return rows
        self._cluster = cluster
        there = [node for node in range(len(cluster.node_names)) if node not in cluster.gone]
        apart = there[-self.trials.nodes :] if len(there) > self.trials.nodes else []
        rest = sorted(set(range(len(cluster.node_names))).difference(apart))
        self._main = snapshot.view(cluster.take(np.array(rest, dtype=np.int64), cluster.tenants), rest)
        self._apart = None
        if apart:
            alone = cluster.take(np.array(apart, dtype=np.int64), Tenants.none())
            self._apart = snapshot.view(alone, apart)
        return [*snapshot.waiting.tolist(), *snapshot.running.tolist()]

    def _deal(self, book: _Book, before: Set[int], changed: Sequence[int]) -> None:
        """`inner` sees the jobs that have passed, as far as the nodes left to it can hold them."""
        main, passed = self._main, set(book.passed)
        rows = {row for row in changed if row in passed or row in before} | (passed - before)
        main.follow(sorted(row for row in rows if main.feasible[row]))

    def _asked(self, snapshot: Snapshot, book: _Book, *, is_news: bool) -> Decision:
        """What `inner` decides, if it wants to be asked."""
        view = snapshot.seen_as(self._main)
        if book.inner and not is_news and not is_due(wake_of(book.inner), view):
            return Decision({}, wake=wake_of(book.inner), plan_of=self._plan_of)
        decision = self.inner.decide(view, book.inner.get("memory", {}))
        book.inner, self._plan_of = entry_of(decision), decision.plan_of
        decision.ranking = None  # it speaks of the devices of the view
        return decision

    def _outward(self, reservation: Reservation) -> Reservation:
        outer = self._main.outer
        return reservation._replace(devices=tuple(outer[device] for device in reservation.devices))

    def _reasons(self, snapshot: Snapshot, book: _Book) -> dict[int, Constraint]:
        """Why jobs wait of which `inner` knows nothing."""
        passed, reasons = set(book.passed), dict[int, Constraint]()
        for row in snapshot.waiting.tolist():
            if row not in passed:
                reasons[row] = _WAITS
            elif not self._main.feasible[row]:
                asked, gpus = plural(snapshot.gpus_of[row], "GPU"), self._main.cluster.gpus
                why = f"asks for {asked}; beside the nodes set apart to measure jobs there are {gpus}"
                reasons[row] = Constraint(Code.POLICY, detail=why)
        return reasons

    # -- runs ----------------------------------------------------------------------------------------

    def _ended(self, snapshot: Snapshot, book: _Book) -> tuple[list[int], list[Wake]]:
        """Rows whose run is over and that are to leave; when those of the others are.

        The book says who is in a run: a live world forgets what grants were for when its controller begins
        anew, and then nobody says that one has ended.
        """
        grants, jobs, now = snapshot.grants, snapshot.jobs, snapshot.now
        waiting = set(snapshot.waiting.tolist())
        book.passed = [row for row in book.passed if row in waiting or row in grants]
        over, wakes, goes_on = [], [], []
        for row in book.tried:
            grant = grants.get(row)
            if grant is None:
                if row in waiting:  # it was stopped by something else
                    book.passed.append(row)
                continue
            ready_s = jobs.ready_s(row)
            begun_s = max(jobs.placed_s[row], ready_s if ready_s < math.inf else now)
            ends_s = begun_s + self.trials.length_s(len(grant.devices))
            if ends_s <= now + 1e-9:
                over.append(row)
                book.passed.append(row)
                if grant.purpose is not Purpose.PROFILE:
                    wakes.append(Wake(math.nextafter(now, math.inf), Event.ANY))
            else:
                goes_on.append(row)
                wakes.append(Wake(ends_s, Event.ANY))
        book.tried = goes_on
        known = {*book.passed, *book.tried}
        book.passed += [row for row in snapshot.running.tolist() if row not in known]  # it was here before
        return over, wakes

    def _begun(
        self, snapshot: Snapshot, book: _Book, changed: Sequence[int], wakes: list[Wake]
    ) -> list[Grant]:
        """Grants of the runs that begin now."""
        known = {*book.passed, *book.tried}
        fresh = [row for row in snapshot.waiting.tolist() if row not in known]
        grants: list[Grant] = []
        if self._apart is None:
            book.passed += fresh
        else:
            self._apart.follow(changed)
            grants = self._placed(snapshot, self._apart, fresh, book, wakes)
        book.passed.sort()
        return grants

    def _placed(
        self, snapshot: Snapshot, apart: View, fresh: Sequence[int], book: _Book, wakes: list[Wake]
    ) -> list[Grant]:
        view = snapshot.seen_as(apart)
        fit, scratch = Fitter(view, consolidate), view.scratch()
        grants: list[Grant] = []
        for row in fresh:
            patience_s = snapshot.jobs.table.submit_s.item(row) + self.trials.patience_s
            if snapshot.now >= patience_s or not self._is_measurable(snapshot, fit, row):
                book.passed.append(row)
                continue
            grant = fit(scratch, row)
            if grant is None:
                wakes.append(Wake(patience_s, Event.ANY))
                continue
            scratch.hold(grant)
            grants.append(apart.outward(grant)._replace(purpose=Purpose.PROFILE))
            book.tried.append(row)
            wakes.append(Wake(snapshot.now + self.trials.length_s(len(grant.devices)), Event.ANY))
        return grants

    def _is_measurable(self, snapshot: Snapshot, fit: Fitter, row: int) -> bool:
        """True if the nodes set apart could have it, and nothing else speaks against it."""
        table = snapshot.jobs.table
        asks = 1 <= table.gpus.item(row) <= self.trials.most_gpus and table.gpu_share.item(row) == 1.0
        lineage = snapshot.cluster.tenants.lineage(table.name_of("tenant", row))
        is_bound = table.node_set.item(row) >= 0 or any(tenant.hard for tenant in lineage)
        return asks and not is_bound and fit.ever(row)
