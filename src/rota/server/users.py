"""Users and their tokens; the admin and the policy that a new cluster begins with."""

from __future__ import annotations

import logging
import os
import pwd
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from rota.errors import InputError
from rota.knowledge.registry import Where, kinds
from rota.model.atomic import write_secret
from rota.server.api.forms import JoinToken, NewUser, UserToken
from rota.server.auth import Unauthorized, identify_token, mint
from rota.server.callers import why_no_job
from rota.server.config import Config
from rota.server.policy.messages import check_policy
from rota.server.refusals import Conflict, NotFound
from rota.server.roster import StoredRoster
from rota.server.store.rows import REAL, EventRow, PolicyRow, Step
from rota.server.store.store import Store
from rota.wire.job import check_tenant
from rota.wire.views import UserView

TOKENS, ADMIN = "tokens", "admin"
log = logging.getLogger(__name__)


def token_files(home: Path) -> dict[str, Path]:
    """User -> the file in which the controller keeps that user's token, for local commands."""
    return {ADMIN: home / TOKENS / ADMIN}


class Users:
    """Implements `rota.server.api.services.UsersService`."""

    def __init__(
        self,
        roster: StoredRoster,
        kept: Mapping[str, Path] | None = None,
        changed: Callable[[str], None] = lambda why: None,
        has_jobs: Callable[[str], bool] = lambda user: False,
    ) -> None:
        """`kept` are files of the controller's that hold tokens of users: they follow a new one.

        `changed` is called once jobs of a user may start no more, or some that are on record (`has_jobs`) may
        start again.
        """
        self._roster, self._kept = roster, kept or {}
        self._changed, self._has_jobs = changed, has_jobs

    def users(self) -> list[UserView]:
        """All users by name."""
        return self._roster.users()

    def add_user(self, user: NewUser) -> UserToken:
        """A user with a token that is shown only now.

        Conflict if the name is taken, InputError if the account is another user's or the tenant is no path.
        """
        if self._roster.user(user.name) is not None:
            raise Conflict(f"there is a user {user.name!r} already")
        tenant = user.tenant or user.name
        self._check(tenant, user.account)
        if user.admin and user.viewer:
            raise InputError(f"user {user.name!r} cannot be an admin and only look; choose one of them")
        view = UserView(
            name=user.name, admin=user.admin, tenant=tenant, account=user.account, viewer=user.viewer
        )
        self._roster.put_user(view)
        if self._has_jobs(user.name):
            self._changed(f"user {user.name} was added, of whom there are jobs")
        why = "" if user.viewer else why_no_job(user.name, user.admin, user.account) or _unknown(user.account)
        return UserToken(
            user=view, token=self._roster.renew("user", user.name), warnings=[why] if why else []
        )

    def _check(self, tenant: str, account: str) -> None:
        """Raises InputError for a tenant or an account that a user cannot have."""
        try:
            check_tenant(tenant)
        except ValueError as error:
            raise InputError(str(error)) from None
        other = self._roster.user_of_account(account) if account else None
        if other is not None:
            raise InputError(
                f"account {account!r} is that of user {other.name!r}; the socket could not tell the two apart"
            )

    def new_token(self, name: str) -> UserToken:
        """A new token in place of the old ones; NotFound."""
        view = self._roster.user(name)
        if view is None:
            raise NotFound(f"there is no user {name!r}")
        token = self._roster.renew("user", name)
        if path := self._kept.get(name):
            try:
                write_secret(path, token)
            except OSError as error:  # the token is valid nevertheless, and is shown only now
                log.error("%s still holds the token of %s before: %s", path, name, error.strerror)
        return UserToken(user=view, token=token)

    def remove_user(self, name: str) -> None:
        """The user's tokens are worth nothing any more, and jobs that do not run yet are held; NotFound."""
        if self._roster.user(name) is None:
            raise NotFound(f"there is no user {name!r}")
        self._roster.remove_user(name)
        self._changed(f"user {name} was removed")

    def join_token(self, lifetime_s: float) -> JoinToken:
        """A token that lets machines join for a while."""
        token, record = mint("join", "", lifetime_s)
        self._roster.put_token(record)
        return JoinToken(token=token, expires_s=record.expires_s or 0.0)


def _unknown(account: str) -> str:
    """A warning if jobs run under their users' accounts and this machine knows no such account."""
    if not account or os.geteuid():
        return ""
    try:
        pwd.getpwnam(account)
    except KeyError:
        return f"this machine knows no account {account!r}: jobs of this user start only where there is one"
    return ""


def first_up(home: Path, store: Store, roster: StoredRoster, config: Config, now: float) -> None:
    """Give a new cluster what it needs: its policy, and an admin with a token."""
    if REAL not in store.policies():
        spec = check_policy(config.policy, kinds(Where.LIVE))
        row = PolicyRow(REAL, str(spec), now, ADMIN)
        event = EventRow(now, ADMIN, "policy", text=f"{spec} at the first start")
        store.commit(Step(policies=[row], events=[event]))
    if roster.user(ADMIN) is None:
        roster.put_user(UserView(name=ADMIN, admin=True, tenant=ADMIN, account=""))
    path = token_files(home)[ADMIN]
    if not _is_good(path, roster):
        if roster.tokens_of("user", ADMIN):  # it may be kept elsewhere, or be signed in with
            log.warning("%s did not hold a token of admin and has a new one; those of before stay good", path)
        token, record = mint("user", ADMIN)
        roster.put_token(record)
        write_secret(path, token)


def _is_good(path: Path, roster: StoredRoster) -> bool:
    """True if the file holds the admin's token, not one of another store or left by a crash."""
    try:
        return identify_token(roster, path.read_text(encoding="ascii").strip(), time.time()).user == ADMIN
    except (Unauthorized, FileNotFoundError, UnicodeDecodeError):
        return False
