"""`rota advise`: which policy a site should adopt, by replaying its own trace."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from rota.cli.progress import progress_bars
from rota.cli.run_parameters import TraceArgument, takes_run_options
from rota.cli.shell import JsonFlag, check_file, complete_policy, console, print_json
from rota.errors import shown
from rota.model.one_thread import use_one_thread

Text = str | None


@takes_run_options(
    "advise",
    knowledge={"help": "Sources of knowledge, as for `rota simulate`; duration=predicted if not given."},
    costs={
        "default": "checkpoint=10s,restore=60s",
        "help": "Of interruptions, as for `rota simulate`; measured[:HOME|:URL] by a running cluster.",
    },
)
def advise(
    trace: TraceArgument,
    *,
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
            help="What the site runs now; if not given, what fits the recorded starts best.",
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
    options: dict[str, Any],
    power: Annotated[
        Text,
        typer.Option(
            metavar="BUSY:IDLE",
            help="Watts of a busy GPU and an idle one, for the goal energy: 300:60, A100=400:60,V100=300:50.",
        ),
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
    time: Annotated[
        str, typer.Option(metavar="TIME", help="Time after which no further replay begins.")
    ] = "5m",
    slurm: Annotated[
        bool | None,
        typer.Option(
            "--slurm/--no-slurm",
            help="Print the nearest configuration of Slurm; for sacct files if not given.",
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE.html", help="Write all of it as one page.")
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
    spread over seeds and over sources of durations.  Differences smaller than these are called undecided.
    """
    if out is not None:
        check_file(out)
    use_one_thread()
    from rota.reports.advice import advise as ask

    with progress_bars(wanted=True) as bars:
        advice = ask(
            trace,
            goal=goal,
            policies=policy,
            present=present,
            power=power,
            window=window,
            most_jobs=most_jobs,
            seeds=seeds,
            time=time,
            progress=None if bars is None else lambda done, total, name: bars("replays", done, total),
            **options,
        )
    if out is not None:
        advice.write(out)
    if as_json:
        print_json(advice.to_dict() | {"out": None if out is None else str(out)})
        return
    from rota.reports.advice.text import show

    show(advice, console(), slurm=advice.is_slurm if slurm is None else slurm)
    if out is not None:
        console().print(f"Page: {shown(out)}", markup=False, soft_wrap=True)
