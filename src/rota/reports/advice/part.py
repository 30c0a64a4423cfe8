"""The part of a trace that is replayed: all of it, its latest jobs, or a window."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rota.errors import InputError
from rota.model.trace import Trace
from rota.model.units import format_duration, parse_duration, plural
from rota.reports.window import Window, WindowEdge, parse_window

MOST_JOBS = 10_000
"""Jobs that count, unless the caller asks for more."""
LEAD = 0.2
"""For this part of its length, jobs submitted before it are replayed as well, so that it does not begin on an
empty cluster.  They do not count."""


@dataclass(frozen=True)
class ReplayedPart:
    """The part of a trace that is replayed, and the part of that which counts."""

    trace: Trace
    measured: Window | None
    """None: all of it."""
    said: str
    """The part in words; empty if it is all of the trace."""


def part_of(trace: Trace, window: str | None = None, most: int = MOST_JOBS) -> ReplayedPart:
    """The jobs submitted within `window`, and of these the latest, if there are more than `most`.

    `window` is a length, the latest such stretch (`30d`), or START:END as for `--measure`.
    """
    if most < 1:
        raise InputError.at(f"{most} jobs", field="--most-jobs", expected="1 or more")
    submit_s = trace.jobs.submit_s
    if not len(submit_s):
        raise InputError(f"{trace.source} has no job; expected some to replay")
    first_s, last_s = float(submit_s.min()), float(submit_s.max())
    begin_s, end_s = (first_s, last_s) if window is None else _bounds(window, first_s, last_s)
    inside = (submit_s >= begin_s) & (submit_s <= end_s)
    if not inside.any():
        raise InputError.at(
            f"no job was submitted in {window!r}",
            field="--window",
            expected=f"a part of the {format_duration(last_s - first_s)} between first and last submission",
        )
    latest = np.flatnonzero(inside)[-most:]
    cut = len(latest) < int(inside.sum())
    begin_s = float(submit_s[latest[0]]) if cut else begin_s
    if len(latest) == len(trace):
        return ReplayedPart(trace, None, "")
    lead_s = LEAD * (end_s - begin_s)
    rows = np.flatnonzero((submit_s >= begin_s - lead_s) & (submit_s <= end_s))
    part = trace.take(rows)
    offset_s = begin_s - float(part.jobs.submit_s.min())
    counted = int((part.jobs.submit_s >= begin_s).sum())
    said = (
        f"{plural(counted, 'job')} of {len(trace):,} count, those submitted from "
        f"{format_duration(begin_s - first_s)} to {format_duration(end_s - first_s)} of the trace"
        + (" (--most-jobs; --window chooses)" if cut else "")
        + (
            f"; {plural(len(part) - counted, 'job')} before them fill the cluster"
            if len(part) > counted
            else ""
        )
    )
    measured = Window(
        WindowEdge(offset_s=offset_s), WindowEdge(fraction=1.0), f"{format_duration(offset_s)}:100%"
    )
    return ReplayedPart(part, measured if offset_s > 0 else None, said)


def _bounds(window: str, first_s: float, last_s: float) -> tuple[float, float]:
    if ":" in window:
        try:
            parsed = parse_window(window)
        except InputError as error:
            raise InputError(str(error).replace("--measure", "--window")) from None
        return parsed.start.resolve(first_s, last_s), (
            parsed.end.resolve(first_s, last_s) if parsed.end else last_s
        )
    length_s = parse_duration(window, field="--window")
    if length_s <= 0.0:
        raise InputError.at(
            f"{window!r} is no stretch of time", field="--window", expected="a length such as 30d"
        )
    return last_s - length_s, last_s
