"""Hypothesis strategies for Rota's nouns: clusters, jobs, traces, and moments in the middle of a run."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from hypothesis import strategies as st

from rota.model.cluster import Cluster, NodeShape
from rota.model.grants import Grant
from rota.model.jobs import JobTable, Truth
from rota.model.trace import Trace
from rota.scheduler.snapshot import Snapshot
from rota.stages.place import consolidate
from scripted import state_of

seconds = st.integers(0, 60).map(float) | st.floats(0.0, 60.0).map(lambda value: round(value, 3))


@st.composite
def clusters(draw: st.DrawFn, *, uniform: bool = False) -> Cluster:
    """One to five nodes; of one size if `uniform`, otherwise of up to three sizes, some without GPUs."""
    if uniform:
        return Cluster.build(
            [NodeShape(count=draw(st.integers(1, 5)), gpus=draw(st.sampled_from([1, 2, 4, 8])))]
        )
    sizes = draw(st.lists(st.integers(0, 8), min_size=1, max_size=5).filter(any))
    return Cluster.build([NodeShape(count=1, gpus=gpus) for gpus in sizes])


@st.composite
def traces(draw: st.DrawFn, *, most_gpus: int = 8, most_jobs: int = 12) -> Trace:
    """Gangs of up to `most_gpus` whole GPUs, submitted and ending at moments that often tie."""
    job = st.tuples(seconds, st.integers(1, most_gpus), seconds)
    jobs = sorted(draw(st.lists(job, min_size=1, max_size=most_jobs)))
    submit_s, gpus, duration_s = zip(*jobs, strict=True)
    table = JobTable.build([f"j{i}" for i in range(len(jobs))], submit_s=submit_s, gpus=gpus)
    return Trace(table, Truth.build(duration_s), source="hypothesis", format="test")


class Midway(NamedTuple):
    """A moment at which some jobs run and others wait, with a key for each."""

    snapshot: Snapshot
    keys: Any
    """Key of each row; ties are common."""

    @property
    def order(self) -> list[int]:
        """All live rows by key, ties in order of submission."""
        rows = [*self.snapshot.running.tolist(), *self.snapshot.waiting.tolist()]
        return sorted(rows, key=lambda row: (self.keys[row], row))


@st.composite
def midways(draw: st.DrawFn) -> Midway:
    """Jobs on a uniform cluster; those that run were placed one after the other while there was room."""
    cluster = draw(clusters(uniform=True))
    trace = draw(traces(most_gpus=min(cluster.gpus, 16)))
    state = state_of(trace, cluster)
    for row in draw(st.permutations(range(len(trace)))):
        gpus = trace.jobs.gpus.item(row)
        if gpus <= state.occupancy.free.total and draw(st.booleans()):
            devices = consolidate(state.occupancy.free.copy(), gpus)
            assert devices is not None
            state.start(Grant(row, devices))
    keys = draw(st.lists(st.integers(0, 6), min_size=len(trace), max_size=len(trace)))
    return Midway(Snapshot(state), np.array(keys, dtype=np.float64))
