"""A chart as a stand-alone SVG file: its own text, its own size and colours."""

from __future__ import annotations

from html import escape

import numpy as np

from rota.model.columns import Floats
from rota.reports.chart import Chart, Curve, path_of
from rota.reports.layout import FAMILY, PER_INCH, SWATCH, SWATCH_GAP, ChartLayout, layout, line_of, title_of
from rota.reports.palette import STYLES, Style


def draw(
    chart: Chart,
    style: str | None = None,
    *,
    width_in: float | None = None,
    height_in: float | None = None,
) -> str:
    """`chart` as the text of an SVG file.

    `style` is one of `STYLES`; with None the file follows its reader's light or dark mode.  The size is in
    inches: 7.9 wide, and as high as fits, unless given.  InputError if the chart has no room in it.
    """
    placed = layout(chart, STYLES[style or "light"], width_in, height_in)
    width, height = placed.width, placed.height
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width / PER_INCH:.4g}in" '
        f'height="{height / PER_INCH:.4g}in" viewBox="0 0 {width:.1f} {height:.1f}" role="img" '
        'aria-labelledby="title text">',
        f'<title id="title">{escape(chart.title)}</title>'
        f'<desc id="text">{escape(f"{chart.text} {chart.caption}".strip())}</desc>',
        f"<style>{_sheet(placed, follows=style is None)}</style>",
        f'<rect class="paper" width="{width:.1f}" height="{height:.1f}"/>',
        *_title(placed),
        *_names(placed),
        *_grid(placed),
        *_unmeasured(placed),
        *(_band(placed, curve) for curve in chart.curves if curve.band),
        *(_curve(placed, curve) for curve in chart.curves),
        "</svg>\n",
    ]
    return "\n".join(parts)


def _sheet(placed: ChartLayout, *, follows: bool) -> str:
    style, letter = placed.style, placed.letter
    sheet = (
        f"text{{font:{letter:.2f}px {FAMILY}}}.title{{font-size:{title_of(letter):.2f}px;font-weight:600}}"
        f".grid{{fill:none;stroke-width:{style.line / 2:g}}}"
        f".curve{{fill:none;stroke-width:{style.line:g};stroke-linejoin:round}}"
        f".band{{opacity:.15}}.unmeasured{{opacity:.13}}{_colours(style)}"
    )
    return f"{sheet}@media(prefers-color-scheme:dark){{{_colours(STYLES['dark'])}}}" if follows else sheet


def _colours(style: Style) -> str:
    curves = "".join(f".c{i}{{stroke:{one}}}.b{i}{{fill:{one}}}" for i, one in enumerate(style.colours))
    return (
        f"text{{fill:{style.soft}}}.title{{fill:{style.ink}}}.paper{{fill:{style.paper}}}"
        f".grid{{stroke:{style.grid}}}.unmeasured{{fill:{style.soft}}}{curves}"
    )


def _title(placed: ChartLayout) -> list[str]:
    size, x = title_of(placed.letter), placed.left
    places = [0.9 * placed.letter + (1 + 1.3 * number) * size for number in range(len(placed.title))]
    return [
        f'<text class="title" x="{x:.1f}" y="{y:.1f}">{escape(line)}</text>'
        for line, y in zip(placed.title, places, strict=True)
    ]


def _names(placed: ChartLayout) -> list[str]:
    letter, row = placed.letter, 1.2 * line_of(placed.letter)
    first = 0.9 * letter + len(placed.title) * 1.3 * title_of(letter) + 0.5 * row
    parts = []
    for named in placed.names:
        x, y = placed.left + named.x * letter, first + named.row * row
        parts.append(
            f'<path class="curve {_colour(named.curve)}"{_dashes(placed.style, named.curve)} '
            f'd="M{x:.1f} {y:.1f}h{SWATCH * letter:.1f}"/>'
            f'<text x="{x + (SWATCH + SWATCH_GAP) * letter:.1f}" y="{y + 0.35 * letter:.1f}">'
            f"{escape(named.text)}</text>"
        )
    return parts


def _grid(placed: ChartLayout) -> list[str]:
    """Lines at the marks, their labels, and the titles of both axes."""
    parts = []
    left, top, bottom, letter = placed.left, placed.top, placed.bottom, placed.letter
    line = line_of(letter)
    for tick in placed.chart.y.ticks:
        y = bottom - tick.at * placed.plot_height
        parts.append(f'<path class="grid" d="M{left:.1f} {y:.1f}h{placed.plot_width:.1f}"/>')
        parts.append(_text(left - 0.6 * letter, y + 0.35 * letter, tick.text, "end"))
    for tick in placed.chart.x.ticks:
        x = left + tick.at * placed.plot_width
        parts.append(f'<path class="grid" d="M{x:.1f} {top:.1f}v{placed.plot_height:.1f}"/>')
        parts.append(_text(x, bottom + 1.4 * letter, tick.text))
    middle = left + placed.plot_width / 2
    for number, words in enumerate(placed.x_label):
        parts.append(_text(middle, bottom + 1.8 * letter + (number + 0.9) * line, words))
    height = top + placed.plot_height / 2
    for number, words in enumerate(placed.y_label):
        turned = f' transform="rotate(-90 {(x := 0.4 * letter + (number + 0.8) * line):.1f} {height:.1f})"'
        parts.append(_text(x, height, words, more=turned))
    return parts


def _text(x: float, y: float, words: str, anchor: str = "middle", more: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{more}>{escape(words)}</text>'


def _unmeasured(placed: ChartLayout) -> list[str]:
    """Shades over what lies outside the measured window."""
    if placed.chart.shaded is None:
        return []
    begin, end = placed.chart.x.place(np.array(placed.chart.shaded)).tolist()
    return [
        f'<rect class="unmeasured" x="{placed.left + low * placed.plot_width:.1f}" y="{placed.top:.1f}" '
        f'width="{(high - low) * placed.plot_width:.1f}" height="{placed.plot_height:.1f}"/>'
        for low, high in ((0.0, begin), (end, 1.0))
        if high > low
    ]


def _curve(placed: ChartLayout, curve: Curve) -> str:
    x, y = _cut_off(placed, curve.x, curve.y)
    dashes = _dashes(placed.style, curve)
    return f'<path class="curve {_colour(curve)}"{dashes} d="{_path(placed, x, y)}"/>'


def _band(placed: ChartLayout, curve: Curve) -> str:
    """From the lowest to the highest value at each point."""
    assert curve.band is not None
    x, low = _cut_off(placed, curve.x, curve.band[0])
    _, high = _cut_off(placed, curve.x, curve.band[1])
    outline = _path(placed, np.concatenate((x, x[::-1])), np.concatenate((high, low[::-1])))
    return f'<path class="band b{_number(curve)}" d="{outline}Z"/>' if outline else ""


def _cut_off(placed: ChartLayout, x: Floats, y: Floats) -> tuple[Floats, Floats]:
    """The points up to the end of the axis, with one at that end if there are more."""
    end = placed.chart.x.high
    if not len(x) or x[-1] <= end:
        return x, y
    kept = x <= end
    return np.append(x[kept], end), np.append(y[kept], np.interp(end, x, y))


def _path(placed: ChartLayout, x: Floats, y: Floats) -> str:
    across = placed.left + placed.chart.x.place(x) * placed.plot_width
    down = placed.bottom - placed.chart.y.place(y) * placed.plot_height
    return path_of(across, down)


def _number(curve: Curve) -> int:
    return curve.colour % len(STYLES["light"].colours)


def _colour(curve: Curve) -> str:
    return f"c{_number(curve)}"


def _dashes(style: Style, curve: Curve) -> str:
    pattern = style.dash(curve.colour, curve.dashed)
    return f' stroke-dasharray="{pattern}"' if pattern else ""
