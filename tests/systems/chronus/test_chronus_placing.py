"""Jobs that start together: whoever minds lying apart is placed before those who do not."""

from __future__ import annotations

import pytest

from play import play, trace_of
from rota.model.cluster import parse_cluster
from rota.worlds.simulated.run import Setting
from rota.worlds.simulated.slowdowns import Slowdowns
from rota.worlds.simulated.speed import FixedDuration

POLICY = "chronus:lease_s=60,slot_s=60,overhead_s=0,safety=1"
SPREAD = {"calm": 0.9, "touchy": 0.4}


def runs(text, workloads, spread, options=""):
    """Seconds that each job runs on two nodes of three GPUs."""
    cluster = parse_cluster("2x3")
    names = ("calm", "touchy")
    codes = [names.index(name) for name in workloads.split()]
    trace = trace_of(text, workload=codes, workload_names=names)
    speed = FixedDuration(trace.jobs, cluster, Slowdowns(spread=spread))
    record = play(POLICY + options, trace, cluster, Setting(speed=speed))
    return dict(zip(record.jobs["job_id"], record.jobs["run_s"], strict=True))


@pytest.mark.parametrize("workloads", ["calm calm touchy", "touchy calm calm", "calm touchy calm"])
def test_who_minds_is_not_split(workloads):
    """Three jobs of 2 GPUs find room on two nodes of 3 only if one of them lies apart: a calm one."""
    ran = runs("P 2x50 Q 2x50 R 2x50", workloads, SPREAD)
    touchy = "PQR"[workloads.split().index("touchy")]
    assert ran[touchy] == pytest.approx(50.0)
    assert sorted(ran.values()) == pytest.approx([50.0, 50.0, 50.0 / 0.9])


def test_where_nobody_minds_the_first_order_stays():
    assert set(runs("P 2x50 Q 2x50 R 2x50", "calm calm touchy", {}).values()) == {50.0}


def test_a_search_after_the_orders_is_never_worse():
    """Jobs of many sizes and tempers: what the orders give, or better."""
    text, tempers = "P 2x50 Q 1x50 R 2x50 S 1x50", "touchy calm touchy touchy"
    work = {options: runs(text, tempers, SPREAD, options) for options in (",search=0", ",search=20")}
    assert sum(work[",search=20"].values()) <= sum(work[",search=0"].values()) + 1e-9
