"""What the studies say of small histories whose answers one can count, and of published workloads."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from rota.model.cluster import parse_cluster
from rota.model.jobs import PREEMPTED, REQUEUED, Interruption, JobTable, Outcome, RecordedRun, Truth
from rota.model.trace import Trace
from rota.reports.findings.history import JobHistory
from rota.reports.findings.locality import company_share
from rota.reports.findings.pools import Pools
from rota.reports.findings.queueing import BEFORE, FAIR, FRAGMENTED, FULL, split
from rota.reports.findings.studies import Analysis, study
from rota.traces import read
from rota.traces.describe import describe
from rota.traces.generate import generate
from shared_data import data, needs_shared


def trace_of(*jobs: tuple[float, float, float, int], held_s: float = 0.0, **columns: object) -> Trace:
    """Jobs as (submitted, started, ended, GPUs)."""
    submit_s, start_s, end_s = (np.array([job[i] for job in jobs], dtype=np.float64) for i in range(3))
    table = JobTable.build(
        [str(i) for i in range(len(jobs))],
        submit_s=submit_s,
        gpus=np.array([job[3] for job in jobs]),
        **columns,
    )
    truth = Truth.build(end_s - start_s, held_s=held_s)
    return Trace(table, truth, "toy", "plain", RecordedRun(start_s, end_s))


def value(analysis: Analysis, key: str) -> float:
    (finding,) = [one for one in analysis.findings if one.key == key]
    return finding.value


# Four GPUs.  jobs as (submitted, started, ended, GPUs); cause of the last one's wait, by second
@pytest.mark.parametrize(
    ("jobs", "held_s", "parts"),
    [
        # three of four held until 100: the pair finds one free
        ([(0, 0, 100, 3), (0, 0, 200, 1), (10, 100, 150, 2)], 0.0, (0, 0, 0, 90)),
        # held back by its user for 30 s first
        ([(0, 0, 100, 3), (0, 0, 200, 1), (10, 100, 150, 2)], 30.0, (30, 0, 0, 60)),
        # from 40 on two GPUs are free, but it starts at 100
        ([(0, 0, 100, 2), (0, 0, 40, 2), (10, 100, 150, 2)], 0.0, (0, 0, 60, 30)),
    ],
)
def test_a_wait_is_split_by_cause(
    jobs: list[tuple[float, float, float, int]], held_s: float, parts: tuple[float, ...]
) -> None:
    history = JobHistory.of(trace_of(*jobs, held_s=held_s))
    said = split(history, Pools.of(history), {})
    assert tuple(round(float(said[name][-1]), 6) for name in (BEFORE, FAIR, FRAGMENTED, FULL)) == parts


def test_a_tenant_at_its_quota_waits_for_its_share() -> None:
    """a holds 2 of its 2 until 60; then its second job waits beside two free GPUs until 100."""
    jobs = [(0, 0, 60, 2), (0, 0, 200, 2), (10, 100, 150, 2)]
    trace = trace_of(*jobs, tenant=[0, 1, 0], tenant_names=("a", "b"))
    history = JobHistory.of(trace)
    said = split(history, Pools.of(history), {"a": 2.0})
    assert [round(float(said[name][-1])) for name in (BEFORE, FAIR, FRAGMENTED, FULL)] == [0, 50, 40, 0]


def test_parts_add_up_to_the_wait() -> None:
    rng = np.random.default_rng(5)
    submit_s = np.sort(rng.uniform(0, 1e5, 300))
    start_s = submit_s + rng.exponential(3000, 300)
    rows = zip(
        submit_s, start_s, start_s + rng.exponential(5000, 300), rng.choice([1, 2, 4, 8], 300), strict=True
    )
    history = JobHistory.of(trace_of(*rows, held_s=100.0))
    said = split(history, Pools.of(history), {})
    assert np.allclose(sum(said.values()), start_s - submit_s)
    assert all((of >= 0).all() for of in said.values())


def test_allocation_is_of_the_stated_cluster() -> None:
    jobs = trace_of((0, 0, 100, 4), (100, 100, 200, 4))
    assert value(study(jobs), "allocation") == pytest.approx(1.0)
    assert value(study(jobs, parse_cluster("2x4")), "allocation") == pytest.approx(0.5)


def test_failures_are_counted_by_attempt() -> None:
    """Job 0 fails after 60 s, again after 100 s, then completes; job 1 fails twice for good."""
    trace = trace_of((0, 0, 1160, 2), (0, 0, 300, 4))
    truth = replace(
        trace.truth,
        duration_s=np.array([1000.0, 200.0]),
        outcome=np.array([Outcome.COMPLETED, Outcome.FAILED]),
        failures={0: (60.0, 100.0), 1: (100.0,)},
        signatures={0: ("CUDA failure", "node failure"), 1: ("syntax error", "syntax error")},
    )
    analysis = study(replace(trace, truth=truth))
    lost = (160 * 2 + 300 * 4) / 3600
    assert value(analysis, "lost_to_failures") == pytest.approx(lost)
    assert value(analysis, "prerun") == pytest.approx(3 / 4)
    assert value(analysis, "retries") == pytest.approx(200 * 4 / 3600)
    (reasons,) = [one for one in analysis.findings if one.key == "failure_reasons"]
    assert reasons.numbers["attempts"] == {"CUDA failure": 1, "node failure": 1, "syntax error": 2}


def test_a_list_of_jobs_says_nothing_of_waiting() -> None:
    """Only submissions, sizes and run times: no claim is made beyond them."""
    trace = replace(trace_of((0, 0, 50, 1), (10, 10, 60, 2), (30, 30, 90, 1)), observed=None)
    analysis = study(trace)
    assert {one.key for one in analysis.findings} == {"demand", "sizes", "durations", "burstiness"}
    assert "how long jobs waited, and why" in {gap.what for gap in analysis.unsaid}
    assert analysis.checked == ()


def test_demand_counts_what_is_held_within_the_submissions() -> None:
    """Between the two moments of submissions, 2 GPUs for 10 s and 1 for 40; what follows does not count."""
    trace = replace(trace_of((0, 0, 10, 2), (0, 0, 9000, 1), (40, 40, 9000, 4)), observed=None)
    assert value(study(trace), "demand") == pytest.approx((2 * 10 + 40) / 40)


def test_run_times_that_nobody_knows_are_no_hours() -> None:
    """A workload whose durations a table gives: sizes are counted in jobs, and no GPU-hour is named."""
    trace = replace(
        trace_of((0, 0, 50, 1), (10, 10, 60, 2)), observed=None, truth=Truth.build([np.nan, np.nan])
    )
    analysis = study(trace)
    (sizes,) = [one for one in analysis.findings if one.key == "sizes"]
    assert sizes.sentence == "Of 2 jobs, 50% asked for one GPU."
    assert analysis.checked == ()


@pytest.mark.parametrize("cluster", ["", "1x7:a100_1g.5gb,1x1:a100"])
def test_slices_count_by_their_part_of_a_gpu(cluster: str) -> None:
    """Seven slices for 7 h and a whole GPU beside them: 14 GPU-hours on two GPUs."""
    jobs = [(0.0, 0.0, 25200.0, 1)] * 8
    types = {"gpu_types": [1] * 7 + [2], "type_names": ("a100_1g.5gb", "a100")}
    trace = trace_of(
        *jobs, (25200.0, 25200.0, 25200.0, 0), **{**types, "gpu_types": [*types["gpu_types"], 0]}
    )
    analysis = study(trace, parse_cluster(cluster) if cluster else None)
    assert dict(analysis.facts)["GPU-hours"] == "14"
    assert value(analysis, "allocation") == pytest.approx(1.0)
    (finding,) = [one for one in analysis.findings if one.key == "allocation"]
    assert finding.numbers["gpus"] == pytest.approx(2.0)
    assert analysis.remarks == (
        "49 hours of MIG slices count as 7 GPU-hours, each slice by its part of a GPU "
        "(a100_1g.5gb is 1 of 7 parts).",
    )


def test_company_counts_while_it_is_there() -> None:
    """Two jobs on node a for half of the first one's time; one alone on b."""
    trace = trace_of((0, 0, 100, 1), (0, 50, 100, 1), (0, 0, 100, 1))
    seen = replace(trace.observed, nodes={0: ("a",), 1: ("a",), 2: ("b",)})
    history = JobHistory.of(replace(trace, observed=seen))
    assert company_share(history, np.arange(3)).tolist() == [0.5, 1.0, 0.0]


def test_interference_is_seen_where_it_is_and_not_where_it_is_not() -> None:
    """One kind of job, alone at 80 %, beside others at 60 %; then at 80 % as well."""
    jobs = [(1000.0 * i, 1000.0 * i, 1000.0 * i + 900, 1) for i in range(30)]
    jobs += [
        (100_000.0 + 1000 * i, 100_000.0 + 1000 * i, 100_900.0 + 1000 * i, 1) for i in range(30) for _ in "ab"
    ]
    trace = trace_of(*jobs, group=[0] * 90, group_names=("train",))
    trace = replace(trace, observed=replace(trace.observed, nodes=dict.fromkeys(range(90), ("n1",))))
    rng = np.random.default_rng(1)

    def gap(beside: float) -> object:
        busy = np.where(np.arange(90) < 30, 0.8, beside) + rng.normal(0, 0.03, 90)
        used = {id: {"gpu_utilisation": float(of)} for id, of in zip(trace.jobs.ids, busy, strict=True)}
        analysis = study(replace(trace, facts={"usage": used}))
        (finding,) = [one for one in analysis.findings if one.key == "interference"]
        return finding.numbers["significant"], round(finding.value, 1)

    assert gap(0.6) == (True, 0.2)
    assert gap(0.8) == (False, 0.0)


def test_one_job_that_never_ran() -> None:
    """Nothing to divide by, and nothing is said."""
    trace = trace_of((0, np.nan, np.nan, 1))
    analysis = study(replace(trace, truth=Truth.build([0.0], outcome=Outcome.CANCELLED)))
    assert analysis.faults == ()


@pytest.fixture(scope="module")
def philly() -> Analysis:
    return study(generate(40_000, seed=4))


# key, what the study found: outcomes and time to failure, sizes, bursts
FOUND = [
    ("outcomes", 0.554, 0.06),  # 55.5 % of GPU time to jobs killed or unsuccessful
    ("sizes", 0.84, 0.08),  # single-GPU jobs
    ("prerun", 0.4, 0.12),  # at least 31 % of trials fail within 3 minutes
]


@pytest.mark.parametrize(("key", "published", "within"), FOUND)
def test_the_philly_calibration_gives_what_the_study_found(
    philly: Analysis, key: str, published: float, within: float
) -> None:
    assert value(philly, key) == pytest.approx(published, abs=within)


def test_the_philly_calibration_directions(philly: Analysis) -> None:
    by_key = {one.key: one for one in philly.findings}
    assert by_key["outcomes"].numbers["failed"]["jobs"] == pytest.approx(0.172, abs=0.01)
    assert by_key["outcomes"].numbers["cancelled"]["gpu_hours"] == pytest.approx(0.377, abs=0.05)
    gangs = by_key["sizes"].numbers["wide_gpu_hours_share"]
    assert gangs > 0.7, "few jobs are gangs, and they hold most of the GPU time"
    attempts = by_key["failure_reasons"].numbers["attempts"]
    assert max(attempts, key=lambda name: attempts[name]) == "incorrect inputs"
    lost = by_key["lost_to_failures"].numbers
    assert lost["late_tenth_share"] > 0.6, "failures are early, but the late ones cost most"
    assert by_key["burstiness"].value > 2, "submissions are no Poisson process"
    assert philly.faults == ()


@needs_shared
@pytest.mark.parametrize(
    ("file", "jobs", "gpu_hours", "single"),
    [
        ("philly/philly_jobs_pollux.csv.gz", 82_247, 978_078.5, 0.9317),
        ("itp_elasticflow/raw/cluster01.csv.gz", 1_595, 22_740.1, 0.9592),
        ("itp_elasticflow/raw/cluster06.csv.gz", 2_396, 123_878.7, 0.4478),
        ("itp_elasticflow/raw/cluster10.csv.gz", 260, 4_023.5, 0.7423),
    ],
)
def test_totals_of_public_traces(file: str, jobs: int, gpu_hours: float, single: float) -> None:
    analysis = study(read(data(file)))
    (sizes,) = [one for one in analysis.findings if one.key == "sizes"]
    assert sizes.numbers["jobs"] == jobs
    assert sizes.numbers["gpu_hours"] == pytest.approx(gpu_hours, abs=0.06)
    assert sizes.value == pytest.approx(single, abs=5e-5)


@needs_shared
def test_mean_demand_of_the_philly_list() -> None:
    analysis = study(read(data("philly/philly_jobs_pollux.csv.gz")))
    assert round(value(analysis, "demand")) == 374


@pytest.mark.parametrize(
    ("gaps_s", "kind"),
    [
        ([10] * 20, "rather evenly"),
        ([1, 30, 3, 12, 5, 25, 9], "about as they would independently of each other"),
        ([0, 0, 0, 0, 0, 0, 0, 0, 0, 900] * 3, "in bursts"),
    ],
)
def test_how_jobs_come(gaps_s: list[float], kind: str) -> None:
    """By how much the gaps vary: not at all, about as much as they are long, or more than twice that."""
    at_s = np.cumsum([0, *gaps_s])
    analysis = study(replace(trace_of(*((float(t), float(t), float(t) + 5, 1) for t in at_s)), observed=None))
    (said,) = [one for one in analysis.findings if one.key == "burstiness"]
    assert said.sentence.startswith(f"Jobs come {kind}: ")


def test_attempts_that_were_preempted_or_requeued_did_not_fail() -> None:
    """Two GPUs each: an hour preempted, half an hour put back, two hours in the last attempts."""
    trace = trace_of((0, 0, 3600, 2), (10, 10, 3610, 2))
    assert trace.observed is not None
    parts = {0: (Interruption(3600.0, PREEMPTED),), 1: (Interruption(1800.0, REQUEUED),)}
    trace = replace(trace, observed=replace(trace.observed, interruptions=parts))
    analysis = study(trace)
    assert not any(one.key in ("lost_to_failures", "retries", "prerun") for one in analysis.findings)
    (taken,) = [one for one in analysis.findings if one.key == "taken_away"]
    assert taken.value == pytest.approx(3.0)
    assert taken.numbers["gpu_hours"] == {PREEMPTED: pytest.approx(2.0), REQUEUED: pytest.approx(1.0)}
    described = describe(trace)
    assert described.interrupted_gpu_hours == pytest.approx(3.0)
    assert described.failing_gpu_hours == 0.0
    assert "4 + 3 in attempts that were preempted or requeued" in dict(described.lines())["GPU-hours"]
