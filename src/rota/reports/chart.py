"""A line chart as data: scales, ticks and curves.  `svg` and the HTML template draw it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import ClassVar

import numpy as np

from rota.model.calendar import moment_of
from rota.model.columns import Floats
from rota.model.units import format_duration

UNITS = 1000.0
"""Plot coordinates run from 0 to this on both axes, y downwards as SVG has it."""

TIME_MARKS, VALUE_MARKS = 8, 5
"""Most stretches between marks on an axis of time, and on one of values."""


@dataclass(frozen=True)
class Tick:
    at: float
    """Place on the axis, 0 to 1."""
    text: str


@dataclass(frozen=True)
class Axis:
    """From `low` to `high`, linear or logarithmic; `kind` selects how the page's script prints a value."""

    low: float
    high: float
    label: str
    kind: str
    """`time`, `share`, `number` or `hour`; `given` for marks that stay as they are."""
    log: bool = False
    ticks: tuple[Tick, ...] = ()
    """From the left or from below; the last one is at the end of the part shown first."""
    began: datetime | None = None
    """The date at the start of an axis of time, if it has dates."""

    def place(self, values: Floats) -> Floats:
        """Values as fractions of the axis, cut off at its ends."""
        low, high = self.low, self.high
        if self.log:
            low, high, values = np.log(low), np.log(high), np.log(np.maximum(values, low))
        places: Floats = np.clip((values - low) / (high - low), 0, 1)
        return places


@dataclass(frozen=True)
class Curve:
    """A named line; `band` is the lowest and highest value at each point, if points are means."""

    name: str
    colour: int
    x: Floats
    y: Floats
    band: tuple[Floats, Floats] | None = None
    dashed: bool = False


@dataclass(frozen=True)
class Chart:
    """Curves over two axes.  `text` describes the picture in words."""

    kind: ClassVar[str] = "chart"
    key: str
    title: str
    caption: str
    text: str
    x: Axis
    y: Axis
    curves: tuple[Curve, ...]
    shown: float = 1.0
    """Part of the x axis that is drawn at first, from the left; the rest is there to scroll to."""
    shaded: tuple[float, float] | None = None
    """Part of the x axis that was measured, as values; None for all of it."""

    def path(self, curve: Curve) -> str:
        """The curve as SVG path data in plot coordinates."""
        return _path(self.x.place(curve.x), self.y.place(curve.y))

    def band_path(self, curve: Curve) -> str:
        """Outline of the band: along the highest values, back along the lowest."""
        if curve.band is None:
            return ""
        x = self.x.place(curve.x)
        low, high = (self.y.place(side) for side in curve.band)
        return _path(np.concatenate((x, x[::-1])), np.concatenate((high, low[::-1]))) + "Z"


def _path(x: Floats, y: Floats) -> str:
    return path_of(x * UNITS, (1 - y) * UNITS)


def path_of(x: Floats, y: Floats) -> str:
    """A line from point to point as SVG path data; `y` counts downwards."""
    points = np.stack((x, y), axis=1).round(1)
    if len(points) == 0:
        return ""
    moved = np.append(True, (np.diff(points, axis=0) != 0).any(axis=1))
    return "M" + "L".join(f"{px:g} {py:g}" for px, py in points[moved].tolist())


def time_axis(
    length_s: float,
    label: str,
    began: datetime | None = None,
    *,
    shown_s: float | None = None,
    most: int = TIME_MARKS,
) -> Axis:
    """Linear time from 0 to a round moment at or after `length_s`; with dates if it began at one.

    With `shown_s` the marks end at the round moment at or after that; the axis continues.
    """
    marks = time_marks(max(length_s if shown_s is None else shown_s, 1.0), most, began)
    high_s = float(marks[-1])
    if shown_s is not None:
        high_s = max(high_s, float(time_marks(max(length_s, 1.0), most, began)[-1]))
    axis = Axis(0.0, high_s, label, "time", began=began)
    return _ticked(axis, marks, _time_words if began is None else lambda at: _date_words(began, at))


def duration_axis(high_s: float, label: str) -> Axis:
    """Linear durations from 0 to a round one at or above `high_s`."""
    return time_axis(high_s, label, most=VALUE_MARKS)


def hour_axis(label: str, most: int = 4) -> Axis:
    """The hours of a day."""
    step = next(hours for hours in (6, 12, 24) if 24 / hours <= most)
    return _ticked(Axis(0.0, 24.0, label, "hour"), np.arange(0, 25.0, step), lambda hour: f"{hour:02.0f}:00")


def log_time_axis(shortest_s: float, high_s: float, label: str, *, most: int = 2 * TIME_MARKS) -> Axis:
    """Logarithmic time from a round moment at or below `shortest_s` to one at or above `high_s`.

    A second and less is the left edge.
    """
    marks = log_marks(shortest_s, high_s, most)
    return _ticked(Axis(float(marks[0]), float(marks[-1]), label, "time", log=True), marks, _time_words)


def share_axis(label: str, most: int = 4) -> Axis:
    step = next(step for step in (0.25, 0.5, 1.0) if 1 / step <= most)
    marks = np.arange(0, 1.0001, step)
    return _ticked(Axis(0.0, 1.0, label, "share"), marks, lambda share: f"{100 * share:.0f}%")


def number_axis(high: float, label: str, *, most: int = VALUE_MARKS) -> Axis:
    """Whole numbers from 0 to a round one at or above `high`."""
    return _numbers(value_marks(0.0, max(high, 1.0), most, least_step=1.0), label)


def value_axis(low: float, high: float, label: str, *, most: int = VALUE_MARKS) -> Axis:
    """From a round number at or below `low` to one at or above `high`."""
    return _numbers(value_marks(low, high if high > low else low + 1.0, most), label)


def _numbers(marks: Floats, label: str) -> Axis:
    return _ticked(Axis(float(marks[0]), float(marks[-1]), label, "number"), marks, _number_words)


def with_marks(axis: Axis, most: int, part: float = 1.0) -> Axis:
    """`axis`, or the first `part` of a linear one of time, with at most `most` stretches between marks."""
    match axis.kind:
        case "given":
            return axis
        case "hour":
            return hour_axis(axis.label, most)
        case "share":
            return share_axis(axis.label, most)
        case "number":
            whole = axis.low == 0 and all(float(tick.at * axis.high).is_integer() for tick in axis.ticks)
            if whole:
                return number_axis(axis.high, axis.label, most=most)
            return value_axis(axis.low, axis.high, axis.label, most=most)
    if axis.log:
        return log_time_axis(axis.low, axis.high, axis.label, most=most)
    return time_axis(part * axis.high, axis.label, axis.began, most=most)


def _ticked(axis: Axis, marks: Floats, text: Callable[[float], str]) -> Axis:
    places = axis.place(marks)
    ticks = (Tick(float(at), text(float(mark))) for at, mark in zip(places, marks, strict=True))
    return replace(axis, ticks=tuple(ticks))


def _date_words(began: datetime, seconds: float) -> str:
    """`9 Oct` at midnight, else `14:00`, or `14:00:20`."""
    at = moment_of(began, float(seconds) + 0.5)  # to the nearest second
    if at.second:
        return f"{at:%H:%M:%S}"
    return f"{at.day} {at:%b}" if (at.hour, at.minute) == (0, 0) else f"{at:%H:%M}"


def _time_words(seconds: float) -> str:
    return "0" if seconds == 0 else format_duration(seconds)


def _number_words(value: float) -> str:
    """`2,500`, `-0.25`, `1.5M`."""
    if abs(value) >= 1e6:
        return f"{value / 1e6:,.6g}M"
    return f"{value:,.0f}" if value.is_integer() else f"{value:.6g}"


def staircase(times: Floats, values: Floats, end: float) -> tuple[Floats, Floats]:
    """Corner points of a step function that holds `values[i]` from `times[i]`."""
    x = np.repeat(np.append(times, end), 2)[1:-1]
    return x, np.repeat(values, 2)


# -- places of marks -----------------------------------------------------------------------------------

_MINUTE_S, _HOUR_S, _DAY_S = 60, 3600, 86400
TIME_STEPS_S = [
    *(1, 2, 3, 4, 5, 10, 15, 20, 30),
    *(_MINUTE_S * count for count in (1, 2, 3, 4, 5, 10, 15, 20, 30)),
    *(_HOUR_S * count for count in (1, 2, 3, 4, 6, 8, 12)),
    *(_DAY_S * count for count in (1, 2, 3, 4, 5, 7, 10, 14, 20, 28, 56, 112, 224, 448)),
]
"""Seconds between marks on a linear axis of time; `core.js` has an equal list."""
_LOG_S = [1, 10, _MINUTE_S, 10 * _MINUTE_S, _HOUR_S, 6 * _HOUR_S]
_LOG_S += [_DAY_S * count for count in (1, 5, 30, 365)]
"""Marks of a logarithmic axis of time."""
_LOG_ENDS_S = [*_LOG_S, 2, 5, 20, 30]
_LOG_ENDS_S += [_MINUTE_S * count for count in (2, 5, 20, 30)] + [_HOUR_S * count for count in (2, 4, 12)]
_LOG_ENDS_S += [_DAY_S * count for count in (2, 10, 20, 60, 100, 200, 500, 1000, 2000, 5000)]
"""Marks where such an axis can end, finer so that little of it stays empty."""
_MONDAY = datetime(1970, 1, 5, tzinfo=UTC)
_STEPS = (1.0, 2.0, 2.5, 5.0)


def time_marks(length_s: float, most: int, began: datetime | None = None) -> Floats:
    """Seconds of the marks of an axis from 0 to `length_s`; the last is the first round one that is no less.

    Among steps with at most `most` stretches between marks, and at least half as many, it takes the one
    that leaves least beyond `length_s`.  If the axis begins at the date `began`, marks are at whole hours
    and midnights, with steps of weeks at Mondays.
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
