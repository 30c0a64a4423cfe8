"""The live world under the real loop with a scripted policy: no store, no processes, time that a test sets.

Agents are what the test says: `tell` puts a request into the inbox, `orders` is what a node was told last.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from play import job
from rota.model.cluster import Cluster, NodeShape
from rota.model.grants import Grant
from rota.model.growing import GrowingTable
from rota.model.tenants import Tenants
from rota.scheduler.decision import Event as Cause
from rota.scheduler.loop import Loop
from rota.scheduler.moments.replica import traced_state
from rota.scheduler.policy import parse_policy
from rota.server.step_recorder import StepRecorder, word
from rota.server.store.rows import IntervalRow
from rota.table.state import Phase
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
from rota.worlds.live.attempts import Attempt, LiveJob
from rota.worlds.live.directives import Directives
from rota.worlds.live.endings import BackOff
from rota.worlds.live.inbox import Arrived, Begun, CommandAsked, Event, Inbox, ReportTold
from rota.worlds.live.jobs import Unsaved
from rota.worlds.live.machines import LiveNode
from rota.worlds.live.settings import LiveSettings, live_providers
from rota.worlds.live.world import LiveWorld
from scripted import Scripted

EPOCH_S = 1_700_000_000.0
SUSPENDS = Capability(suspend=Mechanism.SIGNAL)
SETTINGS = LiveSettings(lost_after_s=40.0, back_off=BackOff(4.0, 16.0), trial_s=30.0)


class PassingInbox(Inbox):
    """Nobody waits: without an event the time of the stage goes on to where the wait would have ended."""

    def __init__(self, stage: Stage) -> None:
        super().__init__()
        self._stage = stage
        self.gathered: list[bool] = []
        """Of each time that something was taken: whether arrivals might have waited for company."""

    def take(self, timeout_s: float, *, gathers: bool = False) -> list[Event]:
        self.gathered.append(gathers)
        found = super().take(0.0)
        if not found and timeout_s > 0:
            self._stage.now += timeout_s
            found = super().take(0.0)
        return found


class Stage:
    """Nodes by name with their number of devices; `plan` says what the policy decides next.

    With `policy`, one that is registered decides instead; `limits` are those of each node.
    """

    def __init__(
        self,
        kind: str = "cpu",
        settings: LiveSettings = SETTINGS,
        gpu_type: str = "cpu",
        memory_gib: float = 0.0,
        limits: Mapping[str, Any] | None = None,
        tenants: Tenants | None = None,
        policy: str = "",
        **nodes: int,
    ) -> None:
        self.now = 0.0
        self.policy = Scripted()
        self.table = GrowingTable(64, (gpu_type,))
        shapes = [
            NodeShape(
                1, gpus=gpus, gpu_type=gpu_type, names=(name,), **(limits or {"memory_gib": memory_gib})
            )
            for name, gpus in nodes.items()
        ]
        self.cluster = Cluster.build(shapes, tenants)
        self.nodes = [
            LiveNode(position, _info(name, gpus, kind)) for position, (name, gpus) in enumerate(nodes.items())
        ]
        self.heard = dict.fromkeys(nodes, 0.0)
        self.inbox = PassingInbox(self)
        self.directives = Directives("controller")
        self.news: list[Unsaved] = []
        self.intervals: list[IntervalRow] = []
        self.recorder = StepRecorder()
        self.world = LiveWorld(
            self.table,
            self.cluster,
            self.nodes,
            (),
            inbox=self.inbox,
            directives=self.directives,
            clock=lambda: self.now,
            epoch_unix_s=EPOCH_S,
            heard=self.heard,
            settings=settings,
        )
        self.recorder.live = self.world.live
        state = traced_state(self.table, self.cluster)
        decides: Any = parse_policy(policy).make() if policy else self.policy
        told = live_providers({}, self.table.jobs, self.cluster, ()) if policy else {}
        self.loop = Loop(
            self.world, decides, self.recorder, providers=told, strict=False, retry_s=5.0, state=state
        )
        self.inbox.put(Begun())
        self.settle()

    # -- what happens ----------------------------------------------------------------------------

    def submit(self, settle: bool = True, **spec: Any) -> int:
        """A job's row."""
        return self.submit_all([spec], settle=settle)[0]

    def submit_all(
        self, specs: Sequence[dict[str, Any]], settle: bool = True, most: int = 0, array: bool = False
    ) -> list[int]:
        """Rows of jobs that arrive together: an array if `array`, or if at most `most` may run at once."""
        first = self.table.filled
        jobs = []
        for row, spec in enumerate(specs, start=first):
            full = JobSpec(command=["work"], **spec)
            low, high = full.range
            live = LiveJob(row, str(row + 1), "u", full)
            if most or array:
                live.id = f"{first + 1}_{row - first}"
                live.array_index, live.array_first, live.array_most = row - first, first, most
            sizes = (1, 1, 1) if live.needs_trial else (full.gpus, low, high)
            asked = job(
                live.id,
                row=row,
                submit_s=self.now,
                **dict(zip(("gpus", "gpus_min", "gpus_max"), sizes, strict=True)),
                gpu_share=full.gpu_share,
                gpu_memory_gib=full.gpu_memory_gib,
                cpus=full.cpus,
                memory_gib=full.memory_gib,
                tenant=full.tenant or "t",
                group="g",
                workload="w",
            )
            jobs.append((live, asked))
        self.inbox.put(Arrived(jobs))
        if settle:
            self.settle()
        return list(range(first, first + len(jobs)))

    def plan(self, *turns: Any) -> None:
        """What the policy decides at its next calls, as keyword arguments of `Decision`."""
        self.policy.turns += list(turns)

    def start(self, row: int, *devices: int, **grant: Any) -> Attempt:
        """The policy gives `row` these devices, its processes run."""
        attempt = self.grant(row, *devices, **grant)
        self.run(row)
        return attempt

    def grant(self, row: int, *devices: int, **grant: Any) -> Attempt:
        """The policy gives `row` these devices; nobody has said anything yet."""
        self.decide(grants=[Grant(row, devices, **grant)])
        return self.newest(row)

    def decide(self, **decision: Any) -> None:
        """The policy is asked, and decides so."""
        self.plan(decision)
        self.inbox.put(Begun())
        self.settle()
        assert not self.policy.turns, "nobody asked the policy"

    def ask(self, kind: str, row: int | None = None, settle: bool = True, **args: Any) -> dict[str, object]:
        """A user's command, and what became of it."""
        self.seq = getattr(self, "seq", 0) + 1
        self.inbox.put(CommandAsked(self.seq, "ann", kind, row, args.pop("node", None), args))
        if not settle:
            return {}
        self.settle()
        return self.outcome(self.seq)

    def outcome(self, seq: int) -> dict[str, object]:
        """What became of a command."""
        return next(outcome for news in self.news for number, outcome in news.done if number == seq)

    def tell(self, node: str, *reports: Report, settle: bool = True, **request: Any) -> None:
        """The agent of `node` says so."""
        self.heard[node] = self.now
        said = SyncRequest(incarnation=node, seen=0, controller="", reports=list(reports), **request)
        self.inbox.put(ReportTold(node, said))
        if settle:
            self.settle()

    def run(self, row: int, **report: Any) -> None:
        """All parts of the newest attempt run."""
        for place in self.newest(row).places:
            report = {"started_s": EPOCH_S + self.now, **report}
            self.tell(place.name, self.report(row, PartStatus.RUNNING, **report))

    def end(
        self, row: int, code: int | None = 0, *, number: int = 0, settle: bool = True, **end: Any
    ) -> None:
        """All parts of an attempt, the newest if not said, end alike."""
        attempt = self.job(row).attempts[number - 1] if number else self.newest(row)
        for place in attempt.places:
            said = Exit(ended_s=EPOCH_S + self.now, code=code, **end)
            report = self.report(row, PartStatus.ENDED, number=attempt.number, end=said)
            self.tell(place.name, report, settle=settle)

    def report(self, row: int, status: PartStatus, number: int = 0, **fields: Any) -> Report:
        """What an agent says of a part of an attempt, the newest if not said."""
        number = number or self.newest(row).number
        return Report(row=row, attempt=number, status=status, since_s=EPOCH_S + self.now, **fields)

    # -- time ------------------------------------------------------------------------------------

    def settle(self) -> None:
        """Until everything that is in the inbox has happened."""
        for _ in range(100):
            self.turn(self.now)
            if not self.inbox._events:
                return
        raise AssertionError(f"events that never go: {list(self.inbox._events)}")

    def wait(self, seconds: float) -> None:
        """Let time pass; agents stay in touch."""
        until = self.now + seconds
        while self.now < until:
            for name in self.heard:
                if name not in self.silent:
                    self.heard[name] = self.now
            self.turn(min(until, self.now + 1.0))
        self.settle()

    silent: frozenset[str] = frozenset()
    """Nodes whose agents are not heard of."""

    def turn(self, until_s: float) -> None:
        """One pass of the loop; its orders are published as if they had been stored."""
        self.loop.step(until_s)
        self.news.append(self.world.live.take_unsaved())
        self.intervals += self.recorder.take(self.loop.state)[0]
        self.directives.publish()

    # -- what there is ---------------------------------------------------------------------------

    def job(self, row: int) -> LiveJob:
        """The job, also after the world has forgotten it."""
        found = self.world.live.get(row)
        return found or next(news.jobs[row] for news in reversed(self.news) if row in news.jobs)

    def newest(self, row: int) -> Attempt:
        """The newest attempt that counts."""
        attempt = self.job(row).attempt
        assert attempt is not None
        return attempt

    def state(self, row: int) -> str:
        """Slurm's word, as people see it."""
        return word(Phase(self.loop.state.phase.item(row)), self.job(row))

    def holds(self, row: int) -> list[str]:
        """Kinds of what holds a job."""
        return sorted(self.job(row).holds)

    def orders(self, node: str) -> dict[tuple[int, int], Part]:
        """What a node is told to do, by job and attempt."""
        return {(part.row, part.attempt): part for part in self.directives.since(node, 0)}

    def wanted(self, node: str, row: int, number: int) -> Wanted | None:
        """What a node is told to do with an attempt."""
        part = self.orders(node).get((row, number))
        return None if part is None else part.wanted

    def free(self) -> list[int]:
        """Devices that could be granted."""
        occupancy = self.loop.state.occupancy
        return [d for d in range(self.cluster.gpus) if not occupancy.claimed[d] and d not in occupancy.down]

    def events(self, kind: str) -> list[str]:
        """Texts of the audit."""
        return [text for news in self.news for _, k, _, text in news.events if k == kind]

    def causes(self) -> Cause:
        """What the policy was last woken by."""
        return Cause(self.policy.seen[-1].cause)


def _info(name: str, gpus: int, kind: str) -> NodeInfo:
    return NodeInfo(
        name=name,
        address=f"10.0.0.{name[-1]}",
        cpus=8,
        memory_gib=64,
        boot_id="b",
        devices=[DeviceInfo(index=i, type=kind) for i in range(gpus)],
        kind=kind,
    )


def suspended_by_its_owner(stage: Stage) -> int:
    """A job that ran on the first device, until its owner wanted it suspended and it was."""
    row = stage.submit()
    stage.start(row, 0)
    stage.run(row, capability=SUSPENDS)
    stage.ask("suspend", row)
    stage.tell("n0", stage.report(row, PartStatus.SUSPENDED))
    return row


def suspended_by_its_policy(stage: Stage) -> int:
    """A job that ran on the first device, until the policy took it away and it was suspended."""
    row = stage.submit()
    stage.start(row, 0)
    stage.run(row, capability=SUSPENDS)
    stage.decide(preempt=[row])
    stage.tell("n0", stage.report(row, PartStatus.SUSPENDED))
    return row
