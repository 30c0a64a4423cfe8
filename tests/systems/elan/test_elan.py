"""Elan: who is taken in, who grows, and which batch that takes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from play import finishes, play, starts, trace_of
from rota.errors import InputError
from rota.knowledge.goodput import BatchLimits, GoodputProfile, GoodputTable, Noise, StepFit, TrainingPhase
from rota.knowledge.scaling import ScalingCurves
from rota.model.cluster import parse_cluster
from rota.model.job_columns import AllowedCounts
from rota.model.jobs import Truth
from rota.scheduler.policy import parse_policy
from rota.worlds.simulated.costs import parse_costs
from rota.worlds.simulated.run import Setting, prepare
from rota.worlds.simulated.speed_goodput import GoodputSpeed
from rota.worlds.simulated.speed_table import ScalingSpeed

CURVES = ScalingCurves.build(
    {
        "lin": {1: 1.0, 64: 64.0},
        "con": {1: 1.0, 2: 1.6, 3: 2.0, 4: 2.2, 5: 2.25, 8: 2.4},
    }
)
NAMES = ("lin", "con")


def _trace(text, workloads, low, high):
    codes = [NAMES.index(name) for name in workloads.split()]
    trace = trace_of(text, gpus_min=low, gpus_max=high, workload=codes, workload_names=NAMES)
    return replace(trace, truth=Truth.build(np.full(len(trace), np.nan), iterations=trace.truth.duration_s))


def _sizes(policy, trace, cluster, until_s, setting=None):
    """GPUs of each job at a moment; 0 for one that waits."""
    where = parse_cluster(cluster)
    setting = setting or Setting(speed=ScalingSpeed(trace, where, CURVES))
    loop, _ = prepare(parse_policy(policy).make(), trace, where, setting)
    loop.run(until_s)
    grants = loop.state.grants
    return [len(grants[row].devices) if row in grants else 0 for row in range(loop.state.submitted)]


FIVE = "J1 1x9000 J2 1x9000 J3 4x9000@100 J4 4x1000@200 J5 1x1000@300"
EXAMPLE = [
    # until policy                sizes            why
    (50, "elan", [5, 3], "J1 gains 25 % by its fifth GPU, J2 10 % by its fourth"),
    (150, "elan", [2, 2, 4], "both make room; as static sizes of 4 they would not"),
    (250, "elan", [2, 2, 4, 0], "the least sizes of all are 10"),
    (350, "elan", [2, 2, 4, 0, 0], "nobody passes J4 by"),
    (350, "elan:backfill=yes", [2, 1, 4, 0, 1], "J5 does"),
]


@pytest.mark.parametrize(("until_s", "policy", "sizes", "why"), EXAMPLE)
def test_elastic_fifo_and_backfill(until_s, policy, sizes, why):
    """Worked example 4."""
    trace = _trace(FIVE, "lin con lin lin lin", [1, 1, 4, 4, 1], [8, 8, 4, 4, 1])
    assert _sizes(policy, trace, "1x8", until_s) == sizes, why


ALONE = [
    # curve  policy             most  GPUs  why
    ("con", "elan", 8, 4, "the fifth GPU adds 2.3 %"),
    ("con", "elan:min_gain=0", 8, 8, "any gain will do"),
    ("lin", "elan", 64, 64, "the last adds 1.6 %, as much as each of the others brings"),
]


@pytest.mark.parametrize(("curve", "policy", "most", "gpus", "why"), ALONE)
def test_a_job_alone(curve, policy, most, gpus, why):
    assert _sizes(policy, _trace("A 1x1000", curve, 1, most), "8x8", 5) == [gpus], why


def test_nobody_who_runs_is_stopped():
    """Elan takes from whoever has more than its least size, and from nobody else."""
    trace = _trace("A 1x300 B 4x50@10 C 2x50@10 D 1x10@20", "lin lin con con", [1, 4, 2, 1], [8, 4, 4, 2])
    where = parse_cluster("1x8")
    record = play("elan:min_resize_s=0", trace, where, Setting(speed=ScalingSpeed(trace, where, CURVES)))
    assert record.jobs["preemptions"].sum() == 0
    assert starts(record) == {"A": 0, "B": 10, "C": 10, "D": 20}


def test_resize_overlaps_with_training():
    """A shrinks for B at once, pauses for 1 s; when B has gone it prepares for 20 s and pauses for 1 s.

    8 x 100 s on eight GPUs; 99 s on four; then 20 s on four, 1 s of nothing, and the rest on eight.
    """
    trace = trace_of("A 8x300 B 4x100@100", gpus_min=[1, 4], gpus_max=[8, 4])
    record = play("elan:min_resize_s=0", trace, "1x8", Setting(costs=parse_costs("resize=elan")))
    done = 8 * 100 + 4 * 99 + 4 * 20
    assert finishes(record) == pytest.approx({"A": 221 + (8 * 300 - done) / 8, "B": 200})


# Worked example 1 as a profile: 0.02 + 0.002 B/N, and 0.01 + 0.004 N for more than one GPU, on one node.
CARD = GoodputProfile(
    BatchLimits(initial=256, most=2048, local_least=1, local_most=2048),
    {"*": StepFit(0.02, 0.002, 0.018, 0.004, 0.018, 0.004, 1.0)},
    (TrainingPhase(np.inf, Noise(1.0, 1e6)),),
)
GROWTHS = [
    # growth  batch_max GPUs  batch
    (1.5, np.nan, 8, np.nan),
    (2, np.nan, 16, 512),
    (4, np.nan, 16, 512),
    (8, np.nan, 32, 2048),
    (64, np.nan, 32, 2048),
    (64, 600, 16, 512),
]


@pytest.mark.parametrize(("growth", "batch_max", "gpus", "batch"), GROWTHS)
def test_hybrid_scaling(growth, batch_max, gpus, batch):
    """The batch grows as far as it has to, as far as policy, profile and job allow, and GPUs with it."""
    powers = int(AllowedCounts.POWERS_OF_TWO)
    trace = trace_of(
        "A 1x100000", gpus_max=64, counts=powers, batch_size=256.0, batch_max=batch_max,
        workload_names=("net",), workload=0,
    )  # fmt: skip
    where = parse_cluster("1x64")
    setting = Setting(speed=GoodputSpeed(trace, where, GoodputTable({"net": CARD})))
    loop, _ = prepare(parse_policy(f"elan:batch_growth={growth}").make(), trace, where, setting)
    loop.run(5.0)
    grant = loop.state.grants[0]
    assert len(grant.devices) == gpus
    assert grant.batch_size == pytest.approx(batch, nan_ok=True)


def test_a_grown_batch_stays_when_the_job_shrinks():
    """A has 32 GPUs and a batch of 2048; four of B's come, and A goes on with 2048 on 16 of 32."""
    powers = int(AllowedCounts.POWERS_OF_TWO)
    trace = trace_of(
        "A 1x100000 B 16x100@10", gpus_min=[1, 16], gpus_max=[64, 16], counts=powers, batch_size=256.0,
        workload_names=("net",), workload=0,
    )  # fmt: skip
    where = parse_cluster("1x32")
    setting = Setting(speed=GoodputSpeed(trace, where, GoodputTable({"net": CARD})))
    loop, _ = prepare(parse_policy("elan:batch_growth=8").make(), trace, where, setting)
    loop.run(20.0)
    grants = loop.state.grants
    assert {row: (len(g.devices), g.batch_size) for row, g in grants.items()} == {
        0: (16, 2048.0),
        1: (16, pytest.approx(512.0)),
    }


@pytest.mark.parametrize("text", ["batch_growth=0.5", "min_gain=-1", "min_resize_s=inf"])
def test_parameters_are_checked(text):
    with pytest.raises(InputError, match=text.split("=")[0]):
        parse_policy(f"elan:{text}")


def test_sizes_are_told():
    """GPUs of every interval are numbers that the jobs can use."""
    trace = _trace(FIVE, "lin con lin lin lin", [1, 1, 4, 4, 1], [8, 8, 4, 4, 1])
    where = parse_cluster("1x8")
    record = play("elan", trace, where, Setting(speed=ScalingSpeed(trace, where, CURVES)))
    rigid = record.intervals.filter(pl.col("job_id").is_in(["J3", "J4"]))
    assert rigid["gpus"].unique().to_list() == [4]


def test_places_are_taken_in_order():
    """A and B want the type of which there are two; B, which is larger, does not keep A from starting."""
    trace = trace_of("A 1x10 B 2x10", gpu_types=1, type_names=("H100",))
    assert starts(play("elan", trace, "1x2:H100,1x2:A")) == {"A": 0, "B": 10}
