"""Colours that stay apart for colour-blind readers, on white and on dark; after Okabe & Ito and Tol."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

LIGHT = ("#2f6db3", "#d55e00", "#12876a", "#a03c86", "#b58900", "#3aa0c9", "#6b6b6b", "#7a4b2a")
DARK = ("#6ea8ea", "#ff8f45", "#41c79f", "#dc86c6", "#e6bd3f", "#7fd0f2", "#a9a9a9", "#c99a72")
BARS = ("#7f9fcc", "#d0aa66", "#78b39e", "#b68fc0", "#cc8878", "#a3ad62", "#8e93a0", "#62aabd")
"""Tenants or sizes in a Gantt chart: softer, so that they are not taken for policies; in both modes."""
DASHES = ("", "7 3", "2 3")
"""One more for each round through the colours."""
PRINTED = ("", "7 3", "2 2", "9 3 2 3", "4 2", "9 3 2 3 2 3", "12 4", "5 2 1 2")
"""One for each colour, so that curves stay apart on paper without any."""
_OBSERVED = "1 3"


def dash(colour: int, dashed: bool = False) -> str:
    """Dash pattern of curve number `colour`; `dashed` for what is observed rather than simulated."""
    return _OBSERVED if dashed else DASHES[min(colour // len(LIGHT), len(DASHES) - 1)]


@dataclass(frozen=True)
class Style:
    """How a chart is drawn that stands alone."""

    paper: str
    """Colour of the background."""
    ink: str
    soft: str
    """Of ticks, names and titles of axes."""
    grid: str
    colours: tuple[str, ...]
    letters_pt: float = 9.0
    line: float = 2.0
    """Width of curves, in pixels at 96 to the inch."""
    dashes: tuple[str, ...] = ()
    """Dash patterns by number of the curve; empty for the report's patterns."""
    titled: bool = True
    """Whether the chart's title stands above it."""

    def dash(self, colour: int, dashed: bool) -> str:
        """Dash pattern of curve number `colour`; `dashed` for what is observed rather than simulated."""
        if self.dashes and not dashed:
            return self.dashes[colour % len(self.dashes)]
        return dash(colour, dashed)


STYLES: Mapping[str, Style] = {
    "light": Style("#ffffff", "#1a1a1a", "#555555", "#e4e4e4", LIGHT),
    "dark": Style("#16181c", "#eeeeee", "#aaaaaa", "#30343b", DARK),
    "print": Style(
        "#ffffff",
        "#000000",
        "#000000",
        "#dddddd",
        LIGHT,
        letters_pt=8.0,
        line=1.5,
        dashes=PRINTED,
        titled=False,
    ),
}
"""Styles by name."""
