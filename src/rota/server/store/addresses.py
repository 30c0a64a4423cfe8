"""Addresses of databases, and the passwords in them.  Standard library only: commands ask as they start."""

from __future__ import annotations

import re

_BEFORE_HOST = re.compile(r"(?<=://)[^/@]*?:(.+)(?=@)")
_IN_QUERY = re.compile(r"(?i)([?&][^=&@]*(?:passw|pwd|secret)[^=&@]*=)([^&]+)")
"""`?password=…&sslpassword=…`: parameters as libpq knows them, and names meant for one."""


def passwords_in(address: str) -> list[str]:
    """As they are written, before the host and among the parameters; never empty ones."""
    before = [match[1] for match in _BEFORE_HOST.finditer(address)]
    return before + [match[2] for match in _IN_QUERY.finditer(address)]


def without_parameters(address: str) -> str:
    """An address without the passwords among its parameters."""
    return _IN_QUERY.sub(r"\1…", address)


def without_passwords(address: str) -> str:
    """An address without any password, and without the user of one before the host."""
    shown = without_parameters(address)
    if "://" not in shown or "@" not in shown:
        return shown
    head, _, tail = shown.rpartition("@")
    return f"{head.partition('://')[0]}://…@{tail}"
