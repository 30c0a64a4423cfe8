"""`--costs measured`: what a running cluster has measured, in place of costs that somebody states."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from rota.cli.live.connect import SOCKET, connect
from rota.errors import InputError

if TYPE_CHECKING:
    from rota.client import Client
    from rota.worlds.simulated.costs import Costs

MEASURED = "measured"


def costs_of(text: str | None) -> str | Costs | None:
    """`text` as it is, or, if it is `measured`, `measured:HOME` or `measured:URL`, that cluster's costs."""
    if text is None or text.partition(":")[0] != MEASURED:
        return text
    from rota.wire.views import CostView
    from rota.worlds.simulated.measured_costs import measured_costs

    with _client(text.partition(":")[2]) as client:
        answer = client.call("GET", "/v1/costs")
        return measured_costs([CostView.model_validate(one) for one in answer], client.address)


def _client(where: str) -> Client:
    """Of the cluster in this ROTA_HOME, at this URL, or where other commands look for it."""
    from rota.client import Client

    if not where or "://" in where:
        return connect(where or None)
    socket = Path(where).expanduser() / SOCKET
    if not socket.exists():
        raise InputError.at(
            f"no rota is running in {where}: there is no {socket}",
            field="--costs",
            expected="measured, measured:URL, or measured:HOME with the ROTA_HOME of a cluster that is up",
        )
    return Client(str(socket))
