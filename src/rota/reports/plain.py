"""The one way to plain values: the content of a report as JSON values."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any


def plain(value: Any) -> Any:
    """Dataclasses and mappings as dicts with texts for keys, sequences as lists; NaN and infinity as None."""
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): plain(of) for key, of in value.items()}
    if isinstance(value, list | tuple):
        return [plain(of) for of in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def json_text(value: Any, indent: int = 2) -> str:
    """`value` as JSON; unknown types become text."""
    return json.dumps(plain(value), indent=indent, ensure_ascii=False, default=str)
