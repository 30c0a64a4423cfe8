"""Makes the controller's report of a part from what is known of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from rota.engines.rota.idling import IdleClock
from rota.engines.rota.live import Live
from rota.engines.rota.mechanisms import Mechanisms
from rota.engines.rota.operations import Done, Operation, Transition
from rota.engines.rota.relay import READY
from rota.engines.rota.usage import Used
from rota.engines.shared.steady import unix_s
from rota.wire.sync import Capability, Cost, Exit, Part, PartStatus, Report, Usage

QUIET_S = 30.0
"""Seconds after which usage is reported even if it has hardly changed."""
IDLE_NEWS_S = 1.0
"""Shortest idle time that is reported."""


@dataclass
class PartMemo:
    """What the agent remembers of one part in addition to its folder."""

    started_s: float | None = None
    """Unix time at which this agent began to start the part."""
    stopping_s: float | None = None
    """Unix time at which the part was ordered to stop."""
    parked: bool = False
    """The part was suspended when it was ordered to leave."""
    told: tuple[str, int] = ("", -1)
    """Controller and version of the last order that was carried out."""
    since_s: float = field(default_factory=unix_s)
    batch_size: float | None = None
    """Batch size that the program was last ordered to use."""
    signalled: bool = False
    """The part got SIGTERM although that could not be recorded."""
    trouble: str = ""
    """Why the last action on the part failed."""
    usage: Usage | None = None
    idle: IdleClock = field(default_factory=IdleClock)
    capability: Capability | None = None
    froze_early: bool = False
    """The part was suspended before its first step, so that its measured start includes the suspension."""
    costs: dict[str, Cost] = field(default_factory=dict)

    def cost(self, kind: str, seconds: float, moved: float = 0.0) -> None:
        """Store a duration that this agent measured."""
        self.costs[kind] = Cost(kind=kind, seconds=round(max(0.0, seconds), 6), bytes=moved)

    def note(self, done: Done) -> None:
        """Store the result of an operation."""
        self.trouble = done.problem
        if not done.problem:
            self.cost(done.kind, done.seconds, done.bytes)

    def use(
        self, used: Used, gpu: tuple[float, float] | None, now_s: float, idle_s: float | None = None
    ) -> None:
        """Store a measurement of what the part uses and of its idle time, if it is news."""
        new = Usage(
            at_s=now_s,
            cpu_cores=round(used.cpu_cores, 3),
            memory_gib=round(used.memory_gib, 4),
            gpu_utilisation=None if gpu is None else round(gpu[0], 3),
            gpu_memory_gib=None if gpu is None else round(gpu[1], 3),
            idle_s=None if idle_s is None else round(idle_s, 3),
        )
        if self.usage is None or _differs(self.usage, new):
            self.usage = new

    def measure(self, live: Live) -> None:
        """Compute durations that follow from what is known now."""
        if self.started_s is not None and live.started_s is not None and "start" not in self.costs:
            self.cost("start", live.started_s - self.started_s)
        if self.stopping_s is not None and live.end is not None and "stop" not in self.costs:
            self.cost("stop", live.end.ended_s - self.stopping_s)


def status_of(live: Live, operation: Operation | None) -> PartStatus:
    """Status for the controller."""
    if operation is not None and not live.gone:
        if operation.kind is Transition.LEAVE:
            return PartStatus.LEAVING
        if operation.kind is Transition.RESUME and live.suspended is not None:
            return PartStatus.SUSPENDED
    return live.status


def report_of(live: Live, memo: PartMemo, mechanisms: Mechanisms, waiting: str, trouble: str) -> Report:
    """Full report of a part that has started; `trouble` is what the agent cannot do for it."""
    operation = mechanisms.operations.get(live.key)
    relay = mechanisms.relay(live)
    costs = {cost.kind: cost for cost in relay.costs()}
    if live.suspended is not None and READY not in costs:
        memo.froze_early = True
    if memo.froze_early:
        costs.pop(READY, None)
    costs |= memo.costs
    return Report(
        row=live.row,
        submit_s=live.part.submit_s,
        attempt=live.attempt,
        status=status_of(live, operation),
        since_s=live.since_s,
        started_s=live.started_s,
        port=live.port,
        pids=live.pids,
        end=live.end,
        why=live.why or waiting or memo.trouble or trouble or relay.trouble,
        suspended_gib=round(mechanisms.suspended_gib.get(live.key, 0.0), 4),
        progress=relay.progress(),
        capability=memo.capability,
        usage=memo.usage,
        costs=[costs[kind] for kind in sorted(costs)],
    )


def bare_report(live: Live, trouble: str) -> Report:
    """Report with what this agent itself knows of a part, when the rest cannot be found out."""
    return Report(
        row=live.row,
        submit_s=live.part.submit_s,
        attempt=live.attempt,
        status=live.status,
        since_s=live.since_s,
        started_s=live.started_s,
        pids=live.pids,
        end=live.end,
        why=trouble,
    )


def waiting_report(part: Part, memo: PartMemo, why: str, status: PartStatus = PartStatus.WAITING) -> Report:
    """Report of a part that has not started."""
    return Report(
        row=part.row,
        submit_s=part.submit_s,
        attempt=part.attempt,
        status=status,
        since_s=memo.since_s,
        why=why,
    )


def unbegun_report(part: Part, status: PartStatus, why: str, clock: Callable[[], float] = unix_s) -> Report:
    """Report of a part that never will start: refused (lost) or withdrawn (ended)."""
    end = Exit(ended_s=clock(), error=why, infrastructure=True)
    return Report(
        row=part.row,
        submit_s=part.submit_s,
        attempt=part.attempt,
        status=status,
        since_s=end.ended_s,
        end=end,
        why=why,
    )


def _differs(old: Usage, new: Usage) -> bool:
    """Whether a new measurement of a part's usage should be reported."""
    return (
        new.at_s - old.at_s >= QUIET_S
        or abs(new.cpu_cores - old.cpu_cores) > 0.1
        or abs(new.memory_gib - old.memory_gib) > 0.02 + 0.05 * old.memory_gib
        or abs((new.gpu_utilisation or 0.0) - (old.gpu_utilisation or 0.0)) > 0.1
        or abs((new.gpu_memory_gib or 0.0) - (old.gpu_memory_gib or 0.0)) > 0.5
        or _is_idle_news(old.idle_s, new.idle_s)
    )


def _is_idle_news(old_s: float | None, new_s: float | None) -> bool:
    """Whether a part is active again after more than a moment, or idle for twice as long as last reported."""
    if old_s is None or new_s is None:
        return old_s is not new_s
    return new_s < old_s or new_s >= 2.0 * max(old_s, IDLE_NEWS_S)
