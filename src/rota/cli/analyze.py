"""`rota analyze`: findings of a trace about the cluster that made it."""

from __future__ import annotations

import os
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
    from rota.reports.findings.studies import Analysis

PAGE = "analysis.html"


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
    from rota.reports.findings import fault_files
    from rota.reports.findings.page import render
    from rota.reports.page import write_text
    from rota.reports.plain import json_text

    write_text(folder / PAGE, render(analysis))
    write_text(folder / "analysis.json", json_text(analysis.to_dict()) + "\n")
    fault_files.write(analysis.faults, analysis.source, folder)


def _show(analysis: Analysis, out: Path | None) -> None:
    """Text of the analysis, and where it was written."""
    from rota.reports.findings.fault_files import FOLDER, TABLE
    from rota.reports.findings.page import show
    from rota.reports.terminal import say

    screen = console()
    show(analysis, screen)
    if out is None:
        written = "Nothing was written; --out DIR keeps a page with figures, JSON, and a text for each user."
        say(screen, written, rest="  ")
        return
    say(screen, f"Page: {shown(out / PAGE)}", rest="  ")
    if analysis.faults:
        texts = f"{shown(out / FOLDER)}{os.sep}"
        where = f"Every job of each fault: {shown(out / TABLE)}; a text for each user: {texts}"
        say(screen, where, rest="  ")
