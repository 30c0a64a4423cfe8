"""`rota policy`: the policy in force and its shadow; a trial decision before another takes over."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from rota.errors import InputError, PolicyError, RotaError
from rota.model.units import format_duration
from rota.server.answers.estimator import Estimator
from rota.server.answers.present_moment import gather
from rota.server.answers.questions import AskTrial, Looking
from rota.server.refusals import Busy
from rota.wire.views import PolicyView

if TYPE_CHECKING:
    from rota.server.scheduler import Scheduler
    from rota.server.store.store import Store

LINES = 10
"""Most sentences shown about the shadow."""
BUDGET_S = 5.0
"""Seconds that a trial decision may take."""
log = logging.getLogger(__name__)


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
    """How the shadow's last decisions differ from the real ones, newest first, with their age."""
    host = scheduler.host
    if host is None or host.shadow is None:
        return []
    lines = [host.shadow.trouble] if host.shadow.trouble else []
    now = scheduler.clock()
    for moment in reversed(host.shadow_moments()):
        age = format_duration(max(round(now - moment.now), 0))
        lines += [f"{age} ago: {sentence}" for sentence in moment.would]
    return lines[:LINES]


def try_policy(scheduler: Scheduler, estimator: Estimator, policy: str) -> None:
    """Let `policy` decide once about the present moment, in a process of its own.

    Raises InputError with the sentence of a policy that fails, Busy if it takes too long.  If the policy in
    force is itself in trouble, there is no moment to try another one on, and the trial is skipped.
    """
    try:
        looking = Looking(gather(scheduler), budget_s=BUDGET_S)
    except (Busy, PolicyError) as error:
        log.info("policy %s is not tried: %s", policy, error)
        return
    try:
        estimator.ask(AskTrial(looking, policy), BUDGET_S)
    except Busy as error:
        raise Busy(f"policy {policy!r} is not accepted, since it did not decide on trial: {error}") from None
    except RotaError as error:
        raise InputError(f"policy {policy!r} fails at the present moment: {error}") from None
