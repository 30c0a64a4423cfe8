"""`rota simulate`: replay a trace under several policies and compare them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rota.cli.progress import progress_bars
from rota.cli.run_parameters import TraceArgument, takes_run_options
from rota.cli.shell import JsonFlag, check_folder, console, print_json
from rota.errors import InputError, shown
from rota.model.one_thread import use_one_thread
from rota.model.units import plural

if TYPE_CHECKING:
    from rota.api.results import Results


@takes_run_options("simulate")
def simulate(
    trace: TraceArgument,
    *,
    options: dict[str, Any],
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Write tables, summaries and report.html here.")
    ] = None,
    csv: Annotated[bool, typer.Option("--csv", help="Write the tables as CSV too.")] = False,
    as_json: JsonFlag = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")] = False,
) -> None:
    """Replay TRACE under several policies and compare them.

    \b
    Examples:
      rota simulate jobs.csv --cluster 80x8:V100 --policy tiresias,srtf,fifo --out out/
      rota simulate jobs.csv --policy fifo:skip=yes,srtf --measure 10%:90% --baseline srtf
      rota simulate sacct.txt --cluster site.yaml --knowledge duration=user --costs restore=30s
      rota history --csv jobs.csv && rota simulate jobs.csv --cluster 2x8 --costs measured

    A part with = belongs to the policy before it: a:x=1,y=2,b is a with x and y, and b.
    """
    if out is not None:
        check_folder(out)
    elif csv:
        raise InputError.at("there is no folder to write to", field="--csv", expected="--out DIR with it")
    use_one_thread()
    import rota

    with progress_bars(wanted=not quiet) as progress:
        results = rota.simulate(trace, **options, progress=progress)
    if out is not None:
        results.write(out, csv=csv)
    if as_json:
        print_json(results.to_dict() | {"out": None if out is None else str(out)})
    elif not quiet:
        _show(results, out)


def _show(results: Results, out: Path | None) -> None:
    """Table, calibration, odd rows, and where the rest lies."""
    from rota.reports.comparison_table import print_comparison

    screen = console()
    trace = results.trace
    head = (
        f"{shown(trace.source)} ({trace.format}, {plural(len(trace), 'job')}) on {results.cluster.describe()}"
    )
    screen.print(head, style="bold", markup=False, soft_wrap=True)
    screen.print()
    print_comparison(results.comparison, screen, results.calibration)
    for remark in results.remarks:
        screen.print(remark, style="yellow", markup=False)
    kept = [f"{odd.count:,} {odd.what} ({odd.done})" for odd in trace.odd if not odd.is_left_out]
    if kept:
        screen.print(f"Odd rows: {'; '.join(kept)}.", markup=False)
    where = (
        f"Report: {shown(out / 'report.html')}"
        if out
        else "Nothing was written; --out DIR keeps tables and a report."
    )
    screen.print(where, markup=False, soft_wrap=True)
