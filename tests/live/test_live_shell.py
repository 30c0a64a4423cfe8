"""`rota shell` on a real cluster, with real terminals: typed, interrupted, left, taken up again, killed."""

from __future__ import annotations

import json
import os
import pwd
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from live_cluster import LiveCluster
from shared import attempts, detail, emptied, log_of, refused
from terminal_play import LEAVE, Person

from rota.cli.live.shell import without_a_terminal
from rota.client import Client, Refused

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveCluster]:
    with LiveCluster(tmp_path_factory.mktemp("shell"), devices="cpu:2") as cluster:
        yield cluster


@pytest.fixture
def live(cluster: LiveCluster) -> Iterator[LiveCluster]:
    yield from emptied(cluster)


def pid_of(person: Person) -> int:
    """Of the shell in which somebody sits."""
    person.type("echo pid $$ e''nd\n")
    found = re.search(r"pid (\d+) end", person.sees(" end\r\n"))
    assert found is not None
    return int(found[1])


def is_there(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


def test_a_shell_on_the_cluster(live: LiveCluster) -> None:
    """Its terminal is as large as this one, Ctrl-C goes to what runs there, and its code is ours."""
    with Person(live, "--gpus", "2") as person:
        id = person.job()
        person.type("stty size; echo $ROTA_GPUS g''pus\n")
        assert "40 100" in person.sees("2 gpus")
        person.resize(50, 132)
        person.type("echo go''ing; sleep 1000\n")
        person.sees("going")
        person.type("\x03")
        person.sees("^C")
        person.type("stty size; echo still he''re\n")
        assert "50 132" in person.sees("still here")
        person.type("exit 5\n")
        assert person.ends() == 5
    spec = detail(live, id)["spec"]
    assert (spec["terminal"], spec["preemptible"], spec["ranks"], spec["name"]) == (
        True,
        False,
        "node",
        "shell",
    )
    assert "still here" in log_of(live, id)
    assert live.wait(id)["exit_code"] == 5


def test_a_shell_on_several_nodes_says_where_its_terminal_is() -> None:
    assert without_a_terminal("7", []) == without_a_terminal("7", ["a"]) == ""
    said = without_a_terminal("7", ["a", "b", "c"])
    assert said.startswith(
        "job 7 is on 3 nodes, and this terminal is on a: on b, c the same program runs without"
    )


def test_who_waits_is_told_and_may_give_up(live: LiveCluster) -> None:
    """Ctrl-C in the queue cancels; a job that is over before anybody comes is shown."""
    blocker = live.submit("sleep", "600", gpus=2)
    live.reaches(blocker, "RUNNING")
    with Person(live) as person:
        id = person.job()
        person.sees(f"job {id} waits")
        person.type("\x03")
        person.sees(f"job {id} is cancelled")
        assert person.ends() == 130
    assert live.wait(id)["state"] == "CANCELLED"
    with Person(live) as person:  # whose terminal goes away
        id = person.job()
        person.sees(f"job {id} waits")
        person.command.send_signal(signal.SIGHUP)
        assert person.ends() == 130
    assert live.wait(id)["state"] == "CANCELLED"
    live.act(blocker, "cancel", force=True)
    with Person(live, "--", "sh", "-c", "echo was here; exit 4") as person:
        id = person.job()
        person.sees("was here")
        assert person.ends() == 4


@pytest.mark.soak
def test_left_and_taken_up_again(live: LiveCluster) -> None:
    """What was printed meanwhile is there; one terminal at a time, the newest; nobody else's but admins'."""
    with Person(live) as person:
        id = person.job()
        pid = pid_of(person)
        person.type("(sleep 0.3; echo mean''while) &\n")
        person.type(LEAVE)
        person.sees(f"`rota shell --attach {id}` comes back")
        assert person.ends() == 0
    live.until(lambda: "meanwhile" in log_of(live, id), "what is printed while nobody is there")
    with Person(live, "--attach", id) as one, Person(live, "--attach", id) as other:
        for person in (one, other):  # one of them may have put out the other already
            person.type("")
        winner, loser = _winner(one, other)
        winner.sees("meanwhile")
        assert pid_of(winner) == pid
        assert loser.ends() == 1
        assert "another terminal has attached" in loser.text
        bob, alice = _user(live, "bob"), _user(live, "alice")
        for stranger in (bob, alice):
            with pytest.raises(Refused) as caught:
                stranger.call("POST", f"/v1/jobs/{id}/terminal", {})
            assert caught.value.status == 403
        winner.dies()
    with Person(live, "--attach", id) as person:
        assert pid_of(person) == pid
        person.type("exit\n")
        assert person.ends() == 0
    assert not is_there(pid)
    with Person(live, "--attach", id) as person:  # who comes too late is told so
        person.sees(f"job {id} has completed already")
        assert person.ends() == 0


def test_who_comes_while_it_is_being_ended_is_told(live: LiveCluster) -> None:
    deaf = "trap '' TERM HUP; echo is de''af; while :; do sleep 1; done"
    with Person(live, "--grace", "1h", "--", "sh", "-c", deaf) as person:
        id = person.job()
        person.sees("is deaf")
        person.type(LEAVE)
        assert person.ends() == 0
    live.act(id, "cancel")
    live.reaches(id, "COMPLETING")
    with Person(live, "--attach", id) as person:
        person.sees(f"job {id} has been told to end")
        live.act(id, "cancel", force=True)
        assert person.ends() == 130


def test_a_client_that_is_told_to_go_leaves_its_terminal_as_it_was(live: LiveCluster) -> None:
    """And the job to itself."""
    with Person(live) as person:
        id = person.job()
        pid = pid_of(person)
        person.command.send_signal(signal.SIGTERM)
        assert person.ends() == 128 + signal.SIGTERM
    with Person(live, "--attach", id) as person:
        assert pid_of(person) == pid
        person.type("exit\n")
        assert person.ends() == 0


@pytest.mark.soak
def test_a_shell_on_a_lost_node_is_over(tmp_path: Path) -> None:
    """It is not begun anew, where nobody sits."""
    with (
        LiveCluster(tmp_path, devices="cpu:1", lost_after=4.0) as live,
        Person(live, "--time", "1h") as person,
    ):
        id = person.job()
        pid = pid_of(person)
        live.kill_agent()
        assert live.wait(id)["state"] == "NODE_FAIL"
        assert person.ends() != 0
        assert f"job {id} ended: node_fail, node n1 is not heard of" in person.text
        live.start_agent()
        live.until(lambda: not is_there(pid), "the end of the old shell")
        assert len(attempts(live, id)) == 1


def _winner(one: Person, other: Person) -> tuple[Person, Person]:
    while True:
        for person, rest in ((one, other), (other, one)):
            person._read(0.0)
            if "another terminal has attached" in person.text or person.command.poll() is not None:
                return rest, person


def _user(live: LiveCluster, name: str) -> Client:
    body = {"name": name, "tenant": f"team/{name}"}
    if name == "alice":
        body["account"] = pwd.getpwuid(65534).pw_name
    token = live.client.call("POST", "/v1/users", body)["token"]
    return Client(json.loads((live.home / "controller.json").read_text())["url"], token)


@pytest.mark.soak
def test_it_outlives_all_but_its_shim(live: LiveCluster) -> None:
    """Agent and controller are killed under a person's hands, one after the other and both: it goes on."""
    with Person(live, "--time", "1h") as person:
        id = person.job()
        pid = pid_of(person)
        live.kill_agent()
        live.start_agent()
        assert pid_of(person) == pid
        live.kill_controller()
        live.kill_agent()
        live.start_controller()
        live.start_agent()
        assert pid_of(person) == pid
        assert len(attempts(live, id)) == 1
        live.act(id, "cancel")
        assert person.ends() == 130
    assert live.wait(id)["state"] == "CANCELLED"
    assert not is_there(pid)


def test_it_ends_with_its_shim(live: LiveCluster) -> None:
    """It is not begun anew: nobody's work goes on there."""
    with Person(live) as person:
        id = person.job()
        pid = pid_of(person)
        shim = json.loads((live.agent_home() / f"attempts/{int(id) - 1}/1/shim.json").read_text())["pid"]
        os.kill(shim, signal.SIGKILL)
        assert person.ends() == 1
        assert f"job {id} ended: " in person.text
    assert len(attempts(live, id)) == 1
    live.until(lambda: not is_there(pid), "the end of the shell")


def test_what_has_no_terminal_says_so(live: LiveCluster) -> None:
    id = live.submit("sleep", "600")
    error = refused(live, "POST", f"/v1/jobs/{id}/terminal", {})
    assert (error.status, str(error)) == (
        409,
        f"job {id} has no terminal; `rota shell` begins one that has, `rota attach` follows it",
    )
