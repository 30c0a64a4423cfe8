"""Philly with `migrate`: gangs start spread and are brought together, small jobs make room for gangs."""

from __future__ import annotations

from typing import Any

import pytest

from play import play, trace_of
from rota.model.cluster import Cluster, NodeShape
from rota.model.grants import Can
from rota.model.trace import Trace
from rota.testing import check_policy
from rota.worlds.simulated.run import Setting

FOUR_PARTLY_FULL = "A 6x50 B 6x9999 C 6x9999 D 6x9999 E 8x100@1"
LEFT_ALONE = "A 1x5 B 1x5 C 1x5 S 1x60 D 1x5 E 1x5 F 1x5 T 1x60 G 4x10@6"
"""S and T are left alone on a node each when G wants a whole one."""


def stays(
    policy: str, jobs: str | Trace, cluster: str | Cluster, setting: Setting | None = None
) -> dict[str, list[Any]]:
    """By job, from when to when it was on which nodes."""
    found: dict[str, list[Any]] = {}
    intervals = play(policy, jobs, cluster, setting).intervals.sort("start_s")
    for name, start_s, end_s, nodes in intervals.select("job_id", "start_s", "end_s", "nodes").iter_rows():
        found.setdefault(name, []).append((start_s, end_s, sorted(set(nodes))))
    return found


def test_a_gang_starts_spread_and_moves_together_when_a_node_falls_free() -> None:
    played = stays("philly:migrate=yes", FOUR_PARTLY_FULL, "4x8")
    assert played["E"] == [(1.0, 50.0, [0, 1, 2, 3]), (50.0, 101.0, [0])]


def test_nobody_moves_at_the_moment_of_its_start() -> None:
    """S, of no length, leaves the large node in a second decision of that moment; G moves when T ends."""
    shapes = [NodeShape(2, 4, "T0"), NodeShape(1, 8, "T0"), NodeShape(1, 1, "T0")]
    played = stays("philly:migrate=yes", "S 5x0 G 8x50 T 1x9", Cluster.build(shapes))
    assert played["G"] == [(0.0, 9.0, [0, 1]), (9.0, 50.0, [2])]


def test_without_it_the_gang_waits_for_its_level_and_stays() -> None:
    assert stays("philly", FOUR_PARTLY_FULL, "4x8")["E"] == [(50.0, 150.0, [0])]


def test_who_would_lose_its_work_stays_spread() -> None:
    trace = trace_of(FOUR_PARTLY_FULL, workload=[0] * 5, workload_names=("w",))
    setting = Setting(can={"w": Can.SUSPEND})
    assert stays("philly:migrate=yes", trace, "4x8", setting)["E"] == [(1.0, 101.0, [0, 1, 2, 3])]


@pytest.mark.parametrize(
    ("policy", "start_s", "moved"),
    [
        ("philly:migrate=yes,dedicated=yes", 6.0, [(0.0, 6.0, [0]), (6.0, 60.0, [1])]),
        ("philly:dedicated=yes", 60.0, [(0.0, 60.0, [0])]),
    ],
)
def test_small_jobs_are_moved_off_a_node_that_a_gang_needs(
    policy: str, start_s: float, moved: list[Any]
) -> None:
    played = stays(policy, LEFT_ALONE, "2x4")
    assert played["G"][0][0] == start_s
    assert played["S"] == moved
    assert played["T"] == [(0.0, 60.0, [1])]


def test_nobody_moves_where_that_clears_too_little() -> None:
    played = stays("philly:migrate=yes,dedicated=yes", LEFT_ALONE.replace("G 4x", "G 8x"), "2x4")
    assert played["S"] == [(0.0, 60.0, [0])]
    assert played["G"][0][0] == 60.0


@pytest.mark.parametrize("seed", range(4))
def test_with_both_the_contract_is_kept(seed: int) -> None:
    check_policy("philly:migrate=yes,dedicated=yes", seeds=[seed])
