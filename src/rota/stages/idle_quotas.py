"""GPUs that hard quotas leave idle, since they keep jobs that share some nodes from running together."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rota.scheduler.snapshot import Snapshot

EPSILON = 1e-9


def idle_by_quotas(
    snapshot: Snapshot,
    rows: Sequence[int],
    nodes: Sequence[int],
    gpus: int,
    demand_of: Callable[[int], float],
) -> float:
    """GPUs that the jobs `rows` cannot use at once of the `gpus` that `nodes` have; 0 if quotas keep none.

    `demand_of` gives the GPUs that a row asks for.  Where gangs leave more of their quota unused, these are
    the GPUs that are idle at present.
    """
    jobs, asked = snapshot.jobs.table, dict[str, float]()
    for row in rows:
        name = jobs.name_of("tenant", row)
        asked[name] = asked.get(name, 0.0) + demand_of(row)
    at_once = snapshot.cluster.tenants.most_at_once(asked)
    if at_once >= sum(asked.values()) - EPSILON:
        return 0.0
    idle, held = gpus - at_once, snapshot.grants
    if any(row in held for row in rows):
        free = snapshot.occupancy.free.count
        idle = max(idle, float(sum(free[node] for node in nodes)))
    return idle
