"""Tokens and who may do what; every route is closed to whoever it is not for."""

from __future__ import annotations

import os
import stat
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from serving_toys import Stage, described, routes

from rota import __version__
from rota.cli.live.versions import told_apart
from rota.client import Client, Refused
from rota.errors import RotaError
from rota.model.atomic import write_secret
from rota.server.api.forms import NewUser
from rota.server.auth import (
    Roster,
    TokenRecord,
    Unauthorized,
    identify_peer,
    identify_token,
    mint,
)
from rota.server.callers import Caller
from rota.server.refusals import Forbidden
from rota.wire.protocol import PROTOCOL
from rota.wire.views import UserView

ALICE = UserView(name="alice", admin=False, tenant="vision", account="al")
NODE = {"address": "127.0.0.1", "cpus": 4, "memory_gib": 8, "boot_id": "b", "devices": [], "kind": "cpu"}

SYNC = {"incarnation": "i", "seen": 0, "controller": "", "wait_s": 0}


def filled(path: str) -> str:
    return path.format(id="1", node="n1", verb="drain" if "nodes" in path else "cancel", name="alice")


def test_the_page_lists_the_routes() -> None:
    """All of them, and no other."""
    assert sorted(routes()) == sorted(described())


@pytest.mark.parametrize(("method", "path"), routes())
def test_needs_a_token(stage: Stage, method: str, path: str) -> None:
    """All but /health."""
    with Client(stage.serving.url) as stranger:
        if path == "/health":
            assert list(stranger.call("GET", path)) == ["ok", "error", "version", "protocol", "now_s"]
            return
        with pytest.raises(Refused, match="needs a token") as caught:
            stranger.call(method, filled(path), {})
    assert caught.value.status == 401


@pytest.mark.parametrize(("method", "path"), routes())
def test_agent_may_only_speak_of_its_node(stage: Stage, method: str, path: str) -> None:
    """Its own node, that is; to /health anybody may come, and joining again as itself is its right."""
    body = {**NODE, "name": "n2"} if path.endswith("join") else SYNC
    if path == "/health":
        return
    if path.endswith("sync"):
        assert stage.client("agent").call(method, filled(path), body)["controller"] == "c"
        return
    if path.endswith("kept"):
        said = {"disk": {}, "rows": [3]}
        assert stage.client("agent").call(method, filled(path), said)["files"] == [3]
        return
    with pytest.raises(Refused) as caught:
        stage.client("agent").call(method, filled(path), body)
    no_session = path == "/v1/agents/{node}/terminal"  # of its own node, where it may speak
    assert caught.value.status == (404 if no_session else 403), str(caught.value)


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/v1/nodes/n1/drain"),
        ("POST", "/v1/nodes/n1/undrain"),
        ("PUT", "/v1/policy"),
        ("PUT", "/v1/tenants"),
        ("PUT", "/v1/policy/shadow"),
        ("DELETE", "/v1/policy/shadow"),
        ("GET", "/v1/users"),
        ("POST", "/v1/users"),
        ("DELETE", "/v1/users/bob"),
        ("POST", "/v1/agents/token"),
    ],
)
def test_admins_only(stage: Stage, method: str, path: str) -> None:
    """Said before anything is said about what is wrong with the call."""
    with pytest.raises(Refused, match="this call is for admins; 'alice' is none") as caught:
        stage.client().call(method, path, {"nonsense": 1})
    assert caught.value.status == 403


def test_other_nodes_agent(stage: Stage) -> None:
    for who, node in (("agent", "n2"), ("admin", "n1"), ("alice", "n1")):
        with pytest.raises(Refused, match=f"only the agent of node '{node}'") as caught:
            stage.client(who).call("POST", f"/v1/agents/{node}/sync", SYNC)
        assert caught.value.status == 403
        with pytest.raises(Refused, match=f"only the agent of node '{node}'"):
            stage.client(who).call("POST", f"/v1/agents/{node}/kept", {"disk": {}})


@pytest.mark.parametrize(
    ("header", "sentence"),
    [
        ("Bearer nonsense", "not known"),
        ("Bearer ", "not known"),
        ("Bearer é.ü", "not known"),
        ("Basic YTpi", "needs a token"),
        ("", "needs a token"),
    ],
)
def test_wrong_tokens(stage: Stage, header: str, sentence: str) -> None:
    client = Client(stage.serving.url)
    client._headers["Authorization"] = header
    with pytest.raises(Refused, match=sentence) as caught:
        client.call("GET", "/v1/status")
    assert caught.value.status == 401


def test_secret_of_another_token(stage: Stage) -> None:
    mixed = stage.tokens["admin"].partition(".")[0] + "." + stage.tokens["alice"].partition(".")[2]
    with pytest.raises(Refused) as caught:
        Client(stage.serving.url, mixed).call("GET", "/v1/status")
    assert caught.value.status == 401


def test_life_of_a_user(stage: Stage) -> None:
    admin = stage.client("admin")
    made = admin.call("POST", "/v1/users", {"name": "carol", "account": "carol"})
    assert made["user"] == {
        "name": "carol",
        "admin": False,
        "tenant": "carol",
        "account": "carol",
        "viewer": False,
    }
    carol = Client(stage.serving.url, made["token"])
    assert carol.call("GET", "/v1/whoami") == made["user"]
    with pytest.raises(Refused) as caught:
        admin.call("POST", "/v1/users", {"name": "carol"})
    assert caught.value.status == 409
    fresh = Client(stage.serving.url, carol.call("POST", "/v1/users/carol/token")["token"])
    with pytest.raises(Refused):
        carol.call("GET", "/v1/whoami")
    with pytest.raises(Refused, match="only admins make tokens for others"):
        fresh.call("POST", "/v1/users/alice/token")
    assert admin.call("DELETE", "/v1/users/carol") == {"ok": True}
    with pytest.raises(Refused) as caught:
        fresh.call("GET", "/v1/whoami")
    assert caught.value.status == 401
    assert "carol" not in {user["name"] for user in admin.call("GET", "/v1/users")}


def test_join(stage: Stage) -> None:
    made = stage.client("admin").call("POST", "/v1/agents/token", {"lifetime_s": 60})
    joining = Client(stage.serving.url, made["token"])
    joined = joining.call("POST", "/v1/agents/join", {**NODE, "name": "n7"})
    agent = Client(stage.serving.url, joined["token"])
    assert agent.call("POST", "/v1/agents/n7/sync", SYNC)["controller"] == "c"
    with pytest.raises(Refused, match="a join token may not") as caught:
        joining.call("GET", "/v1/nodes")
    assert caught.value.status == 403
    again = agent.call("POST", "/v1/agents/join", {**NODE, "name": "n7"})
    assert again["token"] != joined["token"]
    with pytest.raises(Refused, match="user 'alice' may not join"):
        stage.client().call("POST", "/v1/agents/join", {**NODE, "name": "n7"})


@pytest.mark.parametrize(
    ("protocol", "which"),
    [
        (PROTOCOL - 1, "the agent is older; install version 0.1.0 of Rota on its machine"),
        (PROTOCOL + 1, "the controller is older, and runs version 0.1.0; upgrade Rota on its machine"),
        ("two", "the agent is older; install version 0.1.0 of Rota on its machine"),
        ("\ud800", "the agent is older; install version 0.1.0 of Rota on its machine"),
    ],
    ids=["older", "newer", "none", "no text"],
)
def test_an_agent_of_another_protocol_is_told_which_side_to_upgrade(
    stage: Stage, protocol: object, which: str
) -> None:
    """When it joins, and when controllers changed under it; whatever else it says is not looked at."""
    says = {"protocol": protocol, "incarnation": 7, "devices": "of another kind"}
    made = stage.client("admin").call("POST", "/v1/agents/token", {})
    for token, path, body in (
        (made["token"], "/v1/agents/join", {**NODE, "name": "n8"}),
        (stage.tokens["agent"], "/v1/agents/n1/sync", SYNC),
    ):
        shown = "[?]" if protocol == "\ud800" else protocol
        with pytest.raises(Refused, match=f"speaks protocol {shown}, and the controller protocol") as caught:
            Client(stage.serving.url, token).call("POST", path, {**body, **says})
        assert caught.value.status == 409
        assert str(caught.value).endswith(which.replace("0.1.0", __version__))


@pytest.mark.parametrize(
    ("path", "query"), [("/v1/later", None), ("/v1/status", {"later": "yes"})], ids=["call", "parameter"]
)
def test_what_only_a_later_controller_has_is_told_as_that(
    stage: Stage, path: str, query: dict[str, str] | None
) -> None:
    """A command of a newer Rota asks for it, so the user has written nothing wrong."""
    client = stage.client("admin")
    older = "runs an older Rota than this one: upgrade the controller, or use its version here"
    with pytest.raises(RotaError, match=older), told_apart(client):
        client.call("GET", path, query=query)


def test_tokens_are_kept_as_salted_hashes() -> None:
    tokens, records = zip(*(mint("user", "alice") for _ in range(2)), strict=True)
    assert len(tokens[0].partition(".")[2]) >= 43  # 32 bytes
    assert records[0].salt != records[1].salt
    secret = tokens[0].partition(".")[2]
    assert secret not in repr(records[0])
    assert repr(secret.encode())[2:-1] not in repr(records[0])


def test_expiry() -> None:
    token, record = mint("join", lifetime_s=10)
    roster = Roster([ALICE], [record])
    assert identify_token(roster, token, time.time()) == Caller(joining=True)
    with pytest.raises(Unauthorized, match="expired 5 s ago"):
        identify_token(roster, token, (record.expires_s or 0) + 5)


def test_user_of_a_token_is_gone() -> None:
    token, record = mint("user", "zoe")
    with pytest.raises(Unauthorized, match="'zoe' is no longer known"):
        identify_token(Roster([ALICE], [record]), token, 0)


@given(st.text(max_size=60))
def test_no_text_is_a_token(text: str) -> None:
    token, record = mint("user", "alice")
    for wrong in (text, f"{record.id}.{text}", token + (text or "x")):
        if wrong != token:
            with pytest.raises(Unauthorized):
                identify_token(Roster([ALICE], [record]), wrong, 0)


@pytest.mark.parametrize(
    ("uid", "account", "owner", "identity"),
    [
        (0, "root", 1000, Caller("root", "root", admin=True, account="root")),
        (1000, "me", 1000, Caller("me", "me", admin=True)),
        (1001, "al", 1000, Caller("alice", "vision", account="al")),
        (1001, "al", 1001, Caller("alice", "vision", admin=True, account="al")),
        (1002, "eve", 1000, None),
        (1002, "", 1000, None),
    ],
)
def test_peers(uid: int, account: str, owner: int, identity: Caller | None) -> None:
    roster = Roster([ALICE, UserView(name="bob", admin=False, tenant="nlp")])
    if identity is None:
        with pytest.raises(Forbidden, match=f"has the account '{account}' \\(uid {uid}\\)"):
            identify_peer(roster, uid, account, owner)
    else:
        assert identify_peer(roster, uid, account, owner) == identity


@pytest.mark.parametrize(
    ("who", "user", "tenant", "owns"),
    [
        (Caller("a", "vision"), "a", "nlp", True),
        (Caller("a", "vision"), "b", "vision", True),
        (Caller("a", "vision"), "b", "vision/b", True),
        (Caller("a", "vision"), "b", "visionary", False),
        (Caller("a", "vision/a"), "b", "vision", False),
        (Caller("a", ""), "b", "", False),
        (Caller("a", "x", admin=True), "b", "nlp", True),
        (Caller(node="n1"), "", "", False),
        (Caller(joining=True), "", "", False),
    ],
)
def test_owning(who: Caller, user: str, tenant: str, owns: bool) -> None:
    assert who.owns(user, tenant) is owns


def test_token_file(tmp_path: Path) -> None:
    path = tmp_path / "tokens" / "alice"
    old = os.umask(0)
    try:
        write_secret(path, "one")
        write_secret(path, "two")
    finally:
        os.umask(old)
    assert path.read_text() == "two\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert list(path.parent.iterdir()) == [path]


def test_failed_write_leaves_the_old_token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "alice"
    write_secret(path, "old")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write_secret(path, "new")
    assert path.read_text() == "old\n"
    assert list(tmp_path.iterdir()) == [path]


def test_roster_forgets() -> None:
    token, record = mint("user", "alice")
    other: TokenRecord = mint("agent", "alice")[1]
    roster = Roster([ALICE], [record, other])
    roster.remove_user("alice")
    with pytest.raises(Unauthorized):
        identify_token(roster, token, 0)
    assert roster.token(other.id) is other, "a node may have a user's name"


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/v1/jobs", 200),
        ("GET", "/v1/status", 200),
        ("GET", "/v1/whoami", 200),
        ("POST", "/v1/whatif", 422),  # a question, and a wrong one
        ("POST", "/v1/jobs", 403),
        ("POST", "/v1/jobs?dry_run=true", 403),
        ("PATCH", "/v1/jobs/1", 403),
        ("POST", "/v1/jobs/1/cancel", 403),
        ("POST", "/v1/users/wall/token", 403),
        ("DELETE", "/v1/users/wall", 403),
    ],
)
def test_who_may_look_changes_nothing(stage: Stage, method: str, path: str, status: int) -> None:
    """Of their own neither; they ask what they like."""
    if stage.controller.roster.user("wall"):
        stage.controller.remove_user("wall")
    new = NewUser(name="wall", tenant="vision", viewer=True)
    with Client(stage.serving.url, stage.controller.add_user(new).token) as wall:
        if status == 200:
            wall.call(method, path)
            return
        with pytest.raises(Refused) as caught:
            wall.call(method, path, {})
    assert (caught.value.status, "may look and change nothing" in str(caught.value)) == (
        status,
        status == 403,
    )
