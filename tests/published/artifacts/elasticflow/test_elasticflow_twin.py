"""ElasticFlow's simulator, held to a naive twin of it: jobs end in the same second, the same are refused."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from elasticflow_twin import NEVER, DeadlineTwin, ElasticTwin, Job, Twin
from play import play
from rota.knowledge.scaling import ScalingCurves
from rota.model.cluster import parse_cluster
from rota.model.job_columns import AllowedCounts
from rota.model.jobs import JobTable, Truth
from rota.model.trace import Trace
from rota.worlds.simulated.run import Setting
from rota.worlds.simulated.semantics import semantics
from rota.worlds.simulated.speed_table import ScalingSpeed

Curves = dict[str, dict[int, float]]
MODES: dict[str, tuple[str, str, Callable[..., Twin]]] = {
    "edf": ("edf:size=most", "elasticflow-edf", DeadlineTwin),
    "ef": (
        "elasticflow@authors:slot_s={slot},refuse=no",
        "elasticflow-ef",
        lambda *scene: ElasticTwin(*scene, refuses=False),
    ),
    "ef-accessctrl": (
        "elasticflow@authors:slot_s={slot}",
        "elasticflow-ef",
        lambda *scene: ElasticTwin(*scene, refuses=True),
    ),
}
"""Policy, clock and twin of each mode."""


def some_curves(rng: np.random.Generator, most: int) -> Curves:
    """Iterations a second of eight workloads on powers of two, up to `most` GPUs."""
    curves: Curves = {}
    for number in range(8):
        rate, gpus = float(rng.uniform(0.5, 8.0)), 1
        curve = curves[f"w{number}"] = {gpus: rate}
        for _ in range(int(rng.integers(0, 6))):
            gpus, rate = 2 * gpus, rate * float(rng.uniform(1.1, 1.95))
            if gpus <= most:
                curve[gpus] = rate
    return curves


def some_jobs(
    rng: np.random.Generator, curves: Curves, *, every_s: float, due: tuple[float, float], short: float
) -> list[tuple[Job, str]]:
    """Up to 60 jobs with their workloads, one every `every_s` seconds.

    The deadline is `due` times the duration on one GPU after the arrival: some are missed, some equal,
    some jobs have none.  The part `short` of the jobs needs less time than a decision lets it stand still.
    """
    whole_s = int(rng.choice([1, 300]))
    jobs, submit_s = [], 0
    for number in range(int(rng.integers(5, 60))):
        submit_s += int(rng.exponential(every_s))
        workload = f"w{rng.integers(8)}"
        alone_s = rng.uniform(1, 12) if rng.random() < short else 60 * 10 ** rng.uniform(0.0, 2.2)
        work = max(1, round(float(alone_s) * curves[workload][1]))
        due_s = max(submit_s + int(alone_s * rng.uniform(*due)), submit_s + 1) // whole_s * whole_s + whole_s
        job = Job(f"j{number}", submit_s, float(work), float(due_s), curves[workload])
        if rng.random() < 0.1:
            job.due = NEVER
        jobs.append((job, workload))
    return jobs


def ours(jobs: list[tuple[Job, str]], curves: Curves, cluster: str, slot: int, mode: str) -> dict[str, float]:
    """When each job that is not refused ends here."""
    policy, clock, _ = MODES[mode]
    names = sorted(curves)
    table = JobTable.build(
        [job.name for job, _ in jobs],
        submit_s=[job.submit for job, _ in jobs],
        gpus=[1] * len(jobs),
        gpus_min=1,
        gpus_max=[max(job.rates) for job, _ in jobs],
        counts=int(AllowedCounts.POWERS_OF_TWO),
        deadline_s=[job.due if job.due < NEVER else np.nan for job, _ in jobs],
        workload=[names.index(workload) for _, workload in jobs],
        workload_names=tuple(names),
    )
    truth = Truth.build(np.full(len(jobs), np.nan), iterations=[job.work for job, _ in jobs])
    trace, where = Trace(table, truth, source="test", format="test"), parse_cluster(cluster)
    speed = ScalingSpeed(trace, where, ScalingCurves.build(curves, clean=False))
    setting = Setting(speed=speed, semantics=semantics(f"{clock}:round={slot}s"))
    record = play(policy.format(slot=slot), trace, where, setting)
    ended = record.jobs.filter(record.jobs["state"] == "COMPLETED")
    return dict(zip(ended["job_id"], ended["finish_s"], strict=True))


def hold_to_the_twin(mode: str, nodes: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    node_gpus, slot = int(rng.choice([2, 4, 8])), int(rng.choice([30, 60, 240]))
    curves = some_curves(rng, nodes * node_gpus)
    due = [(0.3, 1.0), (0.5, 1.5), (1.0, 6.0)][seed % 3]
    every_s, short = float(rng.choice([5, 20, 60, 200, 800])), float(rng.choice([0.0, 0.3, 0.8]))
    jobs = some_jobs(rng, curves, every_s=every_s, due=due, short=short)
    twin = MODES[mode][2]([job for job, _ in jobs], nodes, node_gpus, slot)
    twin.run()
    theirs = {job.name: job.finish for job, _ in jobs if job.finish is not None}
    assert ours(jobs, curves, f"{nodes}x{node_gpus}", slot, mode) == pytest.approx(theirs, abs=1e-3)


@pytest.mark.parametrize("nodes", [4, 8, 16])
@pytest.mark.parametrize("mode", MODES)
def test_jobs_end_in_the_second_of_the_twin(mode: str, nodes: int) -> None:
    hold_to_the_twin(mode, nodes, nodes)


@pytest.mark.soak
@pytest.mark.parametrize("nodes", [1, 2, 4, 8, 16, 32])
@pytest.mark.parametrize("mode", MODES)
def test_many_lists_end_in_the_second_of_the_twin(mode: str, nodes: int) -> None:
    for seed in range(20):
        hold_to_the_twin(mode, nodes, 1000 * nodes + seed)
