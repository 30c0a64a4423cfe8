"""What a turn of the scheduler has changed, told to those who wait for it and to the counters."""

from __future__ import annotations

from rota.server.metrics import Metrics
from rota.server.turning import TurnChanges
from rota.server.waiting import CommandOutcomes, Notifier


class Announcer:
    """Called by the scheduler's thread after each turn, once it is on record."""

    def __init__(self, notifier: Notifier, outcomes: CommandOutcomes, metrics: Metrics) -> None:
        self._notifier, self._outcomes, self._metrics = notifier, outcomes, metrics

    def __call__(self, turn: TurnChanges) -> None:
        """Wake who waits, count what happened."""
        self._notifier.notify([("job", row) for row in turn.jobs])
        for seq, outcome in turn.done:
            self._outcomes.tell(seq, outcome)
        metrics = self._metrics
        for submitted_s, started_s in turn.started:
            metrics.submit_to_start_seconds.observe(max(0.0, started_s - submitted_s))
        for reason in turn.preempted:
            metrics.preemptions.labels(reason).inc()
        metrics.attempts_lost.inc(turn.lost)
        if turn.decided_s is not None:
            metrics.decision_seconds.observe(turn.decided_s)
            metrics.decisions.labels(turn.outcome).inc()
