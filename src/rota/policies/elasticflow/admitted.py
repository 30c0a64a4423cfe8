"""Who was admitted before: a job is asked in once, however often it pauses after that."""

from __future__ import annotations

from rota.scheduler.decision import Memory
from rota.scheduler.snapshot import Snapshot


def admitted_before(snapshot: Snapshot, memory: Memory) -> set[int]:
    """Rows that are not refused any more; those of them that are held now are remembered as `paused`.

    Nobody sees a job while it pauses after a failure, or its user holds it.  To an empty memory all have been
    admitted that have run, by whatever policy.
    """
    if "rows" not in memory:
        starts_of = snapshot.by_row.starts_of
        return {row for row in snapshot.waiting.tolist() if starts_of[row]}
    rows = {*memory["rows"], *memory.pop("paused", ())}
    paused = sorted(row for row in rows if row in snapshot.held) if snapshot.held else []
    if paused:
        memory["paused"] = paused
    return rows
