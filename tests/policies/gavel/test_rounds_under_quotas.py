"""Gavel under hard quotas: no GPU is idle that a job of somebody else could use."""

from __future__ import annotations

import random

import polars as pl
import pytest

from play import finishes, play, trace_of
from rota.model.cluster import Cluster, NodeShape
from rota.model.tenants import Tenant, Tenants

MODES = ["gavel", "gavel:mode=sia", "gavel:objective=isolated", "gavel:objective=makespan"]


def _cluster(gpus: int, **quotas: float) -> Cluster:
    tenants = (Tenant(name, quota_gpus=most, hard=True) for name, most in quotas.items())
    return Cluster.build([NodeShape(gpus, 1)], Tenants.of(*tenants))


@pytest.mark.parametrize("policy", MODES)
def test_who_has_used_up_its_quota_makes_way(policy: str) -> None:
    """Two of one tenant that may hold two GPUs come first; the third, of another, need not wait for them."""
    trace = trace_of("A 2x3600 B 2x3600 C 2x7200@1", tenant=[0, 0, 1], tenant_names=("t", "u"))
    ends = finishes(play(policy, trace, _cluster(4, t=2.0)))
    assert max(ends["A"], ends["B"]) <= 7200.0 + 360.0
    assert ends["C"] <= 7200.0 + 360.0


@pytest.mark.parametrize("policy", MODES[:2])
@pytest.mark.parametrize("seed", range(8))
def test_no_gpu_is_idle_that_somebody_may_use(policy: str, seed: int) -> None:
    """Of jobs of one GPU as many as quotas and GPUs allow run whenever somebody starts."""
    draw = random.Random(seed)
    most = draw.randrange(1, 4)
    tenant = [draw.randrange(2) for _ in range(20)]
    jobs = " ".join(f"j{i} 1x{draw.randrange(1000, 4000)}" for i in range(20))
    record = play(policy, trace_of(jobs, tenant=tenant, tenant_names=("t", "u")), _cluster(4, t=float(most)))
    ends = finishes(record)
    of = dict(zip((f"j{i}" for i in range(20)), tenant, strict=True))
    spans = record.intervals.with_columns(pl.col("job_id").replace_strict(of).alias("tenant"))
    for now_s in sorted(set(spans["start_s"])):
        live = [of[name] for name, end_s in ends.items() if end_s > now_s]
        could = min(4, min(most, live.count(0)) + live.count(1))
        now = spans.filter((pl.col("start_s") <= now_s) & (pl.col("end_s") > now_s))
        assert len(now) == could, f"at {now_s} s"
