"""A hard quota of one tenant keeps nobody else waiting beside idle GPUs, under every registered policy.

After each decision it is looked who waits: a job that would fit, whose tenant has room in its quota, and for
which nothing was reserved, has been passed over for somebody who could not have the GPUs.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import pytest

from idle_beside import waits_beside_idle
from play import trace_of
from rota.model.cluster import Cluster, NodeShape
from rota.model.tenants import Tenant, Tenants
from rota.model.trace import Trace
from rota.scheduler.decision import Decision, Memory
from rota.scheduler.policy import Policy, parse_policy, systems
from rota.scheduler.snapshot import Snapshot
from rota.testing.subject import Watched
from rota.worlds.simulated.run import Setting, prepare
from tiers import each_seed, in_turns

STRICT = {
    "fifo": "fifo:skip=yes",
    "elan": "elan:backfill=yes",
    "sjf": "sjf:skip=yes",
    "partition": "partition:policy=las",
}
"""In these nobody passes by who stands first, whatever keeps it, unless they are told otherwise."""
RESERVES = {"prerun": "its pool is kept for first runs, however long nobody comes"}
"""They keep GPUs idle for good on purpose."""
GRACE_S = {
    "chronus": 300.0,
    "gandiva": 180.0,
    "gandiva_fair": 660.0,
    "philly": 301.0,
    "synergy": 301.0,
}
"""For how long one of them may let a job wait so, for it is asked before it may do anything about it.

Leases begin at the end of a slot; three turns of a server, on which jobs wait that belong to others; a turn
after a move, and nobody is moved again within ten minutes; an attempt and the pause behind it; a round.
"""
POLICIES = [STRICT.get(name, name) for name in systems() if name not in RESERVES]
MORE = [
    "afs:lengths=no",
    "optimus:event_driven=yes",
    "optimus@pollux",
    "sia@authors",
    "sia@fixed",
    "elasticflow:refuse=no",
]
"""Others that divide the cluster between several jobs at once."""
PATHS = ("t/a", "t/b", "t/b/x", "t/c")
Who = tuple[float, int]


def _cluster(nodes: int, gpus: int, **quotas: float) -> Cluster:
    """Nodes of which all tenants below `t` may have some; `b_x` is the tenant `t/b/x`."""
    paths = {name: "/".join(("t", *name.split("_"))) if name != "t" else "t" for name in quotas}
    tenants = (Tenant(paths[name], quota_gpus=float(most), hard=True) for name, most in quotas.items())
    return Cluster.build([NodeShape(nodes, gpus, levels={"vc": "t"})], Tenants.of(*tenants))


def passed_over(policy: str, trace: Trace, cluster: Cluster) -> list[Who]:
    """Moments and rows of those who wait longer than the policy may let them."""
    is_asked = False

    def around(inner: Policy, snapshot: Snapshot, memory: Memory) -> Decision:
        nonlocal is_asked
        is_asked = True
        return inner.decide(snapshot, memory)

    watched = Watched(parse_policy(policy).make(), around)
    loop, _ = prepare(watched, trace, cluster, Setting())
    grace_s, since_s, found = GRACE_S.get(policy.partition(":")[0], 0.0), dict[int, float](), list[Who]()
    goes_on = True
    while goes_on:
        is_asked = False
        goes_on = loop.step()
        if not is_asked:
            continue
        now, idle = loop.state.now, waits_beside_idle(loop)
        since_s = {row: since_s.get(row, now) for row in sorted(idle)}
        found += [(now, row) for row, begun_s in since_s.items() if now >= begun_s + grace_s]
    return found


def _trace(jobs: str, tenants: Sequence[str], **columns: Sequence[int]) -> Trace:
    return trace_of(jobs, tenant=[PATHS.index(one) for one in tenants], tenant_names=PATHS, **columns)


SMALLEST = {
    "two of a tenant that may run one": (
        _trace("A 2x450 B 2x450 C 2x450", ["t/a", "t/a", "t/c"]),
        _cluster(1, 4, a=2),
    ),
    "a quota above that of the tenant": (
        _trace("A 2x450 B 2x450 C 2x450", ["t/b/x", "t/b", "t/c"]),
        _cluster(1, 4, b=3),
    ),
    "a quota below that of its parent": (
        _trace("A 1x450 B 2x450 C 1x450", ["t/b/x", "t/b/x", "t/b"]),
        _cluster(1, 3, b=3, b_x=1),
    ),
    "more asked for than the quota": (
        _trace("A 4x450 B 4x450", ["t/a", "t/c"], gpus_min=[1, 4], gpus_max=[4, 4]),
        _cluster(2, 4, a=2),
    ),
    "a smaller one on a server that two of a tenant share": (
        _trace("A 2x450 B 2x450 C 1x450", ["t/a", "t/a", "t/c"]),
        _cluster(1, 4, a=2),
    ),
    "who has run gives way to nobody of its own": (
        _trace("A 1x200 B 1x450 C 1x450 D 1x450", ["t/a", "t/a", "t/a", "t/c"]),
        _cluster(1, 2, a=1),
    ),
}


@pytest.mark.parametrize(("policy", "what"), in_turns(3, POLICIES, SMALLEST))
def test_smallest_scenes(policy: str, what: str) -> None:
    assert not passed_over(policy, *SMALLEST[what])


@pytest.mark.soak
@pytest.mark.parametrize("policy", MORE)
def test_smallest_scenes_of_variants(policy: str) -> None:
    for what, (trace, cluster) in SMALLEST.items():
        assert not passed_over(policy, trace, cluster), what


def _scene(seed: int) -> tuple[Trace, Cluster]:
    """Some jobs, elastic ones among them, of four tenants of whom one to all have hard quotas."""
    draw = Random(f"hard quotas {seed}")
    nodes, each = draw.choice([(1, 4), (2, 2), (2, 4), (1, 8)])
    gpus, jobs, sizes = nodes * each, list[str](), list[tuple[int, int]]()
    for number in range(draw.randint(5, 10)):
        size, submit_s = (
            min(draw.choice([1, 1, 2, 2, 4]), gpus),
            draw.choice([0, 0, 0, draw.randint(1, 3000)]),
        )
        jobs.append(f"j{number} {size}x{draw.randrange(300, 9000)}@{submit_s}")
        is_elastic = draw.random() < 0.4
        most = min(gpus, size * draw.choice([2, 4])) if is_elastic else size
        sizes.append((draw.choice([1, size]) if is_elastic else size, most))
    quotas = {"a": draw.randint(1, gpus // 2)}
    for name, chance, least in (("b", 0.6, 1), ("b_x", 0.4, 1), ("t", 0.3, gpus - 1)):
        if draw.random() < chance:
            quotas[name] = draw.randint(least, gpus)
    least, most = zip(*sizes, strict=True)
    owners = [draw.choice(PATHS) for _ in jobs]
    return _trace(" ".join(jobs), owners, gpus_min=least, gpus_max=most), _cluster(nodes, each, **quotas)


@pytest.mark.slow
@each_seed(0, 3, 60)
@pytest.mark.parametrize("policy", [*POLICIES, *MORE])
def test_no_quota_keeps_others_waiting(policy: str, seed: int) -> None:
    assert not passed_over(policy, *_scene(seed))


GROWING = {
    "afs": 8,
    "afs:lengths=no": 8,
    "elan": 8,
    "optimus": 8,
    "optimus@pollux": 8,
    "pollux": 8,
    "sia": 8,
}
GROWING |= {"elasticflow": 5, "edf:size=most": 8, "edf:size=fastest": 8}
"""GPUs of eight that are held; ElasticFlow gives powers of two."""


@pytest.mark.parametrize("policy", GROWING)
def test_what_a_quota_withholds_lets_others_grow(policy: str) -> None:
    """A may have one GPU, though it could use eight; B could as well, and has what is left."""
    trace = _trace("A 1x9000 B 1x9000", ["t/b/x", "t/c"], gpus_min=[1, 1], gpus_max=[8, 8])
    loop, _ = prepare(parse_policy(policy).make(), trace, _cluster(1, 8, b=1), Setting())
    loop.run(700.0)
    assert sum(len(grant.devices) for grant in loop.state.grants.values()) == GROWING[policy]
