"""The cluster's clock; moments from agents whose clocks disagree are converted to it.

Durations are counted by the machine's monotonic clock, over restarts of the controller as well: setting the
wall clock changes none of them.  It says where the count begins, once for each boot of the machine.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from typing import Any

from rota.engines.rota.identity import boot_id
from rota.model.units import format_duration
from rota.wire.job import JobSpec
from rota.wire.numbers import LATEST_S
from rota.wire.sync import Report, SyncRequest

TOLD_S = 5.0
"""A wall clock that differs by less from the cluster's is not worth a word."""
AGREE_S = 1.0
"""Clocks that differ by less agree: the rest is the time a request took."""
AGREE_HERE_S = 0.05
"""As `AGREE_S`, for an agent of this machine: its requests take no time."""
NAMED = ("begin_s", "deadline_s")
"""Moments that people name: they mean the wall clock, jobs live by the cluster's."""


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
        """Offset of the monotonic clock: as before within one boot, else by the wall clock."""
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

    def surely(self) -> float:
        """The moment that both clocks have reached: nothing is removed before that as too old.

        A machine may start with a clock that is years ahead, and this clock never goes back.
        """
        return self() + min(self.skew_s(), 0.0)

    def of_people(self, at_unix_s: float) -> float:
        """A moment that a user named by the wall clock, converted to this clock."""
        skew_s = self.skew_s()
        return at_unix_s if abs(skew_s) < TOLD_S else max(at_unix_s - skew_s, 0.0)

    def trouble(self) -> str:
        """A sentence for the operator if the wall clock was set; else empty."""
        skew_s = self.skew_s()
        if abs(skew_s) < TOLD_S:
            return ""
        way = "ahead of" if skew_s > 0 else "behind"
        return (
            f"this machine's clock was set, or it slept: it is {format_duration(abs(skew_s))} {way} the "
            "cluster's, which goes on as it went; run times and limits are not touched by that, and moments "
            "are told by the cluster's clock until this machine starts anew (those that are asked for, as "
            "`--begin`, are taken by this machine's)"
        )


def by_the_cluster(spec: JobSpec, clock: Clock) -> JobSpec:
    """`spec` with its moments by the cluster's clock."""
    asked = {name: getattr(spec, name) for name in NAMED}
    told = changes_by_the_cluster(asked, clock)
    dues = [due.model_copy(update={"at_s": clock.of_people(due.at_s)}) for due in spec.deadlines]
    return (
        spec
        if told == asked and dues == spec.deadlines
        else spec.model_copy(update=told | {"deadlines": dues})
    )


def changes_by_the_cluster(changes: Mapping[str, Any], clock: Clock) -> dict[str, Any]:
    """New values of a job, as JSON, with their moments by the cluster's clock."""
    told = dict(changes)
    for name in NAMED:
        if told.get(name) is not None:
            told[name] = clock.of_people(told[name])
    if told.get("deadlines"):
        told["deadlines"] = [{**due, "at_s": clock.of_people(due["at_s"])} for due in told["deadlines"]]
    return told


def by_our_clock(request: SyncRequest, now_unix_s: float, steady_s: float | None = None) -> SyncRequest:
    """`request`, which came at `now_unix_s`, with its moments converted to the cluster's clock.

    An agent of this machine shares the monotonic clock (`steady_s` now): it does not matter how long its
    request has waited.  The first one may have come while the controller was still starting.
    """
    waited_s, agree_s = 0.0, AGREE_S
    if request.boot_id == boot_id():
        if request.steady_s is None or steady_s is None:
            return request
        waited_s, agree_s = max(0.0, steady_s - request.steady_s), AGREE_HERE_S
    behind_s = 0.0 if request.sent_s is None else now_unix_s - waited_s - request.sent_s
    if abs(behind_s) < agree_s:
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
