"""A start that is not on record does not mean that a job never ran, in any format."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sacct_text import dump, gpus, row

from rota.model.jobs import Outcome
from rota.reports.findings.history import JobHistory
from rota.reports.findings.studies import study
from rota.reports.usage.gpu_hours import usage_of
from rota.reports.usage.of_trace import held_of

# three jobs of 1, 1 and 2 GPU-hours, of which the first one's start is known and the others failed
SWF = "".join(
    f"{n} 0 {wait} {run} 1 -1 -1 1 7200 -1 {status} 3 1 -1 1 -1 -1 -1\n"
    for n, wait, run, status in ((1, 10, 3600, 1), (2, -1, 3600, 0), (3, -1, 7200, 0))
)
CSV = (
    "job_id,submit_s,gpus,duration_s,start_s,outcome\n"
    "a,0,1,3600,10,COMPLETED\nb,0,1,3600,,FAILED\nc,0,1,7200,,FAILED\n"
)
HELIOS = (
    "job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue\n"
    "1,u,v,1,1,1,COMPLETED,2020-04-01 00:00:00,2020-04-01 00:00:10,2020-04-01 01:00:10,3600,10\n"
    "2,u,v,1,1,1,FAILED,2020-04-01 00:00:00,None,None,3600,0\n"
    "3,u,v,1,1,1,FAILED,2020-04-01 00:00:00,None,None,7200,0\n"
)
ONE = {"AllocTRES": gpus(1), "ReqTRES": gpus(1)}
SACCT = dump(
    row("1", **ONE, Start="09:00:10", End="10:00:10"),
    row("2", **ONE, Start="Unknown", End="10:00:00", ElapsedRaw="3600", State="FAILED"),
    row("3", **ONE, Start="Unknown", End="11:00:00", ElapsedRaw="7200", State="FAILED"),
)
PBS = "".join(
    f"03/01/2024 12:00:00;E;{n}.s;user=u queue=q qtime=1709283600 {start}Resource_List.ngpus=1 "
    f"Exit_status={status} resources_used.walltime={hours:02}:00:00\n"
    for n, start, hours, status in (
        (1, "start=1709283610 end=1709287210 ", 1, 0),
        (2, "", 1, 1),
        (3, "", 2, 1),
    )
)


@pytest.mark.parametrize(
    "text", [SWF, CSV, HELIOS, SACCT, PBS], ids=["swf", "plain", "helios", "sacct", "pbs"]
)
def test_all_that_ran_counts_and_what_is_unknown_is_said(read_text: Any, text: str) -> None:
    trace = read_text(text)
    assert np.isnan(trace.observed.start_s).tolist() == [False, True, True]
    total = usage_of(held_of(trace)).total
    assert (total.gpu_hours, total.failed_gpu_hours) == (4, 3)
    assert total.wait_hours == pytest.approx(10 / 3600), "of the one whose start is known"
    history = JobHistory.of(trace)
    assert (history.ran.tolist(), history.dated.tolist()) == ([True] * 3, [True, False, False])
    analysis = study(trace)
    outcomes = next(one for one in analysis.findings if one.key == "outcomes")
    assert outcomes.sentence.startswith("67% of the jobs failed (67%)")
    said = "When 2 of 3 jobs that ran did so is not recorded"
    assert all(any(said in one for one in of) for of in (analysis.remarks, usage_of(held_of(trace)).remarks))


def test_a_job_cancelled_while_it_waited_never_ran(read_text: Any) -> None:
    line = "4,u,v,1,1,1,CANCELLED,2020-04-01 00:00:00,None,None,{},0\n"
    waited, ran = (read_text(HELIOS + line.format(duration)) for duration in ("0", "60"))
    assert (waited.truth.duration_s[3], ran.truth.duration_s[3]) == (0, 60)
    assert (waited.is_undated.sum(), ran.is_undated.sum()) == (2, 3)


def test_a_pod_that_ran_without_a_recorded_start_is_no_cancelled_one(read_text: Any) -> None:
    """How long it ran is not known: it is left out, and named."""
    head = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,"
    pods = [f"p{n},1,1,1,1000,,BE,{phase},0,60,{start}" for n, (phase, start) in enumerate(
        (("Succeeded", 5), ("Failed", ""), ("Pending", "")))]  # fmt: skip
    trace = read_text("\n".join([head + "scheduled_time", *pods]))
    assert list(trace.jobs.ids) == ["p0", "p2"]
    assert trace.truth.outcome.tolist() == [Outcome.COMPLETED, Outcome.CANCELLED]
    assert "Left out: 1 row (row 3 (job p1)): ran, and no start is recorded" in trace.remarks[0]
