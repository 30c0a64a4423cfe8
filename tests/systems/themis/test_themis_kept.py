"""What Themis keeps between decisions changes none of them: beside one that knows its memory alone."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from play import play, trace_of
from rota.knowledge.given import Given
from rota.knowledge.needs import Knowledge, Provenance
from rota.model.cluster import parse_cluster
from rota.model.grants import Can
from rota.model.job_columns import GroupRule
from rota.model.trace import Trace
from rota.scheduler.decision import Decision
from rota.scheduler.guard.rules import Breach
from rota.scheduler.policy import parse_policy
from rota.scheduler.snapshot import Snapshot
from rota.table.state import State
from rota.worlds.simulated.costs import CostModel, Costs
from rota.worlds.simulated.faults import Fault
from rota.worlds.simulated.run import Setting, prepare
from tiers import first

CLUSTERS = ["2x4", "1x4,1x8", "1x4:V100,2x4:K80", "3x2"]
POLICIES = ["themis", "themis:fairness=0", "themis:exact_steps=0", "themis:auction=no", "themis:groups=every"]
SCENES = first(1, [5, 100])


class Forgetful:
    """A new policy for each decision, and a copy of the memory."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.needs, self.levers = parse_policy(text).make().needs, parse_policy(text).make().levers
        self.said: list[Any] = []

    def decide(self, snapshot: Snapshot, memory: dict[str, Any]) -> Any:
        decision = parse_policy(self.text).make().decide(snapshot, copy.deepcopy(memory))
        self.said.append(told(snapshot, decision))
        return decision


class Keeping(Forgetful):
    """One policy for all of them."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.inner = parse_policy(text).make()

    def decide(self, snapshot: Snapshot, memory: dict[str, Any]) -> Any:
        decision = self.inner.decide(snapshot, memory)
        self.said.append(told(snapshot, decision))
        return decision


def told(snapshot: Snapshot, decision: Any) -> Any:
    """What it decided, what it remembers, and how apps stand if there was an auction."""
    memory = repr(decision.memory)  # in its order
    stands = None if decision.targets is None else dict(decision.targets)
    grants = [(grant.job, grant.devices, grant.share) for grant in decision.grants]
    return snapshot.now, grants, list(decision.preempt), memory, stands


def scene(seed: int) -> tuple[Trace, Setting]:
    """Up to 14 jobs: of several sizes, elastic, on parts of devices, in groups, with cores; a node fails."""
    draw = random.Random(seed)
    count = draw.randint(2, 14)
    gpus = [draw.choice([1, 1, 2, 4]) for _ in range(count)]
    runs = [draw.randint(100, 9000) for _ in range(count)]
    comes = [draw.choice([0, 0, draw.randint(0, 3000)]) for _ in range(count)]
    text = " ".join(f"j{k} {gpus[k]}x{runs[k]}@{comes[k]}" for k in range(count))
    columns: dict[str, Any] = {}
    if seed % 2:
        columns["gpus_max"] = [size * draw.choice([1, 2]) for size in gpus]
    if seed % 3 == 0:
        columns["gpu_share"] = [0.5 if size == 1 and draw.random() < 0.5 else 1.0 for size in gpus]
    if seed % 5 == 0:
        columns["cpus"] = [draw.choice([0, 4.5, 8]) for _ in gpus]
    if seed % 3 == 1:
        columns |= {"group": [k % 3 for k in range(count)], "group_names": ("a", "b", "c")}
        columns["group_rule"] = draw.choice([int(GroupRule.FIRST), int(GroupRule.ALL)])
    faults = [Fault(0, 700.0, 2500.0)] if seed % 4 == 2 else []
    costs = Costs(checkpoint=CostModel(3.0), restore=CostModel(5.0)) if seed % 7 == 3 else Costs()
    can = {"*": draw.choice([Can.ALL, Can.NOTHING])} if seed % 6 == 5 else {}
    return trace_of(text, **columns), Setting(faults=faults, costs=costs, can=can)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("scenes", SCENES)
def test_what_is_kept_is_what_would_be_made_out_anew(policy: str, scenes: int) -> None:
    for seed in range(scenes):
        trace, setting = scene(seed)
        cluster = CLUSTERS[seed % len(CLUSTERS)]
        kept, anew = Keeping(policy), Forgetful(policy)
        ours, theirs = play(kept, trace, cluster, setting), play(anew, trace, cluster, setting)
        assert kept.said == anew.said, seed
        assert ours.intervals.equals(theirs.intervals), seed


def refusing(seed: int) -> Callable[[State, Decision], list[Breach]]:
    """Rules of a world that refuses a third of what is asked of it for a while."""
    asked = 0

    def rules(state: State, decision: Decision) -> list[Breach]:
        nonlocal asked
        asked += 1
        if state.now > 1500.0:
            return []
        rows = [*decision.preempt, *(grant.job for grant in decision.grants)]
        return [Breach("world", row, "not now") for row in rows if (row + seed + asked) % 3 == 0]

    return rules


@pytest.mark.parametrize("scenes", first(1, [20, 100]))
def test_what_was_refused_is_not_taken_for_done(scenes: int) -> None:
    """Who was not stopped has a lease, who was not started has none."""
    for seed in range(scenes):
        trace, setting = scene(seed)
        said = []
        for policy in (Keeping("themis:lease_s=300"), Forgetful("themis:lease_s=300")):
            loop, _ = prepare(policy, trace, parse_cluster(CLUSTERS[seed % len(CLUSTERS)]), setting)
            loop.strict, loop.rules, loop.retry_s = False, refusing(seed), 500.0
            loop.run(4000.0)
            said.append(policy.said)
        assert said[0] == said[1], seed


@pytest.mark.parametrize("scenes", first(1, [12, 100]))
def test_who_bids_alone_and_holds_the_best_is_not_asked(scenes: int) -> None:
    """On two types, of which one may be faster: what is remembered is as after an auction."""
    spared = 0
    for seed in range(scenes):
        draw = random.Random(seed)
        count = draw.randint(3, 12)
        sizes = [draw.choice([1, 2, 4, 8]) for _ in range(count)]
        text = " ".join(
            f"j{k} {size}x{draw.randint(500, 20_000)}@{draw.randint(0, 4000)}" for k, size in enumerate(sizes)
        )
        columns: dict[str, Any] = {}
        if seed % 3:
            columns |= {"group": [k % 5 for k in range(count)], "group_names": tuple("abcde")}
            columns["group_rule"] = int(GroupRule.FIRST)
        trace = trace_of(text, **columns)
        speeds = np.array([[1.0, draw.choice([1.0, 1.0, 0.5])] for _ in range(count)])
        told = Given(Knowledge.THROUGHPUT, speeds, Provenance.USER)
        spares, asks = Keeping("themis"), Keeping("themis")
        asks.inner._bids_alone = lambda *_: False
        records = [play(one, trace, "4x8:V100,3x8:K80", Setting(providers=(told,))) for one in (spares, asks)]
        assert [said[:-1] for said in spares.said] == [said[:-1] for said in asks.said], seed
        assert records[0].intervals.equals(records[1].intervals), seed
        spared += sum(said[-1] is None for said in spares.said)
    assert spared > 10 * scenes
