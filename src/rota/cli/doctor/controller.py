"""The controller of this machine's cluster: whether it answers, and whether its version and clock fit."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from rota.cli.doctor.finding import FindingState, MachineFinding, MachinePlaces
from rota.errors import RotaError
from rota.model.units import plural

if TYPE_CHECKING:
    from rota.client import Client

ANSWERS_S = 5.0
FAR_CLOCK_S = 2.0
"""Difference of two machines' clocks that is reported; agents' times are corrected by it."""


def controller(machine: MachinePlaces) -> Iterator[MachineFinding]:
    """Whether there is a controller, whether it works, and the troubles that it reports."""
    from rota.cli.live.connect import connect

    where = os.environ.get("ROTA_URL") or str(machine.home)
    if not _should_run(machine):
        yield MachineFinding("controller", FindingState.OK, f"none in {where}", "`rota up` starts one")
        return
    try:
        with connect(os.environ.get("ROTA_URL"), timeout_s=ANSWERS_S) as client:
            yield from _asked(client)
    except RotaError as error:
        advice = "`rota up` starts it again, and jobs that ran are found; its log says why it ended"
        if os.environ.get("ROTA_URL"):
            advice = "ROTA_URL names it: does it run there, and may it be reached from here?"
        yield MachineFinding("controller", FindingState.BROKEN, str(error), advice)
    yield from _agent(machine)


def settings(machine: MachinePlaces) -> Iterator[MachineFinding]:
    """Whether config.yaml and the environment can be understood."""
    from rota.server.config import choose

    try:
        chosen = choose(machine.home, {})
    except RotaError as error:
        yield MachineFinding("settings", FindingState.BROKEN, str(error), "`rota config` shows every setting")
        return
    given = [name for name, source in chosen.source.items() if source != "default"]
    says = f"set: {', '.join(given)}" if given else "all at their defaults"
    yield MachineFinding("settings", FindingState.OK, says, "`rota config` shows every setting")


def _should_run(machine: MachinePlaces) -> bool:
    """True if $ROTA_URL names a controller, or one was started here and not stopped since."""
    files = ("controller.sock", "controller.json")
    return "ROTA_URL" in os.environ or any((machine.home / name).exists() for name in files)


def _asked(client: Client) -> Iterator[MachineFinding]:
    health = _health(client)
    yield _fits(client.address, health)
    if "now_s" in health:
        yield _skew(float(health["now_s"]))
    try:
        status = client.call("GET", "/v1/status")
    except RotaError as error:
        advice = "`rota user token` makes a new one; --token-file, ROTA_TOKEN or $ROTA_HOME/tokens hold it"
        yield MachineFinding("access", FindingState.ADVICE, str(error), advice)
        return
    devices = f"{plural(status['nodes'], 'node')}, {plural(status['gpus'], 'device')}"
    yield MachineFinding(
        "cluster", FindingState.OK, f"{status['name']}: {devices}, policy {status['policy']}", facts=status
    )
    for trouble in status["troubles"]:
        yield MachineFinding(
            "trouble", FindingState.ADVICE, trouble, "`rota status`, `rota nodes` and `rota events` say more"
        )


def _health(client: Client) -> dict[str, Any]:
    from rota.client import Refused

    try:
        said: dict[str, Any] = client.call("GET", "/health")
    except Refused as refused:
        if refused.status != 503:
            raise
        return {"ok": False, "error": str(refused)}
    return said


def _fits(address: str, health: dict[str, Any]) -> MachineFinding:
    """Whether it works, and has our version."""
    from rota.model.revision import are_other, full_version
    from rota.wire.protocol import PROTOCOL

    if not health["ok"]:
        advice = "the last lines of logs/controller.log say what its store or its scheduler lacks"
        return MachineFinding(
            "controller", FindingState.BROKEN, f"{address} does not work: {health['error']}", advice
        )
    version, protocol = str(health.get("version", "")), health.get("protocol", PROTOCOL)
    facts = {"address": address, "version": version, "protocol": protocol}
    says = f"{address} answers: version {version}, protocol {protocol}"
    if protocol != PROTOCOL:
        older = "the controller" if str(protocol).isdigit() and int(protocol) < PROTOCOL else "this machine"
        advice = f"this machine speaks protocol {PROTOCOL}: {older} is older, upgrade Rota there"
        return MachineFinding("controller", FindingState.BROKEN, says, advice, facts)
    if are_other(version, full_version()):
        advice = (
            f"this machine has version {full_version()}: restart what is older, `rota down` and `rota up`"
        )
        return MachineFinding("controller", FindingState.ADVICE, says, advice, facts)
    return MachineFinding("controller", FindingState.OK, says, facts=facts)


def _skew(theirs_s: float) -> MachineFinding:
    ahead_s = time.time() - theirs_s
    facts = {"ahead_s": round(ahead_s, 3)}
    if abs(ahead_s) > FAR_CLOCK_S:
        way = "ahead of" if ahead_s > 0 else "behind"
        says = f"{abs(ahead_s):.1f} s {way} the cluster's"
        return MachineFinding(
            "clock here", FindingState.ADVICE, says, "chrony on both machines keeps them together", facts
        )
    return MachineFinding("clock here", FindingState.OK, "agrees with the cluster's", facts=facts)


def _agent(machine: MachinePlaces) -> Iterator[MachineFinding]:
    """The agent of this home, if one has ever worked here."""
    from rota.cli.background import agent_pid, dead_agent

    where = machine.home.absolute()
    if agent_pid(where) is not None:
        yield MachineFinding("agent", FindingState.OK, f"runs as process {agent_pid(where)}")
    elif node := dead_agent(where):
        says = f"that of node {node} does not run: jobs here go on, and no others start"
        yield MachineFinding("agent", FindingState.BROKEN, says, "`rota up` starts it again")
