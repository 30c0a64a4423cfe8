"""Users, the tokens of agents, and the machines that join."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sqlalchemy import bindparam, func, select

from rota.errors import InputError
from rota.model.units import plural
from rota.server.store import tables as t
from rota.server.store.database import Writing
from rota.server.store.rows import NodeRow, TokenRow, UserRow
from rota.server.store.stored import INSERT, NODE, TOKEN, USER, selected, upsert
from rota.wire.sync import NodeInfo

_USER_GONE = t.users.delete().where(t.users.c.name == bindparam("n"))
_TOKEN_GONE = t.tokens.delete().where(t.tokens.c.hash == bindparam("h"))
_OLD_TOKENS = t.tokens.delete().where(t.tokens.c.kind == "agent", t.tokens.c.node == bindparam("n"))
_NODE = selected(t.nodes, NODE).where(t.nodes.c.name == bindparam("n"))
_LAST = selected(t.nodes, NODE).where(
    t.nodes.c.position == select(func.max(t.nodes.c.position)).scalar_subquery()
)


def set_user(writing: Writing, dialect: str, user: UserRow) -> None:
    """See `Store.set_user`."""
    writing.run("users", upsert(t.users, dialect, USER.names), USER.params(user))


def remove_user(writing: Writing, name: str) -> bool:
    """See `Store.remove_user`."""
    return writing.run("users", _USER_GONE, {"n": name}).rowcount > 0


def add_token(writing: Writing, token: TokenRow) -> None:
    """See `Store.add_token`."""
    writing.run("tokens", INSERT["tokens"], TOKEN.params(token))


def remove_token(writing: Writing, token_hash: str) -> bool:
    """See `Store.remove_token`."""
    return writing.run("tokens", _TOKEN_GONE, {"h": token_hash}).rowcount > 0


def join(writing: Writing, dialect: str, info: NodeInfo, token: TokenRow) -> NodeRow:
    """See `Store.join`."""
    known = _read(writing, _NODE, {"n": info.name})
    node = _anew(writing, info, token) if known is None else _back(known, info, token)
    writing.run("tokens", _OLD_TOKENS, {"n": info.name})
    add_token(writing, token)
    writing.run("nodes", upsert(t.nodes, dialect, NODE.names), NODE.params(node))
    return node


def _read(writing: Writing, statement: Any, params: dict[str, Any] | None = None) -> NodeRow | None:
    values = writing.run("nodes", statement, params).first()
    return None if values is None else NODE.row(values)


def _anew(writing: Writing, info: NodeInfo, token: TokenRow) -> NodeRow:
    last = _read(writing, _LAST)
    position, device = (
        (0, 0) if last is None else (last.position + 1, last.first_device + len(last.info.devices))
    )
    return NodeRow(position, info.name, info, "up", device, token.at_s, token.hash)


def _back(known: NodeRow, info: NodeInfo, token: TokenRow) -> NodeRow:
    """A machine that was here before: its place stays, and its state until the scheduler changes it.

    One that was forgotten is as if it had been lost.
    """
    had, has = len(known.info.devices), len(info.devices)
    if had != has:
        raise InputError.at(
            f"node {info.name!r} comes with {plural(has, 'device')}; "
            f"it joined with {had}, whose numbers are taken",
            expected=f"{plural(had, 'device')}, or another name for the node",
        )
    if known.state == "forgotten":
        known = replace(known, state="lost", reason="has joined again and is not heard of yet")
    return replace(known, info=info, token=token.hash)
