"""Jobs admitted before: a job is asked in once, however often it pauses or its deadline is moved."""

from __future__ import annotations

import math
from collections.abc import Sequence

from rota.model.promises import TOLERANCE_S
from rota.scheduler.decision import Memory
from rota.scheduler.snapshot import Snapshot
from rota.systems.elasticflow.asks import ShareAsk
from rota.systems.elasticflow.promises import Planner, aimed


def admitted_before(snapshot: Snapshot, memory: Memory) -> set[int]:
    """Rows that are not refused any more; the held ones among them are remembered as `paused`.

    No policy sees a job while it pauses after a failure, or its user holds it.  If the memory is empty, all
    jobs that have run count as admitted, whichever policy ran them.
    """
    if "rows" not in memory:
        starts_of = snapshot.by_row.starts_of
        return {row for row in snapshot.waiting.tolist() if starts_of[row]}
    rows = {*memory["rows"], *memory.pop("paused", ())}
    paused = sorted(row for row in rows if row in snapshot.held) if snapshot.held else []
    if paused:
        memory["paused"] = paused
    return rows


def promised_before(ask: ShareAsk, due: float, slot_s: float, *, is_late: bool = False) -> ShareAsk:
    """`ask` with the deadline that it was promised, even if that was moved and is not its own any more.

    A job that asks for no deadline any more has no promise.
    """
    if due == math.inf or not ask.dues:
        return ask
    ask = ask._replace(is_late=is_late)
    near = min(range(len(ask.dues)), key=lambda place: abs(ask.dues[place] - due))
    is_own = abs(ask.dues[near] - due) * slot_s <= TOLERANCE_S
    return aimed(ask, near) if is_own else ask._replace(due=due)


def promised_anew(planner: Planner, standing: Sequence[ShareAsk]) -> list[ShareAsk]:
    """`standing`, in which all jobs that lack a promise have one if it breaks no other.

    They lack one because their deadline was moved, or could not be promised when they came, or because a
    promise was broken.  If it would break another, earlier promises stand as they were, and these jobs are
    tried again at the next decision.
    """
    asks = list(standing)
    for place, ask in enumerate(standing):
        lacks = ask.dues and (ask.is_late or ask.due not in ask.dues)
        if lacks and planner.could_keep(ask):
            others = [other for other in asks if other.row != ask.row and other.due < math.inf]
            accepted, _ = planner.admit(others, [ask._replace(is_late=False)])
            asks[place : place + 1] = accepted or [ask]
    return asks


def not_promised(ask: ShareAsk, *, was_promised: bool) -> ShareAsk:
    """`ask`, whose deadlines cannot be kept beside those of others, where it stays nevertheless.

    It has what others leave: as a job with a broken promise if it had one, else as one without a deadline.
    """
    return ask._replace(is_late=True) if was_promised else ask._replace(due=math.inf)
