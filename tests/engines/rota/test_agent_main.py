"""The agent as a process: it joins once, keeps its token, and may be killed at any moment."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest
from agent_play import process, served, until_there

from rota.client.http import Refused
from rota.engines.rota.devices import CpuSlots
from rota.engines.rota.main import Membership, Options, is_local, locked, own_address
from rota.errors import InputError, WorldError
from rota.testing.engine_controller import PATIENCE_S, StandInController, part
from rota.wire.sync import PartStatus, Wanted


def test_killed_and_started_again_it_knows_everything(
    home: Path, tmp_path: Path, controller: StandInController
) -> None:
    with served(controller) as url:
        with process(home, url) as first:
            controller.order(part(0, run=["sleep", "600"]))
            controller.order(part(1, devices=(1,), run=until_there(tmp_path / "go", code=3)))
            pid = controller.status((0, 1), PartStatus.RUNNING).pids[0]
            controller.status((1, 1), PartStatus.RUNNING)
            first.send_signal(signal.SIGKILL)
            first.wait()
            assert (home / "token").read_text() == "agent-here\n"
            assert (home / "token").stat().st_mode & 0o777 == 0o600
        (tmp_path / "go").touch()
        exited = home / "attempts" / "1" / "1" / "exit.json"
        controller.until(exited.exists)
        with controller.changed:
            controller.requests.clear()
            controller.reports.clear()
        with process(home, url, token="") as second:
            end = controller.status((1, 1), PartStatus.ENDED).end
            assert end is not None
            assert end.code == 3
            report = controller.status((0, 1), PartStatus.RUNNING)
            assert report.pids == [pid]
            assert controller.requests[0].complete
            assert controller.requests[0].incarnation
            assert len(controller.joins) == 1, "what has not changed is not said again"  # type: ignore[attr-defined]
            controller.change((0, 1), Wanted.STOP)
            controller.status((0, 1), PartStatus.ENDED)
            second.terminate()
            assert second.wait(PATIENCE_S) == 0


def test_killed_in_the_middle_of_a_suspension(home: Path, controller: StandInController) -> None:
    with served(controller) as url:
        with process(home, url) as first:
            controller.order(part(0, run=["sleep", "600"]))
            pid = controller.status((0, 1), PartStatus.RUNNING).pids[0]
            controller.change((0, 1), Wanted.SUSPEND)
            controller.until(lambda: psutil.Process(pid).status() == psutil.STATUS_STOPPED)
            first.kill()
        with process(home, url):
            report = controller.status((0, 1), PartStatus.SUSPENDED)
            assert report.suspended_gib > 0
            controller.change((0, 1), Wanted.RUN, devices=[1])
            controller.status((0, 1), PartStatus.RUNNING)
            assert psutil.Process(pid).status() != psutil.STATUS_STOPPED


def test_it_takes_part_once_the_controller_has_answered(
    home: Path, tmp_path: Path, controller: StandInController
) -> None:
    """`rota agent` of a node that is known, while its controller is away: nothing is claimed before."""
    with served(controller) as url:
        with process(home, url):
            controller.until(lambda: controller.requests)
        controller.away = True
        said = tmp_path / "said"
        command = [sys.executable, "-m", "rota.cli.main", "agent", "--join", url, "--home", str(home)]
        with said.open("wb") as file:
            running = subprocess.Popen([*command, "--devices", "cpu:2", "--node", "here"], stderr=file)
        try:
            controller.until(lambda: "the controller does not take part: " in said.read_text())
            assert "node here takes part" not in said.read_text()
            controller.come_back()
            controller.until(lambda: "node here takes part\n" in said.read_text())
        finally:
            running.terminate()
            running.wait(PATIENCE_S)
        assert said.read_text().count("node here takes part\n") == 1


def test_two_agents_never_share_a_folder(home: Path, controller: StandInController) -> None:
    with served(controller) as url, process(home, url):
        controller.until(lambda: controller.requests)
        with process(home, url) as second:
            assert second.wait(PATIENCE_S) == 1
            assert second.stderr is not None
            assert b"another agent (process " in second.stderr.read()
    with locked(home):  # the lock goes with its holder
        pass


@pytest.mark.parametrize(
    ("arguments", "token", "sentence"),
    [
        (["--devices", "gpu"], "join", b"'gpu' names no devices"),
        (["--node=-a"], "join", b"--node: '-a' is no name for a node; expected letters, digits and _"),
        (["--node", "a, b"], "join", b"--node: 'a, b' is no name for a node; expected letters, digits and _"),
        ([], "", b"node 'here' has no token yet; expected a join token of the cluster"),
        ([], "wrong", b"that takes a join token"),
    ],
)
def test_what_keeps_it_out(
    home: Path, controller: StandInController, arguments: list[str], token: str, sentence: bytes
) -> None:
    with served(controller) as url, process(home, url, *arguments, token=token) as running:
        assert running.wait(PATIENCE_S) != 0
        assert running.stderr is not None
        text = running.stderr.read()
        assert sentence in text
        assert b"Traceback" not in text


def test_nobody_there(home: Path) -> None:
    with process(home, "http://127.0.0.1:9") as running:
        assert running.wait(PATIENCE_S) == 1
        assert running.stderr is not None
        assert b"no controller listens at http://127.0.0.1:9" in running.stderr.read()


class Desk:
    """Lets machines join that have the right token, and notes with what they tried."""

    def __init__(self, *good: str) -> None:
        self.good, self.tried = good, []  # type: ignore[var-annotated]

    def connect(self, address: str, token: str) -> Any:
        desk = self

        class Line:
            def call(self, method: str, path: str, body: Any = None, *_: Any, **__: Any) -> Any:
                desk.tried.append(token)
                if token not in desk.good:
                    raise Refused(403, "no")
                return {"node": body["name"], "token": "new"}

        line = Line()
        line.token = token  # type: ignore[attr-defined]
        return line


@pytest.mark.parametrize(
    ("kept", "changed", "join", "good", "tried", "outcome"),
    [
        ("", False, "join", ("join",), ["join"], "new"),
        ("old", False, "", (), [], "old"),
        ("old", True, "", ("old",), ["old"], "new"),
        ("old", True, "join", ("join",), ["old", "join"], "new"),
        ("old", True, "", (), ["old"], Refused),
        ("", False, "", (), [], InputError),
    ],
)
def test_membership(
    tmp_path: Path,
    kept: str,
    changed: bool,
    join: str,
    good: tuple[str, ...],
    tried: list[str],
    outcome: Any,
) -> None:
    options = Options(tmp_path, "http://127.0.0.1:1", join_token=join, node="here")
    if kept:
        first = Membership(
            Options(tmp_path, options.controller, "x", node="here"), CpuSlots(2, [0]), Desk("x").connect
        )
        first.transport()
        (tmp_path / "token").write_text(f"{kept}\n")
    desk = Desk(*good)
    membership = Membership(options, CpuSlots(3 if changed else 2, [0]), desk.connect)
    if isinstance(outcome, str):
        assert membership.transport().token == outcome  # type: ignore[attr-defined]
    else:
        with pytest.raises(outcome):
            membership.transport()
    assert desk.tried == tried


def test_a_token_that_is_not_accepted_any_more(tmp_path: Path) -> None:
    options = Options(tmp_path, "http://127.0.0.1:1", join_token="join", node="here")
    assert Membership(options, CpuSlots(1, [0]), Desk("join").connect).again() is not None
    assert Membership(options, CpuSlots(1, [0]), Desk().connect).again() is None
    bare = Options(tmp_path, "http://127.0.0.1:1", node="here")
    assert Membership(bare, CpuSlots(1, [0]), Desk("join").connect).again() is None


def test_why_it_may_not_join_again_is_said_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    options = Options(tmp_path, "http://127.0.0.1:1", join_token="join", node="here")
    membership = Membership(options, CpuSlots(1, [0]), Desk().connect)
    assert [membership.again() for _ in range(3)] == [None] * 3
    assert caplog.text.count("this node may not join again") == 1


def test_a_signal_that_comes_twice(tmp_path: Path) -> None:
    """The second one may come when the lock is gone, and its number another file's."""
    with locked(tmp_path / "agent") as lock:
        lock.leave()
    other = tmp_path / "other"
    with other.open("w"):  # takes the number that has just become free
        lock.leave()
    assert other.read_text() == ""


@pytest.mark.parametrize(
    ("controller", "local"),
    [
        ("/run/rota/controller.sock", True),
        ("http://127.0.0.1:80", True),
        ("http://localhost:80", True),
        ("http://[::1]:80", True),
        ("https://10.0.0.1", False),
        ("http://head", False),
    ],
)
def test_is_local(controller: str, local: bool) -> None:
    assert is_local(controller) is local


def test_own_address() -> None:
    assert own_address("http://127.0.0.1:80") == "127.0.0.1"
    with pytest.raises(WorldError, match=r"no machine 'no-such-host\.invalid' is known here$"):
        own_address("http://no-such-host.invalid:80")


@pytest.mark.soak
def test_an_idle_agent_sleeps(home: Path, controller: StandInController) -> None:
    """Less than 0.5 % of a core with ten jobs that sleep, once it is through with their start."""
    with served(controller) as url, process(home, url) as running:
        for row in range(10):
            controller.order(part(row, run=["sleep", "600"], share=0.2, devices=(row % 2,)))
        for row in range(10):
            controller.status((row, 1), PartStatus.RUNNING)
        agent = psutil.Process(running.pid)
        for _ in range(4):  # on a busy machine a start is still on its way for some seconds
            before, began_s = sum(agent.cpu_times()[:2]), time.monotonic()
            time.sleep(15.0)
            used = (sum(agent.cpu_times()[:2]) - before) / (time.monotonic() - began_s)
            if used < 0.005:
                break
        assert used < 0.005, f"{used:.2%} of a core"
        print(f"idle with ten jobs: {used:.2%} of a core, {agent.memory_info().rss / 2**20:.0f} MiB")
