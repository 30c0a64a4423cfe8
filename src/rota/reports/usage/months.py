"""GPU-hours by month, as curves: how the use of each tenant, type, … goes up and down."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from rota.wire.usage import UsageView

MOST_CURVES = 8
"""That are drawn; the others are one together."""
OTHERS = "others"


@dataclass(frozen=True)
class Months:
    """Curves over the same months, those with the most GPU-hours first."""

    months: Sequence[str]
    """`2026-11`, ascending, without gaps."""
    curves: Sequence[tuple[str, Sequence[float]]]
    """Name, and GPU-hours in each month."""

    @property
    def times(self) -> list[float]:
        """When each month begins, in Unix seconds (UTC)."""
        return [datetime.strptime(month, "%Y-%m").replace(tzinfo=UTC).timestamp() for month in self.months]


def months_of(usage: UsageView) -> Months | None:
    """The curves of a usage that is counted by month, among others; None if it is not, or is empty."""
    if "month" not in usage.by or not usage.lines:
        return None
    place = usage.by.index("month")
    hours: dict[str, dict[str, float]] = {}
    for line in usage.lines:
        name = ", ".join(line.names[:place] + line.names[place + 1 :]) or "all"
        of = hours.setdefault(name, {})
        of[line.names[place]] = of.get(line.names[place], 0.0) + line.gpu_hours
    said = [line.names[place] for line in usage.lines]
    months = _all_between(min(said), max(said))
    ranked = sorted(hours, key=lambda name: (-sum(hours[name].values()), name))
    curves = [(name, [hours[name].get(month, 0.0) for month in months]) for name in ranked[:MOST_CURVES]]
    if left := ranked[MOST_CURVES:]:
        curves.append((OTHERS, [sum(hours[name].get(month, 0.0) for name in left) for month in months]))
    return Months(months, curves)


def _all_between(first: str, last: str) -> list[str]:
    low, high = (12 * int(month[:4]) + int(month[5:]) - 1 for month in (first, last))
    return [f"{number // 12:04}-{number % 12 + 1:02}" for number in range(low, high + 1)]
