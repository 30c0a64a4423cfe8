"""Random scenes in which much goes wrong and everything costs something, for the books of runs.

Attempts that fail, in one of several ways, lost nodes, costs of starts, stops and moves, dependencies,
groups of which one is enough; `rich` ones ask for more than whole GPUs.
"""

from __future__ import annotations

import math
import random
from typing import Any

import numpy as np

from naive_books import NaiveBooks, Rules, of_policies
from play import play
from rota.model.cluster import Cluster, NodeShape
from rota.model.grants import Can
from rota.model.job_columns import AllowedCounts, GroupRule, JobKind
from rota.model.jobs import JobTable, Outcome, Truth
from rota.model.record import Record
from rota.model.tenants import Tenant, Tenants
from rota.model.trace import Trace
from rota.worlds.simulated.costs import CostModel, Costs
from rota.worlds.simulated.faults import Fault
from rota.worlds.simulated.limits import TimeLimits
from rota.worlds.simulated.retries import parse_retries
from rota.worlds.simulated.run import Setting

WORKLOADS = ("bert", "lstm")
OWNERS = ("a", "a/x", "b/y", "b/z")
SIGNATURES = ("", "no signature", "syntax error", "incorrect inputs", "GPU ECC error", "MPI runtime failure")


class BookScene:
    """A trace, a cluster and what a run is told; `rich` ones ask for more than whole GPUs."""

    def __init__(self, seed: int, *, rich: bool) -> None:
        self.draw = draw = random.Random(f"{seed} {rich}")
        self.rich = rich
        self.sizes = [draw.choice([1, 2, 4])] * draw.randint(1, 4)
        self.kinds = sorted(draw.randrange(2) for _ in self.sizes) if rich and draw.random() < 0.4 else []
        self.count = draw.randint(3, 14)
        self.shares = rich and draw.random() < 0.4
        self.cluster = self._cluster()
        self.trace = self._trace()
        self.faults = self._faults()
        self.costs = self._costs()
        self.retries = draw.choice(["", "", "0", "1", "3", "adaptive", "adaptive"])
        few = [
            Can.NOTHING,
            Can.SUSPEND,
            Can.CHECKPOINT,
            Can.CHECKPOINT | Can.RESIZE,
            Can.SUSPEND | Can.RESIZE,
        ]
        self.can = {name: draw.choice(few) for name in WORKLOADS} if draw.random() < 0.3 else {}
        self.limits = TimeLimits.ENFORCE if draw.random() < 0.25 else TimeLimits.IGNORE

    def play(self, policy: str) -> Record:
        """What `policy` makes of it."""
        retries = parse_retries(self.retries) if self.retries else None
        setting = Setting(
            costs=self.costs, faults=self.faults, retries=retries, can=self.can, limits=self.limits
        )
        return play(policy, self.trace, self.cluster, setting)

    def complaints(self, policy: str, record: Record) -> list[str]:
        """What is wrong with the record of a run under `policy`."""
        told = self.costs, self.faults, self.retries, self.can
        rules = Rules(*told, limits=self.limits is TimeLimits.ENFORCE, **of_policies(policy))
        return NaiveBooks(self.trace, self.cluster, record, rules).complaints()

    # -- where -------------------------------------------------------------------------------------

    def _cluster(self) -> Cluster:
        draw, limits = self.draw, dict[str, float]()
        if self.rich and draw.random() < 0.4:
            limits |= {"cpus": 4.0 * self.sizes[0], "memory_gib": 32.0 * self.sizes[0]}
        if self.rich and draw.random() < 0.3:
            limits["gpu_memory_gib"] = 16.0
        half = (len(self.sizes) + 1) // 2
        shapes = [
            NodeShape(
                1,
                size,
                f"T{self.kinds[node] if self.kinds else 0}",
                levels={"rack": f"r{int(node >= half)}", "vc": "ab"[node >= half]},
                **limits,  # type: ignore[arg-type]
            )
            for node, size in enumerate(self.sizes)
        ]
        return Cluster.build(shapes, self._tenants() if self.rich and draw.random() < 0.4 else None)

    def _tenants(self) -> Tenants:
        draw, total = self.draw, sum(self.sizes)
        by_type = {"T0": float(draw.randint(1, total))} if draw.random() < 0.5 else {}
        return Tenants.of(
            Tenant("a", float(draw.randint(1, total)), hard=True, quota_by_type=by_type),
            Tenant("b/y", float(draw.randint(1, total)), hard=draw.random() < 0.5, weight=2.0),
        )

    # -- what --------------------------------------------------------------------------------------

    def _trace(self) -> Trace:
        draw, n, total = self.draw, self.count, sum(self.sizes)
        submit_s = sorted(draw.choice([0.0, 10.0, draw.uniform(0, 200)]) for _ in range(n))
        gpus = [min(draw.choice([1, 1, 2, 3, 4, 8]), total) for _ in range(n)]
        self.firsts = firsts = draw.random() < 0.3
        columns: dict[str, Any] = {
            "tenant": [draw.randrange(len(OWNERS)) for _ in range(n)],
            "group": [draw.randrange(-1, 3) for _ in range(n)],
            "group_rule": [int(firsts and draw.random() < 0.5) * int(GroupRule.FIRST) for _ in range(n)],
            "workload": [draw.randrange(2) for _ in range(n)],
            "priority": [draw.randrange(3) for _ in range(n)],
            "limit_s": [draw.uniform(10, 200) for _ in range(n)],
            "deadline_s": [draw.choice([math.nan, math.nan, draw.uniform(50, 900)]) for _ in range(n)],
        }
        if self.rich:
            columns |= self._rich(gpus)
        table = JobTable.build(
            [f"j{row}" for row in range(n)],
            submit_s=submit_s,
            gpus=columns.pop("gpus", gpus),
            tenant_names=OWNERS,
            group_names=("g0", "g1", "g2"),
            workload_names=WORKLOADS,
            type_names=tuple(f"T{kind}" for kind in sorted(set(self.kinds)))
            if len(set(self.kinds)) > 1
            else (),
            after=self._after(n),
            **columns,
        )
        return Trace(table, self._truth(n), source="test", format="test")

    def _rich(self, gpus: list[int]) -> dict[str, Any]:
        draw, columns, total = self.draw, dict[str, Any](), sum(self.sizes)
        if draw.random() < 0.3:
            gpus = [0 if draw.random() < 0.2 else one for one in gpus]
        columns["gpus"] = gpus
        if self.shares:
            columns["gpu_share"] = [draw.choice([0.25, 0.5, 1.0]) if one else 1.0 for one in gpus]
        if draw.random() < 0.5:
            columns["cpus"] = [draw.choice([0.0, 2.0, 4.0]) * max(one, 1) for one in gpus]
            columns["memory_gib"] = [draw.choice([0.0, 8.0, 32.0]) * max(one, 1) for one in gpus]
        if draw.random() < 0.5:
            columns["gpu_memory_gib"] = [draw.choice([0.0, 4.0, 10.0]) if one else 0.0 for one in gpus]
        if len(set(self.kinds)) > 1:
            columns["gpu_types"] = [draw.randrange(4) for _ in gpus]
        if draw.random() < 0.6 and not self.shares:
            stretch = [draw.random() < 0.5 and one > 0 for one in gpus]
            columns["gpus_min"] = [
                max(one // 2, 1) if s else one for one, s in zip(gpus, stretch, strict=True)
            ]
            columns["gpus_max"] = [
                max(min(2 * one, total), one) if s else one for one, s in zip(gpus, stretch, strict=True)
            ]
            columns["counts"] = [draw.choice([AllowedCounts.ANY, AllowedCounts.POWERS_OF_TWO]) for _ in gpus]
        if draw.random() < 0.3:
            columns["gang"] = [draw.random() < 0.7 for _ in gpus]
        if draw.random() < 0.3:
            columns["kind"] = [draw.choice([JobKind.TRAIN, JobKind.OPPORTUNISTIC]) for _ in gpus]
        return columns

    def _after(self, n: int) -> dict[int, tuple[int, ...]]:
        draw = self.draw
        if draw.random() < 0.6:
            return {}
        return {row: (draw.randrange(row), draw.randrange(row)) for row in range(1, n) if draw.random() < 0.3}

    def _truth(self, n: int) -> Truth:
        draw = self.draw
        runs = [
            draw.choice([0.0, 1.0, 10.0, 30.0, draw.expovariate(1 / 60), draw.uniform(100, 900)])
            for _ in range(n)
        ]
        fails = {
            row: tuple(draw.choice([1.0, 5.0, draw.uniform(0.5, 40)]) for _ in range(draw.randint(1, 3)))
            for row in range(n)
            if draw.random() < 0.4
        }
        names = {
            row: tuple(draw.choice(SIGNATURES) for _ in range(len(attempts) + 1))
            for row, attempts in fails.items()
            if draw.random() < 0.8
        }
        ways = [Outcome.COMPLETED] * 4 + [
            Outcome.FAILED,
            Outcome.COMPLETED if self.firsts else Outcome.CANCELLED,
        ]
        outcome = [draw.choice(ways) for _ in range(n)]
        held_s = [draw.choice([math.nan, math.nan, 0.0, draw.uniform(1, 100)]) for _ in range(n)]
        return Truth.build(runs, outcome=np.array(outcome), held_s=held_s, failures=fails, signatures=names)

    # -- what goes wrong, and what it costs --------------------------------------------------------

    def _faults(self) -> list[Fault]:
        draw, faults = self.draw, list[Fault]()
        for _ in range(draw.choice([0, 1, 3, 6])):
            at_s = draw.choice([0.0, 10.0, draw.uniform(0, 600)])
            faults.append(
                Fault(draw.randrange(len(self.sizes)), at_s, at_s + draw.choice([1.0, draw.uniform(5, 200)]))
            )
        return faults

    def _costs(self) -> Costs:
        draw = self.draw
        if draw.random() < 0.2:
            return Costs()

        def some() -> CostModel:
            if draw.random() < 0.4:
                return CostModel()
            return CostModel(
                draw.choice([0.0, 2.0, 3.5]),
                draw.choice([0.0, 0.5]),
                {"bert": 4.0} if draw.random() < 0.3 else {},
                {2: 5.0, 4: 1.0} if draw.random() < 0.3 else {},
            )

        return Costs(
            start=some(),
            checkpoint=some(),
            restore=some(),
            migrate=some(),
            switch=some() if not self.shares else CostModel(),
            resize=draw.choice([None, some()]),
            preempt=draw.choice([CostModel(), CostModel(), some()]),
            checkpoint_every_s=draw.choice([0.0, 7.0, 30.0]),
        )
