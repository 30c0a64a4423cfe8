"""What policies remember that a fresh start does not know: for each a smallest scene in which the two differ.

That is the algorithm's, so its policy is excused from deciding as one that begins afresh
(`tests/contract/test_changes_midway.py`).  What it has to satisfy all the same is here too: shares are as due
from the moment at which weights change, and promises stand.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from test_changes_midway import REMEMBERS

from changed_moments import decided, goes_on, live_rows, moments_of
from play import trace_of
from rota.forecast.altered import with_tenants
from rota.model.cluster import Cluster, NodeShape, parse_cluster
from rota.model.columns import read_only
from rota.model.tenants import Tenant, Tenants
from rota.scheduler.moments.frozen import Frozen
from rota.scheduler.moments.values import copied
from rota.testing.scenes import Scene
from rota.worlds.simulated.run import Setting

EXACT = "elasticflow:slot_s=10,margin_slots=0,restart_s=0,offer_s=0"


def scene_of(jobs: str, cluster: str | Cluster, **columns: Any) -> Scene:
    where = parse_cluster(cluster) if isinstance(cluster, str) else cluster
    return Scene(0, trace_of(jobs, **columns), where, Setting())


def moment_at(policy: str, scene: Scene, at_s: float) -> Frozen:
    return next(m for m in moments_of(policy, scene, at_s + 1.0) if m.packed["state"]["now"] >= at_s)


def with_column(moment: Frozen, name: str, values: dict[int, float]) -> Frozen:
    """The moment at which some jobs have other values in a column."""
    column = moment.packed["jobs"][name].copy()
    for row, value in values.items():
        column[row] = value
    jobs = {**moment.packed["jobs"], name: read_only(column)}
    return replace(moment, packed={**moment.packed, "jobs": jobs})


def runs_then(moment: Frozen, memory: dict[str, Any]) -> dict[int, tuple[int, ...]]:
    """Who runs once the decision with this memory is in force, and on which devices."""
    held = {row: grant.devices for row, grant in goes_on(moment, _NOBODY)[0].state.grants.items()}
    grants, preempted, _ = decided(moment, memory)  # type: ignore[misc]
    held |= {row: devices for row, devices, _ in grants}
    return {row: devices for row, devices in sorted(held.items()) if row not in preempted}


_NOBODY = scene_of(" ".join(f"J{i} 1x5000" for i in range(4)), "1x1")
"""Whose jobs' durations are those of a loop that is only looked at."""


@pytest.mark.parametrize(
    ("policy", "jobs", "cluster", "columns", "at_s", "running", "fresh", "why"),
    [
        ("gandiva", "A 1x500 B 1x500", "1x1", {}, 60.0, {1: (0,)}, {0: (0,)},
         "A has had its turn; to a fresh start the turn of who runs begins"),
        ("gandiva_fair", "A 1x500 B 1x500", "1x1", {}, 60.0, {1: (0,)}, {0: (0,)},
         "A is ahead of B by a quantum"),
        ("gavel", "A 1x900 B 1x900", "1x1", {}, 360.0, {1: (0,)}, {0: (0,)},
         "A has had a round, of which half was due to it"),
        ("themis", "A 1x2000 B 1x2000@10", "1x1", {}, 1200.0, {1: (0,)}, {0: (0,)},
         "the lease of A has ended; a fresh start grants one to whom it finds"),
        ("multifactor", "A 1x500 B 1x2000 C 1x100@600 D 1x100@600", "1x2",
         {"tenant": [0, 2, 0, 1], "tenant_names": ("t", "u", "v")}, 600.0,
         {1: (1,), 3: (0,)}, {1: (1,), 2: (0,)},
         "the tenant of A and C has used 500 GPU-seconds; to a fresh start nobody has used anything"),
        ("philly", "A 1x500 B 2x100@1 C 1x50@2", "1x2", {}, 181.0, {0: (0,), 2: (1,)}, {0: (0,)},
         "the attempt of B, which held a GPU, has timed out; that of C has not; afresh B tries first"),
        ("pollux", "A 2x400 B 1x400@10", "3x1", {"gpu_share": [1.0, 0.5]}, 10.0,
         {0: (0, 1), 1: (2,)}, {0: (1, 2), 1: (0,)},
         "the next search is at 60 s, until then nobody moves; a fresh start searches at once"),
        ("prerun", "A 1x400 B 1x400@1", "2x1", {}, 360.0, {0: (0,)}, {0: (0,), 1: (1,)},
         "B has had its first run in the pool, which is the second node"),
    ],
)  # fmt: skip
def test_what_is_remembered(
    policy: str,
    jobs: str,
    cluster: str,
    columns: dict[str, Any],
    at_s: float,
    running: Any,
    fresh: Any,
    why: str,
) -> None:
    moment = moment_at(policy, scene_of(jobs, cluster, **columns), at_s)
    assert runs_then(moment, copied(moment.memory)) == running, why
    assert runs_then(moment, {}) == fresh, why


def test_hived_remembers_cells_and_so_moves_fewer() -> None:
    """D gets priority and all but one GPU: B may stay where it is, as the cells of both are known.

    A fresh start binds cells of B's virtual cluster anew, where another job has them already.
    """
    scene = scene_of("A 3x20 B 1x200 C 2x200@1 D 3x200@30", "1x4")
    moment = with_column(moment_at("hived", scene, 30.0), "priority", {3: 9})
    assert runs_then(moment, copied(moment.memory)) == {1: (3,), 3: (0, 1, 2)}
    assert runs_then(moment, {}) == {1: (1,), 3: (0, 2, 3)}


def test_elasticflow_remembers_promises() -> None:
    """A, which waits, may be done by 350 s only at the cost of B: a fresh start refuses it."""
    scene = scene_of("A 1x200 B 1x300 C 1x50@20", "1x1", deadline_s=[1000.0, 400.0, float("nan")])
    moment = with_column(moment_at(EXACT, scene, 20.0), "deadline_s", {0: 350.0})
    *_, refused = decided(moment, copied(moment.memory))  # type: ignore[misc]
    *_, refused_afresh = decided(moment, {})  # type: ignore[misc]
    assert (refused, refused_afresh) == ([], [0])


def test_everybody_who_is_excused_has_a_scene() -> None:
    own = {"hived", "elasticflow"}
    (table,) = (mark for mark in test_what_is_remembered.pytestmark if mark.name == "parametrize")
    assert own | {row[0] for row in table.args[1]} == set(REMEMBERS)


# -- what it has to satisfy all the same -----------------------------------------------------------


def shares_of(moment: Frozen, scene: Scene, span_s: float) -> list[float]:
    """The part of `span_s` from the moment on for which each job runs."""
    loop, _ = goes_on(moment, scene)
    rows = sorted(live_rows(moment))
    before = [loop.snapshot().ran_s(row) for row in rows]
    loop.run(moment.packed["state"]["now"] + span_s)
    after = loop.snapshot()
    return [(after.ran_s(row) - so_far) / span_s for row, so_far in zip(rows, before, strict=True)]


@pytest.mark.parametrize(("becomes", "due"), [(3.0, 0.75), (1.0 / 3.0, 0.25)])
def test_weights_of_jobs_are_shares_from_the_moment_they_change(becomes: float, due: float) -> None:
    """Two jobs of one GPU under gavel, alike until then, for twenty rounds; one of them may be owed."""
    scene = scene_of("A 1x40000 B 1x40000", "1x1")
    moment = with_column(moment_at("gavel", scene, 3600.0), "weight", {1: becomes})
    shares = shares_of(moment, scene, 20 * 360.0)
    assert shares == pytest.approx([1.0 - due, due], abs=1 / 20)


@pytest.mark.parametrize(("becomes", "due"), [(3.0, 0.75), (1.0 / 3.0, 0.25)])
def test_weights_of_tenants_are_shares_from_the_moment_they_change(becomes: float, due: float) -> None:
    """The same under gandiva_fair with tenants, for forty turns."""

    def tenants(weight: float) -> Tenants:
        return Tenants.of(Tenant("t"), Tenant("u", weight=weight))

    cluster = Cluster.build([NodeShape(1, 1)], tenants(1.0))
    scene = scene_of("A 1x40000 B 1x40000", cluster, tenant=[0, 1], tenant_names=("t", "u"))
    moment = with_tenants(moment_at("gandiva_fair", scene, 1200.0), tenants(becomes))
    assert shares_of(moment, scene, 40 * 60.0) == pytest.approx([1.0 - due, due], abs=2 / 40)


@pytest.mark.parametrize("source", ["tiresias", "elasticflow"])
def test_quotas_that_come_name_no_job_twice_and_hold_none_up(source: str) -> None:
    """In those simulators no job is in a set of nodes under quotas: a job that is in one is taken out."""
    jobs = "A 1x300 B 1x300 C 2x300 D 1x100@5 E 2x200@15 F 4x50@20"
    scene = scene_of(jobs, "2x2", tenant=[0, 1] * 3, tenant_names=("t", "u"))
    for at_s in (20.0, 60.0, 130.0):
        moment = moment_at(f"gandiva@{source}", scene, at_s)
        quotas = Tenants.of(Tenant("t", hard=True, quota_gpus=4.0), Tenant("u", hard=True, quota_gpus=4.0))
        loop, recorder = goes_on(with_tenants(moment, quotas), scene)
        loop.run()
        assert not loop.counts.refused
        assert recorder.ends.keys() == live_rows(moment)
