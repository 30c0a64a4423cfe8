"""`rota nodes` and `rota drain`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from rota.cli.live.connect import complete_node, live
from rota.cli.live.tables import now_s, table_text
from rota.cli.shell import JsonFlag, print_json
from rota.model.units import plural
from rota.model.words import ahead, count, gib, share

if TYPE_CHECKING:
    from rota.client import Client
    from rota.wire.views import DeviceView, NodeView

GIB = 2**30


@live
def nodes(
    client: Client,
    devices: Annotated[bool, typer.Option("--devices", "-d", help="A line for each device too.")] = False,
    forget: Annotated[
        list[str] | None,
        typer.Option(
            "--forget", metavar="NODE", help="Take a lost node out of the cluster; may be repeated."
        ),
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """List the machines and what they have.

    KEPT is what ended jobs left on the node's disk, FREE what is free there, in GiB.

    \b
    Examples:
      rota nodes
      rota nodes --devices
      rota nodes --forget gpu-3   # it was lost and will not be back

    A forgotten node is neither listed nor counted any more.  Its agent is refused until it joins again.
    """
    from rota.wire.views import NodeView

    if forget:
        _forget(client, forget, as_json)
        return
    answer = client.call("GET", "/v1/nodes")
    if as_json:
        print_json(answer)
        return
    views = [NodeView.model_validate(row) for row in answer]
    typer.echo(nodes_text(views), nl=False)
    typer.echo(mixed_versions(views), nl=False, err=True)
    if devices:
        typer.echo("\n" + devices_text(views), nl=False)
        typer.echo(_missing(views), nl=False)


def _forget(client: Client, names: Sequence[str], as_json: bool) -> None:
    """Make the controller forget lost nodes, and report it."""
    from rota.client import route

    answers = [
        client.call("POST", route("v1", "nodes", name, "forget"), {}, idempotent=True) for name in names
    ]
    if as_json:
        print_json(answers)
        return
    for node in answers:
        typer.echo(f"node {node['name']} is {node['state']}")


@live
def drain(
    client: Client,
    names: Annotated[list[str], typer.Argument(metavar="NODE...", autocompletion=complete_node)],
    reason: Annotated[str, typer.Option(metavar="TEXT", help="Why, for the record and for `rota why`.")] = "",
    undo: Annotated[bool, typer.Option("--undo", help="Let them take jobs again.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """Let nodes take no new jobs, or take them again.

    \b
    Examples:
      rota drain gpu-3 --reason "new power supply"
      rota drain gpu-3 --undo

    Jobs that run there go on until they end.
    """
    from rota.client import route

    verb = "undrain" if undo else "drain"
    answers = [
        client.call("POST", route("v1", "nodes", name, verb), {"reason": reason}, idempotent=True)
        for name in names
    ]
    if as_json:
        print_json(answers)
        return
    for node in answers:
        typer.echo(f"node {node['name']} is {node['state']}")


def nodes_text(nodes: Sequence[NodeView]) -> str:
    """One line for each node."""
    now = now_s()
    rows = [
        (
            node.name,
            node.state,
            node.kind,
            count(node.gpus),
            count(node.gpus_used),
            count(node.cpus),
            gib(node.memory_gib),
            gib(node.suspended_gib),
            gib(None if node.disk is None else (node.disk.files_bytes + node.disk.checkpoints_bytes) / GIB),
            gib(None if node.disk is None else node.disk.free_bytes / GIB),
            ahead(node.seen_s, now),
            node.reason,
        )
        for node in nodes
    ]
    return table_text(
        "^NODE STATE KIND >GPUS >USED >CPUS >GIB ?>SUSPENDED_GIB ?>KEPT >FREE >SEEN ~REASON", rows
    )


def mixed_versions(nodes: Sequence[NodeView]) -> str:
    """The nodes by version of Rota; empty if all known versions are equal."""
    names: dict[str, list[str]] = {}
    for node in nodes:
        names.setdefault(node.version, []).append(node.name)
    names.pop("", None)
    if len(names) < 2:
        return ""
    lines = [f"version {version} of Rota: {', '.join(names[version])}" for version in sorted(names)]
    return "\n" + "\n".join(lines) + "\n"


def devices_text(nodes: Sequence[NodeView]) -> str:
    """One line for each device: the share granted, the share obtained, and its jobs."""
    rows = [_device(device) for node in nodes for device in node.devices]
    return table_text("^DEVICE ~TYPE >GRANTED >OBTAINED >MEMORY_GIB ~JOBS ~SUSPENDED ~HEALTH", rows)


def _device(device: DeviceView) -> tuple[str, ...]:
    total = device.info.memory_gib
    memory = f"{gib(device.memory_used_gib)}/{gib(total)}" if total else gib(device.memory_used_gib)
    return (
        device.device,
        device.info.type,
        count(device.granted),
        share(device.utilisation),
        memory,
        ",".join(device.jobs),
        ",".join(device.suspended),
        "ok" if device.info.healthy else f"unhealthy: {device.info.why}",
    )


def _missing(nodes: Sequence[NodeView]) -> str:
    """What each node can do beyond starting and stopping, and why it cannot do the rest."""
    lines = [
        f"{node.name}: {what}: {how}\n" for node in nodes for what, how in sorted(node.capabilities.items())
    ]
    return "\n" + "".join(lines) if lines else ""


def suspended_text(nodes: Sequence[NodeView]) -> str:
    """Memory that suspended jobs hold, one line for each node where they hold any."""
    holding = [(node, {job for device in node.devices for job in device.suspended}) for node in nodes]
    return "".join(
        f"{node.name}: {gib(node.suspended_gib)} GiB held by {plural(len(jobs), 'suspended job')}\n"
        for node, jobs in holding
        if node.suspended_gib > 0 or jobs
    )
