"""What the API asks of the controller, and the errors by which it says no.

RotaError
├── NotFound    404   no such job, node, user
├── Forbidden   403   it is there, and not for this caller
├── Conflict    409   not in the state it is in now
├── Busy        503   not now: the store is away, or the controller is stopping; ask again
├── InputError  400   a value that no model of `rota.wire` can check (a policy nobody knows)
└── PolicyError 400   a policy that cannot run as asked
Any other exception is a bug: it is logged with its traceback and answered with 500.

Plain methods are called on threads of a pool, several at once.  `sync`, `wait` and `logs` are coroutines on
the event loop, because hundreds of them may be waiting: they must not block, and are cancelled when their
caller goes away.  All of them are asked only after authentication; `Caller` says who asks.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from rota.errors import RotaError
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
from rota.wire.job import JobSpec
from rota.wire.keeping import Kept, KeptReply
from rota.wire.sync import Joined, NodeInfo, Piece, SyncReply, SyncRequest
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


class NotFound(RotaError):  # noqa: N818
    """There is no such job, node or user."""


class Forbidden(RotaError):  # noqa: N818
    """The caller may not do this."""


class Conflict(RotaError):  # noqa: N818
    """What is asked does not go with the present state: `job 7 has ended`."""


class Busy(RotaError):  # noqa: N818
    """It cannot be done now, though later perhaps; nothing has happened."""

    def __init__(self, sentence: str, retry_after_s: int = 1) -> None:
        super().__init__(sentence)
        self.retry_after_s = retry_after_s


@dataclass(frozen=True, slots=True)
class Caller:
    """Who calls: a person, the agent of one node, or a machine that wants to join."""

    user: str = ""
    """Name of a person; empty for machines."""
    tenant: str = ""
    admin: bool = False
    account: str = ""
    """The machine's account that the person's commands run as; empty for the daemon's own."""
    node: str = ""
    """Node whose agent this is."""
    joining: bool = False
    """Holds a join token, good for nothing else."""

    def owns(self, user: str, tenant: str) -> bool:
        """Whether this person may touch a job of that user and tenant.

        One's own, and those of one's own tenant and the tenants below it; admins may touch all.
        """
        if self.admin or (self.user and user == self.user):
            return True
        return bool(self.user and self.tenant) and f"{tenant}/".startswith(f"{self.tenant}/")


@dataclass(frozen=True, slots=True)
class JobFilter:
    """Which jobs to list; empty means all."""

    state: tuple[str, ...] = ()
    """Slurm's words, upper case."""
    tenant: str = ""
    """The tenant and those below it."""
    user: str = ""
    name: str = ""
    limit: int = 1000
    """At most so many, the newest."""
    since_s: float | None = None
    """Submitted, or ended, at this Unix time or later."""


@dataclass(frozen=True, slots=True)
class LogRequest:
    """A piece of one rank's log."""

    attempt: int | None = None
    """The newest if None."""
    rank: int = 0
    offset: int = 0
    """Bytes from the start, or from the end if negative."""
    limit: int = 65536
    """Bytes at most."""
    wait_s: float = 0.0
    """Wait so long for something to be there at `offset`."""


@dataclass(frozen=True, slots=True)
class Gauges:
    """What the metrics page shows of this moment; jobs are counted by tenant."""

    pending: dict[str, int] = field(default_factory=dict)
    running: dict[str, int] = field(default_factory=dict)
    suspended: dict[str, int] = field(default_factory=dict)
    gpus: float = 0.0
    gpus_allocated: float = 0.0
    nodes: dict[str, int] = field(default_factory=dict)
    """By state: up, drained, draining, lost."""
    disk_free_bytes: dict[str, int] = field(default_factory=dict)
    """Of the disk with its agent's folder, by node."""
    kept_bytes: dict[str, int] = field(default_factory=dict)
    """What ended jobs take there, by node."""


class Controller(Protocol):
    """Everything the API can ask."""

    # Jobs.  Any person may list jobs and ask why; `detail`, `logs` and all that changes a job take an owner
    # (`Caller.owns`) and raise Forbidden otherwise.  `id` is `17` or `17_3`.

    def submit(self, who: Caller, request: Submission) -> Submitted:
        """Put jobs on record (durable on return); the same ones again for a key seen before.

        Forbidden if the specification names a tenant that is not the caller's.
        """
        ...

    def dry_run(self, who: Caller, spec: JobSpec) -> DryRun:
        """Say what would happen to it; changes nothing."""
        ...

    def jobs(self, who: Caller, which: JobFilter) -> list[JobView]:
        """Newest last."""
        ...

    def detail(self, who: Caller, id: str) -> JobDetail:
        """All that is known of a job."""
        ...

    def update(self, who: Caller, id: str, change: JobChange) -> JobView:
        """Change only `change.changes()`.  Conflict if the job has ended, or has started and may not."""
        ...

    def act(self, who: Caller, id: str, verb: Verb, act: Act) -> JobView | ArrayDone:
        """Cancel, hold …; on record on return, done soon after.  Conflict if the state does not allow it.

        Doing what is done already (cancelling a cancelled job) is no error.  `id` may be an array's number:
        then it is one command for all its jobs that are not over, and those that do not allow it are named.
        """
        ...

    def why(self, who: Caller, id: str) -> Why:
        """Why it waits, or why it runs as it does."""
        ...

    async def logs(self, who: Caller, id: str, request: LogRequest) -> Piece:
        """Text from `offset` on; empty if there is none after `wait_s`."""
        ...

    async def wait(self, who: Caller, id: str, wait_s: float) -> JobView:
        """The job once it has ended, or as it is after `wait_s`."""
        ...

    # The cluster.

    def nodes(self, who: Caller) -> list[NodeView]:
        """By name."""
        ...

    def drain(self, who: Caller, node: str, drained: bool, reason: str) -> NodeView:
        """Admins only (checked by the API, as all that is said to be so here)."""
        ...

    def forget(self, who: Caller, node: str) -> NodeView:
        """A lost node is listed and counted no more, until it joins anew.  Conflict if it is not lost.

        Admins only.
        """
        ...

    def policy(self, who: Caller) -> PolicyView:
        """The one that decides."""
        ...

    def set_policy(self, who: Caller, policy: str) -> PolicyView:
        """Admins only."""
        ...

    def shadow(self, who: Caller, policy: str | None) -> PolicyView:
        """Run another policy beside the real one without acting; None ends that.  Admins only."""
        ...

    def whatif(self, who: Caller, question: Question) -> WhatIf:
        """May take seconds."""
        ...

    def status(self, who: Caller) -> ClusterStatus:
        """How the cluster stands."""
        ...

    def history(self, who: Caller, since_s: float | None, until_s: float | None) -> list[JobView]:
        """Jobs that ended in that time, oldest first."""
        ...

    def history_csv(self, who: Caller, since_s: float | None, until_s: float | None) -> str:
        """The same as a trace that `rota simulate` reads."""
        ...

    def costs(self, who: Caller) -> list[CostView]:
        """What starts, suspensions and departures took, as measured."""
        ...

    def events(self, who: Caller, since_seq: int, limit: int) -> list[EventView]:
        """Those with a larger number, ascending."""
        ...

    # People.  Admins only.

    def users(self, who: Caller) -> list[UserView]:
        """By name."""
        ...

    def add_user(self, who: Caller, user: NewUser) -> UserToken:
        """Conflict if the name is taken."""
        ...

    def new_token(self, who: Caller, name: str) -> UserToken:
        """A new token in place of all the user's old ones; a user may do this to himself."""
        ...

    def remove_user(self, who: Caller, name: str) -> None:
        """Their tokens are worth nothing from now on; their jobs stay."""
        ...

    # Machines.

    def join_token(self, who: Caller, lifetime_s: float) -> JoinToken:
        """Admins only."""
        ...

    def join(self, who: Caller, info: NodeInfo) -> Joined:
        """Put a node on record, or its changed devices; answers with a new token of its agent."""
        ...

    async def sync(self, who: Caller, request: SyncRequest) -> SyncReply:
        """For the node `who.node`; answers at once if there is something new, otherwise after `wait_s`."""
        ...

    def kept(self, who: Caller, said: Kept) -> KeptReply:
        """For the node `who.node`: which ended jobs' files it may remove."""
        ...

    # Service.

    def health(self) -> bool:
        """Whether the store answers and the scheduler is alive; asked without authentication, so quick."""
        ...

    def metrics(self) -> Gauges:
        """How many of what there are now."""
        ...
