"""Logs in JSON: parsed, or refused with a sentence that says where and why."""

from __future__ import annotations

import json
from typing import Any

from rota.errors import InputError
from rota.model.once import json_once
from rota.traces.source import TEXT, TraceSource


def parsed(source: TraceSource, expected: str) -> Any:
    """The value in `source`; InputError if that is not JSON, or has a text or number that is invalid."""
    text = source.data.decode()
    for row, what in source.garbled.items():
        raise InputError.at(what, file=source.file, row=row, expected=TEXT)
    try:
        value = json_once(text, source.file)
    except json.JSONDecodeError as error:
        raise InputError.at(
            f"not valid JSON ({error.msg})", file=source.file, row=error.lineno, expected=expected
        ) from None
    except RecursionError:
        raise InputError.at("the JSON is nested too deeply", file=source.file, expected=expected) from None
    except ValueError:  # Python cannot read whole numbers of more than some thousand digits
        raise InputError.at("a number has too many digits", file=source.file, expected=expected) from None
    _check_characters(source, text, value)
    return value


def _check_characters(source: TraceSource, text: str, value: Any) -> None:
    r"""Raise for half of a surrogate pair, `\ud83d` alone: JSON can express it, but no file can store it."""
    if "\\ud" not in text.lower():
        return
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        half = f"\\u{ord(error.object[error.start]):04x}"
        lower = text.lower()
        row = lower.count("\n", 0, lower.find(half)) + 1
        raise InputError.at(
            f"{half} is half a character", file=source.file, row=row, expected="both halves, or text in UTF-8"
        ) from None
