"""An analysis as people see it: one HTML file with everything in it, and text on a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from rich.console import Console

from rota.model.words import hours
from rota.reports.finding import (
    DataTable,
    Details,
    Paragraph,
    Remedy,
    ReportPage,
    Section,
    Terms,
)
from rota.reports.findings.faults import FaultGroup
from rota.reports.findings.studies import Analysis
from rota.reports.page import page_text
from rota.reports.report import odd_table
from rota.reports.terminal import say
from rota.reports.wording import listed

TITLES: Mapping[str, str] = {
    "utilisation": "GPUs held and used",
    "queueing": "Waiting",
    "locality": "Locality",
    "failures": "Failures",
    "workload": "Workload",
    "tenants": "Tenants",
}
"""Title of each study, in the order of a reader."""
NAMED = 12
"""Faults beyond those in full that a terminal names."""
_FILES = (
    "Every job of each finding is in `findings.csv` beside this page, and in `findings/` a text for each "
    "user that is ready to send."
)


def render(analysis: Analysis) -> str:
    """The page as HTML."""
    sections = []
    for number, group in enumerate(analysis.groups, 1):
        parts: list[object] = [group, *_fault_table(group)]
        parts += [Paragraph(_FILES)] if number == len(analysis.groups) else []
        sections.append(Section(group.about.key, group.about.title, tuple(parts), "faults"))
    sections += [Section(key, title, own) for key, title in TITLES.items() if (own := analysis.of(key))]
    if analysis.unsaid:
        pairs = tuple((f"{what[0].upper()}{what[1:]}", f"Missing: {need}.") for need, what in _gaps(analysis))
        sections.append(Section("unsaid", "What this data cannot say", (Terms(pairs),)))
    sections.append(Section("how", "How it was judged", tuple(_how(analysis))))
    return page_text(
        ReportPage(
            title=f"What {Path(analysis.source).name} says",
            lead=_lead(analysis),
            sections=tuple(sections),
            notes=tuple(map(Paragraph, analysis.remarks)),
            facts=analysis.facts,
        )
    )


def _lead(analysis: Analysis) -> str:
    """The number of faults, and the searches made."""
    if not analysis.checked:
        return "This data carries nothing by which faults could be searched for."
    return f"{_count(analysis)} found. Searched for: {'; '.join(analysis.checked)}."


def _count(analysis: Analysis) -> str:
    """`No faults`, `1 fault`, `4 faults`."""
    count = len(analysis.faults)
    return f"{count:,} fault{'' if count == 1 else 's'}" if count else "No faults"


def _gaps(analysis: Analysis) -> list[tuple[str, str]]:
    """The missing data, and the questions that they would answer."""
    needs: dict[str, list[str]] = {}
    for gap in analysis.unsaid:
        needs.setdefault(gap.needs, []).append(gap.what)
    return [(need, "; ".join(dict.fromkeys(what))) for need, what in needs.items()]


def _fault_table(group: FaultGroup) -> Iterator[Details]:
    """All faults of a kind in a table, if there are several."""
    if len(group.findings) < 2:
        return
    heads = ["what", *["user"] * group.names_users, "how sure", "jobs", "GPU-hours", "finding"]
    rows = []
    for one in group.findings:
        held = hours(sum(job.gpu_hours for job in one.jobs))
        names = (one.subject, *[one.user] * group.names_users, one.certainty)
        rows.append((*names, f"{len(one.jobs):,}", held, one.bar.text if one.bar else ""))
    title = f"All {len(group.findings):,} in a table"
    yield Details(title, (DataTable.of_texts(group.about.title, heads, rows, numbers=("jobs", "GPU-hours")),))


def _how(analysis: Analysis) -> Iterator[Details]:
    """The thresholds applied."""
    limits = tuple((name, f"{value:g}") for name, value in asdict(analysis.thresholds).items())
    yield Details("Thresholds", (Terms(limits, as_facts=True),))
    if analysis.odd:
        yield Details("Odd rows of the trace", (odd_table(analysis.odd),))


# -- a terminal ----------------------------------------------------------------------------------------


def show(analysis: Analysis, screen: Console) -> None:
    """Faults first, then other findings of the trace, then its gaps."""
    said = set[str]()
    facts = ", ".join(f"{name.lower()} {value}" for name, value in analysis.facts[1:])
    say(screen, f"{analysis.facts[0][1]}: {facts}", "bold", rest="  ")
    say(screen)
    if analysis.faults:
        say(screen, _count(analysis), "bold red")
        for group in analysis.groups:
            _show_group(screen, group, said)
    elif analysis.checked:
        say(screen, f"{_count(analysis)} found", "bold green")
    if analysis.checked:
        say(screen, f"Searched for: {'; '.join(analysis.checked)}.", "dim", "  ", "  ")
    for study, title in TITLES.items():
        findings = analysis.of(study)
        if findings:
            say(screen)
            say(screen, title, "bold")
        for finding in findings:
            say(screen, finding.sentence, first="  ", rest="  ")
            _show_remedies(screen, finding.remedies, said)
    if analysis.unsaid:
        say(screen)
        say(screen, "What this data cannot say, and what is missing for it", "bold")
        gaps = (f"{what.replace('; ', ', ')} ({need})" for need, what in _gaps(analysis))
        say(screen, "; ".join(gaps) + ".", "dim", "  ", "  ")
    for remark in analysis.remarks:
        say(screen, remark, "yellow", rest="  ")
    say(screen)


def _show_group(screen: Console, group: FaultGroup, said: set[str]) -> None:
    """The worst in full, the others by name, and what helps against all of them."""
    say(screen, f"{group.about.title}: {group.summary}", "bold", rest="  ")
    for finding in group.worst:
        say(screen, finding.sentence, first="! ", rest="  ")
        say(screen, finding.how_sure, "dim", "  ", "  ")
    if group.others:
        names = [finding.subject for finding in group.others]
        say(screen, f"And {len(names):,} more: {listed(names, NAMED)}.", first="  ", rest="  ")
    _show_remedies(screen, group.remedies, said)


def _show_remedies(screen: Console, remedies: Sequence[Remedy], said: set[str]) -> None:
    """The gains and pages that were not `said` before."""
    gains = [f"{remedy.system}: {remedy.gain.sentence}" for remedy in remedies if remedy.gain]
    others = [f"docs/{remedy.page}" for remedy in remedies if not remedy.gain]
    new = [line for line in gains if line not in said]
    pages = [page for page in dict.fromkeys(others) if page not in said]
    said.update(new, pages)
    for line in [*new, *([", ".join(pages)] if pages else [])]:
        say(screen, line, "dim", "    -> ", "       ")
