"""Curves that charts of runs and of findings share: distributions, and step functions over time."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

from rota.model.columns import Floats
from rota.model.units import format_duration
from rota.reports.chart import (
    Axis,
    Chart,
    Curve,
    log_time_axis,
    number_axis,
    share_axis,
    staircase,
    time_axis,
)
from rota.reports.clock import WallClock, time_label
from rota.reports.series import Steps, binned, cdf
from rota.reports.window import Span
from rota.reports.wording import listed

BINS = 300
"""Points of a curve of findings over time."""


def distribution(
    key: str,
    title: str,
    label: str,
    curves: Sequence[tuple[str, Floats]],
    of: str = "jobs",
    dashed: Collection[int] = (),
) -> Chart:
    """Cumulative shares over logarithmic time, of names and their seconds.

    `label` names the axis of time, `of` what the shares are of; curves with the numbers `dashed` are so.
    """
    longest = max((float(values.max()) for _, values in curves if len(values)), default=10.0)
    shortest = min((float(values.min()) for _, values in curves if len(values)), default=1.0)
    x = log_time_axis(shortest, longest, label)
    drawn = tuple(
        rising(name, number, values, x, dashed=number in dashed)
        for number, (name, values) in enumerate(curves)
    )
    medians = [f"{name} {format_duration(float(np.median(own)))}" for name, own in curves if len(own)]
    text = (
        f"{title}: cumulative share of {of} for {listed([name for name, _ in curves])}. "
        f"Medians: {', '.join(medians)}."
    )
    edge = f"{format_duration(x.low)} and less at the left edge"
    caption = f"At each time: how many needed no more. Logarithmic, {edge}."
    return Chart(key, title, caption, text, x, share_axis(f"share of {of}"), drawn)


def rising(name: str, colour: int, values: Floats, x: Axis, *, dashed: bool = False) -> Curve:
    """The distribution of `values`: a staircase from the left edge of `x` up to 100 % at the right."""
    points = cdf(values)
    above = points.value > x.low
    below = float((values <= x.low).mean()) if len(values) else 0.0
    times = np.concatenate(([x.low], points.value[above]))
    shares = np.concatenate(([below], points.share[above]))
    return Curve(name, colour, *staircase(times, shares, x.high), dashed=dashed)


def over_time(
    key: str,
    title: str,
    text: str,
    curves: Sequence[tuple[str, Steps]],
    label: str,
    span_s: tuple[float, float],
    clock: WallClock | None,
    high: float = 0.0,
) -> Chart:
    """Step functions from one moment to another, dated if there is a clock; `label` names the values."""
    low_s, high_s = span_s
    span = Span(low_s, low_s + max(high_s - low_s, 1.0))
    x = time_axis(span.length_s, time_label(clock, low_s, high_s), clock.at(low_s) if clock else None)
    drawn = tuple(time_curve(name, i, steps, span, BINS) for i, (name, steps) in enumerate(curves))
    most = max([high, *(float(curve.y.max()) for curve in drawn)])
    return Chart(
        key, title, time_caption(drawn, span.length_s / BINS), text, x, number_axis(most, label), drawn
    )


def time_curve(name: str, colour: int, steps: Steps, span: Span, bins: int, *, dashed: bool = False) -> Curve:
    """Exact steps if they can be shown, else means over `bins` parts of the span, with a band."""
    part = steps.within(span.start_s, span.end_s)
    if len(part.time_s) <= 2 * bins or span.length_s == 0:
        x, y = staircase(part.time_s - span.start_s, part.value, span.length_s)
        return Curve(name, colour, x, y, dashed=dashed)
    cut = binned(steps, span.start_s, span.end_s, bins)
    middle = (cut.edges_s[1:] + cut.edges_s[:-1]) / 2 - span.start_s
    return Curve(name, colour, middle, cut.mean, (cut.low, cut.high), dashed)


def time_caption(curves: Sequence[Curve], width_s: float) -> str:
    """How curves made by `time_curve` are to be read, where a part of the span is `width_s` long."""
    if not any(curve.band for curve in curves):
        return "Exact steps."
    width = format_duration(width_s)
    return f"Lines are means over {width}; the pale band spans the lowest and highest value in each."
