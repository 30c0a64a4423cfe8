"""Memories as bytes: a value of `rota.scheduler.moments.values`, its arrays as they stand, and a checksum."""

from __future__ import annotations

import json
import struct
import zlib
from typing import Any

import numpy as np

from rota.errors import RotaError
from rota.model.columns import Array
from rota.scheduler.moments.values import decode, encode

_MAGIC = b"RV1\n"
_HEAD = struct.Struct("<4sI")  # magic, checksum of the rest
_SIZES = struct.Struct("<QQ")  # bytes of the text, bytes of the list of arrays


def pack_value(value: Any, what: str = "memory") -> bytes:
    """`value` (JSON with NumPy arrays in it) as bytes; PolicyError names what cannot be stored."""
    text, arrays = encode(value, what)
    body = text.encode("utf-8", "surrogatepass")
    listed = json.dumps([[name, a.dtype.str, a.shape] for name, a in arrays.items()]).encode()
    sizes = _SIZES.pack(len(body), len(listed))
    rest = b"".join(
        [sizes, body, listed, *(np.ascontiguousarray(array).tobytes() for array in arrays.values())]
    )
    return _HEAD.pack(_MAGIC, zlib.crc32(rest)) + rest


def unpack_value(packed: bytes, what: str = "memory") -> Any:
    """The value that `pack_value` wrote; no bytes at all are an empty dictionary.  RotaError if damaged."""
    if not packed:
        return {}
    if len(packed) < _HEAD.size or packed[:4] != _MAGIC:
        raise RotaError(f"the stored {what} is none: it begins with {packed[:4]!r}")
    rest = packed[_HEAD.size :]
    if zlib.crc32(rest) != _HEAD.unpack_from(packed)[1]:
        raise RotaError(f"the stored {what} is damaged: its checksum does not match; set the policy anew")
    text_bytes, listed_bytes = _SIZES.unpack_from(rest)
    text_end = _SIZES.size + text_bytes
    at = text_end + listed_bytes
    arrays: dict[str, Array] = {}
    for name, dtype_name, shape in json.loads(rest[text_end:at]):
        dtype, count = np.dtype(dtype_name), int(np.prod(shape, dtype=np.int64))
        flat = np.frombuffer(rest, dtype, count, at) if count and dtype.itemsize else np.zeros(count, dtype)
        arrays[name] = flat.reshape(shape)
        at += count * dtype.itemsize
    return decode(rest[_SIZES.size : text_end].decode("utf-8", "surrogatepass"), arrays)
