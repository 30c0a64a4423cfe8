"""What a turn of the scheduler has changed, told to those who wait for it and to the counters."""

from __future__ import annotations

from rota.server.metrics import Metrics
from rota.server.notifying import Notices
from rota.server.turning import TurnChanges
from rota.server.waiting import CommandOutcomes, Notifier


class Announcer:
    """Called by the scheduler's thread after each turn, once it is on record."""

    def __init__(
        self, notifier: Notifier, outcomes: CommandOutcomes, metrics: Metrics, notices: Notices
    ) -> None:
        self._notifier, self._outcomes, self._metrics = notifier, outcomes, metrics
        self._notices = notices

    def __call__(self, turn: TurnChanges) -> None:
        """Wake who waits, count what happened."""
        self._notifier.notify([("job", row) for row in turn.jobs])
        for seq, outcome in turn.done:
            self._outcomes.tell(seq, outcome)
        for row, how in turn.taken:
            self._notices.preempted(row, how, turn.at_s)
        for row, text in turn.idle:
            self._notices.idle(row, text, turn.at_s)
        for row, job in turn.jobs.items():
            if job.is_over and not job.living:
                self._notices.ended(row, job.state, turn.at_s if job.finish_s is None else job.finish_s)
        metrics = self._metrics
        for submitted_s, started_s in turn.started:
            metrics.submit_to_start_seconds.observe(max(0.0, started_s - submitted_s))
        for reason in turn.preempted:
            metrics.preemptions.labels(reason).inc()
        metrics.attempts_lost.inc(turn.lost)
        if turn.decided_s is not None:
            metrics.decision_seconds.observe(turn.decided_s)
            metrics.decisions.labels(turn.outcome).inc()
