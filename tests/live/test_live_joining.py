"""Machines join by name: a living agent keeps its own, one that has fallen silent has an heir."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from live_cluster import PATIENCE_S, LiveCluster
from shared import log_of, python, written

from rota.client.http import Refused

LOST_AFTER_S = 5.0


@pytest.fixture
def live(tmp_path: Path) -> Iterator[LiveCluster]:
    with LiveCluster(tmp_path / "cluster", devices="cpu:1", lost_after=LOST_AFTER_S) as cluster:
        yield cluster


@pytest.fixture
def patient(tmp_path: Path) -> Iterator[LiveCluster]:
    """In which no node is lost, however long its agent takes to start."""
    with LiveCluster(tmp_path / "cluster", devices="cpu:1", lost_after=3600.0) as cluster:
        yield cluster


def join(live: LiveCluster, home: Path, node: str) -> subprocess.Popen[str]:
    """An agent of an empty folder that joins over TCP."""
    url = json.loads((live.home / "controller.json").read_text())["url"]
    token = live.client.call("POST", "/v1/agents/token", {})["token"]
    arguments = [sys.executable, "-m", "rota.engines.rota", "--home", str(home), "--node", node]
    arguments += ["--controller", url, "--devices", "cpu:1"]
    return subprocess.Popen(
        arguments,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "ROTA_JOIN_TOKEN": token},
    )


@pytest.mark.soak
def test_a_name_that_is_taken_is_refused_until_its_agent_is_silent(live: LiveCluster, tmp_path: Path) -> None:
    go = tmp_path / "go"
    loop = "open(sys.argv[1], 'w').write('here')\nwhile not os.path.exists(sys.argv[2]): time.sleep(0.02)"
    id = live.submit(*python(loop, tmp_path / "began", go))
    written(live, tmp_path / "began", "here")
    said, _ = (second := join(live, tmp_path / "second", "n1")).communicate(timeout=PATIENCE_S)
    assert second.returncode == 1
    assert "an agent takes part as node 'n1' already, or did a moment ago: if its machine is gone, " in said
    go.touch()
    job = live.wait(id)
    assert (job["state"], job["attempt"]) == ("COMPLETED", 1), log_of(live, id)

    live.kill_agent("n1")
    live.until(lambda: live.node_state("n1") == "lost", "n1 is lost")
    heir = join(live, tmp_path / "heir", "n1")
    try:
        live.until(lambda: live.node_state("n1") == "up", "another machine goes on as n1")
    finally:
        heir.terminate()
        heir.communicate(timeout=PATIENCE_S)


@pytest.mark.soak
def test_a_restart_of_the_controller_frees_no_name(live: LiveCluster, tmp_path: Path) -> None:
    """The agent of n1 is dead, its self-fencing job lives: no other agent begins it again beside itself."""
    beats = "while True: open(sys.argv[1], 'a').write(os.environ['ROTA_ATTEMPT'] + ' \\n'); time.sleep(0.05)"
    id = live.submit(*python(beats, tmp_path / "beats"), self_fence=True)
    written(live, tmp_path / "beats", "1 ")
    live.kill_agent("n1")
    live.kill_controller()
    live.start_controller()
    said, _ = (early := join(live, tmp_path / "second", "n1")).communicate(timeout=PATIENCE_S)
    assert early.returncode == 1
    assert "an agent takes part as node 'n1' already, or did a moment ago: if its machine is gone, " in said
    live.until(lambda: live.node_state("n1") == "lost", "n1 is lost")
    heir = join(live, tmp_path / "second", "n1")
    try:
        written(live, tmp_path / "beats", "\n2 ")
        live.act(id, "cancel", force=True)
        live.wait(id)
    finally:
        heir.terminate()
        heir.communicate(timeout=PATIENCE_S)
    numbers = [line.split()[0] for line in (tmp_path / "beats").read_text().splitlines()]
    assert numbers == sorted(numbers), "the first attempt had ended when the second began"


@pytest.mark.soak
def test_a_name_that_no_node_can_have_is_refused(patient: LiveCluster) -> None:
    """Whoever sends it; ROTA_NODES has a name on each line."""
    info = {"address": "127.0.0.1", "cpus": 1, "memory_gib": 1, "boot_id": "b", "devices": [], "kind": "cpu"}
    with pytest.raises(Refused, match=r"'n2\\nn3' is no name for a node; expected letters, digits and _"):
        patient.client.call("POST", "/v1/agents/join", {**info, "name": "n2\nn3"})
    assert [node["name"] for node in patient.client.call("GET", "/v1/nodes")] == ["n1"]


@pytest.mark.soak
def test_a_forgotten_node_is_gone_until_it_joins_anew(live: LiveCluster, tmp_path: Path) -> None:
    """Its agent, with the token it has, is refused; a join token gives the name its old place."""
    live.start_agent("n2", "cpu:1")
    with pytest.raises(Refused, match="node n2: it is up, and only a lost node can be forgotten"):
        live.client.call("POST", "/v1/nodes/n2/forget", {})
    live.kill_agent("n2")
    live.until(lambda: live.node_state("n2") == "lost", "n2 is lost")
    assert any("n2" in trouble for trouble in live.client.call("GET", "/v1/status")["troubles"])
    live.client.call("POST", "/v1/nodes/n2/forget", {})
    status = live.client.call("GET", "/v1/status")
    assert (status["nodes"], status["gpus"]) == (1, 1)
    assert not any("n2" in trouble for trouble in status["troubles"])
    assert [node["name"] for node in live.client.call("GET", "/v1/nodes")] == ["n1"]

    live.kill_controller()
    live.start_controller()
    old = live.begin_agent("n2", "cpu:1")
    log = live.home / "logs" / "agent-n2.log"
    live.until(lambda: "node 'n2' was forgotten by an admin" in log.read_text(), "the refusal", old)
    assert [node["name"] for node in live.client.call("GET", "/v1/nodes")] == ["n1"]
    live.kill_agent("n2")
    heir = join(live, tmp_path / "heir", "n2")
    try:
        live.until(lambda: live.node_state("n2") == "up", "n2 joins anew")
        job = live.wait(live.submit("true", gpus=2))
        assert (job["state"], job["gpus"]) == ("COMPLETED", 2)
    finally:
        heir.terminate()
        heir.communicate(timeout=PATIENCE_S)


@pytest.mark.soak
def test_a_stopped_agent_gets_no_jobs_and_its_own_go_on(patient: LiveCluster, tmp_path: Path) -> None:
    """SIGTERM, as an operator stops a machine: at once, and not when its silence has lasted too long."""
    live = patient
    live.start_agent("n2", "cpu:1")
    loop = "open(sys.argv[1], 'w').write('here')\nwhile not os.path.exists(sys.argv[2]): time.sleep(0.02)"
    go = tmp_path / "go"
    ids = [live.submit(*python(loop, tmp_path / f"began{n}", go)) for n in range(2)]
    for n in range(2):
        written(live, tmp_path / f"began{n}", "here")
    (there,) = [id for id in ids if live.job(id)["nodes"] == ["n2"]]
    agent = live.agents.pop("n2")
    agent.terminate()
    assert agent.wait(PATIENCE_S) == 0
    live.until(lambda: live.node_state("n2") == "away", "its goodbye is heard")
    assert any("node n2 is away" in trouble for trouble in live.client.call("GET", "/v1/status")["troubles"])
    live.kill_controller()
    live.start_controller()
    assert live.node_state("n2") == "away", "a controller that starts knows it"
    assert live.job(there)["state"] == "RUNNING"
    live.start_agent("n2", "cpu:1")
    go.touch()
    assert [(live.wait(id)["state"], live.job(id)["attempt"]) for id in ids] == [("COMPLETED", 1)] * 2


@pytest.mark.soak
def test_an_agent_that_was_frozen_is_back_without_a_word(live: LiveCluster) -> None:
    """It goes on where it was, with nothing to report."""
    live.agents["n1"].send_signal(signal.SIGSTOP)
    try:
        live.until(lambda: live.node_state("n1") == "lost", "n1 is lost")
    finally:
        live.agents["n1"].send_signal(signal.SIGCONT)
    live.until(lambda: live.node_state("n1") == "up", "n1 is back")
    assert live.wait(live.submit("true"))["state"] == "COMPLETED"
