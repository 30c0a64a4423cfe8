"""Speed from tables: rates by type and by number of GPUs, and what is refused."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from play import finishes, play, trace_of
from rota.errors import InputError
from rota.knowledge.needs import Knowledge
from rota.knowledge.scaling import ScalingCurves
from rota.knowledge.throughput import ThroughputTable
from rota.model.cluster import parse_cluster
from rota.model.grants import Grant, Role
from rota.model.jobs import Truth
from rota.worlds.simulated.costs import Costs
from rota.worlds.simulated.faults import Fault
from rota.worlds.simulated.pace import At, Pace
from rota.worlds.simulated.run import Setting
from rota.worlds.simulated.slowdowns import Slowdowns
from rota.worlds.simulated.speed_table import ScalingSpeed, ThroughputSpeed

TABLE = ThroughputTable.build(
    {("w", "v100", 1): 4.0, ("w", "k80", 1): 1.0, ("w", "v100", 2): 7.0, ("w", "k80", 2): 1.5}
)
MIXED = parse_cluster("1x2:V100,2x1:k80")
START = At(0.0, 0.0, 0.0)


def _trace(text: str, **columns):
    trace = trace_of(text, workload=0, workload_names=("w",), **columns)
    return replace(trace, truth=Truth.build(np.full(len(trace), np.nan), iterations=trace.truth.duration_s))


# row 0 asks for 1 GPU; devices 0, 1 are V100s on one node, 2 and 3 K80s on two
@pytest.mark.parametrize(
    ("devices", "slowdowns", "rate", "why"),
    [
        ((0,), Slowdowns(), 4.0, "type of the device, whatever its case"),
        ((2,), Slowdowns(), 1.0, "the other type"),
        ((0, 1), Slowdowns(), 7.0, "another number of GPUs is looked up"),
        ((1, 2), Slowdowns(), 1.5, "the slowest sets the pace"),
        ((2, 3), Slowdowns(spread={"*": 0.5}), 0.75, "spread over two nodes where one could hold it"),
    ],
)
def test_rate(devices, slowdowns, rate, why):
    speed = ThroughputSpeed(_trace("A 1x100"), MIXED, TABLE, slowdowns)
    assert speed.pace(0, Grant(0, devices), (), START) == Pace(rate), why


PAIRS = ThroughputTable.build(
    {("w", "v100", 1): 10.0, ("x", "v100", 1): 10.0, ("w", "v100", 2): 12.0},
    pairs={("v100", ("w", 1), ("x", 1)): (8.0, 7.0)},
)


@pytest.mark.parametrize(
    ("devices", "role", "rates", "why"),
    [
        ((0,), Role.PACKED, (8.0, 7.0), "Gavel, worked example 3: measured together"),
        ((0,), Role.TURNS, (5.0, 5.0), "in turns they do not meet: each its share"),
        (
            (0, 1),
            Role.PACKED,
            (12.0, 10.0),
            "on two GPUs nobody measured: each its share, here all it asks for",
        ),
    ],
)
def test_pairs(devices, role, rates, why):
    """Two jobs on one V100, as the table has them."""
    trace = trace_of("A 1x100 B 1x100", workload=(0, 1), workload_names=("w", "x"), gpu_share=(0.5, 0.5))
    trace = replace(trace, truth=Truth.build(np.full(2, np.nan), iterations=[100.0, 100.0]))
    share = 0.25 if role is Role.TURNS else 0.5
    one, other = Grant(0, devices, share, role), Grant(1, (0,), share, role)
    speed = ThroughputSpeed(trace, MIXED, PAIRS)
    assert (speed.pace(0, one, [other], START).rate, speed.pace(1, other, [one], START).rate) == rates, why


def test_policies_are_told_of_pairs() -> None:
    """By class of workload and size, on each type of the cluster; NaN where nobody measured."""
    trace = trace_of("A 1x100 B 1x70 C 1x10", workload=[0, 1, 0], workload_names=("w", "x"))
    truth = Truth.build(np.full(3, np.nan), iterations=trace.truth.duration_s)
    trace = replace(trace, truth=truth)
    told = ThroughputSpeed(trace, MIXED, PAIRS).knowledge[Knowledge.PAIRS].known()
    classes, rates = told.by_row["class"].tolist(), told.shared["rates"]
    for row, other in ((0, 1), (1, 0)):
        for kind, name in enumerate(MIXED.type_names):
            sized = [(trace.jobs.name_of("workload", one), 1) for one in (row, other)]
            measured = PAIRS.pairs.rate(name, *sized)
            expected = np.nan if measured is None else measured
            np.testing.assert_equal(rates[classes[row], classes[other], kind], expected)
            assert told.shared["alone"][classes[row], kind] == PAIRS.of_jobs(trace.jobs, MIXED)[row, kind]
    assert np.nan_to_num(rates[:, :, 0]).tolist() == [[0.0, 8.0, 0.0], [7.0, 0.0, 0.0], [0.0] * 3]


def test_who_was_measured_beside_nobody_has_a_class_without_rates() -> None:
    """Two GPUs of `w` were: no pair says so."""
    trace = _trace("A 2x100 B 1x70")
    told = ThroughputSpeed(trace, MIXED, PAIRS).knowledge[Knowledge.PAIRS].known()
    lonely, paired = told.by_row["class"].tolist()
    assert lonely != paired
    assert np.isnan(told.shared["rates"][lonely]).all()
    assert np.isnan(told.shared["rates"][:, lonely]).all()


def test_run_takes_the_iterations_of_the_trace():
    """The first type with room serves first: A and B have V100s (4 a second), C a K80 (1 a second)."""
    trace = _trace("A 1x100 B 1x100 C 1x100")
    record = play("fifo", trace, MIXED, Setting(speed=ThroughputSpeed(trace, MIXED, TABLE)))
    assert finishes(record) == {"A": 25, "B": 25, "C": 100}


def test_table_provides_what_it_knows():
    """Policies see the rates of each type and the time alone on the best one."""
    speed = ThroughputSpeed(_trace("A 1x100 B 2x70"), MIXED, TABLE)
    assert speed.knowledge[Knowledge.THROUGHPUT].known().tolist() == [[4.0, 1.0], [7.0, 1.5]]
    assert speed.knowledge[Knowledge.DURATION].known().tolist() == [25.0, 10.0]


@pytest.mark.parametrize(
    ("text", "cluster", "is_refused"),
    [
        ("A 1x100", "1x1:V100,1x2:k80", False),  # the fast one has room
        ("A 1x100", "1x2:k80", True),
        ("B 2x100", "1x1:V100,1x2:k80", True),  # it has none for two
    ],
)
def test_a_rate_at_which_a_job_takes_longer_than_anybody_lives_is_refused(text, cluster, is_refused):
    """In rounds of minutes such a run would not end."""
    rates = {("w", "v100", 1): 4.0, ("w", "v100", 2): 7.0, ("w", "k80", 1): 1e-7, ("w", "k80", 2): 1e-7}
    made = _trace(text), parse_cluster(cluster), ThroughputTable.build(rates)
    if is_refused:
        with pytest.raises(InputError, match=rf"job {text[0]} would take .* at 1e-07 iterations a second"):
            ThroughputSpeed(*made)
    else:
        ThroughputSpeed(*made)


def test_missing_iterations_are_refused():
    with pytest.raises(InputError, match="job A states no iterations"):
        ThroughputSpeed(trace_of("A 1x1", workload=0, workload_names=("w",)), MIXED, TABLE)


CURVES = ScalingCurves.build({"w": {1: 1.0, 2: 1.6, 4: 2.0}}, clean=False)


def test_scaling_by_number_of_gpus():
    """Rates between measured numbers are interpolated, beyond them flat."""
    trace = _trace("A 1x100", gpus_max=8)
    speed = ScalingSpeed(trace, parse_cluster("1x8"), CURVES)
    rates = [speed.pace(0, Grant(0, tuple(range(k))), (), START).rate for k in (1, 2, 3, 4, 8)]
    assert rates == pytest.approx([1.0, 1.6, 1.8, 2.0, 2.0])


def test_scaling_turns_durations_into_work():
    """Without iterations a job has its duration's worth at the GPUs it asked for."""
    trace = trace_of("A 2x10", workload=0, workload_names=("w",))
    speed = ScalingSpeed(trace, parse_cluster("1x4"), CURVES)
    assert speed.total(trace).tolist() == [16.0]
    assert finishes(play("fifo", trace, "1x4", Setting(speed=speed))) == {"A": 10}


class _Regimes:
    """Twice as fast from 10 units of work on."""

    def total(self, trace):
        return np.array([30.0])

    def pace(self, row, grant, beside, at):
        return Pace(1.0, until_work=10.0) if at.done < 10.0 else Pace(2.0)


def test_rate_that_changes_with_progress_changes_from_the_first_start_on():
    """10 s for the first 10 units, 10 s for the other 20."""
    assert finishes(play("fifo", "A 1x1", "1x1", Setting(speed=_Regimes()))) == {"A": 20}


# 1 V100 (4 iterations a second) and jobs whose remaining seconds and iterations tell different stories
FAST = parse_cluster("1x1:V100")


@pytest.mark.parametrize("policy", ["srtf", "srsf"])
def test_orders_by_remaining_time_count_in_seconds(policy):
    """At 60 A has 160 of 400 iterations, 40 s, left; B with 200, 50 s, waits, C with 120, 30 s, goes first.

    Seconds less iterations, A would have 100 - 240 s left, and C would wait.
    """
    trace = _trace("A 1x400 B 1x200@60 C 1x120@60")
    record = play(policy, trace, FAST, Setting(speed=ThroughputSpeed(trace, FAST, TABLE)))
    assert finishes(record) == {"A": 130, "B": 180, "C": 90}


def test_backfilling_expects_ends_in_seconds():
    """B needs both V100s and is expected to start at 100, when A ends; C, 90 s, may run till then, D may not.

    With iterations taken for seconds A would be overdue, and nobody would go before B.
    """
    table = ThroughputTable.build({("w", "v100", 1): 4.0, ("w", "v100", 2): 8.0})
    two = parse_cluster("1x2:V100")
    trace = _trace("A 1x400 B 2x80@5 C 1x360@5 D 1x400@6")
    record = play("fifo:backfill=easy", trace, two, Setting(speed=ThroughputSpeed(trace, two, table)))
    assert finishes(record) == {"A": 100, "B": 110, "C": 95, "D": 210}


def test_failing_attempts_and_checkpoints_are_in_seconds():
    """An attempt of 10 s fails; then a node is lost after 17 s of work, 2 s after the last checkpoint."""
    trace = _trace("A 1x400")
    trace = replace(trace, truth=replace(trace.truth, failures={0: (10.0,)}))
    setting = Setting(
        speed=ThroughputSpeed(trace, FAST, TABLE),
        costs=Costs(checkpoint_every_s=5.0),
        faults=(Fault(0, 27.0, 40.0),),
    )
    jobs = play("fifo", trace, FAST, setting).jobs
    assert jobs["lost_s"].to_list() == [10.0 + 2.0]
    assert jobs["finish_s"].to_list() == [40.0 + 85.0]


def test_scaling_counts_iterations_too():
    """At 10 iterations a second A has 30 s left at 10, although it has done 100 of them; B needs 12.5."""
    trace = _trace("A 2x400 B 2x125@10")
    speed = ScalingSpeed(trace, parse_cluster("1x2"), ScalingCurves.build({"w": {1: 6.0, 2: 10.0}}))
    record = play("srtf", trace, "1x2", Setting(speed=speed))
    assert finishes(record) == {"A": 52.5, "B": 22.5}


def test_afs_sees_the_same_work_in_seconds_and_iterations():
    """The same jobs with twice as many iterations at twice the speed end at the same moments."""
    trace = _trace("A 2x300 B 2x90@10 C 2x40@20", gpus_min=1, gpus_max=4)
    ends = []
    for scale in (1.0, 2.0):
        scaled = replace(trace, truth=replace(trace.truth, iterations=trace.truth.iterations * scale))
        curves = ScalingCurves.build({"w": {1: scale, 2: 1.8 * scale, 3: 2.4 * scale, 4: 2.8 * scale}})
        speed = ScalingSpeed(scaled, parse_cluster("1x4"), curves)
        ends.append(finishes(play("afs:lengths=yes", scaled, "1x4", Setting(speed=speed))))
    assert ends[0] == pytest.approx(ends[1])
