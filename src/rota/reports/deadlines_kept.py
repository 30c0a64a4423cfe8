"""Promised deadlines of a run: which were kept, by how much, and what broke the others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from rota.model.columns import Bools, Floats
from rota.model.promises import TOLERANCE_S
from rota.model.record import Record
from rota.model.units import format_duration
from rota.reports.chart import Axis, Chart, Curve, log_time_axis, share_axis, staircase
from rota.reports.sample import Sample
from rota.reports.series import Steps
from rota.reports.window import Window


@dataclass(frozen=True)
class Promises:
    """The promises made to the jobs of a sample, one entry for each job that has one."""

    due_s: Floats
    spare_s: Floats
    """Seconds from the end to the promised deadline, negative if late; NaN if the job was not completed."""
    ended: Bools
    """True for jobs that failed, or that their users cancelled: nobody else broke those promises."""
    hit: Bools
    """True for jobs that lost a node, or that were to be done while another had lost one."""

    @classmethod
    def of(cls, sample: Sample) -> Promises:
        due_s = sample.column("promised_s")
        is_one = ~np.isnan(due_s)
        done = sample.state == "COMPLETED"
        spare_s = np.where(done, due_s - sample.column("finish_s"), np.nan)
        ended = (sample.state == "FAILED") | (sample.state == "CANCELLED")
        hit = sample.derived("hit", _hit)
        return cls(due_s[is_one], spare_s[is_one], ended[is_one], hit[is_one])

    def __len__(self) -> int:
        return len(self.due_s)

    @property
    def kept(self) -> Bools:
        return self.spare_s >= -TOLERANCE_S  # NaN is no promise kept

    @property
    def broken_by_faults(self) -> Bools:
        return ~self.kept & self.hit & ~self.ended

    @property
    def broken_by_jobs(self) -> Bools:
        return ~self.kept & self.ended

    @property
    def broken_otherwise(self) -> Bools:
        return ~self.kept & ~self.hit & ~self.ended


def planned_share(sample: Sample) -> float | None:
    """Completed jobs whose promise was last expected to be kept, of all with a deadline.

    ElasticFlow's authors count so who is in time: by the end that was planned, whenever the job was done.
    """
    asked = ~np.isnan(sample.column("deadline_s"))
    due_s = sample.column("promised_s")
    if not asked.any() or np.isnan(due_s).all():
        return None
    planned = sample.column("expected_s") <= due_s + TOLERANCE_S
    return float((planned & asked & (sample.state == "COMPLETED")).sum() / asked.sum())


def _hit(record: Record) -> Bools:
    """Whether any job lost a node between submission and promised deadline of each."""
    submit_s = record.jobs["submit_s"].to_numpy()
    due_s = record.jobs["promised_s"].cast(pl.Float64).fill_null(np.nan).to_numpy()
    lost_s = np.sort(record.intervals.filter(pl.col("end") == "lost")["end_s"].to_numpy())
    first = np.searchsorted(lost_s, submit_s)
    due = np.where(np.isnan(due_s), -np.inf, due_s)
    hit: Bools = np.searchsorted(lost_s, due, "right") > first
    return hit


def kept_over_time(sample: Sample, start_s: float) -> Steps | None:
    """Share of the promises settled so far that were kept, 1 until one is broken; None without promises.

    A promise is settled when its job ends, or when the promised moment passes without that.
    """
    made = Promises.of(sample)
    if not len(made):
        return None
    is_one = ~np.isnan(sample.column("promised_s"))
    ends_s = sample.column("finish_s")[is_one]
    settled_s = np.where(made.kept, ends_s, np.fmin(ends_s, made.due_s))
    order = np.argsort(settled_s, kind="stable")
    shares = np.cumsum(made.kept[order]) / np.arange(1, len(made) + 1)
    times, last = np.unique(settled_s[order][::-1], return_index=True)
    return Steps(np.append(start_s, times), np.append(1.0, shares[::-1][last]))


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
