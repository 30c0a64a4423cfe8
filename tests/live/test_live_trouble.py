"""A database that is locked or away, a disk that is full, a folder that cannot be written: said, survived."""

from __future__ import annotations

import errno
import json
import os
import signal
import sqlite3
import time
from pathlib import Path

import psutil
import pytest
from live_cluster import PATIENCE_S, LiveCluster
from postgres import Postgres
from shared import FAST, attempts, python, refused

from mounts import read_only, small_disk
from rota.client import Refused

FINISHES = "\nwhile not os.path.exists(sys.argv[1]): time.sleep(0.02)"
SUBMISSION = {"spec": {"command": ["true"]}, "key": "once"}


def sent_again(live: LiveCluster) -> str:
    """The id of the job of `SUBMISSION`, which is submitted until it is accepted."""
    ids: list[str] = []

    def accepted() -> bool:
        try:
            ids.append(live.client.call("POST", "/v1/jobs", SUBMISSION)["jobs"][0]["id"])
        except Refused as error:
            if error.status != 503:
                raise
            return False
        return True

    live.until(accepted, "an accepted submission")
    return ids[0]


def healthy(live: LiveCluster) -> bool:
    return not live.client.call("GET", "/v1/status")["troubles"]


@pytest.mark.soak
def test_a_job_that_ended_while_no_controller_was_there_has_ended_then(tmp_path: Path) -> None:
    with LiveCluster(tmp_path, devices="cpu:1", **FAST) as live:
        id = live.submit(*python(FINISHES, tmp_path / "go"))
        live.reaches(id, "RUNNING")
        live.kill_controller()
        (tmp_path / "go").touch()
        record = live.agent_home() / "attempts" / "0" / "1" / "exit.json"
        live.until(record.exists, "an exit record")
        ended_s = json.loads(record.read_text())["ended_s"]
        back_s = time.time()
        live.start_controller()
        assert live.wait(id)["end_s"] == pytest.approx(ended_s, abs=1e-3)
        (attempt,) = attempts(live, id)
        assert attempt["end_s"] == pytest.approx(ended_s, abs=1e-3)
        (past,) = live.client.call("GET", "/v1/history")
        assert past["start_s"] + past["run_s"] == pytest.approx(ended_s, abs=1e-3)
        assert ended_s <= back_s


@pytest.mark.soak
def test_a_database_that_is_locked_for_a_while(tmp_path: Path) -> None:
    """Jobs run on and end meanwhile; submissions are refused with a sentence; then all of it is on record."""
    with LiveCluster(tmp_path, devices="cpu:2", **FAST) as live:
        id = live.submit(*python(FINISHES, tmp_path / "go"))
        live.reaches(id, "RUNNING")
        other = sqlite3.connect(live.home / "rota.db", timeout=PATIENCE_S, isolation_level=None)
        other.execute("BEGIN EXCLUSIVE")
        (tmp_path / "go").touch()
        error = refused(live, "POST", "/v1/jobs", SUBMISSION)
        assert error.status == 503
        assert "is locked by another program" in str(error)
        other.execute("COMMIT")
        other.close()
        assert live.wait(id)["state"] == "COMPLETED"
        assert live.wait(sent_again(live))["state"] == "COMPLETED"
        assert len(live.client.call("GET", "/v1/jobs")) == 2, "submitted twice, accepted once"
        live.until(lambda: healthy(live), "no troubles")


@pytest.mark.soak
def test_postgresql_goes_away_and_comes_back(tmp_path: Path, postgres: Postgres) -> None:
    with LiveCluster(tmp_path, devices="cpu:2", database_url=postgres.database(), **FAST) as live:
        running = live.submit(*python(FINISHES, tmp_path / "go"))
        waiting = live.submit("true", gpus=2)
        live.reaches(running, "RUNNING")
        postgres.stop()
        try:
            (tmp_path / "go").touch()
            error = refused(live, "POST", "/v1/jobs", SUBMISSION)
            assert error.status == 503
            assert "is out of reach" in str(error)
        finally:
            postgres.start()
        third = sent_again(live)
        for id in (running, waiting, third):
            assert live.wait(id)["state"] == "COMPLETED"
            assert len(attempts(live, id)) == 1
        live.until(lambda: healthy(live), "no troubles")


def fill(path: Path) -> None:
    """Write until there is no room."""
    with open(path, "wb", buffering=0) as out:
        try:
            while out.write(b"0" * 4096):
                continue
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise


def test_a_full_disk(tmp_path: Path) -> None:
    """What cannot be kept is refused; what runs, runs on; with room again everything ends well."""
    with (
        small_disk(tmp_path / "disk", "24m") as disk,
        LiveCluster(disk, devices="cpu:2", **FAST) as live,
    ):
        running = live.submit(*python(FINISHES, tmp_path / "go"))
        waiting = live.submit("true", gpus=2, retries=1000)
        live.reaches(running, "RUNNING")
        filler = disk / "filler"
        fill(filler)
        said: list[str] = []

        def is_refused() -> bool:
            try:
                live.client.call("POST", "/v1/jobs", {"spec": {"command": ["true"], "comment": "x" * 1000}})
            except Refused as error:
                said.append(f"{error.status} {error}")
            return bool(said)

        live.until(is_refused, "a submission that is refused")
        assert said[0].startswith("503")
        assert "disk is full" in said[0]
        (tmp_path / "go").touch()
        filler.unlink()
        for job in live.client.call("GET", "/v1/jobs"):
            assert live.wait(job["id"])["state"] == "COMPLETED", job
        assert {running, waiting} <= {job["id"] for job in live.client.call("GET", "/v1/jobs")}


@pytest.mark.soak
def test_a_node_without_room_costs_nobody_more_than_one_try(tmp_path: Path) -> None:
    """It refuses at once, so that it is free for the next one at once: the whole queue would go there."""
    live = LiveCluster(tmp_path, devices="cpu:2", **FAST)
    with small_disk(live.agent_home(), "4m") as disk, live:
        live.start_agent("n2", "cpu:1")
        busy = live.submit(*python(FINISHES, tmp_path / "go"))  # it goes where it just fits
        assert live.reaches(busy, "RUNNING")["nodes"] == ["n2"]
        fill(disk / "filler")
        first = live.submit("true", retries=1)
        trouble = f"no attempt can begin in {disk}: No space left on device; free some space there"
        live.until(
            lambda: said_by(live) == [f"node n1 takes no new jobs: {trouble}"], "the trouble of the node"
        )
        later = [live.submit("true", retries=0, gpus=gpus) for gpus in (1, 0, 1, 0)]
        (tmp_path / "go").touch()
        for id in (first, *later):
            assert live.wait(id)["state"] == "COMPLETED"
            assert attempts(live, id)[-1]["nodes"] == ["n2"]
        wide = live.submit("true", retries=0, gpus=2)
        live.until(lambda: "n1 takes no new jobs" in live.why(wide)["reasons"][0]["sentence"], "why it waits")
        (disk / "filler").unlink()
        assert live.wait(wide)["state"] == "COMPLETED"
        assert not [said for said in said_by(live) if "takes no new jobs" in said]


@pytest.mark.soak
def test_a_folder_of_an_agent_that_becomes_read_only(tmp_path: Path) -> None:
    """Who ends meanwhile has ended once, nobody begins, all are told why; then it goes on by itself."""
    with LiveCluster(tmp_path, devices="cpu:2", lost_after=6.0, **FAST) as live:
        says_pid = "\nopen(sys.argv[2], 'w').write(str(os.getpid()))"
        ends = live.submit(*python(says_pid + FINISHES, tmp_path / "go", tmp_path / "pid"))
        sleeps = live.submit("sleep", "600", grace_s=1.0)
        live.until(lambda: all(is_at_work(live, id) for id in (ends, sleeps)), "both at work")
        with read_only(live.agent_home()):
            trouble = f"{live.agent_home()} cannot be written: Read-only file system"
            live.until(lambda: said_by(live), "the trouble of the node")
            assert said_by(live) == [f"node n1 takes no new jobs: {trouble}"]
            (tmp_path / "go").touch()
            live.act(sleeps, "cancel")
            later = live.submit("true")
            said = f"would fit if node n1 took new jobs: n1 takes no new jobs ({trouble})"
            live.until(lambda: live.why(later)["reasons"][0]["sentence"].endswith(said), "why it waits")
            program = Path("/proc", (tmp_path / "pid").read_text())
            live.until(lambda: not program.exists(), "its program gone")
        for id, state in ((ends, "COMPLETED"), (sleeps, "CANCELLED"), (later, "COMPLETED")):
            assert live.wait(id)["state"] == state
            assert len(attempts(live, id)) == 1
        live.until(lambda: healthy(live), "no troubles")


@pytest.mark.soak
def test_an_agent_that_finds_its_folder_read_only_says_so(tmp_path: Path) -> None:
    with LiveCluster(tmp_path, devices="cpu:1", **FAST) as live:
        live.kill_agent()
        with read_only(live.agent_home()):
            assert live.begin_agent("n1").wait(PATIENCE_S) == 1
        said = (live.home / "logs" / "agent-n1.log").read_text()
        assert f"{live.agent_home()} cannot be written: Read-only file system" in said
        assert "Traceback" not in said


def said_by(live: LiveCluster) -> list[str]:
    """The cluster's troubles."""
    told: list[str] = live.client.call("GET", "/v1/status")["troubles"]
    return told


def is_at_work(live: LiveCluster, id: str) -> bool:
    """Whether its first attempt has begun."""
    return [one["state"] for one in attempts(live, id)] == ["running"]


@pytest.mark.soak
def test_a_log_folder_that_cannot_be_written(tmp_path: Path) -> None:
    """Logs of programs and of the policy: the job says why it could not start; the cluster works on."""
    with LiveCluster(tmp_path, devices="cpu:1", **FAST) as live:
        folder = live.agent_home() / "attempts" / "0"
        folder.mkdir(parents=True)
        for attempt in ("1", "2"):
            (folder / attempt).write_text("in the way of the first job's attempts")
        bad = live.submit("true", retries=0)
        waiting = live.until(lambda: live.job(bad)["cause"], "a refusal")
        assert waiting.startswith("could not begin on n1: ")
        assert str(folder) in waiting
        assert "Not a directory" in waiting
        assert live.wait(live.submit("true"))["state"] == "COMPLETED"
        assert (live.wait(bad)["state"], len(attempts(live, bad))) == ("COMPLETED", 3)  # none was a retry


@pytest.mark.soak
def test_a_hangup_opens_logs_anew_and_ends_nobody(tmp_path: Path) -> None:
    """`logrotate` without `copytruncate`: files are moved, and SIGHUP sent to those whom an operator knows.

    The policies' processes hear of it from their controller.
    """
    with LiveCluster(tmp_path, devices="cpu:1", **FAST) as live:
        id = live.submit(*python(FINISHES, tmp_path / "go"))
        live.reaches(id, "RUNNING")
        assert live.controller is not None
        children = psutil.Process(live.controller.pid).children()
        policies = [child for child in children if "rota.server.policy.process" in child.cmdline()]
        assert policies
        logs = [live.home / "logs" / name for name in ("controller.log", "agent-n1.log", "policy.log")]
        for log in logs:
            log.rename(log.with_suffix(".log.1"))
        for pid in (live.controller.pid, live.agents["n1"].pid):
            os.kill(pid, signal.SIGHUP)
        live.until(lambda: all(log.exists() for log in logs), "logs with their old names")
        (tmp_path / "go").touch()
        assert live.wait(id)["state"] == "COMPLETED"
        assert len(attempts(live, id)) == 1
        assert live.controller.poll() is None
        assert live.agents["n1"].poll() is None
        assert all(policy.is_running() and policy.status() != psutil.STATUS_ZOMBIE for policy in policies)
