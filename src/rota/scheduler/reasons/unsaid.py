"""The reason for a job that nothing keeps waiting but a rule of its policy."""

from __future__ import annotations

from rota.model.reasons import Code, Constraint
from rota.scheduler.decision import Decision
from rota.scheduler.snapshot import Snapshot

UNSAID = Constraint(Code.POLICY, detail="could start, and the policy gives no reason why it does not")


def unsaid(snapshot: Snapshot, decision: Decision) -> Constraint:
    """Nothing binds: the job waits by a rule of the policy's, or for it to come round."""
    if decision.otherwise is not None:
        return decision.otherwise
    if decision.wake.at_s < float("inf"):
        return Constraint(Code.ROUND, provided=max(decision.wake.at_s - snapshot.now, 0.0))
    return UNSAID
