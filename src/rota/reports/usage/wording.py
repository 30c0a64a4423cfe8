"""Usage in words: the columns that text, page and dashboard show, and what to know of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from rota.model.gpu_slices import said_of_slices
from rota.model.units import format_duration, plural
from rota.model.words import hours
from rota.reports.usage.held import HOUR_S
from rota.wire.usage import UNKNOWN, UsageLine, UsageView


@dataclass(frozen=True)
class Column:
    """One figure of every line."""

    head: str
    means: str
    cell: Callable[[UsageLine], str]


def columns(usage: UsageView) -> list[Column]:
    """Those that this usage can fill."""
    total = usage.total
    shown = [
        Column("jobs", "that held something", lambda line: f"{line.jobs:,}"),
        Column(
            "GPU-hours",
            "GPUs times the share of each, times hours; a MIG slice is a part of a GPU",
            lambda line: hours(line.gpu_hours),
        ),
        Column("share", "of all GPU-hours", lambda line: _percent(line.share)),
        Column("failed", "part in attempts that failed", lambda line: _part(line.failed_gpu_hours, line)),
        Column(
            "cancelled",
            "part of jobs that their users ended",
            lambda line: _part(line.cancelled_gpu_hours, line),
        ),
    ]
    if total.preempted_gpu_hours is not None:
        shown.append(
            Column(
                "preempted",
                "work lost when jobs had to give way, as a part",
                lambda line: _part(line.preempted_gpu_hours, line),
            )
        )
    if total.idle_gpu_hours is not None:
        shown.append(Column("idle", "held and idle, of what was measured", _idle))
    if total.wait_hours is not None:
        shown.append(Column("mean wait", "from submission to start", _wait))
    if total.cost is not None:
        shown.append(Column("cost", "GPU-hours times their price", _cost))
    return shown


def notes(usage: UsageView) -> list[str]:
    """What to know of the figures, as sentences."""
    said, total = [*usage.remarks], usage.total
    if usage.without_duration:
        jobs = plural(usage.without_duration, "job")
        said.append(f"{jobs} of unknown run time: counted with no hours.")
    if usage.from_submission:
        said.append("No starts are recorded: hours count from submission, and nobody's wait is known.")
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
    return UNKNOWN if part is None else f"{100 * part:.1f}%"


def _part(number: float | None, line: UsageLine) -> str:
    """Of the line's own GPU-hours."""
    return _percent(number / line.gpu_hours) if number is not None and line.gpu_hours else UNKNOWN


def _idle(line: UsageLine) -> str:
    idle, measured = line.idle_gpu_hours, line.measured_gpu_hours
    return _percent(idle / measured) if idle is not None and measured else UNKNOWN


def _wait(line: UsageLine) -> str:
    return UNKNOWN if line.wait_hours is None else format_duration(HOUR_S * line.wait_hours)


def _cost(line: UsageLine) -> str:
    return UNKNOWN if line.cost is None else f"{line.cost:,.2f}"
