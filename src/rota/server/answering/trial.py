"""A policy that is to decide from now on decides once upon the present moment, in a process of its own."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from rota.errors import InputError, PolicyError, RotaError
from rota.server.answering.estimator import Estimator
from rota.server.answering.gathering import gather
from rota.server.answering.questions import AskTrial, Looking
from rota.server.refusals import Busy

if TYPE_CHECKING:
    from rota.server.scheduler import Scheduler

log = logging.getLogger(__name__)
BUDGET_S = 5.0


def try_policy(scheduler: Scheduler, estimator: Estimator, policy: str) -> None:
    """Raises InputError with the sentence of a policy that fails, Busy if it takes too long.

    Where there is no moment to try it on, since the policy in force is in trouble itself, it is not tried:
    another one may be the way out.
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
