"""PostgreSQL freezes under a cluster at work: calls end in a sentence, and all goes on when it wakes."""

from __future__ import annotations

import random
import re
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from crashing import Load, Tended, check, drain, persistently
from postgres import Postgres

from rota.client import Client, Refused, Unreachable

pytestmark = pytest.mark.soak
CALLS = ("/v1/jobs", "/v1/status", "/v1/jobs/1", "/v1/jobs/1/wait?wait_s=2", "/v1/jobs/1/logs", "/v1/nodes")
BOUND_S = 60.0
"""Of a call, on a machine that has other things to do; alone the longest takes 15 s."""
HEALTH_BOUND_S = 15.0
"""Of /health, on such a machine; alone it takes a second."""
SENTENCE = r"out of reach \(.*\); it is tried again at the next call|scheduler is starting"


def asked(live: Tended, method: str, path: str, body: Any, told: list[tuple[str, str, float]]) -> None:
    """Add what became of one call: its path, the sentence if it was refused, and how long it took."""
    since_s, said = time.monotonic(), ""
    with Client(str(live.home / "controller.sock"), timeout_s=2 * BOUND_S) as client:
        try:
            client.call(method, path, body)
        except (Refused, Unreachable) as error:
            said = str(error)
    told.append((path, said, time.monotonic() - since_s))


def test_the_database_freezes_and_wakes(tmp_path: Path, postgres: Postgres) -> None:
    """Readers, waiters and eight who submit, in the middle of running jobs; nothing is lost or done twice."""
    with Tended(tmp_path / "cluster", devices="cpu:4", database_url=postgres.database()) as live:
        load = Load(live, tmp_path / "evidence", random.Random(7))
        for _ in range(3):
            load.submit()
        told: list[tuple[str, str, float]] = []
        bodies = [{"spec": load.spec("plain", 3), "key": f"frozen-{k}"} for k in range(8)]
        calls = [("GET", path, None) for path in CALLS] + [("POST", "/v1/jobs", body) for body in bodies]
        with postgres.frozen():
            threads = [
                threading.Thread(target=asked, args=(live, *call, told), daemon=True) for call in calls
            ]
            for thread in threads:
                thread.start()
            healths: list[tuple[str, str, float]] = []
            while any(thread.is_alive() for thread in threads):
                asked(live, "GET", "/health", None, healths)
                time.sleep(0.2)
        assert all(seconds < BOUND_S for _, _, seconds in told), told
        assert all(said for path, said, _ in told if path == "/v1/jobs"), "it was answered without its store"
        assert all(not said or re.search(SENTENCE, said) for _, said, _ in told), told
        assert all(seconds < HEALTH_BOUND_S for _, _, seconds in healths), healths
        assert any("the store" in said for _, said, _ in healths), healths
        for body in bodies:
            load.ids.append(persistently(live, "POST", "/v1/jobs", body)["jobs"][0]["id"])
        drain(live, load)
        check(live, load)
