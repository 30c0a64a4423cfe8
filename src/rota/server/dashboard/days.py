"""Days as people write them in forms: `2026-11-22`, in UTC."""

from __future__ import annotations

from datetime import UTC, datetime

from rota.errors import InputError


def day_start(text: str, field: str) -> float | None:
    """Unix time at which the day begins; None for no text; InputError, naming `field`, for what is no day."""
    if not text:
        return None
    try:
        return datetime.strptime(text, "%Y-%m-%d").replace(tzinfo=UTC).timestamp()
    except ValueError:
        raise InputError.at(f"{text!r} is no day", field=field, expected="one such as 2026-11-22") from None
