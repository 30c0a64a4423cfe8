"""Usage as people see it: a table, its notes, a page, CSV, and GPU-hours by month as curves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from rota.model.gpu_slices import said_of_slices
from rota.model.units import format_duration, plural
from rota.model.words import hours
from rota.reports.chart import Axis, Chart, Curve, Tick, number_axis
from rota.reports.finding import (
    Bar,
    Bars,
    DataTable,
    Paragraph,
    ReportPage,
    Section,
    TableCell,
    TableColumn,
    TableRow,
)
from rota.reports.page import page_text
from rota.reports.table import as_csv
from rota.reports.usage.gpu_hours import HOUR_S
from rota.reports.wording import words
from rota.wire.usage import UNKNOWN, UsageLine, UsageView

if TYPE_CHECKING:
    from rich.console import Console

SHOWN = 30
"""Lines in a terminal, and lines that get a bar; JSON, CSV and the page's table have all."""
MOST_TICKS = 7
MOST_CURVES = 8
"""That are drawn; the others are one together."""
OTHERS = "others"
CSV_COLUMNS = (
    "jobs", "gpu_hours", "share", "failed_gpu_hours", "cancelled_gpu_hours", "preempted_gpu_hours",
    "measured_gpu_hours", "idle_gpu_hours", "wait_hours", "cost",
)  # fmt: skip
"""Columns after the key that usage is grouped by."""


# -- a table and its words -----------------------------------------------------------------------------


@dataclass(frozen=True)
class UsageColumn:
    """One figure of every line."""

    head: str
    means: str
    cell: Callable[[UsageLine], str]


def columns(usage: UsageView) -> list[UsageColumn]:
    """The columns that this usage can fill."""
    total = usage.total
    gpu_hours = "GPUs times the share of each, times hours; a MIG slice is a part of a GPU"
    preempted = "work lost when jobs had to give way, as a part"
    every: list[tuple[str, str, object, Callable[[UsageLine], str]]] = [
        ("jobs", "that held something", True, lambda line: f"{line.jobs:,}"),
        ("GPU-hours", gpu_hours, True, lambda line: hours(line.gpu_hours)),
        ("share", "of all GPU-hours", True, lambda line: _percent(line.share)),
        ("failed", "part in attempts that failed", True, _failed),
        ("cancelled", "part of jobs that their users ended", True, _cancelled),
        ("preempted", preempted, total.preempted_gpu_hours, _preempted),
        ("idle", "held and idle, of what was measured", total.idle_gpu_hours, _idle),
        ("mean wait", "from submission to start", total.wait_hours, _wait),
        ("cost", "GPU-hours times their price", total.cost, _cost),
    ]
    return [UsageColumn(head, means, cell) for head, means, known, cell in every if known is not None]


def notes(usage: UsageView) -> list[str]:
    """What to know of the figures, as sentences."""
    said, total = [*usage.remarks], usage.total
    if usage.without_duration:
        jobs = plural(usage.without_duration, "job")
        said.append(f"{jobs} of unknown run time: counted with no hours.")
    if usage.from_submission:
        said.append("No starts are recorded: hours count from submission, and no wait is known.")
    if usage.slice_hours:
        said.append(said_of_slices(usage.slice_hours))
    if total.idle_gpu_hours is not None and total.measured_gpu_hours < 0.995 * total.gpu_hours:
        part = _percent(total.measured_gpu_hours / total.gpu_hours)
        said.append(f"How busy GPUs were is known of {part} of the GPU-hours.")
    if usage.without_price:
        types = ", ".join(usage.without_price)
        said.append(f"The price list has no price for {types}: their hours are not in the cost.")
    return said


def summary(usage: UsageView) -> str:
    """All of it in one sentence."""
    total = usage.total
    if not total.jobs:
        return "No job held anything in this time."
    said = [f"{plural(total.jobs, 'job')} held GPUs for {hours(total.gpu_hours)} GPU-hours"]
    if total.cost is not None:
        said[0] += f", which cost {total.cost:,.2f}"
    if total.gpu_hours:
        said.append(f"{_part(total.failed_gpu_hours, total)} of them failed")
        said.append(f"{_part(total.cancelled_gpu_hours, total)} were cancelled")
        if total.preempted_gpu_hours:
            said.append(f"{_part(total.preempted_gpu_hours, total)} were lost by preemption")
        if total.idle_gpu_hours is not None:
            said.append(f"of those measured {_idle(total)} were held and idle")
    return f"{said[0]}: {', '.join(said[1:])}." if said[1:] else f"{said[0]}."


def _percent(part: float | None) -> str:
    return UNKNOWN if part is None else words(part, "share")


def _part(number: float | None, line: UsageLine) -> str:
    """Of the line's own GPU-hours."""
    return _percent(number / line.gpu_hours) if number is not None and line.gpu_hours else UNKNOWN


def _failed(line: UsageLine) -> str:
    return _part(line.failed_gpu_hours, line)


def _cancelled(line: UsageLine) -> str:
    return _part(line.cancelled_gpu_hours, line)


def _preempted(line: UsageLine) -> str:
    return _part(line.preempted_gpu_hours, line)


def _idle(line: UsageLine) -> str:
    idle, measured = line.idle_gpu_hours, line.measured_gpu_hours
    return _percent(idle / measured) if idle is not None and measured else UNKNOWN


def _wait(line: UsageLine) -> str:
    return UNKNOWN if line.wait_hours is None else format_duration(HOUR_S * line.wait_hours)


def _cost(line: UsageLine) -> str:
    return UNKNOWN if line.cost is None else f"{line.cost:,.2f}"


def usage_table(usage: UsageView, most: int | None = None) -> DataTable:
    """The first `most` lines, or all, and the sum of all below them."""
    shown, (first, *others) = columns(usage), usage.by
    lines = [(line.names, line, "") for line in usage.lines[:most]]
    total = ("all", *[""] * len(others))
    rows = tuple(
        TableRow(
            names[0],
            tuple(TableCell(text, style=style) for text in (*names[1:], *(of.cell(line) for of in shown))),
            style=style,
        )
        for names, line, style in [*lines, (total, usage.total, "bold")]
    )
    texts = tuple(TableColumn(name, is_text=True) for name in others)
    numbers = tuple(TableColumn(column.head, column.means) for column in shown)
    return DataTable("GPU-hours", first, (*texts, *numbers), rows, style="headline cards")


def show(usage: UsageView, screen: Console) -> None:
    """A table, the sum below it, and what to know of it, for a terminal."""
    from rota.reports.terminal import say_all, show_table

    show_table(screen, usage_table(usage, SHOWN))
    more = len(usage.lines) - SHOWN
    left_out = [f"{plural(more, 'more line')}: --csv or --json has them all."] if more > 0 else []
    say_all(screen, [*left_out, *notes(usage)])


def csv_text(usage: UsageView) -> str:
    """CSV with a line for each line of the usage, without the total; unknown values are empty."""
    rows = ([*line.names, *(getattr(line, name) for name in CSV_COLUMNS)] for line in usage.lines)
    return as_csv([*usage.by, *CSV_COLUMNS], rows)


# -- a page --------------------------------------------------------------------------------------------


def render(usage: UsageView) -> str:
    """Usage as one HTML file with everything in it, in the style of the report."""
    sections = []
    if usage.lines:
        sections.append(Section("bars", f"By {' and '.join(usage.by)}", (_bars(usage),)))
    if chart := months_chart(usage):
        sections.append(Section("months", "Over time", (chart,)))
    means = " ".join(
        f"{column.head[0].upper()}{column.head[1:]}: {column.means}." for column in columns(usage)
    )
    sections.append(Section("table", "In figures", (usage_table(usage), Paragraph(means))))
    return page_text(
        ReportPage(
            title=f"GPU-hours of {Path(usage.source).name}",
            lead=summary(usage),
            sections=tuple(sections),
            notes=tuple(map(Paragraph, notes(usage))),
        )
    )


def _bars(usage: UsageView) -> Bars:
    """GPU-hours held, and the failed part of them."""
    rows = tuple(
        Bar(
            ", ".join(line.names),
            (line.gpu_hours - line.failed_gpu_hours, line.failed_gpu_hours),
            hours(line.gpu_hours),
        )
        for line in usage.lines[:SHOWN]
    )
    caption = "GPU-hours held, and the part of them in attempts that failed."
    if len(usage.lines) > SHOWN:
        caption += f" The first {SHOWN} of {len(usage.lines):,}."
    return Bars("", caption, rows, ("held", "failed"))


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
    most = max(float(curve.y.max()) for curve in curves)
    name, values = by_month.curves[0]
    top = by_month.months[int(np.argmax(values))]
    return Chart(
        key="months",
        title="By month",
        caption="",
        text=f"{plural(last + 1, 'month')} from {by_month.months[0]} to {by_month.months[-1]}; {name} held "
        f"most, {hours(max(values))} GPU-hours in {top}.",
        x=Axis(0.0, float(last), "month", "given", ticks=_month_ticks(by_month.months)),
        y=number_axis(most, "GPU-hours"),
        curves=tuple(curves),
    )


def _month_ticks(months: Sequence[str]) -> tuple[Tick, ...]:
    """At most MOST_TICKS of them, the first and the last among them."""
    last = len(months) - 1
    places = sorted({round(i * last / (MOST_TICKS - 1)) for i in range(MOST_TICKS)})
    return tuple(Tick(place / last, months[place]) for place in places)


# -- months ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Months:
    """Curves over common months, those with the most GPU-hours first."""

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
