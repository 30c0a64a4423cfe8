"""What promises cost the others: by hand, second by second on random records, and as reports say it."""

from __future__ import annotations

import numpy as np
import pytest
from report_toys import record

from rota.reports.compare import compare
from rota.reports.comparison_table import footnotes
from rota.reports.overtaken import claimed_gpu_s, overtaken_s
from rota.reports.report import render
from rota.reports.sample import Sample
from rota.reports.summary import summarise


def job(submit_s, finish_s, gpus, promised_s=None, **more):
    return {"submit_s": submit_s, "finish_s": finish_s, "gpus": gpus, "promised_s": promised_s, **more}


def held(job, start_s, end_s, gpus, end="finished"):
    return {"job": job, "start_s": start_s, "end_s": end_s, "devices": range(gpus), "end": end}


# 8 GPUs.  b waits from 1 to 20 for 4, d from 3 to 20 for 2, and c and e are promised:
#   2-12   c holds 2, which b asked for before it; d came after c
#  12-20   e holds 6: 4 of them are b's, the other 2 are d's
# So b claims 2 x 10 + 4 x 8 = 52 GPU-seconds, and d 2 x 8 = 16.  All that b asked for was held by later
# promised jobs from 12 on, 8 s of its 19; so it was with d, 8 s of its 17.
JOBS = [
    job(0.0, 12.0, 6, start_s=0.0, tenant="u"),
    job(1.0, 30.0, 4, start_s=20.0, waiting_s=19.0, tenant="u"),
    job(2.0, 12.0, 2, 15.0, start_s=2.0, tenant="v"),
    job(3.0, 25.0, 2, start_s=20.0, waiting_s=17.0, tenant="v"),
    job(5.0, 20.0, 6, 25.0, start_s=12.0, waiting_s=7.0, tenant="v"),
]
HELD = [held(0, 0, 12, 6), held(1, 20, 30, 4), held(2, 2, 12, 2), held(3, 20, 25, 2), held(4, 12, 20, 6)]


def test_the_case_by_hand():
    run = record(JOBS, HELD)
    sample = Sample.of(run)
    assert claimed_gpu_s(sample).tolist() == [0.0, 52.0, 0.0, 16.0, 0.0]
    assert overtaken_s(sample).tolist() == [0.0, 8.0, 0.0, 8.0, 0.0]
    summary = summarise(run)
    assert summary["promises_cost_gpu_s"] == 68.0
    assert summary["mean_unpromised_waiting_s"] == pytest.approx((0 + 19 + 17) / 3)
    assert summary["mean_overtaken_s"] == pytest.approx((0 + 8 + 8) / 3)
    assert {name: of["promises_cost_gpu_s"] for name, of in summary.tenants.items()} == {"u": 52.0, "v": 16.0}


@pytest.mark.parametrize(
    ("change", "cost_gpu_s"),
    [
        ({1: {"eligible_s": 10.0}}, 2 * 2 + 48),  # held back by its own begin time until 10
        ({1: {"gpu_share": 0.5}}, 2 * 10 + 2 * 8 + 16),  # it asks for 4 halves
        ({1: {"state": "REJECTED"}}, 16),
        ({1: {"promised_s": 40.0}}, 16),
        ({1: {"submit_s": 2.0}}, 48),  # came with c, not before it
        ({2: {"promised_s": None}}, 48),  # nobody's promise
    ],
)
def test_what_counts(change, cost_gpu_s):
    jobs = [{**row, **change.get(i, {})} for i, row in enumerate(JOBS)]
    assert summarise(record(jobs, HELD))["promises_cost_gpu_s"] == cost_gpu_s


def test_a_job_that_is_stopped_for_a_promise_waits_again():
    """a runs from 0 to 4 and from 9 on; in between the promised b has its 4 GPUs, and 2 more."""
    jobs = [job(0.0, 15.0, 4, start_s=0.0, waiting_s=5.0), job(3.0, 9.0, 6, 10.0, start_s=4.0)]
    run = record(jobs, [held(0, 0, 4, 4, "preempted"), held(0, 9, 15, 4), held(1, 4, 9, 6)])
    assert summarise(run)["promises_cost_gpu_s"] == 20.0
    assert summarise(run)["mean_overtaken_s"] == 5.0


def test_one_that_never_runs_is_overtaken_to_the_end_of_the_run():
    jobs = [job(0.0, None, 4, state="PENDING"), job(3.0, 9.0, 3, 10.0, start_s=4.0)]
    summary = summarise(record(jobs, [held(1, 4, 9, 3)]))
    assert summary["promises_cost_gpu_s"] == 15.0
    assert summary["mean_overtaken_s"] is None


def test_without_promises_there_is_no_cost():
    summary = summarise(record([{**row, "promised_s": None} for row in JOBS], HELD))
    for key in ("promises_cost_gpu_s", "mean_overtaken_s", "mean_unpromised_waiting_s"):
        assert summary[key] is None


@pytest.mark.parametrize(
    ("jobs", "sentence"),
    [
        (
            JOBS,
            "edf: 100.0% of 2 promised deadlines kept; jobs without a promise waited 12s on average, 5.3s of "
            "it while promised jobs that came later held as many GPUs as they asked for; that is 0.0189 "
            "GPU-h, each GPU counted once.",
        ),
        (
            [{**row, "submit_s": 0.0} for row in JOBS],
            "edf: 100.0% of 2 promised deadlines kept; jobs without a promise waited 12s on average, and "
            "none of it while promised jobs that came later held their GPUs.",
        ),
        (
            [{**row, "promised_s": 30.0} for row in JOBS],
            "edf: 100.0% of 5 promised deadlines kept; no job without a promise finished.",
        ),
        (
            [{**row, "promised_s": 30.0} for row in JOBS[:-2]]
            + [{**JOBS[-2], "promised_s": 30.0, "state": "FAILED"}, {**JOBS[-1], "promised_s": 1.0}],
            "edf: 60.0% of 5 promised deadlines kept (not kept: 1 since the job failed or was cancelled, 1 "
            "since it took longer than was known, or was planned wrongly); no job without a promise "
            "finished.",
        ),
        ([{**row, "promised_s": None} for row in JOBS], None),
    ],
)
def test_what_a_terminal_says_of_it(jobs, sentence):
    said = [
        note
        for note in footnotes(compare([summarise(record(jobs, HELD, policy="edf"))]))
        if "promise" in note
    ]
    assert said == ([sentence] if sentence else [])


def test_the_page_has_a_figure_of_it_only_where_something_was_promised():
    plain = [{**row, "promised_s": None} for row in JOBS]
    title = "What promises cost the others"
    page = render([record(plain, HELD), record(JOBS, HELD, policy="edf")])
    assert page.count(title) == 1
    assert "5.3s overtaken by promised jobs that came later, 6.7s otherwise" in page
    assert title not in render([record(plain, HELD)])


@pytest.mark.parametrize("seed", range(5))
def test_second_by_second_it_comes_to_the_same(seed):
    """Whoever came first takes GPUs one by one, from the earliest of the promised jobs that came after it."""
    rng = np.random.default_rng(seed)
    jobs, intervals = random_run(rng, 30)
    sample = Sample.of(record(jobs, intervals))
    holds = np.zeros((30, 120), dtype=int)
    for row in intervals:
        holds[row["job"], int(row["start_s"]) : int(row["end_s"])] = len(row["devices"])
    seconds, claimed = np.zeros(30), np.zeros(30)
    order = sorted(range(30), key=lambda i: jobs[i]["submit_s"])
    for second in range(120):
        left = {i: holds[i, second] for i in order if jobs[i]["promised_s"] is not None}
        for i in order:
            row = jobs[i]
            waits = row["submit_s"] <= second < row["finish_s"] and not holds[i, second]
            if not waits or row["promised_s"] is not None:
                continue
            later = [j for j in left if jobs[j]["submit_s"] > row["submit_s"]]
            seconds[i] += sum(holds[j, second] for j in later) >= row["gpus"]
            wanted = row["gpus"]
            for j in later:
                taken = min(wanted, left[j])
                left[j], wanted, claimed[i] = left[j] - taken, wanted - taken, claimed[i] + taken
    assert claimed.sum() > 0
    np.testing.assert_allclose(claimed_gpu_s(sample), claimed)
    np.testing.assert_allclose(overtaken_s(sample), seconds)


def random_run(rng, number):
    """Jobs that wait and run in one stretch or in two, half of them promised; on no cluster in particular."""
    jobs, intervals = [], []
    for i in range(number):
        submit_s, gpus = int(rng.integers(60)), int(rng.integers(1, 5))
        start_s, end_s = submit_s + int(rng.integers(25)), submit_s + 26 + int(rng.integers(20))
        promised_s = 99.0 if rng.random() < 0.5 else None
        jobs.append(job(float(submit_s), float(end_s), gpus, promised_s, start_s=float(start_s)))
        if rng.random() < 0.5:
            intervals += [held(i, start_s, end_s, gpus)]
        else:
            intervals += [held(i, start_s, start_s + 1, gpus, "preempted"), held(i, end_s - 1, end_s, gpus)]
    return jobs, intervals
