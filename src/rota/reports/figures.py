"""The line charts of a report: distributions of waits and completion times, and the cluster over time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from rota.model.columns import Floats
from rota.model.record import Record
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
from rota.reports.clock import clock_of, time_label
from rota.reports.compare import LEAST
from rota.reports.curves import distribution, time_caption, time_curve
from rota.reports.deadlines_kept import Promises, kept_over_time
from rota.reports.metrics import jct_s, waiting_s
from rota.reports.occupancy import (
    arrivals_span,
    granted,
    paid_nodes,
    waiting,
    whole_gpus_of,
    whole_run,
    worked,
)
from rota.reports.sample import Sample
from rota.reports.series import Steps
from rota.reports.window import Span, Window

BINS = 500
"""Points of a curve over time; more steps than this are averaged, with their extremes as a band."""


NO_WAITS = "No job ever waited."
STRETCHES = "Of each job the mean of each stretch on one size."


def one_per_policy(records: Sequence[Record]) -> list[Record]:
    """The first run of each policy: curves of several seeds would hide each other."""
    first: dict[str, Record] = {}
    for record in records:
        first.setdefault(record.policy, record)
    return list(first.values())


def common_span(records: Sequence[Record]) -> Span:
    """From the first submission to the end of the longest run."""
    spans = [whole_run(record) for record in records]
    return Span(min(span.start_s for span in spans), max(span.end_s for span in spans))


def shown_span(records: Sequence[Record]) -> Span:
    """The part of it that figures show first: to the last submission, where the cluster begins to empty."""
    spans = [arrivals_span(record) for record in records]
    return Span(min(span.start_s for span in spans), max(span.end_s for span in spans))


def figure_axis(records: Sequence[Record]) -> tuple[Axis, float]:
    """The axis of every figure over time, and the part of it that is shown first."""
    span, shown, clock = common_span(records), shown_span(records), clock_of(records[0])
    began = clock.at(span.start_s) if clock else None
    label = time_label(clock, span.start_s, span.end_s)
    axis = time_axis(span.length_s, label, began, shown_s=shown.length_s)
    return axis, axis.ticks[-1].at


def jct_chart(records: Sequence[Record], window: Window | None = None) -> Chart:
    """Cumulative distribution of JCT, logarithmic time."""
    values = [_known(jct_s(Sample.of(record, window))) for record in records]
    return _distribution("jct", "Job completion time", "time from submission to finish", records, values)


def waiting_chart(records: Sequence[Record], window: Window | None = None) -> Chart:
    """Cumulative distribution of all time waited, logarithmic time."""
    values = [_known(waiting_s(Sample.of(record, window))) for record in records]
    label = "all time waited, interruptions included"
    chart = _distribution("waiting", "Waiting", label, records, values)
    return chart if any((of >= LEAST).any() for of in values) else replace(chart, caption=NO_WAITS)


def _distribution(
    key: str, title: str, label: str, records: Sequence[Record], values: Sequence[Floats]
) -> Chart:
    curves = [(record.policy, of) for record, of in zip(records, values, strict=True)]
    dashed = {number for number, record in enumerate(records) if not record.ranked}
    return distribution(key, title, label, curves, "finished jobs", dashed)


def utilisation_chart(records: Sequence[Record], window: Window | None = None) -> Chart:
    """Share of the cluster granted, over time."""
    span = shown_span(records)
    steps = [_scaled(granted(record), 1 / (whole_gpus_of(record) or 1.0)) for record in records]
    y = share_axis("share of GPUs granted")
    means = [f"{r.policy} {100 * _mean(s, span):.0f}%" for r, s in zip(records, steps, strict=True)]
    text = f"Utilisation over the {format_duration(span.length_s)} of submissions. Mean: {', '.join(means)}."
    return _time_chart("utilisation", "Utilisation", text, records, steps, y, window)


def queue_chart(records: Sequence[Record], window: Window | None = None) -> Chart:
    """Number of jobs waiting, over time."""
    steps = [waiting(record) for record in records]
    highest = max((float(s.value.max()) for s in steps if len(s.value)), default=1.0)
    peaks = [
        f"{r.policy} {s.value.max() if len(s.value) else 0:,.0f}" for r, s in zip(records, steps, strict=True)
    ]
    length = format_duration(common_span(records).length_s)
    text = f"Jobs waiting over {length}. Longest queue: {', '.join(peaks)}."
    axis = number_axis(highest, "jobs waiting")
    chart = _time_chart("queue", "Queue length", text, records, steps, axis, window)
    return chart if highest else replace(chart, caption=NO_WAITS)


def work_chart(records: Sequence[Record], window: Window | None = None) -> Chart | None:
    """Work done over time, in GPUs' worth; None unless all runs noted it, and some job changed its size."""
    if not any(record.jobs["resizes"].sum() for record in records if "resizes" in record.jobs.columns):
        return None
    noted = [(place, worked(record)) for place, record in enumerate(records)]
    steps = [one for _, one in noted if one is not None]
    places = [place for place, one in noted if one is not None]
    known = [records[place] for place in places]
    if not any(record.jobs["resizes"].sum() for record in known):
        return None
    highest = max((float(one.value.max()) for one in steps if len(one.value)), default=1.0)
    span = shown_span(records)
    means = [f"{r.policy} {_mean(s, span):.3g}" for r, s in zip(known, steps, strict=True)]
    text = (
        f"Work done over the {format_duration(span.length_s)} of submissions, in GPUs at the sizes that jobs "
        f"asked for. Mean: {', '.join(means)}."
    )
    y = number_axis(highest, "GPUs' worth of work, at the sizes asked for")
    chart = _time_chart("work", "Goodput", text, known, steps, y, window, records)
    return _coloured(replace(chart, caption=chart.caption.replace("Exact steps.", STRETCHES)), places)


def _time_chart(
    key: str,
    title: str,
    text: str,
    records: Sequence[Record],
    steps: Sequence[Steps],
    y: Axis,
    window: Window | None,
    beside: Sequence[Record] | None = None,
) -> Chart:
    """`records` on the axis that they share with the records `beside` them."""
    span = common_span(beside or records)
    x, part = figure_axis(beside or records)
    bins = _bins(part)
    curves = tuple(
        time_curve(record.policy, i, of, span, bins, dashed=not record.ranked)
        for i, (record, of) in enumerate(zip(records, steps, strict=True))
    )
    caption = time_caption(curves, span.length_s / bins)
    shaded = None
    if window:
        measured = Sample.of(records[0], window).span
        shaded = (measured.start_s - span.start_s, measured.end_s - span.start_s)
        caption += " Unshaded: the measured window."
    return Chart(key, title, caption, text, x, y, curves, part, shaded)


def _bins(part: float) -> int:
    """Bins over the whole axis, so that the part shown first has `BINS`; at most four times `BINS`."""
    return min(round(BINS / max(part, 0.25)), 4 * BINS)


def kept_chart(records: Sequence[Record], window: Window | None = None) -> Chart | None:
    """Share of kept promises among those settled, over time; None if no policy has promised any."""
    start_s = common_span(records).start_s
    noted = [kept_over_time(Sample.of(record, window), start_s) for record in records]
    shown = [(place, steps) for place, steps in enumerate(noted) if steps is not None]
    if not shown:
        return None
    told = [f"{records[place].policy} {100 * steps.value[-1]:.0f}%" for place, steps in shown]
    text = f"Promises kept, of those settled so far. In the end: {', '.join(told)}."
    runs, y = [records[place] for place, _ in shown], share_axis("share of promises kept so far")
    series = [steps for _, steps in shown]
    chart = _time_chart("kept", "Promises kept", text, runs, series, y, window, beside=records)
    return _coloured(chart, [place for place, _ in shown])


def slack_chart(records: Sequence[Record], window: Window | None = None) -> Chart | None:
    """How long before the promised moment jobs were done; None if no policy has promised any."""
    made = [(i, record, Promises.of(Sample.of(record, window))) for i, record in enumerate(records)]
    made = [(i, record, promises) for i, record, promises in made if len(promises)]
    if not made:
        return None
    some = np.concatenate([promises.spare_s[promises.spare_s > 1.0] for _, _, promises in made])
    x = log_time_axis(
        float(min(some, default=1.0)), float(max(some, default=10.0)), "time to spare at the end"
    )
    curves = tuple(_slack_curve(record, i, promises, x) for i, record, promises in made)
    told = [f"{r.policy} {int(p.kept.sum())} of {len(p)}" for _, r, p in made]
    middle = [
        f"{r.policy} {format_duration(float(np.median(p.spare_s[p.kept])))}"
        for _, r, p in made
        if p.kept.any()
    ]
    text = f"Promised deadlines kept: {', '.join(told)}. Median time to spare: {', '.join(middle)}."
    caption = (
        "At each time: how many promised jobs had no more to spare. Logarithmic; at the left edge those that "
        f"had {format_duration(x.low)} and less, or were late, or not done at all."
    )
    return Chart("slack", "Promised deadlines", caption, text, x, share_axis("share of promises"), curves)


def _slack_curve(record: Record, colour: int, promises: Promises, x: Axis) -> Curve:
    """A staircase from the share of promises that are broken or just kept up to 100 %."""
    spare_s = np.sort(promises.spare_s[promises.spare_s > x.low])
    left = len(promises) - len(spare_s)
    times = np.concatenate(([x.low], spare_s))
    shares = (left + np.arange(len(spare_s) + 1)) / len(promises)
    return Curve(record.policy, colour, *staircase(times, shares, x.high), dashed=not record.ranked)


def nodes_chart(records: Sequence[Record], window: Window | None = None) -> Chart | None:
    """Number of nodes paid for, over time, in runs with a varying number of nodes; None without any."""
    noted = [paid_nodes(record) for record in records]
    shown = [(place, steps) for place, steps in enumerate(noted) if steps is not None]
    if not shown:
        return None
    highest = max(float(steps.value.max()) for _, steps in shown)
    span = shown_span(records)
    means = [f"{records[place].policy} {_mean(steps, span):.1f}" for place, steps in shown]
    text = (
        f"Nodes paid for over the {format_duration(span.length_s)} of submissions. Mean: {', '.join(means)}."
    )
    axis = number_axis(highest, "nodes paid for")
    runs, series = [records[place] for place, _ in shown], [steps for _, steps in shown]
    chart = _time_chart("paid", "Nodes paid for", text, runs, series, axis, window, beside=records)
    return _coloured(chart, [place for place, _ in shown])


def _coloured(chart: Chart, colours: Sequence[int]) -> Chart:
    """The curves in the colours that their policies have in all charts."""
    curves = zip(chart.curves, colours, strict=True)
    return replace(chart, curves=tuple(replace(curve, colour=colour) for curve, colour in curves))


def _known(values: Floats) -> Floats:
    return values[~np.isnan(values)]


def _scaled(steps: Steps, factor: float) -> Steps:
    return Steps(steps.time_s, steps.value * factor)


def _mean(steps: Steps, span: Span) -> float:
    return steps.integral(span.start_s, span.end_s) / span.length_s if span.length_s else 0.0
