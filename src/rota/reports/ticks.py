"""Where the marks of an axis stand: at round values, and one of them at its end."""

from __future__ import annotations

from datetime import UTC, datetime

import numpy as np

from rota.model.columns import Floats

_MINUTE_S, _HOUR_S, _DAY_S = 60, 3600, 86400
TIME_STEPS_S = [
    *(1, 2, 3, 4, 5, 10, 15, 20, 30),
    *(_MINUTE_S * count for count in (1, 2, 3, 4, 5, 10, 15, 20, 30)),
    *(_HOUR_S * count for count in (1, 2, 3, 4, 6, 8, 12)),
    *(_DAY_S * count for count in (1, 2, 3, 4, 5, 7, 10, 14, 20, 28, 56, 112, 224, 448)),
]
"""Seconds between marks on a linear axis of time; `core.js` has the same."""
_LOG_S = [1, 10, _MINUTE_S, 10 * _MINUTE_S, _HOUR_S, 6 * _HOUR_S]
_LOG_S += [_DAY_S * count for count in (1, 5, 30, 365)]
"""Marks of a logarithmic axis of time."""
_LOG_ENDS_S = [*_LOG_S, 2, 5, 20, 30]
_LOG_ENDS_S += [_MINUTE_S * count for count in (2, 5, 20, 30)] + [_HOUR_S * count for count in (2, 4, 12)]
_LOG_ENDS_S += [_DAY_S * count for count in (2, 10, 20, 60, 100, 200, 500, 1000, 2000, 5000)]
"""Marks at which such an axis can end, finer so that little of it stays empty."""
_MONDAY = datetime(1970, 1, 5, tzinfo=UTC)
_STEPS = (1.0, 2.0, 2.5, 5.0)


def time_marks(length_s: float, most: int, began: datetime | None = None) -> Floats:
    """Seconds of the marks of an axis from 0 to `length_s`; the last is the first round one that is no less.

    There are at most `most` stretches between them, and half as many at least: of the steps that give so many
    the one that leaves least beyond `length_s`.  Of an axis that begins at the date `began` they stand at
    whole hours and midnights, steps of weeks at Mondays.
    """
    since_s = 0.0 if began is None else (began - _MONDAY).total_seconds()
    longest = TIME_STEPS_S[-1] * max(np.ceil(length_s / TIME_STEPS_S[-1] / most), 1)
    steps = [step for step in TIME_STEPS_S if most / 2 <= length_s / step <= most]
    steps = steps or [next((step for step in TIME_STEPS_S if length_s / step <= most), longest)]
    marks = [_marks(length_s, step, -since_s % step) for step in reversed(steps)]
    return min(marks, key=lambda places: float(places[-1]))


def _marks(length_s: float, step: float, first: float) -> Floats:
    stretches = max(np.ceil((length_s - first) / step - 1e-9), 0 if first else 1)
    marks: Floats = first + step * np.arange(stretches + 1)
    return marks


def log_marks(shortest_s: float, longest_s: float, most: int) -> Floats:
    """Seconds of the marks of a logarithmic axis from a round time at or below `shortest_s` to one above all.

    It begins at one second at the least, and at ten minutes at the most.
    """
    low = max((mark for mark in _LOG_S[:4] if mark <= shortest_s), default=_LOG_S[0])
    high = log_end(max(longest_s, 10.0 * low))
    apart = (high / low) ** (1 / most)
    marks = [float(low)]
    for mark in _LOG_S if high / low > 100 else sorted(_LOG_ENDS_S):
        if marks[-1] * apart <= mark <= high / apart:
            marks.append(float(mark))
    return np.array([*marks, high])


def log_end(longest_s: float) -> float:
    """The first round time that is no less than `longest_s`."""
    beyond = _DAY_S * 10.0 ** np.ceil(np.log10(max(longest_s / _DAY_S, 1.0)))
    return float(min((mark for mark in _LOG_ENDS_S if mark >= longest_s * (1 - 1e-9)), default=beyond))


def value_marks(low: float, high: float, most: int, least_step: float = 0.0) -> Floats:
    """Round values from one at or below `low` to one at or above `high`, at most `most` stretches apart."""
    rough = max((high - low) / most, least_step, 1e-300)
    power = 10.0 ** np.floor(np.log10(rough))
    for step in [factor * power * ten for ten in (1.0, 10.0) for factor in _STEPS]:
        if step < rough * (1 - 1e-9) or (least_step and step % least_step):
            continue
        first, last = np.floor(low / step + 1e-9), np.ceil(high / step - 1e-9)
        if last - first <= most:
            break
    marks: Floats = step * np.arange(first, max(last, first + 1) + 1)
    return marks
