"""A line chart as data: scales, ticks and curves.  `svg` and the HTML template draw it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np

from rota.model.calendar import moment_of
from rota.model.columns import Floats
from rota.model.units import format_duration

UNITS = 1000.0
"""Plot coordinates run from 0 to this on both axes, y downwards as SVG has it."""

_TIME_STEPS_S = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200]
_TIME_STEPS_S += [86400 * days for days in (1, 2, 5, 7, 14, 28, 56, 112, 224, 448)]
_TIME_MARKS, _VALUE_MARKS = 7, 5
"""Most marks on an axis of time, and on one of durations."""
_LOG_TIMES_S = [1, 10, 60, 600, 3600, 6 * 3600, 86400, 5 * 86400, 30 * 86400, 365 * 86400]


@dataclass(frozen=True)
class Tick:
    at: float
    """Place on the axis, 0 to 1."""
    text: str


@dataclass(frozen=True)
class Axis:
    """From `low` to `high`, linear or logarithmic; `kind` tells a reader's script how to print a value."""

    low: float
    high: float
    label: str
    kind: str
    """`time`, `share`, `number` or `hour`."""
    log: bool = False
    ticks: tuple[Tick, ...] = ()

    def place(self, values: Floats) -> Floats:
        """Values as fractions of the axis, cut off at its ends."""
        low, high = self.low, self.high
        if self.log:
            low, high, values = np.log(low), np.log(high), np.log(np.maximum(values, low))
        places: Floats = np.clip((values - low) / (high - low), 0, 1)
        return places


@dataclass(frozen=True)
class Curve:
    """A named line; `band` is the lowest and highest value beside each point, where points are means."""

    name: str
    colour: int
    x: Floats
    y: Floats
    band: tuple[Floats, Floats] | None = None
    dashed: bool = False


@dataclass(frozen=True)
class Chart:
    """Curves over two axes.  `text` says in words what the picture shows."""

    key: str
    title: str
    caption: str
    text: str
    x: Axis
    y: Axis
    curves: tuple[Curve, ...]
    shown: float = 1.0
    """Part of the x axis that is drawn at first, from the left; the rest is there for who looks further."""
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
    points = np.stack((x * UNITS, (1 - y) * UNITS), axis=1).round(1)
    if len(points) == 0:
        return ""
    moved = np.append(True, (np.diff(points, axis=0) != 0).any(axis=1))
    return "M" + "L".join(f"{px:g} {py:g}" for px, py in points[moved].tolist())


def time_axis(length_s: float, label: str, shown_s: float, began: datetime | None = None) -> Axis:
    """Linear time from 0 to `length_s`, with marks in the first `shown_s`; dates if it began then."""
    length_s = max(length_s, 1.0)
    step = _step(max(shown_s, 1.0), _TIME_MARKS)
    axis = Axis(0.0, length_s, label, "time")
    if began is None:
        return _ticked(axis, np.arange(0, shown_s * 1.0001, step), _time_words)
    # Marks stand at whole hours and midnights, steps of weeks at Mondays.
    since = began - datetime(1970, 1, 5, tzinfo=UTC)
    first = -since.total_seconds() % step
    return _ticked(axis, np.arange(first, shown_s * 1.0001, step), lambda at: _date_words(began, at))


def duration_axis(high_s: float, label: str) -> Axis:
    """Linear durations from 0 to a round one at or above `high_s`."""
    step = _step(max(high_s, 1.0), _VALUE_MARKS)
    top = step * max(np.ceil(high_s / step), 1)
    return _ticked(Axis(0.0, float(top), label, "time"), np.arange(0, top * 1.0001, step), _time_words)


def hour_axis(label: str) -> Axis:
    """The hours of a day."""
    return _ticked(Axis(0.0, 24.0, label, "hour"), np.arange(0, 25.0, 6), lambda hour: f"{hour:02.0f}:00")


def _step(length_s: float, most: int) -> float:
    longest = _TIME_STEPS_S[-1]
    return next(
        (s for s in _TIME_STEPS_S if length_s / s <= most), longest * np.ceil(length_s / longest / most)
    )


def log_time_axis(shortest_s: float, high_s: float, label: str) -> Axis:
    """Logarithmic time from a round mark at or below `shortest_s`; a second and less is the left edge."""
    low_s = max((t for t in _LOG_TIMES_S[:4] if t <= shortest_s), default=1)
    high_s = max(high_s, 10 * low_s)
    marks = np.array([low_s, *(t for t in _LOG_TIMES_S if low_s * 2 < t <= high_s)])
    return _ticked(Axis(low_s, high_s, label, "time", log=True), marks, _time_words)


def share_axis(label: str) -> Axis:
    return _ticked(Axis(0.0, 1.0, label, "share"), np.linspace(0, 1, 5), lambda v: f"{100 * v:.0f}%")


def number_axis(high: float, label: str) -> Axis:
    """Linear from 0 to a round number at or above `high`."""
    power = 10.0 ** np.floor(np.log10(max(high, 1.0)))
    step = next(float(s * power / 2) for s in (0.5, 1, 2, 4, 5, 10, 20) if high / (s * power / 2) <= 5)
    step = max(step, 1.0)
    top = step * max(np.ceil(high / step), 1)
    return _ticked(
        Axis(0.0, float(top), label, "number"), np.arange(0, top * 1.0001, step), lambda v: f"{v:,.0f}"
    )


def _ticked(axis: Axis, marks: Floats, text: Callable[[float], str]) -> Axis:
    places = axis.place(marks)
    ticks = tuple(Tick(float(at), text(float(mark))) for at, mark in zip(places, marks, strict=True))
    return Axis(axis.low, axis.high, axis.label, axis.kind, axis.log, ticks)


def _date_words(began: datetime, seconds: float) -> str:
    """`9 Oct` at midnight, else `14:00`."""
    at = moment_of(began, float(seconds))
    return f"{at.day} {at:%b}" if (at.hour, at.minute, at.second) == (0, 0, 0) else f"{at:%H:%M}"


def _time_words(seconds: float) -> str:
    return "0" if seconds == 0 else format_duration(seconds)


def staircase(times: Floats, values: Floats, end: float) -> tuple[Floats, Floats]:
    """Corner points of a step function that holds `values[i]` from `times[i]`."""
    x = np.repeat(np.append(times, end), 2)[1:-1]
    return x, np.repeat(values, 2)


def names_of(curves: Sequence[Curve]) -> str:
    """`a, b and c`."""
    names = [curve.name for curve in curves]
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
