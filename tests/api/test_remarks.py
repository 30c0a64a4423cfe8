"""What a comparison says of jobs that did not run."""

from __future__ import annotations

import re

import numpy as np
import pytest

import rota
from play import trace_of
from rota.model.cluster import Cluster, NodeShape
from rota.model.tenants import Tenant, Tenants

CLUSTER = Cluster.build(
    [NodeShape(count=2, gpus=4, cpus=16, gpu_memory_gib=16)],
    Tenants.of(Tenant("default", quota_gpus=6, hard=True)),
)


@pytest.mark.parametrize(
    ("policy", "jobs", "columns", "remarks"),
    [
        (
            "fifo",
            "A 1x10 B 1x10",
            {"cpus": [20.0, 0.0]},
            [
                "Refused, since this cluster could never run it: job A: needs 20 CPU cores on one node; "
                "the largest node has 16."
            ],
        ),
        (
            "philly",
            "A 8x10 B 7x10 C 1x10",
            {"gpu_memory_gib": [0.0, 0.0, 17.0]},
            [
                "Refused, since this cluster could never run it: job A: tenant default would use 8 GPUs; its "
                "quota is 6 (and 1 job like it).",
                "Refused, since this cluster could never run it: job C: needs 17 GiB of device memory; the "
                "largest GPU has 16.",
            ],
        ),
        (
            "fifo:placement=one_node",
            "A 6x10 B 1x10",
            {},
            [
                "fifo:placement=one_node: 1 job is left for ever, first job A: needs 6 GPUs in one node; the "
                "most free in one is 4."
            ],
        ),
        ("fifo", "A 4x10 B 1x10", {}, []),
        (
            "edf",
            "A 1x10@20 B 1x10@30 C 1x10@40",
            {"deadline_s": [15.0, 30.0, 60.0]},
            [
                "2 jobs are due no later than submitted, first job A (5s before): a deadline is a "
                "moment of the trace, not a length."
            ],
        ),
    ],
)
def test_remarks(policy: str, jobs: str, columns: dict[str, list[float]], remarks: list[str]) -> None:
    results = rota.simulate(trace_of(jobs, **columns), cluster=CLUSTER, policies=policy)
    assert [one for one in results.remarks if "No job ever waited" not in one] == remarks


@pytest.mark.parametrize(
    ("long_s", "compiled", "says"), [(0.0, False, True), (0.0, True, False), (1e9, False, False)]
)
def test_a_slow_engine_is_named(
    monkeypatch: pytest.MonkeyPatch, long_s: float, compiled: bool, says: bool
) -> None:
    monkeypatch.setattr("rota.api.remarks.LONG_S", long_s)
    monkeypatch.setattr("rota.api.remarks.is_compiled", lambda: compiled)
    remarks = rota.simulate(trace_of("A 1x10"), cluster="1x1", policies=["fifo"]).remarks
    assert any("interpreted; compiled it takes about half" in remark for remark in remarks) is says


@pytest.mark.parametrize(
    ("policy", "comes_s", "says"),
    [
        ("elasticflow", 10.0, True),
        ("elasticflow:min_run_s=60", 10.0, False),
        ("elasticflow", 100.0, False),
        ("edf", 10.0, False),
    ],
)
def test_stops_that_a_live_cluster_refuses(policy: str, comes_s: float, says: bool) -> None:
    """A is due late and has all GPUs when B comes, which is due at once."""
    jobs = trace_of(f"A 4x200 B 4x50@{comes_s:g}", deadline_s=[5000.0, comes_s + 200.0])
    remarks = rota.simulate(jobs, cluster="1x4", policies=policy).remarks
    early = f"{policy} stopped, moved or resized jobs 1 time in their first 1m, which a live cluster does not"
    assert any(remark.startswith(early) for remark in remarks) is says


@pytest.mark.parametrize(
    ("limits", "knowledge", "told"),
    [
        (
            [20.0, np.nan, np.nan],
            "duration=user",
            "2 of 3 jobs state no time limit: in its place srtf receives",
        ),
        (
            [20.0, 20.0, np.nan],
            "duration=user",
            "1 of 3 jobs states no time limit: in its place srtf receives",
        ),
        ([20.0, 20.0, 20.0], "duration=user", ""),
        ([20.0, np.nan, np.nan], "duration=oracle", ""),
    ],
)
def test_whose_limit_was_predicted_is_told(limits: list[float], knowledge: str, told: str) -> None:
    """`fifo` and `observed` read no durations, and are not named."""
    trace = trace_of("A 4x10 B 4x10 C 4x10", limit_s=limits)
    results = rota.simulate(trace, cluster="1x4", policies="srtf,fifo", knowledge=knowledge)
    assert bool(told) == any("time limit" in one for one in results.remarks)
    assert not told or re.search(told, " ".join(results.remarks))
