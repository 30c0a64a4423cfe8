"""A stored moment with something changed: one more job, jobs to come, other tenants, or more nodes."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np

from rota.errors import InputError
from rota.model.cluster import Cluster
from rota.model.columns import Floats, Ints, read_only
from rota.model.grants import Can
from rota.model.job_columns import CODED, GroupRule
from rota.model.jobs import JOB_COLUMNS, PlainJob
from rota.model.tenants import Tenants
from rota.model.units import plural
from rota.scheduler.moments.frozen import Frozen
from rota.scheduler.moments.packing import Packed, pack_cluster, unpack_cluster
from rota.scheduler.snapshot import table_of
from rota.table.occupancy import Occupancy
from rota.table.progress import COLUMNS as PROGRESS
from rota.table.state import COLUMNS

# -- other tenants ---------------------------------------------------------------------------------


def with_tenants(moment: Frozen, tenants: Tenants) -> Frozen:
    """The moment with these quotas, weights and cells; what jobs hold counts against them."""
    packed = moment.packed
    cluster = replace(unpack_cluster(packed["cluster"]), tenants=tenants)
    packed = {**packed, "cluster": pack_cluster(cluster)}
    state = table_of(replace(moment, packed=packed).snapshot(frozenset()))
    counted = Occupancy(cluster, state.jobs)
    for grant in state.grants.values():
        counted.hold(grant)
    used = [[path, kind, float(gpus)] for (path, kind), gpus in counted.tenant_gpus.items()]
    return replace(moment, packed={**packed, "occupancy": {**packed["occupancy"], "tenant_gpus": used}})


# -- more jobs -------------------------------------------------------------------------------------

_FRESH: dict[str, float] = {"first_start_s": math.nan, "batch": math.nan, "can": int(Can.ALL)}
"""Values of a job that has not been submitted yet, where they are not 0."""


def with_job(moment: Frozen, job: PlainJob, types: tuple[str, ...] = ()) -> Frozen:
    """The moment just before `job` is submitted, as the row after the last one.

    Its row, its type mask and its moment of submission are ignored; `types` are the acceptable GPU types,
    none for any.
    """
    packed = moment.packed
    jobs = dict(packed["jobs"])
    values: dict[str, Any] = {name: getattr(job, name) for name in JOB_COLUMNS if name not in CODED}
    for column in CODED:
        names = f"{column}_names"
        jobs[names], values[column] = _code(jobs.get(names, ()), getattr(job, column))
    jobs["type_names"], values["gpu_types"] = _mask(jobs["type_names"], types)
    values["submit_s"] = packed["state"]["now"]
    for name in JOB_COLUMNS:
        if name in jobs:  # moments of earlier versions lack some
            jobs[name] = read_only(np.append(jobs[name], np.asarray(values[name], dtype=jobs[name].dtype)))
    if job.deadlines:
        jobs["deadlines"] = {**jobs["deadlines"], len(jobs["ids"]): [list(one) for one in job.deadlines]}
    jobs["ids"] = [*jobs["ids"], job.id]
    state = _with_fresh(packed["state"], np.array([_last_like(jobs)]))
    return replace(moment, packed={**packed, "jobs": jobs, "state": state})


def _last_like(jobs: Packed) -> int:
    """The last row before the last one that is as fast, so that its work is counted alike; -1 if none is."""
    workload, gpus = jobs["workload"], jobs["gpus"]
    alike = (workload[:-1] == workload[-1]) & (gpus[:-1] == gpus[-1]) & (workload[-1] >= 0)
    return max(np.flatnonzero(alike).tolist(), default=-1)


def _with_fresh(before: Packed, like: Ints) -> Packed:
    """The table with more rows, of jobs that have not been submitted yet, and that are `like` these, or none
    (-1)."""
    count = len(like)
    state = dict(before)
    for name in COLUMNS:
        fresh = np.full(count, _FRESH.get(name, 0), dtype=state[name].dtype)
        state[name] = np.append(state[name], fresh)
    state["progress"] = dict(state["progress"])
    for name in PROGRESS:
        if name in state["progress"]:  # moments of earlier versions lack some
            column = state["progress"][name]
            fresh = np.full(count, _FRESH.get(name, 0), dtype=column.dtype)
            state["progress"][name] = np.append(column, fresh)
    if "per_s" in state["progress"]:
        per_s = state["progress"]["per_s"]
        state["progress"]["per_s"] = np.append(per_s, np.where(like >= 0, per_s[like], 1.0))
    return state


def with_arrivals(moment: Frozen, like: Ints, submit_s: Floats) -> Frozen:
    """The moment with jobs to come, at `submit_s`: ascending, and not before the moment.

    Each is like one of its rows, and its deadlines are as far from its submission; it delays no job by the
    rule of its group, and waits for no other job.
    """
    packed, count = moment.packed, len(like)
    jobs, rows = dict(packed["jobs"]), like.tolist()
    later_s = submit_s - jobs["submit_s"][like]
    changed = {"submit_s": submit_s, "deadline_s": jobs["deadline_s"][like] + later_s}
    changed["group_rule"] = np.full(count, int(GroupRule.ALL))
    first = len(jobs["ids"])
    for name in JOB_COLUMNS:
        if name in jobs:  # moments of earlier versions lack some
            column = jobs[name]
            more = np.asarray(changed.get(name, column[like]), dtype=column.dtype)
            jobs[name] = read_only(np.append(column, more))
    several = jobs.get("deadlines", {})
    jobs["deadlines"] = {
        **several,
        **{
            first + place: [[at_s + later_s.item(place), value] for at_s, value in several[row]]
            for place, row in enumerate(rows)
            if row in several
        },
    }
    parts = jobs["parts"]
    jobs["parts"] = {**parts, **{first + i: parts[row] for i, row in enumerate(rows) if row in parts}}
    jobs["ids"] = [*jobs["ids"], *(f"{jobs['ids'][row]}+{first + i}" for i, row in enumerate(rows))]
    return replace(moment, packed={**packed, "jobs": jobs, "state": _with_fresh(packed["state"], like)})


def _code(names: list[str], name: str) -> tuple[list[str], int]:
    """`name` as a code, and the names with it among them."""
    if not name:
        return names, -1
    if name not in names:
        names = [*names, name]
    return names, names.index(name)


def _mask(names: list[str], types: tuple[str, ...]) -> tuple[list[str], int]:
    names = [*names, *(kind for kind in dict.fromkeys(types) if kind not in names)]
    return names, sum(1 << names.index(kind) for kind in set(types))


# -- more nodes ------------------------------------------------------------------------------------


def with_gpus(packed: Packed, gpus: int) -> Packed:
    """The moment with `gpus` more, on empty nodes of the commonest shape; what is held stays as it is.

    Raises InputError if that is no number of nodes.
    """
    if gpus == 0:
        return packed
    cluster = unpack_cluster(packed["cluster"])
    node = _commonest(cluster)
    each = int(cluster.node_gpus[node])
    if gpus < 0:
        raise InputError.at(
            f"{gpus} would take GPUs away", field="--gpus", expected=f"a multiple of {each} above 0"
        )
    if gpus % each:
        raise InputError.at(
            f"+{gpus} is no whole number of nodes of {plural(each, 'GPU')}, the commonest shape",
            field="--gpus",
            expected=f"a multiple of {each}",
        )
    count = gpus // each
    occupancy = dict(packed["occupancy"])
    occupancy["claimed"] = [*occupancy["claimed"], *[0.0] * gpus]
    for name in ("cpus_used", "memory_used"):
        occupancy[name] = [*occupancy[name], *[0.0] * count]
    return {**packed, "cluster": pack_cluster(_enlarged(cluster, node, count)), "occupancy": occupancy}


def _commonest(cluster: Cluster) -> int:
    """The first node of the shape that most nodes with GPUs have."""
    gpus, kind = cluster.node_gpus.tolist(), cluster.node_type.tolist()
    shapes = list(zip(gpus, kind, cluster.node_cpus.tolist(), cluster.node_memory_gib.tolist(), strict=True))
    counts = Counter(shape for shape in shapes if shape[0])
    if not counts:
        raise InputError.at("the cluster has no GPUs whose nodes could be repeated", field="--gpus")
    return shapes.index(counts.most_common(1)[0][0])


def _enlarged(cluster: Cluster, node: int, count: int) -> Cluster:
    """The cluster with `count` more nodes like `node` at its end, in the same rack."""
    order: Ints = np.concatenate((np.arange(cluster.nodes), np.full(count, node)))
    larger = cluster.take(order, cluster.tenants)
    taken, names = set(cluster.node_names), list(cluster.node_names)
    number = 1
    while len(names) < cluster.nodes + count:
        if f"extra{number}" not in taken:
            names.append(f"extra{number}")
        number += 1
    return replace(larger, node_names=tuple(names))
