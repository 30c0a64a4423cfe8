"""Random small clusters with jobs, each made from one seed.

Even seeds give plain scenes (whole GPUs of one type: what counting decides), odd seeds rich ones: types,
shares, memory, quotas, elastic sizes, dependencies, failing attempts, lost nodes, start-up costs.  Every
job fits the cluster while it is empty, so that every job can end.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.random import Generator

from rota.model.cluster import Cluster, NodeShape
from rota.model.columns import Bools, Floats, Ints
from rota.model.job_columns import AllowedCounts, JobKind
from rota.model.jobs import JobTable, Truth
from rota.model.tenants import Tenant, Tenants
from rota.model.trace import Trace
from rota.model.units import plural
from rota.worlds.simulated.costs import CostModel, Costs
from rota.worlds.simulated.faults import Fault
from rota.worlds.simulated.run import Setting

TENANTS = ("vision", "vision/alice", "speech/bob", "speech/eve")
WORKLOADS = ("resnet", "bert", "lstm")
TYPES = ("A", "B")


@dataclass(frozen=True)
class Scene:
    """A trace, a cluster and a setting that belong together."""

    seed: int
    trace: Trace
    cluster: Cluster
    setting: Setting

    def describe(self) -> str:
        return f"scene {self.seed}: {plural(len(self.trace), 'job')} on {self.cluster.describe()}"


def make_scene(seed: int) -> Scene:
    """The scene of `seed`."""
    rng = np.random.default_rng([2024, seed])
    rich = bool(seed % 2)
    cluster = _cluster(rng, rich)
    trace = _trace(rng, cluster, rich, seed)
    return Scene(seed, trace, cluster, _setting(rng, cluster, trace, rich, seed))


def with_hopeless(scene: Scene) -> tuple[Scene, frozenset[int]]:
    """The scene with every third job asking for what the cluster can never give; and which jobs those are.

    By turns it is GPUs, as a range too, a type, nodes, device memory, cores, host memory or a hard quota.
    Nodes that state no limit get an ample one, and no job waits for such a job.
    """
    cluster, jobs = _limited(scene.cluster), scene.trace.jobs
    rows = range(0, len(jobs), 3)
    columns = {name: getattr(jobs, name).copy() for name in _DEMANDS}
    names, types = (*jobs.tenant_names, _CAPPED), (*jobs.type_names, "no such type")
    excesses = _excesses(cluster, len(types), len(names))
    for turn, row in enumerate(rows, start=scene.seed):
        for name, value in excesses[turn % len(excesses)].items():
            columns[name][row] = value
    harder = replace(
        jobs,
        tenant_names=names,
        type_names=types,
        node_set_names=("no such node",),
        after={row: tuple(set(before).difference(rows)) for row, before in jobs.after.items()},
        **columns,
    )
    return replace(scene, trace=replace(scene.trace, jobs=harder), cluster=cluster), frozenset(rows)


_AMPLE = 1e6
_CAPPED = "capped"
_DEMANDS = (
    "gpus", "gpus_min", "gpus_max", "gpu_types", "gpu_memory_gib", "cpus", "memory_gib", "tenant", "node_set",
)  # fmt: skip


def _excesses(cluster: Cluster, types: int, tenants: int) -> list[dict[str, float]]:
    """What each kind of hopeless job asks for."""
    too_many = cluster.gpus + 1
    return [
        {"cpus": 100 * _AMPLE},
        {"gpu_memory_gib": 100 * _AMPLE},
        {"tenant": tenants - 1},
        {"memory_gib": 100 * _AMPLE},
        {"gpus": too_many, "gpus_min": too_many, "gpus_max": too_many},
        {"gpu_types": 1 << (types - 1)},
        {"node_set": 0},
        {"gpus": too_many + 2, "gpus_min": too_many, "gpus_max": too_many + 4},
    ]


def _limited(cluster: Cluster) -> Cluster:
    """The cluster with limits to everything, and a tenant that may hold nothing to speak of."""

    def stated(amounts: Floats) -> Floats:
        return np.where(amounts > 0.0, amounts, _AMPLE)

    tenants = [*cluster.tenants.by_path.values(), Tenant(_CAPPED, quota_gpus=0.1, hard=True)]
    return replace(
        cluster,
        node_cpus=stated(cluster.node_cpus),
        node_memory_gib=stated(cluster.node_memory_gib),
        device_memory_gib=stated(cluster.device_memory_gib),
        tenants=Tenants.of(*tenants),
    )


def _often(rng: Generator, chance: float = 0.4) -> bool:
    return bool(rng.random() < chance)


def _cluster(rng: Generator, rich: bool) -> Cluster:
    gpus = int(rng.choice([1, 2, 4, 8]))
    nodes = int(rng.integers(1, 5))
    if not rich:
        return Cluster.build(_units(nodes, gpus=gpus))
    limits: dict[str, Any] = {}
    if _often(rng):
        limits |= {"cpus": 4.0 * gpus, "memory_gib": 32.0 * gpus}
    if _often(rng):
        limits["gpu_memory_gib"] = 16.0
    kinds = TYPES if _often(rng) else TYPES[:1]
    shapes = [shape for kind in kinds for shape in _units(nodes, gpus=gpus, gpu_type=kind, **limits)]
    return Cluster.build(shapes, _tenants(rng, nodes * gpus) if _often(rng) else None)


def _units(nodes: int, **shape: Any) -> list[NodeShape]:
    """Equal nodes, one half of them for each team."""
    halves = {"vision": nodes - nodes // 2, "speech": nodes // 2}
    return [
        NodeShape(count=count, levels={"rack": f"r{i}", "vc": team}, **shape)
        for i, (team, count) in enumerate(halves.items())
        if count
    ]


def _tenants(rng: Generator, gpus: int) -> Tenants:
    """A hard quota for one tenant, a soft one for another; a type quota now and then."""
    quota = int(rng.integers(1, gpus + 1))
    by_type = {"A": float(quota)} if _often(rng) else {}
    return Tenants.of(
        Tenant("vision", quota_gpus=quota, hard=True, quota_by_type=by_type),
        Tenant("speech", quota_gpus=max(gpus // 2, 1), weight=2.0),
    )


# -- jobs ------------------------------------------------------------------------------------------


def _trace(rng: Generator, cluster: Cluster, rich: bool, seed: int) -> Trace:
    n = int(rng.integers(6, 22))
    most = min(cluster.gpus_of_type(code) for code in range(len(cluster.type_names)))
    gpus = np.minimum(2 ** rng.integers(0, 5, n), rng.integers(1, most + 1, n))
    columns = _common_columns(rng, n)
    columns |= _rich_columns(rng, cluster, gpus) if rich else {}
    gpus = columns.pop("gpus", gpus)
    after = _dependencies(rng, n) if rich and _often(rng) else {}
    jobs = JobTable.build(
        [f"j{i}" for i in range(n)],
        submit_s=np.sort(_arrivals(rng, n)),
        gpus=gpus,
        tenant_names=TENANTS,
        group_names=("g0", "g1", "g2"),
        workload_names=WORKLOADS,
        type_names=TYPES if len(cluster.type_names) > 1 else (),
        after=after,
        **columns,
    )
    return Trace(jobs, _truth(rng, n, rich), source=f"scene {seed}", format="scene")


def _arrivals(rng: Generator, n: int) -> Any:
    """Bursts at whole seconds, so that ties happen, or moments like any others."""
    if _often(rng, 0.5):
        return rng.choice(np.arange(0.0, 60.0, 10.0), n)
    return rng.uniform(0.0, 100.0, n)


def _common_columns(rng: Generator, n: int) -> dict[str, Any]:
    return {
        "tenant": rng.integers(0, len(TENANTS), n),
        "group": rng.integers(-1, 3, n),
        "workload": rng.integers(0, len(WORKLOADS), n),
        "priority": rng.integers(0, 3, n),
        "deadline_s": np.where(rng.random(n) < 0.3, rng.uniform(50.0, 900.0, n), np.nan),
        "limit_s": rng.uniform(10.0, 200.0, n),
    }


def _rich_columns(rng: Generator, cluster: Cluster, gpus: Ints) -> dict[str, Any]:
    n = len(gpus)
    columns: dict[str, Any] = {"gpus": _within_quotas(rng, cluster, gpus)}
    if _often(rng):
        columns["gpus"] = np.where(rng.random(n) < 0.2, 0, columns["gpus"])
    gpus = columns["gpus"]
    if _often(rng):
        columns["gpu_share"] = _shares(rng, gpus)
    if cluster.device_memory_gib.any():
        columns["gpu_memory_gib"] = np.where(gpus > 0, rng.choice([0.0, 4.0, 10.0], n), 0.0)
    if cluster.node_cpus.any():
        columns["cpus"] = np.maximum(gpus, 1) * rng.choice([0.0, 2.0, 4.0], n)
        columns["memory_gib"] = np.maximum(gpus, 1) * rng.choice([0.0, 8.0, 32.0], n)
    if len(cluster.type_names) > 1:
        columns["gpu_types"] = rng.integers(0, 4, n)
    if _often(rng):
        columns |= _elastic(rng, cluster, gpus, columns.get("gpu_share", np.ones(n)) == 1.0)
    if _often(rng):
        columns["gang"] = rng.random(n) < 0.8
        columns["kind"] = rng.choice([int(JobKind.TRAIN), int(JobKind.OPPORTUNISTIC)], n)
    return columns


def _shares(rng: Generator, gpus: Ints) -> Floats:
    """Parts of a GPU for most jobs of one, and of each of their GPUs for a few others."""
    has_part = (gpus > 0) & (rng.random(len(gpus)) < np.where(gpus == 1, 0.6, 0.2))
    return np.where(has_part, rng.choice([0.25, 0.5], len(gpus)), 1.0)


def _elastic(rng: Generator, cluster: Cluster, gpus: Ints, whole: Bools) -> dict[str, Any]:
    """Ranges from half to twice the request for jobs of more than one GPU that want `whole` ones."""
    most = min(cluster.gpus_of_type(code) for code in range(len(cluster.type_names)))
    elastic = (gpus > 1) & whole & (rng.random(len(gpus)) < 0.7)
    return {
        "gpus_min": np.where(elastic, gpus // 2, gpus),
        "gpus_max": np.where(elastic, np.maximum(np.minimum(2 * gpus, most), gpus), gpus),
        "counts": rng.choice([int(AllowedCounts.ANY), int(AllowedCounts.POWERS_OF_TWO)], len(gpus)),
    }


def _within_quotas(rng: Generator, cluster: Cluster, gpus: Ints) -> Ints:
    """No job is larger than the smallest hard quota: it could never run."""
    hard = [t.quota_gpus for t in cluster.tenants.by_path.values() if t.hard]
    return np.minimum(gpus, int(min(hard))) if hard else gpus


def _dependencies(rng: Generator, n: int) -> dict[int, tuple[int, ...]]:
    """Some jobs wait for one or two earlier ones."""
    rows = [row for row in range(1, n) if rng.random() < 0.3]
    return {row: tuple({int(before) for before in rng.integers(0, row, 2)}) for row in rows}


def _truth(rng: Generator, n: int, rich: bool) -> Truth:
    durations = rng.choice([0.0, 1.0, 5.0, 10.0, 30.0, 60.0], n) if _often(rng) else rng.exponential(60.0, n)
    failures = {}
    if rich and _often(rng):
        failures = {row: (float(rng.uniform(1, 20)),) * 2 for row in range(n) if rng.random() < 0.3}
    return Truth.build(durations, failures=failures)


def _setting(rng: Generator, cluster: Cluster, trace: Trace, rich: bool, seed: int) -> Setting:
    if not rich:
        return Setting(seed=seed)
    costs = (
        Costs(start=CostModel(2.0), restore=CostModel(3.0), checkpoint_every_s=7.0)
        if _often(rng)
        else Costs()
    )
    faults = []
    if _often(rng):
        at = float(rng.uniform(10.0, 200.0))
        faults = [Fault(int(rng.integers(cluster.nodes)), at, at + float(rng.uniform(5.0, 80.0)))]
    return Setting(seed=seed, costs=costs, faults=faults)
