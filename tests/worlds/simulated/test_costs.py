"""What a start, a stop and a move cost."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from play import jcts, play, trace_of
from rota.errors import InputError
from rota.model.grants import Grant
from rota.model.jobs import Truth
from rota.scheduler.decision import Wake
from rota.worlds.simulated.costs import CostModel, Costs, parse_costs
from rota.worlds.simulated.faults import Fault
from rota.worlds.simulated.run import Setting
from scripted import Scripted

PRICES = [
    # cost                                                          workload gpus  seconds  why
    (CostModel(), "bert", 4, 0.0, "nothing by default"),
    (CostModel(5.0), "bert", 4, 5.0, "a constant"),
    (CostModel(5.0, per_gpu_s=0.5), "bert", 4, 7.0, "and so much per GPU"),
    (CostModel(5.0, 0.5, {"bert": 20.0}), "bert", 4, 22.0, "another constant for some workloads"),
    (CostModel(5.0, 0.5, {"bert": 20.0}), "lstm", 4, 7.0, "the constant for all others"),
    (CostModel(5.0, from_gpus={2: 8.0, 8: 30.0}), "", 1, 5.0, "small jobs"),
    (CostModel(5.0, from_gpus={2: 8.0, 8: 30.0}), "", 4, 8.0, "from two GPUs on"),
    (CostModel(5.0, from_gpus={2: 8.0, 8: 30.0}), "", 8, 30.0, "from eight on"),
]


@pytest.mark.parametrize(("cost", "workload", "gpus", "seconds", "why"), PRICES, ids=[p[4] for p in PRICES])
def test_prices(cost: CostModel, workload: str, gpus: int, seconds: float, why: str) -> None:
    assert cost.of(workload, gpus) == seconds, why


def test_events_add_up_prices() -> None:
    costs = Costs(
        start=CostModel(1.0), checkpoint=CostModel(2.0), restore=CostModel(4.0), migrate=CostModel(8.0)
    )
    assert costs.first_start("", 1) == 1.0
    assert costs.resume("", 1) == 6.0
    assert costs.change("", 1, 1) == costs.change("", 1, 2) == 14.0


@pytest.mark.parametrize(
    ("costs", "free", "keeps"),
    [
        (Costs(), True, True),
        (Costs(start=CostModel(1.0)), False, True),
        (Costs(switch=CostModel(per_gpu_s=1.0)), False, True),
        (Costs(checkpoint_every_s=60.0), True, False),
        (Costs(preempt=CostModel(1.0)), True, False),
    ],
)
def test_what_costs_nothing(costs: Costs, free: bool, keeps: bool) -> None:
    assert (costs.free, costs.keep_work) == (free, keeps)


@pytest.mark.parametrize(("gpus", "seconds"), [(1, 7), (2, 30), (8, 30), (9, 60), (64, 60)])
def test_constants_by_size(gpus: int, seconds: float) -> None:
    assert parse_costs("preempt=7s|9:60s|2:30s").preempt.of("", gpus) == seconds


def test_costs_by_workload():
    start = parse_costs("start=30s+1s/gpu|bert:120s|cifar10:50s").start
    assert [start.of(name, 2) for name in ("bert", "cifar10", "other")] == [122.0, 52.0, 32.0]


def test_a_size_that_is_none_is_refused() -> None:
    with pytest.raises(InputError, match="has the part ':30s'"):
        parse_costs("preempt=7s|:30s")


def test_people_write_costs() -> None:
    costs = parse_costs("start=20s,restore=30s+1s/gpu,checkpoint_every=30m")
    assert costs == Costs(start=CostModel(20.0), restore=CostModel(30.0, 1.0), checkpoint_every_s=1800.0)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("strat=20s", "start"),
        ("start=20", "20"),
        ("start=1s+2s", "too many terms"),
        ("start=1s/gpu+2s/gpu", "too many terms"),
        ("start=1s,scatter=1/fast", "not made of factors"),
        ("start=1s,scatter=1/-2", "not made of factors"),
    ],
)
def test_costs_that_make_no_sense_are_refused(text: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        parse_costs(text)


def test_a_resize_costs_what_is_stated_for_one():
    """Another number of devices; the same number elsewhere is a migration."""
    costs = parse_costs("restore=30s,migrate=4s,resize=1s+1s/gpu")
    assert costs.change("", 1, 2) == 3.0
    assert costs.change("", 2, 2) == 34.0
    assert not costs.free
    assert not costs.overlap


@pytest.mark.parametrize(
    ("text", "prepare_s", "resize_s"),
    [
        ("resize=coddl", 15.0, 2.0),
        ("resize=elan", 20.0, 1.0),
        ("resize=elan,prepare=5s", 5.0, 1.0),
        ("resize=0s,prepare=5s", 5.0, 0.0),
    ],
)
def test_resizes_of_published_systems(text, prepare_s, resize_s):
    costs = parse_costs(text)
    assert (costs.prepare.of("", 4), costs.change("", 2, 4)) == (prepare_s, resize_s)
    assert costs.overlap


def test_starts_that_scatter():
    """Each start draws its own factor, the same in every run with the same seed."""
    costs = parse_costs("start=10s,scatter=0.5/1/3")
    assert costs.scatter == (0.5, 1.0, 3.0)
    trace = trace_of(" ".join(f"J{i} 1x1@{100 * i}" for i in range(60)))
    runs = [jcts(play("fifo", trace, "1x4", Setting(costs=costs, seed=seed))) for seed in (0, 0, 1)]
    assert runs[0] == runs[1] != runs[2]
    assert {round(jct, 6) for jct in runs[0].values()} == {6.0, 11.0, 31.0}
    assert np.mean([*runs[0].values()]) == pytest.approx(16.0, abs=3.0)


def test_a_lost_node_costs_nothing_that_was_not_done() -> None:
    """A is preempted before it has done anything, which adds a second; then its node is lost."""
    costs = parse_costs("start=3s,restore=3s,preempt=1s,checkpoint_every=30s")
    setting = Setting(costs=costs, faults=[Fault(0, 7.0, 8.0)])
    record = play("srtf", trace_of("A 1x30 B 1x2@1"), "1x1", setting)
    assert record.jobs["finish_s"].to_list() == [8 + 3 + 31, 1 + 3 + 2]
    assert record.jobs["lost_s"].to_list() == [1, 0]


STARTS = "start=10s,checkpoint=1s,restore=4s,migrate=2s"


def alone(faults: tuple[Fault, ...] = (), fails: tuple[float, ...] = (), cluster: str = "1x1") -> list[tuple]:
    """Intervals of a job of 30 s, each as begin, end and how it ended; and its overhead."""
    trace = trace_of("A 1x30")
    trace = replace(trace, truth=Truth.build([30.0], failures={0: fails} if fails else {}))
    record = play("fifo", trace, cluster, Setting(costs=parse_costs(STARTS), faults=faults))
    rows = record.intervals.select("start_s", "end_s", "end").rows()
    return [*rows, record.jobs["overhead_s"].item()]


RESTARTS = [
    # faults              fails  intervals, overhead                                        why
    ((Fault(0, 20, 25),), (), [(0, 20, "lost"), (25, 50, "finished"), 15], "10 s are done: it goes on"),
    ((Fault(0, 4, 25),), (), [(0, 4, "lost"), (25, 60, "finished"), 9], "in its start-up: another, whole"),
    ((), (5.0,), [(0, 15, "failed"), (15, 55, "finished"), 20], "it failed: it starts as it did first"),
    (
        (Fault(0, 18, 25),),
        (5.0,),
        [(0, 15, "failed"), (15, 18, "lost"), (25, 60, "finished"), 18],
        "the second attempt is lost in its start-up",
    ),
    (
        (Fault(0, 20, 25), Fault(0, 27, 40)),
        (),
        [(0, 20, "lost"), (25, 27, "lost"), (40, 65, "finished"), 17],
        "lost while it is loaded: it is loaded again, whole",
    ),
]


@pytest.mark.parametrize(("faults", "fails", "expected", "why"), RESTARTS, ids=[row[-1] for row in RESTARTS])
def test_what_an_attempt_costs(faults, fails, expected, why) -> None:
    """A start-up that is cut short is paid again whole; who has failed begins anew, and loads nothing."""
    assert alone(faults, fails) == expected, why


def test_a_move_that_falls_into_a_start_up_is_paid_whole() -> None:
    """At 4 s, 6 of the first start are left: the move costs its own 7 s, and they are forgotten."""
    policy = Scripted({"grants": [Grant(0, (0,))], "wake": Wake(4.0)}, {"grants": [Grant(0, (1,))]})
    record = play(policy, trace_of("A 1x30"), "2x1", Setting(costs=parse_costs(STARTS)))
    rows = record.intervals.select("start_s", "end_s", "end").rows()
    assert rows == [(0, 4, "migrated"), (4, 41, "finished")]
    assert record.jobs["overhead_s"].item() == 11
