"""One chart of a comparison, as a notebook shows it and as a file."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from os import PathLike
from pathlib import Path

from rota.errors import InputError
from rota.model.atomic import replacing
from rota.model.record import Record
from rota.reports import figures
from rota.reports.chart import Chart
from rota.reports.svg import draw
from rota.reports.window import Window

Drawing = Callable[[Sequence[Record], Window | None], Chart | None]
DRAWINGS: Mapping[str, Drawing] = {
    "completion": figures.jct_chart,
    "waiting": figures.waiting_chart,
    "utilisation": figures.utilisation_chart,
    "queue": figures.queue_chart,
    "work": figures.work_chart,
    "nodes": figures.nodes_chart,
}
"""Charts by the name under which they are asked for."""


@dataclass(frozen=True)
class Figure:
    """A chart with its title; the last line of a notebook's cell shows it."""

    title: str
    text: str
    """What it shows, in words."""
    svg: str
    """A stand-alone SVG file, with colours for light and dark."""

    def _repr_html_(self) -> str:
        """As an image of its own, so that its style stays its own."""
        data = b64encode(self.svg.encode()).decode()
        alt = escape(f"{self.title}: {self.text}", quote=True)
        return f'<img style="max-width:760px;width:100%" alt="{alt}" src="data:image/svg+xml;base64,{data}">'

    def write(self, path: str | PathLike[str]) -> Path:
        """Write it as an SVG file; gives its path."""
        if Path(path).suffix.lower() != ".svg":
            raise InputError.at("a figure is an SVG file", file=path, expected="a name that ends in .svg")
        with replacing(Path(path)) as partial:
            partial.write_text(self.svg, encoding="utf-8")
        return Path(path)


def figure(name: str, records: Sequence[Record], window: Window | None = None) -> Figure:
    """The chart of that name.  InputError if there is none, or if these records have nothing to draw."""
    if name not in DRAWINGS:
        raise InputError(f"there is no figure {name!r}; expected one of {', '.join(DRAWINGS)}")
    chart = DRAWINGS[name](records, window)
    if chart is None:
        raise InputError(f"these runs have nothing to draw for the figure {name!r}")
    return Figure(chart.title, chart.text, draw(chart))
