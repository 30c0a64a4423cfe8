"""`rota top`: devices and jobs as they are now."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from rota.cli.live.connect import live
from rota.cli.live.job_rows import LIVE_STATES, jobs_text
from rota.cli.live.nodes import devices_text, suspended_text
from rota.cli.live.tables import now_s, show_frames, wrapped
from rota.cli.shell import JsonFlag, print_json
from rota.model.units import format_duration, parse_duration, plural
from rota.model.words import count

if TYPE_CHECKING:
    from rota.client import Client
    from rota.wire.views import ClusterStatus, JobView, NodeView

SOONEST_S = 0.2
MOST_JOBS = 40


@live
def top(
    client: Client,
    once: Annotated[bool, typer.Option("--once", help="Print it once and end.")] = False,
    every: Annotated[str, typer.Option(metavar="DURATION", help="How often to look again.")] = "2s",
    as_json: JsonFlag = False,
) -> None:
    """Watch devices and jobs: what is granted, what is obtained.

    \b
    Examples:
      rota top
      rota top --once

    GRANTED is the share of a device that jobs claim, OBTAINED how busy it was when last looked at.
    Jobs under SUSPENDED have given up their turn, and still hold the memory that is counted there.
    """
    every_s = max(parse_duration(every, "--every"), SOONEST_S)
    if as_json:
        print_json({key: client.call("GET", f"/v1/{key}") for key in ("status", "nodes", "jobs")})
    elif once:
        typer.echo(_frame(client), nl=False)
    else:
        show_frames(lambda: _frame(client), every_s)


def _frame(client: Client) -> str:
    from rota.wire.views import ClusterStatus, JobView, NodeView

    status = ClusterStatus.model_validate(client.call("GET", "/v1/status"))
    nodes = [NodeView.model_validate(row) for row in client.call("GET", "/v1/nodes")]
    answer = client.call("GET", "/v1/jobs", query={"state": LIVE_STATES})
    return frame_text(status, nodes, [JobView.model_validate(row) for row in answer])


def frame_text(status: ClusterStatus, nodes: list[NodeView], jobs: list[JobView]) -> str:
    """Head, troubles, devices, memory of suspended jobs, jobs: those that run first."""
    head = wrapped(
        f"{status.name}: {status.policy}, {plural(status.nodes, 'node')}, "
        f"{count(status.gpus_used)} of {plural(status.gpus, 'device')} granted, "
        f"{status.running} running, {status.pending} pending, {status.suspended} suspended, "
        f"up {format_duration(now_s() - status.started_s)}"
    )
    parts = [head + "\n" + "".join(f"! {trouble}\n" for trouble in status.troubles)]
    parts.append(devices_text(nodes) + suspended_text(nodes))
    order = {"RUNNING": 0, "COMPLETING": 0, "SUSPENDED": 1}
    first = sorted(jobs, key=lambda job: order.get(job.state, 2))
    if first:
        more = len(first) - MOST_JOBS
        parts.append(jobs_text(first[:MOST_JOBS]) + (f"and {more} more\n" if more > 0 else ""))
    return "\n".join(parts)
