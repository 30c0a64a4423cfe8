"""A controller that keeps everything in memory: what the API is tested and measured with."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime

from rota.errors import InputError
from rota.reports.usage.counting import check_asked
from rota.scheduler.policy import policy_names
from rota.scheduler.reasons.order import Precedence
from rota.server.answers.starts import Starts
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
from rota.server.api.services import Services
from rota.server.auth import Roster, mint
from rota.server.callers import Caller
from rota.server.curves import curves_view
from rota.server.metrics import Gauges
from rota.server.refusals import Conflict, Forbidden, NotFound
from rota.server.store.queries import JobLine
from rota.server.tenants.settings import parse_tenants
from rota.wire.curves import CurvesView
from rota.wire.job import JobSpec, array_indexes
from rota.wire.keeping import Kept, KeptReply
from rota.wire.sync import DeviceInfo, Joined, NodeInfo, Part, Piece, SyncReply, SyncRequest, Wanted
from rota.wire.tenants import TenantsHistory, TenantsMoved, TenantsView, TenantView
from rota.wire.terminal import TerminalReply, TerminalTalk
from rota.wire.timeline import Doing, StretchView
from rota.wire.usage import UsageLine, UsageView
from rota.wire.views import (
    ClusterStatus,
    CostView,
    DecisionView,
    DryRun,
    EventView,
    ForecastRow,
    JobDetail,
    JobView,
    NodeView,
    PolicyView,
    ReasonView,
    UserView,
    WhatIf,
    Why,
)
from rota.worlds.live.curves import Point

POLICIES = tuple(policy_names())
ENDED = ("COMPLETED", "FAILED", "CANCELLED")
LOG = b"epoch 1\nepoch 2\n"


@dataclass
class MemoryController:
    """Jobs wait until a test ends them (`end`); agents wait until it has something for them (`tell`)."""

    roster: Roster = field(default_factory=Roster)
    well: bool = True
    waiting: int = 0
    """Long-polls that wait now."""
    cancelled: int = 0
    """Long-polls that were cut off."""
    _rows: list[tuple[JobView, JobSpec]] = field(default_factory=list)
    _keys: dict[tuple[str, str], list[str]] = field(default_factory=dict)
    _nodes: dict[str, NodeInfo] = field(default_factory=dict)
    _drained: dict[str, str] = field(default_factory=dict)
    _events: list[EventView] = field(default_factory=list)
    _policy: str = "fifo"
    _shadow: str = ""
    _version: int = 0
    _lock: threading.RLock = field(default_factory=threading.RLock)
    _changed: set[asyncio.Event] = field(default_factory=set)
    _loop: asyncio.AbstractEventLoop | None = None

    @property
    def services(self) -> Services:
        """All that the routes ask, which is this."""
        return Services(*[self] * len(fields(Services)))

    def add(self, name: str, tenant: str, *, admin: bool = False, account: str = "") -> str:
        """A user; returns the token."""
        return self.add_user(NewUser(name=name, tenant=tenant, admin=admin, account=account)).token

    def join_as(self, node: str) -> str:
        """A node with one device; returns its agent's token."""
        info = NodeInfo(
            name=node,
            address="127.0.0.1",
            cpus=1,
            memory_gib=1,
            boot_id="b",
            devices=[DeviceInfo(index=0, type="cpu")],
            kind="cpu",
        )
        return self.join(Caller(joining=True), info).token

    def end(self, id: str, state: str = "COMPLETED") -> None:
        """Let a job end; wakes whoever waits for it."""
        with self._lock:
            self._set(id, state=state, end_s=time.time())
        self._wake()

    def tell(self) -> None:
        """Have something new for all agents."""
        self._version += 1
        self._wake()

    # Jobs.

    def submit(self, who: Caller, request: Submission) -> Submitted:
        tenant = request.spec.tenant or who.tenant
        if not who.owns(who.user if tenant == who.tenant else "", tenant):
            raise Forbidden(f"user {who.user!r} may not submit for tenant {tenant!r}")
        try:
            indexes = array_indexes(request.spec.array)[0] if request.spec.array else [0]
        except ValueError as error:
            raise InputError(str(error)) from None
        with self._lock:
            if request.key is not None and (who.user, request.key) in self._keys:
                return Submitted(jobs=[self._find(id)[0] for id in self._keys[who.user, request.key]])
            first = len(self._rows)
            ids = [f"{first + 1}_{n}" if request.spec.array else str(first + 1) for n in indexes]
            for id in ids:
                row = len(self._rows)
                view = JobView(
                    id=id,
                    row=row,
                    name=request.spec.name,
                    user=who.user,
                    tenant=tenant,
                    state="PENDING",
                    gpus=request.spec.gpus,
                    submit_s=time.time(),
                )
                self._rows.append((view, request.spec))
            if request.key is not None:
                self._keys[who.user, request.key] = ids
            return Submitted(jobs=[view for view, _ in self._rows[first:]])

    def dry_run(self, who: Caller, spec: JobSpec) -> DryRun:
        return DryRun(feasible=spec.gpus <= 4, position=len(self._rows) + 1)

    def jobs(self, which: JobFilter) -> list[JobView]:
        chosen = [
            view
            for view, _ in self._rows
            if (not which.state or view.state in which.state)
            and (not which.tenant or f"{view.tenant}/".startswith(f"{which.tenant}/"))
            and which.user in ("", view.user)
            and which.name in ("", view.name)
            and (which.since_s is None or view.submit_s >= which.since_s)
        ]
        if which.before:
            if which.before not in [view.id for view in chosen]:
                raise NotFound(f"there is no job {which.before}")
            chosen = chosen[: [view.id for view in chosen].index(which.before)]
        return chosen[-which.limit :]

    def detail(self, who: Caller, id: str, reason: bool = False) -> JobDetail:
        view, spec = self._owned(who, id)
        return JobDetail(job=view, spec=spec, attempts=[])

    def update(self, who: Caller, id: str, change: JobChange) -> JobView:
        view, _ = self._owned(who, id)
        if view.state in ENDED:
            raise Conflict(f"job {id} has ended: {view.state}")
        known = {key: value for key, value in change.changes().items() if key in JobView.model_fields}
        return self._set(id, **known)

    def act(self, who: Caller, id: str, verb: Verb, act: Act) -> JobView:
        view, _ = self._owned(who, id)
        if verb is Verb.CANCEL:
            if view.state not in ENDED:
                self.end(id, "CANCELLED")
        elif view.state in ENDED:
            raise Conflict(f"job {id} has ended: {view.state}")
        with self._lock:
            self._events.append(
                EventView(seq=len(self._events) + 1, at_s=time.time(), who=who.user, kind=verb, job=id)
            )
        return self._find(id)[0]

    def curves(self, who: Caller, id: str, since_s: float | None) -> CurvesView:
        self._owned(who, id)
        points = [Point(0, 1, 1.0, 2.0, 2.0, {"loss": [0.5, 0.25, 0.75, 3.0]})]
        return curves_view(id, [point for point in points if point.until_s > (since_s or 0.0)], 0.0)

    def lines(self) -> list[JobLine]:
        live = [view for view, _ in self._rows if view.state not in ENDED]
        return [JobLine(*(getattr(view, name) for name in JobLine._fields)) for view in live]

    def some(self, rows: Sequence[int]) -> list[JobView]:
        found = {view.row: view for view, _ in self._rows}
        return [found[row] for row in rows if row in found]

    def order(self) -> Precedence:
        return Precedence([view.row for view, _ in self._rows if view.state == "PENDING"])

    def reasons(self, ids: Sequence[str]) -> dict[str, list[ReasonView]]:
        return {id: self.why(id).reasons for id in ids}

    def starts(self) -> Starts:
        return Starts(time.time(), {view.id: (time.time() + 60, None, None) for view, _ in self._rows})

    def timeline(self, who: Caller, id: str) -> list[StretchView]:
        view, _ = self._owned(who, id)
        return [StretchView(doing=Doing.WAITING, from_s=view.submit_s)]

    def why(self, id: str) -> Why:
        view, _ = self._find(id)
        reason = ReasonView(code="Resources", sentence="no device is free", requested=1, provided=0)
        return Why(job=id, state=view.state, reasons=[reason])

    async def logs(self, who: Caller, id: str, request: LogRequest) -> Piece:
        self._owned(who, id)
        offset = request.offset if request.offset >= 0 else max(0, len(LOG) + request.offset)
        if offset >= len(LOG):
            await self._until(lambda: False, request.wait_s)
        text = LOG[offset : offset + request.limit].decode()
        return Piece(id=id, offset=offset, text=text, size=len(LOG))

    async def wait(self, who: Caller, id: str, wait_s: float) -> JobView:
        self._owned(who, id)
        await self._until(lambda: self._find(id)[0].state in ENDED, wait_s)
        return self._find(id)[0]

    # The cluster.

    def nodes(self) -> list[NodeView]:
        return [self._node(name) for name in sorted(self._nodes)]

    def drain(self, who: Caller, node: str, drained: bool, reason: str) -> NodeView:
        if node not in self._nodes:
            raise NotFound(f"there is no node {node!r}")
        if drained:
            self._drained[node] = reason
        else:
            self._drained.pop(node, None)
        return self._node(node)

    def forget(self, who: Caller, node: str) -> NodeView:
        if node not in self._nodes:
            raise NotFound(f"there is no node {node!r}")
        raise Conflict(f"node {node}: it is up, and only a lost node can be forgotten")

    def policy(self) -> PolicyView:
        return PolicyView(policy=self._policy, since_s=0.0, by="test", shadow=self._shadow)

    def set_policy(self, who: Caller, policy: str) -> PolicyView:
        self._policy = _known(policy)
        return self.policy()

    def tenants(self) -> TenantsView:
        return TenantsView(tenants=[TenantView(path="t")], policy=self._policy)

    def tenants_history(self, days: float, points: int) -> TenantsHistory:
        return TenantsHistory(times=[1.0, 2.0], held={"t": [0.0, 1.0]})

    def decisions(self, limit: int) -> list[DecisionView]:
        return [DecisionView(at_s=1.0, policy=self._policy, took_ms=2.5)]

    def move_tenants(self, who: Caller, move: TenantsMove) -> TenantsMoved:
        parse_tenants(move.tenants)
        return TenantsMoved(applied=not move.dry_run, changes=[])

    def shadow(self, who: Caller, policy: str | None) -> PolicyView:
        self._shadow = "" if policy is None else _known(policy)
        return self.policy()

    def whatif(self, question: Question) -> WhatIf:
        rows = [
            ForecastRow(job=view.id, policy=_known(policy), start_s=0.0, finish_s=1.0)
            for policy in question.policies
            for view, _ in self._rows
        ]
        return WhatIf(rows=rows, summary=[], basis={question.duration: len(self._rows)}, took_s=0.0)

    def usage(
        self, by: Sequence[str], since_s: float | None, until_s: float | None, prices: object
    ) -> UsageView:
        check_asked(
            by, *(None if at is None else datetime.fromtimestamp(at, UTC) for at in (since_s, until_s))
        )
        ended = [view for view, _ in self._rows if view.end_s is not None]
        names = tuple("2026-11" if word == "month" else "x" for word in by)
        line = UsageLine(names=names, jobs=len(ended), gpu_hours=2.0 * len(ended))
        total = line.model_copy(update={"names": ("all",)})
        return UsageView(source="memory", by=tuple(by), lines=[line] if ended else [], total=total)

    def costs(self) -> list[CostView]:
        return [CostView(kind="start", count=3, seconds=0.1)]

    def status(self) -> ClusterStatus:
        now = self.gauges()
        return ClusterStatus(
            name="test",
            version="0",
            started_s=0.0,
            policy=self._policy,
            nodes=len(self._nodes),
            gpus=int(now.gpus),
            gpus_used=0.0,
            pending=sum(now.pending.values()),
            running=0,
            suspended=0,
            finished=0,
            store="memory",
        )

    def history(
        self, since_s: float | None, until_s: float | None, limit: int | None = None, after: str = ""
    ) -> list[JobView]:
        low, high = since_s or 0.0, until_s or float("inf")
        return [view for view, _ in self._rows if view.end_s is not None and low <= view.end_s < high]

    def ended(self, which: EndedFilter) -> list[JobView]:
        return [one for one in self.history(which.since_s, which.until_s) if one.state in which.state][::-1]

    def history_csv(self, since_s: float | None, until_s: float | None) -> str:
        lines = [f"{view.id},{view.submit_s}" for view in self.history(since_s, until_s)]
        return "\n".join(["job,submit_s", *lines]) + "\n"

    def events(self, since_seq: int, limit: int) -> list[EventView]:
        return [event for event in self._events if event.seq > since_seq][:limit]

    # People.

    def users(self) -> list[UserView]:
        return self.roster.users()

    def add_user(self, user: NewUser) -> UserToken:
        if self.roster.user(user.name) is not None:
            raise Conflict(f"there is a user {user.name!r} already")
        view = UserView(
            name=user.name,
            admin=user.admin,
            tenant=user.tenant or user.name,
            account=user.account,
            viewer=user.viewer,
        )
        self.roster.put_user(view)
        return self.new_token(user.name)

    def new_token(self, name: str) -> UserToken:
        user = self.roster.user(name)
        if user is None:
            raise NotFound(f"there is no user {name!r}")
        self.roster.revoke("user", name)
        token, record = mint("user", name)
        self.roster.put_token(record)
        return UserToken(user=user, token=token)

    def remove_user(self, name: str) -> None:
        if self.roster.user(name) is None:
            raise NotFound(f"there is no user {name!r}")
        self.roster.remove_user(name)

    # Machines.

    def join_token(self, lifetime_s: float) -> JoinToken:
        token, record = mint("join", lifetime_s=lifetime_s)
        self.roster.put_token(record)
        assert record.expires_s is not None
        return JoinToken(token=token, expires_s=record.expires_s)

    def join(self, who: Caller, info: NodeInfo) -> Joined:
        self._nodes[info.name] = info
        self.roster.revoke("agent", info.name)
        token, record = mint("agent", info.name)
        self.roster.put_token(record)
        return Joined(node=info.name, token=token)

    async def person(self, who: Caller, id: str, said: TerminalTalk) -> TerminalReply:
        self._owned(who, id)
        if said.session:
            raise NotFound("there is no such session any more; attach again")
        raise Conflict(f"job {id} has no terminal")

    async def agent(self, node: str, said: TerminalTalk) -> TerminalReply:
        raise NotFound("there is no such session any more")

    async def sync(self, node: str, request: SyncRequest) -> SyncReply:
        if node not in self._nodes:
            raise NotFound(f"there is no node {node!r}")
        await self._until(lambda: self._version > request.seen, request.wait_s)
        new = self._version > request.seen
        parts = [Part(row=0, job="1", attempt=1, version=self._version, wanted=Wanted.RUN)] if new else []
        return SyncReply(controller="c", version=self._version, now_s=time.time(), parts=parts)

    def kept(self, node: str, said: Kept) -> KeptReply:
        if node not in self._nodes:
            raise NotFound(f"there is no node {node!r}")
        return KeptReply(files=said.rows)

    # Service.

    def health(self) -> str:
        return "" if self.well else "it was told to be unwell"

    def now_s(self) -> float:
        return time.time()

    def gauges(self) -> Gauges:
        pending: dict[str, int] = {}
        for view, _ in self._rows:
            if view.state == "PENDING":
                pending[view.tenant] = pending.get(view.tenant, 0) + 1
        return Gauges(pending=pending, gpus=len(self._nodes), nodes={"up": len(self._nodes)})

    # Within.

    def _find(self, id: str) -> tuple[JobView, JobSpec]:
        for view, spec in reversed(self._rows):
            if view.id == id:
                return view, spec
        raise NotFound(f"there is no job {id}")

    def _owned(self, who: Caller, id: str) -> tuple[JobView, JobSpec]:
        view, spec = self._find(id)
        if not who.owns(view.user, view.tenant):
            raise Forbidden(f"job {id} is {view.user}'s, of tenant {view.tenant}")
        return view, spec

    def _set(self, id: str, **changes: object) -> JobView:
        with self._lock:
            view, spec = self._find(id)
            changed = view.model_copy(update=changes)
            self._rows[view.row] = changed, spec
            return changed

    def _node(self, name: str) -> NodeView:
        state = "drained" if name in self._drained else "up"
        return NodeView(name=name, state=state, reason=self._drained.get(name, ""), gpus=1)

    async def _until(self, holds: object, wait_s: float) -> None:
        """Wait until `holds()`, at most `wait_s`."""
        assert callable(holds)
        self._loop = asyncio.get_running_loop()
        changed = asyncio.Event()
        self._changed.add(changed)
        self.waiting += 1
        try:
            async with asyncio.timeout(wait_s):
                while not holds():
                    await changed.wait()
                    changed.clear()
        except TimeoutError:
            return
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        finally:
            self.waiting -= 1
            self._changed.discard(changed)

    def _wake(self) -> None:
        def wake() -> None:
            for event in self._changed:
                event.set()

        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(wake)


def _known(policy: str) -> str:
    if policy.partition(":")[0] not in POLICIES:
        raise InputError.at(
            f"no policy is called {policy!r}", field="policy", expected=f"one of {', '.join(POLICIES)}"
        )
    return policy
