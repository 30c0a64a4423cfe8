"""Quanta: what is kept between decisions is what looking at all running jobs anew would show."""

from __future__ import annotations

import random
from collections.abc import Collection, Sequence

import numpy as np
import pytest

from play import play
from rota.model.grants import Grant
from rota.scheduler.decision import Decision, Memory
from rota.scheduler.snapshot import Snapshot
from rota.stages.levels import ServiceMetric
from rota.systems.las.quanta import Quanta
from rota.systems.las.system import Las, LasParameters
from rota.table.compiled import is_compiled

NEARLY = 1e-6


class Swept(Quanta):
    """Compares each answer with one from the service of all running jobs."""

    def __init__(self, quantum: float, *, by_gpus: bool) -> None:
        super().__init__(quantum, by_gpus=by_gpus)
        self.asked = 0
        self.compared = 0
        self.known: dict[int, tuple[int, float]] = {}
        """Key of each running row when it was last looked at, and since when it ran."""

    def update(self, snapshot: Snapshot) -> list[int]:
        """Rows that are not named have as many quanta as when they were last looked at."""
        due = super().update(snapshot)
        known = {row: whole for row, whole in self.known.items() if row not in due}
        now = {row: self.key(snapshot, row) for row in snapshot.running.tolist()}
        began = {row: snapshot.by_row.since_s.item(row) for row in now}
        for row, (whole, since_s) in known.items():
            if row in now and began[row] == since_s:
                assert now[row] == whole, f"row {row} at {snapshot.now}"
                self.compared += 1
        self.known = {row: (whole, began[row]) for row, whole in now.items()}
        return due

    def delay_s(
        self, snapshot: Snapshot, least: float, grants: Sequence[Grant], out: Collection[int]
    ) -> float:
        found = super().delay_s(snapshot, least, grants, out)
        self.asked += 1
        stays = [row for row in snapshot.running.tolist() if row not in out]
        rows = np.array([*stays, *(grant.job for grant in grants)], dtype=np.int64)
        gpus = np.array(
            [snapshot.by_row.service_rate.item(row) for row in stays]
            + [len(grant.devices) * grant.share for grant in grants]
        )
        jobs = snapshot.jobs
        served = jobs.service_gpu_s(rows) if self.by_gpus else jobs.ran_s(rows)
        whole = np.maximum(np.floor(served / self.quantum + NEARLY), least) + 1.0
        left = whole * self.quantum - served
        delays = left / gpus if self.by_gpus else left
        assert found == delays.min(initial=np.inf), f"at {snapshot.now}"
        return found


class Watched(Las):
    """LAS with such quanta."""

    def __init__(self, parameters: LasParameters) -> None:
        super().__init__(parameters)
        by_gpus = parameters.metric is ServiceMetric.GPU_TIME
        self.quanta: Swept = Swept(parameters.quantum, by_gpus=by_gpus)
        self.inner.order.key = self.inner.order_by_kind.key = self.inner.key = self.quanta.key
        self.inner.order.running_key = self.inner.order_by_kind.running_key = self.quanta.key


@pytest.mark.skipif(is_compiled(), reason="an interpreted class cannot inherit from a compiled one")
@pytest.mark.parametrize("metric", list(ServiceMetric))
@pytest.mark.parametrize("quantum", [3.0, 12.0, 100.0])
def test_nothing_is_missed(metric: ServiceMetric, quantum: float) -> None:
    """Random jobs on 8 GPUs, to the last bit; quanta from that of a short job to more than most have."""
    asked = compared = 0
    for seed in range(3):
        rng = random.Random(seed)
        submit, jobs = 0.0, []
        for i in range(25):
            jobs.append(f"J{i} {rng.choice([1, 1, 2, 4, 8])}x{rng.uniform(1, 60):.3f}@{submit:.3f}")
            submit += rng.choice([0.0, rng.uniform(0, 20)])
        policy = Watched(LasParameters(quantum=quantum, metric=metric))
        play(policy, " ".join(jobs), "2x4")
        asked, compared = asked + policy.quanta.asked, compared + policy.quanta.compared
    assert asked > 20
    assert compared > 20


@pytest.mark.parametrize("limit", [0.0, 5.0])
def test_quanta_without_jobs(limit: float) -> None:
    """Nobody runs: nobody will have received more."""
    seen = []

    class Asks:
        needs = frozenset[object]()

        def decide(self, snapshot: Snapshot, memory: Memory) -> Decision:
            quanta = Quanta(10.0, by_gpus=True)
            seen.append((quanta.update(snapshot), quanta.delay_s(snapshot, limit, (), ())))
            return Decision(memory, reject=dict.fromkeys(snapshot.waiting.tolist(), "no"))

    play(Asks(), "A 1x10")
    assert seen[0] == ([], float("inf"))
