"""What becomes of the jobs of a user who is removed: no attempt begins, and none as root."""

from __future__ import annotations

import json
import os
import pwd
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from live_cluster import LiveCluster
from shared import FAST, written

from rota.client import Client

pytestmark = [
    pytest.mark.soak,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root runs commands as others"),
]
NOBODY = pwd.getpwnam("nobody")
WRITES = 'id -u > "$0/$ROTA_JOB_ID-$ROTA_ATTEMPT"; exit 85'


@pytest.fixture
def folder() -> Iterator[Path]:
    """That other accounts may enter, and write into."""
    with tempfile.TemporaryDirectory(prefix="rota-live-", ignore_cleanup_errors=True) as made:
        Path(made).chmod(0o755)
        (Path(made) / "all").mkdir()
        (Path(made) / "all").chmod(0o1777)
        yield Path(made)


@pytest.mark.parametrize("restarts", [True, False], ids=["and the controller restarts", "and nothing else"])
def test_no_job_of_a_removed_user_begins(folder: Path, restarts: bool) -> None:
    into = folder / "all"
    with LiveCluster(folder / "cluster", devices="cpu:2", **FAST) as live:
        token = live.client.call("POST", "/v1/users", {"name": "u1", "account": "nobody"})["token"]
        with Client(json.loads((live.home / "controller.json").read_text())["url"], token) as u1:
            spec = {"command": ["/bin/sh", "-c", WRITES, str(into)], "workdir": "/tmp"}
            again, held = (
                u1.call("POST", "/v1/jobs", {"spec": {**spec, "hold": hold}})["jobs"][0]["id"]
                for hold in (False, True)
            )
        live.until(lambda: (into / f"{again}-2").exists(), "it is run again and again")
        live.client.call("DELETE", "/v1/users/u1")
        if restarts:
            live.kill_controller()
            live.start_controller()
        live.act(held, "release")
        why = (
            "has no account that it may run as: user 'u1', who submitted it as account 'nobody', was removed"
        )
        for id in (again, held):
            live.until(lambda id=id: why in json.dumps(live.why(id)), "the reason", id)  # type: ignore[misc]
            assert live.job(id)["state"] == "PENDING"
        assert {path.read_text() for path in into.iterdir()} == {f"{NOBODY.pw_uid}\n"}
        seen = sorted(into.iterdir())
        live.client.call("POST", "/v1/users", {"name": "u1", "account": "daemon"})
        live.until(lambda: "and has account 'daemon' now" in json.dumps(live.why(held)), "the new account")
        assert sorted(into.iterdir()) == seen
        live.client.call("DELETE", "/v1/users/u1")
        live.client.call("POST", "/v1/users", {"name": "u1", "account": "nobody"})
        written(live, into / f"{held}-1", f"{NOBODY.pw_uid}\n")
