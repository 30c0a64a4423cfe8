"""Speed from tables: rates by type and by number of GPUs, and what is refused."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from play import finishes, play, trace_of
from rota.errors import InputError
from rota.knowledge.scaling import ScalingCurves
from rota.knowledge.throughput import ThroughputTable
from rota.model.cluster import parse_cluster
from rota.model.grants import Grant
from rota.model.jobs import Truth
from rota.scheduler.needs import Knowledge
from rota.worlds.simulated.run import Setting
from rota.worlds.simulated.speed import Pace, Slowdowns
from rota.worlds.simulated.speed_table import ScalingSpeed, ThroughputSpeed

TABLE = ThroughputTable.build(
    {("w", "v100", 1): 4.0, ("w", "k80", 1): 1.0, ("w", "v100", 2): 7.0, ("w", "k80", 2): 1.5}
)
MIXED = parse_cluster("1x2:V100,2x1:k80")


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
    assert speed.pace(0, Grant(0, devices), (), 0.0) == Pace(rate), why


def test_run_takes_the_iterations_of_the_trace():
    """Best fit gives A and B the single K80s (1 a second), C a V100 (4 a second)."""
    trace = _trace("A 1x100 B 1x100 C 1x100")
    record = play("fifo", trace, MIXED, Setting(speed=ThroughputSpeed(trace, MIXED, TABLE)))
    assert finishes(record) == {"A": 100, "B": 100, "C": 25}


def test_table_provides_what_it_knows():
    """Policies see the rates of each type and the time alone on the best one."""
    speed = ThroughputSpeed(_trace("A 1x100 B 2x70"), MIXED, TABLE)
    assert speed.knowledge[Knowledge.THROUGHPUT].known().tolist() == [[4.0, 1.0], [7.0, 1.5]]
    assert speed.knowledge[Knowledge.DURATION].known().tolist() == [25.0, 10.0]


def test_missing_iterations_are_refused():
    with pytest.raises(InputError, match="job A states no iterations"):
        ThroughputSpeed(trace_of("A 1x1", workload=0, workload_names=("w",)), MIXED, TABLE)


CURVES = ScalingCurves.build({"w": {1: 1.0, 2: 1.6, 4: 2.0}}, clean=False)


def test_scaling_by_number_of_gpus():
    """Rates between measured numbers are interpolated, beyond them flat."""
    trace = _trace("A 1x100", gpus_max=8)
    speed = ScalingSpeed(trace, parse_cluster("1x8"), CURVES)
    rates = [speed.pace(0, Grant(0, tuple(range(k))), (), 0.0).rate for k in (1, 2, 3, 4, 8)]
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

    def pace(self, row, grant, beside, done):
        return Pace(1.0, until_work=10.0) if done < 10.0 else Pace(2.0)


def test_rate_that_changes_with_progress_changes_from_the_first_start_on():
    """10 s for the first 10 units, 10 s for the other 20."""
    assert finishes(play("fifo", "A 1x1", "1x1", Setting(speed=_Regimes()))) == {"A": 20}
