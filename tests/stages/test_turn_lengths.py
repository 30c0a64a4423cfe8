"""Turns that bring nothing grow: jobs come to their ends whatever a start costs, or a stop undoes."""

from __future__ import annotations

import random

import pytest

from book_scenes import BookScene
from play import play
from rota.model.cluster import Cluster, NodeShape
from rota.model.grants import Can
from rota.model.jobs import JobTable, Truth
from rota.model.trace import Trace
from rota.scheduler.decision import Decision, Memory
from rota.scheduler.policy import parse_policy
from rota.scheduler.snapshot import Snapshot
from rota.worlds.simulated import headway
from rota.worlds.simulated.costs import CostModel, Costs
from rota.worlds.simulated.retries import parse_retries
from rota.worlds.simulated.run import WATCH_EVERY, Setting
from rota.worlds.simulated.run import run as play_run
from tiers import each_seed

TURNS = {
    "gandiva": 60.0,
    "gandiva_fair": 60.0,
    "gavel": 360.0,
    "gavel:pairs=yes": 360.0,
    "las": 3600.0,
    "las:quantum=600,metric=time": 600.0,
    "las:every=60": 60.0,
}
"""Policies whose jobs take turns, and how long one is."""
TROUBLES = ("restore", "switch", "preempt", "nothing")


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that gets nowhere is given up after the fewest events that are looked at."""
    monkeypatch.setattr(headway, "MOST_WITHOUT", 2 * WATCH_EVERY)


class Trouble:
    """A small cluster, jobs of up to a dozen turns, and costs of up to several turns, or losses at stops."""

    def __init__(self, kind: str, seed: int, turn_s: float) -> None:
        draw = random.Random(f"{kind} {seed}")
        sizes = [draw.choice([1, 2, 4])] * draw.randint(1, 2)
        self.cluster = Cluster.build([NodeShape(1, size, "T0") for size in sizes])
        jobs = draw.randint(2, 7)
        table = JobTable.build(
            [f"j{row}" for row in range(jobs)],
            submit_s=sorted(draw.choice([0.0, draw.uniform(0.0, 3.0 * turn_s)]) for _ in range(jobs)),
            gpus=[min(draw.choice([1, 1, 2, 4]), sum(sizes)) for _ in range(jobs)],
            tenant=[draw.randrange(2) for _ in range(jobs)],
            tenant_names=("a", "b"),
            workload=[draw.randrange(2) for _ in range(jobs)],
            workload_names=("bert", "lstm"),
        )
        truth = Truth.build([draw.uniform(0.1, 12.0) * turn_s for _ in range(jobs)])
        self.trace = Trace(table, truth, source="test", format="test")
        cost = CostModel(draw.choice([0.5, 0.9, 1.0, 1.1, 2.5]) * turn_s)
        costs = {
            "restore": Costs(restore=cost),
            "switch": Costs(start=cost, switch=cost),
            "preempt": Costs(preempt=cost),
            "nothing": Costs(),
        }
        can = {"bert": Can.NOTHING} if kind == "nothing" else {}
        self.setting = Setting(costs=costs[kind], can=can)


@each_seed(3, 9, 30, at_once=3)
@pytest.mark.parametrize("kind", TROUBLES)
@pytest.mark.parametrize("policy", TURNS)
def test_everybody_comes_to_its_end(policy: str, kind: str, seed: int) -> None:
    scene = Trouble(kind, seed, TURNS[policy])
    record = play(policy, scene.trace, scene.cluster, scene.setting)
    assert set(record.jobs["state"]) == {"COMPLETED"}


@each_seed(3, 15, 60, at_once=3)
@pytest.mark.parametrize("policy", TURNS)
def test_turns_in_which_something_is_done_stay_as_they_are(policy: str, seed: int) -> None:
    """Where stops undo little, and starts cost a tenth of a turn: failures and lost nodes do not count."""
    inner, scene, longer = parse_policy(policy).make(), BookScene(seed, rich=False), set[int]()

    class Telling:
        needs, levers = inner.needs, inner.levers

        def decide(self, snapshot: Snapshot, memory: Memory) -> Decision:
            decision = inner.decide(snapshot, memory)
            longer.update(decision.memory.get("longer", ()))
            return decision

    retries = parse_retries(scene.retries) if scene.retries else None
    setting = Setting(costs=scene.costs, faults=scene.faults, retries=retries)
    play_run(Telling(), scene.trace, scene.cluster, setting)
    assert not longer
