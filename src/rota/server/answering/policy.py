"""`rota policy`: which policy decides, and what its shadow would do otherwise."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota.model.units import format_duration
from rota.wire.views import PolicyView

if TYPE_CHECKING:
    from rota.server.scheduler import Scheduler
    from rota.server.store.store import Store

LINES = 10
"""So many sentences about the shadow are shown."""


def policy_view(scheduler: Scheduler, store: Store) -> PolicyView:
    """The policy in force, and its shadow."""
    rows = store.policies()
    real, shadow = rows["real"], rows.get("shadow")
    return PolicyView(
        policy=real.spec,
        since_s=scheduler.clock.epoch_unix_s + real.since_s,
        by=real.by,
        knowledge=dict(scheduler.settings.knowledge),
        decisions=scheduler.view.decisions,
        last_ms=None if scheduler.view.last_s is None else 1000.0 * scheduler.view.last_s,
        late=scheduler.view.late,
        trouble=scheduler.policy_trouble or scheduler.failing.replaced,
        shadow=shadow.spec if shadow else "",
        shadow_would=shadow_would(scheduler) if shadow else [],
    )


def shadow_would(scheduler: Scheduler) -> list[str]:
    """What the shadow would have done otherwise at the last moments, newest first, with their age."""
    host = scheduler.host
    if host is None or host.shadow is None:
        return []
    lines = [host.shadow.trouble] if host.shadow.trouble else []
    now = scheduler.clock()
    for moment in reversed(host.shadow_moments()):
        age = format_duration(max(round(now - moment.now), 0))
        lines += [f"{age} ago: {sentence}" for sentence in moment.would]
    return lines[:LINES]
