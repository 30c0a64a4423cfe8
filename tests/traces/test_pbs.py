"""Accounting logs of PBS and Torque, and the JSON of PBS Pro."""

from __future__ import annotations

import json
import warnings
from typing import Any

import numpy as np
import pytest

from rota.errors import InputError
from rota.model.jobs import Outcome
from rota.traces.pbs.resources import cpus_of, gpus_of, memory_gib, nodes_of, seconds

T = 1709283600


def record(kind: str, id: str, **said: object) -> str:
    pairs = " ".join(f"{key.replace('__', '.')}={value}" for key, value in said.items())
    return f"03/01/2024 10:05:00;{kind};{id};{pairs}\n"


def ended(id: str, *, start: int = 300, end: int = 3900, **said: object) -> str:
    usual = {
        "user": "ann", "group": "vision", "jobname": "train", "queue": "gpu", "ctime": T, "qtime": T,
        "etime": T, "start": T + start, "exec_host": "n1/0*8", "exec_vnode": "(n1:ncpus=8:ngpus=2)",
        "Resource_List__ncpus": 8, "Resource_List__ngpus": 2, "Resource_List__mem": "64gb",
        "Resource_List__walltime": "02:00:00", "end": T + end, "Exit_status": 0,
        "resources_used__walltime": "01:00:00",
    }  # fmt: skip
    return record("E", id, **{**usual, **said})


def test_a_record_that_says_nothing_of_its_job_is_no_job(read_text: Any) -> None:
    """Nor a warning of NumPy on the side, where no record has a moment."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(InputError, match=r"no job is left: no submission recorded \(1\)"):
            read_text("03/01/2024 10:05:00;E;12.srv;no pairs here\n")


def test_a_log(read_text: Any) -> None:
    text = (
        record("Q", "11.srv", queue="gpu")
        + record("S", "11.srv", user="ann", start=T + 300)
        + ended("11.srv")
    )
    trace = read_text(text)
    jobs = trace.jobs
    assert list(jobs.ids) == ["11.srv"]
    assert (jobs.gpus[0], jobs.cpus[0], jobs.memory_gib[0], jobs.limit_s[0]) == (2, 8, 64, 7200)
    assert (jobs.job(0).tenant, jobs.job(0).group, jobs.job(0).node_set) == ("vision/ann", "train", "gpu")
    assert (trace.truth.duration_s[0], trace.truth.held_s[0]) == (3600, 0)
    assert (trace.observed.start_s[0], trace.observed.end_s[0]) == (300, 3900)
    assert trace.observed.nodes == {0: ("n1",)}
    assert (trace.facts["epoch"], trace.facts["time_zone"]) == ("2024-03-01 09:00:00", "UTC")


def test_names_in_quotes(read_text: Any) -> None:
    trace = read_text(ended("11.srv", account='"vision"', jobname='"my quoted job"'))
    assert (trace.jobs.job(0).tenant, trace.jobs.job(0).group) == ("vision/ann", "my quoted job")


# records of one job, then: run time of the last attempt, earlier ones, outcome, seconds held
@pytest.mark.parametrize(
    ("text", "duration_s", "failures", "outcome", "held_s"),
    [
        (ended("1", Exit_status=1), 3600, {}, Outcome.FAILED, 0),
        (ended("1", Exit_status=271), 3600, {}, Outcome.CANCELLED, 0),
        (ended("1", Exit_status=-29), 3600, {}, Outcome.FAILED, 0),
        (record("D", "1", requestor="ann@n1") + ended("1"), 3600, {}, Outcome.COMPLETED, 0),
        (ended("1", etime=T + 60), 3600, {}, Outcome.COMPLETED, 60),
        (
            ended("1", start=100, end=400).replace(";E;", ";R;") + ended("1", start=1000, end=1600),
            *(600, {}, Outcome.COMPLETED, 0),
        ),
        (
            record("Q", "1", user="ann", qtime=T, queue="gpu", Resource_List__ngpus=4) + record("D", "1"),
            *(0, {}, Outcome.CANCELLED, np.nan),
        ),
    ],
)
def test_how_a_job_ended(
    read_text: Any, text: str, duration_s: float, failures: Any, outcome: Outcome, held_s: float
) -> None:
    trace = read_text(text)
    assert (trace.truth.duration_s.tolist(), trace.truth.failures) == ([duration_s], failures)
    assert trace.truth.outcome.tolist() == [outcome]
    assert trace.truth.held_s.tolist() == pytest.approx([held_s], nan_ok=True)


def at(clock: str, line: str) -> str:
    """`line`, written then on the wall clock of the site."""
    return f"03/01/2024 {clock};{line.split(';', 1)[1]}"


QUEUED = at("08:00:00", record("Q", "1", user="ann", qtime=T, queue="gpu", Resource_List__ngpus=4))
BEGUN = at("08:01:40", record("S", "1", user="ann", start=T + 100, exec_host="n1/0"))
BACK = at("08:06:40", record("R", "1"))
AGAIN = at("08:10:00", record("S", "1", start=T + 600, exec_host="n2/0"))
ELSE = at("08:20:00", record("Q", "2", qtime=T + 1200))


# what a log says of a job that was put back by a record that does not say when it ended
@pytest.mark.parametrize(
    ("text", "duration_s", "put_back", "outcome", "odd"),
    [
        (QUEUED + BEGUN + BACK + AGAIN + ended("1", start=600, end=900), 300, (300,), Outcome.COMPLETED, ""),
        (QUEUED + BEGUN + BACK + AGAIN + ELSE, 600, (300,), Outcome.COMPLETED, "still running at the end of"),
        (QUEUED + BEGUN + BACK + ELSE, 300, None, Outcome.COMPLETED, "waiting again at the end of the log"),
        (QUEUED + BEGUN + BACK + record("D", "1"), 300, None, Outcome.CANCELLED, ""),
        (
            QUEUED + BEGUN + BACK + AGAIN + BACK.replace("08:06", "08:15") + ELSE,
            *(340, (300,), Outcome.COMPLETED, "waiting again at the end of the log"),
        ),
        # the log begins after the attempt did
        (BACK + AGAIN + ended("1", start=600, end=900), 300, (), Outcome.COMPLETED, "attempt without an end"),
        # on its two sides of the hour in which clocks are set back
        (
            QUEUED + BEGUN + BACK.replace("08:06", "07:06") + AGAIN + ended("1", start=600, end=900),
            *(300, (0,), Outcome.COMPLETED, ""),
        ),
    ],
)
def test_a_job_that_was_put_back(
    read_text: Any, text: str, duration_s: float, put_back: Any, outcome: Outcome, odd: str
) -> None:
    trace = read_text(text)
    assert list(trace.jobs.ids) == ["1"]
    assert trace.truth.duration_s.tolist() == [duration_s]
    assert trace.truth.failures == {}
    runs = [(run_s, "requeued") for run_s in put_back or ()]
    assert [list(several) for several in trace.observed.interruptions.values()] == ([runs] if runs else [])
    assert trace.truth.outcome.tolist() == [outcome]
    assert not odd or any(odd in one.what for one in trace.odd)


def test_who_has_not_ended(read_text: Any) -> None:
    """Who waits is dropped; who runs is kept, with the time until the last record."""
    text = ended("1") + record("Q", "2", qtime=T) + record("S", "3", qtime=T, start=T + 5)
    text += record("D", "4", requestor="bob@h")  # who was submitted before the log begins
    trace = read_text(text)
    assert list(trace.jobs.ids) == ["1", "3"]
    assert trace.truth.duration_s.tolist() == [3600, 3895]
    assert trace.observed.end_s.tolist() == pytest.approx([3900, np.nan], nan_ok=True)
    assert {odd.what: odd.count for odd in trace.odd if odd.what != "no GPU asked for"} == {
        "no submission recorded": 1,
        "still running at the end of the log": 1,
        "no end recorded": 1,
    }


def test_an_array_is_its_tasks(read_text: Any) -> None:
    """Its own record counts from the first start to the last end, and holds nothing."""
    tasks = ended("12[1].srv") + ended("12[7].srv")
    trace = read_text(ended("11.srv") + tasks + ended("12[].srv", exec_host="", exec_vnode=""))
    assert list(trace.jobs.ids) == ["11.srv", "12[1].srv", "12[7].srv"]
    assert trace.observed.arrays == {1: "12", 2: "12"}
    assert [(odd.what, odd.count) for odd in trace.odd] == [("array as such", 1)]


def test_the_json_of_pbs_pro(read_text: Any) -> None:
    job = {
        "Job_Name": "train", "Job_Owner": "ann@login", "job_state": "F", "queue": "gpu",
        "qtime": "Fri Mar  1 09:00:00 2024", "etime": "Fri Mar  1 09:01:00 2024",
        "stime": "Fri Mar  1 09:05:00 2024", "exec_vnode": "(n1:ncpus=8:ngpus=2)+(n2:ncpus=8:ngpus=2)",
        "Exit_status": 0, "resources_used": {"walltime": "01:00:00"},
        "Resource_List": {"ngpus": 4, "ncpus": 16, "mem": "64gb", "walltime": "02:00:00"},
    }  # fmt: skip
    waiting = {"job_state": "Q", "qtime": "Fri Mar  1 09:00:00 2024", "Resource_List": {"ngpus": 1}}
    running = {key: job[key] for key in job if key != "Exit_status"} | {
        "job_state": "R",
        "resources_used": {"walltime": "00:30:00"},
    }
    given = {
        "timestamp": T,
        "pbs_version": "22.05",
        "pbs_server": "srv",
        "Jobs": {"11.srv": job, "12.srv": waiting, "13.srv": running},
    }
    trace = read_text(json.dumps(given, indent=4))
    assert list(trace.jobs.ids) == ["11.srv", "13.srv"]
    assert (trace.truth.duration_s[1], np.isnan(trace.observed.end_s[1])) == (1800, True)
    assert (trace.jobs.gpus[0], trace.truth.duration_s[0], trace.truth.held_s[0]) == (4, 3600, 60)
    assert (trace.observed.start_s[0], trace.observed.end_s[0]) == (300, 3900)
    assert trace.observed.nodes == {0: ("n1", "n2"), 1: ("n1", "n2")}


# Resource_List, exec_vnode, exec_gpus: GPUs and cores
@pytest.mark.parametrize(
    ("asked", "vnodes", "exec_gpus", "gpus", "cpus"),
    [
        ({"ngpus": "2", "ncpus": "8"}, "", "", 2, 8),
        ({"ngpus": "2"}, "(n1:ncpus=4:ngpus=2)+(n2:ncpus=4:ngpus=2)", "", 4, 0),
        ({"select": "2:ncpus=8:ngpus=4+1:ncpus=4"}, "", "", 8, 20),
        ({"select": "ncpus=8:ngpus=1"}, "", "", 1, 8),
        ({"nodes": "2:ppn=8:gpus=2"}, "", "", 4, 16),
        ({"nodes": "n1:ppn=8:gpus=2+n2:ppn=4"}, "", "", 2, 12),
        ({}, "", "n1-gpu/0+n1-gpu/1", 2, 0),
        ({}, "", "", 0, 0),
    ],
)
def test_gpus_and_cores(asked: dict[str, str], vnodes: str, exec_gpus: str, gpus: int, cpus: float) -> None:
    assert (gpus_of(asked, vnodes, exec_gpus), cpus_of(asked)) == (gpus, cpus)


@pytest.mark.parametrize(
    ("vnodes", "hosts", "names"),
    [
        ("(n1:ncpus=8:ngpus=2)+(n2:ncpus=8)", "n1/0*8", ("n1", "n2")),
        ("", "n1/0+n1/1+n2/0", ("n1", "n2")),
        ("", "n1/0*8", ("n1",)),
        ("", "", ()),
    ],
)
def test_nodes(vnodes: str, hosts: str, names: tuple[str, ...]) -> None:
    assert nodes_of(vnodes, hosts) == names


@pytest.mark.parametrize(
    ("text", "gib"),
    [
        ("64gb", 64),
        ("512mb", 0.5),
        ("2097152kb", 2),
        ("1073741824b", 1),
        ("1gw", 8),
        ("", 0),
        ("lots", np.nan),
    ],
)
def test_amounts_of_memory(text: str, gib: float) -> None:
    assert memory_gib(text) == pytest.approx(gib, nan_ok=True)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("02:00:00", 7200), ("120:00:00", 432000), ("30:00", 1800), ("90", 90), ("x", np.nan)],
)
def test_clocks(text: str, expected: float) -> None:
    assert seconds(text) == pytest.approx(expected, nan_ok=True)


@pytest.mark.parametrize(
    "text",
    [
        '"JOB_FINISH" "10.1" 1709287500 11 1000 33816579 8 1709283600 0 0 1709283900 "ann"\n',
        "Job <11>, User <ann>, Project <default>, Command <train>\n",
        "Summary of time in seconds spent in various states:\n",
    ],
)
def test_lsf_is_told_how_to_convert(read_text: Any, text: str) -> None:
    with pytest.raises(InputError, match="is written by LSF, which is not read; expected a CSV with"):
        read_text(text)
