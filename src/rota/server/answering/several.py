"""Why several jobs wait, in one question to the policy's process."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rota.server.answering.reasons import Words, hold_views
from rota.server.store.rows import JobRow
from rota.wire.views import ReasonView

if TYPE_CHECKING:
    from rota.server.scheduler import Scheduler
    from rota.server.store.store import Store


def reasons_of(scheduler: Scheduler, store: Store, rows: Sequence[JobRow]) -> dict[str, list[ReasonView]]:
    """By id, dominant first: of held jobs what holds them, of others what the policy says.  Raises Busy."""
    scheduler.standing.check()
    words, now, epoch_s = Words.of(scheduler.world), scheduler.clock(), scheduler.clock.epoch_unix_s
    held = [row for row in rows if row.now.hold]
    free = [row for row in rows if not row.now.hold]
    reasons: dict[str, list[ReasonView]] = {}
    for row in held:
        spec = store.spec(row.row)
        reasons[row.id] = hold_views(words, row, now, epoch_s, spec.after if spec else (), store)
    answers = scheduler.explain_all([row.row for row in free]) if free else {}
    for row in free:
        if row.row in answers:
            reasons[row.id] = [words.view(one) for one in answers[row.row].constraints]
    return reasons
