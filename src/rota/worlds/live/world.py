"""The world of real processes, as the loop sees it.

Time is the controller's clock in seconds since the cluster's epoch.  The loop's table changes at the moment
of a decision; machines follow: an attempt begins only when the devices it was given have been left by whoever
held them, and a job's next attempt only when its last one has gone.  What has to be stored after each step
collects in `news`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence

from rota.model.cluster import Cluster
from rota.model.grants import Grant, Leave
from rota.model.growing import GrowingTable
from rota.model.jobs import Job
from rota.scheduler.decision import Event as Cause
from rota.scheduler.guard.host_memory import Resident
from rota.scheduler.moments.replica import TracedState
from rota.scheduler.world import Batch, Change, How, Lost, Refusal
from rota.table.progress import Progress
from rota.table.state import Phase, State
from rota.wire.sync import Notice, Part, PartStatus, Wanted
from rota.worlds.live import leaving
from rota.worlds.live.attempts import WITHDRAWN, Attempt, LiveJob
from rota.worlds.live.batch_builder import BatchBuilder
from rota.worlds.live.commands import has_to_wait, obey
from rota.worlds.live.dependencies import Names, array_is_full, derived_holds, expect, wake_array
from rota.worlds.live.holds import ARRAY, DEPENDENCY, Hold, note_of
from rota.worlds.live.inbox import Arrived, Begun, Changed, CommandAsked, Event, Inbox, ReportTold
from rota.worlds.live.moving import carry_out
from rota.worlds.live.news import LiveNode, News
from rota.worlds.live.observed import Observer, rate_of, settle
from rota.worlds.live.orders import Desk
from rota.worlds.live.parts import part_of, places_of
from rota.worlds.live.recent_costs import Measured
from rota.worlds.live.reports import hear
from rota.worlds.live.settings import LiveSettings
from rota.worlds.live.timers import AFTERWARDS_S, Timers, ring


class LiveWorld:
    """Implements `rota.scheduler.world.World` over attempts, an inbox and a desk."""

    progress: Progress
    state: State

    def __init__(
        self,
        table: GrowingTable,
        cluster: Cluster,
        nodes: Sequence[LiveNode],
        jobs: Iterable[LiveJob],
        *,
        inbox: Inbox,
        desk: Desk,
        clock: Callable[[], float],
        epoch_unix_s: float,
        heard: Mapping[str, float],
        settings: LiveSettings | None = None,
        done: Iterable[int] = (),
    ) -> None:
        self.table = table
        self.jobs = table.jobs
        self.cluster = cluster
        self.nodes = list(nodes)
        self.position = {node.name: node.position for node in nodes}
        self.live = {job.row: job for job in jobs}
        self.names = Names(table.jobs.ids)
        self.dependents: dict[int, set[int]] = {}
        self.inbox = inbox
        self.desk = desk
        self.clock = clock
        self.epoch_unix_s = epoch_unix_s
        self.heard = heard
        """Node -> moment at which its agent was last heard, kept by whoever listens to agents."""
        self.settings = settings or LiveSettings()
        self.timers = Timers()
        self.measured = Measured()
        self.observers: list[Observer] = []
        self.news = News()
        self._how: dict[int, How] = {}
        self._gone: set[int] = set()
        self._obeyed = set(done)
        """Commands that were carried out: one may be in the inbox and on record as well."""

    # -- the protocol ----------------------------------------------------------------------------

    def attach(self, state: State) -> None:
        """Begin on `state`: the orders of all living attempts are staged, the timers set."""
        self.state = state
        self.progress = state.progress
        for job in self.live.values():
            expect(self, job)
            for attempt in job.living:
                self.order(job, attempt)
            self.timers.set_for(self, job)
            if job.holds:
                self.timers.soon(job.row, self.clock())
        self.timers.watch(self.clock() + self.settings.lost_after_s / 4)

    def next(self, until_s: float) -> Batch | None:
        """What happened; a TIMER batch at `until_s`; None once the inbox is closed."""
        while True:
            until = min(until_s, self.timers.next_s)
            events = self.inbox.take(until - self.clock())
            if self.inbox.closed:
                self.inbox.put_back(events)
                return None
            moment = BatchBuilder(max(self.clock(), self.state.now))
            self.state.now = moment.now
            self._absorb(events, moment)
            ring(self, moment)
            if moment.now >= until_s:
                return _timer(moment)
            if not moment.is_empty or self.news.rebuild:
                return moment.batch()

    def apply(self, changes: Sequence[Change]) -> Sequence[Refusal]:
        """Stage the orders that make the changes true."""
        return carry_out(self, changes, self._how)

    def stopped(self, row: int, how: How) -> Lost:
        """Settle the progress of the attempt of `row`; on a lost node it is void from now on."""
        job, now = self.live[row], self.state.now
        attempt = job.attempt
        end = now if attempt is None else attempt.until_s(now)
        self.progress.stop(row, end)
        self.note_progress(row)
        self._how[row] = how
        self.news.jobs[row] = job
        if attempt is None or how is How.RUNNING:
            return Lost()
        settle(self, job, attempt)
        ready = end if attempt.ready_s is None else min(end, attempt.ready_s)
        if how is How.LOST and not attempt.is_over:
            self.void(job, attempt, f"node {self._lost_name(attempt)} is not heard of")
        return Lost(overhead_s=max(0.0, ready - self.state.since_s.item(row)))

    def suspended(self) -> Iterable[Resident]:
        return leaving.suspended(self)

    def would_keep(self, row: int, leave: Leave) -> Resident | None:
        return leaving.would_keep(self, row, leave)

    # -- what happens ----------------------------------------------------------------------------

    def _absorb(self, events: list[Event], moment: BatchBuilder) -> None:
        """Note events until one has to wait, since it is about a row that has been touched already.

        What an agent says waits by itself, and then everything else it says: its words keep their order.
        """
        later: list[Event] = []
        late: set[str] = set()
        for place, event in enumerate(events):
            if isinstance(event, CommandAsked) and has_to_wait(self, event, moment):
                later += events[place:]
                break
            if isinstance(event, Arrived):
                fresh = [one for one in event.jobs if one[0].row >= self.table.filled]
                if len(fresh) > self.table.capacity - self.table.filled:
                    self.news.rebuild = "the table is full"
                    moment.notable = True
                    later += events[place:]
                    break
                for job, asked, types in fresh:  # others were read from the store already
                    self._arrive(job, asked, types, moment)
            elif isinstance(event, ReportTold):
                rest = event if event.node in late else hear(self, event, moment)
                if rest is not None:
                    later.append(rest)
                    late.add(event.node)
            elif isinstance(event, CommandAsked):
                if event.seq not in self._obeyed:
                    self._obeyed.add(event.seq)
                    obey(self, event, moment)
            elif isinstance(event, Begun):
                moment.cause |= Cause.ARRIVAL | Cause.END | Cause.FAILURE | Cause.CAPACITY
            elif isinstance(event, Changed):
                self.news.rebuild = self.news.rebuild or event.why
                moment.notable = True
                # The rest may be about what this world does not know; all changes so far are read at once.
                later += [event for event in events[place + 1 :] if not isinstance(event, Changed)]
                break
        if later:
            self.inbox.put_back(later)

    def _arrive(self, job: LiveJob, asked: Job, types: tuple[str, ...], moment: BatchBuilder) -> None:
        row = self.enter(asked, types)
        self.live[row] = job
        self.names.add(job.id, row)
        expect(self, job)
        moment.arrived.append(row)
        moment.touched.add(row)
        self.find_holds(job, moment.now)
        if job.holds:
            moment.hold(row, note_of(job.holds))
        else:
            moment.cause |= Cause.ARRIVAL
        self.news.jobs[row] = job
        self.timers.set_for(self, job)
        if DEPENDENCY in job.holds:
            self.timers.soon(row, moment.now)  # it may never be met

    def enter(self, asked: Job, types: tuple[str, ...]) -> int:
        """Append the request to the growing table, which has room for it."""
        row = self.table.append(asked, types)
        if isinstance(self.state, TracedState):
            self.state.entered(asked, types)
        else:
            self.state.enter(row)
        return row

    # -- holds -----------------------------------------------------------------------------------

    def find_holds(self, job: LiveJob, now: float) -> None:
        """The holds that follow from what `job` asks for."""
        for hold in derived_holds(self, job, now):
            job.holds[hold.kind] = hold

    def hold(self, job: LiveJob, hold: Hold, moment: BatchBuilder) -> None:
        """Hide `job`, which waits, is held or stops at this moment."""
        job.holds[hold.kind] = hold
        self.news.jobs[job.row] = job
        moment.hold(job.row, note_of(job.holds))
        self.timers.set_for(self, job)
        wake_array(self, job)

    def unhold(self, job: LiveJob, kind: str, moment: BatchBuilder) -> None:
        """One hold of a held job is over; without any it waits for devices."""
        if job.holds.pop(kind, None) is None:
            return
        self.news.jobs[job.row] = job
        if job.row not in self.state.held:
            return
        if kind != ARRAY and not job.holds and array_is_full(self, job):
            job.holds[ARRAY] = Hold(ARRAY, provided=job.array_most)
        if job.holds:
            moment.hold(job.row, note_of(job.holds))
        else:
            moment.release(job.row)

    # -- orders ----------------------------------------------------------------------------------

    def order(self, job: LiveJob, attempt: Attempt) -> None:
        """Stage what agents shall do for `attempt`, unless an earlier attempt has to go first."""
        self.news.attempts[job.row, attempt.number] = attempt
        earlier = [other for other in job.living if other.number < attempt.number]
        attempt.is_ordered = not earlier
        if attempt.is_ordered:
            for place in attempt.places:
                if not place.is_over:
                    self.desk.stage(place.name, part_of(self, job, attempt, place))

    def dismiss(self, node: str, row: int, job_id: str, attempt: int, *, alive: bool) -> None:
        """Tell `node` that a part it knows is void (if a process may be there) or done with."""
        wanted = Wanted.KILL if alive else Wanted.FORGET
        part = Part(row=row, job=job_id, attempt=attempt, version=0, wanted=wanted)
        self.desk.stage(node, part)

    # -- carrying out changes --------------------------------------------------------------------

    def send_away(
        self,
        job: LiveJob,
        attempt: Attempt,
        how: How,
        reason: str,
        text: str,
        wanted: Wanted = Wanted.STOP,
        *,
        for_others: bool = False,
    ) -> None:
        """Tell the living `attempt` to give its devices back; one that was never ordered vanishes.

        `for_others` if a decision wants it so: what work that costs is theirs to wait for.
        """
        attempt.told, attempt.wanted, attempt.is_for_others = how, wanted, for_others
        deadline = self.epoch_unix_s + self.state.now + job.spec.notice_s + job.spec.grace_s
        attempt.notice = Notice(reason=reason, text=text, deadline_s=deadline)
        if not attempt.is_ordered:
            self.withdraw_attempt(job, attempt)
            return
        self.order(job, attempt)

    def withdraw_attempt(self, job: LiveJob, attempt: Attempt) -> None:
        """`attempt`, which no agent has heard of, is over before it began."""
        attempt.end_s, attempt.how, attempt.cause = self.state.now, WITHDRAWN, "never began"
        self.news.attempts[job.row, attempt.number] = attempt

    def void(self, job: LiveJob, attempt: Attempt, why: str) -> None:
        """`attempt` counts for nothing any more, whatever its processes do on a machine out of reach."""
        self.save(job, attempt, completely=False)
        attempt.end_s, attempt.how, attempt.cause = self.state.now, How.LOST, why
        self.news.attempts[job.row, attempt.number] = attempt
        for place in attempt.places:
            self.dismiss(place.name, job.row, job.id, attempt.number, alive=not place.is_over)
        self.news.events.append(("rota", "lost", job.id, f"attempt {attempt.number}: {why}"))

    def sick_devices(self, node: LiveNode) -> list[int]:
        """Numbers of the unhealthy devices of a node in the cluster."""
        first = int(self.cluster.first_device[node.position])
        return [first + index for index in node.sick]

    def _lost_name(self, attempt: Attempt) -> str:
        return next((p.name for p in attempt.places if self.nodes[p.node].state == "lost"), "?")

    def begin(self, job: LiveJob, grant: Grant) -> None:
        """A new attempt on `grant`; ordered when the earlier ones have gone."""
        attempt = Attempt(
            row=job.row,
            number=len(job.attempts) + 1,
            grant=grant,
            places=places_of(self, job, grant),
            wanted=Wanted.RUN,
            wanted_s=self.state.now,
            is_trial=job.needs_trial,
            saved_base=self.progress.base.item(job.row),
        )
        job.attempts.append(attempt)
        self.order(job, attempt)
        self.timers.set_for(self, job)

    def resume(self, job: LiveJob, attempt: Attempt, grant: Grant) -> None:
        """The suspended `attempt` goes on, on the devices of `grant`."""
        for place, new in zip(attempt.places, places_of(self, job, grant), strict=True):
            place.devices, place.ranks = new.devices, new.ranks
        attempt.grant, attempt.wanted, attempt.told = grant, Wanted.RUN, None
        attempt.is_for_others = False
        is_running = all(place.status is PartStatus.RUNNING for place in attempt.places)
        attempt.notice, attempt.wanted_s = None, self.state.now
        attempt.ready_s = self.state.now if is_running else None
        self.order(job, attempt)
        self.timers.set_for(self, job)

    # -- endings ---------------------------------------------------------------------------------

    def over(self, job: LiveJob, phase: Phase, state: str, cause: str, at_s: float | None = None) -> None:
        """`job` has ended as `phase`, at `at_s` or now; processes of it may still be on their way out."""
        job.is_over, job.state, job.cause = True, state, cause
        job.finish_s = self.state.now if at_s is None else at_s
        job.holds.clear()
        self.news.jobs[job.row] = job
        for dependent in self.dependents.get(job.row, ()):
            self.timers.soon(dependent, self.state.now + AFTERWARDS_S)  # once the table shows the end
        wake_array(self, job)

    def drop_if_gone(self, job: LiveJob) -> None:
        """Forget, once it is on record, a job that is over and of which nothing is left."""
        if job.is_over and not job.living:
            self._gone.add(job.row)

    def pace(self, job: LiveJob, attempt: Attempt) -> None:
        """The attempt works from now on."""
        rate = attempt.grant.share if attempt.is_trial else rate_of(job, attempt.grant)
        self.progress.pace(job.row, rate, self.state.now, self.state.now)
        self.note_progress(job.row)

    def began_s(self, state: State, row: int) -> float:
        """When the processes of the running job `row` began on its present devices; NaN if they have not."""
        job = self.live.get(row)
        attempt = None if job is None else job.attempt
        return math.nan if attempt is None or attempt.ready_s is None else attempt.ready_s

    def save(self, job: LiveJob, attempt: Attempt, *, completely: bool) -> None:
        """What remains of the work of `attempt` once its processes have gone."""
        if attempt is job.attempt:
            self.progress.stop(job.row, attempt.until_s(self.state.now))  # the loop hears of the end later
        leaving.keep_saved(self, job, attempt, completely=completely)
        self.note_progress(job.row)

    def note_progress(self, row: int) -> None:
        """How far or how fast `row` is has changed: mirrors are told."""
        if isinstance(self.state, TracedState):
            self.state.paced.add(row)

    def take_news(self) -> News:
        """Everything to be stored now; what comes after belongs to the next step."""
        news, self.news = self.news, News()
        for row in self._gone:
            self.live.pop(row, None)
        self._gone.clear()
        return news


def _timer(moment: BatchBuilder) -> Batch:
    moment.cause |= Cause.TIMER
    return moment.batch()
