"""`rota demo`: the acts, in their order."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from rota.cli.demo import incidents, tables
from rota.cli.demo.cluster import SETTINGS, DemoCluster, demo_cluster
from rota.cli.demo.plan import JOBS, DemoPlan, planned, put_program
from rota.cli.demo.watch import Round, Show, play
from rota.model.units import plural

if TYPE_CHECKING:
    from rich.table import Table

FIRST, SECOND = "fifo", "tiresias:limits=4/16"
BAR = 24
WORDS = {"PENDING": "waits", "RUNNING": "runs", "SUSPENDED": "suspended", "COMPLETING": "ends"}


def demo(
    jobs: Annotated[
        int, typer.Option(metavar="N", min=3, max=len(JOBS), help="Only the first N jobs.")
    ] = len(JOBS),
    work: Annotated[
        float, typer.Option(metavar="FACTOR", min=0.3, max=10.0, help="Factor for the length of all jobs.")
    ] = 1.0,
) -> None:
    """Run small training jobs on this machine under two policies, for a minute or so.

    \b
    Examples:
      rota demo
      rota demo --jobs 6 --work 0.5

    A cluster of four CPU slots is made in a temporary folder, and all of it is gone at the end, also after
    Ctrl-C.  In the middle a question is asked (`rota whatif`) and the controller is killed.
    """
    began = time.monotonic()
    plan = planned(jobs, work)
    with demo_cluster() as cluster:
        rounds, forecast, crashed = _perform(cluster, plan)
    _sum_up(rounds, forecast, crashed)
    typer.echo(f"\nNothing is left of the cluster.  The demo took {time.monotonic() - began:.0f} s.")


def _perform(
    cluster: DemoCluster, plan: DemoPlan
) -> tuple[list[Round], incidents.WhatIfAnswer, incidents.Crash]:
    """Both rounds, with what happened in the middle of each."""
    _opening(cluster, plan)
    forecasts: list[incidents.WhatIfAnswer] = []
    crashes: list[incidents.Crash] = []

    def halfway(played: Round) -> None:
        _say("In the middle: what would become of these jobs under tiresias, from now on?")
        _type(f"whatif --policy {SECOND}")
        forecasts.append(incidents.ask(cluster, played, SECOND))
        typer.echo(f"    answered in {forecasts[0].took_s:.1f} s; the table stands at the end\n")

        _say("And now: kill -9 of the controller, and `rota up` again.")
        crashes.append(incidents.crash(cluster, played))
        incidents.tell(crashes[0])
        typer.echo()

    _say(f"First round, {FIRST}: in order of submission; a job that does not fit holds back all behind it.")
    with screen() as show:
        first = play(cluster, plan, FIRST, show, halfway)
    typer.echo()
    _say("Second round, the same jobs under tiresias: those with least service go first, long ones give way.")
    _type(f"policy set {SECOND}")
    cluster.rota("policy", "set", SECOND)
    with screen() as show:
        second = play(cluster, plan, SECOND, show)
    return [first, second], forecasts[0], crashes[0]


def _opening(cluster: DemoCluster, plan: DemoPlan) -> None:
    library = "PyTorch; the short ones NumPy" if "torch" in plan.start_s else "NumPy"
    _say(
        f"A cluster of four CPU slots in {cluster.folder}; {len(plan.jobs)} small training jobs ({library})."
    )
    _type(f"up {' '.join(SETTINGS)}")
    typer.echo(f"    {cluster.up().splitlines()[0]}\n")
    put_program(cluster.folder)


def _sum_up(rounds: list[Round], forecast: incidents.WhatIfAnswer, crash: incidents.Crash) -> None:
    _say(
        f"\nWhat `rota whatif` said in second {forecast.at_s:.0f} of the first round, and what came of it "
        "(seconds from submission to end)"
    )
    typer.echo(tables.forecast_text(forecast, rounds[0]))
    typer.echo(
        "Running jobs report what they have left (rota.training).  For waiting ones the forecast takes the\n"
        "time limit their user stated, here far more than they need, as users do, and so it is late.\n"
    )
    _say("Both rounds (seconds; waiting is all time without slots, completion counts from submission)")
    typer.echo(tables.rounds_text(rounds))
    (wait_a, jct_a), (wait_b, jct_b) = map(tables.means, rounds)
    preemptions = [sum(view["preemptions"] for view in played.views.values()) for played in rounds]
    typer.echo(
        f"tiresias against fifo in this run: mean completion {jct_b / jct_a:.2f} times, mean waiting "
        f"{wait_b / wait_a:.2f} times as long,\n"
        f"with {plural(preemptions[1], 'preemption')} against {preemptions[0]}; "
        "the long jobs pay for the short ones.  Other jobs, other numbers."
    )
    ends = [view["state"] for played in rounds for view in played.views.values()]
    typer.echo(
        f"The controller was away for {crash.down_s:.1f} s of the first round: {len(crash.kept)} of "
        f"{plural(len(crash.before), 'running job')} went on in the same\n"
        f"processes, and {ends.count('COMPLETED')} of {len(ends)} jobs completed, each once."
    )
    if crash.gone:
        typer.echo(f"Of the others: {'; '.join(crash.gone.values())}.")


def _say(text: str) -> None:
    typer.secho(text, bold=True)


def _type(command: str) -> None:
    """Print a command as a user would type it."""
    typer.secho(f"  $ rota {command}", fg=typer.colors.CYAN)


@contextmanager
def screen() -> Iterator[Show]:
    """Shows a round: to a person a table in its place, below other output; to a file plain lines."""
    if not sys.stdout.isatty():
        yield _print
        return
    from rich.console import Console
    from rich.live import Live

    with Live(console=Console(highlight=False), auto_refresh=False, transient=True) as live:
        yield lambda played, lines: live.update(picture(played), refresh=True)


def _print(played: Round, lines: list[str]) -> None:
    for line in lines:
        typer.echo(line)
    sys.stdout.flush()


def picture(played: Round) -> Table:
    """All jobs of a round, with how far they are."""
    from rich.table import Table

    seconds = time.time() - played.began_s
    table = Table(box=None, title=f"{played.policy}, second {seconds:.0f}", title_justify="left")
    for head in ("job", "slots", "state", "steps done"):
        table.add_column(head, justify="right" if head == "slots" else "left")
    for id in played.ids:
        view = played.views[id]
        full = round(BAR * played.done.get(id, 0.0))
        word = WORDS.get(view["state"], view["state"].lower())
        table.add_row(view["name"], str(view["gpus"]), word, "█" * full + "░" * (BAR - full))
    return table
