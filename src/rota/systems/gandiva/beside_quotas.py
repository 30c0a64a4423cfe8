"""GPUs of a home that hard quotas leave idle, since they keep jobs that belong there from running together.

Whoever else would have to wait, or to take turns, belongs there too: it runs beside them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rota.scheduler.snapshot import Snapshot
from rota.systems.gandiva.server_group import EPSILON, ServerGroup, members
from rota.systems.gandiva.server_groups import ServerGroups, can_hold

DemandOf = Callable[[int], float]
"""GPUs that a row asks for."""


def home_beside_quotas(
    snapshot: Snapshot, homes: ServerGroups, row: int, size: int, accepts: Sequence[int]
) -> int:
    """The least loaded home where quotas leave enough idle for `row`; -1 if there is none."""
    demand, best = homes.demand_of(row), (float("inf"), -1)
    for key, home in homes.homes.items():
        load = home["demand"] / home["gpus"] if home["circle"] else float("inf")
        is_better = (load, key) < best and can_hold(home, size, accepts)
        if is_better and idle_by_quotas(snapshot, home, homes.demand_of) >= demand - EPSILON:
            best = load, key
    return best[1]


def idle_by_quotas(snapshot: Snapshot, home: ServerGroup, demand_of: DemandOf) -> float:
    """What nobody of the home can use at once; 0 if quotas keep none of them.

    Where gangs leave more of their quota unused, it is what is idle in the turn under way.
    """
    jobs, asked, rows = snapshot.jobs.table, dict[str, float](), members(home)
    for row in rows:
        name = jobs.name_of("tenant", row)
        asked[name] = asked.get(name, 0.0) + demand_of(row)
    at_once = snapshot.cluster.tenants.most_at_once(asked)
    if at_once >= home["demand"] - EPSILON:
        return 0.0
    idle, held = home["gpus"] - at_once, snapshot.grants
    if any(row in held for row in rows):
        free = snapshot.occupancy.free.count
        idle = max(idle, float(sum(free[node] for node in home["nodes"])))
    return idle
