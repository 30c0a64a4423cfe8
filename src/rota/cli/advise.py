"""`rota advise`: which policy a site should adopt, by replaying its own trace."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rota.cli.progress import progress_bars
from rota.cli.shell import JsonFlag, check_file, complete_format, complete_policy, console, print_json
from rota.errors import shown
from rota.model.one_thread import use_one_thread

Text = str | None


def advise(
    trace: Annotated[Path, typer.Argument(metavar="TRACE", help="A file in any known format.")],
    cluster: Annotated[
        str,
        typer.Option(metavar="SPEC", help="80x8:V100 (nodes x GPUs), several by commas; auto; or FILE.yaml."),
    ] = "auto",
    goal: Annotated[
        str,
        typer.Option(
            metavar="GOAL[=WEIGHT],...",
            help="jct, tail, fairness, utilisation, deadlines or energy; several with weights: jct=2,tail=1.",
        ),
    ] = "jct",
    present: Annotated[
        Text,
        typer.Option(
            metavar="POLICY",
            help="What the site runs now; what fits the recorded starts best if not given.",
            autocompletion=complete_policy,
        ),
    ] = None,
    policy: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME[:key=value,...]",
            help="Candidates, joined by commas or given again; those that suit the trace if not given.",
            autocompletion=complete_policy,
        ),
    ] = None,
    knowledge: Annotated[
        Text,
        typer.Option(
            metavar="KIND=SOURCE",
            help="Who tells candidates what, as for `rota simulate`; duration=predicted if not given.",
        ),
    ] = None,
    costs: Annotated[
        str,
        typer.Option(
            metavar="COSTS",
            help="Of interruptions, as for `rota simulate`; measured[:HOME|:URL] by a running cluster.",
        ),
    ] = "checkpoint=10s,restore=60s",
    can: Annotated[
        Text,
        typer.Option(
            metavar="WORDS", help="What jobs bear without losing their work, as for `rota simulate`."
        ),
    ] = None,
    power: Annotated[
        Text,
        typer.Option(
            metavar="BUSY:IDLE",
            help="Watts of a busy GPU and an idle one, for the goal energy: 300:60, A100=400:60,V100=300:50.",
        ),
    ] = None,
    deadlines: Annotated[
        Text,
        typer.Option(
            metavar="LEAST:MOST", help="Draw deadlines, as for `rota simulate`: 0.5:1.5, 0.5:1.5:30%."
        ),
    ] = None,
    elastic: Annotated[
        Text, typer.Option(metavar="MIN:MAX[:pow2]", help="Let jobs of one size run on fewer or more GPUs.")
    ] = None,
    scaling: Annotated[
        Text, typer.Option(metavar="FILE[:TYPE]", help="Iterations per second by number of GPUs.")
    ] = None,
    throughput: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Iterations per second by GPU type and GPUs.")
    ] = None,
    goodput: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Step times and gradient noise by workload.")
    ] = None,
    window: Annotated[
        Text,
        typer.Option(
            metavar="TIME|START:END", help="Count the last 30d of the trace, or 10%:90% or 1d:5d of it."
        ),
    ] = None,
    most_jobs: Annotated[int, typer.Option(metavar="N", help="Count the latest N jobs at most.")] = 10_000,
    seeds: Annotated[
        int,
        typer.Option(metavar="N", help="Replays of each policy; all but the first with moved submissions."),
    ] = 3,
    time: Annotated[str, typer.Option(metavar="TIME", help="After which no further replay begins.")] = "5m",
    slurm: Annotated[
        bool | None,
        typer.Option(
            "--slurm/--no-slurm", help="Print what comes nearest in Slurm; for sacct files if not given."
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE.html", help="Write all of it as one page.")
    ] = None,
    format: Annotated[
        Text,
        typer.Option(
            metavar="FORMAT",
            help="Format of the trace; detected if not given.",
            autocompletion=complete_format,
        ),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option("--workers", "-j", metavar="N", help="Processes; as many as cores if not given."),
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Say which policy would serve a site best, by replaying its trace.

    \b
    Examples:
      rota advise sacct.txt --cluster site.yaml --window 30d --out advice.html
      rota advise jobs.csv --cluster 80x8:V100 --goal jct=2,tail=1 --present fifo
      rota advise jobs.csv --cluster 2x8 --policy tiresias,srtf,las --costs measured

    First what happened and how far the replay of the present policy is from it, then the candidates, with the
    spread over seeds and over who knows durations.  Differences smaller than these are called undecided.
    """
    if out is not None:
        check_file(out)
    use_one_thread()
    from rota.cli.measured_costs import costs_of
    from rota.reports.advice import advise as ask

    with progress_bars(wanted=True) as told:
        advice = ask(
            trace,
            cluster=cluster,
            goal=goal,
            policies=policy,
            present=present,
            knowledge=knowledge,
            costs=costs_of(costs),
            power=power,
            window=window,
            most_jobs=most_jobs,
            seeds=seeds,
            time=time,
            deadlines=deadlines,
            elastic=elastic,
            format=format,
            workers=workers,
            progress=None if told is None else lambda done, total, name: told("replays", done, total),
            can=can,
            scaling=scaling,
            throughput=throughput,
            goodput=goodput,
        )
    if out is not None:
        advice.write(out)
    if as_json:
        print_json(advice.to_dict() | {"out": None if out is None else str(out)})
        return
    from rota.reports.advice.view import show

    show(advice, console(), slurm=advice.is_slurm if slurm is None else slurm)
    if out is not None:
        console().print(f"Page: {shown(out)}", markup=False, soft_wrap=True)
