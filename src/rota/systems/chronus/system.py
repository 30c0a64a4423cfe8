"""Chronus — deadlines are promised if leases planned ahead keep them; all else runs on what they leave.

Paper     Gao et al., "Chronus: A Novel Deadline-aware Scheduler for Deep Learning Training Jobs", SoCC 2021
Decides   admission, order, preemption, placement
Needs     durations; how much jobs are slowed down by lying apart
Idea      1. A deadline is promised if the job finds enough leases before it, beside all promised jobs.
             Each takes its latest leases, so that near ones stay free for urgent jobs.
          2. When a lease begins an integer program plans all leases again: the sum of the values of the
             deadlines is largest; then as many GPUs as possible are in use now or, while some job has no
             promise, as few.
          3. In every inner slot GPUs that no job holds by a lease go to jobs without a promise, by shortest
             remaining service, and then to those that run ahead of their plan.
          4. Jobs that start together are placed in several orders; the fastest placement counts.
Departs   A job that runs ahead of its plan, or without one, keeps its GPUs when a lease begins if it is
          served again (ours).  A job that ends within a lease is judged by the estimate.  A plan is never
          longer than before, so that it is kept whole; a job that loses work to a fault is admitted again.  A
          far deadline of a job with several decides whether it is admitted, and the program chooses among
          them (the simulator tests the first).  Of splits it is known only whether GPUs lie apart, not the
          speed of each.  Profiling runs (`profile_nodes`) measure how fast a job is, not what a split costs
          it.  For plans the cluster is assumed to have one type.
Checked   systems/chronus.md, worked examples 1 to 5; that no accepted strict job is late while estimates are
          exact and nothing fails
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from rota.knowledge.needs import Knowledge
from rota.model.grants import Code, Constraint, Grant
from rota.model.promises import Offer, Promise
from rota.model.units import format_duration
from rota.scheduler.decision import Decision, Event, Memory, Wake
from rota.scheduler.policy import Lever, register
from rota.scheduler.snapshot import Snapshot
from rota.stages.fit import Fitter
from rota.stages.place import consolidate
from rota.systems.chronus.asks import LiveAsks, Requested
from rota.systems.chronus.book import Book
from rota.systems.chronus.carrying import carry_out, let_go
from rota.systems.chronus.doubts import doubtful
from rota.systems.chronus.parameters import ChronusParameters
from rota.systems.chronus.placing import placed_together
from rota.systems.chronus.planning import LeasePlanner
from rota.systems.chronus.profiling import Trials, profiled
from rota.systems.chronus.ranks import ByRanks, Ranks
from rota.systems.chronus.waiting import DeadlineReasons

_SLOTS = Constraint(Code.POLICY, detail="GPUs are given out when the next inner slot begins")


@register(
    "chronus",
    "Deadlines kept by leases planned ahead, best effort on what they leave",
    paper="Chronus, SoCC 2021",
    needs={Knowledge.DURATION, Knowledge.PLACEMENT},
    levers={Lever.PREEMPT: True, Lever.MIGRATE: True, Lever.REJECT: lambda p: p.offer_s > 0.0},
    parameters=ChronusParameters,
    heeds_deadlines=True,
    promises=True,
    rotates=True,
)
class Chronus:
    """Leases for promised deadlines, inner slots for all other jobs.

    The memory is a `Book`, or with profiling runs that of `SetApart` with a book inside.
    """

    needs: frozenset[Knowledge]

    def __init__(self, parameters: ChronusParameters | None = None) -> None:
        self.parameters = p = parameters or ChronusParameters()
        self._requested: Requested | None = None
        self._profiler = None
        if p.profile_nodes:
            within = replace(p, profile_nodes=0)
            self._profiler = profiled(lambda: Chronus(within), Trials(p.profile_nodes, p.profile_s))

    def decide(self, snapshot: Snapshot, memory: Memory) -> Decision:
        if self._profiler is not None:
            return self._profiler.decide(snapshot, memory)
        return self._plan(snapshot, memory)

    def _plan(self, snapshot: Snapshot, memory: Memory) -> Decision:
        book, now, p = Book(**memory), snapshot.now, self.parameters
        is_between = now < self._next_s(snapshot, book)
        if is_between and not (book.plans and snapshot.cause & Event.CAPACITY):
            return self._answer(snapshot, book)
        capacity = snapshot.cluster.gpus - len(snapshot.occupancy.down)
        asks = LiveAsks(snapshot, self._requested_of(snapshot, capacity), p)
        if is_between:
            return self._doubt(snapshot, book, asks, capacity)
        lease = math.floor(now / p.lease_s + 1e-9)
        is_new, late_s = lease != book.lease, now - lease * p.lease_s
        is_new = is_new and (book.lease >= 0 or late_s < 1e-6)
        book.lease = lease
        book.bring_up(asks, lease)
        # Without plans a lease in which no job waits is skipped: a job that comes to it comes amid it.
        begins = is_new and (bool(book.plans) or late_s < p.slot_s - 1e-6)
        book.shorten(asks, now, p.lease_s, begins=begins)
        is_cut = is_new and self._begin(book, asks, capacity)
        if begins and p.frees_all_at_leases:
            order = Ranks(book, asks, capacity, now, p).ordered()
            grants, preempt = let_go(snapshot, Fitter(snapshot, consolidate), order, asks)
            return self._answer(snapshot, book, grants, preempt, at_s=math.nextafter(now, math.inf))
        return self._slot(snapshot, book, asks, capacity, begins, is_cut)

    def _requested_of(self, snapshot: Snapshot, capacity: int) -> Requested:
        """The asks of the jobs, computed once for each job table."""
        if self._requested is None or not self._requested.holds_for(snapshot, capacity):
            self._requested = Requested(snapshot, capacity, self.parameters)
        return self._requested

    def _next_s(self, snapshot: Snapshot, book: Book) -> float:
        """When there is something to decide: as was asked for, or when a slot begins for waiting jobs."""
        slot_s, asked_s = self.parameters.slot_s, book.next_s if book.next_s >= 0.0 else math.inf
        if asked_s < math.inf and not snapshot.waiting_count:
            return asked_s
        return min(asked_s, math.ceil(snapshot.now / slot_s - 1e-9) * slot_s)

    def _begin(self, book: Book, asks: LiveAsks, capacity: int) -> bool:
        """A lease begins; True if the search for its plan ended at a limit."""
        planner = LeasePlanner(book, asks, capacity, book.lease, self.parameters)
        planner.assign()
        book.short, book.capacity, book.doubted, book.sure = book.leaves_out, capacity, [], []
        return planner.is_cut

    def _doubt(self, snapshot: Snapshot, book: Book, asks: LiveAsks, capacity: int) -> Decision:
        """Report at once what a change of the cluster within a slot means for promises."""
        self._look(book, asks, capacity, snapshot.now)
        decision = self._answer(snapshot, book)
        decision.promises = self._promises(book)
        return decision

    def _look(self, book: Book, asks: LiveAsks, capacity: int, now: float) -> None:
        """Note which promises are at risk, if the cluster is or was too small for the present plan."""
        if capacity < book.capacity or book.doubted:
            book.doubted = doubtful(book, asks, capacity, now, self.parameters)

    def _slot(
        self,
        snapshot: Snapshot,
        book: Book,
        asks: LiveAsks,
        capacity: int,
        begins: bool,
        is_cut: bool,
    ) -> Decision:
        """Begin an inner slot: admit jobs that have come, give out what is free."""
        p = self.parameters
        came = [ask for ask in asks.with_deadlines() if ask.row not in book.dues]
        came.sort(key=lambda ask: (ask.submit_s, ask.row))
        later = LeasePlanner(book, asks, capacity, book.lease + 1, p).admit(came)
        book.short = book.short or book.leaves_out
        self._look(book, asks, capacity, snapshot.now)
        ranks = Ranks(book, asks, capacity, snapshot.now, p)
        offers = self._offers(snapshot, book, later, asks)
        book.sure = sorted(ranks.guaranteed)
        order = ranks.ordered().without(offers)
        fit = Fitter(snapshot, consolidate)
        grants, preempt = carry_out(snapshot, fit, order, asks, begins=begins)
        grants = placed_together(snapshot, fit, grants, preempt, p.search)
        for row in offers:
            book.drop(row)
        decision = self._answer(snapshot, book, grants, preempt)
        decision.offers, decision.promises = offers, self._promises(book)
        decision.is_cut = is_cut
        return decision

    def _offers(
        self, snapshot: Snapshot, book: Book, later: dict[int, float], asks: LiveAsks
    ) -> dict[int, Offer]:
        """A later deadline for jobs that have come, wait and could be promised one."""
        offer_s = self.parameters.offer_s
        offers: dict[int, Offer] = {}
        for row, due_s in later.items():
            is_new = not asks[row].runs and row not in book.anew
            if offer_s and due_s < math.inf and is_new and len(asks[row].dues) == 1:
                late_s = due_s - asks[row].due_s
                why = f"its deadline cannot be promised, but one {format_duration(late_s)} later"
                offers[row] = Offer(due_s, snapshot.now + offer_s, why)
        return offers

    def _promises(self, book: Book) -> dict[int, Promise]:
        """What has not been reported to users yet: new promises, and promises at risk."""
        made = {}
        for row, aim_s in book.aims.items():
            said = [aim_s, float(row in book.doubted)]
            if book.told.get(row) != said:
                book.told[row] = said
                ends_s = (book.plans[row][-1] + 1) * self.parameters.lease_s
                made[row] = Promise(aim_s, math.inf if said[1] else ends_s)
        for row, (due_s, at_risk) in list(book.told.items()):
            if row not in book.aims and not at_risk:
                book.told[row] = [due_s, 1.0]
                made[row] = Promise(due_s, math.inf)
        return made

    def _answer(
        self,
        snapshot: Snapshot,
        book: Book,
        grants: Sequence[Grant] = (),
        preempt: Sequence[int] = (),
        at_s: float | None = None,
    ) -> Decision:
        """A decision without promises, to be asked again `at_s`, or when a slot begins that matters."""
        wake_s = self._wake_s(snapshot, book, len(preempt)) if at_s is None else at_s
        book.next_s = wake_s if wake_s < math.inf else -1.0
        gpus, lease_s = snapshot.jobs.gpus, self.parameters.lease_s
        return Decision(
            vars(book),
            grants,
            preempt,
            wake=Wake(wake_s),
            reasons=DeadlineReasons(book, snapshot.now, lease_s),
            otherwise=_SLOTS,
            plan_of=lambda row: book.plan_of(row, gpus, lease_s),
            ranking=ByRanks(book, self.parameters),
        )

    def _wake_s(self, snapshot: Snapshot, book: Book, preempted: int) -> float:
        """The next slot if a job waits, else the next lease; never if no job has a plan either."""
        waits = snapshot.waiting_count or preempted
        length_s = self.parameters.slot_s if waits else self.parameters.lease_s
        if not waits and not book.dues:
            return math.inf
        return (math.floor(snapshot.now / length_s + 1e-9) + 1) * length_s
