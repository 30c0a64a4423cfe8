"""`rota up`, `down`, `status`, `config`, `agent` with real processes, and all that can be in their way."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import mkdtemp
from typing import Any
from unittest.mock import patch

import pytest
import yaml
from shell_play import rota, rota_process

from mounts import small_disk
from new_store import put_new_store
from rota.cli import service
from rota.cli.background import last_error
from rota.client import Client, Refused
from rota.server.store.store import Store
from tiers import in_turns

pytestmark = pytest.mark.slow


ASK = ("config", "status", "submit")
"""They start nothing and end nothing: those run here, the others in processes of their own, as they would."""


class Shell:
    """`rota` in a ROTA_HOME of its own; every process of it is killed at the end."""

    def __init__(self) -> None:
        self.home = Path(mkdtemp(prefix="rota-service-"))  # short enough for the address of a socket
        names = [name for name in os.environ if name.startswith("ROTA_")]
        self.environment = {k: v for k, v in os.environ.items() if k not in names}
        self.environment["ROTA_HOME"] = str(self.home)

    def rota(self, *words: str, code: int | None = 0, **environment: str) -> str:
        """What it says; `code` is the exit code it must have."""
        with patch.dict(os.environ, {**self.environment, **environment}, clear=True):
            done = (rota if words[0] in ASK else rota_process)(*words)
        said = done.out + done.err
        assert "Traceback" not in said, said
        assert code is None or done.status == code, said
        return said

    def up(self, *words: str, code: int = 0) -> str:
        return self.rota("up", "--devices", "cpu:1", *words, code=code)

    def refused(self, *words: str, code: int, **environment: str) -> str:
        """One sentence."""
        said = " ".join(self.rota(*words, code=code, **environment).split())
        assert said.count("Error") <= 1
        return said

    def pid(self, name: str) -> int:
        if name == "agent":
            return int((self.home / "agent/lock").read_text())
        return int(json.loads((self.home / "controller.json").read_text())["pid"])

    def kill(self, name: str) -> None:
        """kill -9; when it returns all that it held is free."""
        process = os.pidfd_open(self.pid(name))
        signal.pidfd_send_signal(process, signal.SIGKILL)
        ended, _, _ = select.select([process], [], [], 60.0)
        os.close(process)
        assert ended, f"{name} cannot be killed"

    def processes(self) -> list[int]:
        """All that work for this home, jobs included."""
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                words = (folder / "cmdline").read_bytes()
                around = (folder / "environ").read_bytes()
                is_dead = (folder / "stat").read_text().rpartition(")")[2].split()[0] == "Z"
            except OSError:
                continue
            mine = os.fsencode(self.home) in words or b"ROTA_ATTEMPT_DIR=" + os.fsencode(self.home) in around
            if mine and not is_dead and int(folder.name) != os.getpid():
                found.append(int(folder.name))
        return found

    def close(self) -> None:
        until = time.monotonic() + 10
        while (left := self.processes()) and time.monotonic() < until:
            for pid in left:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    continue
            time.sleep(0.02)
        shutil.rmtree(self.home, ignore_errors=True)


@pytest.fixture
def bare() -> Iterator[Shell]:
    """An empty home."""
    shell = Shell()
    yield shell
    shell.close()


@pytest.fixture
def shell(bare: Shell) -> Shell:
    """A home with a store that has just been made."""
    put_new_store(bare.home)
    return bare


def test_a_life(bare: Shell) -> None:
    """Up; up again; jobs outlive `down`; `up` finds them; `down --kill-jobs` ends them."""
    shell = bare
    said = shell.up("--name", "small")
    assert "rota is up: 1 node, 1 device, policy fifo" in said
    pids = shell.pid("controller"), shell.pid("agent")
    said = shell.up("--name", "small")
    assert "rota was up already" in said
    assert "rota down" not in said, "it is as it was asked for"
    said = " ".join(shell.up("--min-run", "7s", "--policy", "fifo:skip=yes").split())
    assert "the controller was up already, without this --min-run; `rota down` first" in said
    assert "stays" not in said
    said = " ".join(shell.up("--policy", "srtf").split())
    assert "policy fifo:skip=yes stays" in said
    assert "`rota policy set srtf` changes it" in said
    assert (shell.pid("controller"), shell.pid("agent")) == pids
    assert "small" in shell.rota("status")
    assert json.loads(shell.rota("status", "--json"))["gpus"] == 1

    shell.rota("submit", "--", "sleep", "600")
    assert wait_for(shell, "1", "RUNNING")["attempt"] == 1
    assert "stopped: agent, controller" in shell.rota("down")
    assert not (shell.home / "controller.json").exists()
    assert len(shell.processes()) >= 2, "shim and job run on"
    assert "but 1 job left running, found again by `rota up`" in shell.rota("down")
    assert "1 job left running" in shell.refused("down", "--kill-jobs", code=1)
    assert "rota up" in shell.refused("status", code=1)

    assert "rota is up" in shell.up()
    job = wait_for(shell, "1", "RUNNING")
    assert (job["attempt"], job["preemptions"]) == (1, 0)
    shell.kill("controller")
    assert "rota is up" in shell.up(), "what a killed controller left is in nobody's way"
    assert wait_for(shell, "1", "RUNNING")["attempt"] == 1
    assert json.loads(shell.rota("down", "--kill-jobs", "--json"))["cancelled"] == 1
    until = time.monotonic() + 60
    while shell.processes() and time.monotonic() < until:
        time.sleep(0.02)
    assert shell.processes() == []


def wait_for(shell: Shell, id: str, state: str) -> dict[str, object]:
    until = time.monotonic() + 60
    job: dict[str, object] = {}
    with Client(str(shell.home / "controller.sock")) as client:
        while time.monotonic() < until:
            job = client.call("GET", f"/v1/jobs/{id}")["job"]
            if job["state"] == state:
                return job
            time.sleep(0.02)
    raise AssertionError(f"job {id} is {job}, not {state}")


@pytest.mark.soak
def test_an_agent_that_was_killed_is_told_at_once(shell: Shell) -> None:
    """Long before its silence has lasted `lost_after`; and not any more once there is another."""
    shell.up("--node", "here", "--lost-after", "10m")
    assert "trouble" not in shell.rota("status")
    shell.kill("agent")
    said = " ".join(shell.rota("status").split())
    assert "trouble the agent of this machine (node here) does not run: jobs here go on; `rota up`" in said
    assert len(json.loads(shell.rota("status", "--json"))["troubles"]) == 1
    shell.up()
    assert "trouble" not in shell.rota("status")


@pytest.mark.soak
def test_a_number_that_another_process_has_now(shell: Shell) -> None:
    """Neither `up` nor `down` takes a stranger, or another cluster's controller, for its own."""
    stranger = subprocess.Popen([sys.executable, "-c", "input()", "rota.server.main"], stdin=subprocess.PIPE)
    try:
        note = {"url": "http://127.0.0.1:1", "pid": stranger.pid}
        (shell.home / "controller.json").write_text(json.dumps(note))
        (shell.home / "agent").mkdir()
        (shell.home / "agent/lock").write_text(f"{stranger.pid}\n")
        assert "nothing runs in" in shell.rota("down")
        assert "rota is up" in shell.up()
        shell.rota("down")
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.communicate()


@pytest.mark.soak
@pytest.mark.parametrize(("name", "lock"), [("controller", "rota.db.lock"), ("agent", "agent/lock")])
def test_up_waits_for_a_predecessor_that_has_not_quite_gone(shell: Shell, name: str, lock: str) -> None:
    """It got SIGTERM and takes its time (we have its lock in its place): `up` says for whom it waits."""
    path = shell.home / lock
    path.parent.mkdir(exist_ok=True)
    words = [sys.executable, "-m", "rota.cli.main", "up", "--devices", "cpu:1"]
    with path.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        held.write(f"{os.getpid()} leaving\n")
        held.flush()
        with subprocess.Popen(
            words, env=shell.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as up:
            assert up.stderr is not None
            said = up.stderr.readline()
            fcntl.flock(held, fcntl.LOCK_UN)
            rest, _ = up.communicate(timeout=90)
    assert f"rota: the {name} waits for process {os.getpid()}, which still has the lock of" in said
    assert up.returncode == 0
    assert "1 node, 1 device" in rest


@pytest.mark.soak
@pytest.mark.parametrize("name", ["controller", "agent"])
def test_up_right_after_a_sigterm(shell: Shell, name: str) -> None:
    """The one that is about to leave is not taken for one that runs."""
    shell.up()
    old = shell.pid(name)
    os.kill(old, signal.SIGTERM)
    shell.up()
    assert shell.pid(name) != old
    assert json.loads(shell.rota("status", "--json"))["troubles"] == []


@pytest.mark.soak
def test_two_at_once_start_one_cluster(shell: Shell) -> None:
    """Else the second one's processes wait for the locks of the first one's, and `rota down` lets them in."""
    words = [sys.executable, "-m", "rota.cli.main", "up", "--devices", "cpu:1"]
    ups = [
        subprocess.Popen(
            words, env=shell.environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        for _ in range(2)
    ]
    said = sorted(up.communicate(timeout=60)[0] for up in ups)
    assert [up.returncode for up in ups] == [0, 0], said
    assert "rota is up: 1 node, 1 device" in said[0]
    assert "rota was up already: 1 node, 1 device" in said[1]
    assert sorted(shell.processes()) == sorted([shell.pid("controller"), shell.pid("agent")])
    assert "stopped: agent, controller" in shell.rota("down")
    nothing_is_left(shell)


def test_passwords_do_not_show_in_lists_of_processes(shell: Shell) -> None:
    """Of `rota up` itself, while it waits for what it has started."""
    blocked = shell.home / "blocked"
    os.mkfifo(blocked)
    url = "postgresql+psycopg://rota:geheim-42@127.0.0.1:9/rota"
    words = [sys.executable, "-m", "rota.cli.main", "up", "--config", str(blocked), "--database-url", url]
    with subprocess.Popen(words, env=shell.environment, stderr=subprocess.PIPE, text=True) as up:
        shown = Path(f"/proc/{up.pid}/cmdline")
        until = time.monotonic() + 30
        while b"rota:*********@127" not in shown.read_bytes() and time.monotonic() < until:
            time.sleep(0.01)
        seen = shown.read_bytes()
        blocked.write_text("nosuch: 1\n")
        _, said = up.communicate(timeout=60)
    assert b"geheim" not in seen
    assert b"\0--database-url\0postgresql+psycopg://rota:*********@127.0.0.1:9/rota\0" in seen
    assert "geheim" not in said
    assert "ROTA_DATABASE_URL" in said


@pytest.mark.soak
@pytest.mark.parametrize(
    ("url", "is_told"),
    [
        ("postgresql+psycopg://rota@127.0.0.1:9/rota", False),
        ("postgresql+psycopg://rota:geheim@127.0.0.1:9/rota", True),
        ("postgresql+psycopg://rota:ge/he@im@127.0.0.1:9/rota", True),
        ("postgresql+psycopg:///rota?host=127.0.0.1&password=geheim", True),
    ],
)
def test_a_password_is_told_of_where_there_is_one(shell: Shell, url: str, is_told: bool) -> None:
    settings = shell.home / "strange.yaml"
    settings.write_text("nosuch: 1\n")
    said = shell.refused("up", "--config", str(settings), "--database-url", url, code=2)
    assert ("a password in --database-url shows in `ps`" in said) is is_told
    assert "nosuch" in said
    assert "geheim" not in said


def test_no_agent_is_wanted(shell: Shell) -> None:
    said = shell.rota("up", "--devices", "none")
    assert "0 nodes, 0 devices" in said


# -- what is in the way ----------------------------------------------------------------------------


def nothing_is_left(shell: Shell) -> None:
    until = time.monotonic() + 60
    while shell.processes() and time.monotonic() < until:
        time.sleep(0.02)
    assert shell.processes() == []
    assert not (shell.home / "controller.json").exists()


def test_a_port_that_is_taken(shell: Shell) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        said = shell.refused("up", "--devices", "cpu:1", "--port", str(port), code=1)
    assert f"the controller does not start: cannot listen at 127.0.0.1:{port}" in said
    nothing_is_left(shell)


def test_the_port_of_last_time_is_taken_and_the_network_sees_all(shell: Shell) -> None:
    """Both are said at the start, not only by who asks for the status."""
    with socket.create_server(("0.0.0.0", 0)) as taken:
        port = taken.getsockname()[1]
        (shell.home / "controller.port").write_text(str(port))
        said = " ".join(shell.rota("up", "--devices", "none", "--host", "0.0.0.0").split())
    assert f"cannot listen at 0.0.0.0:{port}: Address already in use" in said
    assert "the API listens at 0.0.0.0 without TLS" in said
    assert "rota is up: 0 nodes" in said


@pytest.mark.soak
def test_another_database_does_not_know_the_agent(shell: Shell) -> None:
    """Its jobs run on, since they may be another store's; the sentence says how to begin anew."""
    shell.up()
    shell.rota("submit", "--", "sleep", "600")
    wait_for(shell, "1", "RUNNING")
    shell.rota("down")
    job = shell.processes()
    other = f"sqlite:///{shell.home}/other.db"
    said = shell.refused("up", "--devices", "cpu:1", "--database-url", other, code=1)
    assert "its node is not known to this controller (is it another database?)" in said
    shell.rota("down")
    assert job, "its shim and itself"
    assert shell.processes() == job
    assert "rota is up" in shell.up()
    assert wait_for(shell, "1", "RUNNING")["attempt"] == 1


def test_which_line_says_why_a_process_ended() -> None:
    error, end = (
        json.dumps({"level": level, "message": said}) for level, said in (("error", "no"), ("info", "gone"))
    )
    assert last_error([error, error.replace("no", "why"), end]) == error.replace("no", "why")
    assert last_error([error, "cannot listen"]) == "cannot listen"
    assert last_error([end]) == end


@pytest.mark.soak
def test_a_policy_that_does_not_exist(shell: Shell) -> None:
    said = shell.refused("up", "--devices", "cpu:1", "--policy", "fifoo", code=2)
    assert "fifoo" in said
    nothing_is_left(shell)
    assert "policy srtf" in shell.up("--policy", "srtf"), "the first start is still to come"
    said = shell.up("--policy", "fifoo", code=2)
    assert "did you mean" in said, "also where another one decides already"
    assert "policy set" not in said


@pytest.mark.soak
def test_another_controller_on_the_same_store(shell: Shell) -> None:
    store = Store.open(None, shell.home)
    try:
        said = shell.refused("up", "--devices", "cpu:1", code=1)
    finally:
        store.close()
    assert "the controller does not start" in said
    assert "rota.db" in said
    nothing_is_left(shell)


@pytest.mark.soak
def test_a_database_that_is_none(shell: Shell) -> None:
    (shell.home / "rota.db").write_text("these are no tables, these are only words" * 100)
    said = shell.refused("up", "--devices", "cpu:1", code=1)
    assert "the controller does not start" in said
    assert "rota.db" in said
    nothing_is_left(shell)


def test_a_home_that_cannot_be(shell: Shell) -> None:
    (shell.home / "file").write_text("")
    assert "cannot be read" in shell.refused("up", code=2, ROTA_HOME=str(shell.home / "file"))
    said = shell.refused("up", code=1, ROTA_HOME="/proc/rota")
    assert "cannot write in /proc/rota" in said
    assert "let ROTA_HOME name a folder that you may write" in said


@pytest.mark.soak
@pytest.mark.parametrize("room", [0, 4096], ids=["for nothing", "for a block"])
def test_a_full_disk(bare: Shell, tmp_path: Path, room: int) -> None:
    """The process has no room to say why it does not start, or for half of its sentence."""
    with small_disk(tmp_path / "disk", "1m") as disk:
        home = disk / "home"
        (home / "logs").mkdir(parents=True)
        for name in ("controller.log", "agent.log"):
            (home / "logs" / name).touch()
        with open(disk / "filler", "wb") as out:
            os.posix_fallocate(out.fileno(), 0, shutil.disk_usage(disk).free - room)
        said = bare.refused("up", "--devices", "cpu:1", code=1, ROTA_HOME=str(home))
        assert "the controller does not start" in said
        assert str(home) in said
        assert "free some space there" in said
        assert "said nothing" not in said


@pytest.mark.soak
@pytest.mark.parametrize("devices", ["gpu:7", "cpu:0"])
def test_devices_that_name_none(shell: Shell, devices: str) -> None:
    """Nothing is started."""
    assert f"--devices: '{devices}' names no devices" in shell.refused("up", "--devices", devices, code=2)
    said = shell.refused("up", "--devices", "cpu:1", "--node", "my host", code=2)
    assert "--node: 'my host' is no name for a node" in said
    assert "nothing runs in" in shell.rota("down")


@pytest.mark.soak
@pytest.mark.skipif(Path("/dev/nvidiactl").exists(), reason="this machine has NVIDIA devices")
def test_devices_that_do_not_exist(shell: Shell) -> None:
    """The controller runs, and the message says so."""
    said = shell.rota("up", "--devices", "nvidia", code=None)
    assert "the agent does not start" in said
    assert "the controller runs, `rota down` stops it" in " ".join(said.split())
    assert "stopped: controller" in shell.rota("down")
    nothing_is_left(shell)


WRONG = {
    "polcy: fifo\n": "did you mean 'policy'?",
    "min_run: 30\n": "is not a duration",
    ": [": "not YAML",
}


@pytest.mark.parametrize(("text", "command"), in_turns(1, WRONG, ["up --devices cpu:1", "config"]))
def test_a_wrong_file(shell: Shell, text: str, command: str) -> None:
    (shell.home / "config.yaml").write_text(text)
    assert WRONG[text] in shell.refused(*command.split(), code=2)
    nothing_is_left(shell)


def test_config_shows_values_and_sources(shell: Shell) -> None:
    (shell.home / "config.yaml").write_text("min_run: 30s\n")
    shown = json.loads(shell.rota("config", "--json", ROTA_POLICY="las"))
    assert (shown["min_run"]["value"], shown["min_run"]["from"]) == ("30s", str(shell.home / "config.yaml"))
    assert (shown["policy"]["value"], shown["policy"]["from"]) == ("las", "ROTA_POLICY")
    assert shown["suspend_memory_gib"]["value"] == "0.0", "which can be written as a setting"
    (line,) = (one for one in shell.rota("config").splitlines() if one.startswith("suspend_memory_gib"))
    assert line.split(None, 1)[1].split("  ")[0] == "half of the machine"
    assert "out of memory" in shell.rota("config", "--failures")


def test_config_shows_what_only_the_file_has_as_the_file_has_it(shell: Shell) -> None:
    """Entries that could be copied into one, and the very values as JSON."""
    file = shell.home / "config.yaml"
    written = {
        "tenants": {"vision/ann": {"quota": 32, "hard": True, "by_type": {"A100": 8}}, "speech": None},
        "caps": {"jobs": 5000, "tenants": {"vision": {"priority": 500}}},
        "failures": [{"name": "licence: gone", "cause": "infrastructure", "codes": [3, 4], "log": "no 'x'"}],
    }
    file.write_text(yaml.safe_dump(written, sort_keys=False))
    shown = shell.rota("config")
    at = shown.index("tenants:")
    rows = [row.partition(str(file))[0] for row in shown[at:].splitlines()]
    assert yaml.safe_load("\n".join(rows)) == written
    assert "  vision/ann: {quota: 32, hard: true, by_type: {A100: 8}}\n" in shown
    assert json.loads(shell.rota("config", "--json"))["tenants"] == {
        "value": written["tenants"],
        "from": str(file),
    }
    file.write_text("min_run: 30s\n")
    shown = shell.rota("config")
    assert [line.split() for line in shown.splitlines()[-7:]] == [
        ["tenants", "-", "default"],
        ["layout", "-", "default"],
        ["caps", "-", "default"],
        ["notify", "-", "default"],
        ["autoscale", "-", "default"],
        ["prices", "-", "default"],
        ["failures", "-", "default"],
    ]


def test_an_agent_joins_over_the_network(shell: Shell) -> None:
    said = shell.refused("agent", "--join", "http://127.0.0.1:9", "--devices", "cpu:1", code=2)
    assert "join token" in said
    said = shell.refused(
        "agent", "--join", "http://127.0.0.1:9", "--token", "a.b", "--devices", "cpu:1", code=1
    )
    assert "127.0.0.1:9" in said


class Unreachable:
    """A controller with two jobs that end at once and one on a machine that does not answer."""

    def call(self, method: str, path: str, body: object = None, **_: Any) -> Any:
        if path == "/v1/jobs":
            states = {"1": "PENDING", "2": "RUNNING", "3": "RUNNING"}
            return [{"id": id, "state": state} for id, state in states.items()]
        id = path.split("/")[3]
        is_gone = id == "1" or (id == "2" and path.endswith("wait"))
        return {"id": id, "state": "CANCELLED" if is_gone else "COMPLETING"}


def test_down_names_the_jobs_that_may_still_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "connect", lambda: contextlib.nullcontext(Unreachable()))
    assert service._end_all_jobs() == (3, ["3"])


@pytest.mark.parametrize("kill_jobs", [False, True])
def test_down_where_nothing_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], kill_jobs: bool
) -> None:
    """There is nothing to stop, and with --kill-jobs nothing to end: that is no failure."""
    monkeypatch.setenv("ROTA_HOME", str(tmp_path))
    service.down(kill_jobs=kill_jobs, as_json=False)
    assert capsys.readouterr().out == f"nothing runs in {tmp_path}\n"


def test_down_passes_over_a_job_that_has_just_ended() -> None:
    """Between the list and the call: what is over need not be cancelled, and the rest is not left to run."""

    class Late:
        def call(self, *_: object) -> dict[str, object]:
            raise Refused(409, "job 3: it has ended")

    assert service._cancel(Late(), "3")["state"] == "CANCELLED"  # type: ignore[arg-type]


@pytest.mark.slow
def test_settings_are_read_where_no_controller_can_run(tmp_path: Path) -> None:
    """`rota config` and `rota tenants apply` serve those who have Rota without `[server]`."""
    program = (
        "import sys; sys.modules.update(dict.fromkeys(('sqlalchemy', 'fastapi', 'uvicorn'))); "
        "sys.argv = ['rota', 'config']; from rota.cli.main import main; main()"
    )
    said = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "ROTA_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (said.returncode, said.stderr) == (0, "")
    assert "min_run" in said.stdout
