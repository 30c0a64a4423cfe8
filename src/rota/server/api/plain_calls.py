"""Calls written as our own clients write them, read without a parser of HTTP.

What comes whole, in one piece and in the plainest form there is (no chunks, nothing behind it, a dozen fields
that cannot mean two things, each once) has one reading only, and that takes a tenth of what a parser takes
that must expect anything.  Whatever else comes is for the parser, byte for byte: `read` says None, and never
that something is wrong.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

MOST_HEAD_BYTES = 4096
_FIRST = re.compile(rb"(GET|POST) (/[A-Za-z0-9/._~-]*)(?:\?([A-Za-z0-9=&._~-]*))? HTTP/1\.1")
_FIELD = re.compile(rb"([A-Za-z-]{1,32}): ([!-~](?:[ -~]*[!-~])?)")
_LENGTH = re.compile(rb"[0-9]{1,9}")
_TOKEN = re.compile(rb"Bearer ([!-~]+)")
_KNOWN = frozenset(
    b"host accept accept-encoding user-agent authorization content-type content-length".split()
)
"""Fields that such a call may have."""
_JSON = b"application/json"
_ANSWERED = (None, b"*/*", _JSON)
"""What a caller may want for an answer: who wants a page gets other refusals."""
_BREAK = b"\r\n"


class PlainCall(NamedTuple):
    """One call, whole."""

    method: str
    path: str
    query: str
    token: str
    body: bytes
    """JSON, as its caller says; empty for GET."""


def read(data: bytes) -> PlainCall | None:
    """The one call that `data` is, with a token; None if it is anything else, or not all of it."""
    end = data.find(b"\r\n\r\n", 0, MOST_HEAD_BYTES)
    if end < 0:
        return None
    lines = data[:end].split(_BREAK)
    first, fields, body = _FIRST.fullmatch(lines[0]), _fields(lines[1:]), data[end + 4 :]
    if first is None or fields is None or b"host" not in fields or fields.get(b"accept") not in _ANSWERED:
        return None
    token = _TOKEN.fullmatch(fields.get(b"authorization", b""))
    if token is None or not _fits(first[1] == b"POST", fields, body):
        return None
    method, path, query = first[1].decode(), first[2].decode(), (first[3] or b"").decode()
    return PlainCall(method, path, query, token[1].decode(), body)


def _fields(lines: Iterable[bytes]) -> dict[bytes, bytes] | None:
    """Each known field once, by its name in small letters; None if there is anything else."""
    fields: dict[bytes, bytes] = {}
    for line in lines:
        match = _FIELD.fullmatch(line)
        if match is None:
            return None
        name = match[1].lower()
        if name in fields or name not in _KNOWN:
            return None
        fields[name] = match[2]
    return fields


def _fits(has_body: bool, fields: dict[bytes, bytes], body: bytes) -> bool:
    """Whether the body is all that was announced, and nothing behind it."""
    length = fields.get(b"content-length")
    if not has_body:
        return length is None and b"content-type" not in fields and not body
    is_number = length is not None and _LENGTH.fullmatch(length) is not None
    return is_number and fields.get(b"content-type") == _JSON and int(length or b"0") == len(body)


def written(status: bytes, fields: Iterable[tuple[bytes, bytes]], body: bytes) -> bytes:
    """An answer; `status` is `200 OK`."""
    head = b"".join([b"%b: %b\r\n" % field for field in fields])
    return b"HTTP/1.1 %b\r\n%b\r\n%b" % (status, head, body)
