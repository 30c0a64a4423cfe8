"""A chart as a stand-alone SVG file: its own text, its own colours for light and dark."""

from __future__ import annotations

from html import escape

from rota.reports.chart import UNITS, Chart
from rota.reports.palette import DARK, LIGHT, dash

_WIDTH, _HEIGHT = 760.0, 420.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 58.0, 16.0, 66.0, 50.0
_LEGEND_CHARACTER = 7.2  # px of the label font, near enough to set names in a row


def draw(chart: Chart) -> str:
    """`chart` as the text of an SVG file."""
    width, height = _WIDTH - _LEFT - _RIGHT, _HEIGHT - _TOP - _BOTTOM
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH:g} {_HEIGHT:g}" role="img" '
        f'aria-labelledby="title text">',
        f'<title id="title">{escape(chart.title)}</title><desc id="text">{escape(chart.text)}</desc>',
        f"<style>{_style()}</style>",
        f'<rect class="paper" width="{_WIDTH:g}" height="{_HEIGHT:g}" rx="6"/>',
        f'<text class="title" x="{_LEFT:g}" y="26">{escape(chart.title)}</text>',
        *_legend(chart),
        *_grid(chart, width, height),
        f'<g transform="translate({_LEFT:g} {_TOP:g}) scale({width / UNITS:.4f} {height / UNITS:.4f})">',
        *_curves(chart),
        "</g></svg>\n",
    ]
    return "\n".join(parts)


def _style() -> str:
    def colours(palette: tuple[str, ...]) -> str:
        return "".join(f".c{i}{{stroke:{colour}}}" for i, colour in enumerate(palette))

    return (
        "text{font:12px system-ui,sans-serif;fill:#555}.title{font-size:15px;font-weight:600;fill:#1a1a1a}"
        ".paper{fill:#fff}.grid{stroke:#e4e4e4}.curve{fill:none;stroke-width:2;vector-effect:non-scaling-stroke}"
        f"{colours(LIGHT)}@media(prefers-color-scheme:dark){{text{{fill:#aaa}}.title{{fill:#eee}}"
        f".paper{{fill:#16181c}}.grid{{stroke:#30343b}}{colours(DARK)}}}"
    )


def _legend(chart: Chart) -> list[str]:
    parts, x = [], _LEFT
    for curve in chart.curves:
        line = f'<path class="curve {_colour(curve.colour)}"{_dashes(curve.colour, curve.dashed)}'
        parts.append(f'{line} d="M{x:.0f} 46h18"/><text x="{x + 23:.0f}" y="50">{escape(curve.name)}</text>')
        x += 40 + _LEGEND_CHARACTER * len(curve.name)
    return parts


def _grid(chart: Chart, width: float, height: float) -> list[str]:
    parts = []
    bottom = _TOP + height
    for tick in chart.y.ticks:
        y = bottom - tick.at * height
        parts.append(f'<path class="grid" d="M{_LEFT:g} {y:.1f}h{width:g}"/>')
        parts.append(f'<text x="{_LEFT - 8:g}" y="{y + 4:.1f}" text-anchor="end">{escape(tick.text)}</text>')
    for tick in chart.x.ticks:
        x = _LEFT + tick.at * width
        parts.append(f'<path class="grid" d="M{x:.1f} {_TOP:g}v{height:g}"/>')
        text = escape(tick.text)
        parts.append(f'<text x="{x:.1f}" y="{bottom + 17:.1f}" text-anchor="middle">{text}</text>')
    middle = _LEFT + width / 2
    label = escape(chart.x.label)
    parts.append(f'<text x="{middle:.1f}" y="{_HEIGHT - 10:g}" text-anchor="middle">{label}</text>')
    return parts


def _curves(chart: Chart) -> list[str]:
    return [
        f'<path class="curve {_colour(curve.colour)}"{_dashes(curve.colour, curve.dashed)}'
        f' d="{chart.path(curve)}"/>'
        for curve in chart.curves
    ]


def _colour(number: int) -> str:
    return f"c{number % len(LIGHT)}"


def _dashes(number: int, dashed: bool) -> str:
    pattern = dash(number, dashed)
    return f' stroke-dasharray="{pattern}"' if pattern else ""
