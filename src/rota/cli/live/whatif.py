"""`rota whatif`: the live jobs under other policies, or on more devices, side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rota.cli.live.connect import live
from rota.cli.live.tables import now_s, table_text
from rota.cli.shell import JsonFlag, complete_policy, print_json
from rota.errors import InputError
from rota.model.units import format_duration, plural
from rota.model.words import BASES, NONE, count, duration

if TYPE_CHECKING:
    from rota.client import Client
    from rota.wire.views import ForecastRow, WhatIf

LONGEST_S = 300.0
MOST_NAMED = 10_000
"""Names of the newest jobs that are shown."""


@live
def whatif(
    client: Client,
    policy: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME[:key=value,...]",
            help="Policies, joined by commas or given again; beside the one that decides now.",
            autocompletion=complete_policy,
        ),
    ] = None,
    gpus: Annotated[str, typer.Option(metavar="+N", help="Number of additional devices.")] = "+0",
    duration: Annotated[
        str, typer.Option(metavar="SOURCE", help="Source of durations: user, predicted, history.")
    ] = "user",
    seed: Annotated[int, typer.Option(metavar="N", min=0, help="Of durations that are sampled.")] = 0,
    as_json: JsonFlag = False,
) -> None:
    """Predict when the jobs start and finish under other policies.

    \b
    Examples:
      rota whatif --policy srtf,tiresias
      rota whatif --gpus +16
      rota whatif --policy srtf --duration history --json

    The live state is copied into a simulated cluster; nothing here changes.  Times are from now on.
    Unknown durations are sampled from the past of the job's tenant, and times are shown as a range.
    """
    from rota.wire.views import WhatIf

    if duration not in ("user", "predicted", "history"):
        problem = f"{duration!r} is none of them"
        raise InputError.at(problem, field="--duration", expected="user, predicted or history")
    now = client.call("GET", "/v1/policy")["policy"]
    question = {
        "policies": _asked(policy or [], now),
        "gpus": _more(gpus),
        "duration": duration,
        "seed": seed,
    }
    answer = client.call("POST", "/v1/whatif", question, timeout_s=LONGEST_S, idempotent=True)
    if as_json:
        print_json(answer)
        return
    from rota.client.paging import newest_jobs

    names = {row["id"]: row["name"] for row in newest_jobs(client, {}, MOST_NAMED)}
    typer.echo(whatif_text(WhatIf.model_validate(answer), names, now), nl=False)


def _asked(texts: Sequence[str], now: str) -> list[str]:
    """The policy that decides now, then those asked for, each once."""
    from rota.scheduler.policy import split_policies

    named = [name for text in texts for name in split_policies(text)]
    return list(dict.fromkeys([now, *named]))


def _more(text: str) -> int:
    digits = text.removeprefix("+").removeprefix("-")
    if not digits.isdecimal():
        raise InputError.at(
            f"{text!r} is no number of devices", field="--gpus", expected="how many more, such as +16"
        )
    return -int(digits) if text.startswith("-") else int(digits)


def whatif_text(answer: WhatIf, names: Mapping[str, str], now: str) -> str:
    """One line for each job with start and finish under each policy; totals by policy; sources."""
    policies = list(dict.fromkeys(row.policy for row in answer.rows))
    by_job: dict[str, dict[str, ForecastRow]] = {}
    for row in answer.rows:
        by_job.setdefault(row.job, {})[row.policy] = row
    heads = ["JOB", "~NAME"]
    for policy in policies:
        short = policy.replace(" ", "_")
        heads += [f">{short}:_START", ">FINISH"]
    rows = [_row(job, names.get(job, ""), policies, forecasts) for job, forecasts in by_job.items()]
    text = table_text(" ".join(heads), rows) if rows else "nothing waits or runs\n"
    note = f"{answer.note}\n" if answer.note else ""
    return text + "\n" + _summary(answer.summary, now) + _basis(answer) + note


def _row(job: str, name: str, policies: Sequence[str], rows: Mapping[str, ForecastRow]) -> list[str]:
    now = now_s()
    cells = [job, name]
    for policy in policies:
        row = rows.get(policy)
        if row is None:
            cells += [NONE, NONE]
            continue
        runs = row.start_s is not None and row.start_s <= now
        start = "runs" if runs else _span(row.start_s, row.start_low_s, row.start_high_s, now)
        cells += [start, _span(row.finish_s, row.finish_low_s, row.finish_high_s, now)]
    return cells


def _span(at_s: float | None, low_s: float | None, high_s: float | None, now: float) -> str:
    """`+5m`, `+5m..+2h` where it was sampled, `-` for never."""
    if low_s is not None and high_s is not None and high_s - low_s >= 1:
        return f"{_plus(low_s - now)}..{_plus(high_s - now)}"
    return NONE if at_s is None else _plus(at_s - now)


def _plus(seconds: float) -> str:
    return "+" + format_duration(max(seconds, 0.0)).replace(" ", "")


def _summary(summary: Sequence[Mapping[str, Any]], now: str) -> str:
    """The numbers of each policy; durations in words."""
    if not summary:
        return ""
    keys = [key for key in summary[0] if key != "policy"]
    heads = ["~POLICY", *(">" + key.removesuffix("_s").upper() for key in keys)]
    rows = []
    for line in summary:
        policy = str(line.get("policy", NONE))
        cells = [_cell(key, line.get(key)) for key in keys]
        rows.append([policy + (" (now)" if policy == now else ""), *cells])
    return table_text(" ".join(heads), rows)


def _cell(key: str, value: Any) -> str:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return duration(value) if key.endswith("_s") else count(value)
    return NONE if value is None else str(value)


def _basis(answer: WhatIf) -> str:
    known = ", ".join(f"{number} {BASES[source]}" for source, number in answer.basis.items() if number)
    total = plural(sum(answer.basis.values()), "duration")
    return f"{total}: {known}; took {answer.took_s:.1f} s\n" if known else f"took {answer.took_s:.1f} s\n"
