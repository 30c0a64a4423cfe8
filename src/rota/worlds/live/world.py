"""The world of real processes, as the loop sees it.

Time is the controller's clock in seconds since the cluster's epoch.  The loop's table changes at the moment
of a decision; machines follow: an attempt begins only when the jobs that held its devices have left them, and
a job's next attempt only when its last one has gone.  `LiveJobs.unsaved` collects what has to be stored after
each step.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence

from rota.knowledge.needs import Observation
from rota.model.cluster import Cluster
from rota.model.grants import Leave
from rota.model.growing import GrowingTable
from rota.model.jobs import PlainJob
from rota.model.promises import Offer
from rota.scheduler.decision import Event as Cause
from rota.scheduler.guard.host_memory import Resident
from rota.scheduler.world import Batch, Change, How, Lost, Refusal
from rota.table.progress import Progress
from rota.table.state import State
from rota.worlds.live import cluster_size, commands, lifecycle, preemption
from rota.worlds.live.attempts import Attempt, LiveJob
from rota.worlds.live.batch_builder import BatchBuilder
from rota.worlds.live.dependencies import derived_holds, expect
from rota.worlds.live.directives import Directives
from rota.worlds.live.due import look_at_row
from rota.worlds.live.execution import carry_out
from rota.worlds.live.holds import DEPENDENCY, note_of
from rota.worlds.live.inbox import Arrived, Begun, Changed, CommandAsked, Event, Inbox, ReportTold
from rota.worlds.live.jobs import AFTERWARDS_S, NODES, SCALING, LiveJobs
from rota.worlds.live.machines import LiveNode, Machines
from rota.worlds.live.node_states import look_at_nodes
from rota.worlds.live.observations import seen_before, settle
from rota.worlds.live.reports import take_in
from rota.worlds.live.settings import LiveSettings
from rota.worlds.live.wanted_nodes import Scaling


class LiveWorld:
    """Implements `rota.scheduler.world.World`: the inbox becomes batches, changes become directives."""

    progress: Progress

    def __init__(
        self,
        table: GrowingTable,
        cluster: Cluster,
        nodes: Sequence[LiveNode],
        jobs: Iterable[LiveJob],
        *,
        inbox: Inbox,
        directives: Directives,
        clock: Callable[[], float],
        epoch_unix_s: float,
        heard: Mapping[str, float],
        settings: LiveSettings | None = None,
        done: Iterable[int] = (),
        clock_trouble: Callable[[], str] = str,
        scaling: Scaling | None = None,
    ) -> None:
        """`scaling` is given if an operator's hook receives the number of nodes wanted."""
        self.cluster = cluster
        machines = Machines(cluster, nodes)
        self.live = LiveJobs(table, machines, jobs, directives, epoch_unix_s, settings or LiveSettings())
        self.live.scaling = scaling
        self.jobs = table.jobs
        self.inbox = inbox
        self.clock = clock
        self.heard = heard
        """Node -> moment at which its agent was last heard; the API's agents write it."""
        self._clock_trouble, self._told_of_clock = clock_trouble, ""
        """Remarks on the machine's clock: to be made, and made."""
        self._how: dict[int, How] = {}
        """Why jobs stopped that the loop has stopped, by row."""
        self._carried_out = set(done)
        """Commands that were: one may be in the inbox and on record as well."""

    # -- the protocol ----------------------------------------------------------------------------

    def attach(self, state: State) -> None:
        """Begin on `state`: the directives of all living attempts are staged, the timers set."""
        live = self.live
        live.state = state
        self.progress = state.progress
        for job in live.values():
            expect(live, job)
            for attempt in job.living:
                lifecycle.order(live, job, attempt)
            live.set_timers(job)
            if job.holds or job.needless:
                live.timers.set(job.row, self.clock())
        live.timers.set(NODES, self.clock() + live.settings.lost_after_s / 4)
        cluster_size.look_at(live, self.clock())

    def next(self, until_s: float) -> Batch | None:
        """What happened; a TIMER batch at `until_s`; None once the inbox is closed."""
        live = self.live
        while True:
            until = min(until_s, live.timers.next_s)
            events = self.inbox.take(until - self.clock(), gathers=self._is_full())
            if self.inbox.closed:
                self.inbox.put_back(events)
                return None
            batch = BatchBuilder(max(self.clock(), live.now))
            live.state.now = batch.now
            self._absorb(events, batch)
            self._look_at_due(batch)
            if batch.now >= until_s:
                batch.cause |= Cause.TIMER
                return batch.batch()
            if not batch.is_empty or live.unsaved.rebuild:
                return batch.batch()

    def _is_full(self) -> bool:
        """Whether no device has anything left: an arriving job waits, or another one has to leave."""
        held = self.live.state.occupancy
        return held.free.total == 0 and not held.spare

    def apply(self, changes: Sequence[Change]) -> Sequence[Refusal]:
        """Stage the directives that make the changes true."""
        return carry_out(self.live, changes, self._how)

    def offer(self, offers: Mapping[int, Offer]) -> None:
        """Their jobs are held already, in the table."""
        for row, offer in offers.items():
            lifecycle.offer(self.live, self.live[row], offer)

    def scale(self, nodes: int) -> None:
        cluster_size.ask(self.live, nodes)

    def stopped(self, row: int, how: How) -> Lost:
        """Settle the progress of the attempt of `row`; on a lost node it is void from now on."""
        live, job = self.live, self.live[row]
        attempt = job.attempt
        end = live.now if attempt is None else attempt.until_s(live.now)
        live.unsaved.job(job)
        if how is How.ADJUSTED:
            if attempt is not None:
                settle(live, job, attempt)
            return self._overhead(row, attempt, end)
        self.progress.stop(row, end)
        live.note_progress(row)
        self._how[row] = how
        if job.barred:
            live.timers.set(row, live.now + AFTERWARDS_S)  # once the table shows that it waits
        if attempt is None or how is How.RUNNING:
            return Lost()
        settle(live, job, attempt)
        if how is How.LOST and not attempt.is_over:
            lifecycle.void(live, job, attempt, f"node {self._lost_name(attempt)} is not heard of")
        return self._overhead(row, attempt, end)

    def _overhead(self, row: int, attempt: Attempt | None, end_s: float) -> Lost:
        """Seconds of starting up in the present interval of `row`."""
        if attempt is None:
            return Lost()
        ready_s = end_s if attempt.ready_s is None else min(end_s, attempt.ready_s)
        return Lost(overhead_s=max(0.0, ready_s - self.live.state.held_since_s(row)))

    def observed(self) -> Sequence[Observation]:
        live = self.live
        seen = seen_before(live) if live.seen is None else live.seen
        live.seen = []
        return seen

    def suspended(self) -> Iterable[Resident]:
        return preemption.suspended(self.live)

    def would_keep(self, row: int, leave: Leave) -> Resident | None:
        return preemption.would_keep(self.live, row, leave)

    def began_s(self, state: State, row: int) -> float:
        """When the processes of the running job `row` began on its present devices; NaN if they have not."""
        job = self.live.get(row)
        attempt = None if job is None else job.attempt
        return math.nan if attempt is None or attempt.ready_s is None else attempt.ready_s

    def _lost_name(self, attempt: Attempt) -> str:
        nodes = self.live.machines.nodes
        return next((place.name for place in attempt.places if nodes[place.node].state == "lost"), "?")

    # -- what happens ----------------------------------------------------------------------------

    def _absorb(self, events: list[Event], batch: BatchBuilder) -> None:
        """Note events until one has to wait because its row has changed already.

        A report of an agent waits alone, and then so do its later reports: they keep their order.
        """
        later: list[Event] = []
        late: set[str] = set()
        for place, event in enumerate(events):
            if isinstance(event, CommandAsked):
                if commands.has_to_wait(self.live, event, batch):
                    later += events[place:]
                    break
                if event.seq not in self._carried_out:
                    self._carried_out.add(event.seq)
                    commands.carry_out(self.live, event, batch)
            elif isinstance(event, Arrived):
                if not self._take_in(event, batch):
                    later += events[place:]
                    break
            elif isinstance(event, ReportTold):
                rest = event if event.node in late else take_in(self.live, event, batch)
                if rest is not None:
                    later.append(rest)
                    late.add(event.node)
            elif isinstance(event, Begun):
                batch.cause |= Cause.ARRIVAL | Cause.END | Cause.FAILURE | Cause.CAPACITY
            else:
                self.live.unsaved.rebuild = self.live.unsaved.rebuild or event.why
                batch.notable = True
                # The rest may be about things unknown to this world; all changes until now are read together.
                later += [event for event in events[place + 1 :] if not isinstance(event, Changed)]
                break
        if later:
            self.inbox.put_back(later)

    def _take_in(self, event: Arrived, batch: BatchBuilder) -> bool:
        """Jobs that the table has not read from the store already; False if it has no room for them."""
        table = self.live.table
        fresh = [one for one in event.jobs if one[0].row >= table.filled]
        if len(fresh) > table.capacity - table.filled:
            self.live.unsaved.rebuild = "the table is full"
            batch.notable = True
            return False
        for job, asked in fresh:
            self._arrive(job, asked, batch)
        return True

    def _arrive(self, job: LiveJob, asked: PlainJob, batch: BatchBuilder) -> None:
        live = self.live
        live.enter(job, asked)
        expect(live, job)
        batch.arrived.append(job.row)
        batch.touched.add(job.row)
        job.holds |= {hold.kind: hold for hold in derived_holds(live, job, batch.now)}
        if job.holds:
            batch.hold(job.row, note_of(job.holds))
        else:
            batch.cause |= Cause.ARRIVAL
        live.unsaved.job(job)
        live.set_timers(job)
        if DEPENDENCY in job.holds:
            live.timers.set(job.row, batch.now)  # it may never be met

    def _look_at_clock(self, batch: BatchBuilder) -> None:
        """Record once that the wall clock was set."""
        said = self._clock_trouble()
        if bool(said) != bool(self._told_of_clock):
            text = said or "this machine's clock agrees with the cluster's again"
            self.live.unsaved.event("clock", "", text)
            batch.notable = True
        self._told_of_clock = said

    def _look_at_due(self, batch: BatchBuilder) -> None:
        """Handle the jobs and nodes that are due."""
        for row in self.live.timers.due(batch.now):
            if row == NODES:
                self._look_at_clock(batch)
                look_at_nodes(self.live, self.heard, batch)
            elif row == SCALING:
                cluster_size.look(self.live, batch)
            else:
                look_at_row(self.live, row, batch)
