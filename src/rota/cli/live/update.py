"""`rota update`: change what a job asks for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from rota.cli.live.connect import JobArgument, live
from rota.cli.live.tables import warn
from rota.cli.shell import JsonFlag, print_json
from rota.errors import InputError

if TYPE_CHECKING:
    from rota.client import Client

Text = str | None
NO_LIMIT = "none"
_WITHOUT: dict[str, dict[str, Any]] = {
    "time": {"time_s": None},
    "deadline": {"deadline_s": None},
    "begin": {"begin_s": None},
    "gpus_range": {"gpus_min": None, "gpus_max": None},
    "deadlines": {"deadlines": []},
    "batch_range": {"batch_min": None, "batch_max": None},
}
"""Fields that `none` resets, by option."""


@live
def update(
    client: Client,
    job: JobArgument,
    priority: Annotated[Text, typer.Option(metavar="N", help="Higher wins.")] = None,
    time: Annotated[Text, typer.Option(metavar="DURATION|none", help="Run time limit.")] = None,
    deadline: Annotated[Text, typer.Option(metavar="MOMENT|none", help="To be done by then.")] = None,
    begin: Annotated[Text, typer.Option(metavar="MOMENT|none", help="Not before.")] = None,
    gpus: Annotated[Text, typer.Option(metavar="N", help="How many devices.")] = None,
    gpus_range: Annotated[Text, typer.Option(metavar="MIN:MAX|none", help="Fewest and most devices.")] = None,
    weight: Annotated[Text, typer.Option(metavar="W", help="Its share relative to other jobs.")] = None,
    deadlines: Annotated[
        Text, typer.Option(metavar="MOMENT=VALUE,...|none", help="What it is worth by then.")
    ] = None,
    batch_range: Annotated[
        Text, typer.Option(metavar="MIN:MAX|none", help="Fewest and most samples of a step.")
    ] = None,
    name: Annotated[Text, typer.Option(metavar="NAME", help="What it is called.")] = None,
    comment: Annotated[Text, typer.Option(metavar="TEXT", help="For the record.")] = None,
    as_json: JsonFlag = False,
) -> None:
    """Change what a job asks for.

    \b
    Examples:
      rota update 17 --priority 10 --deadline +6h
      rota update 17 --time none
      rota update 17 --gpus 4
      rota update 17 --deadlines +2h=10,+6h=4 --weight 2

    With another number of devices a running job leaves by its checkpoint and starts again when it gets
    them.  It is refused if its program saves nothing: `rota requeue` lets such a job begin again.  All else
    cannot be changed: cancel the job and submit it again.
    """
    from rota.cli.live.job_rows import jobs_text
    from rota.client import route
    from rota.client.fields import check_fields, read_fields
    from rota.wire.views import JobView

    changes: dict[str, Any] = {}
    if gpus is not None:
        changes |= {"gpus_min": None, "gpus_max": None, **read_fields("gpus", gpus, "--gpus")}
    limits = {"time": time, "deadline": deadline, "begin": begin, "gpus_range": gpus_range}
    limits |= {"deadlines": deadlines, "batch_range": batch_range}
    plain = {"priority": priority, "weight": weight, "name": name, "comment": comment}
    for key, text in {**limits, **plain}.items():
        if text == NO_LIMIT and key in limits:
            changes |= _WITHOUT[key]
        elif text is not None:
            changes |= read_fields(key, text, "--" + key.replace("_", "-"))
    if not changes:
        raise InputError(
            "nothing to change; expected --priority, --time, --deadline or another of the options"
        )
    check_fields(changes)
    answer = client.call("PATCH", route("v1", "jobs", job), changes, idempotent=True)
    for warning in answer.get("warnings", ()):
        warn(warning)
    if as_json:
        print_json(answer)
    else:
        typer.echo(jobs_text([JobView.model_validate(answer)]), nl=False)
