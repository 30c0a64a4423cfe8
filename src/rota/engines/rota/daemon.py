"""The agent: makes this machine run what the controller wants, and reports its state.

It has two sides. The link (`rota.engines.shared.link`, two threads that only wait) receives orders and sends
reports. The supervision, in the thread that calls `run`, sleeps until an order, a process or a timer wakes
it, asks `reconcile` for the actions, carries them out and posts reports. Nothing important is kept in memory
only: the attempts' folders record what runs, and the controller knows what should.
"""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from rota.client.http import route
from rota.engines.rota.acting import RETRY_S, ActionExecutor
from rota.engines.rota.cuda_checkpoint import CudaCheckpoint, probe
from rota.engines.rota.devices import Devices, Load
from rota.engines.rota.fitness import Fitness
from rota.engines.rota.folder import CONTACT
from rota.engines.rota.identity import boot_id
from rota.engines.rota.idling import is_busy
from rota.engines.rota.limits import LimitKeeper
from rota.engines.rota.live import Live
from rota.engines.rota.logs import fetch
from rota.engines.rota.mechanisms import Mechanisms
from rota.engines.rota.operations import Transition
from rota.engines.rota.processes import below
from rota.engines.rota.supervisor import Supervisor
from rota.engines.rota.sweeping import Sweeper
from rota.engines.rota.telling import PartMemo, bare_report, report_of, waiting_report
from rota.engines.rota.terminals import AgentTerminals
from rota.engines.rota.usage import UsageSampler, Used, machine_memory_gib, memory_gib, roots_of
from rota.engines.shared import reconcile as plans
from rota.engines.shared.board import Board
from rota.engines.shared.ledger import Claim, Key
from rota.engines.shared.link import ANSWER_S, LOCAL_MOST_S, Link, Transport
from rota.engines.shared.orders import Orders
from rota.engines.shared.reconcile import Do, Here, Machine, PartPhase, Silence
from rota.engines.shared.silence import Contact
from rota.engines.shared.steady import unix_s
from rota.wire.keeping import Kept, KeptReply
from rota.wire.sync import DeviceInfo, Part, PartStatus, Report, Wanted, are_two

LOG = logging.getLogger("rota.engines.rota")
SETTLED = frozenset({Do.START, Do.FORGET})
"""Actions that need no second look: what they change is reported in the same step."""
LOOK_S = 1.0
"""Seconds between two looks at the reports of programs."""


@dataclass(frozen=True)
class AgentSettings:
    """Settings of an agent."""

    home: Path
    """ROTA_HOME/agent."""
    node: str
    checkpoints: Path | None = None
    """Shared folder for checkpoints; `home/checkpoints` if None."""
    suspend_memory_gib: float | None = None
    """Host memory that all suspended parts together may hold; half of the machine's if None."""
    usage_s: float = 5.0
    """Seconds between two measurements of what parts use."""
    health_s: float = 10.0
    """Seconds between two checks of the devices' health."""
    most_s: float = LOCAL_MOST_S
    """Longest pause between two attempts to reach a controller that does not answer."""
    allow_root: bool = False
    """Jobs of users without an account may run as root, if the agent does."""


class Agent:
    """One machine's agent."""

    def __init__(
        self,
        settings: AgentSettings,
        devices: Devices,
        transport: Transport,
        *,
        on_denied: Callable[[], Transport | None] = lambda: None,
        on_back: Callable[[], None] = lambda: None,
    ) -> None:
        """Attach to attempts that still run from before; nothing starts before `run`.

        `on_denied` and `on_back` are passed to `Link`.
        """
        self.incarnation = uuid.uuid4().hex
        self.devices = devices
        self._gate = threading.RLock()
        self._settings = settings
        self._transport, self._on_denied = transport, on_denied
        self._supervisor = Supervisor(
            settings.home, checkpoints=settings.checkpoints, allow_root=settings.allow_root
        )
        self._orders, self._board = Orders(), Board()
        self._contact = Contact(settings.home / CONTACT, boot=boot_id(), on_trouble=self._wake)
        self._memory_gib, budget_gib = machine_memory_gib(), settings.suspend_memory_gib
        self._mechanisms = Mechanisms(
            self._supervisor,
            on_slots=devices.kind == "cpu",
            driver=CudaCheckpoint(probe(devices.driver())),
            budget_gib=self._memory_gib / 2 if budget_gib is None else budget_gib,
            memory_gib=lambda live: memory_gib(roots_of(live.pids, live.pgid)),
            device_gib=self._device_gib,
            wake=self._wake,
        )
        self._terminals = AgentTerminals(
            self._supervisor.home, lambda: self._transport, route("v1", "agents", settings.node, "terminal")
        )
        self._link = Link(
            transport,
            settings.node,
            self.incarnation,
            orders=self._orders,
            board=self._board,
            contact=self._contact,
            read_log=lambda request: fetch(self._supervisor.home, request),
            on_orders=self._wake,
            on_stop=self.stop,
            on_denied=self._denied,
            on_terminal=self._terminals.take_up,
            on_back=on_back,
            boot_id=boot_id(),
            most_s=settings.most_s,
        )
        self._sweeper = Sweeper(
            self._supervisor,
            self._ask_kept,
            lambda: {row for row, _ in self._orders.wanted()[0]},
            shares_checkpoints=settings.checkpoints is not None,
        )
        self._sampler = UsageSampler()
        self._executor = ActionExecutor(
            self._supervisor, self._mechanisms, devices, orders=self._orders, contact=self._contact
        )
        self._limits = LimitKeeper()
        self._fitness = Fitness(self._supervisor.home)
        self._stopping = self._ordered = self._closed = False
        self._silence, self._trouble = Silence.HEARD, ""
        self._usage_s = self._health_s = time.monotonic()
        self._guard = self._supervisor.guard
        for live in self._supervisor.known():
            attach = partial(self._mechanisms.attach, live)
            self._guard.run(live.key, "go on with what another agent began", attach, None)

    def run(self) -> None:
        """Work until `stop` is called or the controller orders it; the jobs run on afterwards."""
        self._board.devices(self._device_infos(), self._why_none())
        self._timers()  # measure what parts hold before the first order comes
        self._step()
        self._link.start()
        self._sweeper.start()
        try:
            while not self._stopping:
                changed = self._supervisor.wait(self._sleep_s())
                self._ordered, ordered = False, self._ordered
                if changed or ordered or self._timers():
                    self._step()
        finally:
            self._link.close()
            self._sweeper.close()
            with self._gate:
                self._closed = True
                self._supervisor.close()

    def stop(self) -> None:
        """End `run` soon; may be called from any thread or signal handler."""
        self._stopping = True
        self._wake()

    def _denied(self) -> Transport | None:
        """Return another transport, if there is one, after the token was refused."""
        self._transport = (transport := self._on_denied()) or self._transport
        return transport

    def _ask_kept(self, said: Kept) -> KeptReply:
        """Ask the controller which ended jobs' files may be removed."""
        path = route("v1", "agents", self._settings.node, "kept")
        answer = self._transport.call("POST", path, said, timeout_s=ANSWER_S, idempotent=True)
        return KeptReply.model_validate(answer)

    def _wake(self) -> None:
        """Wake the supervision to look at orders and operations; from any thread, at any time."""
        self._ordered = True
        with self._gate:
            if not self._closed:
                self._supervisor.wake()

    # -- time ------------------------------------------------------------------------------------

    def _sleep_s(self) -> float:
        """Seconds until the next timer; everything that happens earlier wakes the thread."""
        now = time.monotonic()
        waits = [self._contact.next_s(), self._mechanisms.next_s(), self._limits.next_s()]
        waits += [self._executor.retry_s - now, self._fitness.next_s - now]
        if any(not live.gone for live in self._supervisor.known()):
            waits += [LOOK_S, self._usage_s - now]
        if self.devices.kind != "cpu":
            waits.append(self._health_s - now)
        return max(0.0, min(waits))

    def _timers(self) -> bool:
        """Check everything that changes without an event; True if something did."""
        now = time.monotonic()
        news = min(self._executor.retry_s, self._fitness.next_s) <= now
        if self._mechanisms.operations or self._limits.next_s() <= 0.0:
            news = True
        if now >= self._health_s:
            self._health_s = now + self._settings.health_s
            if self.devices.refresh():
                self._board.devices(self._device_infos(), self._why_none())
                news = True
        lives = [live for live in self._supervisor.known() if not live.gone]
        if now >= self._usage_s and lives:
            self._usage_s = now + self._settings.usage_s
            self._sample(lives, now)
            news = True
        for live in lives:
            news = self._listen(live) or news
        return news or self._contact.silence() is not self._silence or self._why_none() != self._trouble

    def _listen(self, live: Live) -> bool:
        """Read what a part's program has reported; True if that is new."""
        look = self._mechanisms.relay(live).look
        return self._guard.run(live.key, "read what its program says", look, False)

    def _sample(self, lives: list[Live], now: float) -> None:
        """Measure what each part uses."""
        looked = self._sampler.look({live.key: roots_of(live.pids, live.pgid) for live in lives}, now)
        for live in lives:
            if live.pids:
                note = partial(self._note_use, live, looked[live.key], now)
                self._guard.run(live.key, "note what it uses", note, None)

    def _note_use(self, live: Live, used: Used, now: float) -> None:
        """Store a measurement of what a part uses."""
        memo, gpu = self._executor.memo(live.key), self.devices.load(live.devices, used.pids)
        memo.use(used, gpu, unix_s(), self._idle_s(live, memo, used, gpu, now))
        if live.status is PartStatus.SUSPENDED:
            self._mechanisms.suspended_gib[live.key] = used.memory_gib

    def _idle_s(self, live: Live, memo: PartMemo, used: Used, gpu: Load | None, now: float) -> float | None:
        """Seconds for which a part has done nothing; None if it is suspended, or if that is unknown."""
        if live.status is PartStatus.SUSPENDED:
            memo.idle.reset()
            return None
        busy = is_busy(
            used.cpu_cores, None if gpu is None else gpu.utilisation, on_slots=self.devices.kind == "cpu"
        )
        said = self._mechanisms.relay(live).progress()
        return memo.idle.look(is_busy=busy, said=said, now_s=now)

    # -- one step --------------------------------------------------------------------------------

    def _step(self) -> None:
        """Look at what is here, carry out the actions, and post reports."""
        self._executor.retry_s = float("inf")
        self._mechanisms.poll()
        orders, whole = self._orders.wanted()
        lives = {live.key: live for live in self._supervisor.known()}
        for live in lives.values():
            self._listen(live)
        self._silence = self._contact.silence()
        here = [self._seen(live, orders.get(key)) for key, live in lives.items()]
        here += [
            Here(key, str(key[0] + 1), PartPhase.GONE, submit_s=report.submit_s)
            for key, report in self._executor.unbegun.items()
            if key not in lives
        ]
        machine = Machine(
            {info.index: "" if info.healthy else info.why or "unhealthy" for info in self._device_infos()},
            whole=whole,
            silence=self._silence,
            movable=self.devices.kind == "cpu",
            name=self.devices.kind if self.devices.kind == "cpu" else "GPU",
            memory_gib=self._memory_gib,
        )
        plan = plans.reconcile(orders, here, machine)
        for action in plan.actions:
            self._executor.carry_out(action, lives.get(action.key))
        if plan.actions:
            orders, _ = self._orders.wanted()
            if {action.do for action in plan.actions} <= SETTLED:
                self._supervisor.settle()
        for key, trouble in self._limits.follow(orders, self._supervisor.known()).items():
            self._executor.memo(key).trouble = trouble
            self._executor.retry_s = time.monotonic() + RETRY_S
        for done in self._mechanisms.done():
            note = partial(self._executor.memo(done.key).note, done)
            self._guard.run(done.key, "note what was done to it", note, None)
        self._fitness.look(self._supervisor.known())
        if (trouble := self._why_none()) != self._trouble:  # reported before its consequences
            self._trouble = trouble
            self._board.devices(self._device_infos(), trouble)
        self._board.post(self._reports(orders, plan.waiting))

    def _seen(self, live: Live, order: Part | None) -> Here:
        """State of a part for `reconcile`: at least that it holds its devices, if the rest is unknown."""
        part, phase = live.part, PartPhase.GONE if live.gone else PartPhase.RUNNING
        claim = Claim(live.devices, part.share, part.opportunistic)
        bare = Here(live.key, part.job, phase, claim, submit_s=part.submit_s)
        return self._guard.run(live.key, "see where it stands", partial(self._here, live, order), bare)

    def _here(self, live: Live, order: Part | None) -> Here:
        """The full state of a part for `reconcile`."""
        memo, operation = self._executor.memo(live.key), self._mechanisms.operations.get(live.key)
        devices, parked = live.devices, memo.parked
        if operation is not None and operation.kind is Transition.RESUME:
            devices = tuple(operation.part.devices)
        claimed = live.part
        if order is not None and order.wanted is Wanted.RUN and not are_two(order.submit_s, claimed.submit_s):
            claimed = order
        return Here(
            live.key,
            live.part.job,
            self._phase(live),
            Claim(devices, claimed.share, claimed.opportunistic),
            submit_s=live.part.submit_s,
            batch_size=memo.batch_size or self._said_batch(live),
            version=memo.told[1] if memo.told[0] == self._orders.controller else -1,
            self_fence=live.part.self_fence,
            parked=parked or (operation is not None and operation.parked),
            memory_gib=max(claimed.memory_gib, self._seen_gib(live.key)),
        )

    def _said_batch(self, live: Live) -> float | None:
        """Samples of a step, as the part's program reports."""
        relay = self._mechanisms.relay(live)
        return self._guard.run(live.key, "read its batch size", lambda: relay.batch_size, None)

    def _device_gib(self, live: Live) -> float:
        """Device memory that the part's processes hold, in GiB."""
        pids = {stat.pid for stat in below(live.shim.pid)} if live.shim is not None else set()
        load = self.devices.load(live.devices, pids)
        return load.memory_gib if load is not None else 0.0

    def _seen_gib(self, key: Key) -> float:
        """Host memory that a part held when last measured, or when it was suspended if that was more."""
        usage, suspended_gib = self._executor.memo(key).usage, self._mechanisms.suspended_gib.get(key, 0.0)
        return max(suspended_gib, usage.memory_gib if usage is not None else 0.0)

    def _phase(self, live: Live) -> PartPhase:
        operation = self._mechanisms.operations.get(live.key)
        if live.gone:
            return PartPhase.GONE
        if live.deadline_s is not None:
            return PartPhase.DYING if live.deadline_s <= time.monotonic() else PartPhase.STOPPING
        if operation is not None and operation.kind is Transition.LEAVE:
            return PartPhase.LEAVING
        if live.status is PartStatus.STARTING:
            return PartPhase.STARTING
        if operation is not None and operation.kind is Transition.SUSPEND:
            return PartPhase.SUSPENDING
        if live.status is PartStatus.SUSPENDED:
            return PartPhase.SUSPENDED if operation is None else PartPhase.RESUMING
        return PartPhase.RUNNING

    def _device_infos(self) -> list[DeviceInfo]:
        """The machine's devices; all of them have trouble while nothing can start on the machine."""
        infos, why = self.devices.infos(), self._why_none()
        if not why:
            return infos
        return [info.model_copy(update={"healthy": False, "why": why}) for info in infos]

    def _why_none(self) -> str:
        """Why no device takes new jobs: the agent cannot write its folder, or no attempt can start."""
        return self._contact.trouble or self._fitness.trouble

    # -- reports ---------------------------------------------------------------------------------

    def _reports(self, orders: Mapping[Key, Part], waiting: Mapping[Key, str]) -> list[Report]:
        reports = []
        lives = {live.key: live for live in self._supervisor.known()}
        for key, live in lives.items():
            tell = partial(self._report, live, waiting.get(key, ""))
            report = self._guard.run(key, "report all of it", tell, None)
            reports.append(report or bare_report(live, self._guard.trouble(key)))
        reports += [report for key, report in self._executor.unbegun.items() if key not in lives]
        for key, part in orders.items():
            if key in lives or key in self._executor.unbegun or key not in waiting:
                continue
            status = PartStatus.HELD if part.wanted is Wanted.SUSPEND else PartStatus.WAITING
            reports.append(waiting_report(part, self._executor.memo(key), waiting[key], status))
        self._executor.keep(lives.keys() | orders.keys())
        self._guard.keep(lives.keys() | orders.keys())
        return reports

    def _report(self, live: Live, waiting: str) -> Report:
        memo = self._executor.memo(live.key)
        if not live.gone and live.started_s is not None:
            memo.capability = self._mechanisms.capability(live)
        memo.measure(live)
        return report_of(live, memo, self._mechanisms, waiting, self._guard.trouble(live.key))
