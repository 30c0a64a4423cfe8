"""Lists of `key=value` as people type them on a command line."""

from __future__ import annotations

from collections.abc import Collection
from difflib import get_close_matches

from rota.errors import InputError


def parse_options(text: str, *, field: str, known: Collection[str]) -> dict[str, str]:
    """The pairs of `start=20s,restore=30s`; keys must be among `known` and come once each."""
    options: dict[str, str] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        key, equals, value = (piece.strip() for piece in part.partition("="))
        if not equals or not value:
            raise InputError.at(f"{part!r} is not a setting", field=field, expected="key=value,key=value")
        if key not in known:
            close = get_close_matches(key, known, n=1)
            hint = f"did you mean {close[0]!r}?" if close else f"it has {', '.join(known)}"
            raise InputError(f"{field} has no setting {key!r}; {hint}")
        if key in options:
            raise InputError(f"{field} sets {key!r} twice; expected each setting once")
        options[key] = value
    return options
