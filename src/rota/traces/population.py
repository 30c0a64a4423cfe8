"""Users of a generated cluster and their jobs: virtual clusters, users, and series of similar jobs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rota.model.columns import Floats, Ints
from rota.traces.arrivals import GeneratedArrivals, draw_submissions
from rota.traces.philly_figures import SIZES, VIRTUAL_CLUSTERS

# Our own choices, which the published figures do not determine.
BATCHES_PER_SERIES = 4.0
SERIES_RECALL = 8.0
"""Average number of batches between a batch and an older series of its virtual cluster that it continues."""
USERS_PER_VC = (4, 60)


@dataclass(frozen=True)
class Population:
    """Users and series: one row per job in order of virtual clusters, then codes of its series."""

    head: Floats
    lag_s: Floats
    series: Ints
    series_gpus: Ints
    series_tenant: Ints
    series_names: tuple[str, ...]
    tenant_names: tuple[str, ...]


def apportion(total: int, weights: Floats) -> Ints:
    """Whole numbers that add up to `total` in proportion to `weights` (largest remainders)."""
    exact = total * weights / weights.sum()
    counts: Ints = np.floor(exact).astype(np.int64)
    counts[np.argsort(counts - exact, kind="stable")[: total - counts.sum()]] += 1
    return counts


def draw_population(rng: np.random.Generator, jobs: int, gpus_in_all: int | None) -> Population:
    """Submissions of every virtual cluster with their series, whose numbers are unique over all clusters."""
    counts = apportion(jobs, np.array([vc.jobs for vc in VIRTUAL_CLUSTERS], dtype=np.float64))
    users = _users_per_vc()
    drawn: list[GeneratedArrivals] = []
    series: list[Ints] = []
    sizes: list[Ints] = []
    tenants: list[Ints] = []
    names: list[str] = []
    for code, (vc, count) in enumerate(zip(VIRTUAL_CLUSTERS, counts.tolist(), strict=True)):
        if count == 0:
            continue
        drawn.append(draw_submissions(rng, count, vc.gap_cv, vc.batched))
        of_job = _draw_series(rng, drawn[-1].batch)
        jobs_each = np.bincount(of_job)
        user = _draw_users(rng, len(jobs_each), int(users[code]))
        series.append(of_job + len(names))
        sizes.append(_draw_sizes(rng, jobs_each, np.array(vc.mix, dtype=np.float64)))
        tenants.append(user + int(users[:code].sum()))
        names += [f"{vc.name}/u{u + 1}/s{s + 1}" for s, u in enumerate(user.tolist())]
    largest = max(size for size in SIZES if size <= (gpus_in_all or SIZES[-1]))
    return Population(
        head=np.concatenate([part.head for part in drawn]),
        lag_s=np.concatenate([part.lag_s for part in drawn]),
        series=np.concatenate(series),
        series_gpus=np.minimum(np.concatenate(sizes), largest),
        series_tenant=np.concatenate(tenants),
        series_names=tuple(names),
        tenant_names=_tenant_names(users),
    )


def _users_per_vc() -> Ints:
    """Users of each virtual cluster, growing with the square root of its jobs."""
    jobs = np.array([vc.jobs for vc in VIRTUAL_CLUSTERS], dtype=np.float64)
    users: Ints = np.rint(USERS_PER_VC[1] * np.sqrt(jobs / jobs.max())).astype(np.int64)
    return np.clip(users, *USERS_PER_VC)


def _tenant_names(users: Ints) -> tuple[str, ...]:
    vcs = zip(VIRTUAL_CLUSTERS, users.tolist(), strict=True)
    return tuple(f"{vc.name}/u{user + 1}" for vc, count in vcs for user in range(count))


def _draw_series(rng: np.random.Generator, batch: Ints) -> Ints:
    """Series of each job: batches close in time often continue the same series."""
    batches = int(batch[-1]) + 1
    begins = np.sort(rng.uniform(0, batches, size=int(np.ceil(batches / BATCHES_PER_SERIES))))
    recalled = np.arange(batches) - rng.exponential(SERIES_RECALL, batches)
    of_batch = np.searchsorted(begins, recalled)
    code: Ints = np.unique(of_batch, return_inverse=True)[1]
    return code[batch]


def _draw_users(rng: np.random.Generator, series: int, users: int) -> Ints:
    """User of each series; the k-th user submits 1/k as much as the first."""
    weight = 1.0 / np.arange(1, users + 1)
    return np.asarray(rng.choice(users, size=series, p=weight / weight.sum()))


def _draw_sizes(rng: np.random.Generator, jobs_each: Ints, mix: Floats) -> Ints:
    """GPUs of each series, so that jobs (not series) follow `mix`."""
    order = rng.permutation(len(jobs_each))
    upto = np.cumsum(jobs_each[order])
    middle = (upto - jobs_each[order] * rng.random(len(order))) / upto[-1]
    sizes = np.empty(len(order), dtype=np.int64)
    sizes[order] = np.array(SIZES)[np.searchsorted(np.cumsum(mix)[:-1] / mix.sum(), middle)]
    return sizes
