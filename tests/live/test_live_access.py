"""Who may do what on a real cluster, and as whom commands run."""

from __future__ import annotations

import json
import os
import pwd
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from live_cluster import LiveCluster
from shared import emptied, log_of, python, refused

from rota.client import Client, Refused

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root runs commands as others")


@pytest.fixture(scope="module")
def shared() -> Iterator[LiveCluster]:
    """In a folder that other accounts may enter."""
    with tempfile.TemporaryDirectory(prefix="rota-live-", ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o755)
        with LiveCluster(Path(folder), devices="cpu:2") as cluster:
            yield cluster


@pytest.fixture
def live(shared: LiveCluster) -> Iterator[LiveCluster]:
    yield from emptied(shared)


def user(live: LiveCluster, name: str, **more: object) -> Client:
    """A client of a new user, over TCP."""
    token = live.client.call("POST", "/v1/users", {"name": name, **more})["token"]
    return Client(json.loads((live.home / "controller.json").read_text())["url"], token)


def submitted(client: Client, *command: str, **spec: object) -> str:
    body = {"spec": {"command": list(command), "grace_s": 1.0, **spec}}
    return str(client.call("POST", "/v1/jobs", body)["jobs"][0]["id"])


def test_nobody_touches_the_jobs_of_another_tenant(live: LiveCluster) -> None:
    account = pwd.getpwuid(os.geteuid()).pw_name
    alice, bob = user(live, "alice", account=account), user(live, "bob", account="daemon")
    id = submitted(alice, "sleep", "600")
    live.reaches(id, "RUNNING")
    calls: list[tuple[str, str, object]]
    calls = [("POST", f"/v1/jobs/{id}/{verb}", {}) for verb in ("cancel", "hold", "suspend", "requeue")]
    array = submitted(alice, "true", array="1-2", hold=True).partition("_")[0]
    calls += [("POST", f"/v1/jobs/{array}/cancel", {})]
    calls += [("PATCH", f"/v1/jobs/{id}", {"priority": 9}), ("GET", f"/v1/jobs/{id}/logs", None)]
    calls += [("POST", "/v1/nodes/n1/drain", {}), ("PUT", "/v1/policy", {"policy": "fifo"})]
    calls += [("POST", "/v1/jobs", {"spec": {"command": ["true"], "tenant": "alice"}})]
    for method, path, body in calls:
        with pytest.raises(Refused) as caught:
            bob.call(method, path, body)
        assert caught.value.status == 403, path
    assert live.job(id)["state"] == "RUNNING"
    alice.call("POST", f"/v1/jobs/{id}/cancel", {"force": True})
    assert live.wait(id)["state"] == "CANCELLED"


@pytest.mark.parametrize(
    ("new", "sentence"),
    [
        ({"account": "one"}, "account 'one' is that of user 'dora'"),
        ({"tenant": "a//b"}, "tenant 'a//b' is no path"),
        ({"tenant": "../.."}, "tenant '../..' is no path"),
    ],
)
def test_users_that_cannot_be(live: LiveCluster, new: dict[str, str], sentence: str) -> None:
    names = {one["name"] for one in live.client.call("GET", "/v1/users")}
    if "dora" not in names:
        user(live, "dora", account="one")
    with pytest.raises(Refused) as caught:
        live.client.call("POST", "/v1/users", {"name": "eve", **new})
    assert (caught.value.status, sentence in str(caught.value)) == (400, True)
    assert "eve" not in {one["name"] for one in live.client.call("GET", "/v1/users")}


@pytest.mark.parametrize("wrong", [{"tenant": "//"}, {"array": "1-3%0"}, {"array": "3-1"}])
@pytest.mark.parametrize("query", [{}, {"dry_run": True}], ids=["submitted", "dry run"])
def test_jobs_that_cannot_be(live: LiveCluster, wrong: dict[str, str], query: dict[str, object]) -> None:
    """Also for those who do not ask by the command line."""
    with pytest.raises(Refused) as caught:
        live.client.call("POST", "/v1/jobs", {"spec": {"command": ["true"], **wrong}}, query)
    assert caught.value.status == 400


def test_without_a_token_there_is_nothing_but_health(live: LiveCluster) -> None:
    stranger = Client(json.loads((live.home / "controller.json").read_text())["url"])
    assert stranger.call("GET", "/health")["ok"]
    with pytest.raises(Refused) as caught:
        stranger.call("GET", "/v1/jobs")
    assert caught.value.status == 401
    assert (live.home / "tokens" / "admin").stat().st_mode & 0o777 == 0o600


@needs_root
def test_commands_run_as_the_user_who_submitted_them(live: LiveCluster) -> None:
    """With that account's rights, in folders of its own; `rota.training` is there for it."""
    client = user(live, "carol", account="nobody")
    code = """
import rota.training
print(os.getuid(), os.getgid(), os.environ["USER"])
open(os.environ["ROTA_CHECKPOINT_DIR"] + "/mine", "w").close()
try:
    open(os.path.dirname(os.environ["ROTA_TRAINING_DIR"]) + "/launch.json")
except PermissionError:
    print("orders are not ours to read")
"""
    command = python(code)
    command[:1] = ["/usr/bin/python3"]
    id = submitted(client, *command, workdir="/")
    job = live.wait(id)
    entry = pwd.getpwnam("nobody")
    assert job["state"] == "COMPLETED", log_of(live, id)
    assert log_of(live, id) == f"{entry.pw_uid} {entry.pw_gid} nobody\norders are not ours to read\n"
    assert client.call("GET", f"/v1/jobs/{id}/logs")["text"] == log_of(live, id)


@needs_root
def test_an_account_that_is_missing_is_named(live: LiveCluster) -> None:
    client = user(live, "dave", account="no-such-account")
    id = submitted(client, "true", retries=0)
    live.until(lambda: "has no user 'no-such-account'" in (live.job(id)["cause"] or ""), "the cause")
    job = live.job(id)
    assert job["state"] == "PENDING", "it may be made any moment, and costs none of its retries"
    assert any("has no user 'no-such-account'" in one["sentence"] for one in live.why(id)["reasons"])
    assert client.call("POST", f"/v1/jobs/{id}/cancel")["state"] == "CANCELLED"


def test_what_is_not_there(live: LiveCluster) -> None:
    error = refused(live, "GET", "/v1/jobs/999999")
    assert (error.status, str(error)) == (404, "there is no job 999999; `rota ls --all` lists them")
