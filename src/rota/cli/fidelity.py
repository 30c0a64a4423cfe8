"""`rota fidelity`: ours against the authors' own results, job by job."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rota.cli.shell import JsonFlag, console, progress_bars
from rota.model.one_thread import use_one_thread
from rota.model.units import plural

WIDE = 140
"""A case is one line, also in a log."""


def fidelity(
    cases: Annotated[
        list[Path], typer.Argument(metavar="CASE.yaml...", help="Files that describe a case each.")
    ],
    data: Annotated[
        Path, typer.Option(metavar="DIR", help="Where relative paths inside the cases start.")
    ] = Path("."),
    page: Annotated[
        Path | None, typer.Option(metavar="FILE.md", help="Write the results as a page, too.")
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Replay published experiments and compare with the authors' completion times.

    The exit code is 0 only if every case keeps what it promises.

    \b
    Example:
      rota fidelity benchmarks/fidelity/*.yaml --data ../shared/reference
    """
    use_one_thread()
    from rota.api.fidelity import run_case
    from rota.model.atomic import replacing
    from rota.reports.fidelity import as_json as json_of
    from rota.reports.fidelity import page as page_of
    from rota.reports.fidelity import table

    results = []
    with progress_bars(wanted=not as_json) as told:
        for number, case in enumerate(cases, start=1):
            results.append(run_case(case, data))
            if told:
                told("cases", number, len(cases))
    if page is not None:
        with replacing(page) as partial:
            partial.write_text(page_of(results), encoding="utf-8")
    if as_json:
        typer.echo(json_of(results))
    else:
        console(WIDE).print(table(results))
    missed = sum(not result.holds for result in results)
    if missed:
        differ = "differs" if missed == 1 else "differ"
        among = f"{missed} of {plural(len(results), 'case')} {differ}"
        typer.echo(f"rota: {among} by more than promised", err=True)
        raise typer.Exit(1)
