"""The life of a job as stretches of time, from its intervals, attempts and events on record."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rota.server.store.rows import AttemptRow, EventRow, IntervalRow, JobRow
from rota.table.state import Phase
from rota.wire.timeline import Doing, StretchView

SAME_S = 0.5
"""An event is about the end of an interval if it is not further from it."""
LEAST_GAP_S = 0.001
PREEMPT = "preempt"
"""Kind of the event that names the jobs that a job was preempted for."""


class Timeline:
    """Puts one job's life together; moments are seconds since the epoch until the last step."""

    def __init__(
        self,
        job: JobRow,
        attempts: Sequence[AttemptRow],
        intervals: Sequence[IntervalRow],
        events: Sequence[EventRow],
        nodes: Sequence[str],
        epoch_s: float,
        is_cut: bool = False,
    ) -> None:
        """`nodes` are the names of all nodes by place; `is_cut` if there were intervals before these."""
        self._begin_s = intervals[0].start_s if is_cut else job.submit_s
        self._job, self._intervals, self._nodes, self._epoch_s = job, intervals, nodes, epoch_s
        self._attempts = {attempt.number: attempt for attempt in attempts}
        self._newest = attempts[-1] if attempts else None
        self._preempted = {event.at_s: event.text for event in events if event.kind == PREEMPT}
        self._stretches: list[StretchView] = []

    def stretches(self) -> list[StretchView]:
        """In their order."""
        now, until_s, before = self._job.now, self._begin_s, None
        for interval in self._intervals:
            self._gap(before, until_s, interval.start_s, interval.attempt)
            self._ran(interval)
            until_s, before = interval.end_s, interval
        if now.phase == Phase.RUNNING and self._newest is not None:
            begin_s = max(until_s, now.since_s, now.placed_s, now.adjusted_s)
            self._gap(before, until_s, begin_s, self._newest.number)
            self._runs(begin_s, self._newest)
        elif now.phase <= Phase.RUNNING:
            self._gap(before, until_s, None, now.attempt if now.state == "SUSPENDED" else -1)
        elif now.finish_s is not None and before is None:
            self._gap(before, until_s, now.finish_s, -1)
        return self._stretches

    def _gap(self, before: IntervalRow | None, from_s: float, to_s: float | None, next_: int) -> None:
        """It held nothing; if the same attempt continues afterwards, it stood still."""
        if to_s is not None and to_s - from_s < LEAST_GAP_S:
            return
        attempt = 0 if before is None else before.attempt
        is_still = before is not None and attempt == next_
        self._add(
            StretchView(
                doing=Doing.SUSPENDED if is_still else Doing.WAITING,
                from_s=from_s,
                to_s=to_s,
                attempt=attempt,
                why="" if before is None else self._stopped(before),
            )
        )

    def _stopped(self, interval: IntervalRow) -> str:
        """Why it does not run any more."""
        near = [at_s for at_s in self._preempted if abs(at_s - interval.end_s) <= SAME_S]
        if near and interval.how == "preempted":
            return self._preempted[min(near, key=lambda at_s: abs(at_s - interval.end_s))]
        attempt = self._attempts.get(interval.attempt)
        if attempt is None or attempt.end_s is None or attempt.how != interval.how:
            return interval.how
        return attempt.cause or interval.how

    def _ran(self, interval: IntervalRow) -> None:
        names = dict.fromkeys(interval.nodes)
        self._add(
            StretchView(
                doing=Doing.RUNNING,
                from_s=interval.start_s,
                to_s=interval.end_s,
                attempt=interval.attempt,
                nodes=[self._nodes[node] for node in names if node < len(self._nodes)],
                gpus=len(interval.devices),
                share=interval.share,
                starting_s=interval.overhead_s,
                lost_work_s=interval.lost_work_s,
                end=interval.how,
                why=self._stopped(interval),
            )
        )

    def _runs(self, begin_s: float, attempt: AttemptRow) -> None:
        """Its present holdings, which are no interval yet."""
        places: Sequence[Mapping[str, object]] = attempt.parts["places"]
        ready_s = attempt.parts.get("ready_s")
        self._add(
            StretchView(
                doing=Doing.RUNNING,
                from_s=begin_s,
                attempt=attempt.number,
                nodes=[str(place["name"]) for place in places],
                gpus=len(attempt.grant[1]),
                share=float(attempt.grant[2]),
                starting_s=0.0 if ready_s is None else max(0.0, ready_s - begin_s),
            )
        )

    def _add(self, stretch: StretchView) -> None:
        epoch_s, to_s = self._epoch_s, stretch.to_s
        moved = {"from_s": epoch_s + stretch.from_s, "to_s": None if to_s is None else epoch_s + to_s}
        self._stretches.append(stretch.model_copy(update=moved))
