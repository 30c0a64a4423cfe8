"""Sia: worked examples of systems/sia.md, what its naive versions get wrong, and what it says of jobs."""

from __future__ import annotations

import math

import numpy as np
import pytest

from play import finishes, jcts, trace_of
from rota.errors import InputError
from rota.knowledge.goodput import (
    BatchLimits,
    GoodputProfile,
    GoodputTable,
    Noise,
    StepFit,
    TrainingPhase,
    goodput_table,
)
from rota.knowledge.needs import Table
from rota.model.cluster import parse_cluster
from rota.scheduler.policy import parse_policy
from rota.solvers.configurations import ConfigurationOptions, assign
from rota.systems.sia.configurations import (
    Menu,
    TypeShape,
    configurations,
    power_cost,
    restart_factor,
    shapes_of,
    sizes_of,
    values,
)
from rota.systems.sia.goodputs import Goodputs, SizesByType, noise_scales
from rota.worlds.simulated.costs import parse_costs
from rota.worlds.simulated.run import Setting, run
from rota.worlds.simulated.speed_goodput import GoodputSpeed

# -- configurations --------------------------------------------------------------------------------


# nodes of a type, GPUs of each, its configurations as nodes x GPUs
@pytest.mark.parametrize(
    ("nodes", "per_node", "expected"),
    [
        (3, 4, "1x1 1x2 1x4 2x8 3x12"),
        (2, 8, "1x1 1x2 1x4 1x8 2x16"),
        (1, 1, "1x1"),
        (2, 6, "1x1 1x2 1x4 1x6 2x12"),  # 6 is no power of two, and the size of a node all the same
        (0, 4, ""),
    ],
)
def test_sizes(nodes, per_node, expected):
    """Card example 1; the naive set has 3 GPUs, or 2 nodes with 2 GPUs each."""
    found = sizes_of(TypeShape(nodes, per_node, nodes * per_node), 64)
    assert " ".join(f"{n}x{gpus}" for n, gpus in found) == expected


def test_sizes_of_the_paper():
    """16 nodes of 4 have 18, the cluster of the paper 19: 8 + 5 + 6."""
    assert len(sizes_of(TypeShape(16, 4, 64), 64)) == 18
    shapes = [TypeShape(6, 4, 24), TypeShape(2, 8, 16), TypeShape(3, 8, 24)]
    assert np.bincount(configurations(shapes, 64).kind).tolist() == [8, 5, 6]


def test_nodes_that_are_down_make_no_configuration():
    shapes = shapes_of(np.array([0, 0, 1]), np.array([4, 3, 0]), 2)
    assert shapes == [TypeShape(1, 4, 7), TypeShape(0, 0, 0)]


# -- what a restart costs --------------------------------------------------------------------------


# age s, restarts, S s, factor
@pytest.mark.parametrize(
    ("age_s", "restarts", "restart_s", "factor"),
    [
        (20, 0, 30, 1.0),
        (300, 0, 30, 0.90909),
        (3600, 5, 30, 0.95041),
        (3600, 5, 250, 0.61039),
        (100, 9, 30, 0.0),
    ],
)
def test_restart_factor(age_s, restarts, restart_s, factor):
    """Card example 2."""
    found = restart_factor(np.array([age_s]), np.array([restarts]), np.array([restart_s]))
    assert found == pytest.approx([factor], abs=5e-6)


# -- the program -----------------------------------------------------------------------------------

J1, J2, J3 = (1, 1.8, 2, 3.6), (1, 1.9, 1.2, 2.2), (1, 1.5, 3, 4)
A1, A2, B1, B2 = range(4)


def solve(rows, held=(), factor=1.0, *, naive=False, lost=1.1, power=-0.5):
    """Objective and columns chosen: types a and b with one node of 2 GPUs, columns a1 a2 b1 b2."""
    value = np.array(rows, dtype=float)
    for job, column in enumerate(held):
        keeps = value[job, column]
        value[job] *= factor
        if not naive:
            value[job, column] = keeps
    jobs, columns = value.shape
    cost = power_cost(value, power, lost)
    job, column = np.indices(value.shape)
    options = ConfigurationOptions(job.ravel(), column.ravel() // 2, 1.0 + column.ravel() % 2, cost.ravel())
    found = assign(options, jobs, np.full(2 if columns == 4 else 1, 2.0))
    chosen = [place % columns if place >= 0 else None for place in found.option.tolist()]
    return found.cost + lost * jobs, chosen


def test_three_jobs():
    """Card example 3."""
    assert solve([J1, J2, J3]) == (pytest.approx(2.02), [B1, A2, B1])
    assert solve([J1, J2]) == (pytest.approx(1.26), [B2, A2])


# r, objective, does everybody stay; the switch lies between 0.7 and 0.8
@pytest.mark.parametrize(
    ("factor", "objective", "stays"),
    [(0.5, 1.42, True), (0.7, 1.42, True), (0.8, None, False), (0.95, 1.28, False)],
)
def test_restarts_are_weighed(factor, objective, stays):
    """Card example 3: J1 holds a2 and J2 holds b2."""
    found, chosen = solve([J1, J2], [A2, B2], factor)
    assert (chosen == [A2, B2]) is stays
    if objective is not None:
        assert found == pytest.approx(objective)


def test_the_naive_factor_scales_what_a_job_has_as_well():
    """Then it swaps as early as 0.5."""
    assert solve([J1, J2], [A2, B2], 0.5, naive=True) == (pytest.approx(1.78), [B2, A2])


def test_a_second_gpu_may_be_worth_more_than_a_second_job():
    """Card example 5: not "one GPU each first", unless leaving a job out costs more than 1.25."""
    one_type = [(1, 1.8), (1, 1.8)]
    objective, chosen = solve(one_type)
    assert objective == pytest.approx(1.85)
    assert sorted(chosen, key=str) == [1, None]
    assert solve(one_type, lost=1.3)[1] == [0, 0]


def test_sums_of_goodput():
    """A power above 0 is a gain."""
    assert solve([J1, J2, J3], power=1.0)[1] == [B1, A2, B1]


# -- what configurations are worth -----------------------------------------------------------------


def test_rows_are_normalised():
    """The least useful configuration of each job is worth 1, or its GPUs if it needs several."""
    menu = Menu(
        np.array([0, 0, 1, 1]),
        np.zeros(4, int),
        np.ones(4, int),
        np.array([1, 2, 4, 4]),
        np.zeros(4, dtype=bool),
    )
    found = values(menu, np.array([1000.0, 1500.0, 0.0, 7.0]), np.array([1, 4]))
    assert found.tolist() == [1.0, 1.5, 0.0, 4.0]


FIT = StepFit(0.05, 0.002, 0.10, 0.01, 0.03, 0.002, 2.0)
LIMITS = BatchLimits(64, 2048, 16, 128, accumulates=True)
PROFILE = GoodputProfile(LIMITS, {"a": FIT}, (TrainingPhase(math.inf, Noise(1.0, 4.0)),))
SHAPES = [TypeShape(3, 4, 12), TypeShape(2, 8, 16)]


def _table(alone: list[float] | None = None, profile: GoodputProfile = PROFILE) -> Table:
    told = goodput_table([profile], np.array([0]), ["a", "b"])
    more = {} if alone is None else {"alone": np.array([alone])}
    return Table(told.by_row, {**told.shared, **more})


def _menu(*rows: tuple[int, int]) -> Menu:
    """Of one job, from (type, GPUs)."""
    kind, gpus = np.array(rows, dtype=np.int64).T
    nodes = -(-gpus // np.array([4, 8])[kind])
    return Menu(np.zeros(len(rows), int), kind, nodes, gpus, np.zeros(len(rows), dtype=bool))


def _goodputs(table: Table, menu: Menu, batch: float = math.nan, *, alone_known: bool = True) -> list[float]:
    known = Goodputs(table, np.array([0]), np.array([0.0]), np.array([batch]))
    return known.of(menu, SHAPES, SizesByType(), alone_known=alone_known).tolist()


def test_bootstrap():
    """Card example 4: what is not measured on b is what a does, times 250 / 100."""
    menu = _menu((0, 2), (1, 2), (0, 8), (1, 8))
    a2, b2, a8, b8 = _goodputs(_table([100.0, 250.0]), menu)
    assert a2 == pytest.approx(591.537)
    assert b2 / a2 == pytest.approx(450 / 180)
    assert b8 / a8 == pytest.approx(2.5)  # both as on two nodes of 4, where it was measured
    assert _goodputs(_table(), menu)[1] == pytest.approx(a2)


def test_nothing_known():
    """The least size of each type, at what it does alone; the authors' simulator does not know that yet."""
    blank = GoodputProfile(LIMITS, {}, PROFILE.phases)
    menu = _menu((0, 1), (0, 2), (1, 1))
    assert _goodputs(_table([100.0, 250.0], blank), menu) == [100.0, 0.0, 250.0]
    assert _goodputs(_table([100.0, 250.0], blank), menu, alone_known=False) == [1.0, 0.0, 1.0]


def test_a_fixed_batch_is_split():
    """Only the speed of its steps counts: twice the GPUs halve the local batch."""
    one, two = _goodputs(_table(), _menu((0, 2), (0, 4)), batch=128.0)
    ratio = FIT.step_s(1, 2, LIMITS.split(2, 128)) / FIT.step_s(1, 4, LIMITS.split(4, 128))
    assert two / one == pytest.approx(ratio)


def test_noise_is_that_of_the_phase():
    phases = (TrainingPhase(100.0, Noise(1.0, 2.0)), TrainingPhase(math.inf, Noise(0.0, 4.0)))
    told = goodput_table([GoodputProfile(LIMITS, {"a": FIT}, phases)], np.array([0, 0, 0]), ["a"])
    found = noise_scales(told, told.by_row["class"], np.array([0.0, 99.0, 100.0]))
    assert found.tolist() == [128.0, 128.0, math.inf]


# -- runs ------------------------------------------------------------------------------------------


def _play(policy: str, jobs: str, cluster: str, costs: str = "", **columns: object):
    trace = trace_of(jobs, workload=np.zeros(jobs.count("x"), int), workload_names=("m",), **columns)
    where = parse_cluster(cluster)
    speed = GoodputSpeed(
        trace, where, GoodputTable({"m": GoodputProfile(LIMITS, {"*": FIT}, PROFILE.phases)})
    )
    return run(policy, trace, where, Setting(speed=speed, costs=parse_costs(costs)))


def test_doubles_at_most_each_round():
    """The naive version jumps from 1 GPU to 16."""
    for policy, moments in (("sia:restart_factor=no", [0.0, 60.0, 120.0]), ("sia", [0.0, 60.0, 180.0])):
        record = _play(policy, "A 1x4000", "4x4", gpus_max=[16])
        assert record.intervals["gpus"].to_list()[:3] == [1, 2, 4]
        assert record.intervals["start_s"].to_list()[:3] == moments


def test_never_two_types_nor_parts_of_two_nodes():
    record = _play(
        "sia", "A 1x3000 B 1x3000@100 C 1x3000@200 D 2x3000@300 E 1x900@800", "3x4:a,2x8:b", gpus_max=[16] * 5
    )
    cluster = parse_cluster("3x4:a,2x8:b")
    for interval in record.intervals.iter_rows(named=True):
        devices = interval["devices"]
        assert len(set(cluster.device_type[devices].tolist())) == 1
        nodes = np.unique(cluster.device_node[devices])
        assert len(nodes) == 1 or len(devices) == cluster.node_gpus[nodes].sum()


def test_rigid_jobs_choose_their_type():
    """B runs on as many GPUs as it asked for, a number that is no configuration."""
    record = _play("sia", "A 4x600 B 3x600", "2x4:a", batch_size=[64.0, 64.0])
    assert record.intervals["gpus"].to_list() == [4, 3]
    assert finishes(record) == pytest.approx({"A": 600.0, "B": 600.0})


def test_hybrid_parallel_jobs_grow_by_replicas():
    """A pipeline of 2 GPUs: 2, 4 and 8 will do, 1 will not."""
    record = _play("sia", "A 2x4000", "2x8", gpus_min=[2], gpus_max=[16], gpus_step=[2])
    assert record.intervals["gpus"].to_list()[:3] == [2, 4, 8]


PIPELINE = GoodputProfile(
    BatchLimits(48, 4800, 48, 48),
    {"a": StepFit(4.59, 0.0, 0.5, 0.0, 0.5, 0.0, 1.0), "b": StepFit(7.0, 0.0, 0.5, 0.0, 0.5, 0.0, 1.0)},
    (TrainingPhase(math.inf, Noise(1.0, 100.0)),),
    stages={"a": 4, "b": 2},
)


def _pipelines(policy: str, cluster: str, **columns: object):
    """One pipeline of 4 stages on a, of 2 on b."""
    trace = trace_of("A 4x9000", workload=[0], workload_names=("gpt",), gpus_max=[16], **columns)
    where = parse_cluster(cluster)
    speed = GoodputSpeed(trace, where, GoodputTable({"gpt": PIPELINE}))
    return run(policy, trace, where, Setting(speed=speed, costs=parse_costs("")))


@pytest.mark.parametrize(
    ("policy", "cluster", "least", "gpus"),
    [
        ("sia", "4x4:a", 2, [4, 8, 16]),  # 2 GPUs are half a replica
        ("sia", "2x8:b", 2, [2, 4, 8, 16]),
        ("sia", "1x4:a,2x8:b", 2, [4, 8, 16]),  # a replica of a does more than one of b, and then more of b
        ("sia", "1x2:a,1x8:b", 2, [2, 4, 8]),  # a has no room for a replica
        ("pollux", "4x4:a", 4, [4, 16]),
    ],
)
def test_pipelines_have_stages_by_type(policy, cluster, least, gpus):
    """Only whole replicas, of as many GPUs as the type takes; each counts as one worker."""
    record = _pipelines(policy, cluster, gpus_min=[least], gpus_step=[least])
    assert record.intervals["gpus"].to_list()[: len(gpus)] == gpus


def test_goodput_of_replicas():
    """8 GPUs of a are two replicas: 96 examples in 5.09 s; 4 of b as well, in 7.5 s."""
    table = goodput_table([PIPELINE], np.array([0]), ["a", "b"])
    replicas = [Noise(1.0, 100.0).efficiency(48 * n, 48) * 48 * n / s for n, s in ((2, 5.09), (2, 7.5))]
    assert _goodputs(table, _menu((0, 8), (1, 4))) == pytest.approx(replicas)


def test_a_job_that_restores_is_left_alone():
    """Restores take longer than a round; the young job would grow in each of them."""
    record = _play("sia", "A 1x4000", "4x4", "start=150s,restore=150s", gpus_max=[16])
    assert record.intervals["start_s"].to_list()[:2] == [0.0, 180.0]


def test_restarts_are_rarer_with_the_factor():
    jobs = " ".join(f"J{i} 1x{800 + 200 * (i % 5)}@{i * 90}" for i in range(12))
    moves = {
        policy: len(_play(policy, jobs, "2x4:a,1x8:b", "start=45s,restore=45s", gpus_max=[8] * 12).intervals)
        for policy in ("sia", "sia:restart_factor=no")
    }
    assert moves["sia"] < moves["sia:restart_factor=no"]


def test_large_jobs_push_small_ones_aside():
    """Two nodes of 4: when C may have a whole node, the two others are put together on one."""
    record = _play("sia", "A 2x4000 B 2x4000@10 C 4x600@20", "2x4", batch_size=[64.0] * 3)
    held = {row["job_id"]: len(row["devices"]) for row in record.intervals.iter_rows(named=True)}
    assert held == {"A": 2, "B": 2, "C": 4}
    assert jcts(record)["C"] == pytest.approx(640.0)


# -- what is refused -------------------------------------------------------------------------------


@pytest.mark.parametrize("option", ["power=0", "no_allocation=1", "growth=0.5", "round_s=0"])
def test_parameters_that_make_no_sense(option):
    with pytest.raises(InputError, match="expected"):
        parse_policy(f"sia:{option}").make()
