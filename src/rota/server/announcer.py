"""Reports changes of a scheduler's turn to waiting callers, browsers, hooks and counters."""

from __future__ import annotations

from collections.abc import Callable

from rota.server.commands import CommandOutcomes
from rota.server.dashboard.feed import Feed
from rota.server.hooks.notices import Notices
from rota.server.metrics import Metrics
from rota.server.turn import TurnChanges


class Announcer:
    """Called by the scheduler's thread after each turn, once it is on record."""

    def __init__(
        self,
        feed: Feed,
        outcomes: CommandOutcomes,
        metrics: Metrics,
        notices: Notices,
        nodes_changed: Callable[[], None] = lambda: None,
    ) -> None:
        """`nodes_changed` is called after a turn that changed nodes, or how many are wanted."""
        self._feed, self._notifier = feed, feed.notifier
        self._outcomes, self._metrics, self._notices = outcomes, metrics, notices
        self._nodes_changed = nodes_changed

    def __call__(self, turn: TurnChanges) -> None:
        """Wake the callers that wait, and count what happened."""
        self._notifier.notify([("job", row) for row in turn.jobs])
        # Apart, for callers that wait for an end: reading the store at each change delays starts by 1–2 ms.
        self._notifier.notify([("ended", job.id) for job in turn.jobs.values() if job.is_over])
        for seq, outcome in turn.done:
            self._outcomes.tell(seq, outcome)
        for row, how in turn.taken:
            self._notices.preempted(row, how, turn.at_s)
        for row, text in turn.idle:
            self._notices.idle(row, text, turn.at_s)
        for row, text in turn.risks:
            self._notices.at_risk(row, text, turn.at_s)
        if turn.replaced:
            self._notices.replaced(turn.replaced, turn.at_s)
        for row, job in turn.jobs.items():
            if job.is_over and not job.living:
                self._notices.ended(row, job.state, turn.at_s if job.finish_s is None else job.finish_s)
        if turn.nodes or turn.wanted:
            self._nodes_changed()
        self._feed.tell(topics_of(turn), [*(job.id for job in turn.jobs.values()), *turn.watched])
        metrics = self._metrics
        for submitted_s, started_s in turn.started:
            metrics.submit_to_start_seconds.observe(max(0.0, started_s - submitted_s))
        for reason in turn.preempted:
            metrics.preemptions.labels(reason).inc()
        metrics.attempts_lost.inc(turn.lost)
        if turn.decided_s is not None:
            metrics.decision_seconds.observe(turn.decided_s)
            metrics.decisions.labels(turn.outcome).inc()


def topics_of(turn: TurnChanges) -> list[str]:
    """The changes of a turn, in the words of `rota.server.dashboard.feed`."""
    is_so = {
        "jobs": bool(turn.jobs),
        "nodes": bool(turn.nodes),
        "usage": bool(turn.watched),
        "policy": turn.is_about_policy,
        "decision": turn.decided_s is not None,
    }
    return [topic for topic, holds in is_so.items() if holds]
