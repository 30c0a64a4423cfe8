"""One chart of a comparison, as a notebook shows it and as a file."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from os import PathLike, fspath
from pathlib import Path
from typing import Any

from rota.arguments import FILE, TEXT, WHOLE, Argument, either, instance_of, is_number, takes
from rota.errors import InputError, WorldError
from rota.model.atomic import replacing
from rota.model.record import Record
from rota.model.units import parse_length_in
from rota.reports import figures
from rota.reports.chart import Chart
from rota.reports.figures import slack_chart
from rota.reports.layout import LARGEST_IN, PER_INCH, SMALLEST_IN, WIDTH_IN
from rota.reports.palette import STYLES
from rota.reports.svg import draw
from rota.reports.waits import hour_chart
from rota.reports.window import Window

_POINTS = 72
"""To the inch."""
_SIZE = re.compile(r'<svg [^>]*width="([\d.]+)in" height="([\d.]+)in"')


def _svg(svg: str, dpi: int) -> bytes:
    return svg.encode()


def _png(svg: str, dpi: int) -> bytes:
    vl_convert = _library()
    png: bytes = vl_convert.svg_to_png(svg, scale=_POINTS / PER_INCH, ppi=dpi)
    return png


def _pdf(svg: str, dpi: int) -> bytes:
    """vl-convert makes a pixel of a picture a point of the page, so a smaller picture frames this one."""
    width, height = (float(inches) for inches in _SIZE.findall(svg)[0])
    framed = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width * _POINTS}" height="{height * _POINTS}" '
        f'viewBox="0 0 {width * PER_INCH} {height * PER_INCH}">{svg}</svg>'
    )
    pdf: bytes = _library().svg_to_pdf(framed)
    return pdf


FORMATS: Mapping[str, Callable[[str, int], bytes]] = {".svg": _svg, ".png": _png, ".pdf": _pdf}
"""What makes the bytes of a file from an SVG and the pixels of an inch, by the ending of the file's name."""


def _library() -> Any:
    try:
        import vl_convert
    except ImportError:
        raise WorldError(
            "PNG and PDF files of figures need vl-convert, which is missing; `pip install '.[figures]'` in "
            "the folder of Rota's sources adds it, and SVG files need nothing"
        ) from None
    return vl_convert


def format_of(path: object) -> str:
    """The ending of `path`, in small letters.  InputError if no figure can be written so."""
    ending = "." + str(path).rpartition(".")[2].lower() if "." in str(path) else ""
    if ending not in FORMATS:
        known = ", ".join(FORMATS)
        raise InputError.at(
            "a figure cannot be written so", file=path, expected=f"a name that ends in one of {known}"
        )
    return ending


LENGTH = Argument("length", either(is_number, instance_of(str)), "inches as 3.3, or one such as '84mm'")
DPI = 300
_LEAST_DPI, _MOST_DPI = 30, 2400
_MOST_PIXELS = 12_000
"""Of a side of a PNG."""


@dataclass(frozen=True)
class Drawing:
    """How a chart is drawn, and when there is none."""

    draw: Callable[[Sequence[Record], Window | None], Chart | None]
    without: str = ""
    """Why runs may have nothing to draw."""


DRAWINGS: Mapping[str, Drawing] = {
    "completion": Drawing(figures.jct_chart),
    "waiting": Drawing(figures.waiting_chart),
    "hours": Drawing(hour_chart, "all jobs were submitted within a day"),
    "slack": Drawing(slack_chart, "no deadline was promised"),
    "utilisation": Drawing(figures.utilisation_chart),
    "queue": Drawing(figures.queue_chart),
    "work": Drawing(figures.work_chart, "no job is known to have changed its size"),
    "kept": Drawing(figures.kept_chart, "no deadline was promised"),
    "nodes": Drawing(figures.nodes_chart, "all nodes were there all the time"),
}
"""Charts by name."""
ALSO = {"jct": "completion"}
"""Other names of some charts: those of their metrics."""


@dataclass(frozen=True)
class Figure:
    """A chart with its title; the last line of a notebook's cell shows it."""

    chart: Chart

    @property
    def title(self) -> str:
        return self.chart.title

    @property
    def text(self) -> str:
        """Its content, in words."""
        return self.chart.text

    @property
    def caption(self) -> str:
        """How to read it."""
        return self.chart.caption

    @property
    def svg(self) -> str:
        """A stand-alone SVG file, 7.9 inches wide, with colours for light and dark."""
        return draw(self.chart)

    def _repr_html_(self) -> str:
        """As an image of its own, so that its style stays its own."""
        data = b64encode(self.svg.encode()).decode()
        alt = escape(f"{self.title}: {self.text}", quote=True)
        return f'<img style="max-width:760px;width:100%" alt="{alt}" src="data:image/svg+xml;base64,{data}">'

    @takes(path=FILE, width=LENGTH.or_none(), height=LENGTH.or_none(), style=TEXT.or_none(), dpi=WHOLE)
    def write(
        self,
        path: str | PathLike[str],
        *,
        width: float | str | None = None,
        height: float | str | None = None,
        style: str | None = None,
        dpi: int = DPI,
    ) -> Path:
        """Write it as the kind of file that the name ends in, .svg, .png or .pdf; gives its path.

        `width` and `height` are inches, or texts with a unit ("84mm", "8.4cm", "3.3in", "240pt").  Without
        them it is 7.9 inches wide and as high as fits.  Letters have 9 points (8 in print), however wide it
        is: make it as wide as it will stand on the page or the slide.  A PNG has `dpi` pixels to the inch.

        `style` is "light", "dark" or "print": black letters, no title, and dashes that tell curves apart
        without colour.  Without it an SVG file follows its reader's light or dark mode, and others are light.

        InputError for another ending or style, or a size in which there is no room for the figure; WorldError
        for PNG and PDF if the extra `figures` is not installed.
        """
        ending = format_of(fspath(path))
        if style is not None and style not in STYLES:
            raise InputError.at(
                f"{style!r} is no style", field="--style", expected=f"one of {', '.join(STYLES)}"
            )
        if style is None and ending != ".svg":
            style = "light"
        width_in, height_in = _inches(width, "--width"), _inches(height, "--height")
        _check_dpi(dpi, width_in, height_in)
        svg = draw(self.chart, style, width_in=width_in, height_in=height_in)
        content = FORMATS[ending](svg, dpi)
        with replacing(Path(path)) as partial:
            partial.write_bytes(content)
        return Path(path)


def _inches(length: float | str | None, option: str) -> float | None:
    if length is None:
        return None
    inches = parse_length_in(length, option) if isinstance(length, str) else float(length)
    if not SMALLEST_IN <= inches <= LARGEST_IN:
        raise InputError.at(
            f"{inches:g} in is no size of a figure",
            field=option,
            expected=f"{SMALLEST_IN:g} to {LARGEST_IN:g} in",
        )
    return inches


def _check_dpi(dpi: int, width_in: float | None, height_in: float | None) -> None:
    if not _LEAST_DPI <= dpi <= _MOST_DPI:
        raise InputError.at(
            f"{dpi} is too few or too many", field="--dpi", expected=f"{_LEAST_DPI} to {_MOST_DPI}"
        )
    longest = max(width_in or WIDTH_IN, height_in or 0.0) * dpi
    if longest > _MOST_PIXELS:
        raise InputError.at(
            f"{dpi} would make {longest:,.0f} pixels a side",
            field="--dpi",
            expected=f"{_MOST_PIXELS:,} at most",
        )


def figure(name: str, records: Sequence[Record], window: Window | None = None) -> Figure:
    """The chart of that name, of the first run of each policy.

    InputError if there is none of that name, or if these records have nothing to draw.
    """
    drawing = DRAWINGS.get(ALSO.get(name, name))
    if drawing is None:
        raise InputError(f"there is no figure {name!r}; expected one of {', '.join(DRAWINGS)}")
    chart = drawing.draw(figures.one_per_policy(records), window)
    if chart is None:
        raise InputError(f"these runs have nothing to draw for the figure {name!r}: {drawing.without}")
    return Figure(chart)
