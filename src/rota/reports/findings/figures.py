"""The figures of findings: step functions over time, distributions, and bars."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rota.model.columns import Floats
from rota.model.units import format_duration
from rota.reports.chart import (
    Axis,
    Chart,
    Curve,
    log_time_axis,
    names_of,
    number_axis,
    share_axis,
    staircase,
    time_axis,
)
from rota.reports.clock import time_label
from rota.reports.findings.finding import Bar, Bars
from rota.reports.findings.history import JobHistory
from rota.reports.series import Steps, binned, cdf

BINS = 300
"""Points of a curve over time."""
MOST_BARS = 12


def steps_of(start_s: Floats, end_s: Floats, amount: Floats) -> Steps:
    """How much is held at each moment by stretches from `start_s` to `end_s`."""
    return Steps.from_events(np.concatenate((start_s, end_s)), np.concatenate((amount, -amount)))


def over_time(
    key: str,
    title: str,
    text: str,
    history: JobHistory,
    curves: Sequence[tuple[str, Steps]],
    label: str,
    high: float = 0.0,
) -> Chart:
    """Step functions from the first to the last submission, as means of equal stretches of time."""
    low_s, high_s = history.span_s
    length_s = max(high_s - low_s, 1.0)
    began = history.clock.at(low_s) if history.clock else None
    x = time_axis(length_s, time_label(history.clock, low_s, high_s), began)
    drawn, most = [], high
    for colour, (name, steps) in enumerate(curves):
        bins = binned(steps, low_s, low_s + length_s, BINS)
        middle = (bins.edges_s[1:] + bins.edges_s[:-1]) / 2 - low_s
        drawn.append(Curve(name, colour, middle, bins.mean))
        most = max(most, float(bins.mean.max()))
    caption = f"Means over {format_duration(length_s / BINS)}."
    return Chart(key, title, caption, text, x, number_axis(most, label), tuple(drawn))


def distribution(
    key: str, title: str, label: str, curves: Sequence[tuple[str, Floats]], of: str = "jobs"
) -> Chart:
    """Cumulative shares over logarithmic time."""
    known = [(name, values) for name, values in curves if len(values)]
    longest = max((float(values.max()) for _, values in known), default=10.0)
    shortest = min((float(values.min()) for _, values in known), default=1.0)
    x = log_time_axis(shortest, longest, label)
    drawn = tuple(_rising(name, colour, values, x) for colour, (name, values) in enumerate(known))
    medians = ", ".join(f"{name} {format_duration(float(np.median(values)))}" for name, values in known)
    text = f"{title}: cumulative share of {of} for {names_of(drawn)}. Medians: {medians}."
    edge = f"{format_duration(x.low)} and less at the left edge"
    return Chart(key, title, f"Logarithmic, {edge}.", text, x, share_axis(f"share of {of}"), drawn)


def _rising(name: str, colour: int, values: Floats, x: Axis) -> Curve:
    points = cdf(values)
    above = points.value > x.low
    times = np.concatenate(([x.low], points.value[above]))
    shares = np.concatenate(([float((values <= x.low).mean())], points.share[above]))
    return Curve(name, colour, *staircase(times, shares, x.high))


def bars(
    title: str,
    caption: str,
    rows: Sequence[tuple[str, Sequence[float], str]],
    parts: Sequence[str] = (),
    top: float = 0.0,
) -> Bars:
    """Rows of name, lengths and words; those beyond the first few are left out, and the caption says so."""
    more = len(rows) - MOST_BARS
    said = f"{caption} {more:,} more are not shown." if more > 0 else caption
    shown = tuple(Bar(name, tuple(lengths), text) for name, lengths, text in rows[:MOST_BARS])
    return Bars(title, said, shown, tuple(parts), top)
