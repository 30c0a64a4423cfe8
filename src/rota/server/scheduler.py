"""The scheduler: one thread that drives the loop on the local world and stores each of its steps.

Every turn is: what happened → the loop → one transaction → orders.  Whatever goes wrong in a turn, nothing of
it has happened: the memory is dropped and built again from the store, and agents are asked for complete
reports.
"""

from __future__ import annotations

import logging
import secrets
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol, TypeVar

from rota.crash import crash_point
from rota.errors import RotaError
from rota.model.growing import GrowingTable
from rota.model.tenants import Tenants
from rota.scheduler.guard.live_rules import Gentle, LostWork, MinimumRun, NoPreemption, together
from rota.scheduler.loop import Loop, Rules
from rota.scheduler.moments.replica import TracedState
from rota.scheduler.world import How
from rota.server.changing import carry_out
from rota.server.facade import Busy
from rota.server.policy.host import PolicyHost
from rota.server.policy.messages import WhyAnswer
from rota.server.rebuilding import Rebuilt, rebuild
from rota.server.stepping import StepRecorder, attempt_row
from rota.server.store.failures import StoreError
from rota.server.store.rows import (
    REAL,
    SHADOW,
    AttemptRow,
    Everything,
    NodeRow,
    PolicyRow,
    Step,
)
from rota.server.store.store import Store
from rota.server.turning import TAKEN, step_of
from rota.table.state import Phase
from rota.worlds.live.attempts import LiveJob
from rota.worlds.live.inbox import Arrived, Begun, CommandAsked, Event, Inbox
from rota.worlds.live.knowledge import live_providers
from rota.worlds.live.leaving import preemption_costs, to_redo
from rota.worlds.live.news import News
from rota.worlds.live.orders import Desk
from rota.worlds.live.settings import LiveSettings
from rota.worlds.live.world import LiveWorld

log = logging.getLogger(__name__)
T = TypeVar("T")
RETRY_S = 5.0
"""Pause before the policy is asked again after part of its decision was refused."""
MEASUREMENTS = 2000
"""So many measured costs are looked at when the memory is built anew."""
STORE_PAUSE_S = (0.2, 5.0)
"""First and longest pause before a store that failed is tried again."""


@dataclass(frozen=True)
class SchedulerSettings:
    """What an operator sets about decisions; times in seconds."""

    live: LiveSettings = field(default_factory=LiveSettings)
    tenants: Tenants = field(default_factory=Tenants.none)
    knowledge: Mapping[str, str] = field(default_factory=dict)
    min_run_s: float = 60.0
    """No job is preempted before it has run for so long."""
    seed: int = 0


@dataclass
class TurnChanges:
    """What a turn changed, for those who wait for it."""

    jobs: Mapping[int, LiveJob] = field(default_factory=dict)
    done: Sequence[tuple[int, object]] = ()
    """Commands with their outcomes."""
    started: Sequence[tuple[float, float]] = ()
    """Moments of submission and of the first process, of jobs that have just begun."""
    preempted: Sequence[str] = ()
    """A reason for each job that had to give up devices."""
    lost: int = 0
    """Attempts that ended by the infrastructure's fault."""
    decided_s: float | None = None
    """How long the decision took, if there was one."""
    outcome: str = "applied"


class MakeHost(Protocol):
    """Starts the policy `spec` in its own process, on a table and with the memory that was stored last."""

    def __call__(
        self, state: TracedState, table: GrowingTable, spec: str, memory: bytes | None, seed: int
    ) -> PolicyHost: ...


class Clock:
    """Seconds since the cluster's epoch; never goes back while the process lives."""

    def __init__(self, epoch_unix_s: float) -> None:
        self.epoch_unix_s = epoch_unix_s
        self._offset = time.time() - epoch_unix_s - time.monotonic()

    def __call__(self) -> float:
        return time.monotonic() + self._offset


class Scheduler:
    """Owns the loop; `run` is the body of its thread."""

    def __init__(
        self,
        store: Store,
        make_host: MakeHost,
        inbox: Inbox,
        desk: Desk,
        clock: Clock,
        heard: dict[str, float],
        settings: SchedulerSettings,
        accounts: Callable[[], Mapping[str, str]],
        told: Callable[[TurnChanges], None],
    ) -> None:
        self.store = store
        self.make_host = make_host
        self.host: PolicyHost | None = None
        self.inbox = inbox
        self.desk = desk
        self.clock = clock
        self.heard = heard
        self.settings = settings
        self.accounts = accounts
        self.told = told
        self.trouble = ""
        """What keeps it from working, as a sentence; empty if nothing does."""
        self.ready = threading.Event()
        """Set once it has decided for the first time."""
        self.loop: Loop | None = None
        self.world: LiveWorld | None = None
        self.nodes: dict[str, NodeRow] = {}
        self.policy: PolicyRow | None = None
        self.decisions = 0
        self.late = 0
        self.last_s: float | None = None
        self.holding: dict[int, AttemptRow] = {}
        """The living attempt of each running job, as stored; copy it before going through it."""
        self.suspended: dict[int, AttemptRow] = {}
        """Likewise of jobs that are suspended in place."""
        self.ids: dict[int, str] = {}
        """Ids of the jobs in both."""
        self.recorder = StepRecorder()
        self.logged = 0
        self._done: set[int] = set()
        """Commands that are on record as done: one may still be in the inbox."""
        self._memory = b""
        self.shadowed = 0.0

    # -- the thread ------------------------------------------------------------------------------

    def run(self) -> None:
        """Until the inbox is closed."""
        pause_s = STORE_PAUSE_S[0]
        while not self.inbox.closed:
            try:
                self._build()
                self.trouble, pause_s = "", STORE_PAUSE_S[0]
                while self._turn():
                    self.ready.set()
            except StoreError as error:
                self._fail(f"the store does not answer: {error}", pause_s)
                pause_s = min(2 * pause_s, STORE_PAUSE_S[1])
            except RotaError as error:
                log.exception("the scheduler begins anew")
                self._fail(str(error), pause_s)
                pause_s = min(2 * pause_s, STORE_PAUSE_S[1])
            except Exception as error:  # what it was about is in the store: begin anew
                log.exception("the scheduler begins anew")
                self._fail(f"{type(error).__name__}: {error}", pause_s)
                pause_s = min(2 * pause_s, STORE_PAUSE_S[1])

    def _fail(self, sentence: str, pause_s: float) -> None:
        """The turn has not happened; what agents said in it has to be said again."""
        log.error("%s", sentence)
        self.trouble = sentence
        self.desk.begin_anew(secrets.token_hex(8))
        self._forget()
        if self.host is not None:  # its process may be what is wrong
            self.host.close()
            self.host = None
        time.sleep(pause_s)

    def _forget(self) -> None:
        """The memory is worth nothing."""
        self.desk.drop_staged()
        self.loop = None
        self.world = None

    # -- building --------------------------------------------------------------------------------

    def _build(self) -> None:
        """Everything anew from the store; what the inbox holds besides is kept."""
        everything = self.store.load()
        built = rebuild(everything, self.settings.tenants, self.accounts(), self.clock())
        self.policy = everything.policies[REAL]
        self.nodes = {node.name: node for node in everything.nodes}
        for name in self.nodes:
            self.heard.setdefault(name, self.clock())
        if self.desk.unmet is None:
            self.desk.unmet = set(self.nodes)
        world = self._world(built, everything)
        self._start_host(built, everything)
        assert self.host is not None
        for cost in self.store.costs(limit=MEASUREMENTS):
            world.measured.add(cost.workload, cost.kind, cost.seconds)
        self.recorder = StepRecorder()
        self.recorder.world = world
        self.logged, self._memory = 0, built.memory
        chosen = live_providers(self.settings.knowledge, world.jobs, world.cluster, _past(self.store))
        self.loop = Loop(
            world,
            self.host,
            self.recorder,
            providers=chosen,
            memory={"sealed": built.memory} if built.memory else {},
            seed=self.settings.seed,
            strict=False,
            retry_s=RETRY_S,
            rules=self._rules(world),
            state=built.state,
            wake=built.wake,
        )
        self.world = world
        self.host.weigh(lambda: preemption_costs(world))
        self.decisions = max(self.decisions, everything.decisions)
        self.holding, self.suspended, self.ids = {}, {}, {}
        self._show(Step(), world.live)
        self._prepend(everything, built.unseen)
        self.desk.publish()

    def _start_host(self, built: Rebuilt, everything: Everything) -> None:
        """The policies' processes, for the new table."""
        assert self.policy is not None
        whole = built.state, built.table, self.policy.spec, built.memory or None, self.settings.seed
        if self.host is None:
            self.host = self.make_host(*whole)
        else:
            self.host.renew(*whole)
        shadow = everything.policies.get(SHADOW)
        if shadow is not None:
            self.host.set_shadow(shadow.spec)
        self.shadowed = 0.0

    def _world(self, built: Rebuilt, everything: Everything) -> LiveWorld:
        return LiveWorld(
            built.table,
            built.cluster,
            built.nodes,
            built.jobs,
            inbox=self.inbox,
            desk=self.desk,
            clock=self.clock,
            epoch_unix_s=self.clock.epoch_unix_s,
            heard=self.heard,
            settings=self.settings.live,
            done=self._done,
        )

    def _rules(self, world: LiveWorld) -> Rules:
        """What this world forbids beyond the guard: thrash, and whom nobody may preempt."""

        def fixed() -> set[int]:
            live = world.live
            return {row for row in world.state.grants if row in live and not live[row].spec.preemptible}

        rules: list[Rules] = [
            LostWork(partial(to_redo, world)),
            MinimumRun(self.settings.min_run_s, world.began_s),
            NoPreemption(fixed),
        ]
        if not self._memory:
            rules.append(Gentle())  # it has never decided: it takes over from another, or begins
        return together(*rules)

    def _prepend(self, everything: Everything, unseen: Arrived) -> None:
        """Jobs and commands on record and not done come first; then the policy looks at everything."""
        open_ = [
            CommandAsked(c.seq, c.user, c.kind, c.row, c.node, c.args or {}) for c in everything.commands
        ]
        first: list[Event] = [unseen, *open_, Begun()]
        self.inbox.put_back(first)

    # -- one turn --------------------------------------------------------------------------------

    def _turn(self) -> bool:
        """What happened, the loop, one transaction, orders.  False once the loop has to be built anew."""
        loop, world = self.loop, self.world
        assert loop is not None
        assert world is not None
        before = loop.counts.decisions
        if not loop.step():
            return False
        has_decided = loop.counts.decisions > before
        news = world.take_news()
        step, changed = step_of(self, loop, world, news, has_decided)
        crash_point("step decided")
        if step != Step():
            self.store.commit(step)
        self._done.update(done.seq for done in step.done)
        crash_point("step stored")
        if self.host is not None:
            self.host.note()
        self._memory = loop.memory.get("sealed", b"")
        self.desk.publish()
        self.decisions += has_decided
        self._show(step, changed)
        self.told(self._turn_of(step, changed, news))
        return self._afterwards(news)

    def _show(self, step: Step, changed: Mapping[int, LiveJob]) -> None:
        """Keep what listings need in step with the store."""
        attempts = {(attempt.row, attempt.number): attempt for attempt in step.attempts}
        rows = {row for row, _ in attempts} | changed.keys()
        assert self.world is not None
        for row in rows:
            job = changed.get(row) or self.world.live.get(row)
            self.holding.pop(row, None)
            self.suspended.pop(row, None)
            if job is None or job.attempt is None:
                continue
            newest, state = job.attempt, self.loop.state.phase.item(row) if self.loop else 0
            stored_row = attempts.get((row, newest.number)) or attempt_row(newest)
            self.ids[row] = job.id
            if state == Phase.RUNNING:
                self.holding[row] = stored_row
            elif newest.is_suspended:
                self.suspended[row] = stored_row
            elif job.is_over and not job.living:
                self.ids.pop(row, None)

    def _turn_of(self, step: Step, changed: Mapping[int, LiveJob], news: News) -> TurnChanges:
        ended = [attempt for attempt in step.attempts if attempt.end_s is not None]
        return TurnChanges(
            jobs=changed,
            done=[(done.seq, done.outcome) for done in step.done],
            started=news.started,
            preempted=[interval.how for interval in step.intervals if interval.how in TAKEN],
            lost=sum(attempt.how == How.LOST for attempt in ended),
            decided_s=None if step.decision is None else step.decision.took_s,
            outcome="late" if step.decision is not None and step.decision.is_late else "applied",
        )

    def _afterwards(self, news: News) -> bool:
        """Commands that change more than the world; False if the loop has to be built anew."""
        again = bool(news.rebuild)
        for asked in news.asked:
            again |= carry_out(self, asked)
        if again:
            self._forget()
        return not again

    def tell_done(self, seq: int, outcome: Mapping[str, object]) -> None:
        """A command was carried out outside the loop: whoever waits for it need not wait any longer."""
        self._done.add(seq)
        self.told(TurnChanges(done=[(seq, outcome)]))

    def explain(self, row: int) -> WhyAnswer:
        """Why a waiting job waits, and behind whom; raises Busy."""
        return self.explain_all([row])[row]

    def explain_all(self, rows: list[int], timeout_s: float = 2.0) -> dict[int, WhyAnswer]:
        """Why waiting jobs wait, and behind whom; raises Busy."""
        return self._ask(lambda host: host.explain(rows, timeout_s))

    def freeze(self) -> bytes:
        """The present moment, as `rota.scheduler.moments.frozen.load` reads it; raises Busy."""
        return self._ask(lambda host: host.freeze())

    def _ask(self, question: Callable[[PolicyHost], T]) -> T:
        """The answer of the policy process; if it has died, the scheduler is woken to start another.

        Raises Busy.
        """
        host = self.host
        if host is None or self.loop is None:
            raise Busy("the scheduler is starting; ask again in a moment")
        try:
            return question(host)
        except Busy:
            if host.is_away:  # on a quiet cluster its next step may be long off
                self.inbox.put(Begun())
            raise


def _past(store: Store) -> list[tuple[str, str, list[float]]]:
    return [(tenant, group, runs.tolist()) for (tenant, group), runs in store.past().items()]
