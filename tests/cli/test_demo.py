"""`rota demo`: what it prints is what happened, and nothing of it stays."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import mean

import pytest
from shell_play import rota

from rota.cli.demo import plan
from rota.cli.demo.cluster import processes_of
from rota.cli.demo.incidents import Alive, Crash, WhatIfAnswer, _became
from rota.cli.demo.plan import JOBS, DemoJob, DemoPlan
from rota.cli.demo.tables import forecast_text, means, rounds_text
from rota.cli.demo.watch import Round, _change

TWO = DemoPlan((DemoJob("long", 0.0, 2, 4.0), DemoJob("short", 1.0, 1, 2.0)), {"numpy": 0.2})


def ended(id: str, name: str, submit_s: float, waited_s: float, end_s: float) -> dict[str, object]:
    return {
        "id": id,
        "name": name,
        "gpus": 1,
        "submit_s": submit_s,
        "waiting_s": waited_s,
        "end_s": end_s,
    } | {
        "state": "COMPLETED",
        "preemptions": 0,
    }


def played(policy: str, long_s: float, short_s: float) -> Round:
    """Jobs 1 and 2, submitted at 100 and 101, that took so long in all; the short one waited for 1 s."""
    views = {
        "1": ended("1", "long", 100.0, 0.0, 100.0 + long_s),
        "2": ended("2", "short", 101.0, 1.0, 101.0 + short_s),
    }
    return Round(policy, TWO, 100.0, ["1", "2"], dict(views))


def test_rounds_side_by_side() -> None:
    table = rounds_text([played("fifo", 4.0, 6.0), played("tiresias:limits=4/16", 8.0, 2.5)])
    assert table == (
        "JOB    SLOTS  SUBMITTED  fifo: WAIT  COMPLETION  tiresias: WAIT  COMPLETION\n"
        "long       2        0.0         0.0         4.0             0.0         8.0\n"
        "short      1        1.0         1.0         6.0             1.0         2.5\n"
        "mean       -          -         0.5         5.0             0.5         5.2\n"
    )


def test_a_job_that_did_not_complete_says_so() -> None:
    first = played("fifo", 4.0, 6.0)
    first.views["2"]["state"] = "TIMEOUT"
    assert "6.0 TIMEOUT" in rounds_text([first])


def test_forecast_beside_what_came_out() -> None:
    """Only jobs that lived when it was asked; means over just these."""
    forecast = WhatIfAnswer(2.0, "srtf", {"2": 109.0}, {"2": 104.0}, 0.1)
    lines = forecast_text(forecast, played("fifo", 4.0, 6.0)).splitlines()
    assert [line.split()[0] for line in lines] == ["JOB", "short", "mean"]
    assert lines[1].split()[1:] == lines[2].split()[1:] == ["8.0", "6.0", "3.0"]


def test_kept_is_the_same_attempt_in_the_same_processes() -> None:
    was = {id: Alive("j", 1, (int(id),), 5) for id in "1234"}
    now = {
        "1": Alive("j", 1, (1,), 9),  # goes on
        "2": Alive("j", 2, (2,), 9),  # another attempt
        "3": Alive("j", 1, (7,), 9),  # another process
    }  # 4 has ended
    assert Crash(77, 1.0, was, now).kept == ["1"]


@pytest.mark.parametrize(
    ("old", "state", "preempted", "line"),
    [
        ("", "PENDING", False, "waits"),
        ("PENDING", "RUNNING", False, "runs"),
        ("RUNNING", "RUNNING", False, ""),
        ("RUNNING", "COMPLETING", False, ""),
        ("RUNNING", "PENDING", True, "gives its slots to others, and keeps what it has done"),
        ("RUNNING", "SUSPENDED", True, "gives its slots to others, and keeps what it has done"),
        ("PENDING", "RUNNING", True, "goes on where it was"),
        ("RUNNING", "COMPLETED", False, "completed, 5.0 s after its submission"),
    ],
)
def test_lines(old: str, state: str, preempted: bool, line: str) -> None:
    view = ended("1", "a", 10.0, 0.0, 15.0) | {"state": state}
    assert _change(old, view, preempted) == line


def test_short_jobs_do_not_wait_for_torch() -> None:
    """PyTorch runs the longer jobs where it is installed."""
    both, one = DemoPlan(JOBS, {"numpy": 0.2, "torch": 3.0}), DemoPlan(JOBS, {"numpy": 0.2})
    assert {both.library(number) for number, job in enumerate(JOBS) if job.work_s < 4} == {"numpy"}
    assert both.library(0) == "torch"
    assert {one.library(number) for number in range(len(JOBS))} == {"numpy"}
    assert both.limit_s(0) > one.limit_s(0) > JOBS[0].work_s


@pytest.mark.soak
def test_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three jobs: the tables agree with their means, all complete, those that ran survived the crash."""
    import_s, limit_s = plan._import_s, DemoPlan.limit_s
    monkeypatch.setattr(DemoPlan, "limit_s", lambda *of: limit_s(*of) + 600.0)  # however slow the machine is
    monkeypatch.setattr(plan, "_import_s", lambda name: None if name == "torch" else import_s(name))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    done = rota("demo", "--jobs", "3", "--work", "0.5")
    assert done.status == 0, done.out + done.err
    told = re.findall(r"was attempt 1, process \d.*; it is (.*)", done.out)
    same = [line for line in told if line.startswith("the same attempt and process, step ")]
    ended = [line for line in told if line.startswith("ended by itself")]  # on a slow machine
    assert len(same) + len(ended) == len(told), done.out
    kept = f"{len(same)} of {len(told)} running jobs went on in the same\nprocesses"
    assert f"{kept}, and 6 of 6 jobs completed" in done.out, done.out
    table = done.out.partition("Both rounds")[2].splitlines()[2:6]
    rows = [[float(cell) for cell in line.split()[3:]] for line in table]
    assert [line.split()[0] for line in table] == ["vision", "speech", "whole", "mean"]
    assert [mean(column) for column in zip(*rows[:3], strict=True)] == pytest.approx(rows[3], abs=0.1)
    wait_s, completion_s = rows[2][:2]
    assert wait_s > 5.0, "under fifo all four slots come free when both others have ended"
    assert completion_s > wait_s
    assert list(tmp_path.iterdir()) == []


def press_ctrl_c(process: subprocess.Popen[str]) -> str:
    """Until it ends, once a second, as people do; what it said on standard error."""
    for _ in range(60):
        process.send_signal(signal.SIGINT)
        try:
            return process.communicate(timeout=1)[1]
        except subprocess.TimeoutExpired:
            continue
    raise AssertionError("it does not end")


@pytest.mark.soak
def test_interrupted_while_there_is_no_controller(tmp_path: Path) -> None:
    """Ctrl-C right after the kill: jobs, agent and folder are gone all the same."""
    demo = subprocess.Popen(
        [sys.executable, "-m", "rota.cli.main", "demo", "--jobs", "3"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )
    assert demo.stdout is not None
    homes: list[Path] = []
    for line in demo.stdout:
        if line.startswith("And now: kill -9"):
            homes = [folder / "home" for folder in tmp_path.glob("rota-demo-*")]
            assert processes_of(homes[0])
            break
    said = press_ctrl_c(demo)
    assert demo.returncode == 130, said
    assert "interrupted" in said
    assert [processes_of(home) for home in homes] == [[]]
    assert list(tmp_path.iterdir()) == []


def test_means_are_of_all_jobs() -> None:
    assert means(played("fifo", 4.0, 6.0)) == (0.5, 5.0)


def test_what_did_not_go_on_says_why() -> None:
    """A demo that fails on a slow machine tells its reader what happened."""

    class Cluster:
        def attempt(self, id: str) -> dict[str, int]:
            return {"number": 2 if id == "1" else 1}

    was = Alive("job", 1, (5,), 3)
    views = {
        "1": {"name": "vision", "state": "RUNNING", "cause": "its shim was killed"},
        "2": {"name": "speech", "state": "COMPLETED", "cause": ""},
        "3": {"name": "whole", "state": "FAILED", "cause": "rank 0 exited with code 1"},
    }
    assert [_became(Cluster(), id, view, was) for id, view in views.items()] == [  # type: ignore[arg-type]
        "vision was started again as attempt 2 (its shim was killed)",
        "speech had come to its end before it was looked at again",
        "whole is failed (rank 0 exited with code 1)",
    ]
