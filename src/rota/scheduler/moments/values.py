"""Values that can be stored: JSON with NumPy arrays in it.  Memories and snapshots are such values.

`encode` splits a value into JSON text and a dictionary of arrays, `decode` joins them again.  What comes
back is equal: same types, same order of keys, arrays of the same dtype and shape.  Dictionaries may have
rows (whole numbers) as keys.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from rota.errors import PolicyError
from rota.model.columns import Array

_ARRAY, _ROWS = "$array", "$rows"
_AS_IS = frozenset({type(None), bool, int, float, str})
"""Types that JSON supports.  Most values are of these types; checked in place, they cost no call."""


def encode(value: Any, what: str = "memory") -> tuple[str, dict[str, Array]]:
    """JSON text and arrays of `value`; PolicyError names the first place that cannot be stored."""
    arrays: dict[str, Array] = {}
    try:
        return json.dumps(_plain(value, arrays, what), separators=(",", ":")), arrays
    except RecursionError:
        raise PolicyError(f"{what} goes too deep, or holds itself; expected values within values") from None


def decode(text: str, arrays: Mapping[str, Array]) -> Any:
    """The value that `encode` split; arrays are fresh copies."""
    return _whole(json.loads(text), arrays)


def copied(value: Any, what: str = "memory") -> Any:
    """`value` after a trip through its stored form: what another process would read."""
    return decode(*encode(value, what))


def digest(value: Any, what: str = "value") -> str:
    """A hash that two values share only if every bit of them is the same."""
    text, arrays = encode(value, what)
    sums = hashlib.blake2b(text.encode(), digest_size=16)
    for name, array in arrays.items():
        sums.update(f"{name} {array.dtype.str} {array.shape}".encode())
        sums.update(np.ascontiguousarray(array).tobytes())
    return sums.hexdigest()


def _plain(value: Any, arrays: dict[str, Array], where: str) -> Any:
    """`value` as JSON knows it, arrays put aside."""
    if type(value) in _AS_IS:
        return value
    if isinstance(value, np.ndarray) and value.dtype.kind in "biufU":
        name = f"a{len(arrays)}"
        arrays[name] = value
        return {_ARRAY: name}
    if type(value) is list:
        return [
            item if type(item) in _AS_IS else _plain(item, arrays, f"{where}[{i}]")
            for i, item in enumerate(value)
        ]
    if type(value) is dict:
        return _plain_dict(value, arrays, where)
    raise PolicyError(
        f"{where} holds a {type(value).__name__}, which cannot be stored; expected JSON values "
        "(None, bool, int, float, str, list, dict) or NumPy arrays of numbers"
    )


def _plain_dict(value: dict[Any, Any], arrays: dict[str, Array], where: str) -> Any:
    kinds = {type(key) for key in value}
    if kinds == {int}:
        return {_ROWS: [[key, _plain(item, arrays, f"{where}[{key}]")] for key, item in value.items()]}
    if kinds - {str} or any(key.startswith("$") for key in value):
        raise PolicyError(
            f"{where} has the key {next(k for k in value if type(k) is not str or k.startswith('$'))!r}; "
            "expected only strings that do not begin with '$', or only whole numbers"
        )
    return {
        key: item if type(item) in _AS_IS else _plain(item, arrays, f"{where}[{key!r}]")
        for key, item in value.items()
    }


def _whole(value: Any, arrays: Mapping[str, Array]) -> Any:
    if isinstance(value, list):
        return [_whole(item, arrays) for item in value]
    if not isinstance(value, dict):
        return value
    if _ARRAY in value:
        return np.array(arrays[value[_ARRAY]])
    if _ROWS in value:
        return {key: _whole(item, arrays) for key, item in value[_ROWS]}
    return {key: _whole(item, arrays) for key, item in value.items()}
