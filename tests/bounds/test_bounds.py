"""Bounds: cases computed by hand, brute force on tiny ones, and no policy beats them."""

from __future__ import annotations

from functools import cache
from itertools import product

import numpy as np
import polars as pl
import pytest

from play import finishes, jcts, play, starts, trace_of
from rota import bounds
from rota.bounds.demand import demand_of, largest_sizes
from rota.bounds.fluid_share import water_level
from rota.errors import InputError, PolicyError
from rota.model.cluster import parse_cluster
from rota.model.job_columns import AllowedCounts
from rota.model.jobs import JobTable, Outcome, Truth
from rota.model.record import INTERVALS_SCHEMA, JOBS_SCHEMA, Record
from rota.model.trace import Trace
from rota.reports.summary import summarise
from rota.scheduler.policy import systems

ALL, SRTF, FLUID = bounds.NAMES


def bound(name: str, jobs: str | Trace, cluster: str = "1x4") -> Record:
    trace = trace_of(jobs) if isinstance(jobs, str) else jobs
    return bounds.compute(name, trace, parse_cluster(cluster))


def mean_jct(record: Record) -> float:
    return float(np.mean(list(jcts(record).values())))


# -- all at once ---------------------------------------------------------------------------------


def test_all_at_once() -> None:
    """Nobody waits, however full the cluster is."""
    record = bound(ALL, "A 4x10 B 4x10 C 2x5@3")
    assert finishes(record) == {"A": 10, "B": 10, "C": 8}
    assert starts(record) == {"A": 0, "B": 0, "C": 3}
    assert record.jobs["waiting_s"].to_list() == [0, 0, 0]


def test_elastic_jobs_run_at_their_largest() -> None:
    trace = trace_of(
        "A 2x12 B 2x12", gpus_max=(4, 3), gpus_min=1, counts=(0, int(AllowedCounts.POWERS_OF_TWO))
    )
    assert largest_sizes(trace.jobs).tolist() == [4, 2], "B can use 1 or 2"
    assert finishes(bound(ALL, trace)) == {"A": 6, "B": 12}


def test_jobs_start_after_those_before_them() -> None:
    trace = trace_of("A 1x10 B 1x5 C 1x5@1 D 1x1@2 E 1x1@3", after={1: (0, 2), 3: (4,), 4: (3,)})
    record = bound(ALL, trace)
    assert starts(record) == {"A": 0, "B": 10, "C": 1, "D": None, "E": None}, "D and E wait for each other"
    assert record.jobs["state"].to_list() == ["COMPLETED"] * 3 + ["PENDING"] * 2


# -- shortest first, relaxed ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cluster", "jobs", "mean", "why"),
    [
        ("1x4", "A 4x10 B 4x2@4", 7, "one job at a time: A ends at 12, B at 6, as under SRTF itself"),
        ("1x2", "A 1x10 B 1x10 C 1x10 D 1x10", 15, "two at a time: 10, 10, 20, 20 is the optimum, met"),
        ("1x4", "A 1x10 B 1x20 C 2x30", 20, "all fit: the bound is their run time"),
        ("1x2", "A 0x7 B 2x4", 5.5, "a CPU job takes its time and nobody's GPU"),
    ],
)
def test_srtf_relaxed(cluster: str, jobs: str, mean: float, why: str) -> None:
    """Means computed by hand."""
    assert mean_jct(bound(SRTF, jobs, cluster)) == pytest.approx(mean), why


def _tiny(seed: int, gpus: int) -> Trace:
    rng = np.random.default_rng(seed)
    n = 4
    sizes = np.full(n, gpus) if seed % 2 else rng.integers(1, gpus + 1, n)
    jobs = JobTable.build("ABCD", submit_s=np.sort(rng.integers(0, 4, n)).astype(float), gpus=sizes)
    return Trace(jobs, Truth.build(rng.integers(1, 4, n).astype(float)), source="tiny", format="test")


def _best_sum(trace: Trace, capacity: int) -> float:
    """The least sum of completions over all schedules that preempt at whole seconds, by trying all."""
    submit, gpus = trace.jobs.submit_s.tolist(), trace.jobs.gpus.tolist()

    @cache
    def best(now: int, left: tuple[float, ...]) -> float:
        if not any(left):
            return 0.0
        options = [(0, 1) if rest and submit[row] <= now else (0,) for row, rest in enumerate(left)]
        costs = []
        for runs in product(*options):
            is_idle = not any(runs) and any(rest and s <= now for s, rest in zip(submit, left, strict=True))
            if is_idle or np.dot(gpus, runs) > capacity:
                continue
            after = tuple(rest - is_on for rest, is_on in zip(left, runs, strict=True))
            ended = sum(is_on and not rest for rest, is_on in zip(after, runs, strict=True))
            costs.append(ended * (now + 1) + best(now + 1, after))
        return min(costs)

    return best(0, tuple(trace.truth.duration_s.tolist()))


@pytest.mark.parametrize("seed", range(24))
def test_srtf_relaxed_against_brute_force(seed: int) -> None:
    """Never above the best schedule; equal to it if each job needs the whole cluster."""
    trace = _tiny(seed, gpus=3)
    optimum = _best_sum(trace, 3) - trace.jobs.submit_s.sum()
    found = mean_jct(bound(SRTF, trace, "1x3")) * len(trace)
    assert found <= optimum + 1e-9
    if seed % 2:
        assert found == pytest.approx(optimum)


@pytest.mark.parametrize("seed", range(8))
def test_srtf_relaxed_is_at_least_all_at_once(seed: int) -> None:
    trace = random_trace(seed)
    assert mean_jct(bound(SRTF, trace, "2x4")) >= mean_jct(bound(ALL, trace, "2x4")) - 1e-9


# -- fluid share ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("caps", "capacity", "level"),
    [
        ([(4, 2)], 4, 2),
        ([(1, 1), (4, 1)], 4, 3),
        ([(1, 2), (2, 1), (8, 2)], 12, 4),
        ([(1, 4)], 4, float("inf")),
        ([], 4, float("inf")),
    ],
)
def test_water_level(caps: list[tuple[float, int]], capacity: float, level: float) -> None:
    assert water_level(caps, capacity) == level


@pytest.mark.parametrize(
    ("jobs", "expected", "why"),
    [
        ("A 4x10 B 4x10", {"A": 20, "B": 20}, "2 GPUs each"),
        ("A 1x10 B 4x10", {"A": 10, "B": 12.5}, "A has its one, B three and then four"),
        ("A 4x10 B 4x5@5", {"A": 15, "B": 15}, "A alone for 5 s, then 20 GPU-s each at 2 GPUs"),
        ("A 2x10 B 2x10@3", {"A": 10, "B": 13}, "room for both"),
        ("A 4x10 B 0x3", {"A": 10, "B": 3}, "CPU jobs divide no GPUs"),
        ("A 4x0 B 4x1", {"A": 0, "B": 1}, "a job without work ends when it comes"),
    ],
)
def test_fluid_share(jobs: str, expected: dict[str, float], why: str) -> None:
    assert finishes(bound(FLUID, jobs)) == pytest.approx(expected), why


def test_fluid_share_of_dependent_jobs() -> None:
    trace = trace_of("A 4x10 B 4x10 C 2x2", after={2: (0,)})
    record = bound(FLUID, trace)
    assert starts(record)["C"] == 20
    assert finishes(record) == {"A": 20, "B": 20, "C": 22}


def _naive_fluid(trace: Trace, capacity: float) -> list[float]:
    """Max-min shares job by job, recomputed at every event."""
    left = (trace.jobs.gpus * trace.truth.duration_s).tolist()
    submit, caps = trace.jobs.submit_s.tolist(), trace.jobs.gpus.tolist()
    finish, now = [0.0] * len(left), 0.0
    while any(left):
        here = sorted((caps[j], j) for j in range(len(left)) if submit[j] <= now and left[j])
        share, room = {}, capacity
        for place, (cap, j) in enumerate(here):
            share[j] = min(cap, room / (len(here) - place))
            room -= share[j]
        ends = {j: left[j] / share[j] for j in share}
        arrivals = [s - now for s in submit if s > now]
        step = min([*ends.values(), *arrivals])
        now += step
        for j in share:
            left[j] = 0.0 if ends[j] <= step * (1 + 1e-12) else left[j] - share[j] * step
            finish[j] = now if not left[j] else finish[j]
    return finish


@pytest.mark.parametrize("seed", range(8))
def test_fluid_share_against_recomputation(seed: int) -> None:
    trace = random_trace(seed)
    found = bound(FLUID, trace, "2x4").jobs["finish_s"].to_list()
    assert found == pytest.approx(_naive_fluid(trace, 8.0))


# -- no policy beats them -------------------------------------------------------------------------


def random_trace(seed: int, n: int = 30, **columns: object) -> Trace:
    rng = np.random.default_rng(seed)
    jobs = JobTable.build(
        [f"j{i}" for i in range(n)],
        submit_s=np.sort(rng.uniform(0.0, 100.0, n)),
        gpus=rng.choice([1, 1, 1, 2, 4, 8], n),
        limit_s=1000.0,
        **columns,
    )
    return Trace(jobs, Truth.build(rng.lognormal(3.0, 1.0, n)), source="random", format="test")


def _elastic(trace: Trace) -> Trace:
    jobs = trace.jobs
    table = JobTable.build(
        jobs.ids, submit_s=jobs.submit_s, gpus=jobs.gpus, gpus_min=1, gpus_max=np.minimum(2 * jobs.gpus, 8)
    )
    return Trace(table, trace.truth, source="elastic", format="test")


@pytest.mark.parametrize("policy", list(systems()))
def test_no_policy_is_better(policy: str) -> None:
    """On random traces no registered policy has a mean JCT below a bound."""
    for trace, least in _bounded():
        try:
            record = play(policy, trace, "2x4")
        except (InputError, PolicyError) as error:
            pytest.skip(f"does not run on a plain trace: {error}")
        if (record.jobs["state"] == "COMPLETED").all():
            for name, least_s in least.items():
                assert mean_jct(record) >= least_s * (1 - 1e-9), name


@cache
def _bounded() -> list[tuple[Trace, dict[str, float]]]:
    """Random traces, and mean JCTs by bound that nothing is below."""
    traces = (random_trace(1), random_trace(2), _elastic(random_trace(3)))
    return [(each, {name: mean_jct(bound(name, each, "2x4")) for name in (ALL, SRTF)}) for each in traces]


def test_the_bound_is_close_to_a_good_policy() -> None:
    """It is not a bound for being small: SRTF comes within half as much again."""
    trace = random_trace(1)
    best, least = mean_jct(play("srtf", trace, "2x4")), mean_jct(bound(SRTF, trace, "2x4"))
    apart = mean_jct(bound(ALL, trace, "2x4"))
    assert apart < least <= best < 1.5 * least


# -- the record -----------------------------------------------------------------------------------


def _mixed() -> Trace:
    """A completes, B fails for good after one attempt, C is cancelled, D never fits, E is a CPU job."""
    jobs = JobTable.build("ABCDE", submit_s=(0.0, 0.0, 1.0, 2.0, 3.0), gpus=(4, 2, 1, 9, 0), gpu_share=1.0)
    outcome = [Outcome.COMPLETED, Outcome.FAILED, Outcome.CANCELLED, Outcome.COMPLETED, Outcome.COMPLETED]
    truth = Truth.build((10.0, 6.0, 5.0, 5.0, 2.0), outcome=outcome, failures={1: (3.0,)})
    return Trace(jobs, truth, source="mixed", format="test")


@pytest.mark.parametrize("name", bounds.NAMES)
def test_the_record_agrees_with_a_simulated_one(name: str) -> None:
    """Whatever does not depend on when jobs run is as a simulated run has it."""
    record, simulated = bound(name, _mixed()), play("fifo", _mixed())
    assert record.policy == name
    assert record.jobs.schema == JOBS_SCHEMA
    assert record.intervals.schema == INTERVALS_SCHEMA
    same = [
        *("job", "job_id", "tenant", "group", "workload", "submit_s", "state", "gpus", "gpu_share"),
        *("duration_s", "deadline_s", "service_gpu_s", "lost_s", "starts", "preemptions", "failures"),
    ]
    for column in same:
        assert record.jobs[column].to_list() == simulated.jobs[column].to_list(), column
    assert record.jobs["state"].to_list() == ["COMPLETED", "FAILED", "CANCELLED", "REJECTED", "COMPLETED"]
    assert finishes(record)["D"] == 2, "refused when it comes"
    granted = pl.col("gpus") * pl.col("share") * (pl.col("end_s") - pl.col("start_s"))
    assert record.intervals.select(granted.sum()).item() == pytest.approx(record.jobs["service_gpu_s"].sum())
    assert summarise(record)["mean_jct_s"] == pytest.approx(
        np.mean([v for k, v in jcts(record).items() if k != "D"])
    )


def test_names() -> None:
    """The prefix may be left out; a slip of the pen is pointed out."""
    trace, cluster = trace_of("A 1x1"), parse_cluster("1x1")
    assert bounds.compute("srtf_relaxed", trace, cluster).policy == "bound:srtf_relaxed"
    with pytest.raises(InputError, match="did you mean 'bound:fluid_share'"):
        bounds.compute("bound:fluid", trace, cluster)
    assert set(bounds.SUMMARIES) == set(bounds.NAMES)


def test_unknown_durations_are_refused() -> None:
    trace = Trace(
        JobTable.build("A", submit_s=0.0, gpus=1), Truth.build([np.nan]), source="x.csv", format="t"
    )
    with pytest.raises(InputError, match=r"x\.csv: job A has no duration"):
        bounds.compute(ALL, trace, parse_cluster("1x1"))


def test_no_jobs() -> None:
    """An empty trace gives empty tables."""
    trace = Trace(JobTable.build([], submit_s=[], gpus=[]), Truth.build([]), source="none", format="test")
    for name in bounds.NAMES:
        assert bounds.compute(name, trace, parse_cluster("1x1")).jobs.is_empty()


def test_demand_counts_failed_attempts() -> None:
    demand = demand_of(_mixed(), parse_cluster("1x4"))
    assert demand.run_s.tolist() == [10, 9, 5, 5, 2]
    assert demand.work_gpu_s.tolist() == [40, 18, 5, 45, 0]
    assert demand.feasible.tolist() == [True, True, True, False, True]
