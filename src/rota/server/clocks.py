"""The cluster's clock; what agents say by clocks that do not agree with it is told by it from here on.

Durations are counted by the machine's monotonic clock, over restarts of the controller as well: setting the
wall clock changes none of them.  It says where the count begins, once for each boot of the machine.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from typing import Any

from rota.agent.identity import boot_id
from rota.model.units import format_duration
from rota.wire.numbers import LATEST_S
from rota.wire.sync import Report, SyncRequest

TOLD_S = 5.0
"""A wall clock that differs by less from the cluster's is not worth a word."""
AGREE_S = 1.0
"""Clocks that differ by less agree: the rest is the time a request took."""


class Clock:
    """Seconds since the cluster's epoch; never goes back, neither while the process lives nor after it."""

    def __init__(
        self,
        epoch_unix_s: float,
        kept: Mapping[str, Any] | None = None,
        last_s: float = 0.0,
        *,
        boot: str = "",
        wall: Callable[[], float] = time.time,
        steady: Callable[[], float] = time.monotonic,
    ) -> None:
        """`kept` is what `to_keep` said to the controller before; `last_s` the last moment on record."""
        self.epoch_unix_s = epoch_unix_s
        self._boot, self._wall, self._steady = boot or boot_id(), wall, steady
        self._offset = self._first_offset(kept or {}, last_s)

    def _first_offset(self, kept: Mapping[str, Any], last_s: float) -> float:
        """What the monotonic clock lacks: as before in the same boot, else by the wall clock."""
        offset = kept.get("offset_s")
        is_same = (
            kept.get("boot") == self._boot and isinstance(offset, (int, float)) and math.isfinite(offset)
        )
        first = (
            float(offset)
            if is_same and offset is not None
            else self._wall() - self.epoch_unix_s - self._steady()
        )
        return max(first, last_s - self._steady())

    def __call__(self) -> float:
        return self._steady() + self._offset

    def to_keep(self) -> dict[str, Any]:
        """For the next controller, as JSON."""
        return {"boot": self._boot, "offset_s": self._offset}

    def skew_s(self) -> float:
        """How far the wall clock is ahead of this one."""
        return self._wall() - self.epoch_unix_s - self()

    def trouble(self) -> str:
        """What an operator should know of a wall clock that was set, as a sentence; or nothing."""
        skew_s = self.skew_s()
        if abs(skew_s) < TOLD_S:
            return ""
        way = "ahead of" if skew_s > 0 else "behind"
        return (
            f"this machine's clock was set, or it slept: it is {format_duration(abs(skew_s))} {way} the "
            "cluster's, which goes on as it went; run times and limits are not touched by that, and moments "
            "are told by the cluster's clock until this machine starts anew"
        )


def by_our_clock(request: SyncRequest, now_unix_s: float, here_unix_s: float | None = None) -> SyncRequest:
    """`request`, which came at `now_unix_s`, with its moments as the cluster's clock would have told them.

    An agent of this very machine has the wall clock of this machine (`here_unix_s` now), however long its
    request has waited: the first one may have come while the controller was still starting.
    """
    if request.boot_id == boot_id():
        behind_s = now_unix_s - here_unix_s if here_unix_s is not None else 0.0
    else:
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
