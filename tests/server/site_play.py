"""A whole site in one thread: the real scheduler on a real store, machines that are made up, time that jumps.

Everything that would be a process here is an object: killing the controller drops the scheduler and opens
the store again; killing an agent makes it forget what it had not on its disk.  Jobs are programs of so many
seconds of work.  `Site.check` says after every turn what must never happen; thousands of kills take seconds.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from new_store import put_new_store
from rota.model.growing import GrowingTable
from rota.scheduler.decision import Decision, Memory, Wake
from rota.scheduler.decision import Event as Moment
from rota.scheduler.moments.replica import TracedState
from rota.scheduler.policy import parse_policy
from rota.scheduler.snapshot import Snapshot
from rota.scheduler.victims import cheaper_victims
from rota.server.auth import Roster
from rota.server.policy.messages import seal, sealed_memory, unseal
from rota.server.roster import JobAccounts
from rota.server.scheduler import Scheduler, SchedulerSettings
from rota.server.store.failures import StoreError
from rota.server.store.rows import REAL, JobRow, NewJob, PolicyRow, Step, TokenRow
from rota.server.store.store import Store
from rota.server.submissions import Submitting, put_on_record
from rota.server.turn import TurnChanges
from rota.wire.job import JobSpec
from rota.wire.sync import (
    Capability,
    DeviceInfo,
    Exit,
    Mechanism,
    NodeInfo,
    Part,
    PartStatus,
    Report,
    SyncRequest,
    Wanted,
)
from rota.worlds.live.directives import Directives
from rota.worlds.live.endings import BackOff
from rota.worlds.live.inbox import Begun, CommandAsked, Event, Inbox, ReportTold
from rota.worlds.live.settings import LiveSettings

EPOCH_S = 1_700_000_000.0
IDLE_MOST = 200
"""Moments without an event after which a turn ends all the same."""


class AllMayRun(JobAccounts):
    """Each job may run as the account that it was submitted as."""

    def __init__(self) -> None:
        super().__init__(Roster())

    def bars(self, job: JobRow) -> str:
        return ""


class Killed(BaseException):
    """kill -9, at some point of a turn."""


@dataclass
class Time:
    """A clock that somebody sets."""

    now: float = 0.0
    epoch_unix_s: float = EPOCH_S

    said: str = ""

    def __call__(self) -> float:
        return self.now

    def trouble(self) -> str:
        """What is wrong with it."""
        return self.said

    def of_people(self, at_unix_s: float) -> float:
        """People look at this clock as well."""
        return at_unix_s


class JumpingInbox(Inbox):
    """Nobody waits: without an event, time goes on to the next thing that happens on a machine."""

    def __init__(self, pass_time: Callable[[float], None]) -> None:
        super().__init__()
        self._pass = pass_time
        self._idle = 0

    def take(self, timeout_s: float, *, gathers: bool = False) -> list[Event]:
        found = super().take(0.0)
        if not found and timeout_s > 0 and not self.closed:
            self._pass(timeout_s)
            found = super().take(0.0)
        self._idle = 0 if found else self._idle + 1
        if self._idle > IDLE_MOST:  # let the test do something
            self._idle = 0
            return [Begun()]
        return found


@dataclass
class Program:
    """What a job really does, over all its attempts."""

    work_s: float
    ends: str = "ok"
    """`ok`, or `fail`: how it ends once its work is done."""
    saves: bool = True
    """Leaves a checkpoint when it is told to go."""
    leave_s: float = 0.5
    """How long it takes to go."""
    saved_s: float = 0.0
    """Work that survives it."""
    parts_done: dict[int, int] = field(default_factory=dict)
    """Parts of each attempt that came to their end."""
    completed: set[int] = field(default_factory=set)
    """Attempts all parts of which did."""


@dataclass
class Body:
    """An attempt's folder and processes on a machine: they survive agent and controller."""

    part: Part
    program: Program
    status: PartStatus = PartStatus.RUNNING
    since_s: float = 0.0
    done_s: float = 0.0
    """Work done by this attempt until `since_s`."""
    base_s: float = 0.0
    """Work that had been saved when it began."""
    gone_at_s: float | None = None
    """When it will have left, once told to."""
    exit: Exit | None = None
    why: str = ""

    @property
    def is_alive(self) -> bool:
        return self.status not in (PartStatus.ENDED, PartStatus.LOST)

    @property
    def is_running(self) -> bool:
        return self.status in (PartStatus.RUNNING, PartStatus.LEAVING)

    def done(self, now: float) -> float:
        """Work done by this attempt."""
        return self.done_s + (now - self.since_s if self.is_running else 0.0)

    def next_s(self) -> float:
        """When something happens to it by itself."""
        if not self.is_running:
            return float("inf")
        ends = self.since_s + self.program.work_s - self.base_s - self.done_s
        return min(ends, self.gone_at_s if self.gone_at_s is not None else float("inf"))


class Machine:
    """A node: its bodies are real, its agent may be away or have forgotten things."""

    def __init__(self, name: str, devices: int, site: Site) -> None:
        self.name, self.devices, self.site = name, devices, site
        self.bodies: dict[tuple[int, int], Body] = {}
        self.is_up = True
        self.forget()

    def forget(self) -> None:
        """The agent starts anew."""
        self.orders: dict[tuple[int, int], Part] = {}
        self.seen, self.controller, self.said = 0, "", {}  # type: ignore[var-annotated]

    # -- the agent -------------------------------------------------------------------------------

    def sync(self) -> None:
        """One call to the controller, and what follows from its answer."""
        if not self.is_up:
            return
        directives, now = self.site.directives, self.site.time.now
        self.site.heard[self.name] = now
        is_new = self.controller != directives.incarnation
        if is_new:
            self.controller, self.seen, self.orders, self.said = directives.incarnation, 0, {}, {}
        held = [
            part
            for key, part in self.orders.items()
            if key not in self.bodies and part.wanted is Wanted.SUSPEND
        ]
        here = [*map(self._report, self.bodies.values()), *map(_held, held)]
        reports = [report for report in here if self._is_news(report)]
        if reports or is_new:
            request = SyncRequest(
                incarnation=self.name,
                seen=self.seen,
                controller=directives.incarnation,
                reports=reports,
                complete=is_new,
            )
            self.site.inbox.put(ReportTold(self.name, request))
        for part in directives.since(self.name, self.seen):
            self.orders[part.row, part.attempt] = part
            self.seen = max(self.seen, part.version)
        self._obey()

    def _is_news(self, report: Report) -> bool:
        key, said = (report.row, report.attempt), report.model_dump_json()
        if self.said.get(key) == said:
            return False
        self.said[key] = said
        return True

    def _report(self, body: Body) -> Report:
        saves = body.program.saves
        return Report(
            row=body.part.row,
            submit_s=body.part.submit_s,
            attempt=body.part.attempt,
            status=body.status,
            since_s=EPOCH_S + body.since_s,
            started_s=EPOCH_S + body.since_s,
            end=body.exit,
            why=body.why,
            capability=Capability(suspend=Mechanism.SIGNAL, checkpoint=saves),
        )

    def _obey(self) -> None:
        """Bring the bodies towards the orders: releases first."""
        now = self.site.time.now
        for key, part in sorted(self.orders.items()):
            body = self.bodies.get(key)
            if part.wanted is Wanted.FORGET:
                self.bodies.pop(key, None)
                self.orders.pop(key)
            elif body is None and part.wanted not in (Wanted.RUN, Wanted.SUSPEND):
                self._never(part)
            elif body is not None and body.is_alive:
                self._release(body, part, now)
        for key, part in sorted(self.orders.items()):
            if part.wanted is Wanted.RUN:
                self._acquire(key, part, now)
        self._report_all()

    def _report_all(self) -> None:
        held = [
            part
            for key, part in self.orders.items()
            if key not in self.bodies and part.wanted is Wanted.SUSPEND
        ]
        here = [*map(self._report, self.bodies.values()), *map(_held, held)]
        reports = [report for report in here if self._is_news(report)]
        if reports:
            request = SyncRequest(
                incarnation=self.name, seen=self.seen, controller=self.controller, reports=reports
            )
            self.site.inbox.put(ReportTold(self.name, request))

    def _never(self, part: Part) -> None:
        """Told to stop what was never begun: on record as such."""
        self.bodies[part.row, part.attempt] = Body(
            part, self.site.programs[part.row], PartStatus.LOST, why="never began"
        )

    def _release(self, body: Body, part: Part, now: float) -> None:
        if part.wanted is Wanted.KILL:
            self._end(body, now, signal=9)
        elif part.wanted is Wanted.SUSPEND and body.status is PartStatus.RUNNING:
            body.done_s, body.since_s, body.status = body.done(now), now, PartStatus.SUSPENDED
        elif part.wanted in (Wanted.LEAVE, Wanted.STOP) and body.gone_at_s is None:
            if (
                body.status is PartStatus.SUSPENDED
            ):  # its devices are others' already: it gets none to say goodbye
                self._end(body, now, signal=9)
                return
            body.done_s, body.since_s = body.done(now), now
            body.status, body.gone_at_s = PartStatus.LEAVING, now + body.program.leave_s

    def _acquire(self, key: tuple[int, int], part: Part, now: float) -> None:
        body = self.bodies.get(key)
        if body is not None and body.status is not PartStatus.SUSPENDED:
            if body.part.devices == part.devices:
                body.part = part  # another claim on them
            return
        lower = [b for (row, number), b in self.bodies.items() if row == key[0] and number < key[1]]
        for other in lower:
            if other.is_alive:
                return
        if any(self._load(device, key) + part.share > 1.0 + 1e-9 for device in part.devices):
            return
        if body is None:
            program = self.site.programs[part.row]
            self.bodies[key] = Body(part, program, since_s=now, base_s=program.saved_s)
        else:
            body.part, body.status, body.since_s = part, PartStatus.RUNNING, now

    def _load(self, device: int, without: tuple[int, int]) -> float:
        return sum(
            body.part.share
            for key, body in self.bodies.items()
            if key != without and body.is_running and device in body.part.devices
        )

    # -- the processes ---------------------------------------------------------------------------

    def next_s(self) -> float:
        """When something happens here by itself."""
        return min((body.next_s() for body in self.bodies.values()), default=float("inf"))

    def happen(self) -> None:
        """Whatever is due."""
        now = self.site.time.now
        for body in self.bodies.values():
            if body.next_s() <= now + 1e-9:
                self._end(body, now)

    def _end(self, body: Body, now: float, signal: int | None = None) -> None:
        program = body.program
        done = body.done(now)
        is_complete = signal is None and body.base_s + done >= program.work_s - 1e-6
        body.done_s, body.since_s = done, now
        if is_complete:
            number = body.part.attempt
            program.parts_done[number] = program.parts_done.get(number, 0) + 1
            if program.parts_done[number] == len(body.part.nodes):
                program.completed.add(number)
            code = 0 if program.ends == "ok" else 1
            tail, by_itself = "" if code == 0 else "ValueError: bad", body.gone_at_s is None
            body.exit = Exit(ended_s=EPOCH_S + now, code=code, tail=tail, by_itself=by_itself)
        elif signal is None and program.saves:
            program.saved_s = max(program.saved_s, body.base_s + done)
            body.exit = Exit(ended_s=EPOCH_S + now, code=85)
        else:
            body.exit = Exit(ended_s=EPOCH_S + now, signal=signal or 15)
        body.status = PartStatus.ENDED

    def kill_shim(self, chooser: random.Random) -> bool:
        """One attempt is gone without a trace but its folder."""
        alive = [body for body in self.bodies.values() if body.is_alive]
        if not alive:
            return False
        body = chooser.choice(alive)
        body.status, body.why, body.since_s = PartStatus.LOST, "its shim was killed", self.site.time.now
        return True


def _held(part: Part) -> Report:
    """Told to stand still before it had begun."""
    return Report(
        row=part.row, submit_s=part.submit_s, attempt=part.attempt, status=PartStatus.HELD, since_s=EPOCH_S
    )


class LocalHost:
    """The policy in this process, as the scheduler knows hosts; its memory crosses as bytes all the same."""

    def __init__(
        self, state: TracedState, table: GrowingTable, spec: str, memory: bytes | None, seed: int
    ) -> None:
        self.name, self.policy = spec, parse_policy(spec).make()
        self.needs = self.policy.needs
        self.trouble = ""
        self.real = SimpleNamespace(tally=SimpleNamespace(round_trip_ms=1.0))
        self.state, self.failures, self.rests_s, self.asks = state, 0, 0.0, 0

    def decide(self, snapshot: Snapshot, memory: Memory) -> Decision:
        self.state.take_trace()
        if self.rests_s:
            self.asks += 1
            if self.asks <= 2:
                return Decision(memory, wake=Wake(snapshot.now + self.rests_s, Moment.NONE), is_cut=True)
            self.rests_s, self.trouble = 0.0, ""
        decision = self.policy.decide(snapshot, unseal(memory.get("sealed")))
        decision = cheaper_victims(snapshot, decision, self.costs().__getitem__)
        decision.memory = sealed_memory(seal(decision.memory))
        return decision

    def weigh(self, costs: Callable[[], dict[int, float]]) -> None:
        self.costs = costs

    def note(self) -> None: ...

    def rest(self, why: str, failed_in_a_row: int) -> None:
        """It is asked again after two moments."""
        self.failures, self.trouble, self.rests_s = self.failures + 1, f"policy {self.name} {why}", 1.0

    def renew(
        self, state: TracedState, table: GrowingTable, spec: str, memory: bytes | None, seed: int
    ) -> None:
        self.__init__(state, table, spec, memory, seed)  # type: ignore[misc]

    def close(self) -> None: ...

    def set_shadow(self, policy: str | None) -> None: ...

    def shadow_moments(self) -> list[Any]:
        return []


@dataclass
class Site:
    """The site; `faults` is called with the name of every point of a write."""

    folder: Path
    nodes: dict[str, int]
    policy: str = "fifo:skip=yes"
    lost_after_s: float = 30.0
    min_run_s: float = 0.0
    faults: Callable[[str], None] = lambda name: None
    time: Time = field(default_factory=Time)
    programs: dict[int, Program] = field(default_factory=dict)
    heard: dict[str, float] = field(default_factory=dict)
    ended: dict[int, str] = field(default_factory=dict)
    kills: int = 0
    accounts: JobAccounts = field(default_factory=AllMayRun)
    user: str = "u"
    account: str = "me"
    """Who submits, and as which account the jobs run."""

    def __post_init__(self) -> None:
        self.machines = {name: Machine(name, devices, self) for name, devices in self.nodes.items()}
        self.store = self._open()
        self.store.commit(Step(policies=[PolicyRow(REAL, self.policy, 0.0, "test")]))
        for name, devices in self.nodes.items():
            info = NodeInfo(
                name=name,
                address="127.0.0.1",
                cpus=8,
                memory_gib=64,
                boot_id="b",
                devices=[DeviceInfo(index=i, type="cpu") for i in range(devices)],
                kind="cpu",
            )
            self.store.join(info, TokenRow(f"t-{name}", "agent", name))
        self.begin()

    def _open(self) -> Store:
        put_new_store(self.folder)
        return Store.open(None, self.folder, faults=lambda name: self.faults(name))

    def begin(self) -> None:
        """A controller starts."""
        self.inbox: Inbox = JumpingInbox(self.pass_time)
        self.directives = Directives(f"c{self.kills}-{id(self)}")
        self.heard.clear()
        settings = SchedulerSettings(
            live=LiveSettings(lost_after_s=self.lost_after_s, back_off=BackOff(1.0, 4.0)),
            min_run_s=self.min_run_s,
        )
        self.scheduler = Scheduler(
            self.store,
            LocalHost,
            self.inbox,
            self.directives,
            self.time,
            self.heard,
            settings,
            self.accounts,
            self.told,  # type: ignore[arg-type]
        )

    def told(self, turn: TurnChanges) -> None:
        """What the API would hear."""

    def kill_controller(self) -> None:
        """The process is gone; another one starts on the same store."""
        while True:
            self.kills += 1
            self.store.close()
            try:
                self.store = self._open()
            except (Killed, StoreError):  # again, while it started
                continue
            self.begin()
            return

    def kill_agent(self, name: str) -> None:
        """The agent starts anew; its jobs run on."""
        self.kills += 1
        self.machines[name].forget()

    def submit(
        self, work_s: float, *, gpus: int = 1, ends: str = "ok", saves: bool = True, **spec: Any
    ) -> int:
        """A job; its row."""
        full = JobSpec(command=["work"], gpus=gpus, **spec)
        return self._add(full, [NewJob(full)], [Program(work_s, ends, saves)])[0]

    def submit_array(self, *ends: str, work_s: float = 1.0, **spec: Any) -> list[int]:
        """An array of jobs that end so; their rows."""
        full = JobSpec(command=["work"], array=f"1-{len(ends)}", **spec)
        jobs = [NewJob(full, index) for index in range(1, len(ends) + 1)]
        return self._add(full, jobs, [Program(work_s, how) for how in ends])

    def _add(self, spec: JobSpec, jobs: list[NewJob], programs: list[Program]) -> list[int]:
        """As the API does it."""
        who = Submitting(self.user, "t", self.account, self.accounts)
        rows = put_on_record(self.store, self.inbox, who, spec, jobs, self.time.now)
        self.programs.update({row.row: program for row, program in zip(rows, programs, strict=True)})
        return [row.row for row in rows]

    def command(self, kind: str, row: int | None = None, **args: Any) -> None:
        """Something a user wants."""
        node = args.pop("node", None)
        seq = self.store.add_command(self.time.now, "u", kind, row=row, node=node, args=args)
        self.inbox.put(CommandAsked(seq, "u", kind, row, node, args))

    # -- time ------------------------------------------------------------------------------------

    def pass_time(self, most_s: float) -> None:
        """On to the next thing that happens, `most_s` ahead at most; machines speak up."""
        until = self.time.now + min(most_s, 5.0)
        soonest = min((m.next_s() for m in self.machines.values()), default=until)
        self.time.now = max(self.time.now, min(until, soonest)) + 1e-6
        self.happen()

    def happen(self) -> None:
        """What is due on the machines, and what their agents say."""
        for machine in self.machines.values():
            machine.happen()
            machine.sync()

    def turn(self) -> None:
        """One turn of the scheduler, or what becomes of it."""
        try:
            if self.scheduler.loop is None:
                self.scheduler._build()
            self.scheduler._turn()
        except Killed:
            self.kill_controller()
        except StoreError as error:
            self.scheduler._fail(error, 0.0)
        self.check()

    def run(self, turns: int = 5000, between: Callable[[int], None] = lambda turn: None) -> None:
        """Until all jobs are over."""
        for number in range(turns):
            between(number)
            self.turn()
            if all(row.now.phase > 3 for row in self.rows()):
                return
        raise AssertionError(f"not over after {turns} turns: {[(r.id, r.now.state) for r in self.rows()]}")

    def rows(self) -> list[JobRow]:
        return self.store.jobs()

    # -- what must never happen ------------------------------------------------------------------

    def check(self) -> None:
        """No job beside itself, no device over its capacity, nothing finished twice."""
        running: dict[int, list[int]] = {}
        for machine in self.machines.values():
            load: dict[int, float] = {}
            for (row, number), body in machine.bodies.items():
                if body.is_running and machine.is_up:
                    running.setdefault(row, []).append(number)
                if body.is_running:
                    for device in body.part.devices:
                        load[device] = load.get(device, 0.0) + body.part.share
            over = {device: share for device, share in load.items() if share > 1.0 + 1e-9}
            assert not over, f"devices of {machine.name} are oversubscribed: {over}"
        twice = {row: numbers for row, numbers in running.items() if len(set(numbers)) > 1}
        assert not twice, f"jobs run beside themselves: {twice}"

    def check_end(self) -> None:
        """Every job ended as its program did, once."""
        for row in self.rows():
            program = self.programs[row.row]
            if program.ends == "ok":  # one that fails just as it is told to go may fail again
                assert len(program.completed) <= 1, f"job {row.id} came to its end in {program.completed}"
            wanted = "COMPLETED" if program.ends == "ok" else "FAILED"
            assert row.now.state in (wanted, "CANCELLED"), f"job {row.id}: {row.now.state} {row.now.cause}"
            if row.now.state == "COMPLETED":
                assert program.completed, f"job {row.id} is said to be complete and is not"
