"""Why a job waits, or runs, where servers serve jobs by turns: its due, what it had, what is before it.

Read from the policy's memory when asked for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rota.model.reasons import Code, Constraint, names_of
from rota.scheduler.decision import Memory
from rota.scheduler.snapshot import Snapshot
from rota.stages.priority import ByPriority
from rota.stages.received import has_run
from rota.stages.turn_lengths import TurnLengths
from rota.table.occupancy import Occupancy

_BY_SUBMISSION = ByPriority(lambda snapshot, row: row)


class ByTurns:
    """The turns in `memory`: the job that has advanced least on its servers is the next."""

    spreads = _BY_SUBMISSION.spreads

    def __init__(self, memory: Memory, quantum_s: float) -> None:
        self.memory, self.quantum_s = memory, quantum_s
        self.due: Mapping[int, float] = memory["due"]
        self.passed: Mapping[int, float] = memory["passed"]
        self.parts: Mapping[int, Mapping[int, int]] = memory["parts"]
        self.ends_s: float = memory["ends_s"]

    def ahead(self, snapshot: Snapshot, row: int) -> Sequence[int]:
        """Waiting jobs of the same servers that have advanced less, then those that came earlier."""
        own = self._place(row)
        return [
            other
            for other in snapshot.waiting.tolist()
            if self._meet(row, other) and self._place(other) < own
        ]

    def fits(self, snapshot: Snapshot, scratch: Occupancy, row: int) -> bool:
        return _BY_SUBMISSION.fits(snapshot, scratch, row)

    def turn(self, snapshot: Snapshot, row: int) -> Constraint | None:
        """The state of a job whose servers serve by turns; None where no job there waits."""
        if row not in self.due:
            return None
        has_turn = row in snapshot.grants
        words = [self._share(snapshot, row)]
        if not has_turn:
            others = [other for other in snapshot.grants if other in self.due and self._meet(row, other)]
            ids = snapshot.jobs.table.ids
            before = names_of([ids[other] for other in sorted(others)])
            words.append(f"before it in this turn: {before}" if before else "its turn is not now")
        lengths = TurnLengths(snapshot, self.memory, self.quantum_s)
        ends_s = lengths.ends_s(row, self.ends_s) if has_turn else self.ends_s
        return Constraint(Code.TURN, float(has_turn), max(ends_s - snapshot.now, 0.0), "; ".join(words))

    def _share(self, snapshot: Snapshot, row: int) -> str:
        """`is to have 50% of the time on n0, by its tenant's tickets, and has run 40% of it so far`."""
        jobs = snapshot.jobs
        wanted = snapshot.gpus_of[row] * jobs.gpu_share.item(row)
        nodes = snapshot.cluster.node_names
        where = names_of([nodes[node] for node in sorted(self.parts.get(row, ()))])
        share = f"is to have {100 * min(self.due[row] / wanted, 1.0):.0f}% of the time"
        share += f" on {where}" if where else ""
        share += ", by its tenant's tickets"
        had = has_run(snapshot, row, "of it")
        return f"{share}, and {had}" if had else share

    def _place(self, row: int) -> tuple[float, int]:
        return self.passed.get(row, 0.0), row

    def _meet(self, one: int, other: int) -> bool:
        """True if both jobs belong to a common server."""
        mine, theirs = self.parts.get(one, {}), self.parts.get(other, {})
        return not mine.keys().isdisjoint(theirs.keys())
