"""A database that is locked or away, a disk that is full, a folder that cannot be written: said, survived."""

from __future__ import annotations

import errno
import json
import os
import shutil
import sqlite3
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from live_cluster import PATIENCE_S, LiveCluster
from postgres import Postgres
from shared import FAST, attempts, python, refused

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


@contextmanager
def small_disk(folder: Path, size: str) -> Iterator[Path]:
    """A file system of its own, gone afterwards."""
    if os.geteuid() != 0 or shutil.which("mount") is None:
        pytest.skip("only root mounts a small disk")
    folder.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)], capture_output=True, check=False
    )
    if done.returncode:
        pytest.skip(f"no tmpfs can be mounted here: {done.stderr.decode().strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


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


def test_a_log_folder_that_cannot_be_written(tmp_path: Path) -> None:
    """Logs of programs and of the policy: the job says why it could not start; the cluster works on."""
    with LiveCluster(tmp_path, devices="cpu:1", **FAST) as live:
        folder = live.agent_home() / "attempts" / "0"
        folder.mkdir(parents=True)
        for attempt in ("1", "2"):
            (folder / attempt).write_text("in the way of the first job's attempts")
        bad = live.submit("true", retries=1)
        job = live.wait(bad)
        assert job["state"] == "NODE_FAIL"
        assert str(folder) in job["cause"]
        assert "Not a directory" in job["cause"]
        assert live.wait(live.submit("true"))["state"] == "COMPLETED"
