"""ElasticFlow promises no tenant more than its hard quota can keep, and keeps its GPUs for others."""

from __future__ import annotations

import math
from dataclasses import replace
from random import Random

from crowds import crowd

from play import play, trace_of
from rota.model.cluster import Cluster, NodeShape
from rota.model.tenants import Tenant, Tenants
from rota.model.trace import Trace
from tiers import each_seed

PATHS = ("a", "b", "b/x", "c")


def _cluster(**quotas: float) -> Cluster:
    tenants = (Tenant(name.replace("_", "/"), quota_gpus=most, hard=True) for name, most in quotas.items())
    return Cluster.build([NodeShape(1, 4)], Tenants.of(*tenants))


def _owned(trace: Trace, owners: list[str]) -> Trace:
    owner = trace.jobs.tenant.copy()
    owner[:] = [PATHS.index(one) for one in owners]
    return replace(trace, jobs=replace(trace.jobs, tenant=owner, tenant_names=PATHS))


def test_two_deadlines_that_one_quota_cannot_keep() -> None:
    """Each would be in time on GPUs of its own, of which there are four: the tenant may have one."""
    trace = trace_of("A 1x1000 B 1x1000 C 1x1000", deadline_s=[1200.0, 1300.0, 2500.0])
    record = play("elasticflow", _owned(trace, ["a", "a", "a"]), _cluster(a=1.0))
    assert record.jobs["state"].to_list() == ["COMPLETED", "REJECTED", "COMPLETED"]
    assert record.jobs["finish_s"].to_list()[::2] == [1000.0, 2000.0]


def test_nobody_is_refused_for_gpus_that_a_quota_withholds() -> None:
    """A would be in time on all four, and may have one: A is refused, and not B."""
    trace = trace_of("A 1x900 B 1x1000", deadline_s=[400.0, 1100.0], gpus_min=[1, 1], gpus_max=[4, 1])
    record = play("elasticflow", _owned(trace, ["b/x", "c"]), _cluster(b=1.0))
    assert record.jobs["state"].to_list() == ["REJECTED", "COMPLETED"]


@each_seed(8, 60, 600)
def test_every_promise_is_kept_under_quotas(seed: int) -> None:
    """Twelve jobs of four tenants, of which two share a quota and some have their own."""
    draw = Random(f"quotas {seed}")
    owners = [draw.choice(PATHS) for _ in range(12)]
    quotas = {name: float(draw.randint(1, 4)) for name in ("a", "b", "b_x") if draw.random() < 0.7}
    trace = _owned(crowd(draw, without=0.3, factors=(1.0, 4.0)), owners)
    jobs = play("elasticflow:slot_s=10,restart_s=0", trace, _cluster(**quotas)).jobs
    for name, state, finish_s, promised_s in jobs.select(
        "job_id", "state", "finish_s", "promised_s"
    ).iter_rows():
        assert state in ("COMPLETED", "REJECTED")
        assert promised_s is None or finish_s <= promised_s + 1e-6, f"{name} was promised {promised_s}"
    assert not math.isnan(jobs["finish_s"].sum())
