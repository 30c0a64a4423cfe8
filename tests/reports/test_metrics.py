"""Numbers against hand-computed examples."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from report_toys import Row, record

from rota.reports.definitions import definitions, markdown
from rota.reports.metrics import DISTRIBUTIONS, METRICS
from rota.reports.summary import spread, summarise
from rota.reports.window import parse_window

# Two nodes of 4 GPUs.  A takes node 0, B half of node 1, C waits for A, D never starts.
#        submit start finish gpus duration
# A          0     0    100     4      100
# B          0    10     60     2       40   10 s overhead: held 50, worked 40
# C         50   100    150     4       50
# D         90                  8            waits to the end
JOBS: list[Row] = [
    {"submit_s": 0.0, "start_s": 0.0, "finish_s": 100.0, "gpus": 4, "duration_s": 100.0, "run_s": 100.0}
    | {"service_gpu_s": 400.0, "tenant": "a", "deadline_s": 100.0},
    {"submit_s": 0.0, "start_s": 10.0, "finish_s": 60.0, "gpus": 2, "duration_s": 40.0, "run_s": 50.0}
    | {"service_gpu_s": 100.0, "waiting_s": 10.0, "overhead_s": 10.0, "tenant": "b", "state": "FAILED"}
    | {"failures": 1, "deadline_s": 80.0},
    {"submit_s": 50.0, "start_s": 100.0, "finish_s": 150.0, "gpus": 4, "duration_s": 50.0, "run_s": 50.0}
    | {
        "service_gpu_s": 200.0,
        "waiting_s": 50.0,
        "lost_s": 5.0,
        "starts": 2,
        "preemptions": 1,
        "tenant": "a",
    },
    {"submit_s": 90.0, "gpus": 8, "state": "PENDING", "starts": 0, "tenant": "c", "deadline_s": 500.0},
]
INTERVALS: list[Row] = [
    {"job": 0, "start_s": 0.0, "end_s": 100.0, "devices": [0, 1, 2, 3]},
    {"job": 1, "start_s": 10.0, "end_s": 60.0, "devices": [4, 5], "end": "failed"},
    {"job": 2, "start_s": 100.0, "end_s": 150.0, "devices": [0, 1, 2, 3]},
]
RUN = record(JOBS, INTERVALS, nodes=(4, 4))

EXPECTED = [
    # key                value             why
    ("jobs", 4, "all of the trace"),
    ("finished", 3, "failed jobs end too; D never started"),
    ("failed", 1, "B"),
    ("unfinished", 1, "D"),
    ("rejected", 0, ""),
    ("mean_jct_s", 260 / 3, "100, 60, 100"),
    ("p50_jct_s", 100.0, "middle of 60, 100, 100"),
    ("p90_jct_s", 100.0, ""),
    ("mean_delay_s", 20.0, "0, 10, 50"),
    ("p50_delay_s", 10.0, ""),
    ("p90_delay_s", 42.0, "linear: 10 + 0.8 * 40"),
    ("p99_delay_s", 49.2, "linear: 10 + 0.98 * 40"),
    ("mean_waiting_s", 20.0, "0, 10, 50"),
    ("mean_slowdown", 1.5, "1, 60/40, 100/50"),
    ("rho_tenants", 3, "a, b, c"),
    ("mean_rho", (2 / 3 + 1.5 + 4 / 3) / 3, "4 of 8/3 GPUs run 1.5x slower alone: 100/150, 60/40, 100/75"),
    ("max_rho", 1.5, "B"),
    ("max_rho_static", 2.0, "C: 100 s for 50, and 4 jobs on 8 GPUs leave everybody one of its own"),
    ("unfair_static", 2 / 3, "B and C took longer than alone"),
    ("max_rho_present", 2.0, "likewise: there are never more than 3 jobs"),
    ("unfair_present", 2 / 3, ""),
    ("makespan_s", 150.0, "from 0 to C's finish"),
    (
        "utilisation",
        460 / 720,
        "360 + 100 of 8 GPUs x 90 s, to the last submission",
    ),
    # waiting: B in 0..10, C in 50..100, D in 90..150; free: 4 in 0..10 (node 1 empty), in 50..60 the 2
    # beside B, in 60..150 node 1 again
    ("fragmentation", 20 / 180, "2 GPUs x 10 s beside B, of 40 + 20 + 120 GPU-s free"),
    ("granted_gpu_s", 700.0, ""),
    ("overhead_gpu_s", 20.0, "10 s of 2 GPUs"),
    ("lost_gpu_s", 20.0, "5 s of 4 GPUs"),
    ("goodput", 660 / 700, ""),
    ("preemptions", 1, ""),
    ("restarts", 1, "C started twice; D never, which is not -1"),
    ("failures", 1, ""),
    ("deadlines", 3, "A, B, D"),
    ("deadlines_met", 1, "A just in time; B in time but failed; D never"),
    ("deadline_share", 1 / 3, ""),
    ("engine_seconds", 0.5, ""),
    ("decisions", 4, ""),
]


@pytest.mark.parametrize(("key", "value", "why"), EXPECTED, ids=[key for key, _, _ in EXPECTED])
def test_metric(key: str, value: float, why: str) -> None:
    assert summarise(RUN)[key] == pytest.approx(value), why


WINDOWS = [
    # window      start  end  jobs  mean JCT  utilisation                why
    (":", None, None, None, None, None, "neither end: refused"),
    ("0%:100%", 0, 90, 4, 260 / 3, (360 + 100) / 720, "submissions run from 0 to 90 s, not to 150"),
    ("50%:", 45, 150, 2, 100.0, (220 + 30 + 200) / 840, "C and D; 55 s of A, 15 of B, 50 of C"),
    ("40s:60s", 40, 60, 1, 100.0, (80 + 40) / 160, "C alone; A and B still hold 6 GPUs"),
    (":10s", 0, 10, 2, 80.0, 40 / 80, "A and B; B starts as the window ends"),
    ("1h:2h", 3600, 7200, 0, None, 0.0, "nothing there: no mean, not 0"),
    ("90%:10%", None, None, None, None, None, "backwards: refused"),
    ("10:90", None, None, None, None, None, "no units: refused"),
    ("10%:120%", None, None, None, None, None, "beyond the trace: refused"),
    ("x%:90%", None, None, None, None, None, "no number: refused"),
]


@pytest.mark.parametrize(("text", "start", "end", "jobs", "jct", "used", "why"), WINDOWS)
def test_window(text, start, end, jobs, jct, used, why) -> None:  # type: ignore[no-untyped-def]
    if start is None:
        with pytest.raises(Exception, match="expected"):
            parse_window(text)
        return
    summary = summarise(RUN, parse_window(text))
    assert (summary.span.start_s, summary.span.end_s) == pytest.approx((start, end)), why
    assert summary["jobs"] == jobs, why
    assert summary["mean_jct_s"] == (None if jct is None else pytest.approx(jct)), why
    assert summary["utilisation"] == pytest.approx(used), why
    assert summary.to_dict()["window"] == {"asked": text, "start_s": start, "end_s": end}


def test_groups_hold_the_same_definitions() -> None:
    summary = summarise(RUN)
    assert {name: group["jobs"] for name, group in summary.tenants.items()} == {"a": 2, "b": 1, "c": 1}
    assert {name: group["mean_jct_s"] for name, group in summary.sizes.items()} == {
        "2-4 GPUs": pytest.approx(260 / 3),
        "5-8 GPUs": None,
    }
    assert summary.tenants["b"]["max_rho"] == pytest.approx(1.5), "N stays that of the whole run"
    assert "utilisation" not in summary.tenants["a"], "a cluster's metric says nothing of a tenant"


def test_worst_tenant() -> None:
    """Ten jobs each of two tenants on 8 GPUs; nine of a third, treated worse, are too few to count."""
    jobs = [
        {"submit_s": 0.0, "finish_s": jct_s, "start_s": 0.0, "duration_s": 1e3, "gpus": 1, "tenant": tenant}
        for tenant, jct_s, count in (("a", 2e3, 10), ("b", 3e3, 10), ("c", 9e3, 9))
        for _ in range(count)
    ]
    assert summarise(record(jobs))["worst_tenant_rho"] == pytest.approx(3.0)
    assert summarise(record(jobs[:10]))["worst_tenant_rho"] is None, "of one tenant nobody is the worst"
    brief = [{**job, "tenant": "d", "duration_s": 1.0, "finish_s": 900.0} for job in jobs[:10]]
    assert summarise(record([*jobs, *brief]))["worst_tenant_rho"] == pytest.approx(3.0), (
        "900 s over ten minutes"
    )


SHARED = [
    # intervals as (start, end, devices, share, role)                                     GPU-s  why
    ([(0, 10, [0], 0.5, "packed"), (0, 10, [0], 0.5, "packed")], 10.0, "two halves are one GPU"),
    ([(0, 10, [0], 1.0, "guaranteed"), (0, 10, [0], 1.0, "opportunistic")], 10.0, "a device counts once"),
    ([(0, 10, [0], 0.6, "guaranteed"), (5, 15, [0], 0.6, "opportunistic")], 11.0, "0.6x5 + 1x5 + 0.6x5"),
]


@pytest.mark.parametrize(("intervals", "gpu_s", "why"), SHARED)
def test_shared_devices_are_not_counted_twice(intervals, gpu_s, why) -> None:  # type: ignore[no-untyped-def]
    names = ("start_s", "end_s", "devices", "share", "role")
    rows = [dict(zip(names, row, strict=True), job=i) for i, row in enumerate(intervals)]
    jobs = [{"submit_s": 0.0, "start_s": 0.0, "finish_s": 20.0, "gpus": 1} for _ in rows]
    assert summarise(record(jobs, rows, nodes=(2,)))["utilisation"] == pytest.approx(gpu_s / 40), why


def test_without_placement_there_is_no_fragmentation() -> None:
    rows = [{**row, "devices": [], "gpus": len(row["devices"])} for row in INTERVALS]
    summary = summarise(record(JOBS, rows, nodes=(4, 4)))
    assert summary["fragmentation"] is None
    assert summary["utilisation"] == pytest.approx(460 / 720), "counts are enough for that"


SPANS = [
    # submissions and durations                     measured      why
    ([(0, 30), (50, 20), (100, 1000)], (0, 100), "to the last submission, whatever runs on"),
    (
        [(0, 500), (5, 400), (9, 3)],
        (0, 1600),
        "a batch: the median job takes longer than all submissions",
    ),
    ([(0, None), (100, None)], (0, 100), "durations that nobody knows make no batch"),
    ([(7, 10)], (7, 1600), "one job"),
]


@pytest.mark.parametrize(("jobs", "span", "why"), SPANS)
def test_span_without_a_window(jobs, span, why) -> None:  # type: ignore[no-untyped-def]
    rows: list[Row] = [{"submit_s": s, "duration_s": d, "gpus": 1} for s, d in jobs]
    rows[-1] |= {"start_s": rows[-1]["submit_s"], "finish_s": 1600.0}
    of = summarise(record(rows)).span
    assert (of.start_s, of.end_s) == span, why


def test_an_empty_run_has_no_means_and_no_error() -> None:
    summary = summarise(record([], nodes=(4,)))
    assert summary["jobs"] == 0
    assert summary["mean_jct_s"] is None
    assert summary["utilisation"] is None


def test_spread_over_seeds() -> None:
    def run(finish_s: float):  # type: ignore[no-untyped-def]
        row = {"submit_s": 0.0, "start_s": 0.0, "finish_s": finish_s, "gpus": 1}
        return summarise(record([row], nodes=(4,)))

    of = spread([run(10.0), run(20.0), run(60.0)])["mean_jct_s"]
    assert of is not None
    assert (of.runs, of.mean, of.low, of.high) == (3, 30.0, 10.0, 60.0)
    assert of.std == pytest.approx(math.sqrt((400 + 100 + 900) / 2))
    assert spread([run(10.0)])["deadline_share"] is None


def test_every_metric_is_defined_once_and_printed() -> None:
    assert all(len(metric.definition) > 10 for metric in METRICS.values())
    assert len(definitions()) == len(METRICS) - 3 * len(DISTRIBUTIONS)


def test_the_page_of_definitions_is_up_to_date() -> None:
    page = Path(__file__).parents[2] / "docs" / "metrics.md"
    assert page.read_text(encoding="utf-8") == markdown(), (
        "run: python -m rota.reports.definitions docs/metrics.md"
    )


def test_unfair_by_the_jobs_present() -> None:
    """Two jobs on one GPU, then one: 1.5 jobs on average in the life of the first to come."""
    jobs = [
        {"submit_s": 0.0, "start_s": 0.0, "finish_s": 100.0, "gpus": 1, "duration_s": 50.0, "run_s": 100.0},
        {"submit_s": 50.0, "start_s": 100.0, "finish_s": 160.0, "gpus": 1, "duration_s": 60.0, "run_s": 60.0},
    ]
    values = summarise(record(jobs, [], nodes=(1,)))
    assert values["max_rho_static"] == pytest.approx(1.0)  # 100 / (50 x 2 jobs), 110 / (60 x 2)
    assert values["unfair_static"] == 0.0
    assert values["max_rho_present"] == pytest.approx(100 / (50 * 1.5))  # the other: 110 / (60 x 160 / 110)
    assert values["unfair_present"] == 1.0


def test_who_gave_up_waiting_counts_in_no_mean() -> None:
    """In a replay it has no work: served first by who knows that, it made the mean wait of `srtf` shorter."""
    ran = {"submit_s": 0.0, "start_s": 10.0, "finish_s": 100.0, "run_s": 90.0, "waiting_s": 10.0}
    gave_up = {"submit_s": 0.0, "start_s": 0.0, "finish_s": 0.0, "run_s": 0.0, "state": "CANCELLED"}
    stopped = ran | {"state": "CANCELLED", "waiting_s": 20.0}
    values = summarise(record([ran, gave_up, stopped])).values
    assert (values["jobs"], values["finished"], values["cancelled"]) == (3, 2, 2)
    assert values["mean_waiting_s"] == 15.0
