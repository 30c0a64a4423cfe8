"""Moments of a run at which somebody changes what it rests on, and how the run goes on from there.

A live cluster does so on `rota update` and `rota tenants apply`: its loop is built anew around what the
policy remembers, and the policy is asked at once.
"""

from __future__ import annotations

import math
from dataclasses import replace
from random import Random

import numpy as np

from rota.forecast.altered import with_gpus, with_tenants
from rota.forecast.fork import ForkRecorder, Origin, fork
from rota.forecast.held import waits_of
from rota.model.columns import read_only
from rota.model.tenants import Tenant, Tenants
from rota.scheduler.decision import Decision, Event, Memory
from rota.scheduler.loop import Loop
from rota.scheduler.moments.frozen import Frozen, freeze
from rota.scheduler.moments.packing import unpack_cluster
from rota.scheduler.policy import Policy, parse_policy
from rota.scheduler.snapshot import Snapshot
from rota.table.state import Phase
from rota.testing.scenes import Scene
from rota.worlds.simulated.run import prepare

CHANGES = ("quota", "share", "deadline", "priority", "weight", "nodes")
"""Of a tenant its quota or its weight, of jobs the others, or more nodes."""
ANYTHING = int(Event.ARRIVAL | Event.END | Event.FAILURE | Event.CAPACITY)
"""Why a policy is asked once its loop has been built anew."""


class Tap:
    """Keeps what `inner` is shown whenever somebody runs and somebody waits."""

    def __init__(self, inner: Policy, name: str) -> None:
        self.inner, self.name, self.needs = inner, name, inner.needs
        self.moments: list[Frozen] = []

    def decide(self, snapshot: Snapshot, memory: Memory) -> Decision:
        if snapshot.waiting_count and snapshot.grants:
            self.moments.append(freeze(snapshot, memory, self.name))
        return self.inner.decide(snapshot, memory)


def moments_of(policy: str, scene: Scene, until_s: float = math.inf) -> list[Frozen]:
    """Those of a run under `policy` at which something may be changed, as far as that goes."""
    tap = Tap(parse_policy(policy).make(), policy)
    prepare(tap, scene.trace, scene.cluster, scene.setting)[0].run(until_s)
    return tap.moments


def changed(moment: Frozen, change: str, draw: Random) -> Frozen:
    """The moment with some of it changed; no quota becomes one that keeps anybody for ever."""
    packed = moment.packed
    if change == "nodes":
        sizes = [gpus for gpus in unpack_cluster(packed["cluster"]).node_gpus.tolist() if gpus]
        return replace(
            moment, packed=with_gpus(packed, max(sizes, key=lambda gpus: (sizes.count(gpus), gpus)))
        )
    if change in ("quota", "share"):
        return with_tenants(moment, _other_tenants(moment, change, draw))
    name = {"deadline": "deadline_s"}.get(change, change)
    column, now = packed["jobs"][name].copy(), packed["state"]["now"]
    for row in range(len(column)):
        if draw.random() < 0.5:
            column[row] = {
                "deadline": now + draw.randint(1, 900),
                "priority": draw.randint(0, 9),
                "weight": draw.choice([0.2, 1.0, 5.0]),
            }[change]
    return replace(moment, packed={**packed, "jobs": {**packed["jobs"], name: read_only(column)}})


def _other_tenants(moment: Frozen, change: str, draw: Random) -> Tenants:
    jobs, before = moment.packed["jobs"], unpack_cluster(moment.packed["cluster"]).tenants.by_path
    path = draw.choice([*before, *jobs["tenant_names"]])
    old = before.get(path) or Tenant(path)
    if change == "share":
        return Tenants({**before, path: replace(old, weight=draw.choice([0.2, 5.0]))})
    owners = np.array([f"{jobs['tenant_names'][code]}/".startswith(path + "/") for code in jobs["tenant"]])
    least = max([1, *jobs["gpus"][owners].tolist()])
    quota = draw.choice([least, least + 1, math.inf])
    return Tenants({**before, path: replace(old, hard=True, quota_gpus=float(quota), quota_by_type={})})


def goes_on(moment: Frozen, scene: Scene) -> tuple[Loop, ForkRecorder]:
    """The loop that goes on from the moment under its policy, which remembers, asked at once."""
    total_s = scene.trace.truth.duration_s[: moment.packed["state"]["submitted"]]
    return fork(
        Origin(moment.packed, waits_of(moment.packed, None)),
        parse_policy(moment.policy).make(),
        total_s,
        total_s,
        memory=moment.memory,
        cause=ANYTHING,
        seed=moment.packed["seed"],
    )


def live_rows(moment: Frozen) -> set[int]:
    """Jobs that have been submitted and are not over."""
    state = moment.packed["state"]
    phase = state["phase"][: state["submitted"]].tolist()
    return {row for row, one in enumerate(phase) if one < Phase.COMPLETED}


def decided(moment: Frozen, memory: Memory) -> object:
    """Who gets what, and who leaves, by the policy of the moment with this memory."""
    policy = parse_policy(moment.policy).make()
    snapshot = replace(moment, packed={**moment.packed, "cause": ANYTHING}).snapshot(policy.needs)
    decision = policy.decide(snapshot, memory)
    grants = sorted((grant.job, grant.devices, grant.share) for grant in decision.grants)
    return grants, sorted(decision.preempt), sorted(decision.reject)
