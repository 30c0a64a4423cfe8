"""The present policy found again in dumps of sites whose policy is known, and what no policy of ours does."""

from __future__ import annotations

import numpy as np
import pytest

import replayed_site
import rota
from play import trace_of
from rota.api.results import Results
from rota.api.site_policy import MOST_JOBS, fitted_part, orders, queueings
from rota.model.jobs import RecordedRun
from rota.model.trace import Trace
from rota.traces.generate import generate

EASY = "fifo:backfill=easy"
KNOWN = [
    # policy                          QOS
    ("fifo", False),
    ("fifo:skip=yes", False),
    (EASY, False),
    ("fifo:backfill=easy,queue=all", False),
    (EASY, True),
    ("fifo:backfill=easy,priority=no", True),
    ("multifactor", False),
]


def fitted(policy: str, *, qos: bool = False, late: int = 0) -> Results:
    """A simulation of a dump that `policy` made, in the world in which it was made."""
    trace = replayed_site.trace_of(replayed_site.dump(policy, qos=qos, late=late))
    return rota.simulate(
        trace, cluster=replayed_site.CLUSTER, policies="fifo:skip=yes", costs=replayed_site.COSTS, workers=1
    )


@pytest.mark.slow
@pytest.mark.parametrize(("policy", "qos"), KNOWN)
def test_the_policy_that_made_a_dump_is_found(policy: str, qos: bool) -> None:
    """Or one that waits the same to within a hundredth."""
    found = fitted(policy, qos=qos)
    assert found.fit is not None
    misplaced = found.fit.misplaced_s
    assert found.site_policy == policy or abs(misplaced[policy] - misplaced[found.site_policy]) < 0.01 * (
        found.calibration.groups[0].waited_s
    )
    assert found.calibration.agrees
    assert found.calibration.error is not None
    assert found.calibration.error < 0.02
    assert min(seconds for name, seconds in misplaced.items() if name != found.site_policy) > 0.0


@pytest.mark.slow
def test_groups_are_by_size_tenant_partition_and_qos() -> None:
    groups = fitted(EASY, qos=True).calibration.groups
    kinds = list(dict.fromkeys(group.kind for group in groups))
    assert kinds == ["all", "size", "tenant", "partition", "QOS"]
    for kind in kinds:
        assert sum(group.jobs for group in groups if group.kind == kind) == groups[0].jobs
    assert [group.name for group in groups if group.kind == "QOS"] == ["high", "normal"]
    assert [group.name for group in groups if group.kind == "partition"] == ["a100", "v100"]


@pytest.mark.slow
def test_jobs_that_a_rule_of_the_site_holds_back_are_not_explained() -> None:
    """Jobs of eight GPUs wait a day longer than any policy here makes them."""
    found = fitted(EASY, late=8).calibration
    assert not found.agrees
    assert found.unexplained("size")[0].title == "jobs of 5-8 GPUs"
    large = next(group for group in found.groups if group.name == "5-8 GPUs")
    assert large.waiting.mean < large.waiting_seen.mean
    assert "Not explained: jobs of 5-8 GPUs (wait " in found.text
    assert "--site-policy" not in found.text, "the others were tried"


def test_only_what_can_differ_is_tried() -> None:
    plain = trace_of("A 8x100 B 4x50")
    assert queueings(plain) == ["fifo:skip=yes", "fifo"]
    assert orders(plain, "fifo") == []
    site = replayed_site.trace_of(replayed_site.dump(EASY, qos=True))
    assert queueings(site) == [EASY, "fifo:skip=yes", "fifo", f"{EASY},queue=all", "fifo:queue=all"]
    by_factors = ["multifactor", "multifactor:share=0,size=10000"]
    assert orders(site, EASY) == [f"{EASY},priority=no", *by_factors]
    assert orders(site, "fifo") == ["fifo:priority=no", *by_factors]


def test_of_a_long_trace_the_jobs_that_waited_longest_are_fitted() -> None:
    """With those before them that were still there, which do not count."""
    trace = generate(3 * MOST_JOBS, seed=1)
    n = len(trace)
    submit_s = trace.jobs.submit_s
    waits_s = np.zeros(n)
    waits_s[n // 2 : n // 2 + 500] = 1e5
    run_s = trace.truth.run_s()
    seen = Trace(
        trace.jobs,
        trace.truth,
        *("long", "test"),
        observed=RecordedRun(submit_s + waits_s, submit_s + waits_s + run_s),
    )
    part = fitted_part(seen)
    assert part.measured is not None
    begin_s = part.measured.start.resolve(float(part.trace.jobs.submit_s[0]), 0.0)
    counted = part.trace.jobs.submit_s >= begin_s - 1e-6
    assert counted.sum() == MOST_JOBS
    assert part.trace.observed is not None
    waited = (part.trace.observed.start_s - part.trace.jobs.submit_s)[counted]
    assert (waited > 9e4).sum() == 500
    assert (part.trace.observed.end_s[~counted] > begin_s).all()
    assert "2,000 jobs in a row that waited longest" in part.said


def test_a_short_trace_is_fitted_as_a_whole() -> None:
    trace = trace_of("A 8x100")
    assert fitted_part(trace).trace is trace
