"""Ports, the way to other machines, and the name that this one would have as a node."""

from __future__ import annotations

import socket
from collections.abc import Iterator

from rota.cli.doctor.finding import FindingState, MachineFinding, MachinePlaces, first_line
from rota.engines.rota.ports import LOWEST, free_port
from rota.errors import RotaError
from rota.wire.node_names import check_node

FAR = ("192.0.2.1", 9)
"""An address for documentation: the kernel names the route to it, and nothing is sent."""
FEW_PORTS = 1000


def ports(machine: MachinePlaces) -> Iterator[MachineFinding]:
    """Whether ports can be opened and reached, and the ports that are left for gangs."""
    try:
        _reach(free_port())
    except OSError as error:
        why = f"no process can listen on a port of this machine: {error.strerror or error}"
        advice = "the controller and the ranks of a gang need ports: look at loopback (`ip link set lo up`)"
        yield MachineFinding("ports", FindingState.BROKEN, why, advice)
        return
    first = first_line(machine.proc / "sys/net/ipv4/ip_local_port_range").split()
    if len(first) != 2 or not all(map(str.isdecimal, first)):
        yield MachineFinding("ports", FindingState.OK, "a port can be listened on, and reached")
        return
    count = max(0, int(first[0]) - LOWEST)
    says = f"gangs meet at ports {LOWEST} to {int(first[0]) - 1}"
    facts = {"first": LOWEST, "count": count}
    if count < FEW_PORTS:
        advice = (
            "raise the first port of net.ipv4.ip_local_port_range: a port that the kernel gives away may "
        )
        advice += "be taken when a gang comes to listen on it"
        says = f"{count} ports are left that the kernel does not give away by itself"
        yield MachineFinding("ports", FindingState.ADVICE, says, advice, facts)
        return
    yield MachineFinding(
        "ports", FindingState.OK, says, "let nodes of one cluster reach each other there", facts
    )


def _reach(port: int) -> None:
    """Listen on a port of loopback and connect to it; OSError if that cannot be."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as listener:
        listener.bind(("127.0.0.1", port))
        listener.listen(1)
        with socket.create_connection(("127.0.0.1", port), timeout=2.0):
            pass


def address(machine: MachinePlaces) -> Iterator[MachineFinding]:
    """The address that other machines would reach this one at."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asker:
        try:
            asker.connect(FAR)
            own = str(asker.getsockname()[0])
        except OSError:
            yield MachineFinding(
                "address",
                FindingState.OK,
                "no way to other machines",
                "a cluster of this machine alone needs none",
            )
            return
    advice = "`rota agent --address` names another where jobs of several nodes meet by a faster network"
    yield MachineFinding("address", FindingState.OK, own, advice, {"address": own})


def node_name(machine: MachinePlaces) -> Iterator[MachineFinding]:
    """The host name, if it can name a node."""
    name = socket.gethostname()
    try:
        check_node(name)
    except RotaError as error:
        yield MachineFinding("node name", FindingState.BROKEN, str(error), "name this node with --node")
        return
    yield MachineFinding("node name", FindingState.OK, name, facts={"name": name})
