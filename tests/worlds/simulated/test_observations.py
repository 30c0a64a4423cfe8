"""What is seen of running jobs in a simulation, who hears it, and what may be learnt from it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from play import play, trace_of
from rota.api.run_setup import make_setting
from rota.knowledge.given import Provides
from rota.knowledge.needs import Knowledge, Observation, Provenance
from rota.knowledge.scaling import ScalingCurves, curves_of
from rota.model.cluster import parse_cluster
from rota.model.grants import Grant
from rota.model.jobs import Truth
from rota.scheduler.decision import Decision, Wake
from rota.worlds.simulated.run import Setting
from rota.worlds.simulated.speed_table import ScalingSpeed


class Hears(Provides):
    """Keeps what it is told."""

    listens = True

    def __init__(self) -> None:
        super().__init__(Knowledge.SKEW, Provenance.MEASURED, np.zeros(3))
        self.heard: list[list[tuple[int, float, float, float]]] = []

    def observed(self, seen: Sequence[Observation]) -> None:
        self.heard.append([(one.row, one.since_s, one.until_s, one.work) for one in seen])


class Grows:
    """FIFO that gives the first job one GPU more every ten seconds, and needs to be told."""

    needs = frozenset({Knowledge.SKEW})

    def decide(self, snapshot, memory):
        grants = dict(snapshot.grants)
        size = min(4, 1 + int(snapshot.now // 10))
        changed = []
        if len(snapshot.jobs) and (0 in grants or 0 in snapshot.waiting.tolist()):
            changed = [Grant(0, tuple(range(size)))]
        return Decision(memory, changed, wake=Wake(10.0 * (1 + snapshot.now // 10)))


def test_a_stretch_is_told_when_it_lasts_and_when_it_is_over() -> None:
    """A works 1/s until 10, 2/s until 20, 3/s until it is done; nobody hears of what has not happened."""
    hears = Hears()
    trace = trace_of("A 1x45", gpus_min=1, gpus_max=4)
    play(Grows(), trace, "1x4", Setting(providers=(hears,)))
    assert hears.heard == [[(0, 0, 10, 10)], [(0, 10, 20, 20)], [(0, 20, 25, 15)]]


def test_a_job_that_runs_on_is_told_once() -> None:
    """However often somebody asks."""
    hears = Hears()

    class Asks:
        needs = frozenset({Knowledge.SKEW})

        def decide(self, snapshot, memory):
            grants = [Grant(0, (0,))] if len(snapshot.waiting) else []
            return Decision(memory, grants, wake=Wake(snapshot.now + 10.0))

    play(Asks(), trace_of("A 1x95"), "1x1", Setting(providers=(hears,)))
    assert hears.heard == [[(0, 0, 10, 10)], [(0, 10, 95, 85)]]


CURVES = ScalingCurves.build({"w": {1: 1.0, 2: 1.6, 3: 2.0, 4: 2.2}}, clean=False)


def elastic(text: str):
    trace = trace_of(text, gpus_min=1, gpus_max=4, workload=0, workload_names=("w",))
    return replace(trace, truth=Truth.build(np.full(len(trace), np.nan), iterations=trace.truth.duration_s))


class Sizes:
    """Runs the jobs on 1, 2, 3, 4 GPUs in turn, and keeps what it is told of them."""

    needs = frozenset({Knowledge.SCALING})

    def __init__(self) -> None:
        self.curves: list[list[float]] = []

    def decide(self, snapshot, memory):
        rows = np.arange(len(snapshot.jobs))
        self.curves = curves_of(snapshot.know(Knowledge.SCALING), rows, 4).tolist()
        live = [*snapshot.running.tolist(), *snapshot.waiting.tolist()]
        size = 1 + int(snapshot.now // 10) % 4
        grants = [Grant(live[0], tuple(range(size)))] if live else []
        return Decision(memory, grants, wake=Wake(snapshot.now + 10.0))


@pytest.mark.parametrize(("noise", "off"), [(0.0, 1e-9), (0.02, 0.1)])
def test_measured_curves_come_to_the_truth(noise: float, off: float) -> None:
    """One for the whole class: the job that has not run yet is told what the first has done."""
    policy, where = Sizes(), parse_cluster("1x4")
    trace = elastic("A 1x200@0 B 1x1@60")
    speed = ScalingSpeed(trace, where, CURVES)
    setting = replace(make_setting(knowledge="scaling=measured", speed=speed), observation_noise=noise)
    record = play(policy, trace, where, setting)
    assert record.provenance["knowledge"] == {"scaling": "measured"}
    for curve in policy.curves:
        assert curve == pytest.approx([0.0, 1.0, 1.6, 2.0, 2.2], rel=off)


def test_noise_is_the_same_for_a_seed() -> None:
    def curves(seed: int) -> list[list[float]]:
        policy, where, trace = Sizes(), parse_cluster("1x4"), elastic("A 1x200@0 B 1x1@60")
        speed = ScalingSpeed(trace, where, CURVES)
        setting = make_setting(knowledge="scaling=measured", speed=speed, seed=seed)
        play(policy, trace, where, replace(setting, observation_noise=0.2))
        return policy.curves

    assert curves(1) == curves(1) != curves(2)
