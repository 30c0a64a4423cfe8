"""`rota analyze`: what a trace says about the cluster that made it."""

from __future__ import annotations

import os
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rota.api.run_options import KNOWLEDGE_HELP
from rota.cli.progress import progress_bars
from rota.cli.run_parameters import TraceArgument, takes_run_options
from rota.cli.shell import JsonFlag, check_folder, console, print_json
from rota.errors import InputError, shown
from rota.model.one_thread import use_one_thread

if TYPE_CHECKING:
    from rich.console import Console

    from rota.reports.findings.faults import FaultGroup
    from rota.reports.findings.finding import Finding, Remedy
    from rota.reports.findings.studies import Analysis

TITLES = {
    "utilisation": "GPUs held and used",
    "queueing": "Waiting",
    "locality": "Locality",
    "failures": "Failures",
    "workload": "Workload",
    "tenants": "Tenants",
}
PAGE = "analysis.html"
NAMED = 12
"""Faults named after those that are shown in full."""


@takes_run_options("analyze")
def analyze(
    trace: TraceArgument,
    *,
    cluster: Annotated[
        str | None,
        typer.Option(
            metavar="SPEC", help="80x8:V100, auto or FILE.yaml; derived from the jobs if not given."
        ),
    ] = None,
    replays: Annotated[
        str,
        typer.Option(
            metavar="N|no",
            help="Measure what other systems would gain on the N jobs in a row that waited most.",
        ),
    ] = "no",
    knowledge: Annotated[
        str, typer.Option(metavar="KIND=SOURCE", help="In replays: " + KNOWLEDGE_HELP)
    ] = "duration=predicted",
    threshold: Annotated[
        str | None,
        typer.Option(
            metavar="NAME=VALUE,...",
            help="Values that make something a fault: idle_utilisation=0.1; docs/analyze.md lists them.",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help=f"Write {PAGE}, analysis.json, findings.csv and findings/USER.txt here."
        ),
    ] = None,
    options: dict[str, Any],
    as_json: JsonFlag = False,
) -> None:
    """Say what is wrong with a cluster, by a history of its jobs, and what would help.

    \b
    Examples:
      rota analyze sacct.txt --out out/
      rota analyze sacct.txt --cluster site.yaml --replays 1000
      rota analyze jobs.csv --threshold idle_utilisation=0.1,idle_gpu_hours=24 --json
    """
    if out is not None:
        check_folder(out)
    jobs = _jobs(replays)
    use_one_thread()
    from rota.api.analysis import analyze as run

    with progress_bars(wanted=True) as progress:
        analysis = run(
            trace,
            cluster=cluster,
            **options,
            thresholds=threshold,
            replays=jobs,
            knowledge=knowledge,
            progress=progress,
        )
    if out is not None:
        _write(analysis, out)
    if as_json:
        print_json(analysis.to_dict() | {"out": None if out is None else str(out)})
    else:
        _show(analysis, out)


def _jobs(text: str) -> int:
    """Jobs to replay; 0 for none."""
    if text == "no":
        return 0
    if not text.isdecimal() or int(text) < 1:
        raise InputError.at(
            f"{text!r} is no number of jobs", field="--replays", expected="no, or such as 1000"
        )
    return int(text)


def _write(analysis: Analysis, folder: Path) -> None:
    import json

    from rota.cli.shell import finite
    from rota.model.atomic import replacing
    from rota.reports.findings import sending
    from rota.reports.findings.page import render

    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps(finite(analysis.to_dict()), indent=2, ensure_ascii=False, default=str)
    for name, content in ((PAGE, render(analysis)), ("analysis.json", text + "\n")):
        with replacing(folder / name) as part:
            part.write_text(content, encoding="utf-8")
    sending.write(analysis.faults, analysis.source, folder)


def _show(analysis: Analysis, out: Path | None) -> None:
    """Print faults first, then what the trace shows, then what it cannot show."""
    from rota.reports.findings.sending import FOLDER, TABLE

    screen, told = console(), set[str]()
    facts = ", ".join(f"{name.lower()} {value}" for name, value in analysis.facts[1:])
    _say(screen, f"{analysis.facts[0][1]}: {facts}", "bold")
    _say(screen, "")
    if analysis.faults:
        count = len(analysis.faults)
        _say(screen, "1 fault" if count == 1 else f"{count:,} faults", "bold red")
        for group in analysis.groups:
            _group(screen, group, told)
    elif analysis.checked:
        _say(screen, "No faults found", "bold green")
    if analysis.checked:
        _say(screen, f"Searched for: {'; '.join(analysis.checked)}.", "dim", "  ")
    for study, title in TITLES.items():
        findings = analysis.of(study)
        if findings:
            _say(screen, "")
            _say(screen, title, "bold")
        for finding in findings:
            _finding(screen, finding, told)
    if analysis.unsaid:
        _say(screen, "")
        _say(screen, "What this data cannot say, and what is missing for it", "bold")
        needs: dict[str, list[str]] = {}
        for gap in analysis.unsaid:
            needs.setdefault(gap.needs, []).append(gap.what)
        gaps = (f"{', '.join(dict.fromkeys(what))} ({need})" for need, what in needs.items())
        _say(screen, "; ".join(gaps) + ".", "dim", "  ")
    for remark in analysis.remarks:
        _say(screen, remark, "yellow")
    _say(screen, "")
    if out is None:
        _say(
            screen,
            "Nothing was written; --out DIR keeps a page with figures, JSON, and a text for each user.",
        )
        return
    _say(screen, f"Page: {shown(out / PAGE)}")
    if analysis.faults:
        texts = f"{shown(out / FOLDER)}{os.sep}"
        _say(screen, f"Every job of each fault: {shown(out / TABLE)}; a text for each user: {texts}")


def _group(screen: Console, group: FaultGroup, told: set[str]) -> None:
    """Print the faults of one kind: the worst in full, the others by name, and remedies."""
    from rota.reports.findings.finding import listed

    _say(screen, f"{group.kind.title}: {group.summary}", "bold")
    for finding in group.worst:
        _say(screen, finding.sentence, first="! ")
        _say(screen, finding.how_sure, "dim", "  ")
    if group.others:
        names = [finding.subject for finding in group.others]
        _say(screen, f"And {len(names):,} more: {listed(names, NAMED)}.", first="  ")
    _remedies(screen, group.remedies, told)


def _finding(screen: Console, finding: Finding, told: set[str]) -> None:
    """Print the sentence, and below it gains and pages that were not printed before (`told`)."""
    _say(screen, finding.sentence, first="  ", rest="  ")
    _remedies(screen, finding.remedies, told)


def _remedies(screen: Console, remedies: Sequence[Remedy], told: set[str]) -> None:
    """Print gains and pages that were not printed before (`told`)."""
    gains = [f"{remedy.system}: {remedy.gain.sentence}" for remedy in remedies if remedy.gain]
    others = [f"docs/{remedy.page}" for remedy in remedies if not remedy.gain]
    new = [line for line in gains if line not in told]
    pages = [page for page in dict.fromkeys(others) if page not in told]
    told.update(new, pages)
    for line in [*new, *([", ".join(pages)] if pages else [])]:
        _say(screen, line, "dim", "    -> ", "       ")


def _say(screen: Console, text: str, style: str = "", first: str = "", rest: str = "  ") -> None:
    """Print one paragraph, with `first` before its first line and `rest` before the others."""
    lines = textwrap.wrap(text, screen.width, initial_indent=first, subsequent_indent=rest) or [""]
    for line in lines:
        screen.print(line, style=style, markup=False)
