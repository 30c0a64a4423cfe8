"""A comparison as a notebook shows it: headline, table and remarks, without a script."""

from __future__ import annotations

from collections.abc import Sequence

from rota.reports.compare import Comparison
from rota.reports.headline import headline
from rota.reports.html import environment
from rota.reports.likeness import Calibration
from rota.reports.table import COLUMNS, cell_text, fitting, footnotes

_WIDTH = 110
"""Characters of the table in a terminal that would have these columns."""


def brief(comparison: Comparison, calibration: Calibration | None = None, remarks: Sequence[str] = ()) -> str:
    """An HTML fragment; what comes from outside is escaped in it."""
    heads, keys = dict(COLUMNS), fitting(comparison, _WIDTH)
    rows = [
        (line, [(cell_text(line, key, comparison), line.cells[key].best) for key in keys])
        for line in comparison.lines
    ]
    notes = [*footnotes(comparison), *([calibration.text] if calibration else []), *remarks]
    template = environment().get_template("brief.html")
    return template.render(
        headline=headline(comparison), heads=[heads[key] for key in keys], rows=rows, notes=notes
    )
