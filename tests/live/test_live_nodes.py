"""Two agents on loopback as two machines: gangs over both, a machine that is lost and comes back, joining."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from live_cluster import LiveCluster
from shared import attempts, detail, emptied, log_of, python, written

LOST_AFTER_S = 5.0
"""Long enough for an agent on a machine that does many other things."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveCluster]:
    folder = tmp_path_factory.mktemp("nodes")
    with LiveCluster(folder, devices="cpu:1", lost_after=LOST_AFTER_S, back_off=0.2) as live:
        live.start_agent("n2", "cpu:1")
        yield live


@pytest.fixture
def live(cluster: LiveCluster) -> Iterator[LiveCluster]:
    yield from emptied(cluster)


def pids(live: LiveCluster, node: str) -> list[int]:
    """The ranks that run on a node."""
    found = live.agent_home(node).glob("attempts/*/*/ranks.json")
    return [
        rank["pid"] for path in found for rank in json.loads(path.read_text())["ranks"] if alive(rank["pid"])
    ]


def alive(pid: int) -> bool:
    """Whether a process is there, and no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):  # it has gone, or goes while we read
        return False


def agent(home: Path, url: str, node: str, token: str) -> subprocess.Popen[bytes]:
    """An agent that knows the address of its controller, and a join token."""
    home.mkdir()
    arguments = [sys.executable, "-m", "rota.engines.rota", "--home", str(home), "--node", node]
    arguments += ["--controller", url, "--devices", "cpu:1"]
    with open(home.with_suffix(".log"), "wb") as out:
        return subprocess.Popen(
            arguments,
            stdout=out,
            stderr=out,
            env={**os.environ, "ROTA_JOIN_TOKEN": token},
        )


def test_a_gang_over_two_nodes(live: LiveCluster) -> None:
    names = "RANK LOCAL_RANK WORLD_SIZE LOCAL_WORLD_SIZE GROUP_RANK MASTER_ADDR ROTA_NODES MASTER_PORT"
    id = live.submit(*python(f"print(*(os.environ[n] for n in '{names}'.split()))"), gpus=2)
    assert live.wait(id)["state"] == "COMPLETED"
    first, second = log_of(live, id, rank=0).split(), log_of(live, id, rank=1).split()
    assert first[:-1] == ["0", "0", "2", "1", "0", "127.0.0.1", "n1", "n2"]
    assert second[:-1] == ["1", "0", "2", "1", "1", "127.0.0.1", "n1", "n2"]
    assert first[-1] == second[-1], "both meet at the same port"


def test_torch_meets_over_two_nodes(live: LiveCluster) -> None:
    pytest.importorskip("torch")
    code = """
import torch, torch.distributed as dist
dist.init_process_group("gloo")
number = torch.tensor(1.0 + dist.get_rank())
dist.all_reduce(number)
print(number.item())
dist.destroy_process_group()  # without it torch now and then aborts the rank that ends last
"""
    id = live.submit(*python(code), gpus=2)
    job = live.wait(id)
    assert job["state"] == "COMPLETED", (job, log_of(live, id, rank=0), log_of(live, id, rank=1))
    assert [log_of(live, id, rank=rank) for rank in (0, 1)] == ["3.0\n", "3.0\n"]


def test_a_part_that_fails_takes_the_other_node_along(live: LiveCluster) -> None:
    code = "os.environ['RANK'] == '1' and sys.exit(9); time.sleep(600)"
    job = live.wait(live.submit(*python(code), gpus=2))
    assert (job["state"], job["exit_code"]) == ("FAILED", 9)


LINES = """
import fcntl
lock = os.open(sys.argv[1] + ".lock", os.O_RDWR | os.O_CREAT)
out = os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
try:
    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB); os.write(out, b"START\\n")
except OSError:
    os.write(out, b"BESIDE\\n")
while not os.path.exists(sys.argv[1] + ".go"): time.sleep(0.02)
os.write(out, b"END\\n")
"""


def test_jobs_of_a_lost_node_start_elsewhere_and_their_old_processes_die(
    live: LiveCluster, tmp_path: Path
) -> None:
    """Across machines both may run for a while; what is void is killed as soon as its agent is back."""
    file = tmp_path / "said"
    id = live.submit(*python(LINES, file))
    written(live, file, "START")
    (node,) = live.reaches(id, "RUNNING")["nodes"]
    other = "n2" if node == "n1" else "n1"
    old = pids(live, node)
    assert old
    live.kill_agent(node)
    try:
        live.until(lambda: live.node_state(node) == "lost", f"{node} is lost")
        live.until(lambda: live.job(id)["nodes"] == [other], f"the job on {other}")
        written(live, file, "BESIDE")
        first = attempts(live, id)[0]
        assert first["end"] == "lost"
        assert f"node {node} is not heard of" in first["cause"]
    finally:
        live.start_agent(node, "cpu:1")
    live.until(lambda: not any(map(alive, old)), "the void processes are gone")
    checkpoints = live.agent_home(node) / "checkpoints"
    assert list(checkpoints.glob("*/1/VOID")), "nothing can be published for the void attempt"
    (tmp_path / "said.go").touch()
    assert live.wait(id)["state"] == "COMPLETED"
    assert file.read_text().count("END") == 1
    assert live.node_state(node) == "up"


@pytest.mark.soak
def test_a_controller_that_was_away_gives_agents_their_time(live: LiveCluster, tmp_path: Path) -> None:
    """The clock of the silence starts anew with the controller: nothing is lost by its own absence."""
    id = live.submit(*python(LINES, tmp_path / "said"))
    written(live, tmp_path / "said", "START")
    live.kill_controller()
    until_s = time.monotonic() + 1.3 * LOST_AFTER_S
    live.until(lambda: time.monotonic() > until_s, "longer than a node may be silent")
    live.start_controller()
    (tmp_path / "said.go").touch()
    assert live.wait(id)["state"] == "COMPLETED"
    assert len(attempts(live, id)) == 1


@pytest.mark.soak
def test_a_job_that_fences_itself_is_gone_before_it_starts_elsewhere(
    live: LiveCluster, tmp_path: Path
) -> None:
    """The agent cannot reach its controller (here: it is stopped with its node's agent alive)."""
    file = tmp_path / "said"
    id = live.submit(*python(LINES, file), self_fence=True, grace_s=0.2)
    written(live, file, "START")
    (node,) = live.reaches(id, "RUNNING")["nodes"]
    old = pids(live, node)
    live.kill_controller()
    live.until(lambda: not any(map(alive, old)), "the job is stopped in the silence")
    live.start_controller()
    live.until(lambda: file.read_text().count("START") == 2, "it starts again")
    assert "BESIDE" not in file.read_text()
    (tmp_path / "said.go").touch()
    assert live.wait(id)["state"] == "COMPLETED"


@pytest.mark.slow  # as long as a node may be silent
def test_a_job_fences_itself_though_its_agent_is_frozen(live: LiveCluster, tmp_path: Path) -> None:
    """Its shim sees to it: what an agent cannot do, frozen or dead, is done all the same."""
    file = tmp_path / "said"
    id = live.submit(*python(LINES, file), self_fence=True, grace_s=600.0)
    written(live, file, "START")
    (node,) = live.reaches(id, "RUNNING")["nodes"]
    live.agents[node].send_signal(signal.SIGSTOP)
    try:
        live.until(lambda: file.read_text().count("START") == 2, "it starts elsewhere")
        assert "BESIDE" not in file.read_text()
    finally:
        live.agents[node].send_signal(signal.SIGCONT)
    (tmp_path / "said.go").touch()
    assert live.wait(id)["state"] == "COMPLETED"
    live.until(lambda: live.node_state(node) == "up", f"{node} is back")


def test_an_agent_joins_over_tcp_with_a_token(live: LiveCluster, tmp_path: Path) -> None:
    url = json.loads((live.home / "controller.json").read_text())["url"]
    wrong = agent(tmp_path / "wrong", url, "n9", "not.atoken")
    assert wrong.wait(30) != 0
    assert "token" in (tmp_path / "wrong.log").read_text()
    token = live.client.call("POST", "/v1/agents/token", {})["token"]
    right = agent(tmp_path / "n3", url, "n3", token)
    try:
        live.until(lambda: live.node_state("n3") == "up", "n3 takes part", right)
        live.until((tmp_path / "n3" / "token").exists, "its token is kept", right)
        assert (tmp_path / "n3" / "token").stat().st_mode & 0o777 == 0o600
        id = live.submit("sh", "-c", "echo from $ROTA_NODES", gpus=3, ranks="node")
        assert live.wait(id)["state"] == "COMPLETED", detail(live, id)
        assert log_of(live, id, rank=2).startswith("from n1")
    finally:
        right.terminate()
        right.wait(30)
