"""What the API asks of a live cluster, answered from the store and carried out by the scheduler."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterable

from rota.errors import InputError
from rota.knowledge.registry import Where, kinds
from rota.server import people
from rota.server.agents import Agents
from rota.server.answers import Answers
from rota.server.api.forms import (
    Act,
    JobChange,
    JoinToken,
    NewUser,
    Question,
    Submission,
    Submitted,
    UserToken,
    Verb,
)
from rota.server.commanding import Commands
from rota.server.costs import cost_views
from rota.server.export import history_csv
from rota.server.facade import (
    Caller,
    Forbidden,
    Gauges,
    JobFilter,
    LogRequest,
    NotFound,
)
from rota.server.logs import Logs
from rota.server.metrics import Metrics
from rota.server.overview import Overview
from rota.server.policy.messages import check_policy
from rota.server.rebuilding import asked_job, live_job
from rota.server.roster import StoredRoster
from rota.server.scheduler import Scheduler, TurnChanges
from rota.server.store import rows as stored
from rota.server.store.asked import jobs_of
from rota.server.store.failures import StoreError
from rota.server.store.rows import JobRow
from rota.server.store.store import Store
from rota.server.tidying import Tidier
from rota.server.views import attempt_view, event_view, is_over, job_view, node_view
from rota.server.waiting import Bells, CommandOutcomes
from rota.wire.job import JobSpec, array_indexes, check_tenant
from rota.wire.keeping import Kept, KeptReply
from rota.wire.sync import Capability, Joined, NodeInfo, Piece, SyncReply, SyncRequest
from rota.wire.views import (
    ArrayDone,
    ClusterStatus,
    CostView,
    DryRun,
    EventView,
    JobDetail,
    JobView,
    NodeView,
    PolicyView,
    UserView,
    WhatIf,
    Why,
)
from rota.worlds.live.inbox import Arrived, Inbox
from rota.worlds.live.orders import Desk


class LiveController:
    """Implements `rota.server.facade.Controller`."""

    def __init__(
        self,
        name: str,
        store: Store,
        roster: StoredRoster,
        inbox: Inbox,
        desk: Desk,
        heard: dict[str, float],
        metrics: Metrics,
        tidier: Tidier,
    ) -> None:
        self.name = name
        self.store = store
        self.roster = roster
        self.inbox = inbox
        self.desk = desk
        self.heard = heard
        self.counters = metrics
        self.tidier = tidier
        self.started_s = time.time()
        self.epoch_s: float = float(store.facts()["epoch_s"])
        self.bells = Bells()
        self.outcomes = CommandOutcomes()
        self.scheduler: Scheduler
        self.answers: Answers
        self.overview: Overview
        self._submitting = threading.Lock()
        self.agents = Agents(self)
        self.commands = Commands(self)
        self.pieces = Logs(store, desk, self.bells)
        desk.on_change(lambda nodes: self.bells.ring([("node", node) for node in nodes]))

    def follow(self, scheduler: Scheduler) -> None:
        """Ask `scheduler` from now on."""
        self.scheduler = scheduler
        self.answers = Answers(self)
        self.overview = Overview(self)

    def told(self, turn: TurnChanges) -> None:
        """A turn of the scheduler is on record: wake those who wait for it."""
        self.bells.ring([("job", row) for row in turn.jobs])
        for seq, outcome in turn.done:
            self.outcomes.tell(seq, outcome)
        for submitted_s, started_s in turn.started:
            self.counters.submit_to_start_seconds.observe(max(0.0, started_s - submitted_s))
        for reason in turn.preempted:
            self.counters.preemptions.labels(reason).inc()
        self.counters.attempts_lost.inc(turn.lost)
        if turn.decided_s is not None:
            self.counters.decision_seconds.observe(turn.decided_s)
            self.counters.decisions.labels(turn.outcome).inc()

    @property
    def now(self) -> float:
        """Seconds since the cluster's epoch."""
        return self.scheduler.clock()

    # -- jobs ------------------------------------------------------------------------------------

    def submit(self, who: Caller, request: Submission) -> Submitted:
        """Put jobs on record; see the facade."""
        spec = self._admitted(who, request.spec)
        jobs = jobs_of(spec)
        tenant = who.tenant or who.user
        with self._submitting:
            rows = self.store.add_jobs(who.user, tenant, jobs, self.now, request.key)
            accounts = {who.user: who.account}
            self.inbox.put(
                Arrived(
                    [
                        (live_job(row, spec, (), accounts), asked_job(row, spec), tuple(spec.gpu_types))
                        for row in rows
                    ]
                )
            )
        return Submitted(
            jobs=[job_view(row, None, self.epoch_s, self.now) for row in rows],
            warnings=self.answers.ignored(spec),
        )

    def _admitted(self, who: Caller, spec: JobSpec) -> JobSpec:
        """The specification, if this person may submit it and what it names is there."""
        tenant = spec.tenant
        try:
            check_tenant(tenant)
            if spec.array:
                array_indexes(spec.array)
        except ValueError as error:
            raise InputError(str(error)) from None
        if os.geteuid() == 0 and not who.admin and not who.account:
            raise Forbidden(
                f"user {who.user!r} has no account on the machines, and this cluster runs as root; an admin "
                "removes the user and adds them anew with one: rota user add NAME --account ACCOUNT"
            )
        if tenant and not who.admin and not f"{tenant}/".startswith(f"{who.tenant or who.user}/"):
            raise Forbidden(
                f"{who.user!r} belongs to tenant {who.tenant or who.user!r} and may not submit for {tenant!r}"
            )
        for before in spec.after:
            if not self.store.phases(before.job):
                raise InputError(
                    f"after: there is no job {before.job!r}; expected the id of a job or of an array"
                )
        return spec

    def dry_run(self, who: Caller, spec: JobSpec) -> DryRun:
        """What would happen to it."""
        return self.answers.dry_run(who, self._admitted(who, spec))

    def jobs(self, who: Caller, which: JobFilter) -> list[JobView]:
        """Newest last."""
        since = None if which.since_s is None else which.since_s - self.epoch_s
        rows = self.store.jobs(
            stored.JobQuery(
                states=which.state,
                tenant=which.tenant or None,
                user=which.user or None,
                name=which.name or None,
                since_s=since,
                limit=which.limit,
            )
        )
        return self.answers.with_reasons(self.views(rows))

    def views(self, rows: Iterable[JobRow]) -> list[JobView]:
        """Jobs with what they hold now."""
        now, attempts = self.now, self.scheduler.holding
        return [job_view(row, attempts.get(row.row), self.epoch_s, now) for row in rows]

    def row_of(self, id: str) -> JobRow:
        """The row of a job by its id; NotFound."""
        row = self.store.job_of_id(id)
        if row is None and self.store.phases(id):
            raise NotFound(f"{id} is an array; name one of its jobs, which `rota ls --all` lists")
        if row is None:
            raise self.tidier.missing(id)
        return row

    def own(self, who: Caller, id: str) -> JobRow:
        """The row of a job that this person may touch; NotFound, Forbidden."""
        row = self.row_of(id)
        if not who.owns(row.user, row.asked.tenant):
            raise Forbidden(f"job {id} belongs to {row.user!r}; {who.user!r} may not touch it")
        return row

    def detail(self, who: Caller, id: str) -> JobDetail:
        """Everything about one job."""
        row = self.own(who, id)
        spec = self.store.spec(row.row)
        assert spec is not None
        capability = row.now.capability
        return JobDetail(
            job=self.views([row])[0],
            spec=spec,
            attempts=[attempt_view(attempt, self.epoch_s) for attempt in self.store.attempts(row.row)],
            capability=None if capability is None else Capability(**capability),
            events=[event_view(event, self.epoch_s) for event in self.store.events(job=id)],
            gone=self.tidier.gone(row),
        )

    def update(self, who: Caller, id: str, change: JobChange) -> JobView:
        """Change what a job asks for."""
        return self.commands.update(who, id, change)

    def act(self, who: Caller, id: str, verb: Verb, act: Act) -> JobView | ArrayDone:
        """Cancel, hold, …"""
        return self.commands.act(who, id, verb, act)

    def why(self, who: Caller, id: str) -> Why:
        """Why it waits, or runs as it does."""
        return self.answers.why(self.row_of(id))

    async def wait(self, who: Caller, id: str, wait_s: float) -> JobView:
        """The job once it has ended, or as it is after `wait_s`."""
        row = self.own(who, id)
        until = time.monotonic() + wait_s
        with self.bells.listen(("job", row.row)) as bell:
            while True:
                view = self.views([self.row_of(id)])[0]
                left = until - time.monotonic()
                if is_over(view.state) or left <= 0:
                    return view
                await bell.wait(left)

    async def logs(self, who: Caller, id: str, request: LogRequest) -> Piece:
        """A piece of a log, from the agent that has it."""
        row = self.own(who, id)
        piece = await self.pieces.read(row, request)
        piece.error = piece.error and (self.tidier.logs_gone(row) or piece.error)
        return piece

    # -- the cluster -----------------------------------------------------------------------------

    def nodes(self, who: Caller) -> list[NodeView]:
        """All machines that have joined."""
        return self.overview.nodes()

    def drain(self, who: Caller, node: str, drained: bool, reason: str) -> NodeView:
        """No new jobs on a node, or jobs again."""
        known = self.store.node(node)
        if known is None or known.state == "forgotten":
            raise NotFound(f"there is no node {node!r}; `rota nodes` lists them")
        verb = "drain" if drained else "undrain"
        self.commands.give(who, verb, None, {"node": node, "reason": reason}, f"node {node}")
        return next(view for view in self.nodes(who) if view.name == node)

    def forget(self, who: Caller, node: str) -> NodeView:
        """A lost node is no part of the cluster any more."""
        if self.store.node(node) is None:
            raise NotFound(f"there is no node {node!r}; `rota nodes` lists them")
        self.commands.give(who, "forget", None, {"node": node}, f"node {node}")
        self.tidier.disks.pop(node, None)
        row = self.store.node(node)
        assert row is not None  # rows of nodes are never removed
        return node_view(row, {}, {}, self.heard.get(node), self.epoch_s)

    def policy(self, who: Caller) -> PolicyView:
        """The policy in force, and its shadow."""
        return self.answers.policy()

    def set_policy(self, who: Caller, policy: str) -> PolicyView:
        """Another policy, from now on."""
        check_policy(policy, kinds(Where.LIVE))
        self.answers.try_policy(policy)
        self.commands.give(who, "policy", None, {"policy": policy}, "policy")
        return self.answers.new_policy(policy)

    def shadow(self, who: Caller, policy: str | None) -> PolicyView:
        """A policy that says what it would do; None ends that."""
        if policy:
            check_policy(policy, kinds(Where.LIVE))
            self.answers.try_policy(policy)
        self.commands.give(who, "shadow", None, {"policy": policy or ""}, "shadow")
        return self.answers.policy()

    def whatif(self, who: Caller, question: Question) -> WhatIf:
        """What would become of the live jobs under other policies."""
        return self.answers.whatif(question)

    def status(self, who: Caller) -> ClusterStatus:
        """The cluster in one view."""
        return self.overview.status()

    def history(self, who: Caller, since_s: float | None, until_s: float | None) -> list[JobView]:
        """Jobs that ended in that time."""
        low, high = self._window(since_s, until_s)
        rows = self.store.history(low, high).jobs
        ended = [row for row in rows if row.now.finish_s is not None and low <= row.now.finish_s <= high]
        return self.views(sorted(ended, key=lambda row: row.now.finish_s or 0.0))

    def history_csv(self, who: Caller, since_s: float | None, until_s: float | None) -> str:
        """The same as a trace that `rota simulate` reads."""
        low, high = self._window(since_s, until_s)
        history = self.store.history(low, high)
        return history_csv(history, self.store.specs([job.row for job in history.jobs]), self.epoch_s)

    def _window(self, since_s: float | None, until_s: float | None) -> tuple[float, float]:
        low = 0.0 if since_s is None else since_s - self.epoch_s
        return low, self.now if until_s is None else until_s - self.epoch_s

    def costs(self, who: Caller) -> list[CostView]:
        """Medians of what was measured, over all jobs and by workload."""
        return cost_views(self.store.costs())

    def events(self, who: Caller, since_seq: int, limit: int) -> list[EventView]:
        """Lines of the audit after a number."""
        return [event_view(e, self.epoch_s) for e in self.store.events(since_seq=since_seq, limit=limit)]

    # -- people and machines ---------------------------------------------------------------------

    def users(self, who: Caller) -> list[UserView]:
        """All users by name."""
        return self.roster.users()

    def add_user(self, who: Caller, user: NewUser) -> UserToken:
        """A user with a token that is shown only now."""
        return people.add_user(self.roster, user)

    def new_token(self, who: Caller, name: str) -> UserToken:
        """A new token in place of the old ones."""
        return people.new_token(self.roster, name)

    def remove_user(self, who: Caller, name: str) -> None:
        """The user's tokens are worth nothing any more."""
        people.remove_user(self.roster, name)

    def join_token(self, who: Caller, lifetime_s: float) -> JoinToken:
        """A token with which machines may join for a while."""
        return people.join_token(self.roster, lifetime_s)

    def join(self, who: Caller, info: NodeInfo) -> Joined:
        """A machine joins, or comes back with other devices."""
        return self.agents.join(who, info)

    async def sync(self, who: Caller, request: SyncRequest) -> SyncReply:
        """What an agent has to say, and what it is to do."""
        return await self.agents.sync(who.node, request)

    def kept(self, who: Caller, said: Kept) -> KeptReply:
        """Which ended jobs' files a node may remove."""
        self.agents.admit(who.node)
        return self.tidier.kept(who.node, said)

    # -- service ---------------------------------------------------------------------------------

    def health(self) -> bool:
        """Whether the store answers and the scheduler works."""
        try:
            self.store.facts()
        except StoreError:
            return False
        return not self.scheduler.trouble

    def metrics(self) -> Gauges:
        """This moment, by tenant."""
        return self.overview.gauges()
