"""Users and tokens: in memory for every call, in the store for the next controller."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from rota.server.auth import Roster, TokenRecord, mint
from rota.server.store.rows import TokenRow, UserRow
from rota.server.store.store import Store
from rota.wire.views import UserView

log = logging.getLogger(__name__)


class StoredRoster(Roster):
    """A roster whose every change is durable before it counts."""

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
    """One text with all that is kept of a token: none of it lets anybody in."""
    expires = "" if token.expires_s is None else repr(token.expires_s)
    hash_ = f"{token.id}${token.salt.hex()}${token.digest.hex()}${token.created_s!r}${expires}${token.kind}"
    return TokenRow(hash=hash_, kind=token.kind, node=token.name, at_s=token.created_s)


def _records(rows: Iterable[TokenRow]) -> list[TokenRecord]:
    """Those that can be read; others let nobody in."""
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
