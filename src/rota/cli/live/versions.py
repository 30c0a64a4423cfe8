"""Errors between this rota and a controller of another version say which of them is older."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rota.errors import RotaError

if TYPE_CHECKING:
    from rota.client import Client

NOT_THERE = ("is no parameter of this call", "; GET /openapi.json lists what")
"""How a controller refuses calls and parameters that it does not know; ours are spelt correctly."""
NO_FIELD = "is no field here"
"""The user may have misspelt it, so this alone says nothing of versions."""


@contextmanager
def told_apart(client: Client) -> Iterator[None]:
    """Turns missing calls, parameters and fields in this block into an error about an older controller.

    The protocol only ever gains them: an older controller refuses unknown calls and omits new fields.
    """
    from rota.client import Refused

    try:
        yield
    except Refused as refused:
        said = str(refused)
        if any(words in said for words in NOT_THERE) or (NO_FIELD in said and _versions(client)):
            raise RotaError(f"{_older(client)} ({said})") from None
        raise
    except ValueError as error:
        from pydantic import ValidationError

        if not isinstance(error, ValidationError):
            raise
        first = error.errors()[0]
        where = ".".join(str(part) for part in (error.title, *first["loc"]))
        raise RotaError(f"{_older(client)} (its answer lacks {where}: {first['msg'].lower()})") from None


def _older(client: Client) -> str:
    return (
        f"the controller at {client.address} runs an older Rota than this one{_versions(client)}: upgrade "
        "the controller, or use its version here"
    )


def _versions(client: Client) -> str:
    """Both versions in words; empty if no difference is known."""
    from rota.client import Refused, Unreachable
    from rota.model.revision import are_other, full_version

    try:
        theirs = str(client.call("GET", "/health").get("version", ""))
    except (Refused, Unreachable):
        return ""
    ours = full_version()
    return f" (version {theirs}, here {ours})" if theirs and are_other(theirs, ours) else ""
