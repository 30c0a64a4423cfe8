"""`rota snapshot` and `rota replay`: one moment of a run, kept in a file and decided again."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rota.cli.run_parameters import TraceArgument, takes_run_options
from rota.cli.shell import JsonFlag, check_file, complete_policy, console, print_json
from rota.model.one_thread import use_one_thread
from rota.model.units import format_duration, parse_duration, plural

if TYPE_CHECKING:
    from rota.api.moments import Replayed

SHOWN = 20
"""Waiting jobs to explain in text; JSON has all."""


@takes_run_options(
    "snapshot",
    semantics={"help": "Timing rules."},
    costs={"help": "As for `rota simulate`."},
)
def snapshot(
    trace: TraceArgument,
    *,
    policy: Annotated[
        str,
        typer.Option(
            metavar="NAME[:key=value,...]", help="The policy to ask.", autocompletion=complete_policy
        ),
    ],
    at: Annotated[str, typer.Option(metavar="TIME", help="Keep the first decision at or after it: 2d, 36h.")],
    out: Annotated[Path, typer.Option(metavar="FILE", help="Write the moment here.")],
    options: dict[str, Any],
    as_json: JsonFlag = False,
) -> None:
    """Simulate TRACE up to a moment and keep what the policy sees and remembers then.

    \b
    Example:
      rota snapshot jobs.csv --cluster 16x8 --policy srtf --at 2d --out monday.rota
    """
    check_file(out)
    at_s = parse_duration(at, field="--at")
    use_one_thread()
    import rota

    moment = rota.snapshot(trace, out, policy=policy, at_s=at_s, **options).snapshot()
    figures = {
        "file": str(out),
        "now_s": moment.now,
        "running": len(moment.running),
        "waiting": len(moment.waiting),
    }
    if as_json:
        print_json(figures)
        return
    running = plural(len(moment.running), "job")
    typer.echo(
        f"{out}: {format_duration(moment.now)} into the trace, {running} running, "
        f"{figures['waiting']:,} waiting"
    )


def replay(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="What `rota snapshot` wrote.")],
    policy: Annotated[
        str | None,
        typer.Option(
            metavar="NAME[:key=value,...]",
            help="Ask this policy instead; it begins with an empty memory.",
            autocompletion=complete_policy,
        ),
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Decide again at a stored moment, and say why the others wait.

    \b
    Examples:
      rota replay monday.rota
      rota replay monday.rota --policy fifo --json | jq .start
    """
    use_one_thread()
    import rota

    replayed = rota.replay(file, policy)
    if as_json:
        print_json(replayed.to_dict())
    else:
        _show(replayed)


def _show(replayed: Replayed) -> None:
    screen, facts = console(), replayed.to_dict()
    screen.print(
        f"{replayed.policy} at {format_duration(facts['now_s'])}: {facts['running']:,} running, "
        f"{facts['waiting']:,} waiting, {plural(facts['free_gpus'], 'GPU')} free",
        style="bold",
        markup=False,
    )
    for verb in ("start", "move"):
        for grant in facts[verb]:
            screen.print(
                f"{verb:8} {grant['job']}: {plural(grant['gpus'], 'GPU')} on {', '.join(grant['nodes'])}",
                markup=False,
            )
    for row in facts["preempt"]:
        screen.print(f"preempt  {row}", markup=False)
    for verb in ("reject", "cancel"):
        for name, why in facts[verb].items():
            screen.print(f"{verb:8} {name}: {why}", markup=False)
    for name, reasons in list(facts["wait"].items())[:SHOWN]:
        screen.print(f"wait     {name}: {'; '.join(one['sentence'] for one in reasons)}", markup=False)
    if len(facts["wait"]) > SHOWN:
        screen.print(f"... and {len(facts['wait']) - SHOWN:,} more wait; --json names them", markup=False)
