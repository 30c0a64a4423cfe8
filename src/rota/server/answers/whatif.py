"""`rota whatif`: start and finish of every live job under other policies, or on more devices."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rota.knowledge.registry import Where, kinds
from rota.scheduler.policy import parse_policy
from rota.server.answers.estimator import Estimator
from rota.server.answers.present_moment import gather
from rota.server.answers.questions import AskFutures, Looking
from rota.server.api.forms import Question
from rota.server.policy.messages import check_policy
from rota.wire.views import ForecastRow, WhatIf

if TYPE_CHECKING:
    from rota.server.scheduler import Scheduler

BUDGET_S = 10.0
_SUMMARY = ("mean_wait_s", "mean_jct_s", "makespan_s", "preemptions", "endless", "samples")


def whatif(scheduler: Scheduler, estimator: Estimator, question: Question) -> WhatIf:
    """Both sides; the policy in force is `now`, also if the question names it."""
    began = time.monotonic()
    own = scheduler.view.policy.spec if scheduler.view.policy is not None else ""
    named = [str(check_policy(text, kinds(Where.LIVE))) for text in question.policies]
    others = [text for text in dict.fromkeys(named) if not own or text != str(parse_policy(own))]
    looking = Looking(
        gather(scheduler),
        source=question.duration,
        budget_s=BUDGET_S,
        seed=question.seed,
        extra_gpus=question.gpus,
    )
    futures = estimator.ask(AskFutures(looking, tuple(others)), BUDGET_S)
    epoch_s = scheduler.clock.epoch_unix_s
    return WhatIf(
        rows=[_row(epoch_s, one["label"], job) for one in futures["policies"] for job in one["jobs"]],
        summary=[
            {"policy": one["label"], **{name: _plain(one[name]) for name in _SUMMARY}}
            for one in futures["policies"]
        ],
        basis=futures["basis"],
        took_s=time.monotonic() - began,
        note=futures["note"],
    )


def _row(epoch_s: float, label: str, job: Mapping[str, Any]) -> ForecastRow:
    (start, start_low, start_high), (finish, finish_low, finish_high) = (
        [None if moment is None else epoch_s + moment for moment in job[name]] for name in ("start", "finish")
    )
    return ForecastRow(
        job=job["id"],
        policy=label,
        start_s=start,
        finish_s=finish,
        start_low_s=start_low,
        start_high_s=start_high,
        finish_low_s=finish_low,
        finish_high_s=finish_high,
    )


def _plain(value: Any) -> Any:
    """JSON has no NaN."""
    return None if isinstance(value, float) and not math.isfinite(value) else value
