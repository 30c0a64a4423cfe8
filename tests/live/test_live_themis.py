"""Themis on a real cluster: an app of four trials of which the first to end is enough, and leases."""

from __future__ import annotations

from pathlib import Path

import pytest
from live_cluster import LiveCluster
from shared import FAST, attempts, detail, python, written

pytestmark = pytest.mark.soak

TRIAL = """
path, number = sys.argv[1:]
open(os.path.join(path, "began-" + number), "w").write("now")
while not os.path.exists(os.path.join(path, "enough-" + number)):
    time.sleep(0.02)
"""


def test_of_four_trials_the_first_to_end_ends_the_others(tmp_path: Path) -> None:
    """Two run, two wait and are told why; one is done, and all others are cancelled, wherever they are."""
    with LiveCluster(tmp_path / "site", devices="cpu:2", policy="themis", **FAST) as live:
        sweep = {"group": "sweep", "group_rule": "first", "time_s": 600.0}
        trials = [live.submit(*python(TRIAL, tmp_path, number), **sweep) for number in range(4)]
        running = trials[:2]
        for number in range(2):
            written(live, tmp_path / f"began-{number}", "now")
        holds = " ".join(reason["sentence"] for reason in live.why(running[0])["reasons"])
        assert "its lease ends in" in holds, holds
        waiting = live.why(trials[3])
        sentences = " ".join(reason["sentence"] for reason in waiting["reasons"])
        assert "ρ" in sentences, sentences
        assert "leased for another" in sentences, sentences
        (tmp_path / "enough-1").write_text("yes")
        assert live.wait(running[1])["state"] == "COMPLETED"
        for trial in (trials[0], *trials[2:]):
            ended = live.wait(trial)
            assert ended["state"] == "CANCELLED"
            assert f"job {running[1]} of its group has completed" in ended["cause"]
        assert not (tmp_path / "began-2").exists()


def test_of_trials_that_all_have_to_finish_none_ends_another(tmp_path: Path) -> None:
    """Both are asked for in one group: one is done, the other goes on."""
    with LiveCluster(tmp_path / "site", devices="cpu:2", policy="themis", **FAST) as live:
        sweep = {"group": "sweep", "group_rule": "all", "time_s": 600.0}
        done, goes_on = [live.submit(*python(TRIAL, tmp_path, number), **sweep) for number in range(2)]
        for number in range(2):
            written(live, tmp_path / f"began-{number}", "now")
        (tmp_path / "enough-0").write_text("yes")
        assert live.wait(done)["state"] == "COMPLETED"
        assert detail(live, goes_on)["job"]["state"] == "RUNNING"
        (tmp_path / "enough-1").write_text("yes")
        assert live.wait(goes_on)["state"] == "COMPLETED"


def test_a_lease_ends_and_another_app_has_its_turn(tmp_path: Path) -> None:
    """One slot, leases of two seconds: who came second does not wait for the first to end."""
    policy = "themis:lease_s=2"
    with LiveCluster(tmp_path / "site", devices="cpu:1", policy=policy, **FAST) as live:
        first = live.submit(*python(TRIAL, tmp_path, 1), checkpoint="own", group="a", time_s=60.0)
        written(live, tmp_path / "began-1", "now")
        second = live.submit(*python(TRIAL, tmp_path, 2), checkpoint="own", group="b", time_s=60.0)
        written(live, tmp_path / "began-2", "now")
        for number in (1, 2):
            (tmp_path / f"enough-{number}").write_text("yes")
        for job in (first, second):
            assert live.wait(job)["state"] == "COMPLETED"
        begun = attempts(live, first)[0]
        assert begun["end_s"] - begun["wanted_s"] >= 1.9
        assert detail(live, first)["job"]["preemptions"] >= 1
