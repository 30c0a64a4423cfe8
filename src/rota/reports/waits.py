"""Where waiting comes from: before a job may start, before it starts, after it was interrupted; by hour."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from rota.model.columns import Floats
from rota.model.record import Record
from rota.model.units import format_duration, plural
from rota.reports.chart import Chart, Curve, duration_axis, hour_axis, staircase
from rota.reports.clock import clock_of
from rota.reports.compare import Comparison
from rota.reports.finding import Bar, Bars
from rota.reports.metrics import waiting_s
from rota.reports.overtaken import overtaken_s, unpromised
from rota.reports.sample import Sample
from rota.reports.window import Window
from rota.reports.wording import NOTHING, listed, words

HELD, FIRST, AGAIN = "not yet allowed to start", "before the first start", "after an interruption"
OVERTAKEN, OTHERWISE = "overtaken by promised jobs that came later", "otherwise"
_HOUR_S, _DAY_S = 3600.0, 86400.0


def split(sample: Sample) -> dict[str, float]:
    """Mean seconds of waiting of the finished jobs, by part; they add up to `mean_waiting_s`.

    A job waits while its own dependencies, begin time or hold keep it (where the trace tells), then until its
    first start, and once more after every interruption: a preemption, a lost node, a failed attempt.
    """
    done = sample.finished
    if not done.any():
        return {}
    submit_s, start_s = sample.column("submit_s")[done], sample.column("start_s")[done]
    total_s = sample.column("waiting_s")[done]
    first_s = np.minimum(start_s - submit_s, total_s)
    held_s = np.clip(np.nan_to_num(sample.column("eligible_s")[done] - submit_s), 0.0, first_s)
    return {
        HELD: float(held_s.mean()),
        FIRST: float((first_s - held_s).mean()),
        AGAIN: float((total_s - first_s).mean()),
    }


def split_bars(records: Sequence[Record], window: Window | None = None) -> Bars | None:
    """The split of every policy, to one scale; None if no job waits."""
    splits = [split(Sample.of(record, window)) for record in records]
    return _bars(
        "What the mean wait is made of",
        "Time waited by finished jobs, on average, all policies to one scale.",
        (HELD, FIRST, AGAIN),
        [(number, record, parts) for number, (record, parts) in enumerate(zip(records, splits, strict=True))],
    )


def promise_bars(records: Sequence[Record], window: Window | None = None) -> Bars | None:
    """Where deadlines were promised, the mean waiting of the other jobs: overtaken by promises, or not."""
    made = []
    for number, record in enumerate(records):
        sample = Sample.of(record, window)
        others = unpromised(sample) & sample.finished
        if others.any():
            waits_s = float(np.nanmean(sample.column("waiting_s")[others]))
            late_s = float(overtaken_s(sample)[others].mean())
            made.append((number, record, {OVERTAKEN: late_s, OTHERWISE: max(waits_s - late_s, 0.0)}))
    caption = (
        "Mean wait of the finished jobs that were promised nothing. Overtaken: meanwhile promised jobs that "
        "were submitted later held as many GPUs as they asked for."
    )
    return _bars("What promises cost the others", caption, (OVERTAKEN, OTHERWISE), made)


def _bars(
    title: str, caption: str, names: tuple[str, ...], made: Sequence[tuple[int, Record, Mapping[str, float]]]
) -> Bars | None:
    """A row for each run, by its number, of seconds by part; None if all are 0."""
    if not any(sum(parts.values()) > 0 for _, _, parts in made):
        return None
    rows = tuple(
        Bar(
            record.policy,
            tuple(parts.get(name, 0.0) for name in names),
            format_duration(sum(parts.values())) if parts else NOTHING,
            curve=number,
            ranked=record.ranked,
            each=tuple(format_duration(parts.get(name, 0.0)) for name in names),
        )
        for number, record, parts in made
    )
    return Bars(title, caption, rows, names)


def causes(records: Sequence[Record], window: Window | None = None) -> list[tuple[str, list[float | None]]]:
    """What kept jobs from their first start: by cause its share of that time under each policy, None if none.

    A cause is the constraint that was dominant when the wait began; the largest comes first.  Empty where no
    record says.
    """
    shares = [_cause_shares(Sample.of(record, window)) for record in records]
    names = {name for of in shares for name in of}
    largest = {name: max(of.get(name, 0.0) for of in shares) for name in names}
    ordered = sorted(names, key=lambda name: (-largest[name], name))
    return [(name, [of.get(name) for of in shares]) for name in ordered]


def _cause_shares(sample: Sample) -> dict[str, float]:
    done = sample.finished
    codes = sample.record.jobs["wait_code"].fill_null("").to_numpy()[sample.rows][done]
    first_s = (sample.column("start_s") - sample.column("submit_s"))[done]
    total_s = float(first_s[codes != ""].sum())
    if total_s <= 0:
        return {}
    return {
        str(code): float(first_s[codes == code].sum()) / total_s for code in np.unique(codes[codes != ""])
    }


def size_bars(comparison: Comparison) -> list[Bars]:
    """Mean waiting by class of size, with a bar for each policy, all to one scale."""
    sizes = comparison.summaries[0].sizes
    rows = {name: [_size_bar(name, i, comparison) for i in range(len(comparison.lines))] for name in sizes}
    known = {name: tuple(bar for bar in of if bar is not None) for name, of in rows.items()}
    longest_s = max((bar.parts[0] for of in known.values() for bar in of), default=0.0)
    if longest_s <= 0:
        return []
    counted = {name: plural(sizes[name]["jobs"] or 0, "job") for name in sizes}
    return [Bars(name, counted[name], of, top=longest_s) for name, of in known.items()]


def _size_bar(size: str, number: int, comparison: Comparison) -> Bar | None:
    """The bar of the policy of that number; None where it has no jobs of this size."""
    line = comparison.lines[number]
    runs = [of.sizes for of in comparison.summaries if of.policy == line.policy and size in of.sizes]
    if not runs:
        return None
    known = [float(value) for of in runs if (value := of[size]["mean_waiting_s"]) is not None]
    mean_s = float(np.mean(known)) if known else None
    return Bar(line.policy, (mean_s or 0.0,), words(mean_s, "s"), curve=number, ranked=line.ranked)


_MOST_IDLE = 6
"""Most hours without jobs that are named."""


def hour_chart(records: Sequence[Record], window: Window | None = None) -> Chart | None:
    """Mean waiting by the hour of submission; None for a trace of less than a day."""
    samples = [Sample.of(record, window) for record in records]
    clock = clock_of(records[0])
    submit_s = samples[0].column("submit_s")
    if not len(submit_s) or float(np.ptp(submit_s)) < _DAY_S:
        return None
    began_s = 0.0 if clock is None else float(clock.epoch.timestamp() % _DAY_S)
    hours = [_by_hour(sample, began_s) for sample in samples]
    highest_s = max((float(np.nanmax(of)) for of in hours if not np.isnan(of).all()), default=0.0)
    curves = tuple(
        Curve(
            record.policy, i, *staircase(np.arange(24.0), np.nan_to_num(of), 24.0), dashed=not record.ranked
        )
        for i, (record, of) in enumerate(zip(records, hours, strict=True))
    )
    zone = f" ({clock.zone})" if clock and clock.zone else ""
    label = f"hour of submission{zone}" if clock else "hour of the trace's days; when they begin is not known"
    worst = ", ".join(
        f"{record.policy} {format_duration(float(np.nanmax(of)))} at {int(np.nanargmax(of)):02d}:00"
        for record, of in zip(records, hours, strict=True)
        if not np.isnan(of).all()
    )
    names = listed([record.policy for record in records])
    return Chart(
        "hours",
        "Waiting by hour of submission",
        f"Of the jobs submitted in each hour of the day.{_idle_hours(hours[0])}",
        f"Mean waiting by hour of submission for {names}. Longest: {worst}.",
        hour_axis(label),
        duration_axis(highest_s, "mean waiting"),
        curves,
    )


def _idle_hours(of: Floats) -> str:
    """Which hours are drawn at 0 because none of the jobs was submitted then."""
    idle = [f"{hour:02d}:00" for hour in np.flatnonzero(np.isnan(of)).tolist()]
    if len(idle) > _MOST_IDLE:
        return f" At 0 where there are none: {len(idle)} of the hours."
    return f" At 0 where there are none: {', '.join(idle)}." if idle else ""


def _by_hour(sample: Sample, began_s: float) -> Floats:
    """Mean waiting of the finished jobs submitted in each hour of the day; NaN where there are none."""
    waits_s = waiting_s(sample)
    known = ~np.isnan(waits_s)
    hour = ((sample.column("submit_s")[known] + began_s) % _DAY_S // _HOUR_S).astype(np.int64)
    jobs = np.bincount(hour, minlength=24)
    total_s = np.bincount(hour, weights=waits_s[known], minlength=24)
    mean_s: Floats = np.divide(total_s, jobs, out=np.full(24, np.nan), where=jobs > 0)
    return mean_s
