"""Authentication: tokens, the accounts behind a UNIX socket, and the gate that every call passes.

A token is `ID.SECRET`.  The store keeps the id, a salt and the SHA-256 of salt and secret: enough for a
secret of 32 random bytes, which cannot be guessed.  A reader of the store learns no token.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import secrets
import time
from asyncio import to_thread
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pwd import getpwuid
from typing import Literal, NoReturn, Protocol

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from rota.errors import RotaError
from rota.server.callers import Caller
from rota.server.dashboard.browsers import check_origin, session_of
from rota.server.refusals import Forbidden
from rota.wire.views import UserView

SECRET_BYTES = 32
ID_BYTES = 9
SALT_BYTES = 16
ROOT = 0
READING = frozenset({"GET", "HEAD", "OPTIONS"})
"""Methods that change nothing."""
QUESTIONS = frozenset({"/v1/whatif", "/sign-out"})
"""Calls of other methods that change nothing for other users."""
Kind = Literal["user", "agent", "join", "session"]
SESSION: Literal["session"] = "session"
OWN_KINDS: dict[str, tuple[str, ...]] = {"user": ("user", SESSION)}
"""What goes with the tokens of a kind when they are revoked: a user's sessions."""


class Unauthorized(RotaError):  # noqa: N818
    """No token, or one that is worth nothing here (401)."""


Refused = Callable[[Scope, "Unauthorized | Forbidden"], Response]
"""Writes the answer to a caller that is refused."""


@dataclass(frozen=True, slots=True)
class TokenRecord:
    """Record of a token."""

    id: str
    kind: Kind
    name: str
    """The user (of a session too), or the agent's node; empty for a join token."""
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
    """Users and tokens.  Asked on the event loop for every call, so it answers from memory."""

    def token(self, id: str) -> TokenRecord | None:
        """The token's record unless it was revoked."""
        ...

    def user(self, name: str) -> UserView | None: ...

    def user_of_account(self, account: str) -> UserView | None:
        """The user that runs commands as that account of the machine."""
        ...


class Roster:
    """A directory in memory.  Readers and one writer may use it concurrently."""

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
        for token in self.tokens_of(kind, name):
            del self._tokens[token.id]

    def tokens_of(self, kind: Kind, name: str) -> list[TokenRecord]:
        """The tokens of a user, with the sessions that were begun by them, or of a node's agent."""
        kinds = OWN_KINDS.get(kind, (kind,))
        return [one for one in list(self._tokens.values()) if one.kind in kinds and one.name == name]

    def forget_token(self, token: TokenRecord) -> None:
        """Revoke one; nothing happens if it is not there."""
        self._tokens.pop(token.id, None)

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


def record_of(directory: Directory, token: str, now_s: float) -> TokenRecord:
    """The record of a token that counts.  Raises Unauthorized; never says which part of it was wrong."""
    id, _, secret = token.partition(".")
    record = directory.token(id)
    if record is None or not hmac.compare_digest(_digest(record.salt, secret), record.digest):
        raise Unauthorized("the token is not known here, or was revoked; ask an admin for a new one")
    if record.expires_s is not None and record.expires_s <= now_s:
        raise Unauthorized(
            f"the token expired {now_s - record.expires_s:.0f} s ago; ask an admin for a new one"
        )
    return record


def identify_token(directory: Directory, token: str, now_s: float) -> Caller:
    """The identity of a token.  Raises Unauthorized, also for a session, which counts only in a cookie."""
    record = record_of(directory, token, now_s)
    if record.kind == SESSION:
        raise Unauthorized("this is a session of a browser, no token; ask an admin for a token")
    return _caller_of(directory, record)


def identify_session(directory: Directory, session: str, now_s: float) -> Caller:
    """The identity of the session in a browser's cookie.  Raises Unauthorized."""
    record = record_of(directory, session, now_s)
    if record.kind != SESSION:
        raise Unauthorized("the cookie holds no session; sign in")
    return _caller_of(directory, record)


def _caller_of(directory: Directory, record: TokenRecord) -> Caller:
    if record.kind == "join":
        return Caller(joining=True)
    if record.kind == "agent":
        return Caller(node=record.name)
    user = directory.user(record.name)
    if user is None:
        raise Unauthorized(f"the token's user {record.name!r} is no longer known here")
    return _person(user, user.admin)


def identify_peer(directory: Directory, uid: int, account: str, owner_uid: int) -> Caller:
    """The identity of a local process.

    The socket's owner and root are admins; another account is its user's.  Raises Forbidden for
    an account that no user has.
    """
    admin = uid in (ROOT, owner_uid)
    user = directory.user_of_account(account)
    if user is not None:
        return _person(user, admin or user.admin)
    if admin:
        return Caller(user=account, tenant=account, admin=True, account="" if uid == owner_uid else account)
    raise Forbidden(
        f"no user of this cluster has the account {account!r} (uid {uid}); use a token, or ask an admin for "
        "`rota user add NAME --account LOGIN`"
    )


class AuthenticationGate:
    """ASGI middleware: identifies the caller as `scope["identity"]`, or answers 401 or 403.

    A token comes first, also on the UNIX socket; then a browser's session, under which only pages of this
    controller may change anything; without either the kernel's word on the peer counts.  `open_paths` need
    none of them; one that ends in `/` stands for all below it.  `refused` writes the answers.
    """

    def __init__(
        self,
        app: ASGIApp,
        directory: Directory,
        open_paths: Iterable[str],
        owner_uid: int | None = None,
        refused: Refused | None = None,
    ) -> None:
        self._app = app
        self._directory = directory
        self._open = frozenset(open_paths)
        self._open_folders = tuple(path for path in self._open if path.endswith("/") and path != "/")
        self._refused = refused or refusal_of
        self._owner_uid = os.geteuid() if owner_uid is None else owner_uid
        self._accounts: dict[int, str] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the call on, or answer it."""
        if scope["type"] == "http" and not self._is_open(scope["path"]):
            try:
                scope["identity"] = await self._identify(scope)
                check_viewer(scope)
            except (Unauthorized, Forbidden) as error:
                await self._refused(scope, error)(scope, receive, send)
                return
        await self._app(scope, receive, send)

    def _is_open(self, path: str) -> bool:
        return path in self._open or path.startswith(self._open_folders)

    async def _identify(self, scope: Scope) -> Caller:
        headers = Headers(scope=scope)
        header, session = headers.get("authorization"), session_of(headers)
        peer: Peer | None = scope.get("state", {}).get("peer")
        if header is not None:
            scheme, _, token = header.partition(" ")
            if scheme.lower() != "bearer":
                _no_token()
            return identify_token(self._directory, token.strip(), time.time())
        if session:
            who = identify_session(self._directory, session, time.time())
            check_origin(scope["method"], headers)
            return who
        if peer is None:
            _no_token()
        account = self._accounts.get(peer.uid)
        if account is None:  # may ask a directory service: not on the event loop
            account = self._accounts[peer.uid] = await to_thread(account_of, peer.uid)
        return identify_peer(self._directory, peer.uid, account, self._owner_uid)


def refusal_of(_: Scope, error: Unauthorized | Forbidden) -> Response:
    """The gate's answer unless another is given."""
    return refusal(error)


def refusal(error: Unauthorized | Forbidden) -> Response:
    """The answer to a caller that is not known (401) or not allowed (403)."""
    unknown = isinstance(error, Unauthorized)
    headers = {"WWW-Authenticate": 'Bearer realm="rota"'} if unknown else {}
    body = json.dumps({"error": str(error)})
    return Response(body, 401 if unknown else 403, headers, "application/json")


def check_viewer(scope: Scope) -> None:
    """Raises Forbidden if a viewer, with read-only access, would change something by this call."""
    who: Caller = scope["identity"]
    if not who.viewer or scope["method"] in READING or scope["path"] in QUESTIONS:
        return
    raise Forbidden(f"{who.user!r} may look and change nothing; an admin can add a user who may do more")


def account_of(uid: int) -> str:
    """Name of an account of this machine, or `uid:N` if it has none."""
    try:
        return getpwuid(uid).pw_name
    except KeyError:
        return f"uid:{uid}"


def _person(user: UserView, admin: bool) -> Caller:
    viewer = user.viewer and not admin
    return Caller(user=user.name, tenant=user.tenant, admin=admin, viewer=viewer, account=user.account)


def _digest(salt: bytes, secret: str) -> bytes:
    return hashlib.sha256(salt + secret.encode()).digest()


def _no_token() -> NoReturn:
    raise Unauthorized("this call needs a token: send the header `Authorization: Bearer TOKEN`")
