"""What each job and tenant would get of a cluster shared evenly: what metrics of fairness stand on."""

from __future__ import annotations

import numpy as np
import polars as pl

from rota.model.columns import Bools, Floats, Ints
from rota.model.record import Record
from rota.reports.sample import Sample

FEWEST_OF_A_TENANT = 10
"""A tenant with fewer jobs that count is not considered for the worst treated."""
BRIEF_S = 600.0
"""No time of a job counts as less: a tenant with jobs of seconds is not a thousand times worse off."""


def alone_on_share_s(sample: Sample) -> Floats:
    """JCT of each job alone on 1/N of the cluster (`rho`); NaN where that is not known, and without GPUs."""
    duration_s, gpus = sample.column("duration_s"), sample.column("gpus")
    asked = gpus * np.nan_to_num(sample.column("gpu_share"), nan=1.0)
    stretch = np.maximum(asked * sample.tenants / max(sample.gpus_of_cluster, 1), 1.0)
    return np.where((duration_s > 0) & (gpus > 0), duration_s * stretch, np.nan)


def worst_share(jct_s: Floats, alone_s: Floats, tenants: Ints) -> float | None:
    """The largest of the tenants' sums of `jct_s` over sums of `alone_s`; a job with a NaN does not count.

    None if fewer than two tenants have enough jobs.
    """
    known = ~np.isnan(jct_s) & ~np.isnan(alone_s)
    jct_s, alone_s = np.maximum(jct_s, BRIEF_S), np.maximum(alone_s, BRIEF_S)
    counts = np.bincount(tenants[known], minlength=1)
    of_tenant = [np.bincount(tenants[known], weights=of[known], minlength=1) for of in (jct_s, alone_s)]
    enough = counts >= FEWEST_OF_A_TENANT
    if enough.sum() < 2:
        return None
    return float((of_tenant[0][enough] / of_tenant[1][enough]).max())


def rho_static(sample: Sample) -> Floats:
    """ρ where all jobs of the window share the cluster."""
    return sample.once("rho_static", lambda: _rho_among(sample, np.full(len(sample), float(sample.jobs))))


def rho_present(sample: Sample) -> Floats:
    """ρ where those jobs share it that are there."""
    return sample.once("rho_present", lambda: _rho_among(sample, sample.derived("present", present)))


def _rho_among(sample: Sample, jobs: Floats) -> Floats:
    """JCT over that on an equal part of the cluster among `jobs` jobs; NaN where it is not known."""
    duration_s = sample.column("duration_s")
    alone_s = duration_s * np.maximum(jobs / max(sample.gpus_of_cluster, 1), 1.0)
    known: Bools = (duration_s > 0) & (sample.column("gpus") > 0)
    ratio: Floats = np.divide(sample.jct_s, alone_s, out=np.full(len(sample), np.nan), where=known)
    return ratio


def present(record: Record) -> Floats:
    """Mean number of jobs present during the life of each job of `record`; NaN if it lives, or never ran."""
    jobs = record.jobs
    submit_s = jobs["submit_s"].to_numpy()
    finish_s = jobs["finish_s"].cast(pl.Float64).fill_nan(None).fill_null(np.inf).to_numpy()
    moments = np.concatenate((submit_s, finish_s[np.isfinite(finish_s)]))
    steps = np.concatenate((np.ones(len(submit_s)), -np.ones(len(moments) - len(submit_s))))
    order = np.argsort(moments, kind="stable")
    moments, there = moments[order], np.cumsum(steps[order])
    passed = np.concatenate(([0.0], np.cumsum(there[:-1] * np.diff(moments))))

    def integral(at: Floats) -> Floats:
        place = np.searchsorted(moments, at, side="right") - 1
        upto: Floats = passed[place] + there[place] * (at - moments[place])
        return upto

    has_run = jobs["start_s"].fill_nan(None).is_not_null().to_numpy()
    life_s = np.where(has_run & np.isfinite(finish_s), finish_s - submit_s, np.nan)
    end_s = submit_s + np.nan_to_num(life_s, nan=0.0)
    mean: Floats = np.divide(
        integral(end_s) - integral(submit_s), life_s, out=np.full(len(life_s), np.nan), where=life_s > 0.0
    )
    return mean
