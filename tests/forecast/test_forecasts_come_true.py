"""With true durations and nobody new, a forecast gives the ends that the run itself then gives.

Under every policy and each of its modes, whatever work is counted in: what a policy keeps in units of work
has to mean in the fork what it meant in the run.  Where speeds are not known as they are, or are still being
learnt from the run, ends differ by that: then all that must hold is that the same jobs end.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from rota.forecast.fork import Origin, fork
from rota.forecast.held import waits_of
from rota.forecast.known_speed import SPEEDS
from rota.knowledge.goodput import BatchLimits, GoodputProfile, GoodputTable, Noise, StepFit, TrainingPhase
from rota.knowledge.needs import Knowledge, Provenance
from rota.knowledge.throughput import ThroughputTable
from rota.model.cluster import Cluster
from rota.model.columns import Floats
from rota.model.jobs import Truth
from rota.model.trace import Trace
from rota.scheduler.decision import Wake
from rota.scheduler.moments.frozen import Frozen, freeze
from rota.scheduler.policy import parse_policy, published, systems
from rota.table.state import Phase
from rota.testing import make_scene, variants
from rota.worlds.simulated.run import Setting, prepare
from rota.worlds.simulated.speed import SpeedModel
from rota.worlds.simulated.speed_goodput import GoodputSpeed
from rota.worlds.simulated.speed_table import ThroughputSpeed
from tiers import first

REMEMBERING = [
    *("gavel:objective=finish_time", "gavel@authors", "themis@elasticflow", "pollux@authors"),
    *(
        "tiresias@elasticflow",
        "tiresias@elasticflow:promote=2",
        "tiresias:limits=300/900,promote=2",
    ),
    *("las:quantum=20", "partition:by=vc,policy=fifo"),
]
"""Modes that keep work done, or turns and what they brought."""
DEFAULTS = [name for name in systems() if name != "partition"]
VARIANTS = [
    *(variant for name in DEFAULTS for variant in variants(name) if variant not in (name, *REMEMBERING)),
    *("tiresias:order=gittins,limits=300/900", "tiresias@authors:promote=2"),
    *(name for name in published() if name not in REMEMBERING),
]
PER_S = {"resnet": 9.0, "bert": 0.25, "lstm": 2.0}
"""Iterations of each workload in a second on one GPU."""
LONGER = 12.0
"""Times that scenes last longer, so that rounds of minutes end in them."""
PHASES = {
    name: GoodputProfile(
        BatchLimits(64, 1024, 16, 128, accumulates=True),
        {"*": StepFit(0.05, 0.002, 0.1, 0.01, 0.03, 0.002, 2.0)},
        (
            TrainingPhase(20_000.0, Noise(1.0, 4.0)),
            TrainingPhase(60_000.0, Noise(1.0, 30.0 + 10.0 * place)),
            TrainingPhase(np.inf, Noise(1.0, 0.5)),
        ),
    )
    for place, name in enumerate(PER_S)
}


@dataclass(frozen=True)
class Played:
    """What is played, and how fast it is."""

    trace: Trace
    cluster: Cluster
    speed: SpeedModel | None
    total_s: Floats
    """Seconds that each job takes at its request."""


def counted_in_seconds(seed: int) -> Played:
    trace, cluster = longer_scene(seed)
    return Played(trace, cluster, None, trace.truth.duration_s)


def counted_in_iterations(seed: int) -> Played:
    """Every workload does another number of iterations in a second."""
    trace, cluster = longer_scene(seed)
    per_gpu = np.array([PER_S[trace.jobs.name_of("workload", row)] for row in range(len(trace))])
    kinds = [(kind, gpus) for kind in cluster.type_names for gpus in range(1, 33)]
    rates = {(name, *kind): kind[1] * rate for name, rate in PER_S.items() for kind in kinds}
    duration_s = trace.truth.duration_s
    trace = replace(trace, truth=Truth.build(duration_s, iterations=duration_s * per_gpu * trace.jobs.gpus))
    speed = ThroughputSpeed(trace, cluster, ThroughputTable.build(rates))
    return Played(trace, cluster, speed, trace.truth.duration_s)


def counted_in_examples(seed: int) -> Played:
    """Elastic jobs whose goodput changes with the batch, and from one phase of their training to the next."""
    trace, cluster = longer_scene(seed)
    jobs = trace.jobs
    ranges = {"gpus_min": np.ones_like(jobs.gpus), "gpus_max": np.minimum(2 * jobs.gpus, cluster.gpus)}
    trace = replace(trace, jobs=replace(jobs, **ranges))
    speed = GoodputSpeed(trace, cluster, GoodputTable(PHASES))
    return Played(trace, cluster, speed, speed.alone_s)


def longer_scene(seed: int) -> tuple[Trace, Cluster]:
    """A plain scene that lasts for some of anybody's rounds."""
    scene = make_scene(2 * seed)
    trace, jobs = scene.trace, scene.trace.jobs
    columns = {name: LONGER * getattr(jobs, name) for name in ("submit_s", "deadline_s", "limit_s")}
    truth = Truth.build(LONGER * trace.truth.duration_s)
    return replace(trace, jobs=replace(jobs, **columns), truth=truth), scene.cluster


def knows_speeds(moment: Frozen, played: Played) -> bool:
    """True if the moment tells how fast jobs are on whatever they may be given, once and for all."""
    known = moment.packed["knowledge"]
    is_learning = any(known[kind]["provenance"] == Provenance.MEASURED for kind in SPEEDS if kind in known)
    return not is_learning and (not isinstance(played.speed, GoodputSpeed) or Knowledge.GOODPUT in known)


def ends_in_the_fork(moment: Frozen, wake: Wake, total_s: Floats) -> dict[int, float]:
    """When each job ends if the moment goes on under its own policy."""
    origin = Origin(moment.packed, waits_of(moment.packed, None))
    loop, recorder = fork(
        origin, parse_policy(moment.policy).make(), total_s, total_s, memory=moment.memory, wake=wake,
        seed=moment.packed["seed"],
    )  # fmt: skip
    loop.run()
    loop.close()
    return {row: at_s for row, (_, at_s) in recorder.ends.items()}


def errors(played: Played, policy: str, seed: int) -> list[str]:
    """Jobs whose end is foreseen wrongly at some moments of a run, drawn by `seed`."""
    made = parse_policy(policy).make()
    loop, recorder = prepare(made, played.trace, played.cluster, Setting(speed=played.speed, seed=seed))
    moments = list[tuple[Frozen, Wake]]()
    rng = np.random.default_rng(seed)
    while loop.step():
        if loop.state.submitted == len(played.trace) and rng.random() < 0.2 and len(moments) < 4:
            moments.append((freeze(loop.snapshot(), loop.memory, policy), loop.wake))
    loop.close()
    ends, said = dict(recorder.ends), list[str]()
    for moment, wake in moments:
        now, state = moment.packed["state"]["now"], moment.packed["state"]
        foreseen = ends_in_the_fork(moment, wake, played.total_s)
        assert foreseen.keys() == {row for row in ends if state["phase"].item(row) < Phase.COMPLETED}
        for row, at_s in foreseen.items() if knows_speeds(moment, played) else ():
            if ends[row] != pytest.approx(at_s, rel=1e-9, abs=1e-6):
                said.append(f"at {now:g} s: job {row} is to end at {at_s}, and ends at {ends[row]}")
    return said


COUNTED = [counted_in_seconds, counted_in_iterations, counted_in_examples]
QUICK = [*REMEMBERING, *DEFAULTS]
SLOWEST = {"pollux@authors", "pollux", "sia"}
"""What takes many seconds each time."""


def ways() -> list[Any]:
    """Each policy with each way to count: in `make test` the next way for the next policy."""
    cases = []
    for place, policy in enumerate([*QUICK, *VARIANTS]):
        for turn, counted in enumerate(COUNTED):
            is_quick = place < len(QUICK) and turn == place % len(COUNTED) and policy not in SLOWEST
            marks = [] if is_quick else [pytest.mark.soak]
            cases.append(pytest.param(counted, policy, marks=marks, id=f"{counted.__name__}-{policy}"))
    return cases


@pytest.mark.slow
@pytest.mark.parametrize(("counted", "policy"), ways())
@pytest.mark.parametrize("seed", first(1, [2], deep=range(3, 10)))
def test_a_forecast_comes_true(counted, seed, policy) -> None:
    played = counted(seed)
    if "vc" in policy and "vc" not in played.cluster.levels:
        pytest.skip("the scene has no virtual clusters")
    assert errors(played, policy, seed) == []
