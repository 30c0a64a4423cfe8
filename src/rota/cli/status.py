"""`rota status`: the cluster in a few lines, with its troubles."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rota.cli.background import controller_pid, dead_agent
from rota.cli.live.connect import SOCKET, home, live, recorded_url
from rota.cli.service import flags_of_running
from rota.cli.shell import JsonFlag, console, print_json
from rota.cli.terminal import one_line
from rota.model.units import plural

if TYPE_CHECKING:
    from rota.client import Client


@live
def status(client: Client, as_json: JsonFlag = False) -> None:
    """Show what runs here, and what an operator should know."""
    said = client.call("GET", "/v1/status")
    is_here = client.address in (str(home() / SOCKET), recorded_url())
    here, node = _troubles_here(said["troubles"]) if is_here else ([], "")
    others = [
        trouble for trouble in said["troubles"] if not here or not trouble.startswith(f"node {node} is")
    ]
    said["troubles"] = others + here
    if as_json:
        print_json(said)
        return
    out = console()
    out.print(f"{said['name']} {said['version']}, policy {said['policy']}")
    out.print(
        f"  devices  {said['gpus_used']:g} of {said['gpus']} granted, on {plural(said['nodes'], 'node')}"
    )
    if said["autoscale"] is not None:
        out.print(f"  nodes    {_autoscale(said['autoscale'])}")
    out.print(
        f"  jobs     {said['running']} running, {said['pending']} pending, "
        f"{said['suspended']} suspended, {said['finished']} ended"
    )
    out.print(f"  state    {said['store']}")
    for drained in said.get("drained", ()):
        out.print(f"  drained  {one_line(drained)}")
    for trouble in said["troubles"]:
        out.print(f"  trouble  {one_line(trouble)}")


def _autoscale(said: dict[str, Any]) -> str:
    """The number of nodes that are wanted, and the state of the change."""
    leaving = [f"{', '.join(said['leaving'])} to be emptied"] if said["leaving"] else []
    remove = [f"{', '.join(said['remove'])} may go"] if said["remove"] else []
    there = f"{said['working']} of {said['wanted']} wanted ({said['least']} to {said['most']})"
    return "; ".join([there, *leaving, *remove])


def _troubles_here(known: list[str]) -> tuple[list[str], str]:
    """This machine's knowledge of its own agent while the controller hears nothing from it; and its node."""
    where = home().absolute()
    node = dead_agent(where) if controller_pid(where) is not None else ""
    is_lost = any(trouble.startswith(f"node {node} is lost") for trouble in known)
    if not node or is_lost or flags_of_running(where).get("devices") == "none":
        return [], node
    sentence = f"the agent of this machine (node {node}) does not run: jobs here go on"
    return [f"{sentence}; `rota up` starts it again"], node
