"""A cluster that grows and shrinks: Pollux wants nodes, a real script starts and stops agents."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from live_cluster import LiveCluster, _signal
from shared import python

HOOK = """
import json, os, shutil, signal, subprocess, sys, time
from pathlib import Path
farm, home, log = Path(sys.argv[1]), sys.argv[2], open(Path(sys.argv[1]) / "log", "a", buffering=1)
wish = json.load(sys.stdin)
print(json.dumps(wish), file=log)
try:
    with open(farm / "at work", "x"):
        pass
except FileExistsError:
    print("two at a time", file=log)
def pid_of(name):
    return int((farm / name / "pid").read_text())
def runs(name):
    try:
        return Path(f"/proc/{pid_of(name)}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
for name in [*wish["remove"], *wish["lost"]]:
    if (farm / name).exists():
        if runs(name):
            os.kill(pid_of(name), signal.SIGTERM)
        while runs(name):
            time.sleep(0.02)
        shutil.rmtree(farm / name)
have = sum(runs(folder.name) for folder in farm.iterdir() if folder.is_dir())
names = (f"w{number}" for number in range(1, 99) if not (farm / f"w{number}").exists())
for name in [next(names) for _ in range(wish["nodes"] - have)]:
    (farm / name).mkdir()
    command = [sys.executable, "-m", "rota.engines.rota", "--home", str(farm / name / "agent")]
    command += ["--node", name, "--controller", f"{home}/controller.sock", "--devices", "cpu:1"]
    nothing = subprocess.DEVNULL
    child = subprocess.Popen(command, stdin=nothing, stdout=nothing, stderr=nothing, start_new_session=True)
    (farm / name / "pid").write_text(str(child.pid))
os.unlink(farm / "at work")
"""
pytestmark = pytest.mark.soak
POLICY = "pollux:utility=0.6/0.9,scale_s=0.5,interval_s=0.5"


@pytest.fixture
def farm(tmp_path: Path) -> Path:
    """Where the script keeps its machines: their jobs are found as those of the cluster's home."""
    folder = tmp_path / "home" / "farm"
    folder.mkdir(parents=True)
    return folder


def end(live: LiveCluster, farm: Path) -> None:
    """No controller, no machine and no job is left."""
    live.kill_controller()
    for path in farm.glob("*/pid"):
        _signal(int(path.read_text()))
    live.down()


def cluster(tmp_path: Path, farm: Path, hook: str = HOOK) -> LiveCluster:
    script = tmp_path / "hook.py"
    script.write_text(hook)
    command = [sys.executable, str(script), str(farm), str(tmp_path / "home")]
    autoscale = {"command": command, "min": 1, "max": 3, "cooldown": "300ms", "timeout": "1m"}
    live = LiveCluster(tmp_path, policy=POLICY, autoscale=autoscale, lost_after=10.0)
    live.start_controller()
    return live


def told(farm: Path) -> list[dict[str, object]]:
    lines = (farm / "log").read_text().splitlines() if (farm / "log").exists() else []
    assert "two at a time" not in lines
    return [json.loads(line) for line in lines]


def up(live: LiveCluster) -> list[str]:
    nodes = live.client.call("GET", "/v1/nodes")
    return sorted(node["name"] for node in nodes if node["state"] in ("up", "busy"))


def troubles(live: LiveCluster) -> str:
    return " ".join(live.client.call("GET", "/v1/status")["troubles"])


def test_it_grows_with_the_jobs_and_shrinks_without_them(tmp_path: Path, farm: Path) -> None:
    live = cluster(tmp_path, farm)
    try:
        live.until(lambda: up(live) == ["w1"], "the least number comes without a job")
        stop = tmp_path / "stop"
        code = f"while not os.path.exists({str(stop)!r}): time.sleep(0.05)"
        ids = [live.submit(*python(code)) for _ in range(3)]
        live.until(lambda: len(up(live)) == 3, "three nodes for three jobs")
        for id in ids:
            live.reaches(id, "RUNNING")
        live.kill_controller()  # what is wanted is on record
        live.start_controller()
        live.act(ids[0], "cancel")
        live.reaches(ids[0], "CANCELLED")
        stop.write_text("")
        for id in ids[1:]:
            assert live.wait(id)["state"] == "COMPLETED"
        live.until(lambda: len(up(live)) == 1, "one node is left")
        live.until(lambda: sum(path.is_dir() for path in farm.iterdir()) == 1, "one machine is left")
        live.until(lambda: len(live.client.call("GET", "/v1/nodes")) == 1, "the others are forgotten")
        status = live.client.call("GET", "/v1/status")
        assert (status["autoscale"]["wanted"], status["autoscale"]["working"], status["troubles"]) == (
            1,
            1,
            [],
        )
        assert all(1 <= int(str(message["wanted"])) <= 3 for message in told(farm))
        again = live.submit("true")
        assert live.wait(again)["state"] == "COMPLETED"
    finally:
        end(live, farm)


def test_a_wish_that_was_not_taken_outlives_the_controller(tmp_path: Path, farm: Path) -> None:
    """Also on a cluster without any node."""
    live = cluster(tmp_path, farm, "import sys; sys.exit('no machines today')")
    try:
        for _ in range(2):
            live.submit("sleep", "600")
        trouble = "has not taken that 1 node is wanted: it ended with 1: no machines today"
        live.until(lambda: trouble in troubles(live), trouble)
        assert troubles(live).count("autoscale") == 1, "nothing else is wrong"
        live.kill_controller()
        (tmp_path / "hook.py").write_text(HOOK)
        live.start_controller()
        live.until(lambda: len(up(live)) == 2, "the wish of before, and one more")
        assert [message["nodes"] for message in told(farm)] == [1, 2]
    finally:
        end(live, farm)
