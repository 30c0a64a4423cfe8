"""Who calls: tokens, the accounts behind a UNIX socket, and the gate that every call passes.

A token is `ID.SECRET`.  The store keeps the id, a salt and the SHA-256 of salt and secret: enough for a
secret of 32 random bytes, which nobody can guess through.  Whoever reads the store learns no token.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import secrets
import time
from asyncio import to_thread
from collections.abc import Iterable
from dataclasses import dataclass
from pwd import getpwuid
from typing import Literal, NoReturn, Protocol

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from rota.errors import RotaError
from rota.server.callers import Caller
from rota.server.refusals import Forbidden
from rota.wire.views import UserView

SECRET_BYTES = 32
ID_BYTES = 9
SALT_BYTES = 16
ROOT = 0
Kind = Literal["user", "agent", "join"]


class Unauthorized(RotaError):  # noqa: N818
    """No token, or one that is worth nothing here (401)."""


@dataclass(frozen=True, slots=True)
class TokenRecord:
    """What is kept of a token."""

    id: str
    kind: Kind
    name: str
    """The user, or the node whose agent this is; empty for a join token."""
    salt: bytes
    digest: bytes
    created_s: float
    expires_s: float | None = None
    """Unix seconds; None is never."""


@dataclass(frozen=True, slots=True)
class Peer:
    """The process at the other end of a UNIX socket, as the kernel saw it when it connected."""

    pid: int
    uid: int
    gid: int


class Directory(Protocol):
    """Users and tokens.  Asked on the event loop for every call, so it answers from memory, at once."""

    def token(self, id: str) -> TokenRecord | None:
        """The token's record unless it was revoked."""
        ...

    def user(self, name: str) -> UserView | None: ...

    def user_of_account(self, account: str) -> UserView | None:
        """The user whose commands run as that account of the machine."""
        ...


class Roster:
    """A directory in memory.  Readers and one writer may use it at once."""

    def __init__(self, users: Iterable[UserView] = (), tokens: Iterable[TokenRecord] = ()) -> None:
        self._users = {user.name: user for user in users}
        self._tokens = {token.id: token for token in tokens}

    def token(self, id: str) -> TokenRecord | None:
        """The record, or None."""
        return self._tokens.get(id)

    def user(self, name: str) -> UserView | None:
        """The user, or None."""
        return self._users.get(name)

    def user_of_account(self, account: str) -> UserView | None:
        """The first user by name with that account, or None."""
        named = [user for user in self.users() if user.account == account]
        return named[0] if account and named else None

    def users(self) -> list[UserView]:
        """All users by name."""
        return [user for _, user in sorted(self._users.copy().items())]

    def put_user(self, user: UserView) -> None:
        """Add or replace a user."""
        self._users[user.name] = user

    def put_token(self, token: TokenRecord) -> None:
        """Add a token."""
        self._tokens[token.id] = token

    def revoke(self, kind: Kind, name: str) -> None:
        """Forget the tokens of a user or of a node's agent."""
        for token in list(self._tokens.values()):
            if (token.kind, token.name) == (kind, name):
                del self._tokens[token.id]

    def remove_user(self, name: str) -> None:
        """Forget a user and the tokens; nothing happens if there is none."""
        self._users.pop(name, None)
        self.revoke("user", name)


def mint(kind: Kind, name: str = "", lifetime_s: float | None = None) -> tuple[str, TokenRecord]:
    """A new token, and what to keep of it."""
    id, secret = secrets.token_urlsafe(ID_BYTES), secrets.token_urlsafe(SECRET_BYTES)
    salt, now_s = secrets.token_bytes(SALT_BYTES), time.time()
    expires_s = None if lifetime_s is None else now_s + lifetime_s
    record = TokenRecord(id, kind, name, salt, _digest(salt, secret), now_s, expires_s)
    return f"{id}.{secret}", record


def identify_token(directory: Directory, token: str, now_s: float) -> Caller:
    """Whom a token stands for.  Raises Unauthorized; never says which part of it was wrong."""
    id, _, secret = token.partition(".")
    record = directory.token(id)
    if record is None or not hmac.compare_digest(_digest(record.salt, secret), record.digest):
        raise Unauthorized("the token is not known here, or was revoked; ask an admin for a new one")
    if record.expires_s is not None and record.expires_s <= now_s:
        raise Unauthorized(
            f"the token expired {now_s - record.expires_s:.0f} s ago; ask an admin for a new one"
        )
    if record.kind == "join":
        return Caller(joining=True)
    if record.kind == "agent":
        return Caller(node=record.name)
    user = directory.user(record.name)
    if user is None:
        raise Unauthorized(f"the token's user {record.name!r} is no longer known here")
    return _person(user, user.admin)


def identify_peer(directory: Directory, uid: int, account: str, owner_uid: int) -> Caller:
    """Whom a local process stands for.

    The socket's owner and root are admins; others are the user who has their account.  Raises Forbidden for
    an account that no user has.
    """
    admin = uid in (ROOT, owner_uid)
    user = directory.user_of_account(account)
    if user is not None:
        return _person(user, admin or user.admin)
    if admin:
        return Caller(user=account, tenant=account, admin=True, account="" if uid == owner_uid else account)
    raise Forbidden(
        f"no user of this cluster has the account {account!r} (uid {uid}); use a token, or ask an admin"
    )


class AuthenticationGate:
    """ASGI middleware: finds out who calls and puts it into `scope["identity"]`, or answers 401 or 403.

    A token comes first, also on the UNIX socket; without one the kernel's word on the peer counts.
    `open_paths` need neither.
    """

    def __init__(
        self, app: ASGIApp, directory: Directory, open_paths: Iterable[str], owner_uid: int | None = None
    ) -> None:
        self._app = app
        self._directory = directory
        self._open = frozenset(open_paths)
        self._owner_uid = os.geteuid() if owner_uid is None else owner_uid
        self._accounts: dict[int, str] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the call on, or answer it."""
        if scope["type"] == "http" and scope["path"] not in self._open:
            try:
                scope["identity"] = await self._identify(scope)
            except (Unauthorized, Forbidden) as error:
                await refusal(error)(scope, receive, send)
                return
        await self._app(scope, receive, send)

    async def _identify(self, scope: Scope) -> Caller:
        header = Headers(scope=scope).get("authorization")
        peer: Peer | None = scope.get("state", {}).get("peer")
        if header is not None:
            scheme, _, token = header.partition(" ")
            if scheme.lower() != "bearer":
                _no_token()
            return identify_token(self._directory, token.strip(), time.time())
        if peer is None:
            _no_token()
        account = self._accounts.get(peer.uid)
        if account is None:  # may ask a directory service: not on the event loop
            account = self._accounts[peer.uid] = await to_thread(account_of, peer.uid)
        return identify_peer(self._directory, peer.uid, account, self._owner_uid)


def refusal(error: Unauthorized | Forbidden) -> Response:
    """The answer to a caller who is not known, or known and not welcome."""
    unknown = isinstance(error, Unauthorized)
    headers = {"WWW-Authenticate": 'Bearer realm="rota"'} if unknown else {}
    body = json.dumps({"error": str(error)})
    return Response(body, 401 if unknown else 403, headers, "application/json")


def account_of(uid: int) -> str:
    """Name of an account of this machine, or `uid:N` if it has none."""
    try:
        return getpwuid(uid).pw_name
    except KeyError:
        return f"uid:{uid}"


def _person(user: UserView, admin: bool) -> Caller:
    return Caller(user=user.name, tenant=user.tenant, admin=admin, account=user.account)


def _digest(salt: bytes, secret: str) -> bytes:
    return hashlib.sha256(salt + secret.encode()).digest()


def _no_token() -> NoReturn:
    raise Unauthorized("this call needs a token: send the header `Authorization: Bearer TOKEN`")
