"""What somebody changes while jobs run (quotas, weights, deadlines, priorities, nodes) counts from then on.

Every policy goes on with what it remembers.  Whatever that is, no decision is refused, so that no quota is
exceeded and nothing is planned on what is gone, and everybody ends who would have ended.  And it decides as
one that begins afresh at that moment, unless it remembers what has to go on: `REMEMBERS` says what.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from random import Random

import pytest

from changed_moments import CHANGES, changed, decided, goes_on, live_rows, moments_of
from idle_beside import run_and_watch
from play import trace_of
from rota.forecast.altered import with_tenants
from rota.forecast.fork import ForkRecorder
from rota.model.cluster import Cluster, NodeShape
from rota.model.tenants import Tenant, Tenants
from rota.scheduler.moments.frozen import Frozen
from rota.scheduler.moments.values import copied
from rota.scheduler.policy import systems
from rota.testing import make_scene
from rota.testing.scenes import Scene
from rota.testing.subject import all_variants
from rota.worlds.simulated.run import Setting

DEFAULTS = list(systems())
VARIANTS = all_variants()
REMEMBERS = {
    "elasticflow": "promises: who was admitted is planned for the deadline it was promised, or has now",
    "gandiva": "homes, pairs that were parted, and circles: who has just had its turn is not the next",
    "gandiva_fair": "who belongs on which servers, and what each has received short of its part",
    "gavel": "what each has received beside its fraction since fractions were computed",
    "hived": "cells: which GPUs of its virtual cluster stand for those that a job holds",
    "multifactor": "what each tenant has used, the past counting less and less",
    "philly": "attempts: when each job's first one was, which tells when the next is, and at which locality",
    "pollux": "the allocations among which it searches on, its random state, and when it searches next",
    "prerun": "who has had its first run, besides what its inner policy remembers",
    "themis": "leases: who holds one keeps its GPUs until it ends, whoever is worse off",
}
"""What some remember, that is in the memory alone, and a change of terms does not undo.

`tests/contract/test_memories_midway.py` has a smallest scene of each.
"""
GRACE_S = {
    "gandiva": 180.0,
    "gandiva_fair": 660.0,
    "gavel": 361.0,
    "philly": 301.0,
    "pollux": 61.0,
    "themis": 1.0,
}
"""For how long one of them may let a job wait beside GPUs that would do.

Three turns of a server; a turn after a move, for nobody is moved again within ten minutes; a round; an
attempt and the pause behind it; the time between two searches; nothing.  The others keep GPUs idle for good:
for a plan (`elasticflow`), as a pool (`prerun`), as cells of a virtual cluster (`hived`), for the first job
(`multifactor`).
"""
A_ROUND_S = 361.0
"""Six minutes, the longest of the policies, and what is done at its end."""


@cache
def _played(policy: str, seed: int) -> tuple[Scene, list[Frozen]]:
    """A scene in which nothing fails or costs anything, every other one with jobs of many rounds."""
    scene = make_scene(seed // 2)
    longer = 20.0 if seed % 2 else 1.0
    truth = replace(scene.trace.truth, failures={}, duration_s=scene.trace.truth.duration_s * longer)
    scene = replace(scene, trace=replace(scene.trace, truth=truth), setting=Setting(seed=seed))
    return scene, moments_of(policy, scene)


def _check(policy: str, seeds: Iterable[int], each: int, changes: Sequence[str] = CHANGES) -> None:
    for seed in seeds:
        scene, moments = _played(policy, seed)
        for change in changes:
            draw = Random(f"{policy} {seed} {change}")
            for before in draw.sample(moments, min(each, len(moments))):
                after, promised_s = changed(before, change, draw), dict[int, float]()
                if policy == "elasticflow" and change not in ("quota", "deadline"):
                    promised_s = _promised_s(before)
                _look(scene, before, after, promised_s, f"{change} in scene {seed}")


def _promised_s(moment: Frozen) -> dict[int, float]:
    """The deadlines that are promised, and expected to be kept."""
    memory = moment.memory
    promised = zip(memory.get("rows", ()), memory.get("due_s", ()), strict=True)
    return {row: due_s for row, due_s in promised if row not in memory.get("at_risk", ())}


def _late(recorder: ForkRecorder, promised_s: Mapping[int, float]) -> set[int]:
    """Rows that ended after what was promised: where types differ, a plan may be wrong from the start."""
    return {row for row, (_, end_s) in recorder.ends.items() if end_s > promised_s.get(row, math.inf) + 1e-6}


def _look(scene: Scene, before: Frozen, after: Frozen, promised_s: Mapping[int, float], what: str) -> None:
    """Whether the policy minds that `after` is `before` with something changed, and keeps its promises."""
    what = f"{what} at {before.packed['state']['now']:g} s"
    name = before.policy.partition(":")[0]
    loop, recorder = goes_on(after, scene)
    longest_s = run_and_watch(loop) if before.policy in GRACE_S else loop.run() or {}
    assert not loop.counts.refused, f"{what}: a decision is refused ({loop.state.refused})"
    late = _late(recorder, promised_s)
    left = live_rows(after) - recorder.ends.keys()
    if left or late:
        as_it_was, anyway = goes_on(before, scene)
        as_it_was.run()
        assert not left & anyway.ends.keys(), f"{what}: never ends"
        assert late <= _late(anyway, promised_s), f"{what}: promises to rows {sorted(late)} are broken"
    if name in REMEMBERS:
        waits = {row: wait_s for row, wait_s in longest_s.items() if wait_s > GRACE_S[name]}
        assert not waits, f"{what}: rows wait beside idle GPUs ({waits})"
    elif decided(before, copied(before.memory)) == decided(before, {}):
        assert decided(after, copied(after.memory)) == decided(after, {}), f"{what}: a stale plan"


@pytest.mark.slow
@pytest.mark.parametrize("policy", DEFAULTS)
def test_a_change_counts_from_then_on(policy: str) -> None:
    """By turns in a scene of short jobs and one of long ones."""
    _check(policy, [4], each=1, changes=CHANGES[::2])
    _check(policy, [5], each=1, changes=CHANGES[1::2])


@pytest.mark.soak
@pytest.mark.parametrize("policy", DEFAULTS)
def test_a_change_counts_in_more_scenes(policy: str) -> None:
    _check(policy, range(8), each=1)


@pytest.mark.deep
@pytest.mark.parametrize("policy", [*DEFAULTS, *VARIANTS])
def test_a_change_counts_in_many_scenes(policy: str) -> None:
    _check(policy, range(8, 40), each=4)


def test_who_is_said_to_remember_is_a_policy() -> None:
    assert GRACE_S.keys() <= REMEMBERS.keys() <= set(DEFAULTS)


# -- a quota that is raised, and one that is lowered -----------------------------------------------


def _capped(most: float) -> Cluster:
    shapes = [NodeShape(4, 2, levels={"vc": "t"})]
    return Cluster.build(shapes, Tenants.of(Tenant("t", quota_gpus=most, hard=True)))


@cache
def _at_its_quota(policy: str) -> tuple[Scene, Frozen]:
    """A moment at which a tenant that asks for ten GPUs of eight has long been at its quota of four."""
    trace = trace_of("A 2x5000 B 2x5000 C 2x5000 D 2x5000 E 2x5000@1000", tenant=[0] * 5, tenant_names=("t",))
    scene = Scene(0, trace, _capped(4.0), Setting())
    moments = moments_of(policy, scene, 1000.0 + A_ROUND_S)
    return scene, next(one for one in moments if one.packed["state"]["now"] >= 1000.0)


def _quota_moved(policy: str, becomes: float) -> list[float]:
    """GPUs that are held a round after the quota has moved, and at each moment until then."""
    scene, moment = _at_its_quota(policy)
    loop, _ = goes_on(with_tenants(moment, _capped(becomes).tenants), scene)
    held = [float(sum(len(grant.devices) for grant in loop.state.grants.values()))]
    while loop.state.now < moment.packed["state"]["now"] + A_ROUND_S and loop.step():
        held.append(float(sum(len(grant.devices) for grant in loop.state.grants.values())))
    assert not loop.counts.refused
    return held


MODES = [
    "gandiva@tiresias",
    "gandiva@elasticflow",
    "tiresias@authors",
    "themis@elasticflow",
]


@pytest.mark.parametrize("policy", [*DEFAULTS, *MODES])
def test_a_quota_that_moves_counts_from_then_on(policy: str) -> None:
    """Raised, all GPUs are held within a round: of `prerun` one node is a pool, in which jobs hold one GPU.

    Lowered, who has more than that may keep it, and nothing is added until there is room.
    """
    raised, lowered = _quota_moved(policy, 8.0), _quota_moved(policy, 2.0)
    assert max(raised) >= (6.0 if policy == "prerun" else 8.0)
    assert lowered == sorted(lowered, reverse=True)
    assert raised[0] == lowered[0] == 4.0
