"""A real job that holds a slot and sleeps: its user is told, the controller dies, its slot is taken."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from live_cluster import LiveCluster
from shared import detail, python

pytestmark = pytest.mark.soak
TAKE_DOWN = "import sys; open(sys.argv[1], 'a').write(sys.stdin.read() + '\\n')"
WORKS = """
while True:
    sum(range(10**5))
    time.sleep(0.02)
"""


def notices(told: Path) -> list[dict[str, Any]]:
    """All that were told so far, the last line aside while it is being written."""
    lines = told.read_text().split("\n")[:-1] if told.exists() else []
    return [one for line in lines for one in json.loads(line)["events"]]


def test_an_idle_job_is_told_and_then_suspended(tmp_path: Path) -> None:
    """Beside one that works and one that asked to be left alone; and its user gets it back."""
    told = tmp_path / "told"
    notify = [{"command": [sys.executable, "-c", TAKE_DOWN, str(told)], "on": ["idle"]}]
    config = {"idle_after": 4.0, "idle_action": "suspend", "notify": notify}
    with LiveCluster(tmp_path / "site", devices="cpu:3", **config) as live:
        idle = live.submit(*python("time.sleep(3600)"))
        works = live.submit(*python(WORKS))
        alone = live.submit(*python("time.sleep(3600)"), idle_after_s=0)
        live.until(lambda: notices(told), "the notice")
        assert live.job(idle)["idle_since_s"] is not None
        live.kill_controller()
        live.start_controller()
        live.reaches(idle, "SUSPENDED")
        live.until(lambda: len(notices(told)) == 2, "the second notice")
        assert [one["job"]["id"] for one in notices(told)] == [idle, idle]
        assert [one["text"][:8] for one in notices(told)] == ["it holds", "suspende"]
        kinds = [event["kind"] for event in detail(live, idle)["events"]]
        assert kinds.count("idle") == 1, "told again after the controller was killed"
        assert {live.job(other)["state"] for other in (works, alone)} == {"RUNNING"}
        live.act(idle, "resume")
        live.reaches(idle, "RUNNING")
