"""The analysis as one HTML file with everything in it, in the style of the report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from importlib.resources import files
from pathlib import Path

from markupsafe import Markup

from rota.model.words import hours
from rota.reports.finding import Bars, Unsaid
from rota.reports.findings.studies import Analysis
from rota.reports.html import environment

TITLES: tuple[tuple[str, str], ...] = (
    ("utilisation", "GPUs held and used"),
    ("queueing", "Waiting"),
    ("locality", "Locality and company"),
    ("failures", "Failures"),
    ("workload", "The workload"),
    ("tenants", "Tenants"),
)


def render(analysis: Analysis) -> str:
    """The page as text."""
    sections = [(key, title, analysis.of(key)) for key, title in TITLES]
    folder = files("rota.reports") / "templates"
    return (
        environment()
        .get_template("analysis.html")
        .render(
            analysis=analysis,
            title=f"What {Path(analysis.source).name} says",
            lead=_lead(analysis),
            sections=[(key, title, findings) for key, title, findings in sections if findings],
            hours=hours,
            is_bars=lambda figure: isinstance(figure, Bars),
            anchors={id(one): f"{one.key}-{number}" for number, one in enumerate(analysis.findings)},
            identity=id,
            thresholds=[(name, f"{value:g}") for name, value in asdict(analysis.thresholds).items()],
            gaps=_gaps(analysis.unsaid),
            more_style=Markup((folder / "analysis.css").read_text(encoding="utf-8")),  # ours, not input
        )
    )


def _lead(analysis: Analysis) -> str:
    """How many faults there are, and what was searched for."""
    searched = "; ".join(analysis.checked)
    count = len(analysis.faults)
    if not analysis.checked:
        return "This data carries nothing by which faults could be searched for."
    if not count:
        return f"No faults found. Searched for: {searched}."
    return f"{'One fault' if count == 1 else f'{count:,} faults'} found. Searched for: {searched}."


def _gaps(unsaid: Sequence[Unsaid]) -> list[tuple[str, str]]:
    """What is missing, and what could be said with it."""
    needs: dict[str, list[str]] = {}
    for gap in unsaid:
        needs.setdefault(gap.needs, []).append(gap.what)
    return [(need, "; ".join(dict.fromkeys(what))) for need, what in needs.items()]
