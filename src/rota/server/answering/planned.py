"""How a deadline is to be kept, as `rota why` and `rota show` tell it: by the last decision of the policy."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from rota.errors import RotaError
from rota.server.store.rows import JobRow
from rota.server.views import is_over
from rota.wire.views import JobView, PlannedSlotView, PlanView

if TYPE_CHECKING:
    from rota.server.scheduler import Scheduler


def plan_of(scheduler: Scheduler, row: JobRow) -> PlanView | None:
    """How the deadline of a job is to be kept; None without one, or where the policy has no plan for it."""
    asked = row.asked
    if row.now.hold or (asked.deadline_s is None and not asked.deadlines):
        return None
    try:
        plan = scheduler.explain(row.row).plan
    except RotaError:  # it is deciding: the plan would be another one in a moment
        return None
    if plan is None or not math.isfinite(plan.due_s):
        return None
    epoch_s = scheduler.clock.epoch_unix_s
    slots = [
        PlannedSlotView(from_s=epoch_s + slot.from_s, to_s=epoch_s + slot.to_s, gpus=slot.gpus)
        for slot in plan.slots
    ]
    slack_s = plan.slack_s if math.isfinite(plan.slack_s) else None
    return PlanView(due_s=epoch_s + plan.due_s, slots=slots, slack_s=slack_s)


def as_planned_now(scheduler: Scheduler, row: JobRow, view: JobView) -> JobView:
    """`view` with the end that is planned now in place of the one that was told last."""
    if view.promised_s is None or is_over(view.state):
        return view
    plan = plan_of(scheduler, row)
    if plan is None:
        return view
    return view.model_copy(update={"expected_s": plan.slots[-1].to_s if plan.slots else None})
