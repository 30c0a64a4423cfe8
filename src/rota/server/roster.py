"""Users and tokens, in memory for every call and in the store for the next controller."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable

from rota.server.auth import ROOT, Directory, Roster, TokenRecord, account_of, mint
from rota.server.callers import Caller
from rota.server.store.rows import JobRow, TokenRow, UserRow
from rota.server.store.store import Store
from rota.wire.accounts import OWN_ACCOUNT
from rota.wire.views import UserView

log = logging.getLogger(__name__)


class StoredRoster(Roster):
    """A roster that makes every change durable before it counts."""

    def __init__(self, store: Store) -> None:
        self._store = store
        users = [
            UserView(name=u.name, admin=u.admin, tenant=u.tenant, account=u.account, viewer=u.viewer)
            for u in store.users()
        ]
        super().__init__(users, _records(store.tokens()))

    def put_user(self, user: UserView) -> None:
        """Add or replace a user."""
        self._store.set_user(UserRow(user.name, "", "", user.admin, user.tenant, user.account, user.viewer))
        super().put_user(user)

    def put_token(self, token: TokenRecord) -> None:
        """Add a token."""
        self._store.add_token(token_row(token))
        super().put_token(token)

    def revoke(self, kind: str, name: str) -> None:
        """Forget the tokens of a user or of a node's agent."""
        for token in self.tokens_of(kind, name):  # type: ignore[arg-type]
            self._store.remove_token(token_row(token).hash)
        super().revoke(kind, name)  # type: ignore[arg-type]

    def forget_token(self, token: TokenRecord) -> None:
        """Revoke one; nothing happens if it is not there."""
        self._store.remove_token(token_row(token).hash)
        super().forget_token(token)

    def remove_user(self, name: str) -> None:
        """Forget a user and the tokens."""
        self._store.remove_user(name)
        super().remove_user(name)

    def replace_agent(self, token: TokenRecord) -> None:
        """The store has this token as the only one of a node's agent."""
        super().revoke("agent", token.name)
        super().put_token(token)

    def drop_expired(self, before_s: float) -> None:
        """Forget the tokens that expired before that Unix time."""
        for token in list(self._tokens.values()):
            if token.expires_s is not None and token.expires_s < before_s:
                self._store.remove_token(token_row(token).hash)
                self._tokens.pop(token.id, None)

    def renew(self, kind: str, name: str, lifetime_s: float | None = None) -> str:
        """A new token in place of all old ones of this user or agent."""
        token, record = mint(kind, name, lifetime_s)  # type: ignore[arg-type]
        self.revoke(kind, name)
        self.put_token(record)
        return token


def token_row(token: TokenRecord) -> TokenRow:
    """All that is kept of a token, as one text; it does not let its reader in."""
    expires = "" if token.expires_s is None else repr(token.expires_s)
    hash_ = f"{token.id}${token.salt.hex()}${token.digest.hex()}${token.created_s!r}${expires}${token.kind}"
    return TokenRow(hash=hash_, kind=token.kind, node=token.name, at_s=token.created_s)


def _records(rows: Iterable[TokenRow]) -> list[TokenRecord]:
    """The tokens that can be read; the others are void."""
    records = []
    for row in rows:
        try:
            records.append(_record(row))
        except ValueError as error:
            log.error("a token of %s on record cannot be read and is void: %s", row.node or row.kind, error)
    return records


def _record(row: TokenRow) -> TokenRecord:
    id_, salt, digest, created_s, expires_s, kind = row.hash.split("$")
    return TokenRecord(
        id_,
        kind,  # type: ignore[arg-type]
        row.node,
        bytes.fromhex(salt),
        bytes.fromhex(digest),
        float(created_s),
        float(expires_s) if expires_s else None,
    )


class JobAccounts:
    """The machines' account that each job runs as, by `directory`, for a controller that runs as `owner_uid`.

    A user may be removed, and the name be given to another person, while jobs of it wait, run or are to be
    tried again: a job starts only as the account that is on record since its submission, and only while its
    user has that account.  Any thread may ask.
    """

    def __init__(self, directory: Directory, owner_uid: int | None = None) -> None:
        owner_uid = os.geteuid() if owner_uid is None else owner_uid
        self._directory = directory
        self._is_root = owner_uid == ROOT
        self._own = account_of(ROOT) if self._is_root else OWN_ACCOUNT
        """Of a user without one: a controller that is root says that it means root."""
        self._at_the_socket = {account_of(ROOT): account_of(ROOT), account_of(owner_uid): self._own}
        """Names of the accounts that need no user: see `auth.identify_peer`."""

    def of_caller(self, who: Caller) -> str:
        """The account that jobs of the user `who` run under; empty if there is none."""
        return who.account or (self._own if who.admin or not self._is_root else "")

    def of_user(self, name: str) -> str:
        """The account that jobs of this user run under now; empty if there is none."""
        user = self._directory.user(name)
        if user is None:
            return self._at_the_socket.get(name, "")
        return self.of_caller(Caller(user=name, admin=user.admin, account=user.account))

    def bars(self, job: JobRow) -> str:
        """Why `job` may not start, as a clause; empty if its user has the account it was submitted as.

        Jobs on record from before accounts were have none unless their users had one of their own then: they
        run as this cluster's own.
        """
        submitted_as, now = job.account or self._own, self.of_user(job.user)
        if now == submitted_as:
            return ""
        if now:
            return f"user {job.user!r} submitted it as {_named(submitted_as)}, and has {_named(now)} now"
        if self._directory.user(job.user) is None:
            return f"user {job.user!r}, who submitted it as {_named(submitted_as)}, was removed"
        return f"user {job.user!r} has no account on the machines, and this cluster runs as root"

    def given(self, job: JobRow) -> str:
        """The account that `job` was submitted as."""
        return job.account or self._own


def _named(account: str) -> str:
    return "the agents' own account" if account == OWN_ACCOUNT else f"account {account!r}"
