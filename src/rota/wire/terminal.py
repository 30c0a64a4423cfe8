"""Input and output of a terminal, between a person, the controller and the agent of the job's node.

Each end of a session numbers its bytes from the beginning of that direction and may send them twice. A call
that sends returns at once (`wait_s` 0); a call that reads waits, and gets what comes after `seen`.
"""

from __future__ import annotations

import base64
import binascii
from typing import Annotated

from pydantic import AfterValidator, BaseModel, Field

from rota.wire import numbers as n

MOST_BYTES = 1 << 16
"""Most bytes of one message."""
MOST_SIDE = 10_000


def packed(data: bytes) -> str:
    """Bytes as text, in base64."""
    return base64.b64encode(data).decode("ascii")


def unpacked(text: str) -> bytes:
    """Bytes of a text in base64."""
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
    """One message from one end of a session."""

    session: Annotated[str, Field(max_length=64)] = ""
    """Session, as the controller named it; empty where a person asks for a new one."""
    at: n.Count = 0
    """Place of the first byte of `data` in what this end has sent."""
    data: Packed = ""
    """Bytes in base64."""
    seen: n.Count = 0
    """Place after the last byte that this end has received."""
    wait_s: Annotated[float, Field(ge=0, le=3600)] = 0.0
    rows: Side = 0
    """Size of a person's terminal; 0 if unknown."""
    columns: Side = 0
    over: bool = False
    """True if this end has closed."""


class TerminalReply(BaseModel):
    """The controller's answer to one end of a session."""

    session: str = ""
    """Session; empty while the job has not started."""
    have: int = 0
    """Place after the last byte that was accepted from this end."""
    at: int = 0
    """Place of the first byte of `data` in what the other end has sent."""
    data: str = ""
    rows: int = 0
    columns: int = 0
    over: bool = False
    """True if the session has ended, or the job ended before there was one."""
    why: str = ""


class TerminalCall(BaseModel):
    """A session that the agent of a node should take part in."""

    session: str
    row: int
    attempt: int
    seen: int = 0
    """Place up to which the person has received the output."""
