"""A simulated cluster whose policy decides in another process, and tools to disturb that."""

from __future__ import annotations

import os
import select
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from play import trace_of
from rota.model.cluster import parse_cluster
from rota.model.growing import GrowingTable
from rota.model.trace import Trace
from rota.scheduler.decision import Decision, Memory
from rota.scheduler.loop import Loop, Rules
from rota.scheduler.moments.frozen import packed_decision
from rota.scheduler.moments.replica import TracedState
from rota.scheduler.moments.values import digest
from rota.scheduler.policy import Policy
from rota.scheduler.snapshot import Snapshot
from rota.server.policy.host import PolicyHost
from rota.server.policy.messages import unseal
from rota.server.policy.remote import Costs, Timeouts
from rota.worlds.simulated.providers import make_providers
from rota.worlds.simulated.recorder import RunRecorder
from rota.worlds.simulated.world import SimulatedWorld

PATIENT = Timeouts(deadline_s=60.0, begin_s=60.0, retry_s=0.01)
"""For policies that decide: however busy the machine is, they are in time."""
STRICT = Timeouts(deadline_s=3.0, begin_s=60.0, retry_s=0.01)
"""For policies that never do."""


class Bench:
    """The loop over a traced table; `made` is asked for decisions, `before` is called before each."""

    def __init__(self, trace: Trace | str, cluster: str = "1x4", **columns: Any) -> None:
        given = trace_of(trace, **columns) if isinstance(trace, str) else trace
        self.table = GrowingTable(len(given) + 4)
        self.table.load(given.jobs)
        self.trace = replace(given, jobs=self.table.jobs.take(np.arange(len(given))))
        self.cluster = parse_cluster(cluster)
        self.world = SimulatedWorld(self.trace, self.cluster)
        self.state = TracedState(self.world.jobs, self.cluster, self.world.progress)
        self.decisions: list[str] = []
        self.said: list[Decision] = []
        self.moments: list[float] = []
        self.before: Callable[[int], None] = lambda number: None
        self.host: PolicyHost | None = None

    def remote(
        self,
        policy: str,
        *,
        limits: Timeouts = PATIENT,
        memory: bytes | None = None,
        costs: Costs | None = None,
        logs: Path | None = None,
    ) -> PolicyHost:
        self.host = PolicyHost(
            self.state, self.table, policy, limits=limits, memory=memory, costs=costs, log_folder=logs
        )
        return self.host

    def loop(self, policy: Policy, *, rules: Rules | None = None, **options: Any) -> Loop:
        bench = self

        class Watched:
            needs = policy.needs

            def decide(self, snapshot: Snapshot, memory: Memory) -> Decision:
                bench.state.paced |= set(
                    range(bench.state.submitted)
                )  # this world says nowhere whom it paced
                bench.before(len(bench.decisions))
                decision = policy.decide(snapshot, memory)
                left = decision.memory
                plain = unseal(left["sealed"]) if "sealed" in left else left
                bench.decisions.append(digest(packed_decision(replace(decision, memory=plain))))
                bench.said.append(decision)
                bench.moments.append(snapshot.now)
                return decision

        kinds = policy.needs
        providers = make_providers(kinds, {}, self.trace, self.cluster, None) if kinds else {}
        return Loop(
            self.world, Watched(), RunRecorder(), providers=providers, state=self.state, strict=False,
            rules=rules, **options,
        )  # fmt: skip


def kill(pid: int) -> None:
    """SIGKILL, and wait until it has happened."""
    psutil.Process(pid).kill()
    gone_or_zombie(pid)


def gone_or_zombie(pid: int, timeout_s: float = 60.0) -> None:
    """Wait until the process has ended, with all its threads; whose child it is may reap it."""
    try:
        process = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    ended, _, _ = select.select([process], [], [], timeout_s)
    os.close(process)
    assert ended, f"process {pid} did not end"
