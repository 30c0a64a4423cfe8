"""Time limits in a simulation: told to policies only, unless they are to be enforced."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import rota
from play import play, trace_of
from rota.errors import InputError
from rota.model.cluster import parse_cluster
from rota.model.grants import Grant
from rota.model.jobs import Truth
from rota.reports.summary import summarise
from rota.worlds.simulated.costs import parse_costs
from rota.worlds.simulated.faults import Fault
from rota.worlds.simulated.limits import TimeLimits
from rota.worlds.simulated.run import Setting
from rota.worlds.simulated.slowdowns import Slowdowns
from rota.worlds.simulated.speed import FixedDuration
from scripted import Scripted

LOST = [Fault(0, 20.0, 25.0)]

RUNS = [
    # jobs             limits      policy  costs            faults state, finish of the first      why
    ("A 1x100", [500.0], "fifo", "start=10s", (), ("COMPLETED", 110.0), "far below its limit"),
    ("A 1x100", [100.0], "fifo", "", (), ("COMPLETED", 100.0), "done in the moment of its limit"),
    ("A 1x100", [105.0], "fifo", "start=10s", (), ("FAILED", 105.0), "start-up counts"),
    ("A 1x100", [50.0], "fifo", "", (), ("COMPLETED", 100.0), "its own record was as long"),
    ("A 1x100", [50.0], "fifo", "start=10s", (), ("FAILED", 100.0), "but no longer"),
    ("A 1x100", [math.nan], "fifo", "start=10s", (), ("COMPLETED", 110.0), "it stated none"),
    (
        "A 1x30 B 1x5@10",
        [30.0] * 2,
        "srtf",
        "restore=4s",
        (),
        ("FAILED", 35.0),
        "waiting does not, attempts do",
    ),
    ("A 1x30 B 1x5@10", [34.0] * 2, "srtf", "restore=4s", (), ("COMPLETED", 39.0), "just enough for both"),
    ("A 1x30", [35.0], "fifo", "checkpoint_every=9s", LOST, ("COMPLETED", 37.0), "2 s are done again"),
    ("A 1x30", [31.0], "fifo", "checkpoint_every=9s", LOST, ("FAILED", 36.0), "and they count too"),
    ("A 1x30 B 1x30", [31.0] * 2, "las:quantum=5", "switch=1s", (), ("FAILED", 61.0), "turns are attempts"),
]


@pytest.mark.parametrize(
    ("jobs", "limits", "policy", "costs", "faults", "expected", "why"), RUNS, ids=[row[-1] for row in RUNS]
)
def test_who_has_run_for_as_long_as_stated_is_ended(
    jobs: str, limits: list[float], policy: str, costs: str, faults: Any, expected: Any, why: str
) -> None:
    trace = trace_of(jobs, limit_s=limits)
    setting = Setting(costs=parse_costs(costs), faults=faults, limits=TimeLimits.ENFORCE)
    jobs_of = play(policy, trace, "1x1", setting).jobs
    assert jobs_of.select("state", "finish_s").row(0) == expected, why
    said = jobs_of["why"][0]
    assert said.startswith("reached its time limit of ") if expected[0] == "FAILED" else not said


def test_by_default_nobody_is_ended() -> None:
    trace = trace_of("A 1x100", limit_s=[50.0])
    record = play("fifo", trace, "1x1", Setting(costs=parse_costs("start=10s")))
    assert record.jobs.select("state", "finish_s").row(0) == ("COMPLETED", 110.0)


def test_one_that_reached_its_limit_has_failed_and_is_not_tried_again() -> None:
    """Two attempts fail after 20 s each; the third has 100 − 2 x 25 − 5 s, of 60 that it needs."""
    trace = trace_of("A 1x60 B 1x1", limit_s=[100.0, 10.0])
    trace = replace(trace, truth=Truth.build([60.0, 1.0], failures={0: (20.0, 20.0)}))
    setting = Setting(costs=parse_costs("start=5s"), limits=TimeLimits.ENFORCE)
    record = play("fifo", trace, "1x2", setting)
    row = record.jobs.row(0, named=True)
    assert (row["state"], row["finish_s"], row["starts"], row["failures"]) == ("FAILED", 100.0, 3, 3)
    assert record.intervals.filter(record.intervals["job"] == 0)["end"].to_list() == ["failed"] * 3
    assert row["lost_s"] == 40.0, "what the last attempt did nobody does again"
    assert summarise(record)["failed"] == 1


def test_one_that_is_slowed_down_reaches_it() -> None:
    """A pair on two nodes where one would do, at half the speed: 60 of 100 s are done at the limit."""
    trace, where = trace_of("A 2x100", limit_s=[120.0]), parse_cluster("2x2")
    speed = FixedDuration(trace.jobs, where, Slowdowns(spread={"*": 0.5}))
    policy = Scripted({"grants": [Grant(0, (0, 2))]})
    record = play(policy, trace, where, Setting(speed=speed, limits=TimeLimits.ENFORCE))
    assert record.jobs.select("state", "finish_s").row(0) == ("FAILED", 120.0)


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "jobs.csv"
    path.write_text("job_id,submit_s,gpus,duration_s,limit_s\na,0,1,100,105\n", encoding="utf-8")
    return str(path)


def test_limits_from_python(file: str) -> None:
    run = {"cluster": "1x1", "policies": "fifo", "costs": "start=10s", "workers": 1}
    assert rota.simulate(file, **run).records[0].jobs["state"].to_list() == ["COMPLETED"]
    record = rota.simulate(file, limits="enforce", **run).records[0]
    assert record.jobs["state"].to_list() == ["FAILED"]
    assert record.jobs["why"].to_list() == ["reached its time limit of 1m 45s"]
    assert record.provenance["limits"] == "enforce"


def test_limits_that_nobody_stated_are_said(tmp_path: Path) -> None:
    path = tmp_path / "jobs.csv"
    path.write_text("job_id,submit_s,gpus,duration_s\na,0,1,100\n", encoding="utf-8")
    results = rota.simulate(str(path), cluster="1x1", policies="fifo", limits="enforce", workers=1)
    assert "--limits enforce has no effect: no job states how long it may run (limit_s)." in results.remarks


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"limits": "enforced"}, "'enforced' is not done with limits; expected ignore or enforce"),
        ({"limits": "enforce", "semantics": "gavel"}, "world of events; expected no --semantics with it"),
        (
            {"limits": "enforce", "autoscale": "1:1", "policies": "pollux:utility=0.35/0.65"},
            "world of events; expected no --autoscale with it",
        ),
    ],
)
def test_limits_that_make_no_sense_are_refused(file: str, options: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        rota.simulate(file, **{"cluster": "1x1", "policies": "fifo", "workers": 1} | options)
