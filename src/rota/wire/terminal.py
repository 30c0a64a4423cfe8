"""What is typed and what is printed, between a person, the controller and the agent of the job's node.

Both ends of a session say what they have by its place, in bytes since the beginning of that direction, and
may say it twice.  Who says something does not wait (`wait_s` 0); who listens waits, and gets what is behind
`seen`.
"""

from __future__ import annotations

import base64
import binascii
from typing import Annotated

from pydantic import AfterValidator, BaseModel, Field

from rota.wire import numbers as n

MOST_BYTES = 1 << 16
"""Of one message."""
MOST_SIDE = 10_000


def packed(data: bytes) -> str:
    """Bytes as text."""
    return base64.b64encode(data).decode("ascii")


def unpacked(text: str) -> bytes:
    """The bytes of such a text."""
    return base64.b64decode(text)


def _is_packed(text: str) -> str:
    try:
        base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise ValueError("data is no base64") from None
    return text


Packed = Annotated[
    str,
    Field(
        max_length=MOST_BYTES * 4 // 3 + 4,
        pattern="^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$",
    ),
    AfterValidator(_is_packed),
]
Side = Annotated[int, Field(ge=0, le=MOST_SIDE)]


class TerminalTalk(BaseModel):
    """What one end of a session says."""

    session: Annotated[str, Field(max_length=64)] = ""
    """As the controller has named it; empty where a person asks for one."""
    at: n.Count = 0
    """Place of the first byte of `data` in what this end says."""
    data: Packed = ""
    """Base64."""
    seen: n.Count = 0
    """Place behind the last byte that this end has of the other."""
    wait_s: Annotated[float, Field(ge=0, le=3600)] = 0.0
    rows: Side = 0
    """Of a person's terminal; 0 says nothing."""
    columns: Side = 0
    over: bool = False
    """This end is gone."""


class TerminalReply(BaseModel):
    """What the controller says to it."""

    session: str = ""
    """Empty while the job has not begun."""
    have: int = 0
    """Place behind the last byte that was taken of this end."""
    at: int = 0
    """Place of the first byte of `data` in what the other end says."""
    data: str = ""
    rows: int = 0
    columns: int = 0
    over: bool = False
    """The session is over, or the job before there was one."""
    why: str = ""


class TerminalCall(BaseModel):
    """A session that the agent of a node is to take part in."""

    session: str
    row: int
    attempt: int
    seen: int = 0
    """The person has what was printed up to here."""
