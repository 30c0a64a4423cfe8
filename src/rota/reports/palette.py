"""Colours that stay apart for colour-blind readers, on white and on dark; after Okabe & Ito and Tol."""

from __future__ import annotations

LIGHT = ("#2f6db3", "#d55e00", "#12876a", "#a03c86", "#b58900", "#3aa0c9", "#6b6b6b", "#7a4b2a")
DARK = ("#6ea8ea", "#ff8f45", "#41c79f", "#dc86c6", "#e6bd3f", "#7fd0f2", "#a9a9a9", "#c99a72")
BARS = ("#7f9fcc", "#d0aa66", "#78b39e", "#b68fc0", "#cc8878", "#a3ad62", "#8e93a0", "#62aabd")
"""Tenants or sizes in a Gantt chart: softer, so that nobody takes them for policies; in both modes."""
DASHES = ("", "7 3", "2 3")
"""One more for each round through the colours."""


def dash(colour: int, dashed: bool = False) -> str:
    """Dash pattern of curve number `colour`; `dashed` for what is observed rather than simulated."""
    return "1 3" if dashed else DASHES[min(colour // len(LIGHT), len(DASHES) - 1)]
