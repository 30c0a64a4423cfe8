"""Pieces of logs for remote readers: whole characters, with one byte for each byte of the log.

A byte that is not UTF-8 becomes `?`, so that `offset` plus the bytes of `text` is where the next piece
begins. A character cut at the end of a piece is left for the next one.
"""

from __future__ import annotations

import codecs
import os

from rota.engines.rota.folder import AgentFolder, open_theirs
from rota.wire.numbers import MOST_COUNT
from rota.wire.sync import Fetch, Piece

MOST_BYTES = 1 << 19
"""Most bytes of a piece: JSON may make it six times as long, and a controller accepts 4 MiB."""


def _byte_for_byte(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeDecodeError)
    return "?" * (error.end - error.start), error.end


codecs.register_error("rota-byte-for-byte", _byte_for_byte)


def fetch(home: AgentFolder, request: Fetch) -> Piece:
    """The requested piece, or an empty one whose `error` says why there is none."""
    folder = home.of(request.row, request.attempt)
    try:
        fd = open_theirs(folder.log(request.rank))
    except FileNotFoundError:
        why = f"there is no log of rank {request.rank} of attempt {request.attempt} on this machine"
        return Piece(id=request.id, offset=max(0, request.offset), text="", size=0, error=why)
    except OSError as error:
        return _unread(request, error)
    try:
        return _piece(fd, request)
    except OSError as error:
        return _unread(request, error)


def _unread(request: Fetch, error: OSError) -> Piece:
    why = f"the log cannot be read: {error.strerror or error}"
    return Piece(id=request.id, offset=max(0, request.offset), text="", size=0, error=why)


def _piece(fd: int, request: Fetch) -> Piece:
    with open(fd, "rb") as stream:
        # A sparse file may report more bytes than the wire allows.
        size = min(os.fstat(stream.fileno()).st_size, MOST_COUNT)
        offset = request.offset if request.offset >= 0 else max(0, size + request.offset)
        stream.seek(offset)
        data = stream.read(max(0, min(request.limit, MOST_BYTES)))
    if request.offset < 0:
        skipped = _continued(data)  # begin with a whole character
        offset, data = offset + skipped, data[skipped:]
    return Piece(id=request.id, offset=offset, text=decoded(data), size=size)


def decoded(data: bytes) -> str:
    """Text with as many bytes as `data`, or fewer if its last character is cut."""
    cut = _cut(data)
    whole = data[:-cut] if 0 < cut < len(data) else data
    return whole.decode("utf-8", errors="rota-byte-for-byte")


def _continued(data: bytes) -> int:
    """Number of bytes at the start that continue a character."""
    count = 0
    while count < min(3, len(data)) and data[count] & 0xC0 == 0x80:
        count += 1
    return count


def _cut(data: bytes) -> int:
    """Number of bytes at the end that begin a character without finishing it."""
    for back in range(1, min(3, len(data)) + 1):
        byte = data[-back]
        if byte & 0xC0 == 0x80:
            continue
        length = 4 if byte >> 3 == 0b11110 else 3 if byte >> 4 == 0b1110 else 2 if byte >> 5 == 0b110 else 1
        return back if back < length else 0
    return 0
