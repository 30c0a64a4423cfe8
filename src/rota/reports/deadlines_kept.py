"""Promised deadlines of a run: which were kept, by how much, and what broke the others."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from rota.model.columns import Bools, Floats
from rota.model.promises import TOLERANCE_S
from rota.model.record import Record
from rota.reports.sample import Sample
from rota.reports.series import Steps


@dataclass(frozen=True)
class Promises:
    """The promises made to the jobs of a sample, one entry for each job that has one."""

    due_s: Floats
    spare_s: Floats
    """Seconds from the end to the promised deadline, negative if late; NaN if the job was not completed."""
    ended: Bools
    """True for jobs that failed, or that their users cancelled: the policy did not break those promises."""
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
    """Completed jobs with a promise that was last expected to be kept, of all with a deadline.

    ElasticFlow's authors count jobs in time by the end that was planned, whenever the job was done.
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
    """Share of kept promises among those settled by each moment, 1 until one is broken; None if none.

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
