"""Users and tokens: what a call is told now is what the next controller knows."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rota.server.api.forms import NewUser
from rota.server.auth import Roster, Unauthorized, identify_token, mint
from rota.server.config import Config
from rota.server.roster import StoredRoster, token_row
from rota.server.store.failures import StoreError
from rota.server.store.store import Store
from rota.server.users import ADMIN, TOKENS, Users, first_up, token_files
from rota.wire.sync import NodeInfo
from rota.wire.views import UserView

ANN = UserView(name="ann", admin=False, tenant="vision", account="ann")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = Store.open(None, tmp_path)
    yield store
    store.close()


ROOT_SAYS = "user 'bob' has no account on the machines, and this cluster runs as root: no job of theirs is"
MEND = "an admin mends that: `rota user rm bob`, then `rota user add bob --account LOGIN`"


@pytest.mark.parametrize(
    ("euid", "fields", "said"),
    [
        (0, {}, [ROOT_SAYS, MEND]),
        (0, {"viewer": True}, []),
        (0, {"admin": True}, []),
        (0, {"account": "root"}, []),
        (0, {"account": "nobody-of-that-name"}, ["this machine knows no account 'nobody-of-that-name'"]),
        (1000, {}, []),
        (1000, {"account": "nobody-of-that-name"}, []),
    ],
)
def test_who_cannot_submit_is_said_when_the_user_is_added(
    store: Store, monkeypatch: pytest.MonkeyPatch, euid: int, fields: dict[str, Any], said: list[str]
) -> None:
    """Not only when the user submits: under root a job needs an account to run as."""
    monkeypatch.setattr("os.geteuid", lambda: euid)
    warnings = Users(StoredRoster(store)).add_user(NewUser(name="bob", **fields)).warnings
    assert len(warnings) == bool(said)
    assert all(part in warnings[0] for part in said)


def knows(roster: Roster, token: str) -> str:
    """Whom a token stands for, empty if for nobody."""
    try:
        found = identify_token(roster, token, time.time())
    except Unauthorized:
        return ""
    return found.user or found.node or "join"


def test_the_next_controller_knows_all(store: Store) -> None:
    roster = StoredRoster(store)
    roster.put_user(ANN)
    token = roster.renew("user", "ann")
    join, record = mint("join", "", 60.0)
    roster.put_token(record)
    again = StoredRoster(store)
    assert again.users() == [ANN]
    assert (knows(again, token), knows(again, join)) == ("ann", "join")
    assert knows(again, token[:-1] + ("A" if token[-1] != "A" else "B")) == ""


def test_a_token_outlives_the_store_to_the_bit(store: Store) -> None:
    for lifetime_s in (None, 12.5):
        _, record = mint("join", "", lifetime_s)
        StoredRoster(store).put_token(record)
        assert StoredRoster(store).token(record.id) == record


def test_a_new_token_takes_the_place_of_the_old(store: Store) -> None:
    roster = StoredRoster(store)
    roster.put_user(ANN)
    old = roster.renew("user", "ann")
    new = roster.renew("user", "ann")
    for one in (roster, StoredRoster(store)):
        assert (knows(one, old), knows(one, new)) == ("", "ann")


def test_a_user_who_goes_takes_the_tokens_along(store: Store) -> None:
    roster = StoredRoster(store)
    roster.put_user(ANN)
    token = roster.renew("user", "ann")
    roster.remove_user("ann")
    for one in (roster, StoredRoster(store)):
        assert (knows(one, token), one.users()) == ("", [])


def test_an_agent_has_one_token(store: Store) -> None:
    """The store replaces it when the node joins; the memory follows."""
    roster = StoredRoster(store)
    info = NodeInfo(name="n0", address="a", cpus=1, memory_gib=1, boot_id="b", devices=[], kind="cpu")
    tokens = []
    for _ in range(2):
        token, record = mint("agent", "n0")
        store.join(info, token_row(record))
        roster.replace_agent(record)
        tokens.append(token)
    for one in (roster, StoredRoster(store)):
        assert [knows(one, token) for token in tokens] == ["", "n0"]


def test_what_the_store_does_not_take_does_not_count(tmp_path: Path) -> None:
    """A write that fails leaves nobody with a token that the next controller would not know."""
    armed = [False]

    def faults(point: str) -> None:
        if armed[0]:
            raise StoreError(f"the disk is full ({point})")

    store = Store.open(None, tmp_path, faults=faults)
    roster = StoredRoster(store)
    armed[0] = True
    with pytest.raises(StoreError):
        roster.put_user(ANN)
    assert roster.users() == []
    _, record = mint("join")
    with pytest.raises(StoreError):
        roster.put_token(record)
    assert roster.token(record.id) is None
    store.close()


# -- the first start -------------------------------------------------------------------------------


def admins_token(home: Path) -> str:
    path = home / TOKENS / ADMIN
    assert path.stat().st_mode & 0o777 == 0o600
    return path.read_text().strip()


def test_the_first_start_makes_an_admin_with_a_token(tmp_path: Path, store: Store) -> None:
    roster = StoredRoster(store)
    first_up(tmp_path, store, roster, Config(), 0.0)
    token = admins_token(tmp_path)
    assert knows(roster, token) == ADMIN
    first_up(tmp_path, store, StoredRoster(store), Config(policy="srtf"), 0.0)
    assert admins_token(tmp_path) == token
    assert store.policies()["real"].spec.startswith("fifo"), "afterwards `rota policy set` changes it"


@pytest.mark.parametrize("left", ["", "id.secret", "\xe9"])
def test_a_token_file_that_is_worth_nothing_here_is_replaced(tmp_path: Path, store: Store, left: str) -> None:
    """That of another store, or what a crash left."""
    path = tmp_path / TOKENS / ADMIN
    path.parent.mkdir()
    path.write_text(left)
    path.chmod(0o600)
    roster = StoredRoster(store)
    first_up(tmp_path, store, roster, Config(), 0.0)
    assert knows(roster, admins_token(tmp_path)) == ADMIN


@pytest.mark.parametrize("left", [None, "", "id.secret"])
def test_tokens_on_record_stay_good_where_the_file_is_gone(
    tmp_path: Path, store: Store, caplog: pytest.LogCaptureFixture, left: str | None
) -> None:
    """An operator has put it where it belongs, and people are signed in with it."""
    roster = StoredRoster(store)
    first_up(tmp_path, store, roster, Config(), 0.0)
    first, path = admins_token(tmp_path), tmp_path / TOKENS / ADMIN
    assert "stay good" not in caplog.text
    path.unlink() if left is None else path.write_text(left)
    first_up(tmp_path, store, StoredRoster(store), Config(), 0.0)
    successor = StoredRoster(store)
    assert admins_token(tmp_path) != first
    assert [knows(successor, token) for token in (first, admins_token(tmp_path))] == [ADMIN, ADMIN]
    assert f"{path} did not hold a token of admin and has a new one; those of before stay good" in caplog.text
    latest = Users(successor, token_files(tmp_path)).new_token(ADMIN).token
    assert [token.kind for token in successor.tokens_of("user", ADMIN)] == ["user"], (
        "`rota user token` voids all"
    )
    assert knows(successor, latest) == ADMIN


def test_the_admins_file_follows_a_new_token(store: Store, tmp_path: Path) -> None:
    """Else local commands would be refused, and the next start would void what an operator has just made."""
    roster = StoredRoster(store)
    first_up(tmp_path, store, roster, Config(), 0.0)
    path = tmp_path / TOKENS / ADMIN
    new = Users(roster, token_files(tmp_path)).new_token(ADMIN).token
    assert path.read_text().strip() == new
    assert path.stat().st_mode & 0o777 == 0o600
    successor = StoredRoster(store)
    first_up(tmp_path, store, successor, Config(), 0.0)
    assert knows(successor, new) == ADMIN


def test_a_new_token_counts_though_the_file_cannot_be_written(
    store: Store, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    roster = StoredRoster(store)
    first_up(tmp_path, store, roster, Config(), 0.0)
    (tmp_path / "file").write_text("")
    new = Users(roster, {ADMIN: tmp_path / "file" / ADMIN}).new_token(ADMIN).token
    assert knows(roster, new) == ADMIN
    assert "still holds the token of admin before" in caplog.text
