"""Somebody sets the machine's clock by an hour: durations stay right, limits hold, questions are answered."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from live_cluster import LiveCluster
from shared import attempts, python, written
from stepped import SteppedCluster

pytestmark = pytest.mark.soak

HOUR_S = 3600.0
STEPS_S = (HOUR_S, -HOUR_S)
LATE_S = 600.0
"""What a busy machine may add to a duration, and far less than a step would."""
UNTIL = "\nwhile not os.path.exists(sys.argv[1]): time.sleep(0.02)"

LEAVES_LATE = """
def leave(*_):
    open(sys.argv[1], "w").write("told")
    time.sleep(1)
    sys.exit(1)
signal.signal(signal.SIGTERM, leave)
print("ready", flush=True)
while os.environ["ROTA_ATTEMPT"] == "1":
    time.sleep(0.02)
"""


@pytest.fixture(params=STEPS_S, ids=["forward", "backward"])
def step_s(request: pytest.FixtureRequest) -> float:
    return float(request.param)


@pytest.fixture
def live(tmp_path: Path) -> Iterator[SteppedCluster]:
    with SteppedCluster(tmp_path, devices="cpu:2", back_off=0.2, back_off_most=0.4) as live:
        yield live


def answers_all(live: LiveCluster, id: str) -> None:
    """What people ask has an answer, and the step is told."""
    live.until(lambda: not live.why(id)["basis"].startswith("no estimate"), "an estimate")
    assert live.client.call("POST", "/v1/whatif", {"policies": ["srtf"]})["rows"]
    assert live.client.call("POST", "/v1/jobs?dry_run=true", {"spec": {"command": ["true"]}})["feasible"]
    told = " ".join(live.client.call("GET", "/v1/status")["troubles"])
    assert "clock was set" in told


@pytest.mark.parametrize("restarted", [True, False])
def test_limits_are_neither_early_nor_late(live: SteppedCluster, step_s: float, restarted: bool) -> None:
    stays = live.submit(
        "sleep", "3600", time_s=HOUR_S
    )  # there is something to ask about, however long that takes
    limited = live.submit("sleep", "600", time_s=15.0)
    waiting = live.submit("true", gpus=2, time_s=60.0)
    live.reaches(limited, "RUNNING")
    began_s = time.monotonic()
    if restarted:
        live.kill_controller()
    live.step(step_s)
    if restarted:
        live.start_controller()
    answers_all(live, waiting)
    job = live.wait(limited)
    assert job["state"] == "TIMEOUT"
    assert 14.0 < time.monotonic() - began_s < LATE_S
    assert 14.9 < job["run_s"] < LATE_S
    live.act(stays, "cancel")
    assert live.wait(stays)["state"] == "CANCELLED"
    assert live.wait(waiting)["state"] == "COMPLETED"
    assert 0 < live.job(waiting)["run_s"] < LATE_S


@pytest.mark.parametrize("agent_too", [True, False])
def test_who_ended_before_a_step_that_nobody_saw_ran_as_long_as_it_did(
    live: SteppedCluster, tmp_path: Path, step_s: float, agent_too: bool
) -> None:
    """The shim's record tells moments of a clock that has been set since."""
    submitted_s = time.monotonic()
    id = live.submit(*python(UNTIL, tmp_path / "go"))
    attempt_folder = live.agent_home() / f"attempts/{int(id) - 1}/1"
    live.until((attempt_folder / "ranks.json").exists, "that it has begun")  # not only been granted devices
    live.kill_controller()
    if agent_too:
        live.kill_agent()
    time.sleep(2.0)
    (tmp_path / "go").touch()
    live.until((attempt_folder / "exit.json").exists, "the record of its end")
    most_s = time.monotonic() - submitted_s
    began, ended = (json.loads((attempt_folder / name).read_text()) for name in ("ranks.json", "exit.json"))
    ran_s = ended["steady_s"] - began["steady_s"]
    time.sleep(2.0)
    live.step(step_s)
    live.start_controller()
    if agent_too:
        live.start_agent()
    job = live.wait(id)
    (attempt,) = attempts(live, id)
    for told_s in (job["run_s"], attempt["end_s"] - attempt["start_s"]):
        assert ran_s - 0.5 < told_s < most_s + 0.5
    assert attempt["costs"].get("start", 0.0) < LATE_S


def test_who_is_preempted_as_the_clock_is_set_has_not_ended_by_itself(
    live: SteppedCluster, tmp_path: Path, step_s: float
) -> None:
    """Its end is older, or newer, than the signal by the wall clock only."""
    id = live.submit(*python(LEAVES_LATE, tmp_path / "said"))
    live.reaches(id, "RUNNING")
    live.until(lambda: "ready" in live.client.call("GET", f"/v1/jobs/{id}/logs")["text"], "ready")
    live.act(id, "requeue")
    written(live, tmp_path / "said", "told")
    live.step(step_s)
    assert live.wait(id)["state"] == "COMPLETED"
    first, _ = attempts(live, id)
    assert first["end"] == "preempted"
    assert 0 < first["end_s"] - first["start_s"] < LATE_S
    assert first["costs"].get("stop", 0.0) < LATE_S


def seconds_of(text: str) -> float:
    """Of a duration as people read it: `1h 2m`."""
    return sum(float(word[:-1]) * {"s": 1, "m": 60, "h": 3600, "d": 86400}[word[-1]] for word in text.split())


def test_what_goes_on_is_counted_by_the_cluster(live: SteppedCluster, step_s: float) -> None:
    """Commands and pages of this machine see its clock an hour ahead, or behind; the job just began."""
    id = live.submit("sleep", "600")
    live.until(lambda: any(one["start_s"] for one in attempts(live, id)), "an attempt that has begun")
    began_s = time.monotonic()
    live.step(step_s)
    shown = live.command("show", id)
    attempts_shown = shown[shown.index("ATTEMPT") :].splitlines()
    place = attempts_shown[0].index("LASTED")
    lasted_s = seconds_of(re.split(r"  +", attempts_shown[1][: place + len("LASTED")])[-1].strip())
    page = live.client.text(f"/jobs/{id}")
    now_s = float(re.search(r'data-now="([0-9.]+)"', page)[1])  # type: ignore[index]
    since = [now_s - float(at_s) for at_s in re.findall(r'data-since="([0-9.]+)"', page)]
    most_s = time.monotonic() - began_s + 600.0  # a busy machine may have begun it long before we saw that
    assert 0 <= lasted_s < most_s
    assert since
    assert all(-1.0 <= seconds < most_s for seconds in since), since


def test_a_moment_that_is_asked_for_is_that_of_the_wall_clock(live: SteppedCluster, step_s: float) -> None:
    """Ten seconds from now by a clock that was set an hour forward is not in an hour, nor has it been."""
    live.step(step_s)
    wall_s = time.time() + step_s
    begin = live.submit("true", begin_s=wall_s + 4.0)
    later = live.submit("true", begin_s=wall_s + 7200.0)
    due = live.submit("true", hold=True, deadline_s=wall_s + 7200.0)
    warned = live.client.call(
        "POST", "/v1/jobs", {"spec": {"command": ["true"], "deadline_s": wall_s - 60.0}}
    )
    assert "is over already" in " ".join(warned["warnings"])
    began_s = time.monotonic()
    live.client.call("PATCH", f"/v1/jobs/{later}", {"begin_s": wall_s + 5.0})
    assert live.job(begin)["state"] == "PENDING"
    for id in (begin, later):
        assert live.wait(id)["state"] == "COMPLETED"
        assert 2.0 < time.monotonic() - began_s < LATE_S
    assert live.job(due)["deadline_s"] - live.job(due)["submit_s"] == pytest.approx(7200.0, abs=LATE_S)
