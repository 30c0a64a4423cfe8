"""The answers of a real controller, with its policy's process and the one that looks ahead."""

from __future__ import annotations

import csv
import io
import os
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from live_cluster import LiveCluster

from rota.client import Client, Refused

pytestmark = pytest.mark.slow


@pytest.fixture
def live(tmp_path: Path) -> Iterator[LiveCluster]:
    with LiveCluster(tmp_path, devices="cpu:2") as cluster:
        yield cluster


def call(live: LiveCluster, method: str, path: str, body: object = None) -> Any:
    return live.client.call(method, path, body, timeout_s=60)


def preempted_by(live: LiveCluster, policy: str) -> list[int]:
    """How many jobs each decision of `policy` preempted, oldest first, as the store has it."""
    with closing(sqlite3.connect(f"file:{live.home / 'rota.db'}?mode=ro", uri=True)) as database:
        found = database.execute("SELECT preempted FROM decisions WHERE policy = ? ORDER BY seq", (policy,))
        return [row[0] for row in found]


def test_why_dry_run_and_whatif(live: LiveCluster) -> None:
    """One job runs, two wait: reasons, estimates, and the same jobs under another policy."""
    first = live.submit("sleep", "600", gpus=2, time_s=300)
    live.reaches(first, "RUNNING")
    second = live.submit("sleep", "5", gpus=2, time_s=200)
    third = live.submit("sleep", "5", gpus=1, time_s=10)
    live.until(lambda: live.why(third)["reasons"][0]["code"] == "Resources", "the policy has seen it")

    why = live.why(third)
    assert [reason["sentence"] for reason in why["reasons"]] == [
        "needs 1 device; 0 are free",
        f"stands behind 1 job submitted earlier ({second})",
    ]
    assert why["basis"].startswith("simulated under fifo:skip=yes with the durations of 3 jobs")
    start = live.job(first)["start_s"]
    assert why["start_s"] == pytest.approx(start + 500, abs=10)

    before = call(live, "GET", "/v1/jobs"), call(live, "GET", "/v1/events")
    spec = {"command": ["true"], "gpus": 1, "time_s": 60}
    dry = live.client.call("POST", "/v1/jobs", {"spec": spec}, {"dry_run": True}, timeout_s=60)
    assert (dry["feasible"], dry["position"]) == (True, 3)
    after = call(live, "GET", "/v1/jobs"), call(live, "GET", "/v1/events")
    assert [job["id"] for job in after[0]] == [job["id"] for job in before[0]]
    assert after[1] == before[1]

    found = call(live, "POST", "/v1/whatif", {"policies": ["fifo:skip=yes", "srtf"], "gpus": 0})
    assert [line["policy"] for line in found["summary"]] == ["now", "srtf"]
    rows = {(row["job"], row["policy"]): row for row in found["rows"]}
    assert set(rows) == {(job, policy) for job in (first, second, third) for policy in ("now", "srtf")}
    assert rows[third, "now"]["start_s"] > rows[second, "now"]["start_s"]
    assert rows[third, "srtf"]["start_s"] < rows[second, "srtf"]["start_s"]
    assert found["basis"] == {"user": 3}
    assert found["took_s"] < 60

    more = call(live, "POST", "/v1/whatif", {"policies": ["fifo:skip=yes"], "gpus": 4})
    assert [line["policy"] for line in more["summary"]] == ["now", "now +4"]
    with pytest.raises(Refused, match="no whole number of nodes"):
        call(live, "POST", "/v1/whatif", {"policies": ["fifo"], "gpus": 1})
    with pytest.raises(Refused, match="nosuch"):
        call(live, "POST", "/v1/whatif", {"policies": ["nosuch"]})


@pytest.mark.soak
def test_a_question_that_is_too_large_is_refused_at_once(live: LiveCluster) -> None:
    """A million devices more get a sentence; with the most that are allowed the controller stays well."""
    for _ in range(20):
        live.submit("sleep", "600", gpus=1, time_s=1000.0)
    question = {"policies": ["srtf", "tiresias"], "gpus": 1_000_000}
    with pytest.raises(
        Refused, match="gpus is 1000000; expected a number less than or equal to 16384"
    ) as refused:
        call(live, "POST", "/v1/whatif", question)
    assert refused.value.status == 422
    slow: list[float] = []
    over = threading.Event()

    def look() -> None:
        with Client(str(live.home / "controller.sock")) as client:
            while not over.is_set():
                asked_s = time.monotonic()
                assert client.call("GET", "/health")["ok"]
                slow.append(time.monotonic() - asked_s)
                over.wait(0.02)

    watcher = threading.Thread(target=look)
    watcher.start()
    began_s = time.monotonic()
    try:
        answer = call(live, "POST", "/v1/whatif", question | {"gpus": 16_384})
        assert [row["policy"] for row in answer["summary"]][:2] == ["now", "now +16384"]
    except Refused as busy:  # on a slow machine it is told that it takes too long
        if busy.status != 503:
            raise
    finally:
        over.set()
        watcher.join()
    assert time.monotonic() - began_s < 90.0
    assert len(slow) > 3
    assert max(slow) < 30.0
    assert call(live, "GET", "/v1/status")["troubles"] == []
    for job in call(live, "GET", "/v1/jobs"):
        live.act(job["id"], "cancel", force=True)


def test_numbers_are_those_of_the_nodes(live: LiveCluster) -> None:
    """Status and gauges count by themselves: the same as the views of the nodes add up to."""
    job = live.submit("sleep", "600", gpus=1, gpu_share=0.5)
    live.reaches(job, "RUNNING")
    call(live, "POST", "/v1/nodes/n1/drain", {"reason": "test"})
    status, nodes = call(live, "GET", "/v1/status"), call(live, "GET", "/v1/nodes")
    assert (status["gpus"], status["gpus_used"], status["nodes"]) == (2, 0.5, 1)
    assert [(node["gpus"], node["gpus_used"], node["state"]) for node in nodes] == [(2, 0.5, "draining")]
    lines = live.client.text("/metrics").splitlines()
    assert 'rota_nodes{state="draining"} 1.0' in lines


@pytest.mark.soak
def test_durations_nobody_knows_are_shown_as_a_range(live: LiveCluster) -> None:
    for seconds in ("0.2", "1.2"):
        live.wait(live.submit("sleep", seconds))
    first = live.submit("sleep", "600", gpus=2)
    live.reaches(first, "RUNNING")
    second = live.submit("sleep", "1", gpus=2)
    question = {"policies": ["fifo:skip=yes"], "duration": "history"}
    found: dict[str, Any] = {}

    def is_foreseen() -> bool:
        """From the step of the controller on in which it was taken in."""
        found.update(call(live, "POST", "/v1/whatif", question))
        return any(row["job"] == second for row in found["rows"])

    live.until(is_foreseen, "a look ahead with the second job")
    (row,) = [row for row in found["rows"] if row["job"] == second]
    assert row["start_low_s"] <= row["start_s"] <= row["start_high_s"]
    assert sum(found["basis"].values()) == 2
    assert found["basis"].get("history", 0) >= 1


@pytest.mark.soak  # as test_policy_process.py has it, by way of the API
def test_the_shadow_says_what_it_would_do(live: LiveCluster) -> None:
    """Shortest remaining time first would stop the long job for the short one; fifo does not."""
    call(live, "PUT", "/v1/policy/shadow", {"policy": "srtf"})
    long = live.submit("sleep", "600", gpus=2, time_s=600)
    live.reaches(long, "RUNNING")
    short = live.submit("sleep", "600", gpus=2, time_s=10)

    def would() -> list[str]:
        said: list[str] = call(live, "GET", "/v1/policy")["shadow_would"]
        return said

    live.until(lambda: any(f"would preempt {long}" in line for line in would()), "the shadow's word")
    assert any(f"would start {short} on n1:0,1" in line for line in would())
    assert live.job(long)["state"] == "RUNNING", "it only says so"
    view = call(live, "GET", "/v1/policy")
    assert (view["policy"], view["shadow"]) == ("fifo:skip=yes", "srtf")
    assert call(live, "DELETE", "/v1/policy/shadow")["shadow"] == ""


def test_a_policy_that_cannot_decide_here_is_refused(live: LiveCluster) -> None:
    """And the old one stays, as does what its shadow is."""
    live.wait(live.submit("true", time_s=10))  # while the scheduler starts no policy is tried
    before = call(live, "GET", "/v1/policy")
    for path in ("/v1/policy", "/v1/policy/shadow"):
        with pytest.raises(Refused, match=r"'partition' fails at the present moment: .*level 'vc'") as caught:
            call(live, "PUT", path, {"policy": "partition"})
        assert caught.value.status == 400
    after = call(live, "GET", "/v1/policy")
    assert (after["policy"], after["shadow"]) == (before["policy"], before["shadow"])


def test_swapping_the_policy_loses_no_job(live: LiveCluster) -> None:
    """Nobody is preempted by the new policy's first decision; who swapped it and when is on record."""
    long = live.submit("sleep", "600", gpus=2, time_s=600)
    live.reaches(long, "RUNNING")
    waiting = [live.submit("sleep", "600", gpus=2, time_s=20, priority=4) for _ in range(3)]
    ids = {job["id"] for job in call(live, "GET", "/v1/jobs")}
    attempt = live.job(long)["attempt"]

    view = call(live, "PUT", "/v1/policy", {"policy": "srtf"})
    assert view["policy"] == "srtf"
    assert view["by"]
    ignored = "srtf orders jobs without looking at priorities"
    assert view["warnings"] == [
        f"{ignored}: those of 3 waiting jobs have no effect under it ({', '.join(waiting)})"
    ]
    body = {"spec": {"command": ["true"], "gpus": 2, "time_s": 900, "hold": True, "priority": 5}}
    new = call(live, "POST", "/v1/jobs", body)
    assert new["warnings"] == [f"{ignored}: priority 5 has no effect under it"]
    ids.add(new["jobs"][0]["id"])
    live.until(lambda: live.job(waiting[0])["state"] == "RUNNING", "the second decision preempts")
    assert {job["id"] for job in call(live, "GET", "/v1/jobs")} == ids
    states = {job["id"]: job["state"] for job in call(live, "GET", "/v1/jobs")}
    assert states[long] in ("PENDING", "SUSPENDED")
    assert live.job(long)["attempt"] == attempt
    live.until(lambda: any(one["code"] == "Preempted" for one in live.why(long)["reasons"]), "for whom")
    reasons = {job["id"]: job["reason"] for job in call(live, "GET", "/v1/jobs")}
    assert reasons[long] == "Preempted"
    assert call(live, "GET", f"/v1/jobs/{long}?reason=true")["job"]["reason"] == "Preempted"
    assert "(Preempted)" in shown(live, long)
    first, *later = preempted_by(live, "srtf")
    assert first == 0, "it looks before it acts"
    assert max(later) == 1
    swaps = [event for event in call(live, "GET", "/v1/events") if event["kind"] == "policy"]
    assert swaps[-1]["text"] == "srtf in place of fifo:skip=yes"
    assert swaps[-1]["who"] == view["by"]
    path = f"/v1/jobs/{new['jobs'][0]['id']}"
    assert call(live, "PATCH", path, {"name": "b"})["warnings"] == [], "it was said when it was submitted"
    changed = call(live, "PATCH", path, {"priority": 7})
    assert (changed["priority"], changed["warnings"]) == (
        7,
        [f"{ignored}: priority 7 has no effect under it"],
    )
    (said,) = call(live, "PATCH", path, {"gpus_min": 1, "gpus_max": 3})["warnings"]
    assert said.endswith("the range 1:3 has no effect")


def shown(live: LiveCluster, id: str) -> str:
    """What `rota show` prints of a job."""
    rota = [sys.executable, "-m", "rota.cli.main", "show", id]
    environment = {**os.environ, "ROTA_HOME": str(live.home)}
    return subprocess.run(rota, env=environment, check=True, capture_output=True, text=True).stdout


@pytest.mark.soak
def test_history_is_a_trace_that_simulate_reads(live: LiveCluster, tmp_path: Path) -> None:
    """Three jobs ran, one of them failed, and one was cancelled before it ran."""
    for command in (("sleep", "0.3"), ("sleep", "0.1"), ("false",)):
        live.wait(live.submit(*command))
    live.act(live.submit("sleep", "1", hold=True), "cancel")
    path = tmp_path / "history.csv"
    environment = {**os.environ, "ROTA_HOME": str(live.home)}
    rota = [sys.executable, "-m", "rota.cli.main"]
    subprocess.run([*rota, "history", "--csv", str(path)], env=environment, check=True, capture_output=True)
    lines = list(csv.DictReader(io.StringIO(path.read_text())))
    assert [line["job_id"] for line in lines] == ["1", "2", "3"]
    assert [line["outcome"] for line in lines] == ["COMPLETED", "COMPLETED", "FAILED"]
    command = [*rota, "simulate", str(path), "--cluster", "1x2", "--policy", "fifo", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert '"jobs": 3' in done.stdout or '"jobs":3' in done.stdout, done.stdout[:2000]
