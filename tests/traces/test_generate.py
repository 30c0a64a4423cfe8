"""The generator: reproducible, calibrated to the published figures, exact about load and span."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from play import play
from rota.errors import InputError
from rota.model.cluster import parse_cluster
from rota.model.jobs import JOB_COLUMNS, Outcome
from rota.model.trace import Trace
from rota.reports.summary import summarise
from rota.traces.arrivals import draw_submissions, place_in_span
from rota.traces.calibration import EXAMPLE_JOBS, EXAMPLE_SEED, compare, markdown
from rota.traces.describe import describe, gap_figures
from rota.traces.generate import attempt_chances, generate, runtime_quantile_s
from rota.traces.philly_figures import ATTEMPTS_MEAN, BUCKETS, PERCENTS, RUNTIME_MIN
from rota.traces.population import apportion

DOCS = Path(__file__).parents[2] / "docs" / "generator.md"


@pytest.fixture(scope="module")
def example() -> Trace:
    return generate(EXAMPLE_JOBS, seed=EXAMPLE_SEED)


# --- calibration

# topic (as in `compare`), relative tolerance, absolute tolerance
TOLERANCES = [
    ("runtime, min", 0.05, 0),
    ("runtime of all sizes", 0.75, 0),  # not fitted: our mix has more large jobs than this list
    ("% of jobs", 0, 0.5),
    ("% of GPU time", 0, 2.5),  # a few hundred jobs hold a third of it
    ("CV of gaps", 0.25, 0),
    ("attempts", 0.02, 0),
    ("% of failing jobs", 0, 3.5),  # drawn by how well they fit the time to failure
]


@pytest.mark.slow
@pytest.mark.parametrize(("topic", "relative", "absolute"), TOLERANCES)
def test_a_large_trace_has_the_published_figures(
    example: Trace, topic: str, relative: float, absolute: float
) -> None:
    figures = [figure for figure in compare(example) if figure.topic.startswith(topic)]
    assert figures
    for figure in figures:
        assert figure.generated == pytest.approx(figure.published, rel=relative, abs=absolute), figure


def test_every_virtual_cluster_has_its_mix(example: Trace) -> None:
    """Small clusters have few series, so their mix wanders by a few percent of their jobs."""
    figures = [figure for figure in compare(example) if figure.topic.endswith(", % of jobs")]
    assert len({figure.topic for figure in figures}) == 11
    for figure in figures:
        assert figure.generated == pytest.approx(figure.published, abs=6), figure


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_smaller_traces_of_other_seeds_come_close(seed: int) -> None:
    trace = generate(20_000, seed=seed)
    by_name = {(figure.topic, figure.name): figure for figure in compare(trace)}
    for bucket in BUCKETS:
        assert abs(by_name["runtime, min", f"{bucket}, p50"].off) < 0.15
    for outcome in ("passed", "killed", "unsuccessful"):
        figure = by_name["% of jobs", outcome]
        assert figure.generated == pytest.approx(figure.published, abs=0.1)
    assert 2.5 < (describe(trace).gap_cv or 0) < 12, "far from the 1 of random arrivals"


def test_the_documented_comparison_is_the_real_one(example: Trace) -> None:
    """After a change: python -m rota.traces.calibration, and paste the table."""
    assert markdown(compare(example)) in DOCS.read_text()


def test_the_documentation_runs() -> None:
    blocks = re.findall(r"```python\n(.*?)```", DOCS.read_text(), re.DOTALL)
    assert blocks
    for block in blocks:
        exec(block, {})


# --- span and load


@pytest.mark.parametrize("load", [0.3, 0.8, 1.5])
@pytest.mark.parametrize("gpus", [64, 640, 1000])
def test_the_offered_load_is_exact(load: float, gpus: int) -> None:
    """What would be busy between the first submission and the last if nothing waited."""
    trace = generate(3000, seed=4, load=load, cluster=gpus)
    submit_s, run_s = trace.jobs.submit_s, trace.truth.run_s()
    span_s = float(np.ptp(submit_s))
    inside_gpu_s = float(np.minimum(run_s, submit_s.max() - submit_s) @ trace.jobs.gpus)
    assert inside_gpu_s / (gpus * span_s) == pytest.approx(load, rel=1e-4)


def test_a_large_cluster_is_loaded_too() -> None:
    """3,000 jobs on 1,000 GPUs: a load of 0.95 once gave a utilisation of 0.13."""
    trace = generate(3000, seed=1, load=0.95, cluster=1000)
    record = play("fifo:skip=yes", trace, "125x8")
    assert summarise(record)["utilisation"] == pytest.approx(0.8, abs=0.1)


def test_too_few_jobs_load_nothing() -> None:
    says = r"10 jobs with \d+ GPUs cannot load 1,000 GPUs to 0\.9, even at once"
    with pytest.raises(InputError, match=says):
        generate(10, load=0.9, cluster=1000)


def test_a_number_of_gpus_does_for_a_cluster() -> None:
    cluster = parse_cluster("80x8:V100")
    one, other = (generate(500, load=0.8, cluster=size) for size in (cluster, 640))
    np.testing.assert_array_equal(one.jobs.submit_s, other.jobs.submit_s)


@pytest.mark.parametrize("days", [0.01, 1.0, 75.0, 400.0])
def test_days_fix_the_span(days: float) -> None:
    submit_s = generate(2000, seed=5, days=days).jobs.submit_s
    assert submit_s[0] == 0
    assert submit_s[-1] == pytest.approx(days * 86400, abs=0.001)


def test_without_a_wish_the_papers_rate_holds() -> None:
    assert np.ptp(generate(96_260 // 10).jobs.submit_s) == pytest.approx(7.5 * 86400)


def test_no_job_is_larger_than_the_cluster() -> None:
    free, tight = (generate(20_000, cluster=gpus) for gpus in (None, 6))
    assert free.jobs.gpus.max() == 32
    assert tight.jobs.gpus.max() == 4
    assert generate(20_000, cluster=1).jobs.gpus.max() == 1


@pytest.mark.parametrize(
    ("jobs", "wishes", "problem"),
    [
        (0, {}, "trace of 0 jobs"),
        (10, {"load": 0.8}, "expected a cluster"),
        (10, {"load": 0.8, "days": 1, "cluster": 8}, "expected one of them"),
        (1, {"load": 0.8, "cluster": 8}, "one job has no span"),
        (10, {"load": 0, "cluster": 8}, "the load of a generated trace is 0"),
        (10, {"load": 0.5, "cluster": 0}, "the number of GPUs of a generated trace is 0"),
        (10, {"days": -1}, "the days of a generated trace is -1"),
        (10, {"days": float("nan")}, "the days of a generated trace is nan"),
        (10, {"days": 1e300}, r"would span 1e\+300 days; expected at most 1,000,000"),
    ],
)
def test_wishes_that_make_no_trace_are_refused(jobs: int, wishes: dict[str, float], problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        generate(jobs, **wishes)  # type: ignore[arg-type]


# --- determinism


def contents(trace: Trace) -> list[object]:
    columns = [getattr(trace.jobs, name).tobytes() for name in JOB_COLUMNS]
    truth = [trace.truth.duration_s.tobytes(), trace.truth.outcome.tobytes(), trace.truth.failures]
    return [*columns, *truth, list(trace.jobs.ids), trace.jobs.group_names, trace.jobs.tenant_names]


def test_a_seed_names_a_trace() -> None:
    assert contents(generate(3000, seed=7)) == contents(generate(3000, seed=7))
    assert contents(generate(3000, seed=7)) != contents(generate(3000, seed=8))


# --- what jobs are like


@pytest.mark.parametrize("jobs", [1, 2, 3, 17, 1000])
def test_traces_of_any_size_are_whole(jobs: int) -> None:
    trace = generate(jobs, seed=9)
    assert len(trace) == len(set(trace.jobs.ids)) == jobs
    assert (np.diff(trace.jobs.submit_s) >= 0).all()
    assert (trace.truth.duration_s > 0).all()
    assert (trace.jobs.gpus >= 1).all()


def test_only_failing_jobs_have_failing_attempts(example: Trace) -> None:
    rows = np.array(list(example.truth.failures))
    assert (example.truth.outcome[rows] == Outcome.FAILED).all()
    runs = list(example.truth.failures.values())
    assert {len(run) for run in runs} == {1, 2, 3}
    assert min(min(run) for run in runs) > 0
    # It breaks again and again after about the same time.
    first = np.array([run[0] for run in runs])
    assert np.percentile(first / example.truth.duration_s[rows], [1, 99]) == pytest.approx([1, 1], abs=0.5)


def test_a_series_is_one_users_jobs_of_one_size_and_program(example: Trace) -> None:
    jobs = example.jobs
    for column in (jobs.gpus, jobs.tenant, jobs.workload, jobs.limit_s):
        pairs = np.unique(np.stack([jobs.group.astype(np.float64), column.astype(np.float64)]), axis=1)
        assert pairs.shape[1] == len(jobs.group_names)
    names = [jobs.group_names[code].rpartition("/")[0] for code in jobs.group[:1000]]
    assert names == [jobs.tenant_names[code] for code in jobs.tenant[:1000]]


def test_the_past_of_a_series_predicts_its_runtimes(example: Trace) -> None:
    """Among single-GPU jobs, knowing the series leaves a small part of the spread of log runtimes."""
    single = example.jobs.gpus == 1
    log_run, series = np.log(example.truth.run_s()[single]), example.jobs.group[single]
    mean = np.bincount(series, log_run) / np.maximum(np.bincount(series), 1)
    assert (log_run - mean[series]).std() < 0.4 * log_run.std()


def test_time_limits_are_generous_and_round(example: Trace) -> None:
    """A limit binds no job; half of the jobs ask for several times what they use."""
    excess = example.jobs.limit_s / example.truth.run_s()
    assert excess.min() >= 1
    assert np.median(excess) > 2
    assert len(np.unique(example.jobs.limit_s)) <= 14


def test_some_programs_have_skewed_tensors(example: Trace) -> None:
    names = np.array(example.jobs.workload_names)[example.jobs.workload]
    skewed = np.isin(names, ["vgg16", "vgg19", "alexnet"]).mean()
    assert 0.1 < skewed < 0.3
    assert "resnet50" in names


# --- parts


def test_apportion_gives_everything_away() -> None:
    for total in range(40):
        counts = apportion(total, np.array([5.0, 3.0, 1.0, 0.2]))
        assert counts.sum() == total
        assert (counts >= 0).all()
    assert apportion(10, np.array([6.0, 3.0, 1.0])).tolist() == [6, 3, 1]


def test_runtime_quantiles_pass_through_the_published_ones() -> None:
    for code in range(len(BUCKETS)):
        minutes = runtime_quantile_s(code, np.array(PERCENTS, dtype=np.float64)) / 60
        np.testing.assert_allclose(minutes, RUNTIME_MIN[code])
        steps = np.diff(runtime_quantile_s(code, np.linspace(0, 100, 1001)))
        assert (steps >= 0).all()


def test_attempt_chances_have_the_published_mean() -> None:
    chances = attempt_chances()
    assert chances.sum() == pytest.approx(1)
    assert chances @ np.arange(1, len(chances) + 1) == pytest.approx(ATTEMPTS_MEAN)


@pytest.mark.parametrize(("cv", "batched"), [(2.8, 0.05), (5.5, 0.75), (12.1, 0.41)])
def test_gaps_have_the_wanted_bursts(cv: float, batched: float) -> None:
    drawn = draw_submissions(np.random.default_rng(0), 5000, cv, batched)
    submit_s = drawn.head * 5000 * 3600 + drawn.lag_s  # a mean gap of an hour, no rhythm of the week
    assert gap_figures(submit_s)[1] == pytest.approx(cv, rel=0.15)
    inside = np.diff(drawn.batch) == 0
    assert inside.mean() == pytest.approx(batched, abs=0.03)
    assert (drawn.lag_s[1:][inside] > drawn.lag_s[:-1][inside]).all()


def test_weekends_and_quiet_hours_have_fewer_submissions() -> None:
    even = np.linspace(0, 1, 200_000, endpoint=False)
    moment_s = place_in_span(even, np.zeros(len(even)), 28 * 86400.0)
    day = np.bincount((moment_s // 86400).astype(int) % 7, minlength=7)[:7]
    assert day[5:].mean() / day[:5].mean() == pytest.approx(0.48, abs=0.01)
    hour = np.bincount((moment_s // 3600).astype(int) % 24, minlength=24)
    assert hour[14] / hour[6] == pytest.approx(0.70 / 1.32, abs=0.02)
