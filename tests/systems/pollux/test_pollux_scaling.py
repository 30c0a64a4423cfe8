"""How many nodes Pollux wants: utility by worked examples, the search for a number, and whole runs."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from play import finishes, play, trace_of
from rota.errors import InputError
from rota.knowledge.goodput import BatchLimits, GoodputProfile, GoodputTable, Noise, StepFit, TrainingPhase
from rota.model.cluster import parse_cluster
from rota.model.record import Record
from rota.scheduler.policy import Lever, levers_of, parse_policy
from rota.systems.pollux.parameters import PolluxParameters
from rota.systems.pollux.scaling import closest, utility
from rota.systems.pollux.speedups import Models, Speedups
from rota.worlds.simulated.autoscale import Autoscale
from rota.worlds.simulated.costs import parse_costs
from rota.worlds.simulated.run import Setting
from rota.worlds.simulated.speed_goodput import GoodputSpeed
from tiers import examples

FIT = StepFit(0.05, 0.002, 0.10, 0.01, 0.03, 0.002, 2.0)
LIMITS = BatchLimits(64, 2048, 16, 128, accumulates=True)
CLUSTER = parse_cluster("8x4")


def models(fits: list[StepFit | None]) -> Models:
    rows = np.arange(len(fits))
    known = np.array([[math.nan] * 7 if fit is None else list(fit) for fit in fits])
    limits = np.tile([64.0, 2048.0, 16.0, 128.0, 1.0], (len(fits), 1))
    noises, most = np.full(len(fits), 256.0), np.full(len(fits), math.inf)
    return Models(rows, known, limits, noises, most, np.ones(len(fits), dtype=np.int64))


def test_utility() -> None:
    """Card's goodputs 359.55, 591.54, 917.28 and 894.35 on 1, 2, 4 and 8 GPUs: speedups 1.645, 2.551, 2.487.

    A on 4 GPUs of one node and B on 8 of two: (2.551 + 2.487) / 16 GPUs; of C nothing is known: 3 on 3.
    """
    alone = Speedups(PolluxParameters(), 4, 16).alone(models([FIT, FIT, None]))
    assert alone[0, 0, [0, 1, 2, 4]] == pytest.approx([0.0, 1.0, 1.6452, 2.5512], abs=1e-3)
    assert alone[1, 1, 8] == pytest.approx(2.4874, abs=1e-3)
    assert alone[2, 0, 3] == 3.0
    sizes = np.array([0, 1, 0]), np.array([4, 8, 0])
    assert utility(sizes, alone, 16) == pytest.approx((2.5512 + 2.4874) / 16, abs=1e-3)


@examples(50)
@given(
    steps=st.lists(st.floats(0.001, 0.2), min_size=32, max_size=32),
    aim=st.floats(0.1, 1.0),
    nodes=st.integers(1, 16),
    shrinks=st.booleans(),
)
def test_the_closest_is_found_by_halving(steps: list[float], aim: float, nodes: int, shrinks: bool) -> None:
    """As good as the best of all numbers, of utilities that fall as nodes are added."""
    falling = 1.2 - np.cumsum(steps)
    asked: list[int] = []

    def best(count: int) -> float:
        asked.append(count)
        return float(falling[count - 1])

    found = closest(best, aim, nodes, 2 * nodes, shrinks=shrinks)
    counts = range(1, nodes + 1) if shrinks else range(nodes, 2 * nodes + 1)
    assert found in counts
    assert abs(falling[found - 1] - aim) == min(abs(falling[count - 1] - aim) for count in counts)
    assert len(asked) <= 7


def test_who_gains_by_every_node_gets_them() -> None:
    """Jobs that nobody has seen are as fast on any number: the cluster doubles, and never stays for that."""
    assert closest(lambda nodes: 1.0, 0.5, 4, 8, shrinks=False) == 8


# -- runs ------------------------------------------------------------------------------------------

PROFILE = GoodputProfile(
    LIMITS, {"*": FIT}, (TrainingPhase(60_000.0, Noise(1.0, 4.0)), TrainingPhase(math.inf, Noise(1.0, 60.0)))
)
JOBS = "A 1x4000 B 1x3000@30 C 1x1500@60 D 1x1500@90 E 1x900@120 F 1x900@150 G 1x600@9000"


def run(policy: str, limits: Autoscale | None, knowledge: str = "oracle") -> Record:
    trace = trace_of(JOBS, gpus_min=1, gpus_max=16, workload=0, workload_names=("w",))
    setting = Setting(
        speed=GoodputSpeed(trace, CLUSTER, GoodputTable({"w": PROFILE})),
        costs=parse_costs("start=30s,restore=30s"),
        knowledge={"goodput": knowledge},
        autoscale=limits,
    )
    return play(policy, trace, CLUSTER, setting)


def gpu_hours(record: Record) -> float:
    steps = record.cluster["paid_nodes"]
    ends = [*(at_s for at_s, _ in steps[1:]), max(finishes(record).values())]  # type: ignore[index]
    return sum(4 * n * (end - at_s) for (at_s, n), end in zip(steps, ends, strict=True)) / 3600.0  # type: ignore[call-overload]


@pytest.mark.parametrize("knowledge", ["oracle", "measured"])
def test_the_cluster_follows_the_jobs(knowledge: str) -> None:
    """It grows for six jobs, shrinks to the least between F's end and G, and stays within its limits."""
    record = run("pollux:utility=0.35/0.65", Autoscale(1, 8, 60.0), knowledge)
    assert record.jobs["state"].to_list() == ["COMPLETED"] * 7
    nodes = [count for _, count in record.cluster["paid_nodes"]]  # type: ignore[attr-defined]
    assert nodes[0] == 1
    assert 3 <= max(nodes) <= 8
    assert min(nodes) >= 1
    before_g = [count for at_s, count in record.cluster["paid_nodes"] if at_s < 9000.0]  # type: ignore[attr-defined]
    assert before_g[-1] == 1
    assert gpu_hours(record) < 0.6 * 32 * max(finishes(record).values()) / 3600.0


def test_less_utility_is_more_nodes() -> None:
    """Who is content with less for each GPU pays for more of them, and its jobs end sooner."""
    thrifty, lavish = (
        run(f"pollux:utility={span}", Autoscale(1, 8, 60.0)) for span in ("0.6/0.9", "0.1/0.4")
    )
    assert gpu_hours(thrifty) < gpu_hours(lavish)
    assert thrifty.jobs["finish_s"].mean() > lavish.jobs["finish_s"].mean()  # type: ignore[operator]


def test_who_is_not_asked_wants_nothing() -> None:
    assert Lever.SCALE not in levers_of(parse_policy("pollux").make())
    assert Lever.SCALE in levers_of(parse_policy("pollux:utility=0.35/0.65").make())
    assert run("pollux:utility=0.35/0.65", None).cluster.get("paid_nodes") is None


@pytest.mark.parametrize("text", ["utility=0.5", "utility=0.6/0.4", "utility=0/0.5", "scale_s=0"])
def test_nonsense(text: str) -> None:
    with pytest.raises(InputError, match=text.split("=")[0]):
        parse_policy(f"pollux:{text}")
