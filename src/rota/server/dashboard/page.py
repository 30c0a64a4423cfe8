"""What a page is to the others: its name, its place, and the key that leads to it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class NavigationEntry:
    """One entry of the navigation."""

    name: str
    path: str = ""
    """Where it is; empty for a page that is not there yet."""
    key: str = ""
    """Letter that leads to it after `g`."""
    module: str = ""
    """Module whose `router` serves it."""
