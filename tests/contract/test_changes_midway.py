"""What somebody changes while jobs run (quotas, weights, deadlines, priorities, nodes) counts from then on.

Every policy goes on with what it remembers.  Whatever that is, no decision is refused, so that no quota is
exceeded and nothing is planned on what is gone, and everybody ends who would have ended.  And it decides as
one that begins afresh at that moment, unless it remembers what has to go on: `REMEMBERS` says what.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import cache
from random import Random

import pytest

from changed_moments import CHANGES, changed, decided, goes_on, live_rows, moments_of
from play import trace_of
from rota.forecast.altered import with_tenants
from rota.model.cluster import Cluster, NodeShape
from rota.model.tenants import Tenant, Tenants
from rota.scheduler.moments.frozen import Frozen
from rota.scheduler.moments.values import copied
from rota.scheduler.policy import systems
from rota.testing import make_scene, variants
from rota.testing.scenes import Scene
from rota.worlds.simulated.run import Setting

DEFAULTS = list(systems())
VARIANTS = [variant for name in systems() for variant in variants(name)[1:]]
REMEMBERS = {
    "elasticflow": "promises: who was admitted is planned for the deadline it was promised, or has now",
    "gandiva": "who belongs on which servers and is next there, which jobs were parted, where turns end",
    "gandiva_fair": "who belongs on which servers, and what each has received short of its part",
    "gavel": "what each has received beside its fraction since fractions were computed",
    "philly": "how many attempts each has made, at which level of locality, and when the next is",
    "pollux": "the allocations among which it searches on, and its random state",
    "prerun": "who has had its first run",
    "themis": "when leases end, who won when GPUs were handed out last, how often chance was asked",
    "hived": "which virtual GPUs of its tenant stand for those that a job holds",
}
"""What some remember, that is in the memory alone, and a change of terms does not undo."""
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


def _check(policy: str, seeds: Iterable[int], each: int) -> None:
    for seed in seeds:
        scene, moments = _played(policy, seed)
        for change in CHANGES:
            draw = Random(f"{policy} {seed} {change}")
            for before in draw.sample(moments, min(each, len(moments))):
                _look(scene, before, changed(before, change, draw), f"{change} in scene {seed}")


def _look(scene: Scene, before: Frozen, after: Frozen, what: str) -> None:
    """Whether `after` is `before` with something changed, and the policy minds it."""
    what = f"{what} at {before.packed['state']['now']:g} s"
    loop, recorder = goes_on(after, scene)
    loop.run()
    assert not loop.counts.refused, f"{what}: a decision is refused ({loop.state.refused})"
    left = live_rows(after) - recorder.ends.keys()
    if left:
        as_it_was, anyway = goes_on(before, scene)
        as_it_was.run()
        assert not left & anyway.ends.keys(), f"{what}: never ends"
    if before.policy.partition(":")[0] in REMEMBERS:
        return
    if decided(before, copied(before.memory)) == decided(before, {}):
        assert decided(after, copied(after.memory)) == decided(after, {}), f"{what}: a stale plan"


@pytest.mark.slow
@pytest.mark.parametrize("policy", DEFAULTS)
def test_a_change_counts_from_then_on(policy: str) -> None:
    _check(policy, range(4, 6), each=1)


@pytest.mark.soak
@pytest.mark.parametrize("policy", DEFAULTS)
def test_a_change_counts_in_more_scenes(policy: str) -> None:
    _check(policy, range(8), each=2)


@pytest.mark.deep
@pytest.mark.parametrize("policy", [*DEFAULTS, *VARIANTS])
def test_a_change_counts_in_many_scenes(policy: str) -> None:
    _check(policy, range(8, 40), each=4)


def test_who_is_said_to_remember_is_a_policy() -> None:
    assert REMEMBERS.keys() <= set(DEFAULTS)


# -- a quota that is raised, and one that is lowered -----------------------------------------------


def _capped(most: float) -> Cluster:
    shapes = [NodeShape(4, 2, levels={"vc": "t"})]
    return Cluster.build(shapes, Tenants.of(Tenant("t", quota_gpus=most, hard=True)))


def _quota_moved(policy: str, was: float, becomes: float) -> list[float]:
    """GPUs that are held a round after the quota has moved, and at each moment until then."""
    trace = trace_of("A 2x5000 B 2x5000 C 2x5000 D 2x5000 E 2x5000@1000", tenant=[0] * 5, tenant_names=("t",))
    scene = Scene(0, trace, _capped(was), Setting())
    moment = next(one for one in moments_of(policy, scene) if one.packed["state"]["now"] >= 1000.0)
    loop, _ = goes_on(with_tenants(moment, _capped(becomes).tenants), scene)
    held = [float(sum(len(grant.devices) for grant in loop.state.grants.values()))]
    while loop.state.now < moment.packed["state"]["now"] + A_ROUND_S and loop.step():
        held.append(float(sum(len(grant.devices) for grant in loop.state.grants.values())))
    assert not loop.counts.refused
    return held


MODES = [
    "gandiva:mode=tiresias",
    "gandiva:mode=elasticflow",
    "tiresias:mode=artifact",
    "themis:mode=artifact",
]


@pytest.mark.parametrize("policy", [*DEFAULTS, *MODES])
def test_who_may_run_once_a_quota_is_raised_does(policy: str) -> None:
    """Within a round all GPUs are held; of `prerun` one node is a pool, in which jobs hold one GPU."""
    assert max(_quota_moved(policy, 2.0, 8.0)) >= (6.0 if policy == "prerun" else 8.0)


@pytest.mark.parametrize("policy", [*DEFAULTS, *MODES])
def test_nobody_comes_to_a_quota_that_was_lowered(policy: str) -> None:
    """Who has more than that may keep it; nothing is added until there is room."""
    held = _quota_moved(policy, 6.0, 2.0)
    assert held == sorted(held, reverse=True)
