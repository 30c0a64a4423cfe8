"""Where the parts of a chart stand that is drawn alone, and how wide its texts are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil
from unicodedata import combining, east_asian_width

from rota.errors import InputError
from rota.reports.chart import Axis, Chart, Curve, with_marks
from rota.reports.palette import Style

FAMILY = "Helvetica, Arial, 'Liberation Sans', sans-serif"
_LETTERS = {
    222: "ijl",
    260: "|",
    278: " !,./:;I[]ft\\",
    333: "()-`r",
    350: "\"'*^{}",
    500: "Jcksvxyz",
    556: "#$0123456789?L_abdeghnopqu–",
    584: "+<=>~−",
    611: "FTZ",
    667: "&ABEKPSVXY",
    722: "CDHNRUw",
    778: "GOQ",
    833: "Mm",
    889: "%",
    944: "W",
    1000: "…",
    1015: "@",
}
_WIDTH = {letter: width / 1000 for width, letters in _LETTERS.items() for letter in letters}
_OTHER, _WIDE, _BOLD = 0.667, 1.0, 1.08


def text_width(text: str, size: float, *, bold: bool = False) -> float:
    """Width of `text` in letters of `size`, in its unit; of letters that are not Latin an estimate."""
    width = sum(_WIDTH.get(letter, _other(letter)) for letter in text)
    return width * size * (_BOLD if bold else 1.0)


def _other(letter: str) -> float:
    if combining(letter):
        return 0.0
    return _WIDE if east_asian_width(letter) in "WF" else _OTHER


def wrapped(text: str, size: float, width: float, *, bold: bool = False) -> list[str]:
    """`text` in lines of at most `width`, broken between words; a longer word is cut."""
    lines: list[str] = []
    for word in text.split():
        longer = f"{lines[-1]} {word}" if lines else word
        if lines and text_width(longer, size, bold=bold) <= width:
            lines[-1] = longer
        else:
            lines.append(cut(word, size, width, bold=bold))
    return lines


def cut(text: str, size: float, width: float, *, bold: bool = False) -> str:
    """`text`, or as much of its beginning and end as fits in `width` around an ellipsis."""
    kept = len(text)
    short = text
    while kept > 2 and text_width(short, size, bold=bold) > width:
        kept -= 1
        short = f"{text[: kept - kept // 2]}…{text[len(text) - kept // 2 :]}"
    return short


PER_INCH = 96.0
"""Pixels of an SVG to the inch."""
WIDTH_IN = 760 / PER_INCH
SMALLEST_IN, LARGEST_IN = 1.0, 40.0
_TALL = 0.45
"""Height of a plot as a part of its width, where no height is asked for."""
_NARROWEST, _LOWEST = 7.0, 5.0
"""Least width and height of a plot, in heights of a letter."""
SWATCH, SWATCH_GAP, NAME_GAP = 1.6, 0.4, 1.4
"""Of the names of curves, in heights of a letter: the line before a name, the space after it, between two."""


@dataclass(frozen=True)
class Named:
    """The name of a curve, and where its line begins, in letters' heights from the left and rows."""

    curve: Curve
    text: str
    x: float
    row: int


@dataclass(frozen=True)
class ChartLayout:
    """A chart with its marks, and its places in pixels from the left and the top."""

    chart: Chart
    """Its axes end with the part shown."""
    style: Style
    width: float
    height: float
    left: float
    top: float
    plot_width: float
    plot_height: float
    title: tuple[str, ...]
    names: tuple[Named, ...]
    x_label: tuple[str, ...]
    y_label: tuple[str, ...]

    @property
    def letter(self) -> float:
        return letter_of(self.style)

    @property
    def bottom(self) -> float:
        return self.top + self.plot_height


def letter_of(style: Style) -> float:
    """Height of the letters of `style`, in pixels."""
    return style.letters_pt / 72 * PER_INCH


def line_of(letter: float) -> float:
    """From one line of text to the next."""
    return 1.35 * letter


def title_of(letter: float) -> float:
    """Height of the letters of a title."""
    return 1.25 * letter


def layout(chart: Chart, style: Style, width_in: float | None, height_in: float | None) -> ChartLayout:
    """Room for everything in `width_in` times `height_in` inches; a height that fits if None.

    InputError if that is too small for the plot.
    """
    width = (width_in or WIDTH_IN) * PER_INCH
    height = None if height_in is None else height_in * PER_INCH
    letter = letter_of(style)
    y_lines, right = 1, 2 * letter
    for _ in range(2):  # the second round makes room for the labels found in the first
        made = _round(chart, style, (width, height), y_lines, right)
        y_lines = len(made.y_label)
        last = made.chart.x.ticks[-1].text
        right = max(letter, text_width(last, letter) / 2 + 0.3 * letter)
    return made


def _round(
    chart: Chart, style: Style, size: tuple[float, float | None], y_lines: int, right: float
) -> ChartLayout:
    width, height = size
    letter = letter_of(style)
    line = line_of(letter)
    ticks = max(text_width(tick.text, letter) for tick in chart.y.ticks)
    left = 0.6 * letter + y_lines * line + ticks + 1.2 * letter
    plot_width = width - left - right
    if plot_width < _NARROWEST * letter:
        raise _too_small("--width", width, _NARROWEST * letter - plot_width)
    title = wrapped(chart.title, title_of(letter), plot_width, bold=True) if style.titled else []
    names, rows = _names(chart.curves, letter, plot_width)
    x_label = wrapped(chart.x.label, letter, plot_width)
    top = 0.9 * letter + len(title) * 1.3 * title_of(letter) + rows * 1.2 * line + 0.3 * letter
    bottom = 1.8 * letter + len(x_label) * line + 0.6 * letter
    plot_height = _TALL * plot_width if height is None else height - top - bottom
    if height is None:
        plot_height = max(plot_height, 2 * _LOWEST * letter)
    elif plot_height < _LOWEST * letter:
        raise _too_small("--height", height, _LOWEST * letter - plot_height)
    x = _spaced(chart.x, plot_width, letter, chart.shown, across=True)
    beside = plot_height + 2 * min(top, bottom) - letter  # it may be longer than the plot is high
    y = _spaced(chart.y, plot_height, letter, 1.0, across=False)
    return ChartLayout(
        replace(chart, x=x, y=y),
        style,
        width,
        top + plot_height + bottom,
        left,
        top,
        plot_width,
        plot_height,
        tuple(title),
        names,
        tuple(x_label),
        tuple(wrapped(chart.y.label, letter, beside)),
    )


def _too_small(option: str, asked: float, missing: float) -> InputError:
    least = ceil((asked + missing) / PER_INCH * 10 + 1) / 10
    return InputError.at(
        f"{asked / PER_INCH:.3g} in is too small for this figure",
        field=option,
        expected=f"{least:g} in or more",
    )


def _names(curves: Sequence[Curve], letter: float, width: float) -> tuple[tuple[Named, ...], int]:
    """The named curves in rows of at most `width`, and the number of rows; a name that is longer is cut."""
    made: list[Named] = []
    before = SWATCH + SWATCH_GAP
    x, row = 0.0, 0
    for curve in curves:
        if not curve.name:
            continue
        text = cut(curve.name, letter, width - before * letter)
        wide = before + text_width(text, letter) / letter
        if x and (x + wide) * letter > width:
            x, row = 0.0, row + 1
        made.append(Named(curve, text, x, row))
        x += wide + NAME_GAP
    return tuple(made), row + 1 if made else 0


def _spaced(axis: Axis, length: float, letter: float, part: float, *, across: bool) -> Axis:
    """`axis`, or the first `part` of it, with as many marks as can be read on `length` pixels."""
    most = 14 if axis.log else max(min(int(length / (4 * letter if across else 2.2 * letter)), 10), 2)
    for number in range(most, 1, -1):
        made = with_marks(axis, number, part)
        if _apart(made, length, letter, across=across):
            return made
    return with_marks(axis, 1, part)


def _apart(axis: Axis, length: float, letter: float, *, across: bool) -> bool:
    """Whether no two neighbours among its marks touch each other."""
    room = [text_width(tick.text, letter) + 0.9 * letter if across else 1.5 * letter for tick in axis.ticks]
    places = [tick.at * length for tick in axis.ticks]
    return all(places[i + 1] - places[i] >= (room[i] + room[i + 1]) / 2 for i in range(len(places) - 1))
