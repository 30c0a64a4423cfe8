"""Users and the tokens that stand for them."""

from __future__ import annotations

from rota.server.api.forms import JoinToken, NewUser, UserToken
from rota.server.auth import mint
from rota.server.facade import Conflict, NotFound
from rota.server.roster import StoredRoster
from rota.wire.views import UserView


def add_user(roster: StoredRoster, user: NewUser) -> UserToken:
    """A user with a token that is shown only now; Conflict if the name is taken."""
    if roster.user(user.name) is not None:
        raise Conflict(f"there is a user {user.name!r} already")
    view = UserView(name=user.name, admin=user.admin, tenant=user.tenant or user.name, account=user.account)
    roster.put_user(view)
    return UserToken(user=view, token=roster.renew("user", user.name))


def new_token(roster: StoredRoster, name: str) -> UserToken:
    """A new token in place of the old ones; NotFound."""
    view = roster.user(name)
    if view is None:
        raise NotFound(f"there is no user {name!r}")
    return UserToken(user=view, token=roster.renew("user", name))


def remove_user(roster: StoredRoster, name: str) -> None:
    """The user's tokens are worth nothing any more; NotFound."""
    if roster.user(name) is None:
        raise NotFound(f"there is no user {name!r}")
    roster.remove_user(name)


def join_token(roster: StoredRoster, lifetime_s: float) -> JoinToken:
    """A token with which machines may join for a while."""
    token, record = mint("join", "", lifetime_s)
    roster.put_token(record)
    return JoinToken(token=token, expires_s=record.expires_s or 0.0)
