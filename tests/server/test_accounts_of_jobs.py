"""A job starts as the account that it was submitted as, while its user has that, or it says why not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from answers_play import AskedSite
from store_place import SPEC

from rota.server.auth import Roster, account_of
from rota.server.callers import Caller
from rota.server.roster import JobAccounts
from rota.server.store.new_jobs import asked
from rota.server.store.rows import JobRow, JobState, NewJob
from rota.wire.accounts import NO_ACCOUNT, OWN_ACCOUNT
from rota.wire.job import JobSpec
from rota.wire.sync import Wanted
from rota.wire.views import UserView
from rota.worlds.live.inbox import Changed

OWNER = account_of(65534)


def user(name: str, account: str = "", *, admin: bool = False) -> UserView:
    return UserView(name=name, admin=admin, tenant=name, account=account)


def job_of(name: str, account: str) -> JobRow:
    return JobRow(0, "1", name, 0.0, None, None, 0, asked(SPEC, name, name, 0.0), JobState(), account)


U1, ADMIN, BARE = user("u1", "games"), user("admin", admin=True), user("bare")
GAMES = "user 'u1' submitted it as account 'games'"
OWN, ROOT = "submitted it as the agents' own account", "submitted it as account 'root'"
NONE = "has no account on the machines, and this cluster runs as root"
GONE = "user 'u1', who submitted it as account 'games', was removed"


@pytest.mark.parametrize(
    ("owner", "known", "name", "account", "why"),
    [
        (0,     [U1],   "u1",    "games",     ""),
        (0,     [],     "u1",    "games",     GONE),
        (65534, [],     "u1",    "games",     GONE),
        (0,     [user("u1", "news")], "u1", "games", f"{GAMES}, and has account 'news' now"),
        (65534, [user("u1")], "u1", "games",  f"{GAMES}, and has the agents' own account now"),
        (0,     [user("u1")], "u1", "games",  f"user 'u1' {NONE}"),
        (0,     [ADMIN], "admin", "root",     ""),
        (0,     [BARE], "bare",  OWN_ACCOUNT, f"user 'bare' {NONE}"),
        (65534, [BARE], "bare",  OWN_ACCOUNT, ""),
        (65534, [],     "bare",  OWN_ACCOUNT, f"user 'bare', who {OWN}, was removed"),
        (0,     [],     "root",  "root",      ""),  # at the socket: no user, and known all the same
        (65534, [],     OWNER,   OWN_ACCOUNT, ""),
        (65534, [],     "root",  "root",      ""),
        (65534, [],     "root",  OWN_ACCOUNT, f"user 'root' {OWN}, and has account 'root' now"),
        # put on record by an earlier version, of a user without an account
        (0,     [ADMIN], "admin", "",         ""),
        (0,     [],     "root",  "",          ""),
        (0,     [],     "u1",    "",          f"user 'u1', who {ROOT}, was removed"),
        (0,     [U1],   "u1",    "",          f"user 'u1' {ROOT}, and has account 'games' now"),
        (65534, [BARE], "bare",  "",          ""),
    ],
)  # fmt: skip
def test_what_bars_a_job(owner: int, known: list[UserView], name: str, account: str, why: str) -> None:
    assert JobAccounts(Roster(known), owner).bars(job_of(name, account)) == why


@pytest.mark.parametrize(
    ("owner", "who", "account"),
    [
        (0,     Caller("u1", account="games"),             "games"),
        (0,     Caller("root", admin=True),                "root"),
        (0,     Caller("bare"),                            ""),
        (65534, Caller("bare"),                            OWN_ACCOUNT),
        (65534, Caller("root", admin=True, account="root"), "root"),
    ],
)  # fmt: skip
def test_the_account_of_a_submission(owner: int, who: Caller, account: str) -> None:
    assert JobAccounts(Roster(), owner).of_caller(who) == account


# -- a site ----------------------------------------------------------------------------------------


class UsersSite(AskedSite):
    """With the user u1, whose account is games, on a cluster that runs as root."""

    def __post_init__(self) -> None:
        self.roster = Roster([U1])
        self.accounts = JobAccounts(self.roster, 0)
        self.user, self.account = "u1", "games"
        super().__post_init__()

    def settle(self, turns: int = 6) -> None:
        for _ in range(turns):
            self.turn()

    def set_user(self, *users: UserView, told: bool = True) -> None:
        """These are the users from now on; the scheduler learns of it if `told`, or when it starts again."""
        self.roster._users = {one.name: one for one in users}
        if told:
            self.inbox.put(Changed("users"))
        else:
            self.kill_controller()
        self.settle()

    def orders(self, row: int) -> list[tuple[Wanted, str]]:
        """What agents know of the attempts of `row`, and the account of each."""
        return [
            (part.wanted, part.user)
            for name in self.nodes
            for part in self.directives.since(name, 0)
            if part.row == row
        ]

    def held(self, row: int) -> tuple[str, list[str]]:
        """State of a job, and what it waits for."""
        now = self.rows()[row].now
        return now.state, [hold["kind"] for hold in now.hold]


@pytest.fixture
def site(tmp_path: Path) -> Iterator[UsersSite]:
    site = UsersSite(tmp_path, {"n0": 2})
    yield site
    site.store.close()


WITH_HOLD: list[dict[str, Any]] = [{"hold": True}, {"begin_s": 1_900_000_000.0}, {}]
told = pytest.mark.parametrize("told", [True, False], ids=["at once", "by a restart"])


@told
@pytest.mark.parametrize("extra", WITH_HOLD, ids=["held", "begins later", "waits"])
def test_a_waiting_job_of_a_removed_user_is_held(site: UsersSite, told: bool, extra: dict[str, Any]) -> None:
    busy = site.submit(1e9, gpus=2)
    site.settle()
    row = site.submit(1.0, **extra)
    site.settle()
    before = site.held(row)[1]
    site.set_user(told=told)
    site.command("cancel", row=busy)
    if "hold" in extra:
        site.command("release", row=row)
    site.settle(12)
    kept = [] if "hold" in extra else before
    assert site.held(row) == ("PENDING", [*kept, "account"])
    assert site.orders(row) == []
    site.set_user(U1, told=told)
    assert site.held(row)[1] == kept


@told
@pytest.mark.parametrize("now", [[], [user("u1", "news")], [user("u1")]], ids=["removed", "other", "none"])
def test_the_job_that_runs_begins_no_other_attempt(site: UsersSite, told: bool, now: list[UserView]) -> None:
    """Whatever ends the one it has: its own wish (exit 85), a failure, a requeue; why it waits is said."""
    rows = [site.submit(1e4), site.submit(1e4, ends="fail", user_retries=3)]
    site.settle()
    assert [site.orders(row) for row in rows] == [[(Wanted.RUN, "games")]] * 2
    site.set_user(*now, told=told)
    assert [site.rows()[row].now.state for row in rows] == ["RUNNING", "RUNNING"]
    site.command("requeue", row=rows[0])
    site.settle(12)
    site.time.now += 2e4
    site.happen()
    site.settle(20)
    assert {row: len(site.store.load().attempts[row]) for row in rows} == {rows[0]: 1, rows[1]: 1}
    for row in rows:
        assert "account" in site.held(row)[1]
        assert {account for _, account in site.orders(row)} <= {NO_ACCOUNT, ""}
        why = site.why(row)
        assert "InvalidAccount" in [reason.code for reason in why.reasons]
        assert any("has no account that it may run as: user 'u1'" in one.sentence for one in why.reasons)


@told
def test_an_array_of_a_removed_user_is_held(site: UsersSite, told: bool) -> None:
    rows = site.submit_array(*["ok"] * 4, work_s=1e4)
    site.settle()
    running = [row for row in rows if site.rows()[row].now.state == "RUNNING"]
    assert len(running) == 2
    site.set_user(told=told)
    site.time.now += 2e4
    site.happen()
    site.settle(12)
    assert [site.held(row) for row in rows if row not in running] == [("PENDING", ["account"])] * 2
    assert [site.rows()[row].now.state for row in running] == ["COMPLETED"] * 2


def test_an_attempt_that_had_not_begun_has_no_account(site: UsersSite) -> None:
    """Its agent was away when it was ordered, and comes back after its user was removed."""
    site.settle()
    site.machines["n0"].is_up = False
    row = site.submit(1.0)
    site.settle(1)
    assert site.orders(row) == [(Wanted.RUN, "games")]
    site.roster.remove_user("u1")
    site.inbox.put(Changed("users"))
    site.settle(2)
    assert site.orders(row) == [(Wanted.RUN, NO_ACCOUNT)]


def test_a_job_that_was_submitted_before_accounts_were_on_record_says_why(site: UsersSite) -> None:
    site.store.add_jobs("u1", "u1", [NewJob(JobSpec(command=["work"]))], 0.0)
    site.kill_controller()
    site.settle()
    assert site.held(0) == ("PENDING", ["account"])
