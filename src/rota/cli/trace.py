"""`rota trace`: describe, convert and generate traces; list their formats."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rota.cli.shell import JsonFlag, check_folder, complete_format, console, print_json
from rota.errors import shown
from rota.model.units import plural

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="Look at traces, convert and make them.")

FormatOption = Annotated[
    str | None,
    typer.Option(
        "--format",
        metavar="FORMAT",
        help="Format of the file; detected if not given.",
        autocompletion=complete_format,
    ),
]


@app.command()
def describe(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A file in any known format.")],
    format: FormatOption = None,
    as_json: JsonFlag = False,
) -> None:
    """What is in FILE: jobs, GPU time, sizes, durations, arrivals, and which rows are odd.

    \b
    Examples:
      rota trace describe jobs.csv.gz
      rota trace describe sacct.txt --json | jq .gpu_hours
    """
    from rota.traces import read
    from rota.traces.describe import describe as figures_of

    trace = read(file, format)
    figures = figures_of(trace)
    if as_json:
        print_json(figures.to_dict())
        return
    console().print(figures)
    for remark in trace.remarks:
        console().print(remark, style="yellow", markup=False)


@app.command()
def convert(
    source: Annotated[Path, typer.Argument(metavar="FROM", help="A file in any known format.")],
    target: Annotated[
        Path, typer.Argument(metavar="TO", help="A name in .csv or .parquet, .gz behind it to pack.")
    ],
    format: FormatOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Write the trace in FROM to TO in Rota's own format; nothing it says is lost.

    \b
    Example:
      rota trace convert sacct.txt jobs.parquet
    """
    from rota.traces import read, write

    check_folder(target.parent, field="TO")
    trace = read(source, format)
    write(trace, target)
    _wrote(len(trace), target, as_json)


@app.command()
def generate(
    out: Annotated[
        Path, typer.Option(metavar="FILE", help="A name in .csv or .parquet, .gz behind it to pack.")
    ],
    jobs: Annotated[int, typer.Option(metavar="N", help="Number of jobs.")] = 10_000,
    seed: Annotated[int, typer.Option(metavar="N", help="Seed: names a trace.")] = 0,
    load: Annotated[
        float | None,
        typer.Option(
            metavar="X", help="GPU time asked for over GPU time there is; sets the span. Needs --cluster."
        ),
    ] = None,
    cluster: Annotated[
        str | None,
        typer.Option(metavar="SPEC", help="80x8:V100 or FILE.yaml: no job asks for more than it has."),
    ] = None,
    days: Annotated[float | None, typer.Option(metavar="N", help="Span of the submissions.")] = None,
    deadlines: Annotated[
        str | None,
        typer.Option(metavar="LEAST:MOST[:PART%]", help="Draw deadlines, 0.5 to 1.5 durations on: 0.5:1.5."),
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Make a trace like Microsoft's Philly: sizes, runtimes, bursts and failures as published.

    Without --load and --days, jobs arrive as often as in the original.

    \b
    Examples:
      rota trace generate --jobs 5000 --load 0.9 --cluster 16x8 --out jobs.csv
      rota trace generate --jobs 38000 --days 30 --seed 7 --out month.parquet
    """
    from rota.traces import write
    from rota.traces.capacity import cluster_from
    from rota.traces.deadlines import parse_deadlines, with_deadlines
    from rota.traces.generate import generate as make

    check_folder(out.parent)
    where = None if cluster is None else cluster_from(cluster)
    drawn = None if deadlines is None else parse_deadlines(deadlines)
    trace = make(jobs, seed=seed, load=load, cluster=where, days=days)
    if drawn is not None:
        trace = with_deadlines(trace, drawn, seed)
    write(trace, out)
    _wrote(len(trace), out, as_json)


@app.command()
def formats(
    name: Annotated[
        str | None,
        typer.Argument(metavar="[FORMAT]", help="One of them, in full.", autocompletion=complete_format),
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """The formats that are read, and how each is recognised; of one, the command that gives such a file.

    \b
    Examples:
      rota trace formats
      rota trace formats sacct
    """
    from rota.traces import formats as known

    if name is not None:
        _show_format(name, as_json)
        return
    rows = [(format.name, format.description, format.recognised) for format in known()]
    if as_json:
        print_json([{"name": n, "description": d, "recognised": r} for n, d, r in rows])
        return
    from rich.table import Table

    table = Table("format", "what it is", box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("recognised by", overflow="fold")  # headers may be wider than a column: do not cut them
    for row in rows:
        table.add_row(*row)
    console().print(table)


def _show_format(name: str, as_json: bool) -> None:
    """One format: its description, the command that makes such a file, and a small example."""
    from rota.traces.registry import format_named

    format = format_named(name, field=None)
    if as_json:
        told = {"name": format.name, "description": format.description, "recognised": format.recognised}
        print_json(told | {"command": format.command, "example": format.example})
        return
    typer.echo(f"{format.name}: {format.description}\nrecognised by: {format.recognised}")
    if format.command:
        typer.echo(f"\n{format.command}")
    typer.echo(f"\nA small one:\n{format.example.rstrip()}")


def _wrote(jobs: int, target: Path, as_json: bool) -> None:
    if as_json:
        print_json({"jobs": jobs, "file": str(target)})
    else:
        typer.echo(f"{plural(jobs, 'job')} written to {shown(target)}")
