"""A picture of numbers between 0 and 1: one colour, more or less of it, on whatever lies behind."""

from __future__ import annotations

import base64
import struct
import zlib

import numpy as np

from rota.model.columns import Floats

_LEVELS = 64


def data_uri(shares: Floats, colour: tuple[int, int, int]) -> str:
    """`shares` (rows × columns, 0 to 1) as a PNG data URI; 0 is transparent, 1 is `colour`."""
    levels = np.round(np.clip(shares, 0, 1) * _LEVELS).astype(np.uint8)
    height, width = levels.shape
    lines = np.zeros((height, width + 1), dtype=np.uint8)  # each line opens with its filter: none
    lines[:, 1:] = levels
    alpha = np.round(np.linspace(0, 255, _LEVELS + 1)).astype(np.uint8)
    chunks = [
        (b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)),  # 8 bits, palette
        (b"PLTE", bytes(colour) * (_LEVELS + 1)),
        (b"tRNS", alpha.tobytes()),
        (b"IDAT", zlib.compress(lines.tobytes(), 9)),
        (b"IEND", b""),
    ]
    data = b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(name, body) for name, body in chunks)
    return "data:image/png;base64," + base64.b64encode(data).decode("ascii")


def _chunk(name: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))
