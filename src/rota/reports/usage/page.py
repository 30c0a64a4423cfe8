"""Usage as one HTML file with everything in it, in the style of the report."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path

import numpy as np
from markupsafe import Markup

from rota.model.units import plural
from rota.model.words import hours
from rota.reports.chart import Axis, Chart, Curve, Tick
from rota.reports.html import environment
from rota.reports.usage.months import months_of
from rota.reports.usage.wording import columns, notes, summary
from rota.wire.usage import UsageLine, UsageView

DRAWN = 30
"""Lines that get a bar; the table has all."""
MOST_TICKS = 7


def render(usage: UsageView) -> str:
    """The page as text."""
    folder = files("rota.reports") / "templates"
    return (
        environment()
        .get_template("usage.html")
        .render(
            title=f"GPU-hours of {Path(usage.source).name}",
            usage=usage,
            lead=summary(usage),
            columns=columns(usage),
            notes=notes(usage),
            chart=months_chart(usage),
            bars=[_bar(line, usage) for line in usage.lines[:DRAWN]],
            more_style=Markup((folder / "analysis.css").read_text(encoding="utf-8")),  # ours, not input
        )
    )


def months_chart(usage: UsageView) -> Chart | None:
    """GPU-hours by month; None unless they are counted by month, and there are two of them."""
    by_month = months_of(usage)
    if by_month is None or len(by_month.months) < 2:
        return None
    last = len(by_month.months) - 1
    places = np.arange(last + 1, dtype=np.float64)
    curves = [
        Curve(name, number, places, np.array(values)) for number, (name, values) in enumerate(by_month.curves)
    ]
    most = max(float(curve.y.max()) for curve in curves) or 1.0
    name, values = by_month.curves[0]
    top = by_month.months[int(np.argmax(values))]
    return Chart(
        key="months",
        title="By month",
        caption="",
        text=f"{plural(last + 1, 'month')} from {by_month.months[0]} to {by_month.months[-1]}; {name} held "
        f"most, {hours(max(values))} GPU-hours in {top}.",
        x=Axis(0.0, float(last), "month", "number", ticks=_month_ticks(by_month.months)),
        y=Axis(0.0, most, "GPU-hours", "number", ticks=_ticks(most)),
        curves=tuple(curves),
    )


def _ticks(most: float) -> tuple[Tick, ...]:
    return tuple(Tick(part, hours(most * part)) for part in (0.0, 0.25, 0.5, 0.75, 1.0))


def _month_ticks(months: Sequence[str]) -> tuple[Tick, ...]:
    """At most MOST_TICKS of them, the first and the last among them."""
    last = len(months) - 1
    places = sorted({round(i * last / (MOST_TICKS - 1)) for i in range(MOST_TICKS)})
    return tuple(Tick(place / last, months[place]) for place in places)


def _bar(line: UsageLine, usage: UsageView) -> tuple[str, str, float, float]:
    """Name and figure of a line, and how wide it and the failed part of it are, in percent of the widest."""
    most = max(one.gpu_hours for one in usage.lines) or 1.0
    failed = 100 * line.failed_gpu_hours / most
    return ", ".join(line.names), hours(line.gpu_hours), 100 * line.gpu_hours / most - failed, failed
