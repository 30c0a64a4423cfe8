"""A comparison remarks on options that change nothing under the chosen policies."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import rota

JOBS = "job_id,submit_s,gpus,duration_s,limit_s,workload\na,0,1,100,200,x\nb,1,2,50,200,y\n"


def test_failing_attempts_that_are_there_are_read(tmp_path: Path) -> None:
    file = tmp_path / "jobs.csv"
    file.write_text("job_id,submit_s,gpus,duration_s,failures_s\na,0,1,100,20;30\n")
    for options in ({"retries": 1}, {"failures": False}):
        results = rota.simulate(str(file), cluster="1x4", workers=1, **options)
        assert not [remark for remark in results.remarks if "no effect" in remark]


def test_a_failing_job_restarts(tmp_path: Path) -> None:
    file = tmp_path / "jobs.csv"
    file.write_text("job_id,submit_s,gpus,duration_s,failures_s\na,0,1,100,20;30\n")
    results = rota.simulate(str(file), cluster="1x4", policies="fifo", costs="restore=30s", workers=1)
    assert not [remark for remark in results.remarks if "no effect" in remark]


def test_a_file_of_past_service_is_named_as_it_was_given(tmp_path: Path) -> None:
    past = tmp_path / "past.csv"
    past.write_text("service\n10\n20\n")
    (said,) = remarks(tmp_path, "fifo", service_history=str(past))
    assert said == f"--service-history {past} has no effect: fifo reads no service history."


def remarks(tmp_path: Path, policies: str, **options: Any) -> list[str]:
    (tmp_path / "jobs.csv").write_text(JOBS)
    results = rota.simulate(
        str(tmp_path / "jobs.csv"), cluster="1x4", policies=policies, workers=1, **options
    )
    return [remark for remark in results.remarks if "no effect" in remark]


@pytest.mark.parametrize(
    ("policies", "options", "expected"),
    [
        (
            "fifo",
            {"knowledge": "scaling=measured"},
            "--knowledge scaling=measured has no effect: fifo reads",
        ),
        ("fifo,drf", {"knowledge": "duration=user"}, "fifo, drf read no duration."),
        (
            "fifo",
            {"elastic": "1:4"},
            "--elastic has no effect: fifo gives each job the GPUs",
        ),
        ("srtf,fifo", {"accept": "1.5"}, "--accept has no effect: srtf, fifo offer no later deadlines."),
        ("fifo,sjf", {"can": "checkpoint"}, "--can has no effect: fifo, sjf stop no running job."),
        (
            "fifo",
            {"observation_noise": 0.1},
            "--observation-noise has no effect: fifo observes no running job.",
        ),
        ("fifo", {"retries": 5}, "--retries 5 has no effect: the trace records no failing attempts."),
        ("fifo", {"failures": False}, "--no-failures has no effect: the trace records no failing attempts."),
        (
            "fifo,srtf",
            {"seeds": 2},
            "--seeds 2 has no effect: nothing is drawn here, so that each policy ran once; ",
        ),
        (
            "fifo,pollux",
            {"seeds": 2},
            "--seeds 2 has no effect on fifo: nothing is drawn in its run, so that it",
        ),
        ("fifo", {"confidence": True}, "--confidence has no effect: fewer than 50 jobs are no basis."),
        ("fifo", {"ideal": True}, "--ideal has no effect: true durations and free stops are what is taken"),
        ("fifo", {"costs": "restore=30s"}, "--costs restore has no effect: fifo stops no running job."),
        (
            "fifo,sjf",
            {"costs": "start=20s,checkpoint=5s,restore=30s"},
            "--costs checkpoint and restore have no effect: fifo, sjf stop no running job.",
        ),
        (
            "fifo",
            {"costs": "migrate=9s,restore=1s", "faults": "mtbf=1d,repair=1h"},
            "--costs migrate has no effect: fifo moves no running job.",
        ),
        ("srtf", {"costs": "resize=elan"}, "--costs resize has no effect: srtf changes no job's number of"),
        ("srtf", {"costs": "checkpoint_every=1h"}, "--costs checkpoint_every has no effect: no node is lost"),
        ("fifo", {"site_policy": "srtf"}, "--site-policy srtf has no effect: no recorded start is there"),
    ],
)
def test_an_unread_option_is_remarked_upon(
    tmp_path: Path, policies: str, options: dict[str, Any], expected: str
) -> None:
    (said,) = remarks(tmp_path, policies, **options)
    assert expected in said


@pytest.mark.parametrize(
    ("policies", "options"),
    [
        ("fifo,srtf", {"knowledge": "duration=user"}),
        ("fifo,afs", {"elastic": "1:4"}),
        ("fifo,elasticflow", {"accept": "1.5"}),
        ("synergy:policy=srtf", {"knowledge": "duration=user"}),
        ("fifo:backfill=easy", {"knowledge": "duration=user"}),
        ("fifo,srtf", {"can": "checkpoint"}),
        ("fifo", {"can": "checkpoint", "faults": "mtbf=1d,repair=1h"}),
        ("afs", {"observation_noise": 0.1}),
        ("fifo", {"costs": "start=20s,switch=1s"}),
        ("fifo,srtf", {"costs": "start=20s,checkpoint=5s,restore=30s,migrate=1s,preempt=62s"}),
        ("afs", {"costs": "prepare=15s,resize=2s"}),
        ("fifo", {"costs": "restore=30s,checkpoint_every=1h", "faults": "mtbf=1d,repair=1h"}),
        ("fifo", {"seeds": 2, "faults": "mtbf=30s,repair=10s"}),
    ],
)
def test_an_option_that_some_policy_reads_is_not(
    tmp_path: Path, policies: str, options: dict[str, Any]
) -> None:
    """Also through a policy around another one, and in the variants that read more."""
    assert remarks(tmp_path, policies, **options) == []


def test_pairs_without_packing(tmp_path: Path) -> None:
    (tmp_path / "pairs.csv").write_text(
        "workload,other,rate,other_rate,utilisation,other_utilisation\nx,y,.8,.8,,\n"
    )
    given = {"pairs": str(tmp_path / "pairs.csv")}
    assert remarks(tmp_path, "fifo", **given) == ["--pairs has no effect: fifo puts no two jobs on one GPU."]
    assert remarks(tmp_path, "gandiva", **given) == []
    said = "--pairs has no effect on gavel:pairs=yes: it pairs jobs by those of a --throughput file."
    assert remarks(tmp_path, "gandiva,gavel:pairs=yes", **given) == [said]
