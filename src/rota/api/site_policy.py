"""The policy that a site runs: a small family is replayed on its trace, and the nearest one is taken.

The family has the policies of batch schedulers: strict order, passing by jobs that do not fit, or EASY
backfill; a queue for each partition or one for all; Slurm's QOS first or not; its multifactor priority, by
fair share or by size.  First the ways to queue are tried, with the trace's priorities; then other orders.
Policies that cannot differ on a trace are not tried: EASY without time limits, queues without partitions,
priorities that are all equal.  A near policy misplaces little waiting (`rota.reports.calibration`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rota.api.results import Results
from rota.api.run_options import OF_SITE
from rota.api.run_setup import parse_knowledge
from rota.model.columns import Ints
from rota.model.trace import Trace
from rota.model.units import format_duration
from rota.reports.likeness import PolicyFit
from rota.reports.window import Window, WindowEdge

SITE_POLICY = "fifo:skip=yes"
"""The policy that a site is taken to have run if no starts are recorded."""
SITE_POLICY_OF = dict.fromkeys(("pbs", "sacct", "swf"), "fifo:backfill=easy")
"""That policy by trace format: batch schedulers backfill, by the time limits that users state."""
MOST_JOBS = 2_000
"""Jobs that count in a fit; of a longer trace the consecutive ones that waited longest in all."""
LITTLE = 0.01
"""Part of all waiting within which policies are equal; one that misplaces no more than it ends the search."""

Replay = Callable[..., Results]
"""`rota.simulate`."""


@dataclass(frozen=True)
class FittedPart:
    """The part of a trace that policies are fitted to."""

    trace: Trace
    measured: Window | None
    """None: all of it."""
    said: str
    """The part in words; empty if it is all of the trace."""


def usual_policy(trace: Trace) -> str:
    """The policy that the site is taken to have run if no starts are recorded."""
    return SITE_POLICY_OF.get(trace.format, SITE_POLICY)


def fit_present(trace: Trace, replay: Replay, given: Mapping[str, Any]) -> PolicyFit:
    """The policy of the family with waits most like those recorded in `trace`.

    `given` are options of `replay`; those that describe the site (`OF_SITE`) count.  `trace` has recorded
    starts.  Policies that fit equally are in the order of `queueings` and `orders`: the usual one first.
    """
    words = {name: given[name] for name in OF_SITE if name in given}
    words["knowledge"] = site_knowledge(trace, parse_knowledge(given.get("knowledge")))
    if (told := given.get("progress")) is not None:
        words["progress"] = lambda name, done, jobs: told(f"fit: {name}", done, jobs)
    began_s = time.monotonic()
    part = fitted_part(trace)
    little_s = LITTLE * _waited_s(part)
    misplaced: dict[str, float] = {}

    def try_all(policies: Sequence[str]) -> str:
        new = [policy for policy in policies if policy not in misplaced]
        misplaced.update(_misplaced(part, new, replay, words) if new else {})
        return next(policy for policy in misplaced if misplaced[policy] <= min(misplaced.values()) + little_s)

    best = try_all(queueings(trace))
    if misplaced[best] > little_s:
        best = try_all(orders(trace, best))
    return PolicyFit(best, misplaced, part.said, time.monotonic() - began_s)


def queueings(trace: Trace) -> list[str]:
    """Policies with other queues that can differ on `trace`, the usual one of its format first."""
    jobs = trace.jobs
    has_limits = bool(np.isfinite(jobs.limit_s).any())
    has_parts = len(set(jobs.node_set.tolist())) > 1
    policies = [SITE_POLICY, *["fifo:backfill=easy"] * has_limits, "fifo"]
    if has_parts:
        policies += [*["fifo:backfill=easy,queue=all"] * has_limits, "fifo:queue=all"]
    usual = usual_policy(trace)
    return sorted(policies, key=lambda policy: policy != usual)


def orders(trace: Trace, queueing: str) -> list[str]:
    """`queueing` with other orders that can differ on `trace`."""
    jobs = trace.jobs
    policies = []
    if len(set(jobs.priority.tolist())) > 1:
        policies.append(f"{queueing}{',' if ':' in queueing else ':'}priority=no")
    if np.isfinite(jobs.limit_s).any():
        policies += ["multifactor"] * (len(set(jobs.tenant.tolist())) > 1)
        policies += ["multifactor:share=0,size=10000"] * (len(set(jobs.gpus.tolist())) > 1)
    return policies


def fitted_part(trace: Trace, most: int = MOST_JOBS) -> FittedPart:
    """`trace`, or of a longer one the consecutive jobs that waited longest in all, by the record.

    Jobs submitted before them that were still waiting or running are replayed as well, and do not count.
    """
    if len(trace) <= most:
        return FittedPart(trace, None, "")
    seen = trace.observed
    assert seen is not None, "a fit is to what was recorded"
    rows = longest_waits(trace, most)
    begin_s, end_s = (float(trace.jobs.submit_s[rows[place]]) for place in (0, -1))
    before = np.flatnonzero((trace.jobs.submit_s < begin_s) & (seen.end_s > begin_s))
    part = trace.take(np.concatenate((before, rows)))
    offset_s = begin_s - float(part.jobs.submit_s[0])
    said = (
        f"the {most:,} jobs in a row that waited longest ({format_duration(end_s - begin_s)} of submissions)"
    )
    window = Window(WindowEdge(offset_s=offset_s), None, f"{format_duration(offset_s)}:")
    return FittedPart(part, window if len(before) else None, said)


def longest_waits(trace: Trace, jobs: int) -> Ints:
    """Rows of the `jobs` consecutive jobs that waited longest in all, by the record."""
    seen = trace.observed
    assert seen is not None, "nothing is recorded"
    waits_s = np.nan_to_num(seen.start_s - trace.jobs.submit_s)
    total = np.concatenate(([0.0], np.cumsum(np.maximum(waits_s, 0.0))))
    first = np.arange(0, len(trace) - jobs + 1, max(jobs // 20, 1))
    best = int(first[int(np.argmax(total[first + jobs] - total[first]))])
    return np.arange(best, best + jobs, dtype=np.int64)


def site_knowledge(trace: Trace, knowledge: Mapping[str, str]) -> dict[str, str]:
    """`knowledge`, with durations from users if they stated any, as the site knew them."""
    users = {} if np.isnan(trace.jobs.limit_s).all() else {"duration": "user"}
    return {**users, **knowledge}


def _misplaced(
    part: FittedPart, policies: Sequence[str], replay: Replay, words: Mapping[str, Any]
) -> dict[str, float]:
    """Seconds of misplaced waiting under each of `policies`; infinite where nothing can be compared."""
    results = replay(part.trace, policies=policies, measure=part.measured, site_policy=policies[0], **words)
    compared = {policy: results.calibration_of(policy) for policy in policies}
    return {
        policy: one.misplaced_s if one.whole is not None and one.whole.jobs else np.inf
        for policy, one in compared.items()
    }


def _waited_s(part: FittedPart) -> float:
    seen = part.trace.observed
    assert seen is not None
    return float(np.nansum(np.maximum(seen.start_s - part.trace.jobs.submit_s, 0.0)))
