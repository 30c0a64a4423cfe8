"""Curves of a job: its reports over time, sampled so that they never grow beyond a bound.

All reports within `spacing_s` seconds become one point: mean, least, most and count of each number.
Once a job has `FULL` points, neighbours become one and the spacing doubles, so the points of a job that has
run for a day are some minutes apart.  The first report always stays a point of its own, and the newest point
stays one whenever others are merged; least and most survive every merge.  Reports since the last point are
in memory only.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from rota.wire.numbers import LARGEST
from rota.wire.sync import ProgressReport, Usage

LEAST_S = 2.0
"""Least seconds between two points of a job that no process waits for."""
FULL, MOST_POINTS = 500, 512
"""Points at which neighbours are merged, and the most of a job: ends of attempts add points immediately."""
THINNED = 3 * FULL // 4
"""No more are left when they have."""
SILENCE = 8.0
"""Points that are this number of spacings apart stay apart while that leaves room."""
DIGITS = 6
Numbers = Mapping[str, Sequence[float]]
"""Name of a curve -> mean, least, most, count."""


@dataclass(frozen=True, slots=True)
class Point:
    """Reports about one job within a stretch of time; moments are seconds since the cluster's epoch."""

    row: int
    attempt: int
    """The newest that has its part in it."""
    at_s: float
    until_s: float
    spacing_s: float
    curves: Numbers


@dataclass(slots=True)
class Curves:
    """Reports collected for the next point of one job."""

    points: int = 0
    """Points on record, or more."""
    spacing_s: float = LEAST_S
    _open: Point | None = None
    _said: dict[str, list[float]] = field(default_factory=dict)

    @property
    def is_full(self) -> bool:
        """Neighbours have to become one before there is another point; until then the next one grows."""
        return self.points >= FULL

    def see(
        self,
        row: int,
        attempt: int,
        now: float,
        values: Mapping[str, float | None],
        since_s: float = -math.inf,
    ) -> Point | None:
        """At `now`, no earlier than before, these numbers were said; the point that is complete by that.

        `since_s` is when it was last decided what the job holds: no point reaches across that moment, or one
        would lie where the job stood still.
        """
        said = {name: value for name, value in values.items() if value is not None and _is_number(value)}
        if not said:
            return None
        done = None
        if self._open is not None and self._is_complete(self._open, attempt, now, since_s):
            done = self.close()
        begin = now if self._open is None else self._open.at_s
        self._open = Point(row, attempt, begin, now, self.spacing_s, {})
        for name, value in said.items():
            _add(self._said, name, value)
        return self.close() if not self.points else done

    def _is_complete(self, point: Point, attempt: int, now: float, since_s: float) -> bool:
        is_another = attempt != point.attempt or point.at_s < since_s
        return not self.is_full and (is_another or now - point.at_s >= self.spacing_s)

    def close(self) -> Point | None:
        """The point that is being collected, as it is; None if there is none, or no room for it."""
        point, said = self._open, self._said
        if point is None or self.points >= MOST_POINTS:
            return None
        self._open, self._said = None, {}
        self.points += 1
        return Point(point.row, point.attempt, point.at_s, point.until_s, point.spacing_s, _rounded(said))

    def thin(self) -> None:
        """Those on record are being thinned."""
        self.points = THINNED
        self.spacing_s *= 2.0


def thinned(points: Sequence[Point]) -> list[Point]:
    """About half of these points of one job, in their order, at most `THINNED` of `FULL`.

    Neighbours of one attempt with no long silence between them become one, others only where that leaves too
    many.  The first and the last point stay as they are.
    """
    if len(points) < 4:
        return list(points)
    spacing_s = 2.0 * max(point.spacing_s for point in points)

    def close_by(one: Point, two: Point) -> bool:
        return one.attempt == two.attempt and two.at_s - one.until_s < SILENCE * spacing_s

    middle = points[1:-1]
    merged = list(_in_pairs(middle, close_by, spacing_s))
    if len(merged) + 2 > THINNED:
        merged = list(_in_pairs(middle, lambda one, two: True, spacing_s))
    return [points[0], *merged, points[-1]]


def _in_pairs(
    points: Sequence[Point], may: Callable[[Point, Point], bool], spacing_s: float
) -> Iterator[Point]:
    place = 0
    while place < len(points):
        if place + 1 < len(points) and may(points[place], points[place + 1]):
            yield _merged(points[place], points[place + 1], spacing_s)
            place += 2
        else:
            yield points[place]
            place += 1


def _merged(one: Point, two: Point, spacing_s: float) -> Point:
    curves = {name: list(numbers) for name, numbers in one.curves.items()}
    for name, numbers in two.curves.items():
        curves[name] = _together(curves[name], numbers) if name in curves else list(numbers)
    return Point(one.row, two.attempt, one.at_s, two.until_s, spacing_s, _rounded(curves))


def _together(one: Sequence[float], two: Sequence[float]) -> list[float]:
    count = one[3] + two[3]
    low, high = min(one[1], two[1]), max(one[2], two[2])
    mean = one[0] + (two[0] - one[0]) * (two[3] / count)
    return [min(max(mean, low), high), low, high, count]


def _add(said: dict[str, list[float]], name: str, value: float) -> None:
    new = [value, value, value, 1.0]
    said[name] = _together(said[name], new) if name in said else new


def _rounded(said: Mapping[str, Sequence[float]]) -> dict[str, list[float]]:
    """To as many digits as a picture can show: rounding keeps mean between least and most."""
    return {
        name: [*(float(f"{number:.{DIGITS}g}") for number in numbers[:3]), numbers[3]]
        for name, numbers in said.items()
    }


def _is_number(value: float) -> bool:
    """Finite, and small enough that differences and sums of two are, too."""
    return math.isfinite(value) and abs(value) <= LARGEST


def said_by_program(progress: ProgressReport) -> dict[str, float | None]:
    """The values that a program's report adds to the curves of its job."""
    batch, step_s = progress.batch_size, progress.step_s
    return {
        "loss": progress.loss,
        "step_s": step_s,
        "batch_size": batch,
        "throughput": batch / step_s if batch and step_s else None,
        "gradient_noise": progress.gradient_noise,
    }


def said_by_agent(usage: Usage, busy: float | None) -> dict[str, float | None]:
    """The values that a report of its agent adds; `busy` is the part of its devices that is in use."""
    return {
        "utilisation": busy,
        "gpu_memory_gib": usage.gpu_memory_gib,
        "memory_gib": usage.memory_gib,
    }
