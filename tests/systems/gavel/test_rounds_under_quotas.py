"""Gavel under hard quotas: no GPU is idle that a job of somebody else could use."""

from __future__ import annotations

import random

import polars as pl
import pytest

from play import finishes, play, trace_of
from rota.model.cluster import Cluster, NodeShape
from rota.model.tenants import Tenant, Tenants
from rota.worlds.simulated.faults import Fault
from rota.worlds.simulated.run import Setting
from tiers import first

MODES = ["gavel", "gavel@sia", "gavel:objective=isolated", "gavel:objective=makespan"]
WALKS = ["gavel:objective=fifo", "gavel:objective=fifo,aware=no", "gavel:objective=shortest"]
"""Who give a job all of its time or none."""


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


@pytest.mark.parametrize("policy", [*WALKS, "gavel:objective=fifo,pairs=yes", "gavel@sia:objective=fifo"])
def test_of_those_that_walk_nobody_takes_turns_for_a_quota(policy: str) -> None:
    """B waits until A is done, and holds up nobody else's; C came within the first round."""
    trace = trace_of("A 2x3600 B 2x3600 C 2x7200@1", tenant=[0, 0, 1], tenant_names=("t", "u"))
    assert finishes(play(policy, trace, _cluster(4, t=2.0))) == {"A": 3600.0, "B": 7200.0, "C": 7560.0}


@pytest.mark.parametrize("policy", WALKS)
def test_a_quota_of_one_type_leaves_the_other(policy: str) -> None:
    """A may not run on K80s, of which there are two."""
    quota = {"t": Tenant("t", hard=True, quota_by_type={"K80": 0.0})}
    cluster = Cluster.build(
        [NodeShape(1, 2, gpu_type="K80"), NodeShape(1, 1, gpu_type="V100")], Tenants(quota)
    )
    trace = trace_of("A 1x1000 B 1x1000 C 1x1000", tenant=[0, 1, 1], tenant_names=("t", "u"))
    assert set(finishes(play(policy, trace, cluster)).values()) == {1000.0}


def test_who_was_given_a_type_that_is_lost_is_given_another() -> None:
    """Of two jobs that know no types each sits on one node; who loses its node waits for no other."""
    cluster = Cluster.build([NodeShape(1, 1, gpu_type=kind) for kind in ("K80", "V100")])
    setting = Setting(faults=[Fault(0, 400.0, 1e6), Fault(1, 1e6, 2e6)])
    ends = finishes(play("gavel:objective=fifo,aware=no", "A 1x3600 B 1x3600", cluster, setting))
    assert max(ends.values()) <= 7200.0 + 2 * 360.0


@pytest.mark.parametrize("policy", [*MODES[:2], *WALKS])
@pytest.mark.parametrize("seed", first(3, range(8)))
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
