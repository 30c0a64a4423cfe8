"""The cluster's clock; what agents say by clocks that do not agree with it is told by it from here on."""

from __future__ import annotations

import time

from rota.agent.identity import boot_id
from rota.wire.numbers import LATEST_S
from rota.wire.sync import Report, SyncRequest

AGREE_S = 1.0
"""Clocks that differ by less agree: the rest is the time a request took."""


class Clock:
    """Seconds since the cluster's epoch; never goes back while the process lives."""

    def __init__(self, epoch_unix_s: float) -> None:
        self.epoch_unix_s = epoch_unix_s
        self._offset = time.time() - epoch_unix_s - time.monotonic()

    def __call__(self) -> float:
        return time.monotonic() + self._offset


def by_our_clock(request: SyncRequest, now_unix_s: float) -> SyncRequest:
    """`request`, which came at `now_unix_s`, with all its moments as the clock here would have told them.

    An agent of this very machine has this clock, however long its request has waited: the first one may have
    come while the controller was still starting.
    """
    if request.boot_id == boot_id():
        return request
    behind_s = 0.0 if request.sent_s is None else now_unix_s - request.sent_s
    if abs(behind_s) < AGREE_S:
        return request
    reports = [_later(report, behind_s) for report in request.reports]
    return request.model_copy(update={"reports": reports, "sent_s": now_unix_s})


def _later(report: Report, by_s: float) -> Report:
    """All moments of `report` moved by `by_s` seconds."""

    def moved(at_s: float) -> float:
        return min(max(at_s + by_s, 0.0), LATEST_S)

    later: dict[str, object] = {"since_s": moved(report.since_s)}
    if report.started_s is not None:
        later["started_s"] = moved(report.started_s)
    if report.end is not None:
        later["end"] = report.end.model_copy(update={"ended_s": moved(report.end.ended_s)})
    if report.progress is not None:
        later["progress"] = report.progress.model_copy(update={"at_s": moved(report.progress.at_s)})
    if report.usage is not None:
        later["usage"] = report.usage.model_copy(update={"at_s": moved(report.usage.at_s)})
    return report.model_copy(update=later)
