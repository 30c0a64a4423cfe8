"""Usage as one HTML file with everything in it, in the style of the report."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

from markupsafe import Markup

from rota.model.words import hours
from rota.reports.html import environment
from rota.usage.wording import columns, notes, summary
from rota.wire.usage import UsageLine, UsageView

DRAWN = 30
"""Lines that get a bar; the table has all."""


def render(usage: UsageView) -> str:
    """The page as text."""
    folder = files("rota.reports") / "templates"
    return (
        environment()
        .get_template("usage.html")
        .render(
            title=f"GPU-hours of {Path(usage.source).name}",
            usage=usage,
            lead=summary(usage),
            columns=columns(usage),
            notes=notes(usage),
            bars=[_bar(line, usage) for line in usage.lines[:DRAWN]],
            more_style=Markup((folder / "analysis.css").read_text(encoding="utf-8")),  # ours, not input
        )
    )


def _bar(line: UsageLine, usage: UsageView) -> tuple[str, str, float, float]:
    """Name and figure of a line, and how wide it and the failed part of it are, in percent of the widest."""
    most = max(one.gpu_hours for one in usage.lines) or 1.0
    failed = 100 * line.failed_gpu_hours / most
    return ", ".join(line.names), hours(line.gpu_hours), 100 * line.gpu_hours / most - failed, failed
