"""`rota fidelity`: compares results with the authors' results, job by job."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rota.cli.progress import progress_bars
from rota.cli.shell import JsonFlag, console
from rota.errors import InputError
from rota.model.one_thread import use_one_thread
from rota.model.units import plural

WIDE = 140
"""Wide enough for one line per case."""


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
    vary: Annotated[
        str | None,
        typer.Option(
            metavar="NAME=V/V...",
            help="Run each case once with each of these values of a parameter of its policy: "
            "the band that they span.",
        ),
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Replay published experiments and compare with the authors' completion times.

    The exit code is 0 only if every case keeps what it promises, with --vary by one of the values.

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
    from rota.reports.terminal import show_table

    values = [""] if vary is None else _values(vary)
    by_case = []
    with progress_bars(wanted=True) as told:
        for number, case in enumerate(cases, start=1):
            by_case.append([run_case(case, data, also=value) for value in values])
            if told:
                told("cases", number, len(cases))
    results = [result for of_case in by_case for result in of_case]
    if page is not None:
        with replacing(page) as partial:
            partial.write_text(page_of(results), encoding="utf-8")
    if as_json:
        typer.echo(json_of(results))
    else:
        show_table(console(WIDE), table(results))
    missed = sum(not any(result.holds for result in of_case) for of_case in by_case)
    if missed:
        differ = "differs" if missed == 1 else "differ"
        among = f"{missed} of {plural(len(by_case), 'case')} {differ}"
        typer.echo(f"rota: {among} by more than promised", err=True)
        raise typer.Exit(1)


def _values(vary: str) -> list[str]:
    """`tie=sum/vertex` as `tie=sum` and `tie=vertex`."""
    name, _, values = vary.partition("=")
    if not name or not all(values.split("/")):
        raise InputError.at(f"{vary!r}", field="--vary", expected="a parameter with values: tie=sum/vertex")
    return [f"{name}={value}" for value in values.split("/")]
