"""Services behind the routes, one small protocol for each subject.

Plain methods are called on threads of a pool, several at once. `sync`, `wait`, `logs` and those of
`TerminalsService` are coroutines on the event loop, because hundreds of them may be waiting: they must not
block, and are cancelled when their caller goes away. All of them are asked only after authentication;
`Caller` names the caller where it matters; refusals are the errors of `rota.server.refusals`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from rota.server.api.forms import (
    Act,
    EndedFilter,
    JobChange,
    JobFilter,
    JoinToken,
    LogRequest,
    NewUser,
    Question,
    Submission,
    Submitted,
    TenantsMove,
    UserToken,
    Verb,
)
from rota.server.callers import Caller
from rota.server.metrics import Gauges
from rota.wire.curves import CurvesView
from rota.wire.job import JobSpec
from rota.wire.keeping import Kept, KeptReply
from rota.wire.sync import Joined, NodeInfo, Piece, SyncReply, SyncRequest
from rota.wire.tenants import TenantsHistory, TenantsMoved, TenantsView
from rota.wire.terminal import TerminalReply, TerminalTalk
from rota.wire.timeline import StretchView
from rota.wire.usage import UsageView
from rota.wire.views import (
    ArrayDone,
    ClusterStatus,
    CostView,
    DecisionView,
    DryRun,
    EventView,
    JobDetail,
    JobView,
    NodeView,
    PolicyView,
    ReasonView,
    UserView,
    WhatIf,
    Why,
)

if TYPE_CHECKING:
    from rota.reports.usage.prices import Prices
    from rota.scheduler.reasons.order import Precedence
    from rota.server.answers.starts import Starts
    from rota.server.store.queries import JobLine


class SubmissionsService(Protocol):
    """Jobs come in."""

    def submit(self, who: Caller, request: Submission) -> Submitted:
        """Put jobs on record (durable on return); a key seen before returns its first jobs.

        Forbidden if the specification names a tenant that is not the caller's.
        """
        ...

    def dry_run(self, who: Caller, spec: JobSpec) -> DryRun:
        """Say what would happen to it; changes nothing."""
        ...


class JobsService(Protocol):
    """Jobs that are on record; `id` is `17` or `17_3`.

    Any person may list them and ask why; `detail`, `curves`, `timeline`, `logs` and `wait` take an owner
    (`Caller.owns`) and raise Forbidden otherwise.
    """

    def jobs(self, which: JobFilter) -> list[JobView]:
        """Newest last."""
        ...

    def lines(self) -> Sequence[JobLine]:
        """All jobs that have not ended, in few words, oldest first: a long list is sorted by these."""
        ...

    def some(self, rows: Sequence[int]) -> list[JobView]:
        """The jobs with these rows, in this order; those that are gone are left out."""
        ...

    def order(self) -> Precedence:
        """The policy's order of jobs: which is served next, or what each is to have.  Raises Busy."""
        ...

    def reasons(self, ids: Sequence[str]) -> dict[str, list[ReasonView]]:
        """All reasons of each of these waiting jobs, dominant first, if it is known.  Raises Busy."""
        ...

    def starts(self) -> Starts:
        """When waiting jobs are expected to start, as of the last look ahead; answers immediately."""
        ...

    def detail(self, who: Caller, id: str, reason: bool = False) -> JobDetail:
        """All that is known of a job; with `reason`, the policy is asked why it waits, unless it is busy."""
        ...

    def curves(self, who: Caller, id: str, since_s: float | None) -> CurvesView:
        """Its reports over time; only points with a report after `since_s`, a Unix time."""
        ...

    def timeline(self, who: Caller, id: str) -> list[StretchView]:
        """When it waited, ran and stood still."""
        ...

    def why(self, id: str) -> Why:
        """Why it waits, or why it runs as it does."""
        ...

    async def logs(self, who: Caller, id: str, request: LogRequest) -> Piece:
        """Text from `offset` on; empty if there is none after `wait_s`."""
        ...

    async def wait(self, who: Caller, id: str, wait_s: float) -> JobView:
        """The job once it has ended, or as it is after `wait_s`."""
        ...


class JobCommandsService(Protocol):
    """What owners have done to their jobs; Forbidden for others."""

    def update(self, who: Caller, id: str, change: JobChange) -> JobView:
        """Change only `change.changes()`.  Conflict if the job has ended, or has started and may not."""
        ...

    def act(self, who: Caller, id: str, verb: Verb, act: Act) -> JobView | ArrayDone:
        """Cancel, hold …; on record on return, done soon after.  Conflict if the state does not allow it.

        Repeating an act (cancelling a cancelled job) is no error.  `id` may be an array's number:
        then it is one command for all its jobs that are not over, and those that do not allow it are named.
        """
        ...


class NodesService(Protocol):
    """Machines as operators see them."""

    def nodes(self) -> list[NodeView]:
        """By name."""
        ...

    def drain(self, who: Caller, node: str, drained: bool, reason: str) -> NodeView:
        """No new jobs on a node, or jobs again."""
        ...

    def forget(self, who: Caller, node: str) -> NodeView:
        """Forget a lost node until it joins again.  Conflict if it is not lost."""
        ...


class HistoryService(Protocol):
    """Past events."""

    def history(
        self, since_s: float | None, until_s: float | None, limit: int | None = None, after: str = ""
    ) -> list[JobView]:
        """Jobs that ended in that time, oldest first: the first `limit` behind the job `after`.

        InputError if they are more than MOST_ENDED and there is no limit, NotFound if there is no such job.
        """
        ...

    def ended(self, which: EndedFilter) -> list[JobView]:
        """Jobs that are over, that which ended last first."""
        ...

    def history_csv(self, since_s: float | None, until_s: float | None) -> str:
        """The jobs that ended in a time, as a trace that `rota simulate` reads."""
        ...

    def usage(
        self, by: Sequence[str], since_s: float | None, until_s: float | None, prices: Prices | None
    ) -> UsageView:
        """Where the GPU-hours went between two Unix times; InputError for an unknown `by`."""
        ...

    def costs(self) -> list[CostView]:
        """What starts, suspensions and departures took, as measured."""
        ...

    def events(self, since_seq: int, limit: int) -> list[EventView]:
        """Those with a larger number, ascending."""
        ...


class ClusterService(Protocol):
    """How the cluster stands."""

    def status(self) -> ClusterStatus:
        """In one view."""
        ...

    def health(self) -> str:
        """What keeps store, scheduler or policy from working, as a sentence; empty if nothing does.

        It is asked without authentication, so it is quick.
        """
        ...

    def now_s(self) -> float:
        """Unix seconds by the cluster's clock."""
        ...

    def gauges(self) -> Gauges:
        """How many of what there are now."""
        ...


class PoliciesService(Protocol):
    """The policy that decides, its shadow, and what another policy would do."""

    def policy(self) -> PolicyView:
        """The one that decides."""
        ...

    def decisions(self, limit: int) -> list[DecisionView]:
        """The newest decisions, oldest first."""
        ...

    def set_policy(self, who: Caller, policy: str) -> PolicyView:
        """Another one from now on."""
        ...

    def shadow(self, who: Caller, policy: str | None) -> PolicyView:
        """Run another policy in parallel with the real one without acting; None ends that."""
        ...

    def whatif(self, question: Question) -> WhatIf:
        """May take seconds."""
        ...


class TenantsService(Protocol):
    """What each tenant is entitled to, and has."""

    def tenants(self) -> TenantsView:
        """All that are configured, and all that have jobs."""
        ...

    def tenants_history(self, days: float, points: int) -> TenantsHistory:
        """What each held in the last `days`, as means over a number of stretches."""
        ...

    def move_tenants(self, who: Caller, move: TenantsMove) -> TenantsMoved:
        """Other quotas, weights and cells; InputError if the nodes cannot hold the cells.

        Conflict if jobs would be worse off and `move.yes` does not say that this is known.
        """
        ...


class UsersService(Protocol):
    """People and their tokens."""

    def users(self) -> list[UserView]:
        """By name."""
        ...

    def add_user(self, user: NewUser) -> UserToken:
        """Conflict if the name is taken."""
        ...

    def new_token(self, name: str) -> UserToken:
        """A new token in place of all the user's old ones."""
        ...

    def remove_user(self, name: str) -> None:
        """Their tokens are worth nothing from now on; their jobs stay."""
        ...

    def join_token(self, lifetime_s: float) -> JoinToken:
        """A token that lets machines join for a while."""
        ...


class AgentsService(Protocol):
    """The conversation with agents."""

    def join(self, who: Caller, info: NodeInfo) -> Joined:
        """Put a node on record, or its changed devices; answers with a new token of its agent."""
        ...

    async def sync(self, node: str, request: SyncRequest) -> SyncReply:
        """Answers immediately if there is news for the node, otherwise after `wait_s`."""
        ...

    def kept(self, node: str, said: Kept) -> KeptReply:
        """Which ended jobs' files the node may remove."""
        ...


class TerminalsService(Protocol):
    """People at the terminals of their jobs."""

    async def person(self, who: Caller, id: str, said: TerminalTalk) -> TerminalReply:
        """Ask for a session, or talk in one; answers when there is something, or after `wait_s`.

        Forbidden for jobs of others, Conflict for one without a terminal, NotFound for a lost session.
        """
        ...

    async def agent(self, node: str, said: TerminalTalk) -> TerminalReply:
        """The other end of it."""
        ...


@dataclass(frozen=True)
class Services:
    """All that the routes ask; each route takes the one it needs."""

    submissions: SubmissionsService
    jobs: JobsService
    commands: JobCommandsService
    nodes: NodesService
    history: HistoryService
    cluster: ClusterService
    policies: PoliciesService
    tenants: TenantsService
    users: UsersService
    agents: AgentsService
    terminals: TerminalsService
