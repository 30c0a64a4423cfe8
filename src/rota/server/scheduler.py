"""The scheduler: one thread that drives the loop on the live world and stores each of its steps.

Every turn is: what happened → the loop → one transaction → orders.  Whatever goes wrong in a turn, nothing of
it has happened: the memory is dropped and built again from the store, and agents are asked to tell all.
"""

from __future__ import annotations

import logging
import secrets
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol, TypeVar

from rota.crash import crash_point
from rota.errors import InputError, RotaError
from rota.model.growing import GrowingTable
from rota.model.tenants import Tenants
from rota.scheduler.decision import Wake
from rota.scheduler.loop import Loop
from rota.scheduler.moments.replica import TracedState
from rota.scheduler.reasons.order import Precedence
from rota.server.clocks import Clock
from rota.server.loop_changes import ChangeContext, change_of
from rota.server.policy.fallback import DecisionFailedError, Failing
from rota.server.policy.host import PolicyHost
from rota.server.policy.messages import WhyAnswer
from rota.server.readiness import LoopStanding
from rota.server.recovery import Rebuilt, rebuild
from rota.server.refusals import Busy
from rota.server.roster import JobAccounts
from rota.server.scheduler_view import SchedulerView
from rota.server.step_recorder import StepRecorder
from rota.server.store.failures import StoreError
from rota.server.store.rows import REAL, SHADOW, Everything, Step
from rota.server.store.store import Store
from rota.server.tenants.in_force import TenantsInForce, on_record
from rota.server.tenants.layout import NodeLayout
from rota.server.turn import TurnChanges, changes_of, step_of
from rota.worlds.live.directives import Directives
from rota.worlds.live.holds import ACCOUNT
from rota.worlds.live.inbox import Arrived, Begun, CommandAsked, Event, Inbox
from rota.worlds.live.jobs import Unsaved
from rota.worlds.live.preemption import preemption_costs, rules_in_force
from rota.worlds.live.settings import LiveSettings, live_providers
from rota.worlds.live.wanted_nodes import AUTOSCALE, ScaleLimits, Scaling
from rota.worlds.live.world import LiveWorld

log = logging.getLogger(__name__)
T = TypeVar("T")
RETRY_S = 5.0
"""Pause before the policy is asked again after part of its decision was refused."""
MEASUREMENTS = 2000
"""Measured costs that are read when the memory is built again."""
STORE_PAUSE_S = (0.2, 5.0)
"""First and longest pause before a store that failed is tried again."""


@dataclass(frozen=True)
class SchedulerSettings:
    """An operator's settings of decisions; times in seconds."""

    live: LiveSettings = field(default_factory=LiveSettings)
    tenants: Tenants = field(default_factory=Tenants.none)
    layout: NodeLayout = field(default_factory=NodeLayout)
    knowledge: Mapping[str, str] = field(default_factory=dict)
    min_run_s: float = 60.0
    """Seconds that a job runs before it may be preempted."""
    seed: int = 0
    autoscale: ScaleLimits | None = None
    """How large the cluster may be, where an operator's hook brings nodes; None if it is as it is."""


class MakeHost(Protocol):
    """Starts the policy `spec` in its own process, on a table and with the memory that was stored last."""

    def __call__(
        self, state: TracedState, table: GrowingTable, spec: str, memory: bytes | None, seed: int
    ) -> PolicyHost: ...


class Scheduler:
    """Owns the loop; `run` is the body of its thread."""

    def __init__(
        self,
        store: Store,
        make_host: MakeHost,
        inbox: Inbox,
        directives: Directives,
        clock: Clock,
        heard: dict[str, float],
        settings: SchedulerSettings,
        accounts: JobAccounts,
        told: Callable[[TurnChanges], None],
    ) -> None:
        self.store = store
        self.make_host = make_host
        self.host: PolicyHost | None = None
        self.inbox = inbox
        self.directives = directives
        self.clock = clock
        self.heard = heard
        self.settings = settings
        self.accounts = accounts
        self.told = told
        self.failing = Failing(clock)
        self.unreadable: list[str] = []
        """What of the record cannot be read, as sentences."""
        self.ready = threading.Event()
        """Set once it has decided for the first time."""
        self.loop: Loop | None = None
        self.world: LiveWorld | None = None
        self.view = SchedulerView()
        self.recorder = StepRecorder()
        self._done: set[int] = set()
        """Commands that are on record as done: one may still be in the inbox."""
        self.standing = LoopStanding(inbox, lambda turn: self.told(turn), lambda: self.trouble)
        self._memory = b""

    # -- the thread ------------------------------------------------------------------------------

    def run(self) -> None:
        """Until the inbox is closed."""
        pause_s = STORE_PAUSE_S[0]
        while not self.inbox.closed:
            try:
                self._build()
                pause_s = STORE_PAUSE_S[0]
                while self._turn():
                    self.ready.set()
            except Exception as error:  # the store has all that it was about: begin again
                if not isinstance(error, StoreError):
                    log.exception("the scheduler begins anew")
                self._fail(error, pause_s)
                pause_s = min(2 * pause_s, STORE_PAUSE_S[1])

    def _fail(self, error: Exception, pause_s: float) -> None:
        """The turn has not happened; what agents said in it has to be said again."""
        log.error("%s", self.failing.failed(error))
        self.directives.begin_anew(secrets.token_hex(8))
        self._forget()
        self.standing.tell()
        if self.host is not None:  # its process may be at fault
            self.host.close()
            self.host = None
        time.sleep(pause_s)

    def _forget(self) -> None:
        """The memory is worth nothing."""
        self.standing.falls()
        self.directives.drop_staged()
        self.loop = None
        self.world = None

    # -- building --------------------------------------------------------------------------------

    def _build(self) -> None:
        """Build everything again from the store; the contents of the inbox are kept."""
        self.standing.rises()  # before the store is read: later events may not be in it
        self._replace_policy()
        everything = self.store.load()
        tenants, layout = self._tenants(everything), self.settings.layout
        built = rebuild(everything, tenants, self.accounts, self.clock(), layout)
        self.view.nodes = {node.name: node for node in everything.nodes}
        self.view.policy = everything.policies[REAL]
        self.failing.begin(self.view.policy, everything.facts)
        for name in self.view.nodes:
            self.heard.setdefault(name, self.clock())
        if self.directives.unmet is None:
            self.directives.unmet = set(self.view.nodes)
        world = self._world(built, everything)
        self._set_aside(everything, world)
        _note_accounts(everything, world)
        self._start_host(built, everything)
        assert self.host is not None
        for cost in self.store.costs(limit=MEASUREMENTS):
            world.live.costs.add(cost.workload, cost.kind, cost.seconds)
        self.recorder = StepRecorder()
        self.recorder.live = world.live
        self._memory = built.memory
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
            rules=rules_in_force(world.live, world.began_s, self.settings.min_run_s, is_new=not self._memory),
            state=built.state,
            wake=built.wake,
        )
        self.world = world
        self.host.weigh(lambda: preemption_costs(world.live))
        self.view.decisions = max(self.view.decisions, everything.decisions)
        self.view.begin_anew(built.state, world.live)
        self._prepend(everything, built.unseen)
        self.directives.publish()

    def _tenants(self, everything: Everything) -> Tenants:
        """The tenants on record, as `view` shows; the settings' tenants if none can be read."""
        plain = TenantsInForce(self.settings.tenants, self.settings.tenants)
        try:
            self.view.tenants = on_record(everything.facts) or plain
        except InputError as error:
            everything.problems.append(str(error))
            self.view.tenants = plain
        return self.view.tenants.tenants

    def _set_aside(self, everything: Everything, world: LiveWorld) -> None:
        """Say what of the record cannot be read: once in the log, and as long as it is so in the status."""
        for row in everything.aside.keys() & world.live.keys():
            world.live.unsaved.job(world.live[row])
        jobs = [
            f"job {everything.jobs[row].id} is set aside until it is cancelled: {why}"
            for row, why in sorted(everything.aside.items())
            if row in everything.jobs
        ]
        fresh = [said for said in (*everything.problems, *jobs) if said not in self.unreadable]
        for sentence in fresh:
            log.error("%s", sentence)
        self.unreadable = [*everything.problems, *jobs]

    def _replace_policy(self) -> None:
        """Another policy takes over from one that has failed too often."""
        if not self.failing.successor:
            return
        step, said = self.failing.replacement()
        log.error("%s", said)
        self.store.commit(step)
        turn = TurnChanges(is_about_policy=True, replaced=said, at_s=step.policies[0].since_s)
        self.standing.announce(turn, shows=True)

    def _start_host(self, built: Rebuilt, everything: Everything) -> None:
        """The policies' processes, for the new table.  A shadow that cannot be made is left out, and said."""
        assert self.view.policy is not None
        whole = built.state, built.table, self.view.policy.spec, built.memory or None, self.settings.seed
        try:
            if self.host is not None:
                self.host.renew(*whole)
            else:
                self.host = self.make_host(*whole)
        except Exception as error:
            raise DecisionFailedError(error, "cannot be made") from error
        self.failing.start(self.host)
        shadow = everything.policies.get(SHADOW)
        if shadow is not None:
            try:
                self.host.set_shadow(shadow.spec)
            except RotaError as error:
                self.unreadable.append(f"shadow policy {shadow.spec} cannot be made: {error}")

    def _world(self, built: Rebuilt, everything: Everything) -> LiveWorld:
        limits = self.settings.autoscale
        return LiveWorld(
            built.table,
            built.cluster,
            built.nodes,
            built.jobs,
            inbox=self.inbox,
            directives=self.directives,
            clock=self.clock,
            epoch_unix_s=self.clock.epoch_unix_s,
            heard=self.heard,
            settings=self.settings.live,
            done=self._done,
            clock_trouble=self.clock.trouble,
            scaling=None if limits is None else Scaling.read(limits, everything.facts.get(AUTOSCALE)),
        )

    def _prepend(self, everything: Everything, unseen: Arrived) -> None:
        """Jobs and commands on record and not done come first; then the policy looks at everything."""
        open_ = [
            CommandAsked(c.seq, c.user, c.kind, c.row, c.node, c.args or {}) for c in everything.commands
        ]
        first: list[Event] = [unseen, *open_, Begun()]
        self.inbox.put_back(first)

    # -- one turn --------------------------------------------------------------------------------

    def _turn(self) -> bool:
        """Run the loop, store the step, publish directives.  False if the loop must be rebuilt."""
        loop, world, host = self.loop, self.world, self.host
        assert loop is not None
        assert world is not None
        assert host is not None
        before = loop.counts.decisions
        try:
            if not loop.step():
                return False
            has_decided = loop.counts.decisions > before
            unsaved = world.live.take_unsaved()
            step, changed = step_of(self.view, self.recorder, host, loop, world.live, unsaved, has_decided)
            if has_decided and not host.trouble:
                step = replace(step, facts={**step.facts, **self.failing.credit()})
            crash_point("step decided")
            if step != Step():
                self.store.commit(step)
        except Exception as error:
            if isinstance(error, StoreError) or loop.counts.decisions == before or host.trouble:
                raise
            raise DecisionFailedError(error, "decided what cannot be carried out") from error
        self._done.update(done.seq for done in step.done)
        crash_point("step stored")
        self.directives.publish()  # agents need not wait for news for readers
        self.view.decisions += has_decided
        self.view.show_turn(loop.state, step, changed, world.live)  # immediately: as the store has it now
        host.note()
        self.failing.turned(host, decided=has_decided)
        if host.trouble:  # the loop comes back once the policy may be asked again
            loop.wake = Wake(min(loop.wake.at_s, loop.state.now + host.rests_s), loop.wake.on)
        self._memory = loop.memory.get("sealed", b"")
        self.standing.stands()
        turn = changes_of(step, changed, unsaved, world.live)
        self.standing.announce(turn, shows=not unsaved.rebuild)
        return self._afterwards(unsaved)

    def _afterwards(self, unsaved: Unsaved) -> bool:
        """Carry out commands that change more than the world; False if the loop must be rebuilt."""
        again = bool(unsaved.rebuild or self.failing.successor)
        for asked in unsaved.asked:
            again |= self._carry_out(asked)
        if again:
            self._forget()
        return not again

    def _carry_out(self, asked: CommandAsked) -> bool:
        """Store one command in one transaction; True if the loop must be rebuilt."""
        policy = self.view.policy.spec if self.view.policy else ""
        cluster = self.world.cluster if self.world else None
        change = change_of(asked, ChangeContext(self.store, self.clock, policy, cluster))
        self.store.commit(change.step)
        self.view.show(change.step)  # before its caller is answered, not only once the loop is rebuilt
        if change.ends_shadow and self.host is not None:
            self.host.set_shadow(None)
        self._done.add(asked.seq)
        turn = TurnChanges(done=[(asked.seq, change.outcome)], is_about_policy=True)
        self.standing.announce(turn, shows=not change.rebuilds)
        return change.rebuilds

    # -- what others ask -------------------------------------------------------------------------

    @property
    def trouble(self) -> str:
        """What keeps the scheduler itself from working, as a sentence; empty if nothing does."""
        return self.failing.own

    @property
    def policy_trouble(self) -> str:
        """Why the policy's last decision came to nothing, as a sentence; empty if it was carried out."""
        return self.failing.of_policy(self.host.trouble if self.host is not None else "")

    def troubles(self) -> list[str]:
        """What keeps the scheduler or its policy from working, as sentences."""
        said = (self.trouble, self.policy_trouble, self.failing.replaced, *self.unreadable)
        return [sentence for sentence in said if sentence]

    def explain(self, row: int) -> WhyAnswer:
        """Why a waiting job waits, and behind which jobs; raises Busy."""
        return self.explain_all([row])[row]

    def explain_all(self, rows: list[int], timeout_s: float = 2.0) -> dict[int, WhyAnswer]:
        """Why waiting jobs wait, and behind which jobs; raises Busy."""
        return self._ask(lambda host: host.explain(rows, timeout_s))

    def order(self) -> Precedence:
        """The policy's order of jobs: which is served next, or what each is to have.  Raises Busy."""
        return self._ask(lambda host: host.order())

    def guaranteed(self) -> frozenset[int] | None:
        """Rows that run on what their tenants can always have; None without such guarantees; raises Busy."""
        return self._ask(lambda host: host.standing())

    def freeze(self) -> bytes:
        """The present moment, as `rota.scheduler.moments.frozen.load` reads it; raises Busy."""
        return self._ask(lambda host: host.freeze())

    def _ask(self, question: Callable[[PolicyHost], T]) -> T:
        """The answer of the policy process; if it has died, the scheduler is woken to start another.

        Raises Busy.
        """
        self.standing.check()
        host = self.host
        if host is None:  # it has fallen since
            raise Busy("the scheduler is starting; ask again in a moment")
        try:
            return question(host)
        except Busy:
            if host.is_away:  # on a quiet cluster its next step may be long off
                self.inbox.put(Begun())
            raise


def _note_accounts(everything: Everything, world: LiveWorld) -> None:
    """Put on record which waiting jobs are held since no account lets them start, and which are no more."""
    for row in everything.jobs.keys() & world.live.keys() - everything.aside.keys():
        job = world.live[row]
        was_held = any(hold["kind"] == ACCOUNT for hold in everything.jobs[row].now.hold)
        if was_held != (ACCOUNT in job.holds):
            world.live.unsaved.job(job)
            text = job.barred or "its user has the account again that it was submitted as"
            world.live.unsaved.event("release" if was_held else "hold", job.id, text)


def _past(store: Store) -> list[tuple[str, str, list[float]]]:
    return [(tenant, group, runs.tolist()) for (tenant, group), runs in store.past().items()]
