"""What a run leaves behind: two tidy tables and the facts around them.  Every figure comes from here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field

import numpy as np
import polars as pl

from rota.model.cluster import Cluster
from rota.model.columns import Floats
from rota.model.jobs import JobTable, Truth

JOBS_SCHEMA: dict[str, pl.DataType | type[pl.DataType]] = {
    "job": pl.Int64,  # row in the trace
    "job_id": pl.String,
    "tenant": pl.String,
    "group": pl.String,
    "workload": pl.String,
    "submit_s": pl.Float64,
    "eligible_s": pl.Float64,  # when it could have started under any policy; null if unknown
    "start_s": pl.Float64,  # first start; null if it never started
    "finish_s": pl.Float64,  # null if it did not end
    "state": pl.String,  # COMPLETED FAILED CANCELLED REJECTED PENDING RUNNING
    "gpus": pl.Int64,  # requested
    "gpu_share": pl.Float64,
    "duration_s": pl.Float64,  # running alone at the request; null if unknown
    "deadline_s": pl.Float64,  # as asked for; null if none
    "offered_s": pl.Float64,  # the deadline that was offered last in its place; null if none was
    "promised_s": pl.Float64,  # the deadline that the policy undertook to keep; null if none
    "expected_s": pl.Float64,  # the end that the policy last expected for it; null if nothing was promised
    "run_s": pl.Float64,  # wall seconds in which it held what it runs on (start-up included)
    "waiting_s": pl.Float64,  # wall seconds between submission and end in which it held nothing
    "service_gpu_s": pl.Float64,  # GPU-seconds granted
    "overhead_s": pl.Float64,  # wall seconds granted in which no work was done (starts, restores)
    "lost_s": pl.Float64,  # work done that had to be done again, in seconds of running
    "starts": pl.Int64,
    "preemptions": pl.Int64,
    "migrations": pl.Int64,
    "resizes": pl.Int64,
    "failures": pl.Int64,  # attempts that failed
    "wait_code": pl.String,  # dominant reason of the first wait; empty if it never waited
    "wait_requested": pl.Float64,
    "wait_provided": pl.Float64,
    "why": pl.String,  # why it was refused, ended by the policy, or is left waiting; empty otherwise
}
"""Columns of `Record.jobs`, one row per job of the trace, in its order."""

INTERVALS_SCHEMA: dict[str, pl.DataType | type[pl.DataType]] = {
    "job": pl.Int64,
    "job_id": pl.String,
    "start_s": pl.Float64,
    "end_s": pl.Float64,
    "gpus": pl.Int64,  # devices held
    "share": pl.Float64,  # share of each
    "role": pl.String,  # alone packed turns guaranteed opportunistic
    "nodes": pl.List(pl.Int64),  # node of each device, same length as devices
    "devices": pl.List(pl.Int64),
    "end": pl.String,  # finished failed cancelled preempted migrated resized adjusted lost running
    "batch_size": pl.Float64,  # granted, else asked for; null if the job chooses
    "cpus": pl.Float64,  # granted in all; null for as many as asked for
    "memory_gib": pl.Float64,  # granted in all; null for as much as asked for
    "gpu_memory_gib": pl.Float64,  # limit on each device; null for as much as asked for
    "power_limit_w": pl.Float64,  # cap on each device; null if none
    "work": pl.Float64,  # part of its whole work done in it, less what was lost; null if unknown
}
"""Columns of `Record.intervals`: one row per stretch of time in which a job held the same.

One that ends `adjusted` goes on in the next: with another claim on the same devices, batch size or limit."""

BOUND = "bound:"
"""Prefix of the names of records that no policy made: what no schedule beats, or an ideal."""


@dataclass(frozen=True)
class Record:
    """The outcome of one run of one policy over one trace."""

    policy: str
    jobs: pl.DataFrame
    intervals: pl.DataFrame
    cluster: Mapping[str, object]
    """`gpus`, `nodes`, `describe`, `node_gpus`, `node_names`, `node_types` (lists), `types` (GPUs by type
    name).
    Where the cluster has them: `device_levels` (units of each), `capacities` (by node), `prices`,
    `price_classes` (nodes of each), `cells` (by tenant).  Where nodes came and went: `paid_nodes`,
    moments and how many nodes were paid for from then on."""
    engine_seconds: float
    """CPU seconds of the loop alone: no reading, no reporting."""
    decisions: int
    provenance: Mapping[str, object] = field(default_factory=dict)
    """Trace, format, cluster, policy parameters, providers, semantics, seed, version: enough to repeat it."""
    counts: Mapping[str, int] = field(default_factory=dict)
    """Other counters: events, guard refusals, ..."""
    observed: bool = False
    """True for the row that replays what the trace recorded."""

    @property
    def ranked(self) -> bool:
        """True for a policy among policies; bounds and what was observed are listed beside them."""
        return not (self.observed or self.policy.startswith(BOUND))


def cluster_facts(cluster: Cluster) -> dict[str, object]:
    """The facts about the cluster that a report needs."""
    types = {name: cluster.gpus_of_type(code) for code, name in enumerate(cluster.type_names)}
    cells = {
        tenant.path: [asdict(cell) for cell in tenant.cells]
        for tenant in cluster.tenants.by_path.values()
        if tenant.cells
    }
    more: dict[str, object] = {
        "device_levels": {name: cluster.units(name) for name in cluster.device_levels},
        "capacities": {name: amounts.tolist() for name, amounts in cluster.capacities.items()},
        "prices": {gpu_type: dict(classes) for gpu_type, classes in cluster.prices.items()},
        "price_classes": {name: nodes.tolist() for name, nodes in cluster.price_classes.items()},
        "cells": cells,
    }
    return {name: said for name, said in more.items() if said} | {
        "gpus": cluster.gpus,
        "nodes": cluster.nodes,
        "describe": cluster.describe(),
        "node_gpus": cluster.node_gpus.tolist(),
        "node_names": list(cluster.node_names),
        "node_types": [cluster.type_names[code] for code in cluster.node_type.tolist()],
        "types": types,
    }


def known(values: Floats) -> pl.Series:
    """A column of numbers, with null where NaN says that there is none.

    In one call: expressions of Polars, `fill_nan` for one, cost a third of a millisecond each however short
    the column is, and tables of a record have a dozen such columns.
    """
    return pl.Series(values, nan_to_null=True)


def eligible_s(jobs: JobTable, truth: Truth, finish_s: Floats) -> Floats:
    """When each job could have started under any policy; NaN where that is unknown.

    A job that starts after others: once the last of them has ended in this run, by `finish_s`.  Any other: at
    its submission or, as the trace recorded, once no begin time, dependency or hold kept it (`Truth.held_s`).
    """
    moments: Floats = jobs.submit_s + truth.held_s
    for row, befores in jobs.after.items():
        if befores:
            moments[row] = np.max([jobs.submit_s[row], *finish_s[list(befores)]])
    return moments
