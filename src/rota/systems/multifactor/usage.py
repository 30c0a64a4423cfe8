"""What each tenant has used, the past counting less and less: GPU-seconds that halve with a half-life.

Memory    `at_s`   moment of the last decision
          `used`   decayed GPU-seconds of each tenant at that moment
          `holds`  GPUs (times share) that each tenant held from that moment on
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from rota.model.grants import Grant
from rota.scheduler.decision import Memory
from rota.scheduler.snapshot import Snapshot


def bring_up(memory: Memory, now: float, half_life_s: float) -> dict[str, float]:
    """Decayed GPU-seconds of each tenant at `now`, by name; noted in `memory`."""
    since_s = now - memory.get("at_s", now)
    left = 0.5 ** (since_s / half_life_s)
    fresh_s = half_life_s / math.log(2.0) * (1.0 - left)
    used: dict[str, float] = memory.get("used", {})
    holds: Mapping[str, float] = memory.get("holds", {})
    used = {
        name: used.get(name, 0.0) * left + holds.get(name, 0.0) * fresh_s for name in sorted({*used, *holds})
    }
    memory["at_s"], memory["used"] = now, used
    return used


def held_by(snapshot: Snapshot, grants: Iterable[Grant]) -> dict[str, float]:
    """GPUs (times share) that each tenant holds by `grants`."""
    holds: dict[str, float] = {}
    for grant in grants:
        name = snapshot.jobs.table.name_of("tenant", grant.job)
        holds[name] = holds.get(name, 0.0) + len(grant.devices) * grant.share
    return holds
