"""TCP and UNIX socket: who stands at the other end, stale files, taken ports, bugs, metrics."""

from __future__ import annotations

import os
import pwd
import socket
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from serving_toys import Stage, served

import rota
from rota.client import Client, Refused, Unreachable
from rota.client.http import socket_address
from rota.errors import WorldError
from rota.server.api.app import ApiSettings, create_app
from rota.server.http_server import LOOPBACK, PORT_FILE, Address, Serving

SOURCE = Path(rota.__file__).parents[1]
CALL = """
import os, sys
sys.path.insert(0, sys.argv[3])
from rota.client import Client, Refused
os.setgid(int(sys.argv[2])); os.setuid(int(sys.argv[2]))  # only now: it may not read the modules any more
client = Client(sys.argv[1], sys.argv[4])
try:
    print(client.call("GET", "/v1/whoami"))
except Refused as refused:
    print(refused.status, refused)
"""
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="takes another account: only root can become one")


def test_owner_of_the_socket_is_admin(stage: Stage) -> None:
    own = pwd.getpwuid(os.geteuid()).pw_name
    assert Client(str(stage.socket)).call("GET", "/v1/whoami") == {
        "name": own,
        "admin": True,
        "tenant": own,
        "account": "",
        "viewer": False,
    }
    assert Client(f"unix:{stage.socket}", stage.tokens["bob"]).call("GET", "/v1/whoami")["name"] == "bob"


def test_wrong_token_on_the_socket(stage: Stage) -> None:
    """A token that is given counts, whoever gives it."""
    with pytest.raises(Refused) as caught:
        Client(str(stage.socket), "no.token").call("GET", "/v1/whoami")
    assert caught.value.status == 401


def test_peer_does_not_leak_to_tcp(stage: Stage) -> None:
    Client(str(stage.socket)).call("GET", "/v1/whoami")
    with pytest.raises(Refused, match="needs a token"):
        stage.client("stranger").call("GET", "/v1/whoami")


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that other accounts may enter."""
    with tempfile.TemporaryDirectory(prefix="rota-open-") as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


@needs_root
def test_accounts_at_the_socket(open_folder: Path) -> None:
    """Another account is the user who has it; an account that nobody has is told so."""
    nobody, folder = pwd.getpwnam("nobody"), open_folder

    def call(uid: int, token: str = "") -> str:
        command = [sys.executable, "-c", CALL, str(folder / "c.sock"), str(uid), str(SOURCE), token]
        done = subprocess.run(command, capture_output=True, text=True, timeout=90, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    with served(folder) as own:
        said = call(nobody.pw_uid)
        assert said.startswith(f"403 no user of this cluster has the account 'nobody' (uid {nobody.pw_uid})")
        own.controller.add("ned", "outside", account="nobody")
        assert call(nobody.pw_uid) == str(
            {"name": "ned", "admin": False, "tenant": "outside", "account": "nobody", "viewer": False}
        )
        assert "'bob'" in call(nobody.pw_uid, own.tokens["bob"])
        assert call(54321).startswith("403 no user of this cluster has the account 'uid:54321'")
        assert call(0).startswith("{'name': 'root', 'admin': True")


def test_socket_file(tmp_path: Path) -> None:
    with served(tmp_path) as own:
        assert stat.S_IMODE(own.socket.stat().st_mode) == 0o666
        with pytest.raises(WorldError, match="another process listens at"):
            Serving(create_app(own.controller.services, own.controller.roster), Address(socket=own.socket))
        assert Client(str(own.socket)).call("GET", "/health")["ok"] is True
    assert [left.name for left in tmp_path.iterdir()] == [PORT_FILE], "nothing else is left"


def test_stale_socket_is_replaced(tmp_path: Path) -> None:
    """What a killed controller leaves."""
    dead = socket.socket(socket.AF_UNIX)
    dead.bind(str(tmp_path / "c.sock"))
    dead.close()
    with served(tmp_path) as own:
        assert Client(str(own.socket)).call("GET", "/health")["ok"] is True


def test_file_that_is_no_socket(tmp_path: Path) -> None:
    (tmp_path / "c.sock").write_text("precious")
    with pytest.raises(WorldError, match="is no socket; move it away"), served(tmp_path):
        pass
    assert (tmp_path / "c.sock").read_text() == "precious"


def test_socket_of_a_successor_stays(tmp_path: Path) -> None:
    with served(tmp_path) as own:
        own.socket.unlink()
        heir = socket.socket(socket.AF_UNIX)
        heir.bind(str(own.socket))
    assert own.socket.is_socket()
    heir.close()


def test_long_path(tmp_path: Path) -> None:
    """Longer than an address of the kernel can be."""
    deep = tmp_path / ("d" * 100) / ("e" * 100)
    deep.mkdir(parents=True)
    with served(deep) as own:
        assert len(str(own.socket)) > 200
        assert Client(str(own.socket)).call("GET", "/health")["ok"] is True
    with socket_address(Path("/short")) as address:
        assert address == "/short"


def test_taken_port(stage: Stage) -> None:
    app = create_app(stage.controller.services, stage.controller.roster)
    with pytest.raises(WorldError, match=rf"cannot listen at 127\.0\.0\.1:{stage.serving.port}: Address"):
        Serving(app, Address(port=stage.serving.port))


def test_the_port_of_last_time(stage: Stage, tmp_path: Path) -> None:
    """Machines that have joined know no other; only one that somebody has taken meanwhile is given up."""
    app = create_app(stage.controller.services, stage.controller.roster)
    address = Address(socket=tmp_path / "s")
    first = Serving(app, address)
    first.close()
    second = Serving(app, address)
    assert second.port == first.port
    second.close()
    with socket.socket() as other:
        other.bind((LOOPBACK, second.port))
        other.listen()
        third = Serving(app, address)
    assert third.port != first.port
    third.close()
    (tmp_path / PORT_FILE).write_text("no port")
    Serving(app, address).close()
    assert (tmp_path / PORT_FILE).read_text().isdecimal()


@pytest.mark.parametrize("address", [Address(host="nowhere.invalid"), Address(port=99999)])
def test_impossible_address(stage: Stage, address: Address) -> None:
    with pytest.raises(WorldError, match="cannot listen at"):
        Serving(create_app(stage.controller.services, stage.controller.roster), address)


def test_loopback_unless_told(stage: Stage) -> None:
    assert stage.serving.url.startswith("http://127.0.0.1:")


def test_stopped_server_is_unreachable(tmp_path: Path) -> None:
    with served(tmp_path) as own:
        client = own.client()
        client.call("GET", "/v1/whoami")
    with pytest.raises(Unreachable, match="no controller listens at"):
        client.call("GET", "/v1/whoami")


def test_health(tmp_path: Path) -> None:
    with served(tmp_path) as own:
        own.controller.well = False
        with pytest.raises(Refused, match="it was told to be unwell") as unwell:
            own.client("stranger").call("GET", "/health")
        assert unwell.value.status == 503


def test_bug(tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    """Answered with 500 and nothing of it; logged once, with its traceback; the next call works."""
    with served(tmp_path) as own:
        monkeypatch.setattr(own.controller, "status", lambda: 1 / 0)
        monkeypatch.setattr(own.controller, "sync", None)
        with pytest.raises(
            Refused, match=r"^something is wrong in the controller; its log says what$"
        ) as caught:
            own.client().call("GET", "/v1/status")
        assert caught.value.status == 500
        body = {"incarnation": "i", "seen": 0, "controller": ""}
        with pytest.raises(Refused, match="something is wrong"):
            own.client("agent").call("POST", "/v1/agents/n1/sync", body)
        assert own.client().call("GET", "/v1/nodes")[0]["name"] == "n1"
    errors = [record for record in caplog.records if record.levelname == "ERROR"]
    assert [record.getMessage() for record in errors] == [
        "GET /v1/status failed",
        "POST /v1/agents/n1/sync failed",
    ]
    assert errors[0].exc_info is not None
    assert errors[0].exc_info[0] is ZeroDivisionError


def test_metrics(stage: Stage) -> None:
    stage.client().call("POST", "/v1/jobs", {"spec": {"command": ["x"]}})
    with pytest.raises(Refused):
        stage.client().call("GET", "/v1/jobs/nix")
    page = stage.client().text("/metrics")
    assert 'rota_pending_jobs{tenant="vision/alice"} ' in page
    assert "rota_gpus 1.0\n" in page
    assert 'rota_api_requests_total{method="POST",route="/v1/jobs",status="201"}' in page
    assert 'route="/v1/jobs/{id}",status="404"' in page, "the route, never the job"
    with pytest.raises(Refused, match="needs a token"):
        stage.client("stranger").text("/metrics")


def test_open_metrics(tmp_path: Path) -> None:
    with served(tmp_path, ApiSettings(metrics_open=True)) as own:
        assert "rota_gpus " in own.client("stranger").text("/metrics")


def test_cluster(stage: Stage) -> None:
    admin = stage.client("admin")
    drained = admin.call("POST", "/v1/nodes/n1/drain", {"reason": "fan"})
    assert (drained["state"], drained["reason"]) == ("drained", "fan")
    assert admin.call("POST", "/v1/nodes/n1/undrain")["state"] == "up"
    with pytest.raises(Refused, match="there is no node 'n9'"):
        admin.call("POST", "/v1/nodes/n9/drain")
    assert stage.client().call("GET", "/v1/status")["nodes"] == 1


def test_policy(stage: Stage) -> None:
    admin = stage.client("admin")
    assert admin.call("PUT", "/v1/policy", {"policy": "las"})["policy"] == "las"
    assert admin.call("PUT", "/v1/policy/shadow", {"policy": "fifo"})["shadow"] == "fifo"
    assert admin.call("DELETE", "/v1/policy/shadow")["shadow"] == ""
    assert stage.client().call("GET", "/v1/policy")["policy"] == "las"
    with pytest.raises(Refused, match="no policy is called 'nix'; expected one of afs, ") as caught:
        admin.call("PUT", "/v1/policy", {"policy": "nix"})
    assert caught.value.status == 400
    asked = stage.client().call("POST", "/v1/whatif", {"policies": ["fifo", "las"], "duration": "history"})
    assert list(asked["basis"]) == ["history"]


def test_history(stage: Stage) -> None:
    job = stage.client().call("POST", "/v1/jobs", {"spec": {"command": ["x"]}})["jobs"][0]["id"]
    stage.controller.end(job)
    assert job in {one["id"] for one in stage.client().call("GET", "/v1/history")}
    assert stage.client().call("GET", "/v1/history", None, {"until": 1}) == []
    rows = stage.client().text("/v1/history", {"format": "csv"}).splitlines()
    assert rows[0] == "job,submit_s"
    assert rows[-1].startswith(f"{job},")


def test_import_is_quick() -> None:
    """The modules themselves; counted by Python, so that a busy machine does not fail it."""
    probe = "import sys, rota.server.http_server, rota.server.api.app; print(*sorted(sys.modules))"
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    assert not {"numpy", "polars", "scipy", "rich", "torch", "sqlalchemy"} & set(done.stdout.split())
