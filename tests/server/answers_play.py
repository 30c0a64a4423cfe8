"""A site whose scheduler can be asked why: the policy's process and the one that looks ahead, in this one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from site_play import EPOCH_S, LocalHost, Site

from rota.errors import InputError, RotaError
from rota.model.growing import GrowingTable
from rota.model.tenants import Tenants
from rota.scheduler.decision import Decision, Memory
from rota.scheduler.moments.replica import TracedState
from rota.scheduler.policy import parse_policy
from rota.scheduler.snapshot import Snapshot
from rota.server.answers.dry_run import NEW, dry_run
from rota.server.answers.why import Asking
from rota.server.answers.worker import Forecaster
from rota.server.policy.messages import (
    Explain,
    Freeze,
    GuaranteedRunners,
    WhyAnswer,
    unpack_constraint,
    unpack_plan,
    unseal,
)
from rota.server.policy.process import PolicyChild
from rota.server.policy.provider_messages import KnowledgeHeard
from rota.server.store.new_jobs import asked
from rota.server.store.rows import JobRow, JobState
from rota.server.tenants.layout import NodeLayout
from rota.wire.job import JobSpec
from rota.wire.views import DryRun
from rota.wire.views import Why as WhyView


class ExplainingHost(LocalHost):
    """Explains and freezes with the code of the policy's process, on the scheduler's own table."""

    is_away = False

    def __init__(
        self, state: TracedState, table: GrowingTable, spec: str, memory: bytes | None, seed: int
    ) -> None:
        super().__init__(state, table, spec, memory, seed)
        self.shadow = None
        child = self.child = PolicyChild()
        child.is_in_step, child.spec, child.seed = True, parse_policy(spec), seed
        child.replica = SimpleNamespace(state=state)  # type: ignore[assignment]
        child.told, child.displaced, child.sealed = KnowledgeHeard(), {}, memory
        child._new_policy()

    def decide(self, snapshot: Snapshot, memory: Memory) -> Decision:
        decision = super().decide(snapshot, memory)
        child = self.child
        child.told.known = dict(snapshot._known)
        child.last, child.sealed = decision, decision.memory["sealed"]
        child.policy = self.policy
        child.memory = decision.memory
        child._note_displaced(snapshot, decision)
        return decision

    def explain(self, rows: list[int], timeout_s: float = 2.0) -> dict[int, WhyAnswer]:
        reply = self.child.answer(Explain([], rows))
        if "error" in reply:
            raise RotaError(reply["error"])
        return {
            row: WhyAnswer(
                tuple(map(unpack_constraint, why["constraints"])),
                why["position"],
                why["ahead"],
                unpack_plan(why["plan"]),
            )
            for row, why in reply["rows"].items()
        }

    def standing(self) -> frozenset[int] | None:
        rows = self.child.answer(GuaranteedRunners([]))["guaranteed"]
        return None if rows is None else frozenset(rows)

    def freeze(self, timeout_s: float = 10.0) -> bytes:
        self.child.memory = unseal(self.child.sealed)
        frozen: bytes = self.child.freeze(Freeze([]))["frozen"]
        return frozen


class HereEstimator:
    """Looks ahead in this process."""

    def __init__(self) -> None:
        self.forecaster = Forecaster()

    def ask(self, question: object, budget_s: float) -> dict[str, Any]:
        reply = self.forecaster.answer(question)
        if "error" in reply:
            raise (InputError if reply["is_input"] else RotaError)(reply["error"])
        return reply


class AskedSite(Site):
    """Jobs are submitted, time passes, and people ask."""

    def begin(self) -> None:
        super().begin()
        self.scheduler.make_host = ExplainingHost  # type: ignore[assignment]
        self.estimator: Any = HereEstimator()

    def with_tenants(self, tenants: Tenants, layout: NodeLayout | None = None) -> None:
        """Before the first turn."""
        settings = replace(self.scheduler.settings, tenants=tenants, layout=layout or NodeLayout())
        self.scheduler.settings = settings

    def until(self, row: int, *states: str) -> None:
        """Turn until the job is in one of `states`."""
        for _ in range(200):
            job = self.store.job(row)
            if job is not None and job.now.state in states and self.scheduler.loop is not None:
                return
            self.turn()
        raise AssertionError(f"job {row + 1} is not {states} but {self.store.job(row)}")

    def why(self, row: int) -> WhyView:
        job = self.store.job(row)
        assert job is not None
        return Asking(self.scheduler, self.store, self.estimator, job).answer()

    def sentences(self, row: int) -> list[str]:
        """What `rota why` says."""
        return [reason.sentence for reason in self.why(row).reasons]

    def dry_run(self, **spec: Any) -> DryRun:
        full = JobSpec(command=["work"], **spec)
        wants = asked(full, "u", "t", EPOCH_S)
        row = JobRow(-1, NEW, "u", self.time.now, None, None, 0, wants, JobState())
        return dry_run(self.scheduler, self.store, self.estimator, "u", row, full)


def site(
    folder: Path, policy: str = "fifo:skip=yes", nodes: dict[str, int] | None = None, **given: Any
) -> AskedSite:
    """A site of CPU slots; two on one node if not said."""
    folder.mkdir(parents=True, exist_ok=True)
    return AskedSite(folder, nodes or {"n1": 2}, policy, **given)
