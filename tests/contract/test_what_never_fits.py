"""What can never fit is refused with the reason, whichever policy is in charge, and blocks nobody.

Every registered policy is played, by itself and inside those that hold another.  The live world holds such
jobs aside: `tests/worlds/live/test_never_fits_live.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from play import play, starts, trace_of
from rota.errors import InputError
from rota.model.cluster import Cluster, NodeShape
from rota.model.feasible import need_of, never_fits
from rota.model.reasons import Code
from rota.model.tenants import Tenant, Tenants
from rota.model.trace import Trace
from rota.scheduler.policy import parse_policy, systems
from tiers import first

HOPELESS: dict[str, tuple[dict[str, Any], str]] = {
    "GPUs": ({"gpus": 13}, "needs 13 GPUs at once; the cluster has 12 it could use"),
    "size range": (
        {"gpus": 20, "gpus_min": 16, "gpus_max": 24},
        "needs 16 GPUs at once; the cluster has 12 it could use",
    ),
    "type": ({"gpu_types": 2}, "needs GPUs of type H100; the cluster has none"),
    "cores": ({"cpus": 20.0}, "needs 20 CPU cores on one node; the largest node has 16"),
    "memory": ({"memory_gib": 65.0}, "needs 65 GiB of host memory on one node; the largest node has 64"),
    "cores without a GPU": (
        {"gpus": 0, "cpus": 17.0},
        "needs 17 CPU cores on one node; the largest node has 16",
    ),
    "device memory": ({"gpu_memory_gib": 17.0}, "needs 17 GiB of device memory; the largest GPU has 16"),
    "quota": ({"gpus": 4, "tenant": 1}, "tenant capped would use 4 GPUs; its quota is 2"),
    "parts of GPUs in a quota": (
        {"gpus": 3, "gpu_share": 0.75, "tenant": 1},
        "tenant capped would use 2.25 GPUs; its quota is 2",
    ),
    "nodes": ({"node_set": 0}, "needs 1 GPU on nodes nowhere; the cluster has none"),
}
"""What each job asks for, and why it is refused."""

CLUSTER = Cluster.build(
    [
        NodeShape(
            3, gpus=4, gpu_type="A100", cpus=16, memory_gib=64, gpu_memory_gib=16, levels={"vc": "default"}
        )
    ],
    Tenants.of(Tenant("capped", quota_gpus=2, hard=True)),
)
WRAPPERS = ("partition", "prerun", "hived", "synergy")
VARIANTS = (
    "fifo:skip=yes",
    "fifo:backfill=easy",
    "tiresias@authors",
    "chronus:profile_nodes=1",
    "drf:share=slots",
)


SINGLE = [*systems(), *VARIANTS]


def _combinations() -> Iterator[str]:
    """Each policy inside each of those that hold another, where that one takes it."""
    for outer in WRAPPERS:
        for inner in systems():
            try:
                parse_policy(f"{outer}:policy={inner}").make()
            except InputError:
                continue
            if (outer, inner) != ("hived", "partition"):  # which finds no level to cut its cells along
                yield f"{outer}:policy={inner}"


def _trace(asked: list[dict[str, Any]], length_s: int = 10) -> Trace:
    """Jobs of so many seconds that ask for so much, and behind them one for a single GPU."""
    rows = [{"gpus": 1, "tenant": 0, "node_set": -1, "gpu_share": 1.0} | one for one in [*asked, {}]]
    sizes = {name: [row.get(name, row["gpus"]) for row in rows] for name in ("gpus_min", "gpus_max")}
    names = ("gpu_types", "cpus", "memory_gib", "gpu_memory_gib", "tenant", "gpu_share", "node_set")
    columns = {name: [row.get(name, 0) for row in rows] for name in names}
    jobs = " ".join(f"j{number} {row['gpus']}x{length_s}" for number, row in enumerate(rows))
    return trace_of(
        jobs, **columns, **sizes, type_names=("A100", "H100"), tenant_names=("default", "capped"),
        node_set_names=("nowhere",),
    )  # fmt: skip


@pytest.mark.parametrize("policy", first(len(SINGLE), [*SINGLE, *_combinations()]))
def test_who_can_never_run_is_refused_and_delays_nobody(policy: str) -> None:
    asked = [one for one, _ in HOPELESS.values()]
    record = play(policy, _trace(asked), CLUSTER)
    assert record.jobs["state"].to_list() == ["REJECTED"] * len(asked) + ["COMPLETED"]
    assert record.jobs["why"].to_list() == [*(why for _, why in HOPELESS.values()), ""]
    assert starts(record)[f"j{len(asked)}"] < 361, "a round is six minutes"


def test_all_kinds_of_what_may_lack_are_tried() -> None:
    jobs = _trace([one for one, _ in HOPELESS.values()]).jobs
    lacks = {never_fits(CLUSTER, need_of(jobs, row))[0].code for row in range(len(HOPELESS))}
    assert lacks == {
        Code.GANG_TOO_LARGE,
        Code.GPU_TYPE,
        Code.HOST_TOO_LARGE,
        Code.MEMORY_TOO_LARGE,
        Code.QUOTA,
        Code.NODE_SET,
    }


@pytest.mark.parametrize("policy", [*systems(), *VARIANTS])
def test_a_deadline_that_is_over_blocks_nobody(policy: str) -> None:
    """It is refused or served late."""
    record = play(policy, trace_of("A 8x10@5 B 1x10@6", deadline_s=[1.0, np.nan]), CLUSTER)
    assert record.jobs["state"].to_list()[0] in ("REJECTED", "COMPLETED", "CANCELLED")
    assert record.jobs["state"].to_list()[1] == "COMPLETED"


SPLIT = Cluster.build(
    [
        NodeShape(2, gpus=4, cpus=16, memory_gib=64, gpu_memory_gib=16, levels={"vc": "team"}),
        NodeShape(1, gpus=4, cpus=32, memory_gib=128, gpu_memory_gib=32, levels={"vc": "others"}),
    ]
)
"""The last node is the largest: another team's, or the one set apart."""
BESIDE = [{"gpus": 12}, {"cpus": 20.0}, {"memory_gib": 100.0}, {"gpu_memory_gib": 20.0}]


@pytest.mark.parametrize(
    ("policy", "state", "says"),
    [
        ("partition:policy=fifo", "REJECTED", "asks for"),
        ("partition:policy=philly", "REJECTED", "asks for"),
        ("prerun:policy=fifo", "COMPLETED", ""),
        ("prerun:policy=philly", "COMPLETED", ""),
        ("prerun:policy=gandiva", "COMPLETED", ""),
        ("chronus:profile_nodes=1", "PENDING", "never fits beside the nodes set apart: it needs"),
    ],
)
@pytest.mark.parametrize("asked", BESIDE, ids=["GPUs", "cores", "memory", "device memory"])
def test_who_fits_the_cluster_but_not_its_part_of_it(
    policy: str, state: str, says: str, asked: dict[str, Any]
) -> None:
    trace = _trace([asked], length_s=100)
    record = play(policy, replace(trace, jobs=replace(trace.jobs, tenant_names=("team", ""))), SPLIT)
    assert record.jobs["state"].to_list() == [state, "COMPLETED"]
    assert says in record.jobs["why"][0]
    assert starts(record)["j1"] < 101
