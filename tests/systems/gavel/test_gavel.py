"""Gavel's max-min fairness: turns by throughput."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest

from play import finishes, play, trace_of
from rota.errors import RotaError
from rota.knowledge.throughput import ThroughputTable
from rota.model.cluster import parse_cluster
from rota.model.jobs import Truth
from rota.model.trace import Trace
from rota.stages.place import lowest
from rota.systems.gavel.policy import spread_evenly
from rota.systems.gavel.problem import GavelProblem
from rota.table.free import Free
from rota.worlds.simulated.run import Setting
from rota.worlds.simulated.speed_table import ThroughputSpeed

CLUSTER = parse_cluster("1x1:v100,1x1:k80")
TABLE = ThroughputTable.build(
    {
        **{("a", "v100", 1): 4.0, ("a", "k80", 1): 1.0},
        **{("b", "v100", 1): 2.0, ("b", "k80", 1): 1.0},
        **{("c", "v100", 1): 1.0, ("c", "k80", 1): 1.0},
    }
)


def _run(policy: str, workloads: str, iterations: float):
    """Equal jobs of the named workloads, alone on one V100 and one K80."""
    ids = " ".join(f"{name.upper()}{i} 1x1" for i, name in enumerate(workloads))
    codes = ["abc".index(name) for name in workloads]
    plain = trace_of(ids, workload=codes, workload_names=("a", "b", "c"))
    n = len(plain)
    trace = Trace(plain.jobs, Truth.build(np.full(n, np.nan), iterations=iterations), "test", "test")
    return play(policy, trace, CLUSTER, Setting(speed=ThroughputSpeed(trace, CLUSTER, TABLE)))


def test_long_run_throughputs_are_those_of_the_program():
    """Card example: of (4,1), (4,1), (2,1) each gets 1.842, 1.842, 1.105 iterations a second."""
    record = _run("gavel", "aab", 1e6)
    done = _run("gavel", "aab", 1e6).jobs["finish_s"]
    assert record.jobs["finish_s"].equals(done), "the same run repeats"
    first = float(np.min(done.to_numpy()))
    assert 1e6 / first == pytest.approx(1.842, rel=0.01)


def test_the_agnostic_baseline_spreads_every_job_over_the_types():
    """Both jobs want all their time: half of each type's GPUs for each, not one type for each."""
    record = _run("gavel:aware=no", "ab", 1e6)
    on = record.intervals.filter(pl.col("start_s") < 1e5)
    on = on.with_columns(
        pl.col("devices").list.first().alias("device"), held=pl.col("end_s") - pl.col("start_s")
    )
    for job in (0, 1):
        of_job = on.filter(pl.col("job") == job)
        shares = [of_job.filter(pl.col("device") == device)["held"].sum() for device in (0, 1)]
        assert shares[0] == pytest.approx(shares[1], rel=0.15), job


@pytest.mark.parametrize(
    ("total", "runs_on", "expected", "why"),
    [
        ([1.0, 1.0], [[1, 1], [1, 1]], [[0.25, 0.75], [0.25, 0.75]], "in proportion to 1 and 3 GPUs"),
        ([0.5, 1.0], [[1, 1], [1, 1]], [[0.125, 0.375], [0.25, 0.75]], "of whatever time the job has"),
        ([1.0, 1.0], [[1, 0], [1, 1]], [[1.0, 0.0], [0.0, 1.0]], "no room for a part of type 0: as it was"),
    ],
)
def test_spreading(total, runs_on, expected, why):
    runs_on = np.array(runs_on, dtype=bool)
    before = np.array([[total[0], 0.0], [0.0, total[1]]])
    spread = spread_evenly(before, runs_on, np.ones(2), np.array([1.0, 3.0]))
    assert spread.tolist() == expected, why


def test_aware_beats_agnostic_for_a_job_that_does_not_gain():
    """C is as fast on either type, A four times as fast on the V100: knowing that ends both sooner."""
    aware = np.mean(list(finishes(_run("gavel", "aacc", 2e4)).values()))
    agnostic = np.mean(list(finishes(_run("gavel:aware=no", "aacc", 2e4)).values()))
    assert aware < 0.9 * agnostic


def test_without_a_table_types_are_equally_fast():
    """On a trace of durations it is time sharing: two jobs on one GPU take turns of a round."""
    assert sorted(finishes(play("gavel", "A 1x720 B 1x720", "1x1")).values()) == [1080, 1440]


@pytest.mark.parametrize(
    ("prices", "message"),
    [
        ({}, None),
        ({"v100": {"spot": 0.74}, "k80": {"spot": 0.135}}, None),
        ({"v100": {"spot": 0.74}}, "k80 has no price.*expected prices for v100, k80, or for none of them"),
    ],
)
def test_prices_are_stated_for_all_types_or_none(prices, message):
    cluster = replace(CLUSTER, prices=prices)
    if message is None:
        assert len(finishes(play("gavel:objective=cost", "A 1x720 B 1x720", cluster))) == 2
    else:
        with pytest.raises(RotaError, match=message):
            play("gavel:objective=cost", "A 1x720 B 1x720", cluster)


def test_two_that_share_end_sooner_than_by_turns():
    """Alone 10 a second, together 8 and 7: 72,000 iterations each take 9,000 s instead of 14,400."""
    table = ThroughputTable.build(
        {("a", "v100", 1): 10.0, ("b", "v100", 1): 10.0},
        pairs={("v100", ("a", 1), ("b", 1)): (8.0, 7.0)},
    )
    plain = trace_of("A 1x1 B 1x1", workload=[0, 1], workload_names=("a", "b"))
    trace = Trace(plain.jobs, Truth.build(np.full(2, np.nan), iterations=72e3), "test", "test")
    cluster = parse_cluster("1x1:v100")
    ends = {}
    for policy in ("gavel", "gavel:pairs=yes", "gavel:objective=packing"):
        speed = ThroughputSpeed(trace, cluster, table)
        record = play(policy, trace, cluster, Setting(speed=speed))
        ends[policy] = max(finishes(record).values())
    assert ends["gavel"] == pytest.approx(14400.0, abs=1.0)
    assert 9000.0 <= ends["gavel:pairs=yes"] < 11000.0
    assert 9000.0 <= ends["gavel:objective=packing"] < 11000.0


def test_pairs_that_nobody_measured_change_nothing() -> None:
    jobs, cluster = "A 1x3600 B 1x3600 C 2x3600", parse_cluster("1x2:v100")
    assert finishes(play("gavel:pairs=yes", jobs, cluster)) == finishes(play("gavel", jobs, cluster))


@pytest.mark.parametrize(
    ("classes", "price"),
    [({"spot": 0.7, "on_demand": 2.5}, 2.5), ({"on_demand": 2.5}, 2.5), ({"spot": 0.7}, 0.7)],
)
def test_a_type_costs_what_it_does_on_demand_if_that_is_stated(
    classes: dict[str, float], price: float
) -> None:
    cluster = replace(CLUSTER, prices={"v100": classes, "k80": {"spot": 0.1}})
    problem = SimpleNamespace(snapshot=SimpleNamespace(cluster=cluster))
    assert GavelProblem.prices.func(problem).tolist() == [price, 0.1]


def test_the_lowest_devices_that_are_free():
    free = Free.of(parse_cluster("3x2"))
    free.remove_all((0, 3))
    assert lowest(free, 3) == (1, 2, 4)
    assert lowest(free, 2) is None
    assert free.total == 1
